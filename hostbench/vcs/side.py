"""A side of an interleaved measurement: the code of one commit, or of the working tree, alone in a
folder that its workers import it from.

It is hostbench's own, which is plain Python files, so that a copy of its folder is what pip would
install of it; or the package of somebody's project (`vcs.own`), measured by the hostbench at hand.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import hostbench
from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, NothingMeasured, UsageError
from hostbench.core.units import number_of
from hostbench.runner.boot import BOOT, environment
from hostbench.vcs import own, repo
from hostbench.vcs.own import OwnSide
from hostbench.vcs.repo import Checkout, GitError

WORKING_TREE = "working tree"
"""What a side of it is called."""
T = TypeVar("T")
_PACKAGE = "hostbench"
_LIST = BOOT + "from hostbench.cli import main; sys.exit(main(sys.argv[1:]))"
_LIST_OWN = BOOT + (
    "import json; from hostbench.families import broken, load; works = load().values(); "
    "cases = {str(case): work.version for work in works for case in work.cases()}; "
    "print('\\n'); print(json.dumps([cases, broken()]))"
)


class NothingDiffers(NothingMeasured):
    """Both sides would be the same code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of two codes that are measured interleaved."""

    name: str
    """As it was asked for."""
    code: Checkout
    root: Path
    """Holds `hostbench/`."""
    versions: Mapping[str, str]
    """The version of each case that this code declares, by the case's text."""
    folder: str = ""
    """Where it was made, another one each time: no reason is kept with it."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of its workers' environment."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Families that cannot be imported with this code, and why."""
    remarks: tuple[str, ...] = ()
    """What a reader should know of it."""


def known_commit(checkout: Path, name: str) -> str:
    commit = repo.commit_of(checkout, name)
    if commit is None:
        raise UsageError(f"git knows no commit {name!r}; name a branch, a tag or a commit")
    return commit


def measured_paths(checkout: Path) -> tuple[str, ...]:
    """Only what lies there can differ between two sides; as git takes paths."""
    return own.pathspecs(checkout) if own.is_own(checkout) else (_PACKAGE,)


def check_differ(checkout: Path, names: tuple[str, str], first: str, second: str | None) -> None:
    """Raises NothingDiffers where two commits, or a commit and the working tree, are measured
    alike."""
    if repo.differ(checkout, first, second, measured_paths(checkout)):
        return
    why = "hostbench/ is the same in both"
    if own.is_own(checkout):
        top = repo.top_level(checkout).resolve()
        folders = (f"{path.relative_to(top)}/" for path in own.workload_folders(checkout))
        why = f"both sides run the workloads of the working tree ({', '.join(folders)})"
    raise NothingDiffers(f"nothing that is measured differs between {' and '.join(names)}: {why}")


def of_commit(checkout: Path, name: str, folder: Path) -> Side:
    """The commit that `name` names in the repository of `checkout`. Raises UsageError, and
    BrokenError where it cannot be built or imported."""
    commit = known_commit(checkout, name)
    code = Checkout(commit=commit, committed_at=repo.committed_at(checkout, commit), scratch=None)
    try:
        if own.is_own(checkout):
            return _own(name, code, folder, own.of_commit(checkout, name, commit, folder))
        repo.export(checkout, commit, _PACKAGE, folder)
    except (GitError, UsageError) as error:
        said = str(error).replace(_prefix(folder), "")
        raise BrokenError(f"{name} ({commit[:8]}) cannot be measured: {said}") from error
    return _plain(name, code, folder)


def of_working_tree(checkout: Path, code: Checkout, folder: Path) -> Side:
    """The files as they are now; what is edited later is not measured. Raises BrokenError."""
    try:
        if own.is_own(checkout):
            found = own.of_working_tree(checkout, WORKING_TREE, folder)
            return _own(WORKING_TREE, code, folder, found)
        repo.copy_tree(checkout, _PACKAGE, folder)
    except (GitError, UsageError) as error:
        said = str(error).replace(_prefix(folder), "")
        raise BrokenError(f"the working tree cannot be measured: {said}") from error
    return _plain(WORKING_TREE, code, folder)


def _plain(name: str, code: Checkout, folder: Path) -> Side:
    """Of hostbench itself. Raises BrokenError."""
    versions = _versions(name, folder)
    return Side(name=name, code=code, root=folder, versions=versions, folder=_prefix(folder))


def _prefix(folder: Path) -> str:
    return f"{folder.resolve()}/"


def _own(name: str, code: Checkout, folder: Path, found: OwnSide) -> Side:
    """Of somebody's project; hostbench is the one at hand. Raises BrokenError."""
    root = Path(hostbench.__file__).parent.parent
    versions, broken = _listed(tuple, name, root, found.variables, _LIST_OWN)
    return Side(
        name=name,
        code=replace(code, scratch=code.scratch or found.scratch),
        root=root,
        versions=versions,
        folder=_prefix(folder),
        variables=found.variables,
        broken=broken,
        remarks=found.remarks,
    )


def comparable(
    cases: tuple[Case, ...], sides: tuple[Side, Side]
) -> tuple[tuple[Case, ...], list[str]]:
    """(the cases that mean the same on both sides; why others do not, and what else there is to
    say)."""
    lacking: dict[str, list[Case]] = {}
    kept = []
    for case in cases:
        first, second = (side.versions.get(str(case)) for side in sides)
        if first == second and first is not None:
            kept.append(case)
            continue
        missing = [side.name for side in sides if str(case) not in side.versions]
        why = f"not in {' nor in '.join(missing)}" if missing else f"version {first}, then {second}"
        reasons = {side.broken[case.family] for side in sides if case.family in side.broken}
        why += "".join(f": {reason}" for reason in sorted(reasons))
        lacking.setdefault(why, []).append(case)
    notes = [
        f"{number_of(len(left), 'case')} left out, {why}: {left[0]}{' ...' * (len(left) > 1)}"
        for why, left in lacking.items()
    ]
    return tuple(kept), [*notes, *dict.fromkeys(one for side in sides for one in side.remarks)]


def _versions(name: str, root: Path) -> dict[str, str]:
    """What the code of hostbench in `root` lists. Raises BrokenError."""

    def read(works: Any) -> dict[str, str]:
        return {case: work["version"] for work in works for case in work["cases"]}

    return _listed(read, name, root, {}, _LIST, "list", "--cases", "--format", "json")


def _listed(
    read: Callable[[Any], T], name: str, root: Path, variables: Mapping[str, str], *words: str
) -> T:
    """What is read of the JSON that this code prints last, with the hostbench in `root`. Raises
    BrokenError for one that is too old or broken to."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", *words, str(root)],
        capture_output=True,
        text=True,
        env=environment() | dict(variables),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    try:
        return read(json.loads(done.stdout.rpartition("\n\n")[2]))
    except (ValueError, TypeError, KeyError) as error:
        said = (done.stderr.strip().splitlines() or ["it lists no cases"])[-1]
        raise BrokenError(f"the code of {name} cannot be measured: {said:.200}") from error
