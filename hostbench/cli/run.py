"""`hostbench run`: measure in the foreground, keep everything, then have asv record the commit."""

import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from hostbench import facts
from hostbench.cli import asv_record
from hostbench.cli.measuring import End, walk
from hostbench.cli.output import warn
from hostbench.cli.page import terminal
from hostbench.cli.program import given, program
from hostbench.cli.report import written
from hostbench.cli.results import check_writable
from hostbench.cli.run_setup import (
    Measuring,
    Setup,
    adopt_left_over,
    fresh,
    resumed,
    set_up,
)
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    DataError,
    HostbenchError,
    NothingMeasured,
)
from hostbench.core.processes import become_subreaper, terminate_as_interrupt
from hostbench.device.simulated_file import MARK
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter, find, is_alive, read
from hostbench.store import adopt, frame, runs
from hostbench.store.runs import WholeRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions(Measuring):
    no_asv: bool = False
    format: str = "text"


def execute(options: RunOptions) -> int:
    """Measure, archive, record, answer. Exit code 4 if a case failed, the run was interrupted or
    its device lost, 3 if none has a number, else 0: also of a part that stopped as it was asked
    to."""
    become_subreaper()
    setup = set_up(options)
    handed_over = None if options.no_asv else _hand_over_left(setup)
    adopt_left_over(setup)
    if options.resume and handed_over is not None:
        return _answer(options, setup.results, handed_over, "complete")
    header, plan, earlier = resumed(options, setup) if options.resume else fresh(options, setup)
    path = places.journal_path(setup.results, header.run_id)
    check_writable(setup.results / setup.machine / "runs")
    with terminate_as_interrupt():
        with JournalWriter(path, header) as journal:
            end, _ = walk(setup, plan, [journal])
            # Workers run the code of the start, but which commit that was can no longer be said.
            unchanged = setup.look() == setup.checkout
            scratch = None if unchanged else "the checkout changed during the run"
            status = "complete" if end == "complete" else "interrupted"
            journal.finish(status, setup.now(), scratch)
            judged = end == "complete" and header.scratch is None and scratch is None
            held = read(path)
            whole = WholeRun(parts=(*earlier, held))
            recorded = _record(options, setup, whole, judged)
        if recorded == "interrupted":  # its journal stays
            warn(
                "interrupted while asv recorded the run; it is kept, and the next `hostbench run`, "
                "also with --resume, hands it to asv"
            )
            _answer(options, setup.results, whole, end)
            return EXIT_FAILED
        if not held.records:
            path.unlink()
            raise NothingMeasured("interrupted before the first case was measured: nothing to keep")
        part = adopt.archive_journal(setup.results, path, held, lambda: setup.machine)
    code = _answer(options, setup.results, WholeRun(parts=(*earlier, part)), end)
    return EXIT_FAILED if recorded == "failed" else code


def _record(
    options: RunOptions, setup: Setup, run: WholeRun, judged: bool
) -> Literal["done", "failed", "interrupted"]:
    """Tell asv, while the journal is ours. Only a run that is judged has something to hand over."""
    if setup.device == MARK or options.no_asv:
        return "done"
    try:
        return "done" if _tell_asv(run, setup, judged) else "failed"
    except KeyboardInterrupt:
        return "interrupted" if judged else "done"


def _hand_over_left(setup: Setup) -> WholeRun | None:
    """Hand asv the runs of this machine that it was kept from recording: whole, to be judged, and
    still in their journals. The last of them."""
    last = None
    for path in find(setup.results):
        try:
            held = None if is_alive(path) else read(path)
        except (DataError, FileNotFoundError):
            continue  # `adopt_left_over` names it
        if held is None or not held.is_complete or held.header.device == MARK:
            continue
        header = held.header
        if (header.by, header.scratch, header.machine) != ("hostbench run", None, setup.machine):
            continue
        archived = runs.of_commit(setup.results, setup.machine, header.commit, warn)
        parts = [*(part for run in archived for part in run.parts), held]
        last = next(run for run in runs.put_together(parts) if run.parts[-1] is held)
        _tell_asv(last, setup, judged=True)
    return last


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
    if wrong:
        warn(f"{wrong}; the run is archived all the same")
    return wrong is None or not judged


def _answer(options: RunOptions, results: Path, run: WholeRun, end: End) -> int:
    print(written(options.format, frame.of_run(results, run, warn), run, terminal()))
    tell = partial(print, file=sys.stdout if options.format == "text" else sys.stderr)
    folder = results / str(run.header.machine) / "runs"
    tell(f"kept in {folder}; see it: {program()} dashboard{given(options, 'results')}")
    if run.header.commit is None:
        tell(f"compare two runs that belong to no commit: {program()} compare run:ID run:ID")
    statuses = [result.status for result in run.results()]
    if any(record.measurement.traceback for record in run.winners().values()):
        shown = f"--run {run.run_id} --tracebacks{given(options, 'results')}"
        tell(f"why cases failed: {program()} report {shown}")
    if end != "complete":
        rest = f"{program()} run --resume{given(options, 'machine', 'results')}"
        warn(f"{end}; what was measured is kept, `{rest}` does the rest")
    if end in ("interrupted", "device lost") or "failed" in statuses:
        return EXIT_FAILED
    return EXIT_OK if "ok" in statuses else EXIT_NOTHING_MEASURED
