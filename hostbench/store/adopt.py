"""Journals become archives: after a run, and for runs that were killed or made by asv alone."""

from pathlib import Path

from msgspec import structs

from hostbench.core.errors import DataError, Warn
from hostbench.core.records import DAMAGE, Archived, Run
from hostbench.runner import journal
from hostbench.store import archive


def archive_journal(results: Path, path: Path, run: Run) -> Archived:
    """Archive a journal, which holds `run`, and remove it."""
    archive.write(results, run)
    path.unlink(missing_ok=True)
    return Archived(**structs.asdict(run))


def adopt_orphans(results: Path, warn: Warn) -> list[Archived]:
    """Archive every journal whose writer is gone. An unreadable one is named and left alone."""
    adopted = []
    for path in journal.find(results):
        try:
            if journal.is_alive(path):
                continue
            run = journal.read(path)
            if not run.records:
                path.unlink(missing_ok=True)  # killed before its first case: nothing to keep
                continue
            adopted.append(archive_journal(results, path, run))
        except FileNotFoundError:
            continue  # another process adopted it meanwhile
        except DataError as error:
            warn(str(error))
        except DAMAGE as error:  # lines that are right one by one, and together no run
            warn(f"{path} is no readable journal ({error}); move it away")
    return adopted
