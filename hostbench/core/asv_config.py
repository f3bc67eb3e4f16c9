"""A project's asv.conf.json, as far as it is read here."""

import json
import re
import tomllib
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, convert

from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored

CONFIG = "asv.conf.json"
_PLUGIN = ".hostbench.asv_env"
_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])")


class AsvConfig(Struct, frozen=True):
    """Its keys that are read here, with asv's defaults; other keys are passed over."""

    repo: str = "."
    repo_subdir: str = ""
    benchmark_dir: str = "benchmarks"
    results_dir: str = "results"
    plugins: tuple[str, ...] | None = None
    environment_type: str | None = None
    install_timeout: float = 600.0
    """Seconds that each command may take."""
    build_command: str | tuple[str, ...] | None = None
    install_command: str | tuple[str, ...] | None = None


def read(root: Path) -> AsvConfig:
    """The asv.conf.json in `root`: JSON with comments and trailing commas. Raises UsageError."""
    path = root / CONFIG
    if not path.is_file():
        return AsvConfig()
    try:
        text = _COMMENT.sub(r"\1", read_stored(path).decode())
        return convert(json.loads(_LAST_COMMA.sub(r"\1", text)), AsvConfig)
    except (ValueError, OSError, RecursionError) as error:
        raise UsageError(f"cannot read {path}: {error}; fix it") from error


def project_root(start: Path) -> Path | None:
    """The nearest folder from `start` upwards that holds asv.conf.json."""
    return next((d for d in (start, *start.parents) if (d / CONFIG).is_file()), None)


def asv_results(root: Path) -> Path:
    """The results folder that the asv.conf.json in `root` names. Raises UsageError."""
    return root / read(root).results_dir


def source_folder(root: Path) -> Path:
    """Where the files of the project in `root` lie that a commit brings: `repo` and `repo_subdir`
    of asv.conf.json; `root` itself where that names a repository elsewhere. Raises UsageError."""
    config = read(root)
    folder = root / config.repo / config.repo_subdir
    return folder.resolve() if folder.is_dir() else root.resolve()


def is_built(root: Path, source: Path) -> bool:
    """Whether pip builds the project of the files in `source`, as it does with all that it can
    build unless the asv.conf.json in `root` says `"build_command": []`. Raises UsageError."""
    config = read(root)
    if () in (config.build_command, config.install_command):
        return False
    if (source / "setup.py").is_file() or (source / "setup.cfg").is_file():
        return True
    with suppress(OSError, ValueError, RecursionError):
        declared = tomllib.loads(read_stored(source / "pyproject.toml").decode())
        return "project" in declared or "build-system" in declared
    return False


def without_plugin(root: Path) -> str | None:
    """What asv.conf.json in `root` lacks for asv to measure and to record by hostbench. Raises
    UsageError."""
    config = read(root)
    if _PLUGIN in (config.plugins or ()) and config.environment_type == "hostbench":
        return None
    return (
        f'{CONFIG} lacks "plugins": ["{_PLUGIN}"] or "environment_type": "hostbench": without both '
        "asv makes environments of its own, which have no hostbench"
    )
