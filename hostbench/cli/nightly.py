"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the level of
the runs before, measure once more what moved, say what it was."""

import math
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hostbench.cli.history import open_history
from hostbench.cli.measuring import measure
from hostbench.cli.output import program, show_page, typed_again, warn, write_file
from hostbench.cli.results import results_folder
from hostbench.cli.run_setup import Measuring, Setup, set_up
from hostbench.cli.two_codes import measure_sides
from hostbench.core.case import Case
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    HostbenchError,
    Interrupted,
    NothingMeasured,
)
from hostbench.core.processes import become_subreaper
from hostbench.core.records import Run
from hostbench.core.units import number_of
from hostbench.device.simulated_file import MARK
from hostbench.judge import night as judge
from hostbench.report import nightly as report
from hostbench.report.blocks import Page
from hostbench.report.comparison import Comparisons, compared, table
from hostbench.report.nightly import Tonight
from hostbench.report.page import blocks as blocks_of_run
from hostbench.report.sides import level_before, of_runs
from hostbench.report.write import markdown
from hostbench.runner.lock import only_one
from hostbench.store import nights, points
from hostbench.store.results import Results, damage
from hostbench.vcs.side import NothingDiffers

FOR_THE_RUN, FOR_MEASURING = 0.75, 0.95
"""Shares of `--budget`: up to there the run goes, and what is measured once more."""


def execute(*, summary: Path | None, budget: float, format: str, **measuring: Any) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    options, night, began_s = Measuring(**measuring), Tonight(), time.monotonic()
    become_subreaper()
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
                why = f"the summary {summary} could not be written: {error}"
                night.lists["broken"].append(why)
    blocks = report.blocks(night)
    if format == "html" and night.run is not None:
        rows = points.of_run(results_folder(options.results), night.run, warn)
        blocks += blocks_of_run(rows, night.run)
    page = Page(
        blocks=lambda: blocks,
        table=lambda: table(night.rows),
        document=lambda: report.as_json(night),
    )
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
        has_budget = math.isfinite(self.budget_s)
        most = setup.plan.profile.launches if has_budget else None
        budget_s = self._left_s(FOR_THE_RUN)
        measured = measure(setup, budget_s=budget_s, most=most, tells_asv=True)
        (run,) = measured.runs
        night.run, night.about = run, [report.about(run)]
        if measured.asv_error:
            night.lists["broken"].append(f"asv lacks the run: {measured.asv_error}")
        if measured.end in ("interrupted", "device lost"):
            night.ended, night.code = f"{measured.end}, {report.START_AGAIN}", EXIT_FAILED
            return
        stored = open_history(str(setup.results))
        night.compared = self._against_level(stored, [run.run_id])
        if report.unjudged(run):
            night.code = EXIT_NOTHING_MEASURED
        before = None
        if run.header.scratch is None:
            known = nights.of_machine(setup.results, setup.machine, warn)
            suspects = judge.suspects(night.compared)
            before = report.run_before(stored, known, [key[-2] for key in suspects])
            if before is not None:
                night.about.append(f"the night before: run {before.run_id}")
                self._why(run, before, suspects)
            night.new, still = report.slower_by_history(stored, setup.machine, known)
            night.lists["events"] = list(map(report.event_in_words, night.new))
            night.lists["still"] = list(map(report.event_in_words, still))
        night.lists["broken"] += damage(stored)
        where = typed_again(self.options, "results")
        night.lists["remarks"] += report.next_steps(night, before, program(), where)
        if run.header.scratch is None:
            nights.write(setup.results, report.concluded(night, run))

    def _left_s(self, share: float) -> float:
        """Seconds until so much of the budget is used up."""
        return max(share * self.budget_s - (time.monotonic() - self.began_s), 0.0)

    def _against_level(self, stored: Results, run_ids: Sequence[str]) -> Comparisons:
        runs = stored.sides()
        tonight = of_runs(runs, self.setup.machine, run_ids)
        return compared(stored, level_before(runs), tonight).comparisons

    def _why(self, run: Run, before: Run, suspects: Comparisons) -> None:
        """Measure again what seems to have moved, and conclude what did it."""
        night, old, new = self.night, before.header.commit, run.header.commit
        night.lists["lasting"], night.lists["passing"] = report.facts_moved(before, run)
        night.lists["landed"] = report.landed(Path.cwd(), old, new)
        most = judge.most_again(len(night.compared))
        names = {key[-2] for key in [*suspects][:most]}
        again: Comparisons = {}
        is_same = old == new
        if cases := tuple(case for case in self.setup.plan.cases if str(case) in names):
            try:
                again, is_same = self._measured_again(run, None if is_same else old, cases)
            except Interrupted:
                raise
            except HostbenchError as error:  # also a shallow clone, which lacks the commit
                text = f"what moved could not be measured again: {error}"
                night.lists["remarks"].append(text)
        facts = {name: bool(night.lists[name]) for name in ("lasting", "passing")}
        night.moved = judge.moved(suspects, again, same_code=is_same, **facts)

    def _measured_again(
        self, run: Run, before: str | None, cases: tuple[Case, ...]
    ) -> tuple[Comparisons, bool]:
        """(the commit `before` and the working tree, interleaved, False); or, where both are the
        same code, (the level and two runs of tonight, True)."""
        num, budget_s = number_of(len(cases), "case"), self._left_s(FOR_MEASURING)
        if not budget_s:
            raise NothingMeasured("--budget is used up")
        runs: tuple[Run, ...] = ()
        with suppress(NothingDiffers):  # commits that touch nothing that is measured
            if before is not None:
                options = replace(
                    self.options,
                    families=(),
                    case=tuple(map(str, cases)),
                    device=self.setup.device,
                    machine=self.setup.machine,
                    results=str(self.setup.results),
                )
                warn(f"measuring {num} interleaved with {before[:8]}")
                both = measure_sides(options, before, (), budget_s)
                runs, end = both.runs, both.end
                self.night.lists["remarks"] += both.notes
        if not runs:
            warn(f"measuring {num} a second time")
            measured = measure(self.setup.with_cases(cases), budget_s=budget_s)
            runs, end = measured.runs, measured.end
        ids = [own.run_id for own in runs]
        self.night.again = ids
        self.night.about.append(f"measured again: run {' and run '.join(ids)}")
        if end == "interrupted":
            raise KeyboardInterrupt
        stored = open_history(str(self.setup.results))
        if len(ids) == 1:
            again = self._against_level(stored, [run.run_id, *ids])
            return {key: one for key, one in again.items() if key[-2] in set(map(str, cases))}, True
        sides = (of_runs(stored.sides(), self.setup.machine, [name]) for name in ids)
        return compared(stored, *sides).comparisons, False
