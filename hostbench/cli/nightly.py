"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the nights
before, measure once more what moved, say what it was."""

import math
import random
import time
import traceback
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from hostbench.cli import ab
from hostbench.cli.history import open_history
from hostbench.cli.measuring import End, Measured, measure
from hostbench.cli.output import check_folder, program, typed_again, warn, write_file
from hostbench.cli.page import show_page
from hostbench.cli.run_setup import (
    Measuring,
    Setup,
    adopt_left_over,
    header_of,
    planned,
    set_up,
)
from hostbench.core.case import Case, as_typed
from hostbench.core.clock import epoch_s, now
from hostbench.core.errors import EXIT_FAILED, HostbenchError, Interrupted, NothingMeasured
from hostbench.core.processes import become_subreaper
from hostbench.core.records import CaseRecord
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.core.units import number_of
from hostbench.device.simulated_file import MARK
from hostbench.judge import night as judge
from hostbench.judge.night import CONFIRMED, LaunchesOf, LevelsOf, SeriesName
from hostbench.judge.two_sides import Comparison, TwoSides, compare
from hostbench.report import night_history
from hostbench.report.blocks import Block, Page
from hostbench.report.comparison import detectable
from hostbench.report.nightly import (
    MovedSeries,
    NightReport,
    as_json,
    blocks,
    exit_code,
    table,
    to_store,
)
from hostbench.report.page import blocks as blocks_of_run
from hostbench.report.write import markdown
from hostbench.runner.lock import only_one
from hostbench.runner.plan import Plan, fitting
from hostbench.store import frame, nights, triage
from hostbench.store.columns import STATUSES
from hostbench.store.nights import StoredNight
from hostbench.store.results import Results, damage
from hostbench.store.runs import WholeRun, launches_in_words
from hostbench.vcs.side import NothingDiffers

FOR_THE_RUN, FOR_MEASURING = 0.75, 0.95
"""Shares of `--budget`: up to there the run goes, and what is measured once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyOptions(Measuring):
    no_asv: bool = False
    summary: Path | None = None
    format: str = "text"


@dataclass(slots=True, kw_only=True)
class _Tonight:
    """The night as far as it has come: an interrupt ends it anywhere, and its summary is due all
    the same."""

    options: NightlyOptions
    report: NightReport = field(default_factory=NightReport)
    run: WholeRun | None = None
    results: Path | None = None
    began_s: float = field(default_factory=time.monotonic)
    is_underway: bool = False
    """Options and names are right: what goes wrong from here on is none of theirs (a full disk)."""
    is_ours: bool = True
    """No other nightly measures here, whose files these would be."""

    def note(self, **known: Any) -> None:
        """Fields of the report that are known now."""
        self.report = replace(self.report, **known)

    def remark(self, *texts: str) -> None:
        self.note(remarks=(*self.report.remarks, *texts))

    def failed_beside(self, text: str) -> None:
        self.note(broken=(*self.report.broken, text))

    @contextmanager
    def beside(self, what: str) -> Iterator[None]:
        """A step beside the measuring: where it fails the night goes on, and says so."""
        try:
            yield
        except Exception as error:
            self.failed_beside(f"{what}: {_in_words(error)}")

    def left_s(self, share: float) -> float:
        """Seconds until so much of the budget is used up."""
        budget_s = self.options.budget or math.inf
        return max(share * budget_s - (time.monotonic() - self.began_s), 0.0)


def execute(**given: Any) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    options = NightlyOptions(**given)
    become_subreaper()
    if options.summary is not None:
        check_folder(options.summary, "--summary")
    tonight = _Tonight(options=options)
    try:
        _measure_and_judge(tonight)
    except (KeyboardInterrupt, Interrupted):
        tonight.note(cut_off="interrupted")
    except Exception as error:
        of_usage = isinstance(error, HostbenchError) and not tonight.is_underway
        code = error.exit_code if of_usage else EXIT_FAILED  # type: ignore[attr-defined]
        tonight.note(error=_in_words(error), error_code=code)
    tonight.note(took_s=time.monotonic() - tonight.began_s)
    if tonight.is_ours:
        _conclude(tonight)
        tonight.remark(*_next_steps(options, tonight.report))
        _write_summary(tonight)
    night = tonight.report
    run, results = tonight.run, tonight.results

    def with_run() -> list[Block]:
        """The night; in HTML the run that it measured, too."""
        parts = blocks(night)
        if options.format == "html" and run is not None and results is not None:
            parts += blocks_of_run(frame.of_run(results, run, warn), run)
        return parts

    page = Page(blocks=with_run, table=lambda: table(night), document=lambda: as_json(night))
    show_page(options.format, page)
    return exit_code(night)


