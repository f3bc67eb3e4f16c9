"""`hostbench init`: what a git repository needs to have its own commits measured. What is there
stays as it is."""

import contextlib
import json
import keyword
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hostbench
from hostbench.cli.output import show, warn
from hostbench.cli.program import program
from hostbench.core import asv_config, own_package
from hostbench.core.asv_config import CONFIG
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, HostbenchError, UsageError
from hostbench.core.files import read_stored, write_atomic
from hostbench.core.user_project import benchmark_folder, is_hostbench, workload_files
from hostbench.families import broken, user_families
from hostbench.runner.places import asv_results
from hostbench.vcs import repo
from hostbench.vcs.repo import GitError
from hostbench.vcs.user_side import BESIDE

WORKFLOW = ".github/workflows/hostbench-nightly.yml"
RECIPES = {WORKFLOW: "github-nightly.yml", ".github/share-results.sh": "share-results.sh"}
_COPYING_BACKENDS = ("setuptools", "hatchling", "flit_core", "poetry.core", "pdm.backend",
                     "uv_build")  # fmt: skip
"""Build backends that only copy the files of a package of plain Python."""
_COPYING_NEEDS = {re.sub(r"[._]", "-", name) for name in (*_COPYING_BACKENDS, "wheel")}
"""What such a build requires; anything else writes files: a version, an extension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """It has none: what is there decides."""


def execute(options: InitOptions) -> int:
    """Write what is lacking. Raises UsageError, before anything is written, where that cannot be
    done without harm. Exit code 4 where the workloads cannot be imported."""
    root = _root()
    project = _Project(root)
    files = dict(_files(project))
    for path in files:
        _check_inside(root, path)
    if root != Path.cwd().resolve():
        show(f"in {root}:")
    for path, text in files.items():
        if path.exists() or path.is_symlink():
            show(f"left as it is: {path.relative_to(root)}")
        else:
            _write(root, path, text)
    why = _broken(root)
    if why:
        warn(f"{why}; mend that")
    show("\n".join(_next_steps(project)))
    return EXIT_FAILED if why else EXIT_OK


def recipe(name: str) -> str:
    """The text of a file of docs/recipes, in a checkout or as the wheel has it."""
    package = Path(hostbench.__file__).parent
    folders = (package.parent / "docs", package / "_docs")
    paths = (folder / "recipes" / name for folder in folders)
    return next(path for path in paths if path.is_file()).read_text()


def _root() -> Path:
    """The top of the repository. Raises UsageError where there is none, and in hostbench's own."""
    here = Path.cwd()
    try:
        root = repo.top_level(here).resolve()
    except GitError as error:
        raise UsageError(f"{here}: {error}; `git init` makes a repository") from error
    if is_hostbench(root):
        raise UsageError(f"{root} is hostbench's own checkout, or a copy of it: nothing is lacking")
    return root


class _Project:
    """What pyproject.toml and the files of a project say of it."""

    def __init__(self, root: Path) -> None:
        """Raises UsageError where pyproject.toml cannot be read."""
        self.root = root
        self.benchmarks = benchmark_folder(root)
        path = root / "pyproject.toml"
        try:
            self.table = tomllib.loads(read_stored(path).decode()) if path.exists() else {}
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read {path}: {error}; mend it") from error
        self.package = self._find_package()

    def _find_package(self) -> str | None:
        """The package of the project's name, else the first; no script, for what that does when it
        is imported nobody knows."""
        source = asv_config.source_folder(self.root)
        aside = BESIDE | {self.benchmarks.name}
        copy = own_package.unbuilt(source, aside)
        folder = Path(copy.folders[0])
        names = [
            name
            for name in copy.names
            if folder != source or (folder / name).is_dir()
            if all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))
        ]
        own = _normalized(str(_table(self.table, "project").get("name", "")))
        return next((name for name in names if _normalized(name) == own), next(iter(names), None))

    @property
    def name(self) -> str:
        return str(_table(self.table, "project").get("name") or self.package or self.root.name)

    @property
    def is_built(self) -> bool:
        """Whether a commit's package is more than its files as they are."""
        if self.package is None:
            return False
        if (self.root / "setup.py").exists():
            return True
        if not {"project", "build-system"} & {*self.table}:
            return False
        system, tool = _table(self.table, "build-system"), _table(self.table, "tool")
        requires = re.findall(r"'([\w.-]+)", str(system.get("requires", [])))
        generates = (
            _table(tool, "setuptools").get("ext-modules"),
            _table(tool, "hatch", "build").get("hooks"),
            _table(tool, "poetry").get("build"),
        )
        copies = str(system.get("build-backend", "setuptools")).startswith(_COPYING_BACKENDS)
        return not copies or any(generates) or not {*map(_normalized, requires)} <= _COPYING_NEEDS


