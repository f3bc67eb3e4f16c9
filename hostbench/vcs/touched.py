"""Which families a change from one commit to another can touch, by what they import."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath

import hostbench
from hostbench import families
from hostbench.core.units import number_of
from hostbench.runner.places import asv_results
from hostbench.vcs import own, repo
from hostbench.vcs.imports import Modules, Reach, Read

_PAPERS = (".md", ".rst", ".adoc")
_PAPER_FOLDERS = ("docs", ".github", ".gitlab")
_PAPER_NAMES = (
    "LICENSE",
    "COPYING",
    "CODEOWNERS",
    ".gitignore",
    ".gitlab-ci.yml",
)
"""What no program that is measured reads, unless it lies in a package."""
_BUILDS = ("setup.py", "build.py", "hatch_build.py", "sitecustomize.py", "usercustomize.py")
"""Python that nobody imports, and that counts all the same."""
_SETTINGS = ("asv.conf.json", "pyproject.toml", "setup.cfg")
_SCRIPT = re.compile(r"[\w-]+\.py\b|(?<=build-backend = \")[\w.]+")
"""In one of these: what may be run to build the package."""
_MEASURES = ("hostbench/runner/server.py", "hostbench/runner/worker.py", "hostbench/runner/boot.py")
"""What measures each family, in hostbench's own checkout."""
_FAMILIES = "hostbench/families/"
_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """The families that a change can touch, and what is to be said of it."""

    families: tuple[str, ...]
    remarks: tuple[str, ...]


def touched(root: Path, old: str, new: str | None, asked: Sequence[str], *results: Path) -> Touched:
    """Of these families those that what differs between two commits can touch; without `new` that
    and the working tree. `results`: folders of them, which nothing reads, beside that of
    asv.conf.json. Raises GitError."""
    top = repo.top_level(root).resolve()
    states = dict.fromkeys((old, new))
    packages = {
        PurePosixPath(name).parent
        for state in states
        for name in repo.files_of(top, state)
        if PurePosixPath(name).name == "__init__.py"
    }
    differing = repo.changed_files(top, old, new, [asv_results(root), *results])
    changed = [name for name in differing if not _is_paper(name, packages)]
    unclear = [
        name for name in changed if not name.endswith(".py") or PurePosixPath(name).name in _BUILDS
    ]
    if unclear:
        return _all(asked, f"{_listed(unclear)} changed, and no import tells what that touches")
    links = {link for state in states for link in repo.links_of(top, state)}
    followed = sorted(link for link in links if not _is_paper(link, packages))
    if changed and followed:
        return _all(asked, f"{_listed(followed)}: no import tells where a symbolic link leads")
    reach, built = _reaches(root, top, states, asked)
    building = [name for name in changed if name in built]
    if building:
        return _all(asked, f"{_listed(building)} changed, which may be run to build the package")
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


def _all(asked: Sequence[str], why: str) -> Touched:
    return Touched(families=tuple(asked), remarks=(f"--changed leaves nothing out: {why}",))


def _why(reaches: Sequence[Reach], changed: Sequence[str]) -> str:
    """Empty where the change cannot touch what is reached."""
    imported = [name for name in changed if any(name in reach.files for reach in reaches)]
    if imported:
        return f"{_listed(imported)} changed"
    by_name = sorted({place for reach in reaches for place in reach.by_name})
    if by_name and changed:
        return f"{by_name[0]} imports by a name that shows only when it runs"
    return ""


def _is_paper(name: str, packages: set[PurePosixPath]) -> bool:
    path = PurePosixPath(name)
    if path.suffix == ".py" or not packages.isdisjoint(path.parents):
        return False  # its importers tell; what lies in a package may be its data
    is_named = path.stem in _PAPER_NAMES or path.name in _PAPER_NAMES
    return path.suffix in _PAPERS or path.parts[0] in _PAPER_FOLDERS or is_named


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def _reaches(
    root: Path, top: Path, states: Collection[str | None], asked: Sequence[str]
) -> tuple[dict[str, list[Reach]], set[str]]:
    """What each family imports in each of these states, where None is the working tree; and what
    may be run to build the package of a project."""
    is_ours = not own.is_own(root)
    roots = {family: _roots(family, root, top, is_ours) for family in asked}
    home = f"{root.resolve().relative_to(top).as_posix()}/".removeprefix("./")

    def is_machinery(name: str) -> bool:
        inside = name.removeprefix(home)
        is_family = inside.startswith(_FAMILIES) and inside != f"{_FAMILIES}__init__.py"
        return is_ours and inside.startswith("hostbench/") and not is_family

    homes = {f"hostbench.{name}": module for name, module in hostbench._HOME.items()}
    found: dict[str, list[Reach]] = {family: [] for family in asked}
    built = set[str]()
    workloads = () if is_ours else _workload_folders(root, top)
    for state in states:
        names = _names(top, state, workloads)
        read = partial(_texts, top, state, workloads)
        modules = Modules(names, read)
        for family in asked:
            brought = {} if is_ours else _brought(family, modules, workloads)
            found[family].append(
                modules.reach(roots[family] | brought, is_machinery, homes if is_ours else {})
            )
        if not is_ours:  # ours is copied as it is
            built |= modules.reach(dict.fromkeys(_builders(names, modules, read))).files
    return found, built


def _builders(names: Collection[str], modules: Modules, read: Read) -> set[str]:
    """The files that building starts with: those of fixed names, and what settings name."""
    by_name = {name for name in names if PurePosixPath(name).name in _BUILDS}
    settings = read([name for name in names if PurePosixPath(name).name in _SETTINGS])
    scripts = chain.from_iterable(map(_SCRIPT.findall, settings.values()))
    return by_name.union(*map(modules.called, scripts))


def _workload_folders(root: Path, top: Path) -> tuple[str, ...]:
    """Their names from the top of the repository on; both sides have the working tree's."""
    folders = own.workload_folders(root)
    return tuple(f"{folder.relative_to(top).as_posix()}/" for folder in folders)


def _names(top: Path, state: str | None, workloads: tuple[str, ...]) -> list[str]:
    """The files that a side has."""
    names = repo.files_of(top, state)
    if state is None:
        return names
    ours = [name for name in repo.files_of(top, None) if name.startswith(workloads)]
    return [*(name for name in names if not name.startswith(workloads)), *ours]


def _roots(family: str, root: Path, top: Path, is_ours: bool) -> dict[str, str | None]:
    """The files that a worker imports of a family: not what it asks, which it never does. Those of
    hostbench have the text of each commit; those of a project are the ones at hand."""
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


def _brought(family: str, modules: Modules, workloads: tuple[str, ...]) -> dict[str, str | None]:
    """The same of a family that the project's package brings: each commit's own."""
    module = families.module_name(family)
    called = chain.from_iterable(map(modules.called, (module, f"{module}.workloads")))
    return dict.fromkeys(name for name in called if not name.startswith(workloads))


def _texts(
    top: Path, state: str | None, workloads: tuple[str, ...], names: Collection[str]
) -> Mapping[str, str]:
    here = {name for name in names if state is None or name.startswith(workloads)}
    found = {} if state is None else repo.texts(top, state, set(names) - here)
    for name in here:
        if (top / name).is_file():
            found[name] = (top / name).read_text(errors="replace")
    return found