def _measure_and_judge(tonight: _Tonight) -> None:
    setup = set_up(tonight.options)
    tonight.results = setup.results
    tonight.note(
        machine=setup.machine,
        device=setup.device,
        commit=setup.checkout.commit,
        began=now(),
    )
    is_simulated = setup.device == MARK
    tonight.is_ours = False
    with only_one(f"{setup.machine} in {setup.results}" if is_simulated else "this machine"):
        tonight.is_ours = tonight.is_underway = True
        kept = _measure(tonight, replace(setup, budget_s=tonight.left_s(FOR_THE_RUN)))
        tonight.run = kept.runs[0]
        launches = _launches_of(kept.runs[0].winners().values())
        _note_measured(tonight, kept, launches)
        if tonight.report.cut_off:
            return
        history = open_history(str(setup.results))
        if kept.runs[0].header.scratch is None:
            warn("judging")
            _judge(tonight, setup, kept.runs[0], launches, history)
        if damaged := damage(history):
            more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
            tonight.failed_beside(f"{damaged[0]}{more}")


# ---- measuring ----------------------------------------------------------------------------------


def _measure(tonight: _Tonight, setup: Setup) -> Measured:
    """Tonight's run."""
    options = tonight.options
    adopt_left_over(setup)
    plan = planned(options, setup)
    if options.budget is not None:
        plan = _that_fits(tonight, setup, plan)
    return measure(setup, plan, tells_asv=not options.no_asv)


def _that_fits(tonight: _Tonight, setup: Setup, plan: Plan) -> Plan:
    """As many launches and cases as there is time for, going by the last run; all of a first."""
    if not setup.results.is_dir():
        return plan
    header = header_of(plan, setup, setup.checkout)
    known = nights.of_machine(setup.results, setup.machine, warn)
    earlier = night_history.runs_before(open_history(str(setup.results)), header, known)
    if not earlier:
        return plan
    measured_at = night_history.measured_at(earlier)
    oldest_first = sorted(plan.cases, key=lambda case: measured_at.get(str(case), 0.0))
    costs_s = dict.fromkeys(oldest_first, night_history.launch_s(earlier[0]))
    launches, fit = fitting(costs_s, setup.budget_s, header.launches)
    cases = tuple(case for case in plan.cases if case in (fit or oldest_first[:1]))
    if len(cases) < len(plan.cases):
        num = number_of(len(plan.cases) - len(cases), "case")
        tonight.remark(f"{num} did not fit into --budget: those that were measured last")
    return replace(plan, cases=cases, profile=plan.profile.of(launches))


def _note_measured(tonight: _Tonight, kept: Measured, launches: LaunchesOf) -> None:
    run = kept.runs[0]
    counted = Counter(result.status for result in run.results())
    if kept.asv_error:
        tonight.failed_beside(f"asv lacks the run: {kept.asv_error}")
    tonight.note(
        run_id=run.run_id,
        began=run.header.started_at,
        cut_off="" if kept.end in ("complete", "stopped") else kept.end,
        scratch=run.header.scratch,
        launches=launches_in_words(run.header.launches, run.measured_launches, True),
        enough=len(launches),
        counts={status: counted[status] for status in STATUSES if counted[status]},
        failed=tuple(
            f"{as_typed(str(result.case))}: {result.reason}"
            for result in run.results()
            if result.status == "failed"
        ),
    )


