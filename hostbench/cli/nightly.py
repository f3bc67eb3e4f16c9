"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the nights
before, measure once more what moved, say what it was."""

import math
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hostbench.cli.history import open_history
from hostbench.cli.measuring import Measured, measure
from hostbench.cli.output import program, show_page, typed_again, warn, write_file
from hostbench.cli.run_setup import Measuring, Setup, adopt_left_over, planned, set_up
from hostbench.cli.two_codes import SideOptions, measure_sides
from hostbench.core.case import Case
from hostbench.core.clock import now
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    HostbenchError,
    Interrupted,
    NothingMeasured,
)
from hostbench.core.processes import become_subreaper
from hostbench.core.units import number_of
from hostbench.device.simulated_file import MARK
from hostbench.judge import night as judge
from hostbench.judge.night import CONFIRMED, LaunchesOf, SeriesName
from hostbench.judge.two_sides import Comparison, compare
from hostbench.report import night_history as history
from hostbench.report import nightly as words
from hostbench.report import page as report
from hostbench.report.blocks import Page
from hostbench.report.nightly import MovedSeries, Night
from hostbench.report.write import markdown
from hostbench.runner.lock import only_one
from hostbench.store import nights, points
from hostbench.store.nights import NightChange, StoredNight
from hostbench.store.results import Results, damage
from hostbench.store.runs import WholeRun
from hostbench.vcs.side import NothingDiffers

FOR_THE_RUN, FOR_MEASURING = 0.75, 0.95
"""Shares of `--budget`: up to there the run goes, and what is measured once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyOptions(Measuring):
    summary: Path | None = None
    format: str = "text"


def execute(**given: Any) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    options = NightlyOptions(**given)
    become_subreaper()
    simulations = f"simulations into {options.results or Path.cwd()}"
    with only_one(simulations if options.device == MARK else "this machine"):
        tonight = _Tonight(options)
        tonight.measure_and_judge()
        tonight.keep()
    night, results = tonight.night, tonight.results
    own = words.blocks(night)
    if options.format == "html" and night.run is not None:
        own += report.blocks(points.of_run(results, night.run, warn), night.run)
    page = Page(
        blocks=lambda: own, table=lambda: words.table(night), document=lambda: words.as_json(night)
    )
    show_page(options.format, page)
    return words.exit_code(night)


