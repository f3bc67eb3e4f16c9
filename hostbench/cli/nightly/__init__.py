"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the nights
before, measure once more what moved, say what it was."""

import shutil
import time
from collections import Counter
from dataclasses import replace

from hostbench import facts
from hostbench.cli import again
from hostbench.cli.history import open_history
from hostbench.cli.keeping import Kept, measure_and_keep
from hostbench.cli.nightly.handing_on import hand_on, tell
from hostbench.cli.nightly.judging import judge_tonight
from hostbench.cli.nightly.tonight import NightlyOptions, Tonight, in_words, say
from hostbench.cli.output import check_folder, warn
from hostbench.cli.run_setup import (
    Setup,
    adopt_left_over,
    fresh,
    header_of,
    partial_run,
    rest_of,
    set_up,
)
from hostbench.core.clock import epoch_s
from hostbench.core.errors import EXIT_FAILED, HostbenchError, Interrupted
from hostbench.core.processes import become_subreaper
from hostbench.core.records import RunHeader
from hostbench.core.units import number_of
from hostbench.device.simulated_file import MARK
from hostbench.report import night_history
from hostbench.report.doctor import findings
from hostbench.report.nightly import exit_code
from hostbench.runner.lock import only_one
from hostbench.runner.plan import Plan, fitting
from hostbench.store import nights, runs
from hostbench.store.columns import STATUSES
from hostbench.store.runs import WholeRun, launches_in_words

__all__ = ["NightlyOptions", "execute"]

FOR_THE_RUN = 0.75
"""Share of `--budget`: up to there the run goes."""
RESUMED_FOR_S = 20 * 3600.0
"""A run that was cut off is gone on with for so long; then it is another night."""


def execute(options: NightlyOptions) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    become_subreaper()
    for path in (options.summary, options.page):
        if path is not None:
            check_folder(path)
    tonight = Tonight(options=options)
    try:
        _night(tonight)
    except (KeyboardInterrupt, Interrupted):
        tonight.note(interrupted="interrupted")
    except Exception as error:
        code = EXIT_FAILED
        if isinstance(error, HostbenchError) and not tonight.is_underway:
            code = error.exit_code
        tonight.note(error=in_words(error), error_code=code)
    tonight.note(took_s=time.monotonic() - tonight.began_s)
    if tonight.is_ours:
        try:
            hand_on(tonight)
        except KeyboardInterrupt:
            cut = "interrupted before the page was written"
            tonight.note(broken=(*tonight.report.broken, cut))
    tell(tonight)
    return exit_code(tonight.report)


def _night(tonight: Tonight) -> None:
    """All of it; what is known so far stands in `tonight`."""
    tonight.setup = setup = set_up(tonight.options)
    tonight.note(
        machine=setup.machine,
        device=setup.device,
        commit=setup.checkout.commit,
        began=setup.now(),
        looks_wrong=_looks_wrong(setup),
    )
    is_simulated = setup.device == MARK
    tonight.is_ours = False
    with only_one(f"{setup.machine} in {setup.results}" if is_simulated else "this machine"):
        tonight.is_ours = True
        tonight.is_underway = True
        kept = _measured(tonight, tonight.within(setup, FOR_THE_RUN))
        run = kept.run
        tonight.run, tonight.launches = run, again.launches_of(run.winners().values())
        _note_measured(tonight, kept)
        if kept.ended in ("complete", "stopped") and run.header.scratch is None:
            nights.leave_open(setup.results, setup.machine, run.run_id)
            judge_tonight(tonight, setup, run)


def _looks_wrong(setup: Setup) -> tuple[str, ...]:
    """What the doctor warns of; nothing of a machine that is made up."""
    if setup.torch is None:
        return ()
    hardware = facts.nvidia_hardware()
    found = findings(setup.facts, hardware, setup.torch, has_git=shutil.which("git") is not None)
    return tuple(
        f"{one.text}{f'; {one.remedy}' if one.remedy else ''}"
        for one in found
        if one.level in ("broken", "warn")
    )


def _measured(tonight: Tonight, setup: Setup) -> Kept:
    """Tonight's run: the rest of one that was cut off, or a new one."""
    options = tonight.options
    adopt_left_over(setup)
    measured = _left_open(setup)
    if measured is not None:
        say(f"run {measured.run_id} is measured, and was not judged")
        return Kept(run=measured, ended="complete")
    header, plan, earlier = fresh(options, setup)
    partial = partial_run(setup)
    if partial is not None and _is_tonights(partial, header, setup, options):
        say(f"going on with run {partial.run_id}, which was cut off")
        header, plan, earlier = rest_of(partial, options, setup)
    elif options.budget is not None:
        header, plan = _that_fits(tonight, options.budget, setup, header, plan)
    return measure_and_keep(setup, header, plan, earlier, tells_asv=not options.no_asv)


def _is_tonights(
    partial: WholeRun, header: RunHeader, setup: Setup, options: NightlyOptions
) -> bool:
    """Whether a run that was cut off is this night's: not too old, and of the same cases."""
    old = partial.header
    same = (old.planned, old.launches) == (header.planned, header.launches)
    fits = options.budget is not None and {*old.planned} <= {*header.planned}
    return (same or fits) and 0 <= epoch_s(setup.now()) - epoch_s(old.started_at) < RESUMED_FOR_S


def _that_fits(
    tonight: Tonight, seconds: float, setup: Setup, header: RunHeader, plan: Plan
) -> tuple[RunHeader, Plan]:
    """As many launches and cases as there is time for, going by the last run; all of a first."""
    if not setup.results.is_dir():
        return header, plan
    known = nights.of_machine(setup.results, setup.machine, warn)
    earlier = night_history.runs_before(open_history(str(setup.results)), header, known)
    if not earlier:
        return header, plan
    measured_at = night_history.measured_at(earlier)
    oldest_first = sorted(plan.cases, key=lambda case: measured_at.get(str(case), 0.0))
    costs_s = dict.fromkeys(oldest_first, night_history.launch_s(earlier[0]))
    launches, cases = fitting(costs_s, FOR_THE_RUN * seconds, header.launches)
    cases = cases or tuple(oldest_first[:1])
    if len(cases) < len(plan.cases):
        num = number_of(len(plan.cases) - len(cases), "case")
        tonight.remark(f"{num} did not fit into --budget, those that were measured last")
    chosen = tuple(case for case in plan.cases if case in cases)
    plan = replace(plan, cases=chosen, profile=plan.profile.of(launches))
    return header_of(plan, setup, setup.checkout), plan


def _left_open(setup: Setup) -> WholeRun | None:
    """The run of this commit that an earlier try has measured whole, and not come to judge."""
    left = nights.left_open(setup.results, setup.machine)
    commit = setup.checkout.commit
    found = runs.of_commit(setup.results, setup.machine, commit, warn) if left else []
    return next((run for run in found if run.run_id == left and run.is_whole), None)


def _note_measured(tonight: Tonight, kept: Kept) -> None:
    header, results = kept.run.header, kept.run.results()
    counted = Counter(result.status for result in results)
    failed, _ = night_history.failures(kept.run, ())
    recorded = (f"asv lacks the run: {kept.asv_error}",) if kept.asv_error else ()
    tonight.note(
        run_id=kept.run.run_id,
        began=header.started_at,
        ended=kept.ended,
        scratch=header.scratch,
        launches=launches_in_words(header.launches, kept.run.measured_launches, True),
        enough=len(tonight.launches),
        counts={status: counted[status] for status in STATUSES if counted[status]},
        failed=failed,
        broken=(*tonight.report.broken, *recorded),
    )
