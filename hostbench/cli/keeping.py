"""A run measured into its journal, kept as an archive, and handed to asv."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hostbench import facts
from hostbench.cli import asv_record
from hostbench.cli.measuring import End, walk
from hostbench.cli.output import warn
from hostbench.cli.results import check_writable
from hostbench.cli.run_setup import Setup
from hostbench.core.errors import DataError, HostbenchError, Interrupted
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.records import Run, RunHeader
from hostbench.device.simulated_file import MARK
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter, find, is_alive, read
from hostbench.runner.plan import Plan
from hostbench.store import adopt, runs
from hostbench.store.runs import WholeRun

Recorded = Literal["done", "failed", "interrupted"]
"""What became of handing a run to asv; done where there was nothing to hand over, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A run that is stored: with its earlier parts, where it resumed one."""

    run: WholeRun
    ended: End
    asv: Recorded
    asv_error: str = ""
    """Why asv has not recorded it."""


def measure_and_keep(
    setup: Setup,
    header: RunHeader,
    plan: Plan,
    earlier: Sequence[Run] = (),
    *,
    tells_asv: bool = True,
) -> Kept:
    """Measure the plan and archive it; an interrupt keeps what there is. Where it comes while asv
    records the run, the journal stays: the next run hands it over.

    Raises Interrupted where the interrupt came before the first record, and as `walk`.
    """
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
            recorded, wrong = _record(setup, whole, judged) if tells_asv else ("done", "")
        if recorded == "interrupted":  # its journal stays
            warn(
                "interrupted while asv recorded the run; it is kept, and the next `hostbench run`, "
                "also with --resume, hands it to asv"
            )
            return Kept(run=whole, ended=end, asv=recorded, asv_error="interrupted")
        if not held.records:
            path.unlink()
            raise Interrupted("interrupted before the first case was measured: nothing to keep")
        part = adopt.archive_journal(setup.results, path, held, lambda: setup.machine)
    run = WholeRun(parts=(*earlier, part))
    return Kept(run=run, ended=end, asv=recorded, asv_error=wrong)


def hand_over_left(setup: Setup) -> WholeRun | None:
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


def _record(setup: Setup, run: WholeRun, judged: bool) -> tuple[Recorded, str]:
    """Tell asv, while the journal is ours, and say what went wrong. Only a run that is judged has
    something to hand over."""
    if setup.device == MARK:
        return "done", ""
    try:
        wrong = _tell_asv(run, setup, judged)
        return ("failed" if wrong else "done"), wrong
    except KeyboardInterrupt:
        return ("interrupted" if judged else "done"), ""


def _tell_asv(run: WholeRun, setup: Setup, judged: bool) -> str:
    """Have asv know the machine, and record a run that is judged: why it has not got that run now,
    though it was meant to. The archive has it either way."""
    if setup.root is None:
        return ""
    if places.asv_results(setup.root).resolve() != setup.results.resolve():
        if judged:
            warn("asv is left out: --results is not the folder that asv.conf.json names")
        return ""
    try:
        facts.register_with_asv(facts.asv_machine_entry(setup.machine, setup.facts))
        if not judged:
            return ""
        print("asv records the run", file=sys.stderr)
        wrong = asv_record.record(run, setup.root, setup.results)
    except HostbenchError as error:
        wrong = str(error)
    if wrong:
        warn(f"{wrong}; the run is archived all the same")
    return str(wrong or "") if judged else ""