class _Tonight:
    """A night as far as it has come: an interrupt ends it anywhere, and its summary is due all the
    same."""

    def __init__(self, options: NightlyOptions) -> None:
        self.options, self.night, self.results = options, Night(), Path()
        self._began_s = time.monotonic()

    def measure_and_judge(self) -> None:
        """What is wrong before the first step is the command line's; then it is a failure."""
        night = self.night
        try:
            setup = set_up(self.options)
            self.results, night.machine = setup.results, setup.machine
            run = self._measure(setup)
            if not night.ended:
                self._judge(setup, run)
        except (KeyboardInterrupt, Interrupted):
            night.ended, night.code = words.cut_off("interrupted", night.run), EXIT_FAILED
        except Exception as error:
            night.code = EXIT_FAILED
            if isinstance(error, HostbenchError) and not night.machine:
                night.code = error.exit_code
            is_broken = night.code == EXIT_FAILED
            night.ended = f"{'broken off' if is_broken else 'nothing measured'}: {_in_words(error)}"

    def _left_s(self, share: float) -> float:
        """Seconds until so much of the budget is used up."""
        budget_s = self.options.budget or math.inf
        return max(share * budget_s - (time.monotonic() - self._began_s), 0.0)

    def _measure(self, setup: Setup) -> WholeRun:
        night = self.night
        adopt_left_over(setup)
        setup = replace(setup, budget_s=self._left_s(FOR_THE_RUN))
        plan = planned(self.options, setup)
        if self.options.budget is not None and setup.results.is_dir():
            _, earlier = self._before(setup, open_history(str(setup.results)), now())
            num_cases, plan = len(plan.cases), history.that_fits(plan, earlier, setup.budget_s)
            if left := num_cases - len(plan.cases):
                text = "did not fit into --budget: those that were measured last"
                night.lists["remarks"].append(f"{number_of(left, 'case')} {text}")
        measured = measure(setup, plan, tells_asv=True)
        (run,) = measured.runs
        night.run, night.about, night.quiet = run, [words.about(run)], words.quiet(run, None)
        if measured.asv_error:
            night.lists["broken"].append(f"asv lacks the run: {measured.asv_error}")
        if measured.end in ("interrupted", "device lost"):
            night.ended, night.code = words.cut_off(measured.end, run), EXIT_FAILED
        elif words.unjudged(run):
            night.code = EXIT_NOTHING_MEASURED
        night.lists["failed"] = history.with_status("failed", run)
        return run

    def _before(
        self, setup: Setup, stored: Results, until: str
    ) -> tuple[list[StoredNight], list[WholeRun]]:
        known = nights.of_machine(setup.results, setup.machine, warn)
        return known, history.runs_before(stored, setup.machine, setup.device, until, known)

    def _judge(self, setup: Setup, run: WholeRun) -> None:
        """Hold the run against those before, and measure once more what moved; a scratch run is not
        judged. What is damaged is named."""
        night = self.night
        stored = open_history(str(setup.results))
        if run.header.scratch is None:
            warn("judging")
            known, earlier = self._before(setup, stored, run.header.started_at)
            if earlier:
                self._hold_against(setup, run, earlier, known)
            new, still = history.slower_by_history(stored, setup.machine, known)
            night.named = tuple(f"{event.id} {event.commit}" for event in new)
            night.lists["events"] = list(map(history.event_in_words, new))
            night.lists["still"] = list(map(history.event_in_words, still))
        if damaged := damage(stored):
            more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
            night.lists["broken"].append(f"{damaged[0]}{more}")

    def _hold_against(
        self,
        setup: Setup,
        run: WholeRun,
        earlier: Sequence[WholeRun],
        known: Sequence[StoredNight],
    ) -> None:
        night, launches = self.night, history.launches_of(run)
        since, apart = history.by_level(earlier, known)
        held = compare(judge.against_level([launches], since, apart))
        moved = judge.suspects(launches, since, apart)
        newest = {name: next(i for i, own in enumerate(since) if name in own) for name in held}
        # Of the runs that what moved was last measured in the oldest: what moved it is since.
        before = earlier[max((newest[name] for name in moved), default=0)]
        commit = before.header.commit
        ids = [earlier[at].run_id for at in sorted({*newest.values()} or {0})]
        night.about.append(f"compared with {' and '.join(f'run {name}' for name in ids)}")
        night.quiet, night.same_code = words.quiet(run, held), commit == run.header.commit
        night.lists["lasting"], night.lists["passing"] = history.facts_moved(before, run)
        night.lists["landed"] = history.landed(Path.cwd(), commit, run.header.commit)
        night.lists["skipped"] = history.with_status("skipped", run, earlier)
        night.moved = _with_causes(night, moved, {})
        cases = {str(case): case for work in setup.workloads.values() for case in work.cases()}
        names = judge.to_measure_again(moved, len(launches))
        if not (chosen := [cases[case] for case, _ in names if case in cases]):
            return
        try:
            again = self._interleaved(setup, str(commit), chosen)
            if again is None:
                second = self._second_run(setup, chosen)
                both = compare(judge.against_level([launches, second], since, apart))
                again = {name: both[name] for name in second if name in both}
        except Interrupted:
            raise
        except HostbenchError as error:
            text = f"what moved could not be measured again: {error}"
            night.lists["remarks"].append(text)
        else:
            night.moved = _with_causes(night, moved, again)

    def _interleaved(
        self, setup: Setup, before: str, cases: Sequence[Case]
    ) -> dict[SeriesName, Comparison] | None:
        """The commit `before` against the working tree; None where both are the same code."""
        night, given = self.night, self.options
        if night.same_code:
            return None
        sides = SideOptions(
            a=before,
            case=tuple(map(str, cases)),
            budget=self._again_s(),
            device=setup.device,
            launches=given.launches,
            deadline=given.deadline,
            machine=setup.machine,
            results=str(setup.results),
        )
        warn(f"measuring {number_of(len(cases), 'case')} interleaved with {before[:8]}")
        try:
            both = measure_sides(sides)
        except NothingDiffers:  # commits that touch nothing that is measured
            night.same_code = True
            return None
        night.lists["remarks"] += both.notes
        return compare(judge.interleaved(*self._measured_again(both.measured)))

    def _second_run(self, setup: Setup, cases: Sequence[Case]) -> LaunchesOf:
        setup = replace(setup, budget_s=self._again_s() or math.inf)
        warn(f"measuring {number_of(len(cases), 'case')} a second time")
        plan = replace(planned(self.options, setup), cases=tuple(cases))
        (launches,) = self._measured_again(measure(setup, plan))  # asv keeps the first
        return launches

    def _again_s(self) -> float | None:
        """Seconds for what is measured again. Raises NothingMeasured where none are left."""
        left_s = self._left_s(FOR_MEASURING)
        if not left_s:
            raise NothingMeasured("--budget is used up")
        return None if math.isinf(left_s) else left_s

    def _measured_again(self, measured: Measured) -> list[LaunchesOf]:
        names = " and ".join(f"run {name}" for name in measured.run_ids)
        self.night.about.append(f"measured again: {names}")
        if measured.end == "interrupted":
            raise KeyboardInterrupt
        return list(map(history.launches_of, measured.runs))

    def keep(self) -> None:
        """What was concluded, and the summary."""
        night, path = self.night, self.options.summary
        if night.run and not night.ended and night.run.header.scratch is None:
            with self._beside("the night could not be kept"):
                nights.write(self.results, _to_store(night, night.run))
        night.lists["remarks"] += _next_steps(night, typed_again(self.options, "results"))
        if path is not None:
            with self._beside(f"the summary {path} could not be written"):
                text = f"{markdown(words.blocks(night))}\n"
                write_file(path, text.encode(errors="replace"))

    @contextmanager
    def _beside(self, what: str) -> Iterator[None]:
        """A step beside the measuring: where it fails the night goes on, and says so."""
        try:
            yield
        except Exception as error:
            self.night.lists["broken"].append(f"{what}: {_in_words(error)}")


