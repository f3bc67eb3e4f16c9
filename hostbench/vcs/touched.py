"""Which families a change from one commit to another can touch, by what they import."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import hostbench
from hostbench import families
from hostbench.core.units import number_of
from hostbench.runner.places import asv_results
from hostbench.vcs import own, repo
from hostbench.vcs.imports import Modules, Reach

_PAPERS = (".md", ".rst", ".adoc")
_PAPER_FOLDERS = ("docs", ".github", ".gitlab")
_PAPER_NAMES = (
    "LICENSE",
    "COPYING",
    "CODEOWNERS",
    ".gitignore",
    ".gitattributes",
    ".gitlab-ci.yml",
)
"""What no program that is measured reads."""
_BUILDS = ("setup.py", "build.py", "hatch_build.py", "sitecustomize.py", "usercustomize.py")
"""Python that nobody imports, and that counts all the same."""
_MEASURES = ("hostbench/runner/server.py", "hostbench/runner/worker.py", "hostbench/runner/boot.py")
"""What measures each family, in hostbench's own checkout."""
_FAMILIES = "hostbench/families/"
_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The families that a change can touch, and what is to be said of it."""

    families: tuple[str, ...]
    remarks: tuple[str, ...]


def touched(root: Path, old: str, new: str | None, asked: Sequence[str]) -> Touched:
    """Of these families those that what differs between two commits can touch; without `new` that
    and the working tree. Raises GitError."""
    top = repo.top_level(root).resolve()
    changed = [
        name for name in repo.changed_files(top, old, new, asv_results(root)) if not _is_paper(name)
    ]
    unclear = [
        name for name in changed if not name.endswith(".py") or PurePosixPath(name).name in _BUILDS
    ]
    if unclear:
        return Touched(
            families=tuple(asked),
            remarks=(
                f"--changed leaves nothing out: {_listed(unclear)} changed, and no import tells "
                "what that touches",
            ),
        )
    reach = _reaches(root, top, (old, new), asked)
    why = {family: by for family in asked if (by := _why(reach[family], changed))}
    left = [family for family in asked if family not in why]
    remarks = [
        f"--changed: {by}, which can touch {', '.join(one for one in why if why[one] == by)}"
        for by in dict.fromkeys(why.values())
    ]
    if left:
        remarks.append(
            f"--changed leaves out, for they import nothing that changed: {', '.join(left)}"
        )
    if not why:
        num = number_of(len(changed), "Python file")
        remarks = [f"--changed: no family imports what changed ({num})"]
    return Touched(families=tuple(why), remarks=tuple(remarks))


def _why(reaches: Sequence[Reach], changed: Sequence[str]) -> str:
    """Empty where the change cannot touch what is reached."""
    imported = [name for name in changed if any(name in reach.files for reach in reaches)]
    if imported:
        return f"{_listed(imported)} changed"
    by_name = sorted({place for reach in reaches for place in reach.by_name})
    if by_name and changed:
        return f"{by_name[0]} imports by a name that shows only when it runs"
    return ""


def _is_paper(name: str) -> bool:
    path = PurePosixPath(name)
    if path.suffix == ".py":
        return False  # its importers tell
    is_named = path.stem in _PAPER_NAMES or path.name in _PAPER_NAMES
    return path.suffix in _PAPERS or path.parts[0] in _PAPER_FOLDERS or is_named


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def _reaches(
    root: Path, top: Path, commits: Iterable[str | None], asked: Sequence[str]
) -> dict[str, list[Reach]]:
    """What each family imports in each of these states; None is the working tree."""
    is_ours = not own.is_own(root)
    roots = {family: _roots(family, root, top, is_ours) for family in asked}
    home = f"{root.resolve().relative_to(top).as_posix()}/".removeprefix("./")

    def is_machinery(name: str) -> bool:
        inside = name.removeprefix(home)
        is_family = inside.startswith(_FAMILIES) and inside != f"{_FAMILIES}__init__.py"
        return is_ours and inside.startswith("hostbench/") and not is_family

    homes = {f"hostbench.{name}": module for name, module in hostbench._HOME.items()}
    found: dict[str, list[Reach]] = {family: [] for family in asked}
    for commit in dict.fromkeys(commits):
        modules = Modules(repo.files_of(top, commit), partial(_texts, top, commit))
        for family in asked:
            found[family].append(
                modules.reach(roots[family], is_machinery, homes if is_ours else {})
            )
    return found


def _roots(family: str, root: Path, top: Path, is_ours: bool) -> dict[str, str | None]:
    """The files that a worker imports of a family: not what it asks, which it never does. Those of
    hostbench have the text of each commit; those of a project are the working tree's."""
    files = [path.resolve() for path in families.sources(family)]
    roots = [path for path in files if len(files) == 1 or path.name == "workloads.py"]
    if is_ours:  # whichever copy of it runs here
        package = Path(hostbench.__file__).resolve().parent.parent
        names = [*_MEASURES, *(path.relative_to(package).as_posix() for path in roots)]
        return {(root.resolve().relative_to(top) / name).as_posix(): None for name in names}
    return {
        (path.relative_to(top) if path.is_relative_to(top) else path).as_posix(): path.read_text(
            errors="replace"
        )
        for path in roots
    }


def _texts(top: Path, commit: str | None, names: Collection[str]) -> Mapping[str, str]:
    if commit is not None:
        return repo.texts(top, commit, names)
    files = {name: top / name for name in names}
    return {
        name: path.read_text(errors="replace") for name, path in files.items() if path.is_file()
    }
