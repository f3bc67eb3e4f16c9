"""`hostbench nightly`: a night of a machine, unattended. Measure, keep, hold against the nights
before, measure once more what moved, say what it was."""

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
from hostbench.core.clock import now
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
from hostbench.report import night_history as history
from hostbench.report import nightly as report
from hostbench.report.blocks import Page
from hostbench.report.nightly import Tonight
from hostbench.report.page import blocks as blocks_of_run
from hostbench.report.write import markdown
from hostbench.runner.lock import only_one
from hostbench.store import nights, points
from hostbench.store.nights import Night
from hostbench.store.results import Results, damage
from hostbench.vcs.side import NothingDiffers

FOR_THE_RUN, FOR_MEASURING = 0.75, 0.95
"""Shares of `--budget`: up to there the run goes, and what is measured once more."""


def execute(*, summary: Path | None, budget: float | None, format: str, **measuring: Any) -> int:
    """The summary is written whatever happened. Exit code 2 for a wrong option, 4 where something
    failed or was cut off, 1 where something is slower, 3 where nothing was measured, else 0."""
    options, night, began_s = Measuring(**measuring), Tonight(), time.monotonic()
    become_subreaper()
    simulations = f"simulations into {options.results or Path.cwd()}"
    with only_one(simulations if options.device == MARK else "this machine"):
        try:
            setup = set_up(options)
            night.machine = setup.machine
            _Nightly(options, setup, night, budget or math.inf, began_s).measure_and_judge()
        except (KeyboardInterrupt, Interrupted):
            night.ended, night.code = f"interrupted, {report.START_AGAIN}", EXIT_FAILED
        except Exception as error:
            night.code = EXIT_FAILED
            if isinstance(error, HostbenchError) and not night.machine:
                night.code = error.exit_code  # a wrong option: nothing has begun
            end = "broken off" if night.code == EXIT_FAILED else "nothing measured"
            night.ended = f"{end}: {_in_words(error)}"
        _write_summary(options, summary, night)
    blocks = report.blocks(night)
    if format == "html" and night.run is not None:
        rows = points.of_run(results_folder(options.results), night.run, warn)
        blocks += blocks_of_run(rows, night.run)
    page = Page(
        blocks=lambda: blocks,
        table=lambda: report.table(night),
        document=lambda: report.as_json(night),
    )
    show_page(format, page)
    return night.exit_code


def _write_summary(options: Measuring, path: Path | None, night: Tonight) -> None:
    where = typed_again(options, "results")
    night.lists["remarks"] += report.next_steps(night, program(), where)
    if path is not None:
        try:
            text = f"{markdown(report.blocks(night))}\n"
            write_file(path, text.encode(errors="replace"))
        except HostbenchError as error:
            why = f"the summary {path} could not be written: {error}"
            night.lists["broken"].append(why)