def _launches_of(records: Iterable[CaseRecord]) -> LaunchesOf:
    """Of each series that has enough launches for a verdict, without the observing pass."""
    launches: dict[SeriesName, list[float]] = {}
    for record in records:
        if record.status == "ok" and record.seconds is not None:
            launches.setdefault((str(record.case), record.version), []).append(record.seconds)
    return {name: own for name, own in launches.items() if len(own) >= MIN_LAUNCHES}


# ---- judging ------------------------------------------------------------------------------------


def _judge(
    tonight: _Tonight, setup: Setup, run: WholeRun, launches: LaunchesOf, history: Results
) -> None:
    """Hold the run against those before, and measure once more what moved."""
    known = nights.of_machine(setup.results, setup.machine, warn)
    earlier = night_history.runs_before(history, run.header, known)
    if earlier:
        _hold_against(tonight, setup, run, launches, earlier, known)
    entries = [*triage.read(setup.results).entries.values()]
    tonight.note(
        still=night_history.still_slower(known, to_store(tonight.report), entries),
        events=night_history.new_events(history, Path.cwd(), setup.machine, known),
    )


def _hold_against(
    tonight: _Tonight,
    setup: Setup,
    run: WholeRun,
    launches: LaunchesOf,
    earlier: Sequence[WholeRun],
    known: Sequence[StoredNight],
) -> None:
    since_change, apart = _by_level(earlier, night_history.confirmed_at(known))
    held = judge.held_against(launches, since_change)
    moved = judge.suspects(launches, since_change, apart)
    # Of the runs that what moved was compared with the oldest: all that may have moved it is since.
    before = earlier[max((held[name][0] for name in moved), default=0)]
    lasting, passing = night_history.facts_moved(before, run)
    tonight.note(
        before=tuple(earlier[at].run_id for at in sorted(set(chain(*held.values()))) or [0]),
        compared=len(held),
        same_code=before.header.commit == run.header.commit,
        lasting=lasting,
        passing=passing,
        landed=night_history.landed(Path.cwd(), before.header.commit, run.header.commit),
        broke=night_history.lost("failed", run, earlier),
        skipped=night_history.lost("skipped", run, earlier),
        detectable=detectable(compare(judge.against_level([launches], since_change, apart))),
    )
    if not moved:
        return
    _note_moved(tonight, moved, {})
    names = judge.to_measure_again(moved, len(launches))
    works = setup.workloads.values()
    by_name = {str(case): case for work in works for case in work.cases()}
    cases = [by_name[case] for case, _ in names if case in by_name]
    try:
        again, end = _measure_again(
            tonight,
            setup,
            str(before.header.commit),
            cases,
            lambda second: judge.against_level([launches, second], since_change, apart),
        )
    except Interrupted:
        raise
    except HostbenchError as error:
        tonight.remark(f"what moved could not be measured again: {error}")
        return
    if end == "interrupted":
        raise KeyboardInterrupt
    _note_moved(tonight, moved, again)


def _by_level(
    earlier: Sequence[WholeRun], changed_at: Mapping[SeriesName, Sequence[float]]
) -> tuple[list[LaunchesOf], LevelsOf]:
    """(of each run the series that have not changed since, of each series the seconds of the runs
    before, those between two changes together)."""
    since: list[LaunchesOf] = []
    apart: dict[SeriesName, list[list[float]]] = {
        name: [[] for _ in times] for name, times in changed_at.items()
    }
    for run in earlier:
        launches, at_s = _launches_of(run.winners().values()), epoch_s(run.header.started_at)
        num = {name: bisect_right(changed_at.get(name, ()), at_s) for name in launches}
        since.append({n: own for n, own in launches.items() if num[n] == len(apart.get(n, ()))})
        for name in launches.keys() - since[-1].keys():
            apart[name][num[name]].append(median(launches[name]))
    return since, apart