def _normalized(name: str) -> str:
    return re.sub(r"[-._]+", "-", name).lower()


def _table(values: dict[str, Any], *names: str) -> dict[str, Any]:
    """A table in there; an empty one where there is none."""
    for name in names:
        inner = values.get(name)
        values = inner if isinstance(inner, dict) else {}
    return values


def _files(project: _Project) -> Iterator[tuple[Path, str]]:
    """What there should be, beside pyproject.toml."""
    root = project.root
    asv = recipe(f"project/{CONFIG}")
    asv = asv.replace("    BUILD\n", "" if project.is_built else _NO_BUILD)
    yield root / CONFIG, asv.replace("PROJECT", json.dumps(project.name))
    yield project.benchmarks / "__init__.py", ""  # asv wants a package
    if not workload_files(project.benchmarks):
        if project.package:
            text = recipe("project/startup.py").replace("PACKAGE", project.package)
            yield project.benchmarks / "startup.py", text
        else:
            source = asv_config.source_folder(root)
            yield source / "example_model.py", recipe("project/example_model.py")
            yield project.benchmarks / "steps.py", recipe("project/steps.py")
    results = asv_results(root)
    yield results / ".gitignore", _RESULTS
    yield root / ".gitignore", _IGNORE % results.relative_to(root).as_posix()
    for path, name in RECIPES.items():
        yield root / path, recipe(name)


def _check_inside(root: Path, path: Path) -> None:
    """Raises UsageError for a place that is not in the repository."""
    parent = next(above for above in path.parents if above.exists() or above.is_symlink())
    if not parent.is_dir():
        raise UsageError(f"{parent} is no folder: {path.name} is to be in there; rename it")
    if not path.resolve().is_relative_to(root):
        raise UsageError(f"{path} is outside {root}, by a link or by a setting: mend that")


def _write(root: Path, path: Path, text: str) -> None:
    write_atomic(path, text.encode(), "make it writable, and try again")
    show(f"wrote: {path.relative_to(root)}")


def _broken(root: Path) -> str:
    """Why workloads of the project cannot be imported; empty where they can."""
    try:
        with contextlib.chdir(root):  # where the project's workloads are looked for
            return "; ".join(why for name, why in broken().items() if name in user_families())
    except HostbenchError as error:
        return str(error)


def _next_steps(project: _Project) -> Iterator[str]:
    """What is left to do, and the commands to begin with."""
    root = project.root
    yield ""
    if lacking := asv_config.without_plugin(root):
        yield f"your {lacking}"
    if visible := [name for name in (".asv/", "__pycache__/") if not _is_ignored(root, name)]:
        yield f"add to .gitignore: {' '.join(visible)}"
    results = asv_results(root).relative_to(root).as_posix()
    if _is_ignored(root, f"{results}/"):
        yield f"git ignores {results}/: what is measured would stay on this machine; mend that"
    yield f"set HOSTBENCH in {WORKFLOW}: where pip gets hostbench from"
    yield "then:"
    measured = project.package or "example_model"
    commands = {
        f"{program()} run --quick": "a first measurement of the working tree",
        'git add . && git commit -m "Benchmarks by hostbench"': "what is committed has a history",
        f"{program()} ab HEAD": f"after a change of {measured}: against that commit",
        f"{program()} dashboard": "what was measured",
    }
    if asv_config.build_commands(root, asv_config.source_folder(root))[1]:
        commands = {"pip install -e .": "`run` measures what is installed", **commands}
    width = max(map(len, commands))
    for command, comment in commands.items():
        yield f"  {command:{width}}  # {comment}"


def _is_ignored(root: Path, name: str) -> bool:
    try:
        repo.git(root, "check-ignore", "--quiet", paths=[name])
    except GitError:
        return False
    return True


_NO_BUILD = """\
    // Nothing is built: each commit's files are put on the path as they are.
    "build_command": [],
    "install_command": [],
"""
_RESULTS = """\
# What hostbench and asv measure lies here, a folder for each machine, to be committed: files of
# many machines and commits merge without conflicts. Nobody edits them.
# Not kept in git: journals of runs in progress, which end up in runs/.
*.jsonl
"""
_IGNORE = """\
# asv's working copies and pages, and Python's bytecode: made anew whenever they are needed.
# What is measured goes to %s/, and is kept.
.asv/
__pycache__/
"""
