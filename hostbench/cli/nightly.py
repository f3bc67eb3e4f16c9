"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the level of
the runs before, measure once more what moved, say what it was."""

import math
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hostbench.cli.measuring import Measuring, measure_sides, set_up
from hostbench.cli.output import program, show_page, typed_again, warn, write_file
from hostbench.cli.results import open_history, results_folder
from hostbench.core.errors import EXIT_FAILED, HostbenchError, Interrupted, NothingMeasured
from hostbench.core.processes import only_one
from hostbench.core.records import Run
from hostbench.core.units import number_of
from hostbench.device.simulated_file import MARK
from hostbench.judge import night as judge
from hostbench.report import nightly as report
from hostbench.report import page as run_page
from hostbench.report.blocks import Page
from hostbench.report.comparison import Comparisons, between, table
from hostbench.report.nightly import Tonight
from hostbench.report.write import markdown
from hostbench.store import nights
from hostbench.store.results import Results, damage, frame_of_run
from hostbench.vcs.measure import Measured, Setup, measure
from hostbench.vcs.side import NothingDiffers

FOR_THE_RUN, FOR_MEASURING = 0.75, 0.95
"""Shares of `--budget`: up to there the run goes, and what is measured once more."""


def execute(*, summary: Path | None, budget: float, format: str, **measuring: Any) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    options, night, began_s = Measuring(**measuring), Tonight(), time.monotonic()
    simulations = f"simulations into {options.results or Path.cwd()}"
    with only_one(simulations if options.device == MARK else "this machine"):
        try:
            setup = set_up(options)
            night.machine = setup.machine
            _Nightly(options, setup, night, budget, began_s).measure_and_judge()
        except (KeyboardInterrupt, Interrupted):
            night.ended, night.code = f"interrupted, {report.START_AGAIN}", EXIT_FAILED
        except HostbenchError as error:
            night.code = EXIT_FAILED if night.machine else error.exit_code  # a wrong option
            end = "broken off" if night.code == EXIT_FAILED else "nothing measured"
            night.ended = f"{end}: {error}"
        except Exception as error:  # the summary is due all the same
            traceback.print_exception(error)
            night.ended = f"broken off: {type(error).__name__}: {error}"
            night.code = EXIT_FAILED
        if summary is not None:
            try:
                text = markdown(report.blocks(night))
                write_file(summary, f"{text}\n".encode(errors="replace"))
            except HostbenchError as error:
                night.lists["broken"].append(f"the summary is not written: {error}")
    blocks = report.blocks(night)
    page = Page(
        blocks=lambda: blocks,
        table=lambda: table(night.rows),
        document=lambda: report.as_json(night),
    )
    if format == "html" and night.run is not None:
        rows = frame_of_run(results_folder(options.results), night.run, warn)
        blocks += run_page.blocks(rows, night.run)
    show_page(format, page)
    return night.exit_code


@dataclass(frozen=True, slots=True)
class _Nightly:
    """A night as it goes: an interrupt may end it anywhere."""

    options: Measuring
    setup: Setup
    night: Tonight
    budget_s: float
    began_s: float

    def measure_and_judge(self) -> None:
        """Measure, hold the run against those before, and keep what was concluded; a scratch run is
        not judged. What is damaged is named."""
        night, setup = self.night, self.setup
        most = setup.plan.profile.launches if math.isfinite(self.budget_s) else None
        measured = measure(setup, budget_s=self._left_s(FOR_THE_RUN), most=most, tells_asv=True)
        (run,) = measured.runs
        what, how = run_page.header(run)
        night.run, night.about = run, [what, f"{how} · run {run.run_id}"]
        if measured.asv_error:
            night.lists["broken"].append(f"asv lacks the run: {measured.asv_error}")
        if measured.is_cut_off:
            night.ended, night.code = f"{measured.end}, {report.START_AGAIN}", EXIT_FAILED
            return
        stored = open_history(str(setup.results))
        night.lists["broken"] += damage(stored)
        night.known = nights.of_machine(setup.results, setup.machine)
        night.compared = report.against_level(night, stored, [run.run_id])
        if run.header.scratch is None:
            suspects = judge.suspects(night.compared)
            before = report.run_before(night, stored, [case for _, case, _ in suspects])
            if before is not None:
                report.list_differences(night, before, run, Path.cwd())
                night.moved = self._why_moved(run, before, suspects)
            report.list_events(night, stored)
        where = typed_again(self.options, "results")
        night.lists["remarks"] += report.next_steps(night, run, program(), where)
        if run.header.scratch is None:
            nights.write(setup.results, report.concluded(night, run))

    def _left_s(self, share: float) -> float:
        """Seconds until so much of the budget is used up."""
        return max(share * self.budget_s - (time.monotonic() - self.began_s), 0.0)

    def _why_moved(self, run: Run, before: Run, suspects: Comparisons) -> Comparisons:
        """What moved and why, with what seems to have measured again."""
        night, is_same = self.night, False
        again: Comparisons = {}
        most = max(judge.MOST_AGAIN, round(judge.SHARE_AGAIN * len(night.compared)))
        names = {case for _, case, _ in [*suspects][:most]}
        try:
            if names:
                measured = self._measure_again(names, run, before)
                history, is_same = Results(self.setup.results), not measured.sides
                if is_same:
                    both = report.against_level(night, history, [run.run_id, *night.again])
                else:
                    both = between(history, measured).comparisons
                again = {key: one for key, one in both.items() if key[1] in names}
        except Interrupted:
            raise
        except HostbenchError as error:  # also a shallow clone, which lacks the commit
            night.lists["remarks"].append(f"what moved could not be measured again: {error}")
        facts = {name: bool(night.lists[name]) for name in ("lasting", "passing")}
        return judge.moved(suspects, again, same_code=is_same, **facts)

    def _measure_again(self, names: Iterable[str], run: Run, before: Run) -> Measured:
        """Interleaved with the commit of the night before, or alone where the code is the same.
        Raises KeyboardInterrupt where it was interrupted."""
        night, left_s, measured = self.night, self._left_s(FOR_MEASURING), None
        if not left_s:
            raise NothingMeasured("--budget is used up")
        families = {name.partition(".")[0] for name in names}
        options = replace(self.options, families=tuple(sorted(families)), case=tuple(sorted(names)))
        warn(f"measuring {number_of(len(options.case), 'case')} again")
        if before.header.commit not in (None, run.header.commit):
            with suppress(NothingDiffers):  # of commits that touch nothing that is measured
                measured = measure_sides(options, before.header.commit, None, left_s)
        measured = measured or measure(set_up(options), budget_s=left_s)
        night.again = [run.run_id for run in measured.runs]
        night.about.append(f"measured again: run {' and run '.join(night.again)}")
        night.lists["remarks"] += measured.notes
        if measured.end == "interrupted":
            raise KeyboardInterrupt
        return measured