def _note_moved(
    tonight: _Tonight,
    moved: Mapping[SeriesName, Comparison],
    again: Mapping[SeriesName, Comparison],
) -> None:
    """Each series that moved with its cause, as far as it was measured `again`. Of those that only
    seemed to, the ones that were."""
    night = tonight.report
    known = {
        "same_code": night.same_code,
        "lasting": bool(night.lasting),
        "passing": bool(night.passing),
    }
    tonight.note(
        moved=tuple(
            MovedSeries(
                case=case,
                version=version,
                tonight=comparison,
                again=again.get((case, version)),
                cause=judge.cause(comparison, again.get((case, version)), **known),
            )
            for (case, version), comparison in moved.items()
            if judge.has_moved(comparison) or (case, version) in again
        )
    )


def _measure_again(
    tonight: _Tonight,
    setup: Setup,
    before: str,
    cases: Sequence[Case],
    with_second: Callable[[LaunchesOf], Mapping[SeriesName, TwoSides]],
) -> tuple[Mapping[SeriesName, Comparison], End]:
    """The commit `before` against the working tree, interleaved; where both are the same code, the
    runs before against tonight's with a second one. Raises HostbenchError where neither can be
    measured."""
    num, left_s = number_of(len(cases), "case"), tonight.left_s(FOR_MEASURING)
    if not left_s:
        raise NothingMeasured("--budget is used up")
    options = tonight.options
    if not tonight.report.same_code:
        warn(f"measuring {num} interleaved with {before[:8]}")
        asked = ab.AbOptions(
            a=before,
            case=tuple(map(str, cases)),
            budget=None if math.isinf(left_s) else left_s,
            device=setup.device,
            launches=options.launches,
            deadline=options.deadline,
            machine=setup.machine,
            results=str(setup.results),
        )
        try:
            measured = ab.measure_sides(asked)
        except NothingDiffers:  # commits that touch nothing that is measured
            tonight.note(same_code=True)
        else:
            tonight.note(again=measured.measured.run_ids)
            tonight.remark(*measured.notes)
            both = judge.interleaved(*map(_launches_of, measured.measured.records))
            return compare(both), measured.measured.end
    warn(f"measuring {num} a second time")
    seed = random.SystemRandom().getrandbits(32)  # an order of its own
    plan = replace(planned(options, setup), cases=tuple(cases), seed=seed)
    kept = measure(replace(setup, budget_s=left_s), plan)  # asv keeps the first
    tonight.note(again=(kept.runs[0].run_id,))
    second = _launches_of(kept.runs[0].winners().values())
    every = compare(with_second(second))
    return {name: one for name, one in every.items() if name in second}, kept.end


# ---- handing on ---------------------------------------------------------------------------------


def _conclude(tonight: _Tonight) -> None:
    """Keep what was concluded. A night that was interrupted is not."""
    night, results = tonight.report, tonight.results
    if not night.cut_off and night.run_id and results is not None and night.scratch is None:
        with tonight.beside("the night could not be kept"):
            nights.write(results, to_store(night))


def _write_summary(tonight: _Tonight) -> None:
    path = tonight.options.summary
    if path is not None:
        with tonight.beside(f"the summary {path} could not be written"):
            text = f"{markdown(blocks(tonight.report))}\n"
            write_file(path, text.encode(errors="replace"), "--summary")


def _next_steps(options: NightlyOptions, night: NightReport) -> Iterator[str]:
    """What to type next."""
    where = typed_again(options, "results")
    if night.run_id:
        yield f"see it: `{program()} dashboard{where}`"
    if night.failed:
        shown = f"--run {night.run_id} --tracebacks{where}"
        yield f"why cases failed: `{program()} report {shown}`"
    code = night.of("code", verdict="slower")
    if code and len(night.landed) > 1:
        name = f"{code[0].case}@{night.machine}"
        yield f"which commit it was: `{program()} bisect '{name}'{where}`"
    for series in night.of(*CONFIRMED, verdict="slower")[:1]:
        since = str(night.commit)[:8] if series.cause == "code" else night.run_id
        name = f"{series.case}@{night.machine}"
        yield (
            "if it is intended, accept it, and no night names it any more: "
            f"`{program()} triage set '{name}' {since} accepted{where}`"
        )


def _in_words(error: Exception) -> str:
    """A fault of hostbench's own with its traceback on stderr: the summary is due all the same."""
    if isinstance(error, HostbenchError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"
