"""`hostbench init`: what a git repository needs to measure its own commits, beside what it has."""

import contextlib
import keyword
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostbench import recipes
from hostbench.cli import init_files as init_files
from hostbench.cli import sync
from hostbench.cli.output import warn
from hostbench.cli.program import program
from hostbench.core import asv_config, own_package
from hostbench.core.asv_config import CONFIG
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, HostbenchError, UsageError
from hostbench.core.files import read_stored, write_atomic
from hostbench.families import broken_of_project
from hostbench.runner.places import asv_benchmarks, asv_results
from hostbench.vcs import repo
from hostbench.vcs.own import BESIDE
from hostbench.vcs.repo import GitError, is_ours

PYPROJECT = "pyproject.toml"
_FOLDERS = ("bench", "workloads")
"""Of the workloads, where pyproject.toml names none: the first that holds no other Python files,
which would be imported as workloads are."""
_NIGHTLY = "github-nightly.yml"
_PURE = ("setuptools", "hatchling", "flit_core", "poetry.core", "pdm.backend", "uv_build")
"""Build backends that only copy the files of a package of plain Python."""
_PURE_NEEDS = {re.sub(r"[._]", "-", name) for name in (*_PURE, "wheel")}
"""What such a build requires; anything else writes files: a version, an extension."""
_HEADER = re.compile(r"^[ \t]*\[[ \t]*tool[ \t]*\.[ \t]*hostbench[ \t]*\][^\r\n]*(\r?\n|\Z)", re.M)
_REMEDY = "make it writable, and try again"


@dataclass(frozen=True, slots=True, kw_only=True)
class InitOptions:
    """It has none: what is there decides."""


def execute(options: InitOptions) -> int:
    """Write what is lacking. Raises UsageError, before anything is written, where that cannot be
    done without harm. Exit code 4 where asv's view of the workloads could not be written."""
    root = _root()
    declared = _Declared(root)
    wanted = dict(_files(root, declared))
    for path in (*wanted, declared.path, asv_benchmarks(root) / "__init__.py"):
        _check_place(root, path)
    if root != Path.cwd().resolve():
        print(f"in {root}:")
    if declared.text is None:
        print(f"left as it is: {PYPROJECT}, which names {declared.workloads[0]}")
    else:  # first: with it, a call that was interrupted goes on where it was
        _write(root, declared.path, declared.text)
    for path, text in wanted.items():
        if path.exists() or path.is_symlink():
            print(f"left as it is: {path.relative_to(root)}")
        else:
            _write(root, path, text)
    is_synced = _write_benchmarks(root)
    print("\n".join(_next(root)))
    return EXIT_OK if is_synced else EXIT_FAILED


def _root() -> Path:
    """The top of the repository at hand. Raises UsageError where it has no files, or is
    hostbench's own."""
    here = Path.cwd()
    try:
        if repo.git(here, "rev-parse", "--is-inside-work-tree") != "true":
            raise UsageError(f"{here} is in a repository without files (a bare one): clone it")
        root = repo.top_level(here).resolve()
    except GitError as error:
        raise UsageError(f"{here}: {error}; `git init` makes one") from error
    if is_ours(root) or (root / "hostbench" / "asv_env.py").is_file():
        raise UsageError(f"{root} is hostbench's own checkout, or a copy of it: that has all of it")
    return root


