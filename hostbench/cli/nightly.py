"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the nights
before, measure once more what moved, say what it was."""

import math
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from hostbench.cli.history import open_history
from hostbench.cli.measuring import End, measure
from hostbench.cli.output import check_folder, program, typed_again, warn, write_file
from hostbench.cli.page import show_page
from hostbench.cli.run_setup import Measuring, Setup, adopt_left_over, header_of, planned, set_up
from hostbench.cli.two_codes import SideOptions, measure_sides
from hostbench.core.case import Case
from hostbench.core.clock import now
from hostbench.core.errors import EXIT_FAILED, HostbenchError, Interrupted, NothingMeasured
from hostbench.core.processes import become_subreaper
from hostbench.core.units import number_of
from hostbench.device.simulated_file import MARK
from hostbench.judge import night as judge
from hostbench.judge.night import CONFIRMED, LaunchesOf, SeriesName
from hostbench.judge.two_sides import Comparison, TwoSides, compare
from hostbench.report import night_history as before_tonight
from hostbench.report import page as report
from hostbench.report.blocks import Block, Page
from hostbench.report.comparison import detectable
from hostbench.report.nightly import (
    MovedSeries,
    Night,
    as_json,
    blocks,
    exit_code,
    table,
    to_store,
)
from hostbench.report.write import markdown
from hostbench.runner.lock import only_one
from hostbench.runner.plan import Plan
from hostbench.store import frame, nights, triage
from hostbench.store.columns import STATUSES
from hostbench.store.nights import StoredNight
from hostbench.store.results import damage
from hostbench.store.runs import WholeRun, launches_in_words
from hostbench.vcs.side import NothingDiffers

FOR_THE_RUN, FOR_MEASURING = 0.75, 0.95
"""Shares of `--budget`: up to there the run goes, and what is measured once more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyOptions(Measuring):
    no_asv: bool = False
    summary: Path | None = None
    format: str = "text"


def execute(**given: Any) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    options = NightlyOptions(**given)
    become_subreaper()
    if options.summary is not None:
        check_folder(options.summary, "--summary")
    tonight = _Tonight(options)
    tonight.measure_and_judge()
    night, run, results = tonight.night, tonight.run, tonight.results

    def with_run() -> list[Block]:
        """The night; in HTML the run that it measured, too."""
        own = blocks(night)
        if options.format == "html" and run is not None and results is not None:
            own += report.blocks(frame.of_run(results, run, warn), run)
        return own

    page = Page(blocks=with_run, table=lambda: table(night), document=lambda: as_json(night))
    show_page(options.format, page)
    return exit_code(night)


