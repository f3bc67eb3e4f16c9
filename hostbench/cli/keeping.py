"""A run measured into its journal, written into asv's files, and kept as an archive."""

from collections.abc import Sequence
from dataclasses import dataclass

from hostbench import facts
from hostbench.cli.measuring import End, walk
from hostbench.cli.output import warn
from hostbench.cli.results import check_writable
from hostbench.cli.run_setup import Setup
from hostbench.core.asv_config import without_plugin
from hostbench.core.clock import now
from hostbench.core.errors import HostbenchError, Interrupted
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.records import Run, RunHeader
from hostbench.device.simulated_file import MARK
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter, read
from hostbench.runner.plan import Plan
from hostbench.store import adopt, asv_files
from hostbench.store.runs import WholeRun
from hostbench.vcs.repo import git


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A run that is stored: with its earlier parts, where it resumed one."""

    run: WholeRun
    ended: End
    asv_error: str = ""
    """Why asv's file lacks it, though it was meant to be there."""


def measure_and_keep(
    setup: Setup,
    header: RunHeader,
    plan: Plan,
    earlier: Sequence[Run] = (),
    *,
    tells_asv: bool = True,
) -> Kept:
    """Measure the plan and archive it; an interrupt keeps what there is. A run that is judged is
    written into asv's files too.

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
            journal.finish(status, now(), scratch)
            held = read(path)
            whole = WholeRun(parts=(*earlier, held))
            judged = end == "complete" and held.header.scratch is None
            wrong = _record(setup, whole, judged) if tells_asv and setup.device != MARK else ""
        if not held.records:
            path.unlink()
            raise Interrupted("interrupted before the first case was measured: nothing to keep")
        part = adopt.archive_journal(setup.results, path, held, lambda: setup.machine)
    return Kept(run=WholeRun(parts=(*earlier, part)), ended=end, asv_error=wrong)


def _record(setup: Setup, run: WholeRun, judged: bool) -> str:
    """Have asv know the machine, and a run that is judged: why its files lack that run now. The
    archive has it either way."""
    if setup.root is None:
        return ""
    wrong = ""
    try:
        entry = facts.asv_machine_entry(setup.machine, setup.facts)
        if places.asv_results(setup.root).resolve() == setup.results.resolve():
            facts.register_with_asv(entry)
        if judged:
            wrong = without_plugin(setup.root) or ""
        if judged and not wrong:
            commit = str(run.header.commit)
            authored = git(setup.root, "show", "-s", "--format=%at", names=[commit])
            asv_files.record(setup.results, entry, run, setup.workloads, int(authored))
    except HostbenchError as error:
        wrong = str(error)
    if wrong:
        warn(f"{wrong}; the run is archived all the same")
    return wrong if judged else ""
