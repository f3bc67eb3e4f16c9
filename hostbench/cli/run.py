"""`hostbench run`: measure in the foreground, keep everything, then have asv record the commit."""

import sys
from dataclasses import dataclass
from pathlib import Path

from hostbench import facts
from hostbench.cli import asv_record
from hostbench.cli.measuring import End, walk
from hostbench.cli.output import warn
from hostbench.cli.page import terminal
from hostbench.cli.program import given, program
from hostbench.cli.results import check_writable
from hostbench.cli.run_setup import (
    Measuring,
    Setup,
    adopt_left_over,
    fresh,
    look,
    resumed,
    set_up,
)
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    HostbenchError,
    NothingMeasured,
)
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.device.simulated_file import MARK
from hostbench.report.page import page
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter, read
from hostbench.store import adopt, frame
from hostbench.store.runs import WholeRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Measuring):
    no_asv: bool = False


def execute(options: RunOptions) -> int:
    """Measure, archive, record, answer. Exit code 4 if a case failed or the run was interrupted, 3
    if none has a number, else 0: also of a part that stopped as it was asked to."""
    become_subreaper()
    setup = set_up(options)
    adopt_left_over(setup)
    header, plan, earlier = resumed(options, setup) if options.resume else fresh(options, setup)
    path = places.journal_path(setup.results, header.run_id)
    check_writable(setup.results / setup.machine / "runs")
    recorded = True
    with terminate_as_interrupt():
        with JournalWriter(path, header) as journal:
            end, _ = walk(setup, plan, [journal])
            # Workers run the code of the start, but which commit that was can no longer be said.
            unchanged = look(setup.root, setup.results, setup.simulation) == setup.checkout
            scratch = None if unchanged else "the checkout changed during the run"
            status = "complete" if end == "complete" else "interrupted"
            journal.finish(status, setup.now(), scratch)
            judged = end == "complete" and header.scratch is None and scratch is None
            held = read(path)
            if setup.device != MARK and not options.no_asv:
                recorded = _tell_asv(WholeRun(parts=(*earlier, held)), setup, judged)
        if not held.records:
            path.unlink()
            raise NothingMeasured("interrupted before the first case was measured: nothing to keep")
        part = adopt.archive_journal(setup.results, path, held, lambda: setup.machine)
    code = _answer(options, setup.results, WholeRun(parts=(*earlier, part)), end)
    return code if recorded else EXIT_FAILED


def _tell_asv(run: WholeRun, setup: Setup, judged: bool) -> bool:
    """Have asv know the machine, and record a run that is judged: whether it has that run now, or
    was not meant to have it. The archive has it either way."""
    if setup.root is None:
        return True
    if places.asv_results(setup.root).resolve() != setup.results.resolve():
        if judged:
            warn("asv is left out: --results is not the folder that asv.conf.json names")
        return True
    try:
        facts.register_with_asv(facts.asv_machine_entry(setup.machine, setup.facts))
        if not judged:
            return True
        print("asv records the run", file=sys.stderr)
        wrong = asv_record.record(run, setup.root, setup.results)
    except HostbenchError as error:
        wrong = str(error)
    except KeyboardInterrupt:
        wrong = "interrupted while asv recorded the run"
    if wrong:
        warn(f"{wrong}; the run is archived all the same")
    return wrong is None or not judged


def _answer(options: Measuring, results: Path, run: WholeRun, end: End) -> int:
    print(page(frame.of_run(results, run, warn), run, terminal=terminal()))
    folder = results / str(run.header.machine) / "runs"
    print(f"kept in {folder}; see it: {program()} dashboard{given(options, 'results')}")
    if run.header.commit is None:
        print(f"compare two runs that belong to no commit: {program()} compare run:ID run:ID")
    statuses = [result.status for result in run.results()]
    if any(record.measurement.traceback for record in run.winners().values()):
        shown = f"--run {run.run_id} --tracebacks{given(options, 'results')}"
        print(f"why cases failed: {program()} report {shown}")
    if end != "complete":
        rest = f"{program()} run --resume{given(options, 'machine', 'results')}"
        warn(f"{end}; what was measured is kept, `{rest}` does the rest")
    if end == "interrupted" or "failed" in statuses:
        return EXIT_FAILED
    return EXIT_OK if "ok" in statuses else EXIT_NOTHING_MEASURED