class _Tonight:
    """A night as far as it has come: an interrupt ends it anywhere, and its summary is due all the
    same."""

    def __init__(self, options: NightlyOptions) -> None:
        self.options, self.night = options, Night()
        self.run: WholeRun | None = None
        self.results: Path | None = None
        self._began_s = time.monotonic()

    def measure_and_judge(self) -> None:
        night = self.night
        is_underway = False
        is_ours = True
        try:
            setup = set_up(self.options)
            self.results, night.machine, night.device = setup.results, setup.machine, setup.device
            night.commit, night.began = setup.checkout.commit, now()
            is_simulated = setup.device == MARK
            is_ours = False  # as long as another nightly may measure here, whose files these are
            with only_one(
                f"{setup.machine} in {setup.results}" if is_simulated else "this machine"
            ):
                # Options and names are right: what goes wrong from here on is none of theirs.
                is_ours = is_underway = True
                self._measure(setup)
                if not night.cut_off:
                    self._judge(setup)
        except (KeyboardInterrupt, Interrupted):
            night.cut_off = "interrupted"
        except Exception as error:
            is_usage = isinstance(error, HostbenchError) and not is_underway
            night.error_code = error.exit_code if is_usage else EXIT_FAILED  # type: ignore[attr-defined]
            night.error = _in_words(error)
        night.took_s = time.monotonic() - self._began_s
        if is_ours:
            self._hand_on()

    def _left_s(self, share: float) -> float:
        """Seconds until so much of the budget is used up."""
        budget_s = self.options.budget or math.inf
        return max(share * budget_s - (time.monotonic() - self._began_s), 0.0)

    @contextmanager
    def _beside(self, what: str) -> Iterator[None]:
        """A step beside the measuring: where it fails the night goes on, and says so."""
        try:
            yield
        except Exception as error:
            self.night.broken.append(f"{what}: {_in_words(error)}")

    # ---- measuring ------------------------------------------------------------------------------

    def _measure(self, setup: Setup) -> None:
        adopt_left_over(setup)
        setup = replace(setup, budget_s=self._left_s(FOR_THE_RUN))
        plan = planned(self.options, setup)
        if self.options.budget is not None and setup.results.is_dir():
            plan = self._that_fits(setup, plan)
        measured = measure(setup, plan, tells_asv=not self.options.no_asv)
        night, (run,) = self.night, measured.runs
        self.run = run
        if measured.asv_error:
            night.broken.append(f"asv lacks the run: {measured.asv_error}")
        counted = Counter(result.status for result in run.results())
        night.run_id, night.began = run.run_id, run.header.started_at
        night.scratch = run.header.scratch
        night.cut_off = "" if measured.end in ("complete", "stopped") else measured.end
        night.launches = launches_in_words(run.header.launches, run.measured_launches, True)
        night.enough = len(before_tonight.launches_of(run))
        night.counts = {status: counted[status] for status in STATUSES if counted[status]}
        night.failed = before_tonight.with_status("failed", run)

    def _that_fits(self, setup: Setup, plan: Plan) -> Plan:
        """As many launches and cases as there is time for, going by the last run."""
        header = header_of(plan, setup, setup.checkout)
        known = nights.of_machine(setup.results, setup.machine, warn)
        earlier = before_tonight.runs_before(open_history(str(setup.results)), header, known)
        fits = before_tonight.that_fits(plan, earlier, setup.budget_s)
        if left := len(plan.cases) - len(fits.cases):
            num = number_of(left, "case")
            self.night.remarks.append(
                f"{num} did not fit into --budget: those that were measured last"
            )
        return fits

    # ---- judging --------------------------------------------------------------------------------

    def _judge(self, setup: Setup) -> None:
        """Hold the run against those before, and measure once more what moved; a scratch run is not
        judged. What is damaged is named."""
        run, night = self.run, self.night
        assert run is not None
        history = open_history(str(setup.results))
        if night.scratch is None:
            warn("judging")
            known = nights.of_machine(setup.results, setup.machine, warn)
            if earlier := before_tonight.runs_before(history, run.header, known):
                self._hold_against(setup, run, earlier, known)
            entries = [*triage.read(setup.results).entries.values()]
            night.still = before_tonight.still_slower(known, to_store(night), entries)
            night.events = before_tonight.new_events(history, Path.cwd(), setup.machine, known)
        if damaged := damage(history):
            more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
            night.broken.append(f"{damaged[0]}{more}")

    def _hold_against(
        self,
        setup: Setup,
        run: WholeRun,
        earlier: Sequence[WholeRun],
        known: Sequence[StoredNight],
    ) -> None:
        night, launches = self.night, before_tonight.launches_of(run)
        since, apart = before_tonight.by_level(earlier, before_tonight.confirmed_at(known))
        held = judge.held_against(launches, since)
        moved = judge.suspects(launches, since, apart)
        # Of the runs that what moved was compared with the oldest: what may have moved it is since.
        before = earlier[max((held[name][0] for name in moved), default=0)]
        commit, tonights = before.header.commit, run.header.commit
        night.before = tuple(earlier[at].run_id for at in sorted({*chain(*held.values())}) or [0])
        night.compared, night.same_code = len(held), commit == tonights
        night.lasting, night.passing = before_tonight.facts_moved(before, run)
        night.landed = before_tonight.landed(Path.cwd(), commit, tonights)
        night.broke = before_tonight.with_status("failed", run, earlier)
        night.skipped = before_tonight.with_status("skipped", run, earlier)
        night.detectable = detectable(compare(judge.against_level([launches], since, apart)))
        if not moved:
            return
        night.moved = _with_causes(night, moved, {})
        cases = {str(case): case for work in setup.workloads.values() for case in work.cases()}
        names = judge.to_measure_again(moved, len(launches))
        chosen = [cases[case] for case, _ in names if case in cases]
        try:
            again, end = self._measure_again(
                setup,
                str(commit),
                chosen,
                lambda second: judge.against_level([launches, second], since, apart),
            )
        except Interrupted:
            raise
        except HostbenchError as error:
            night.remarks.append(f"what moved could not be measured again: {error}")
            return
        if end == "interrupted":
            raise KeyboardInterrupt
        night.moved = _with_causes(night, moved, again)

    def _measure_again(
        self,
        setup: Setup,
        before: str,
        cases: Sequence[Case],
        with_second: Callable[[LaunchesOf], Mapping[SeriesName, TwoSides]],
    ) -> tuple[Mapping[SeriesName, Comparison], End]:
        """The commit `before` against the working tree, interleaved; where both are the same code,
        the runs before against tonight's with a second one. Raises HostbenchError where neither can
        be measured."""
        num, left_s = number_of(len(cases), "case"), self._left_s(FOR_MEASURING)
        if not left_s:
            raise NothingMeasured("--budget is used up")
        options, night = self.options, self.night
        if not night.same_code:
            warn(f"measuring {num} interleaved with {before[:8]}")
            sides = SideOptions(
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
                both = measure_sides(sides)
            except NothingDiffers:  # commits that touch nothing that is measured
                night.same_code = True
            else:
                night.again = both.measured.run_ids
                night.remarks += both.notes
                first, second = map(before_tonight.launches_of, both.measured.runs)
                return compare(judge.interleaved(first, second)), both.measured.end
        warn(f"measuring {num} a second time")
        plan = replace(planned(options, setup), cases=tuple(cases))
        measured = measure(replace(setup, budget_s=left_s), plan)  # asv keeps the first
        night.again = measured.run_ids
        second = before_tonight.launches_of(measured.runs[0])
        every = compare(with_second(second))
        return {name: one for name, one in every.items() if name in second}, measured.end

    # ---- handing on -----------------------------------------------------------------------------

    def _hand_on(self) -> None:
        """Keep what was concluded, and write the summary. A night that was interrupted is not."""
        night, path = self.night, self.options.summary
        if not night.cut_off and night.run_id and self.results and night.scratch is None:
            with self._beside("the night could not be kept"):
                nights.write(self.results, to_store(night))
        night.remarks += _next_steps(night, typed_again(self.options, "results"))
        if path is not None:
            with self._beside(f"the summary {path} could not be written"):
                text = f"{markdown(blocks(night))}\n"
                write_file(path, text.encode(errors="replace"), "--summary")


def _with_causes(
    night: Night,
    moved: Mapping[SeriesName, Comparison],
    again: Mapping[SeriesName, Comparison],
) -> tuple[MovedSeries, ...]:
    """Each series that moved with its cause, as far as it was measured `again`. Of those that only
    seemed to, the ones that were."""
    return tuple(
        MovedSeries(
            case=case,
            version=version,
            tonight=comparison,
            again=again.get((case, version)),
            cause=judge.cause(
                comparison,
                again.get((case, version)),
                same_code=night.same_code,
                lasting=bool(night.lasting),
                passing=bool(night.passing),
            ),
        )
        for (case, version), comparison in moved.items()
        if judge.has_moved(comparison) or (case, version) in again
    )


def _next_steps(night: Night, where: str) -> Iterator[str]:
    """What to type next."""
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
