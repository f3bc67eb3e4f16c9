"""A side of an interleaved measurement: the code of one commit, or of the working tree, alone in a
folder that its workers import it from.

It is hostbench's own, plain Python files of which a copy is what pip would install; or the package
of a user's project (`vcs.user_side`), measured by the hostbench at hand.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import hostbench
from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, NothingMeasured, UsageError
from hostbench.core.units import number_of
from hostbench.core.user_project import is_hostbench
from hostbench.runner.boot import BOOT, environment
from hostbench.runner.places import asv_results
from hostbench.vcs import repo, user_side
from hostbench.vcs.repo import Checkout, GitError

WORKING_TREE = "working tree"
"""What a side of it is called."""
_MEASURED = ("hostbench", "benchmarks")
"""Folders of hostbench itself that a commit brings to what is measured."""
_LIST: tuple[str, ...] = (
    BOOT + "from hostbench.cli import main; sys.exit(main(sys.argv[1:]))",
    *("list", "--cases", "--format", "json"),
)
_LIST_USER = (
    BOOT + "import json; from hostbench.families import broken, load; works = load().values(); "
    "cases = {str(case): work.version for work in works for case in work.cases()}; "
    "print('\\n'); print(json.dumps({'versions': cases, 'broken': broken()}))",
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
    return _MEASURED if is_hostbench(checkout) else user_side.pathspecs(checkout)


def check_differ(checkout: Path, names: tuple[str, str], first: str, second: str | None) -> None:
    """Raises NothingDiffers where two commits, or a commit and the working tree, are measured
    alike."""
    if repo.differ(checkout, first, second, measured_paths(checkout)):
        return
    why = "both sides run the workloads of the working tree"
    if is_hostbench(checkout):
        why = "hostbench/ and benchmarks/ are the same in both"
    raise NothingDiffers(f"nothing that is measured differs between {' and '.join(names)}: {why}")


def of_commit(checkout: Path, name: str, folder: Path) -> Side:
    """The commit that `name` names in the repository of `checkout`, made in `folder`. Raises
    UsageError, and BrokenError where it cannot be built or imported."""
    commit = known_commit(checkout, name)
    code = Checkout(commit=commit, committed_at=repo.committed_at(checkout, commit), scratch=None)
    return _made(checkout, name, code, commit, folder)


def of_working_tree(checkout: Path, code: Checkout, folder: Path) -> Side:
    """The files as they are now; what is edited later is not measured. Raises BrokenError."""
    return _made(checkout, WORKING_TREE, code, None, folder)


def _made(checkout: Path, name: str, code: Checkout, commit: str | None, folder: Path) -> Side:
    prefix = f"{folder.resolve()}/"
    try:
        if is_hostbench(checkout):
            made = user_side.UserSide(variables={}, scratch=None, remarks=())
            root, words = _plain(checkout, commit, folder), _LIST
        else:
            made = user_side.side_of(checkout, name, commit, folder)
            root, words = Path(hostbench.__file__).parent.parent, _LIST_USER
            code = replace(code, scratch=code.scratch or made.scratch)
    except (GitError, UsageError) as error:
        which = f"{name} ({commit[:8]})" if commit else f"the {name}"
        text = str(error).replace(prefix, "")
        raise BrokenError(f"{which} cannot be measured: {text}") from error
    versions, broken = _listed(name, root, made.variables, words)
    return Side(
        name=name,
        code=code,
        root=root,
        versions=versions,
        folder=prefix,
        variables=made.variables,
        broken=broken,
        remarks=made.remarks,
    )


def _plain(checkout: Path, commit: str | None, folder: Path) -> Path:
    """hostbench's own code, checked out: where workers import it from."""
    if commit is None:
        repo.check_out_working_tree(checkout, folder, asv_results(checkout))
    else:
        repo.check_out(checkout, commit, folder)
    return folder / checkout.resolve().relative_to(repo.top_level(checkout).resolve())


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


def _listed(
    name: str, root: Path, variables: Mapping[str, str], words: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """(case -> version, family -> why it cannot be imported) as the hostbench in `root` lists them.
    Raises BrokenError for one that is too old or broken to."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", *words, str(root)],
        capture_output=True,
        text=True,
        env=environment() | dict(variables),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    try:
        found = json.loads(done.stdout.rpartition("\n\n")[2])
        if isinstance(found, dict):
            return found["versions"], found["broken"]
        return {case: work["version"] for work in found for case in work["cases"]}, {}
    except (ValueError, TypeError, KeyError) as error:
        lines = done.stderr.strip().splitlines() or ["it lists no cases"]
        raise BrokenError(f"the code of {name} cannot be measured: {lines[-1]:.200}") from error