def _in_words(error: Exception) -> str:
    """A fault of hostbench's own with its traceback on stderr: the summary is due all the same."""
    if isinstance(error, HostbenchError):
        return str(error)
    traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"


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
        run, night, setup = self._measure(), self.night, self.setup
        if night.ended:
            return
        stored = open_history(str(setup.results))
        if run.header.scratch is None:
            known, earlier = self._before(stored, run.header.started_at)
            if earlier:
                self._hold_against(run, earlier, known)
            night.new, still = history.slower_by_history(stored, setup.machine, known)
            night.lists["events"] = list(map(report.event_in_words, night.new))
            night.lists["still"] = list(map(report.event_in_words, still))
        night.lists["broken"] += damage(stored)
        if run.header.scratch is None:
            nights.write(setup.results, report.concluded(night, run))

    def _left_s(self, share: float) -> float:
        """Seconds until so much of the budget is used up."""
        return max(share * self.budget_s - (time.monotonic() - self.began_s), 0.0)

    def _before(self, stored: Results, until: str) -> tuple[list[Night], list[Run]]:
        """(the nights of this machine, the runs that they left to be held against)."""
        setup = self.setup
        known = nights.of_machine(setup.results, setup.machine, warn)
        return known, history.stored_runs(stored, setup.machine, setup.device, until, known)

    def _measure(self) -> Run:
        night, setup, budget_s = self.night, self.setup, self._left_s(FOR_THE_RUN)
        if math.isfinite(budget_s) and setup.results.is_dir():
            _, earlier = self._before(open_history(str(setup.results)), now())
            setup = replace(setup, plan=history.that_fits(setup.plan, earlier, budget_s))
            if left := len(self.setup.plan.cases) - len(setup.plan.cases):
                text = "did not fit into --budget: those that were measured last"
                night.lists["remarks"].append(f"{number_of(left, 'case')} {text}")
        measured = measure(setup, budget_s=budget_s, tells_asv=True)
        (run,) = measured.runs
        night.run, night.about = run, [report.about(run)]
        night.lists["failed"] = history.with_status("failed", run)
        if measured.asv_error:
            night.lists["broken"].append(f"asv lacks the run: {measured.asv_error}")
        if measured.end in ("interrupted", "device lost"):
            night.ended, night.code = f"{measured.end}, {report.START_AGAIN}", EXIT_FAILED
        elif report.unjudged(run):
            night.code = EXIT_NOTHING_MEASURED
        return run

    def _hold_against(self, run: Run, earlier: Sequence[Run], known: Sequence[Night]) -> None:
        night, launches = self.night, judge.launches_of(run)
        level = judge.runs_before(earlier, known)
        night.held, moved = level.compare(launches), level.suspects(launches)
        # Of the runs that what moved was last measured in the oldest: what moved it is since.
        before = earlier[min(map(level.newest, moved), default=-1)]
        old, new = before.header.commit, run.header.commit
        num = number_of(len(earlier), "run")
        night.about.append(f"compared with {num} before it, the newest {earlier[-1].run_id}")
        night.lists["lasting"], night.lists["passing"] = history.facts_moved(before, run)
        night.lists["landed"] = history.landed(Path.cwd(), old, new)
        night.lists["skipped"] = history.with_status("skipped", run, earlier)
        names = judge.to_measure_again(moved, len(launches))
        again, is_same = judge.Comparisons(), old == new
        if cases := tuple(case for case in self.setup.plan.cases if str(case) in dict(names)):
            try:
                runs = self._measure_again(None if is_same else old, cases)
                is_same = len(runs) == 1
                both = {name: launches[name] for name in names if name in runs[-1]}
                again = level.compare(both, *runs) if is_same else judge.interleaved(*runs)
            except Interrupted:
                raise
            except HostbenchError as error:  # also a shallow clone, which lacks the commit
                text = f"what moved could not be measured again: {error}"
                night.lists["remarks"].append(text)
        facts = {name: bool(night.lists[name]) for name in ("lasting", "passing")}
        night.moved = judge.changes(moved, again, same_code=is_same, **facts)

    def _measure_again(self, before: str | None, cases: tuple[Case, ...]) -> list[judge.LaunchesOf]:
        """The commit `before` and the working tree, interleaved; one more run where both are the
        same code."""
        num, budget_s = number_of(len(cases), "case"), self._left_s(FOR_MEASURING)
        if not budget_s:
            raise NothingMeasured("--budget is used up")
        measured = None
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
                measured = both.measured
                self.night.lists["remarks"] += both.notes
        if measured is None:
            warn(f"measuring {num} a second time")
            setup = self.setup.with_cases(cases)
            measured = measure(setup, budget_s=budget_s)  # asv keeps the first
        run_ids = " and run ".join(run.run_id for run in measured.runs)
        self.night.about.append(f"measured again: run {run_ids}")
        if measured.end == "interrupted":
            raise KeyboardInterrupt
        return list(map(judge.launches_of, measured.runs))