class _Declared:
    """What pyproject.toml says, and what it is to say of the workloads."""

    def __init__(self, root: Path) -> None:
        """Raises UsageError where it cannot be read, or cannot be added to."""
        self.path = (root / PYPROJECT).resolve()
        """Of the file itself, where it is a link."""
        self.text: str | None = None
        """With the folder of workloads; None where it names one already."""
        old = _read(self.path)
        self.found = _parsed(old, self.path)
        named = _table(self.found, "tool", "hostbench").get("workloads")
        if named and not (isinstance(named, list) and all(isinstance(one, str) for one in named)):
            raise UsageError(
                f"{self.path}: workloads is {named!r:.60}, no list of folders; mend it"
            )
        self.workloads: list[str] = named or [_folder(root)]
        if not named:
            self.text = _added(old, self.found, self.path, self.workloads[0])

    @property
    def builds(self) -> bool:
        return "project" in self.found or "build-system" in self.found

    @property
    def is_plain(self) -> bool:
        """What it builds is the files of the package as they are."""
        system, tool = _table(self.found, "build-system"), _table(self.found, "tool")
        backend = str(system.get("build-backend", "setuptools"))
        requires = re.findall(r"'([\w.-]+)", str(system.get("requires", [])))
        needs = {re.sub(r"[._]+", "-", name).lower() for name in requires}
        more = (
            _table(tool, "setuptools").get("ext-modules"),
            _table(tool, "hatch", "build").get("hooks"),
            _table(tool, "poetry").get("build"),
        )
        return backend.startswith(_PURE) and needs <= _PURE_NEEDS and not any(more)

    @property
    def name(self) -> str:
        return str(_table(self.found, "project").get("name", ""))


def _table(found: dict[str, Any], *names: str) -> dict[str, Any]:
    """An empty one where there is none."""
    for name in names:
        inner = found.get(name)
        found = inner if isinstance(inner, dict) else {}
    return found


def _folder(root: Path) -> str:
    """`bench/`, or another. Raises UsageError where all are taken."""
    for name in _FOLDERS:
        if not any((root / name).rglob("*.py")):
            return f"{name}/"
    raise UsageError(
        f"{' and '.join(_FOLDERS)} hold Python files that may be no workloads: make a folder for "
        f"these, and name it in {PYPROJECT}: [tool.hostbench] workloads"
    )


def _read(path: Path) -> str:
    if not path.exists():
        return ""
    try:
        return read_stored(path).decode()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}; mend it") from error


def _parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"cannot read {path}: {error}; mend it") from error


def _added(old: str, found: dict[str, Any], path: Path, folder: str) -> str:
    """The same with the folder of workloads, and nothing else changed: it is parsed to see. Raises
    UsageError where that cannot be had by adding lines."""
    end = "\r\n" if "\r\n" in old else "\n"
    header = _HEADER.search(old)
    if header:
        start, rest = old[: header.end()], old[header.end() :]
        new = f"{start}{'' if start.endswith(end) else end}{init_files.key(folder)}\n{rest}"
    else:
        gap = "" if not old else "\n" if old.endswith("\n") else "\n\n"
        new = f"{old}{gap}{init_files.table(folder)}"
    new = new.replace("\r\n", "\n").replace("\n", end)
    tool = _table(found, "tool")
    table = {**_table(tool, "hostbench"), "workloads": [folder]}
    with contextlib.suppress(tomllib.TOMLDecodeError):
        if tomllib.loads(new) == {**found, "tool": {**tool, "hostbench": table}}:
            return new
    raise UsageError(
        f"{path} cannot be added to without changing what it says: give its table tool.hostbench "
        f'workloads = ["{folder}"] yourself, and try again'
    )


def _files(root: Path, declared: _Declared) -> Iterator[tuple[Path, str]]:
    """What there should be, beside pyproject.toml and asv's view of the workloads."""
    package = _package(root, declared)
    is_built = (root / "setup.py").exists() or (
        declared.builds and not (package and declared.is_plain)
    )
    project = declared.name or package or root.name
    yield root / CONFIG, init_files.asv_config(project, declared.workloads[0], built=is_built)
    folder = root / declared.workloads[0]
    if declared.text is not None or not any(folder.rglob("*.py")):
        if package:
            yield folder / "startup.py", init_files.startup(package)
        else:
            yield folder / "steps.py", init_files.STEPS
    yield asv_results(root) / ".gitignore", init_files.RESULTS
    results = asv_results(root).relative_to(root).as_posix()
    yield root / ".gitignore", init_files.ignore(results, _ignored(root))
    yield root / recipes.PLACES[_NIGHTLY], recipes.read(_NIGHTLY)


