"""Journals become archives: after a run, and for runs that were killed or made by asv alone."""

from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from hostbench.core.asv_names import asv_name
from hostbench.core.clock import epoch_s
from hostbench.core.errors import DataError
from hostbench.core.records import DAMAGE, Archived, Count, Run
from hostbench.runner import journal
from hostbench.store import archive, asv_tree


def from_journal(results: Path, path: Path) -> Run:
    """The run as a journal holds it, with the rows that asv stored of it and asv's machine name."""
    return _with_rows(results, journal.read(path))


def archive_journal(results: Path, path: Path, held: Run, machine: Callable[[], str]) -> Archived:
    """Archive a journal, which holds `held`, and remove it; `machine()` names a machine that nobody
    else named."""
    run = _with_rows(results, held)
    if run.header.machine is None:
        run = structs.replace(run, header=structs.replace(run.header, machine=machine()))
    archive.write(results, run)
    path.unlink(missing_ok=True)
    return Archived(**structs.asdict(run))


def adopt_orphans(
    results: Path, machine: Callable[[], str], warn: Callable[[str], None]
) -> list[Archived]:
    """Archive every journal whose writer is gone. An unreadable one is named and left alone.

    `machine()` names the machine of a run that asv made by itself and stored nowhere.
    """
    adopted = []
    for path in journal.find(results):
        try:
            if journal.is_alive(path):
                continue
            held = journal.read(path)
            if not held.records:
                path.unlink(missing_ok=True)  # killed before its first case: nothing to keep
                continue
            adopted.append(archive_journal(results, path, held, machine))
        except FileNotFoundError:
            continue  # another process adopted it meanwhile
        except DataError as error:
            warn(str(error))
        except DAMAGE as error:  # lines that are right one by one, and together no run
            warn(f"{path} is no readable journal ({error}); move it away")
    return adopted


def _with_rows(results: Path, run: Run) -> Run:
    """With the rows that asv wrote since the run began, and with the machine that it wrote them of.

    Whatever our environment stored for this commit after the journal was begun was read from it.
    """
    header = run.header
    if header.commit is None or (header.by == "asv" and run.finish is None):
        return run  # an asv that was killed stored nothing
    since_ms = epoch_s(header.started_at) * 1000
    names = {asv_name(record.case.workload) for record in run.records}
    rows: dict[str, list[list[str | Count]]] = {}
    for machine, name, started_ms in asv_tree.started(results, header.commit, header.machine):
        if name in names and started_ms >= since_ms:
            rows.setdefault(machine, []).append([name, started_ms])
    if not rows:
        return run
    machine, own = next(iter(rows.items()))
    named = structs.replace(header, machine=header.machine or machine)
    return structs.replace(run, header=named, asv_rows=own)
