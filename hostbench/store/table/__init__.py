"""The table: the frame's rows in Delta Lake tables, kept up to date beside the data, or at a URL.

`.<results>.table/` lies beside the results folder, because asv takes every `.json` below that for a
result. It can be deleted at will. Where it cannot be written, a temporary one serves this process.
"""

import atexit
import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hostbench.core.errors import UsageError
from hostbench.core.files import locked
from hostbench.store.asv_tree import OnFile, ignore_file
from hostbench.store.table import files
from hostbench.store.table.delta import DAMAGE, DeltaTables
from hostbench.store.table.files import ResultTable
from hostbench.store.table.reading import Reader

__all__ = ["DAMAGE", "ResultTable", "elsewhere", "folder_of", "open_table"]


def folder_of(results: Path) -> Path:
    """Where the table of a results folder lies."""
    whole = results.resolve()
    return whole.parent / f".{whole.name}.table"


def open_table(results: Path, rebuild: bool = False, on_file: OnFile = ignore_file) -> ResultTable:
    """The table of a results folder as it is now: what is new or changed is read, what went is
    forgotten; a damaged one is made anew.

    Raises UsageError when there is no such folder, or no place for a table.
    """
    if not results.is_dir():
        raise UsageError(f"there is no results folder {results}; name one with --results")
    with contextlib.suppress(*DAMAGE, UnicodeEncodeError):  # a table's path is a URL
        return _opened(results, folder_of(results), rebuild, on_file)
    try:
        return _opened(results, elsewhere(str(results.resolve())), rebuild, on_file)
    except DAMAGE as error:
        raise UsageError(
            f"cannot keep the table of {results}, neither beside it nor in "
            f"{tempfile.gettempdir()}: {error}; make room there, or make one of the two writable"
        ) from error


@cache
def elsewhere(results: str) -> Path:
    """A folder that goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="hostbench-table-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _opened(results: Path, folder: Path, rebuild: bool, on_file: OnFile) -> ResultTable:
    with _lock(folder):
        if not rebuild:
            with contextlib.suppress(*DAMAGE):
                return _refreshed(results, DeltaTables(str(folder)), on_file)
        for name in ("points", "files"):
            shutil.rmtree(folder / name, ignore_errors=True)
        tables = DeltaTables.create(str(folder), files.SCHEMA, files.description())
        return _refreshed(results, tables, on_file)


class _OutdatedError(OSError):
    """Another version of hostbench made the table, or its rows are not those that count."""


def _refreshed(results: Path, tables: DeltaTables, on_file: OnFile) -> ResultTable:
    if tables.description != files.description():
        raise _OutdatedError
    sources = files.sources_of(files.read(tables))
    if tables.num_points != sum(source.rows for source in sources.values()):
        raise _OutdatedError  # rows were lost, or a writer was killed
    reader = Reader(results, sources, on_file)
    for table in reader.tables():
        tables.append(table)
    if reader.fresh or reader.gone:
        gone = [source.reading for source in reader.gone]
        tables.replace_files(files.to_table([*reader.fresh.values()]), gone)
        tables.delete([source.reading for source in reader.gone if source.rows])
        tables.tidy({source.machine for source in reader.fresh.values() if source.rows})
        tables.refresh()
    return ResultTable(tables=tables, files=files.read(tables), warnings=tuple(reader.warnings))


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One process at a time brings a folder's table up to date, where the file system can lock:
    the others need not read the same files."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("# made by hostbench from the results; delete it at will\n*\n")
    with locked(folder / "lock"):
        yield
