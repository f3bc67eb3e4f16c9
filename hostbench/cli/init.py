"""`hostbench init`: what a git repository needs to have its own commits measured. What is there
stays as it is."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

from hostbench.cli.output import program, short, show
from hostbench.core import asv_config
from hostbench.core.asv_config import CONFIG, asv_results
from hostbench.core.errors import EXIT_OK, UsageError
from hostbench.core.files import shipped, write_atomic
from hostbench.core.user_project import benchmark_folder, is_hostbench, unbuilt, workload_files
from hostbench.vcs import repo
from hostbench.vcs.repo import GitError

WORKFLOW = ".github/workflows/hostbench-nightly.yml"
RECIPES = {WORKFLOW: "github-nightly.yml", ".github/share-results.sh": "share-results.sh"}


def execute() -> int:
    """Write what is lacking. Raises UsageError, before anything is written, for what would lie
    outside the repository."""
    here = Path.cwd()
    try:
        root = repo.top_level(here).resolve()
    except GitError as error:
        raise UsageError(f"{here}: {error}; `git init` makes a repository") from error
    if is_hostbench(root):
        raise UsageError(f"{root} is hostbench's own checkout, or a copy of it: nothing is lacking")
    package = _package(root)
    files = dict(_files(root, package))
    for path in files:
        if not path.resolve().is_relative_to(root):
            raise UsageError(f"{path} is outside {root}, by a link or by a setting: fix that")
    for path, text in files.items():
        is_there = path.exists() or path.is_symlink()
        if not is_there:
            write_atomic(path, text.encode(), "make it writable, and try again")
        show(f"{'left as it is' if is_there else 'wrote'}: {short(path)}")
    if lacking := asv_config.without_plugin(root):
        show(f"\nyour {lacking}")
    show(f"""
git is to ignore .asv/ and __pycache__/, and to keep {short(asv_results(root))}/
set HOSTBENCH in {WORKFLOW} to what pip installs hostbench from
then:
  {program()} run --quick  # a first measurement of the working tree
  git add . && git commit -m "Benchmarks by hostbench"  # what is committed has a history
  {program()} ab HEAD  # after a change to {package or "example_model"}: against that commit
  {program()} dashboard  # what was measured""")
    return EXIT_OK


def recipe(name: str) -> str:
    """The text of a file of docs/recipes, in a checkout or as the wheel has it."""
    return shipped(f"docs/recipes/{name}").read_text()


def _package(root: Path) -> str | None:
    """The first package in there; no script, for what that does when it is imported nobody
    knows."""
    source = asv_config.source_folder(root)
    copy = unbuilt(root, source)
    is_flat = Path(copy.folder) == source
    names = (name for name in copy.names if name.replace(".", "_").isidentifier())
    return next((name for name in names if not is_flat or (source / name).is_dir()), None)


def _files(root: Path, package: str | None) -> Iterator[tuple[Path, str]]:
    """What there should be."""
    benchmarks, results = benchmark_folder(root), asv_results(root)
    project = json.dumps(package or root.name)
    yield root / CONFIG, recipe(f"project/{CONFIG}").replace("PROJECT", project)
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
    yield root / ".gitignore", ignored.replace("RESULTS", os.path.relpath(results, root))
    for path, name in RECIPES.items():
        yield root / path, recipe(name)
