"""Two codes measured interleaved: a commit against another, or against the working tree."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hostbench.cli.measuring import Measured, Measuring, Setup, measure, set_up
from hostbench.cli.results import results_folder
from hostbench.core.asv_config import project_root
from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.suggest import did_you_mean
from hostbench.core.user_project import is_hostbench
from hostbench.families import names as known_families
from hostbench.families import user_families
from hostbench.runner.plan import STANDARD
from hostbench.vcs import side
from hostbench.vcs.repo import Checkout, commit_of, working_tree
from hostbench.vcs.side import WORKING_TREE

MOST_LAUNCHES = 20
"""A side, that `--budget` is spent on."""


def measure_sides(
    options: Measuring,
    a: str,
    names: Sequence[str],
    budget_s: float = math.inf,
    *,
    scratch: str | None = None,
    only_case: bool = False,
) -> Measured:
    """As `interleave`. `names`: B, then families; either may be left out."""
    become_subreaper()
    second, families = _names(names)
    root, _ = repository(results_folder(options.results))
    for name in (a, second) if second else (a,):
        side.known_commit(root, name)  # refused before torch is asked
    setup = set_up(replace(options, families=families))
    if only_case:
        setup.only_case(" ".join(options.case))
    return interleave(setup, a, second, options.launches, budget_s, scratch=scratch)


def interleave(
    setup: Setup,
    a: str,
    second: str | None,
    launches: int | None,
    budget_s: float,
    *,
    scratch: str | None = None,
) -> Measured:
    """A run of each side, which is kept; without a second the working tree is that. `scratch`: why
    no history is judged by them. Raises NothingMeasured where the sides have no case in common, or
    nothing that is measured differs."""
    root, code = repository(setup.results)
    commits = side.known_commit(root, a), second and side.known_commit(root, second)
    side.check_differ(root, (a, second or WORKING_TREE), *commits)
    # --quick narrows the cases alone; a budget decides itself how many launches there are.
    most = (launches or MOST_LAUNCHES) if math.isfinite(budget_s) else None
    num = MIN_LAUNCHES if most else launches or STANDARD.launches
    profile = replace(setup.plan.profile, launches=num)
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-ab-") as folder:
        sides = (
            side.make(root, a, code, Path(folder, "a")),
            side.make(root, second, code, Path(folder, "b")),
        )
        cases, notes = side.comparable(setup.plan.cases, sides)
        if not cases:
            raise NothingMeasured(f"nothing to compare: {'; '.join(notes)}")
        setup = replace(setup, plan=replace(setup.plan, cases=cases, profile=profile))
        measured = measure(setup, sides, scratch=scratch, budget_s=budget_s, most=most)
    return replace(measured, sides=sides, notes=notes)


def repository(results: Path) -> tuple[Path, Checkout]:
    """The checkout whose commits are measured, and its state, `results` left aside. Raises
    UsageError without one."""
    root = project_root(Path.cwd())
    if root is None:
        raise UsageError(
            f"commits are measured from a checkout, and no folder from {Path.cwd()} upwards holds "
            "asv.conf.json: go to one, or let `hostbench init` write what your project lacks"
        )
    if not is_hostbench(root) and not user_families():
        raise UsageError(
            f"{root} has no workloads of its own, and hostbench's do not run its code: `hostbench "
            "init` writes one"
        )
    code = working_tree(root, results)
    if code.commit is None:
        raise UsageError(
            f"{root} has no commits that can be measured ({code.scratch}): commit what there is, "
            "or clone a repository that has some"
        )
    return root, code


def _names(names: Sequence[str]) -> tuple[str | None, tuple[str, ...]]:
    """(B, families) of what follows A: B may be left out, and no family is taken for it."""
    families = known_families()
    second = None
    if names and names[0] not in families:
        second, *names = names
        if commit_of(Path.cwd(), second) is None:
            raise UsageError(
                f"{second!r} is no commit that git knows, and no family"
                f"{did_you_mean(second, families)}; there are: {', '.join(families)}"
            )
    return second, tuple(names)
