"""A project's asv.conf.json, as far as it is read here."""

import importlib
import importlib.util
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from hostbench.core.errors import UsageError
from hostbench.core.files import read_stored

CONFIG = "asv.conf.json"
_PLUGIN = ".hostbench.asv_env"


def project_root(start: Path) -> Path | None:
    """The nearest folder from `start` upwards that holds asv.conf.json."""
    return next((d for d in (start, *start.parents) if (d / CONFIG).is_file()), None)


def text_of(root: Path, key: str, usual: str) -> str:
    """What the asv.conf.json in `root` says there; `usual` where it says nothing, or is lacking.

    Raises UsageError when the file cannot be read.
    """
    named = read(root).get(key, usual)
    if not isinstance(named, str):
        raise unreadable(root, f"{key} is {named!r:.60}, no text")
    return named


def asv_results(root: Path) -> Path:
    """The results folder that the asv.conf.json in `root` names; `results` when it names none."""
    return root / text_of(root, "results_dir", "results")


def commands_of(root: Path, key: str) -> tuple[str, ...] | None:
    """The same of commands, as asv takes them: one, or a list; None where it names none. Raises
    UsageError."""
    named = read(root).get(key)
    commands = [named] if isinstance(named, str) else named
    if commands is None:
        return None
    if not isinstance(commands, list) or not all(isinstance(command, str) for command in commands):
        raise unreadable(root, f"{key} is {named!r:.60}, no list of commands")
    return tuple(commands)


_BUILD = ("python -m pip wheel --no-deps -w {build_cache_dir} {build_dir}",)
_INSTALL = ("python -m pip install --no-deps {wheel_file}",)


def build_commands(root: Path, source: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what builds, what installs) the project whose asv.conf.json lies in `root`, of the files in
    `source`. Where that names neither, pip does both for what it can build. Raises UsageError."""
    build, install = (commands_of(root, key) for key in ("build_command", "install_command"))
    if build is None:
        build = _BUILD if install != () and _is_buildable(source) else ()
    if install is None:
        install = _INSTALL if build else ()
    return build, install


def without_plugin(root: Path) -> str | None:
    """What asv.conf.json in `root` lacks for asv to measure and to record by hostbench. Raises
    UsageError."""
    config = read(root)
    is_there = _PLUGIN in (config.get("plugins") or ())
    if is_there and config.get("environment_type") == "hostbench":
        return None
    return (
        f'{CONFIG} lacks "plugins": ["{_PLUGIN}"] or "environment_type": "hostbench": without both '
        "asv makes environments of its own, which have no hostbench"
    )


def source_folder(root: Path) -> Path:
    """Where the files of the project in `root` lie that a commit brings: `repo` and `repo_subdir`
    of asv.conf.json; `root` itself where that names a repository elsewhere. Raises UsageError."""
    folder = root / text_of(root, "repo", ".") / text_of(root, "repo_subdir", "")
    return folder.resolve() if folder.is_dir() else root.resolve()


def _is_buildable(source: Path) -> bool:
    if (source / "setup.py").is_file() or (source / "setup.cfg").is_file():
        return True
    try:
        declared = tomllib.loads((source / "pyproject.toml").read_text())
    except (OSError, ValueError):
        return False
    return "project" in declared or "build-system" in declared


def read(root: Path) -> dict[str, Any]:
    """All of it; nothing where there is no such file. Raises UsageError."""
    path = root / CONFIG
    if not path.is_file():
        return {}
    try:
        config = _parse(read_stored(path).decode())
        if not isinstance(config, dict):
            raise ValueError(f"it holds {config!r:.60}, no object")
        return config
    except (ValueError, OSError, RecursionError) as error:
        raise unreadable(root, str(error)) from error


def unreadable(root: Path, why: str) -> UsageError:
    return UsageError(f"cannot read {root / CONFIG}: {why}; mend it")


_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*[}\]])")


def _parse(text: str) -> Any:
    """JSON with comments and trailing commas; all of JSON5, as asv reads it, where asv is there."""
    plain = _LAST_COMMA.sub(r"\1", _COMMENT.sub(r"\1", text))
    try:
        return json.loads(plain)
    except ValueError:
        if importlib.util.find_spec("json5") is None:
            raise
        return importlib.import_module("json5").loads(text)
