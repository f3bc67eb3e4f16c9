"""`hostbench init`: what a git repository needs to have its own commits measured. What is there
stays as it is."""

import contextlib
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from hostbench.cli.output import program, short, show, warn
from hostbench.core import asv_config
from hostbench.core.asv_config import CONFIG, asv_results
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, HostbenchError, UsageError
from hostbench.core.files import read_stored, shipped, write_atomic
from hostbench.core.user_project import benchmark_folder, is_hostbench, unbuilt, workload_files
from hostbench.families import broken, user_families
from hostbench.vcs import repo
from hostbench.vcs.repo import GitError

WORKFLOW = ".github/workflows/hostbench-nightly.yml"
RECIPES = {WORKFLOW: "github-nightly.yml", ".github/share-results.sh": "share-results.sh"}
_COPYING = ("setuptools", "hatchling", "flit_core", "poetry.core", "pdm.backend", "uv_build")
"""Build backends that only copy the files of a package of plain Python."""
_NO_BUILD = re.compile(r' +// Nothing is built.*?"install_command": \[\],\n', re.DOTALL)
"""Those lines of the recipe of asv.conf.json."""


def execute() -> int:
    """Write what is lacking. Raises UsageError, before anything is written, where that cannot be
    done without harm. Exit code 4 where the workloads cannot be imported."""
    here = Path.cwd()
    try:
        root = repo.top_level(here).resolve()
    except GitError as error:
        raise UsageError(f"{here}: {error}; `git init` makes a repository") from error
    if is_hostbench(root):
        raise UsageError(f"{root} is hostbench's own checkout, or a copy of it: nothing is lacking")
    pyproject = root / "pyproject.toml"
    try:
        declared = tomllib.loads(read_stored(pyproject).decode()) if pyproject.exists() else {}
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {pyproject}: {error}; fix it") from error
    name = str(declared.get("project", {}).get("name", ""))
    package = _package(root, name)
    backend = declared.get("build-system", {}).get("build-backend", _COPYING[0])
    is_built = (root / "setup.py").exists() or not backend.startswith(_COPYING)
    files = dict(_files(root, name or package or root.name, package, is_built))
    for path in files:
        parent = next(above for above in path.parents if above.exists() or above.is_symlink())
        if not parent.is_dir():
            raise UsageError(f"{parent} is not a folder: {path.name} is to be in there; rename it")
        if not path.resolve().is_relative_to(root):
            raise UsageError(f"{path} is outside {root}, by a link or by a setting: fix that")
    for path, text in files.items():
        is_there = path.exists() or path.is_symlink()
        if not is_there:
            write_atomic(path, text.encode(), "make it writable, and try again")
        show(f"{'left as it is' if is_there else 'wrote'}: {short(path)}")
    why = _broken(root)
    if why:
        warn(f"{why}; fix that")
    show("\n".join(["", *_left_to_do(root), "then:", *_first_commands(root, package)]))
    return EXIT_FAILED if why else EXIT_OK


def recipe(name: str) -> str:
    """The text of a file of docs/recipes, in a checkout or as the wheel has it."""
    return shipped(f"docs/recipes/{name}").read_text()


def _package(root: Path, project: str) -> str | None:
    """The package of the project's name, else the first; no script, for what that does when it is
    imported nobody knows."""
    source = asv_config.source_folder(root)
    copy = unbuilt(root, source)
    is_flat = Path(copy.folder) == source
    names = [n for n in copy.names if n.replace(".", "_").isidentifier()]
    names = [n for n in names if not is_flat or (source / n).is_dir()]

    def plain(name: str) -> str:
        return re.sub(r"[-._]+", "-", name).lower()

    return next((n for n in names if plain(n) == plain(project)), next(iter(names), None))


def _files(
    root: Path, project: str, package: str | None, is_built: bool
) -> Iterator[tuple[Path, str]]:
    """What there should be. `is_built`: a commit's package is more than its files as they are."""
    benchmarks, results = benchmark_folder(root), asv_results(root)
    asv = recipe(f"project/{CONFIG}").replace("PROJECT", json.dumps(project))
    yield root / CONFIG, _NO_BUILD.sub("", asv) if package and is_built else asv
    yield benchmarks / "__init__.py", ""  # asv wants a package
    if not workload_files(benchmarks):
        if package:
            startup = recipe("project/startup.py").replace("PACKAGE", package)
            yield benchmarks / "startup.py", startup
        else:
            model = asv_config.source_folder(root) / "example_model.py"
            yield model, recipe("project/example_model.py")
            yield benchmarks / "steps.py", recipe("project/steps.py")
    yield results / ".gitignore", recipe("project/results.gitignore")
    ignored = recipe("project/root.gitignore")
    yield root / ".gitignore", ignored.replace("RESULTS", results.relative_to(root).as_posix())
    for path, name in RECIPES.items():
        yield root / path, recipe(name)


def _broken(root: Path) -> str:
    """Why workloads of the project cannot be imported; empty where they can."""
    try:
        with contextlib.chdir(root):  # where the project's workloads are looked for
            return "; ".join(why for name, why in broken().items() if name in user_families())
    except HostbenchError as error:
        return str(error)


def _left_to_do(root: Path) -> Iterator[str]:
    if lacking := asv_config.without_plugin(root):
        yield f"your {lacking}"
    aside, results = (".asv/", "__pycache__/"), f"{asv_results(root).relative_to(root).as_posix()}/"
    try:
        ignored = repo.git(root, "check-ignore", paths=[*aside, results]).splitlines()
    except GitError:  # as git says that it ignores none of them
        ignored = []
    if visible := [name for name in aside if name not in ignored]:
        yield f"add to .gitignore: {' '.join(visible)}"
    if results in ignored:
        yield f"git ignores {results}: what is measured would stay on this machine; fix that"
    yield f"set HOSTBENCH in {WORKFLOW} to what pip installs hostbench from"


def _first_commands(root: Path, package: str | None) -> Iterator[str]:
    code = package or "example_model"
    commands = {
        f"{program()} run --quick": "a first measurement of the working tree",
        'git add . && git commit -m "Benchmarks by hostbench"': "what is committed has a history",
        f"{program()} ab HEAD": f"after a change to {code}: against that commit",
        f"{program()} dashboard": "what was measured",
    }
    if asv_config.build_commands(root, asv_config.source_folder(root))[1]:
        commands = {"pip install -e .": "`run` measures what is installed", **commands}
    width = max(map(len, commands))
    for command, comment in commands.items():
        yield f"  {command:{width}}  # {comment}"
