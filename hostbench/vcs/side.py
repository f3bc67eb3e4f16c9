"""A side of an interleaved measurement: the hostbench of one commit, or of the working tree, alone
in a folder that its workers import it from.

hostbench is plain Python files, so a copy of its folder is what pip would install of it.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hostbench.core.case import Case
from hostbench.core.errors import UsageError
from hostbench.core.units import number_of
from hostbench.runner.boot import BOOT, environment
from hostbench.vcs import repo
from hostbench.vcs.repo import Checkout, GitError

WORKING_TREE = "working tree"
"""What a side of it is called."""
_PACKAGE = "hostbench"
_LIST = BOOT + "from hostbench.cli import main; sys.exit(main(sys.argv[1:]))"


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


def known_commit(checkout: Path, name: str) -> str:
    commit = repo.commit_of(checkout, name)
    if commit is None:
        raise UsageError(f"git knows no commit {name!r}; name a branch, a tag or a commit")
    return commit


def of_commit(checkout: Path, name: str, folder: Path) -> Side:
    """The commit that `name` names in the repository of `checkout`. Raises UsageError."""
    commit = known_commit(checkout, name)
    try:
        repo.export(checkout, commit, _PACKAGE, folder)
    except GitError as error:
        raise UsageError(f"{name} ({commit[:8]}) cannot be measured: {error}") from error
    code = Checkout(commit=commit, committed_at=repo.committed_at(checkout, commit), scratch=None)
    return Side(name=name, code=code, root=folder, versions=_versions(name, folder))


def of_working_tree(checkout: Path, code: Checkout, folder: Path) -> Side:
    """The files as they are now; what is edited later is not measured."""
    try:
        repo.copy_tree(checkout, _PACKAGE, folder)
    except GitError as error:
        raise UsageError(f"the working tree cannot be measured: {error}") from error
    return Side(name=WORKING_TREE, code=code, root=folder, versions=_versions(WORKING_TREE, folder))


def comparable(
    cases: tuple[Case, ...], sides: tuple[Side, Side]
) -> tuple[tuple[Case, ...], list[str]]:
    """(the cases that mean the same on both sides, why others do not)."""
    lacking: dict[str, list[Case]] = {}
    kept = []
    for case in cases:
        first, second = (side.versions.get(str(case)) for side in sides)
        if first == second and first is not None:
            kept.append(case)
            continue
        missing = [side.name for side in sides if str(case) not in side.versions]
        why = f"not in {' nor in '.join(missing)}" if missing else f"version {first}, then {second}"
        lacking.setdefault(why, []).append(case)
    notes = [
        f"{number_of(len(left), 'case')} left out, {why}: {left[0]}{' ...' * (len(left) > 1)}"
        for why, left in lacking.items()
    ]
    return tuple(kept), notes


def _versions(name: str, root: Path) -> dict[str, str]:
    """What the code itself lists. Raises UsageError for one that is too old or broken to."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _LIST, "list", "--cases", "--format", "json", str(root)],
        capture_output=True,
        text=True,
        env=environment(),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    try:
        listed = json.loads(done.stdout)
        return {case: work["version"] for work in listed for case in work["cases"]}
    except (ValueError, TypeError, KeyError) as error:
        said = (done.stderr.strip().splitlines() or ["it lists no cases"])[-1]
        raise UsageError(f"the code of {name} cannot be measured: {said:.200}") from error
