"""A side of an interleaved measurement: the code of one commit, or of the working tree, alone in a
folder that its workers import it from.

In hostbench's own checkout that is hostbench, plain Python files of which a checkout is what pip
would install. In a user's project it is the project's package, built as asv.conf.json says and
measured by the hostbench at hand, with the workloads of the working tree, whichever side it is.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import hostbench
from hostbench.core import asv_config, own_package, user_project
from hostbench.core.asv_config import asv_results, source_folder
from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, NothingMeasured, UsageError
from hostbench.core.units import number_of
from hostbench.runner.launcher import BOOT, environment
from hostbench.vcs import repo
from hostbench.vcs.build import package_of
from hostbench.vcs.repo import Checkout, GitError

WORKING_TREE = "working tree"
"""What a side of it is called."""
_COPY = "working-tree"
"""The folder beside those of the sides that has it as it was when the first of them was made."""
_MEASURED = ("hostbench", "benchmarks")
"""Folders of hostbench itself that a commit brings to what is measured."""
_DECLARE = BOOT + "from hostbench.runner.server import declare; declare()"


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
    """Of its workers' environment: where they import a project's package and workloads from."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Families that cannot be imported with this code, and why."""

    @property
    def called(self) -> str:
        """`main (1a2b3c4d)`, with what its commit alone does not say."""
        state = f", {self.code.scratch}" if self.code.scratch else ""
        return f"{self.name} ({str(self.code.commit)[:8]}{state})"


def known_commit(checkout: Path, name: str) -> str:
    commit = repo.commit_of(checkout, name)
    if commit is None:
        raise UsageError(f"there is no commit {name!r}; name a branch, a tag or a commit")
    return commit


def measured_paths(checkout: Path) -> tuple[str, ...]:
    """Only what lies there can differ between two sides; as git takes paths."""
    if user_project.is_hostbench(checkout):
        return _MEASURED
    project = repo.inside(checkout, source_folder(checkout)) or Path()
    aside = (asv_results(checkout), user_project.benchmark_folder(checkout))
    return (f":(top){project}" if project.parts else ":/", *repo.left_aside(checkout, *aside))


def make(checkout: Path, name: str | None, working_tree: Checkout, folder: Path) -> Side:
    """The commit that `name` names in the repository of `checkout`, or without a name the files of
    `working_tree` as they are now: what is edited later is not measured. Sides of one comparison
    have one parent folder. Raises UsageError, and BrokenError where it cannot be built or imported.
    """
    code, commit, called = working_tree, None, name or f"the {WORKING_TREE}"
    if name is not None:
        commit = known_commit(checkout, name)
        code = Checkout(commit=commit, committed_at=repo.committed_at(checkout, commit))
        called = name if commit.startswith(name) else f"{name} ({commit[:8]})"
    working = folder.parent / _COPY
    tree = working if commit is None else folder / "tree"
    root, variables = Path(hostbench.__file__).parent.parent, dict[str, str]()
    try:
        if not tree.exists():  # else the other side has it as it was when that was made
            repo.check_out(checkout, commit, tree)
        if user_project.is_hostbench(checkout):
            root = tree / (repo.inside(checkout, checkout) or "")
        else:
            if not working.exists():
                repo.check_out(checkout, None, working)
            variables = _variables(checkout, tree, folder)
            code = replace(code, scratch=code.scratch or scratch(checkout))
        versions, broken = _declared(root, variables)
    except (GitError, UsageError, BrokenError) as error:
        text = str(error).replace(f"{tree.resolve()}/", "").replace(f"{folder.resolve()}/", "")
        raise BrokenError(f"{called} cannot be measured: {text}") from error
    return Side(
        name=name or WORKING_TREE,
        code=code,
        root=root,
        versions=versions,
        folder=f"{(folder if variables and commit else tree).resolve()}/",
        variables=variables,
        broken=broken,
    )


def comparable(
    cases: tuple[Case, ...], sides: tuple[Side, Side]
) -> tuple[tuple[Case, ...], list[str]]:
    """(the cases that mean the same on both sides; why others do not)."""
    lacking: dict[str, list[Case]] = {}
    same = []
    for case in cases:
        first, second = (side.versions.get(str(case)) for side in sides)
        if first == second and first is not None:
            same.append(case)
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
    return tuple(same), notes


def _declared(root: Path, variables: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """(case -> version, family -> why it cannot be imported) as the hostbench in `root` has them.
    Raises BrokenError for one whose workers this one cannot talk to."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", _DECLARE, str(root)],
        capture_output=True,
        text=True,
        env=environment() | dict(variables),
        stdin=subprocess.DEVNULL,
        check=False,
    )
    try:
        declared = json.loads(done.stdout.rpartition("\n\n")[2])
    except ValueError as error:
        why = (done.stderr.strip().splitlines() or ["it declares nothing"])[-1]
        if why.endswith("No module named 'hostbench.runner'") or "name 'declare'" in why:
            why = "its workers talk otherwise than this hostbench's; name a later commit"
        raise BrokenError(f"{why:.200}") from error
    return declared["versions"], declared["broken"]


# ---- a user's project ---------------------------------------------------------------------------


def scratch(root: Path) -> str | None:
    """Why what the project's workloads measure belongs to no commit, whichever package it is.
    Raises GitError."""
    folder = _workloads(root)
    is_other = folder is not None and repo.differ(root, None, None, [f":(top){folder}"])
    return "workloads with uncommitted changes" if is_other else None


def not_followed(root: Path) -> list[str]:
    """What a project's asv.conf.json says of its build that both sides leave aside."""
    has_command = not user_project.is_hostbench(root) and asv_config.read(root).build_command
    text = f"build_command of {asv_config.CONFIG} is not followed: pip builds what it can"
    return [text] if has_command else []


def _variables(root: Path, tree: Path, folder: Path) -> dict[str, str]:
    """Of the workers that measure the package in `tree`. Raises UsageError or GitError."""
    working, project = folder.parent / _COPY, repo.inside(root, source_folder(root)) or Path()
    if not (tree / project).is_dir():
        raise UsageError(f"it has no folder {project}, where asv.conf.json has the project")
    package = package_of(root, (tree / project).resolve(), folder / "build")
    # What only the other side has must not be imported from wherever else it may be installed.
    names = {*package.names, *user_project.unbuilt(root, working / project).names}
    package = replace(package, names=tuple(sorted(names)))
    inside = _workloads(root)
    is_copied = inside is not None and (working / inside).is_dir()  # else git ignores it
    workloads = working / inside if inside and is_copied else user_project.workload_folder() or ""
    return {own_package.VARIABLE: package.encoded(), user_project.WORKLOADS: str(workloads)}


def _workloads(root: Path) -> Path | None:
    """The folder of workloads, from the top of the repository on; None where it holds none."""
    folder = user_project.workload_folder()
    return None if folder is None else repo.inside(root, folder)