def _package(root: Path, declared: _Declared) -> str | None:
    """The project's package: the one of its name, else the first. A script beside it is none: what
    it does when it is imported nobody knows."""
    without = BESIDE | {asv_benchmarks(root).name, *_FOLDERS}
    package = own_package.unbuilt(asv_config.source_folder(root), without)
    folder = Path(package.folders[0])
    found = [
        name
        for name in package.names
        if folder != root or (folder / name).is_dir()
        if all(part.isidentifier() and not keyword.iskeyword(part) for part in name.split("."))
    ]
    words = {name: re.sub(r"[-.]+", "_", name).lower() for name in (*found, declared.name)}
    named = words[declared.name]
    return next((name for name in found if words[name] == named), found[0] if found else None)


def _check_place(root: Path, path: Path) -> None:
    """Raises UsageError for a place that is not in the repository, or cannot be written to."""
    parent = next(one for one in path.parents if one.exists() or one.is_symlink())
    if not parent.is_dir():
        raise UsageError(f"{parent} is no folder: {path.name} is to be in there; rename it")
    if not parent.resolve().is_relative_to(root):
        raise UsageError(f"{path} is outside {root}, by a link or by a setting: mend that")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write to {parent}: {_REMEDY}")


def _write(root: Path, path: Path, text: str) -> None:
    was_there = path.exists()
    mode = path.stat().st_mode if was_there else None
    write_atomic(path, text.encode(), _REMEDY)
    if mode is not None:
        path.chmod(mode & 0o7777)
    print(f"{'added to' if was_there else 'wrote'}: {path.relative_to(root)}")


def _write_benchmarks(root: Path) -> bool:
    """asv's view of the workloads, as far as it is lacking; whether it could be written."""
    try:
        with contextlib.chdir(root):  # where the project at hand is looked for
            for path, text in sync.wanted(root).items():
                if not path.exists():
                    _write(root, path, text)
            if wrong := broken_of_project():
                raise UsageError("; ".join(wrong.values()))
    except HostbenchError as error:
        name = asv_benchmarks(root).name
        warn(f"{error}; mend that, then `{program()} sync-benchmarks` writes {name}/")
        return False
    return True


def _next(root: Path) -> Iterator[str]:
    """What is left to do, and the commands to begin with."""
    yield ""
    if lacking := asv_config.without_plugin(root):
        yield f"your {lacking}"
    if kept := [name for name in _ignored(root) if not _is_ignored(root, name)]:
        yield f"add to .gitignore: {' '.join(kept)}"
    results = asv_results(root).relative_to(root).as_posix()
    if _is_ignored(root, f"{results}/"):
        yield f"git ignores {results}/: what is measured would stay on this machine; mend that"
    yield f"set HOSTBENCH in {recipes.PLACES[_NIGHTLY]}: where pip gets hostbench from"
    yield "then:"
    is_built = asv_config.build_commands(root, asv_config.source_folder(root))[1]
    commands = {
        **({"pip install -e .": "`run` measures what is installed"} if is_built else {}),
        f"{program()} run --quick": "a first measurement of the working tree",
        'git add . && git commit -m "Benchmarks by hostbench"': "what is committed has a history",
        f"{program()} ab HEAD": "your next change against that commit, interleaved",
        f"{program()} dashboard": "what was measured",
    }
    width = max(map(len, commands))
    for command, what in commands.items():
        yield f"  {command:{width}}  # {what}"


def _ignored(root: Path) -> tuple[str, ...]:
    """What asv and Python make anew, as .gitignore takes it."""
    if not (root / CONFIG).exists():
        return (".asv/", "__pycache__/")
    made = (asv_config.text_of(root, f"{name}_dir", name) for name in ("env", "html"))
    return (*(f"{name.strip('/')}/" for name in made), "__pycache__/")


def _is_ignored(root: Path, name: str) -> bool:
    try:
        repo.git(root, "check-ignore", "--quiet", paths=[name])
    except GitError:
        return False
    return True