def _with_causes(
    night: Night, moved: Mapping[SeriesName, Comparison], again: Mapping[SeriesName, Comparison]
) -> list[MovedSeries]:
    """Each series that moved with its cause, as far as it was measured `again`. Of those that only
    seemed to, the ones that were."""
    facts = {name: bool(night.lists[name]) for name in ("lasting", "passing")}
    series = []
    for name, tonight in moved.items():
        if judge.has_moved(tonight) or name in again:
            second = again.get(name)
            cause = judge.cause(tonight, second, same_code=night.same_code, **facts)
            shown = second if second and cause == "code" else tonight
            series.append(MovedSeries(case=name[0], version=name[1], cause=cause, shown=shown))
    return series


def _to_store(night: Night, run: WholeRun) -> StoredNight:
    """What later nights need of it."""
    return StoredNight(
        run_id=run.run_id,
        machine=night.machine,
        commit=run.header.commit,
        started_at=run.header.started_at,
        disturbed=bool(night.of("disturbed", verdict="slower")),
        events=night.named,
        changes=tuple(
            NightChange(case=own.case, version=own.version, effect=own.effect, cause=own.cause)
            for own in night.moved
        ),
    )


def _next_steps(night: Night, where: str) -> Iterator[str]:
    """What to type next."""
    if night.run:
        yield f"see it: `{program()} dashboard{where}`"
    if night.run and night.lists["failed"]:
        shown = f"--run {night.run.run_id} --tracebacks{where}"
        yield f"why cases failed: `{program()} report {shown}`"
    for series in night.of("code", verdict="slower")[:1]:
        if len(night.lists["landed"]) > 1:
            name = f"{series.case}@{night.machine}"
            yield f"which commit it was: `{program()} bisect '{name}'{where}`"
    for series in night.of(*CONFIRMED, verdict="slower")[:1]:
        assert night.run is not None
        commit = str(night.run.header.commit)[:8]
        since = commit if series.cause == "code" else night.run.run_id
        yield (
            "if it is intended, accept it, and no night names it any more: `"
            f"{program()} triage set '{series.case}@{night.machine}' {since} accepted{where}`"
        )


def _in_words(error: Exception) -> str:
    """A fault of hostbench's own with its traceback on stderr: the summary is due all the same."""
    if isinstance(error, HostbenchError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"
