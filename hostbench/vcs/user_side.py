"""A side of a user's project: its package from one tree of its files, and the workloads of its
working tree, whichever side it is."""

from dataclasses import dataclass
from pathlib import Path

from hostbench.core import own_package, user_project
from hostbench.core.asv_config import source_folder
from hostbench.core.errors import UsageError
from hostbench.core.own_package import OwnPackage
from hostbench.core.user_project import WORKLOADS, benchmark_folder, is_hostbench, workload_folder
from hostbench.runner.places import asv_results
from hostbench.vcs import repo
from hostbench.vcs.build import package_of

BESIDE = frozenset({"test", "tests", "doc", "docs", "example", "examples", "scripts", "tools"})
"""Folders that lie beside a package, and are none that a project installs."""
_NO_SUBMODULES = "submodules are left out: their folders are empty in what is measured"
_CHANGED = "workloads with uncommitted changes"


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSide:
    """What a side of such a project needs besides its commit."""

    variables: dict[str, str]
    """Of its workers: where they import the package and the workloads from."""
    scratch: str | None
    """Why what it measures belongs to no commit, as far as the workloads go."""
    remarks: tuple[str, ...]


def scratch(root: Path) -> str | None:
    """Why what the project's workloads measure belongs to no commit, whichever package it is.
    Raises GitError."""
    return _CHANGED if _workloads_differ(root, None) else None


def _workloads_differ(root: Path, commit: str | None) -> bool:
    """Whether they are others in the working tree than in the commit, HEAD without one."""
    folder = _workloads(root)
    return folder is not None and repo.differ(root, commit, None, [f":(top){folder}"])


def another_installed(root: Path) -> str | None:
    """Why a run measures other files than those of the project at `root`: where they are built, it
    imports the package that is installed. None where that is theirs, or has the same texts; what is
    compiled cannot be told apart."""
    if is_hostbench(root) or user_project.package() is not None:
        return None
    source = source_folder(root)
    package = own_package.unbuilt(source, {benchmark_folder(root).name, *BESIDE})
    (folder,) = map(Path, package.folders)
    for name in package.names:
        ours, theirs = folder.joinpath(*name.split(".")), own_package.installed(name)
        alone = ours.with_suffix(".py")
        if theirs is None or (alone.is_file() and folder == source):  # a script beside a package
            continue
        pairs = [(path, theirs / path.relative_to(ours)) for path in ours.rglob("*.py")]
        if any(_texts_differ(*pair) for pair in pairs or [(alone, theirs)]):
            return f"another {name} is installed: `pip install -e .` puts this one there"
    return None


def _texts_differ(ours: Path, theirs: Path) -> bool:
    """What only one of them has is generated, or was left out."""
    return ours.is_file() and theirs.is_file() and ours.read_bytes() != theirs.read_bytes()


def side_of(root: Path, name: str, commit: str | None, folder: Path) -> UserSide:
    """The package of a commit, or as it is now, made in `folder`. Raises UsageError or GitError."""
    folder.mkdir(parents=True)
    tree, working = folder / "tree", _working_tree(root, folder)
    if commit is None:
        tree.symlink_to(working)
    else:
        repo.check_out(root, commit, tree)
    project = _project_folder(root)
    if not (tree / project).is_dir():
        raise UsageError(f"{name} has no folder {project}, where asv.conf.json has the project")
    without = {benchmark_folder(root).name}
    package = package_of(root, (tree / project).resolve(), folder / "build", commit, without)
    # What only the other side has must not be imported from wherever else it may be installed.
    others = own_package.unbuilt(working / project, without).names
    names = tuple(sorted({*package.names, *others}))
    remarks = [_NO_SUBMODULES] if (tree / ".gitmodules").exists() else []
    if commit and _workloads_differ(root, commit):
        remarks.append(
            f"{_workloads(root)}/ is another at {name}: both sides run the workloads of the "
            "working tree"
        )
    return UserSide(
        variables={
            own_package.VARIABLE: OwnPackage(folders=package.folders, names=names).encoded(),
            WORKLOADS: str(_copied_workloads(root, working)),
        },
        scratch=scratch(root),
        remarks=tuple(remarks),
    )


def pathspecs(root: Path) -> tuple[str, ...]:
    """Of the files that a commit brings to what is measured."""
    top, project = repo.top_level(root).resolve(), _project_folder(root)
    aside = (asv_results(root).resolve(), benchmark_folder(root).resolve())
    excluded = (
        f":(top,exclude){path.relative_to(top)}" for path in aside if path.is_relative_to(top)
    )
    return (f":(top){project}" if project.parts else ":/", *excluded)


def _working_tree(root: Path, folder: Path) -> Path:
    """The working tree as it was when the first side was made, which all of them share."""
    working = folder.parent / "working-tree"
    if not working.exists():
        repo.check_out_working_tree(root, working, asv_results(root))
    return working


def _project_folder(root: Path) -> Path:
    """Where in the repository the files lie that a commit brings."""
    source, top = source_folder(root), repo.top_level(root).resolve()
    return source.relative_to(top) if source.is_relative_to(top) else Path()


def _workloads(root: Path) -> Path | None:
    """The folder of workloads, from the top of the repository on; None where it holds none."""
    folder = workload_folder()
    if folder is None:
        return None
    top = repo.top_level(root).resolve()
    return folder.resolve().relative_to(top) if folder.resolve().is_relative_to(top) else None


def _copied_workloads(root: Path, working: Path) -> Path | str:
    """Their copy; themselves where the repository holds none."""
    folder = _workloads(root)
    return working / folder if folder and (working / folder).is_dir() else workload_folder() or ""
