"""Two codes measured interleaved: a commit against another, or against the working tree."""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hostbench.cli.history import open_history
from hostbench.cli.measuring import Measuring, measure, set_up
from hostbench.cli.results import results_folder
from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.core.records import Run
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.core.suggest import did_you_mean
from hostbench.core.user_project import is_hostbench
from hostbench.families import names as known_families
from hostbench.families import user_families
from hostbench.report.comparison import Compared, compared
from hostbench.report.sides import of_runs
from hostbench.runner.places import project_root
from hostbench.runner.plan import STANDARD
from hostbench.runner.session import End
from hostbench.vcs import side
from hostbench.vcs.repo import Checkout, commit_of, working_tree
from hostbench.vcs.side import WORKING_TREE, Side

MOST_LAUNCHES = 20
"""A side, that `--budget` is spent on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSides:
    """Two sides whose launches were interleaved, and the run of each that was kept."""

    sides: tuple[Side, Side]
    runs: tuple[Run, ...]
    end: End
    notes: Sequence[str]
    """What could not be compared, and why."""

    def compared(self, results: str | None) -> Compared:
        """The two runs, as `hostbench compare` has them."""
        history = open_history(results)
        runs = history.sides()
        ends = (of_runs(runs, str(run.header.machine), [run.run_id]) for run in self.runs)
        return compared(history, *ends)


def measure_sides(
    options: Measuring,
    a: str,
    names: Sequence[str],
    budget_s: float = math.inf,
    *,
    scratch: str | None = None,
    only_case: bool = False,
) -> MeasuredSides:
    """A run of each side is kept. `names`: B, then families; either may be left out. `scratch`: why
    no history is judged by them. Raises NothingMeasured where the sides have no case in common, or
    nothing that is measured differs."""
    become_subreaper()
    second, families = _names(names)
    root, code = repository(results_folder(options.results))
    first_commit = side.known_commit(root, a)  # refused before torch is asked
    second_commit = None if second is None else side.known_commit(root, second)
    # --quick narrows the cases alone; a budget decides itself how many launches there are.
    has_budget = math.isfinite(budget_s)
    launches = MIN_LAUNCHES if has_budget else options.launches or STANDARD.launches
    most = (options.launches or MOST_LAUNCHES) if has_budget else None
    options = replace(options, families=families, launches=launches)
    setup = set_up(options)
    side.check_differ(root, (a, second or WORKING_TREE), first_commit, second_commit)
    if only_case:
        setup.only_case(" ".join(options.case))
    with terminate_as_interrupt(), tempfile.TemporaryDirectory(prefix="hostbench-ab-") as folder:
        sides = (
            side.make(root, a, code, Path(folder, "a")),
            side.make(root, second, code, Path(folder, "b")),
        )
        cases, notes = side.comparable(setup.plan.cases, sides)
        if not cases:
            raise NothingMeasured(f"nothing to compare: {'; '.join(notes)}")
        measured = measure(
            setup.with_cases(cases), sides, scratch=scratch, budget_s=budget_s, most=most
        )
    return MeasuredSides(sides=sides, runs=measured.runs, end=measured.end, notes=notes)


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
