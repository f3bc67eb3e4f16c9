"""What a table at a URL lacks of a results folder, sent there: the same rows, and the archives."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.files import read_stored
from hostbench.store import archive
from hostbench.store.index import open_table
from hostbench.store.results import first_line, open_url
from hostbench.store.table import DAMAGE, MAX_ROWS, FileRow, Table

_ATTEMPTS = 10
_MAX_ARCHIVES = 200
"""Of one transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was sent."""

    runs: int
    files: int
    """Of asv's."""
    rows: int


def publish(results: Path, url: str) -> Published:
    """Append what the table at the URL lacks of a results folder; it is made where there is none.

    A run that still goes on is left out. Several machines may publish at once. Raises UsageError
    where the table cannot be written, BrokenError where others were faster again and again.
    """
    local, _ = open_table(results)
    stored: dict[str, list[FileRow]] = {}
    for row in local.files:
        stored.setdefault(row.file, []).append(row)
    sent: list[FileRow] = []
    try:
        there = _opened(url)
        for batch in _batches(stored, _digests(there)):
            sent += _send(results, local, there, batch)
    except DAMAGE as error:
        raise UsageError(f"cannot write the table at {url}: {first_line(error)}") from error
    runs = [row for row in sent if row.about]
    rows = [row for row in sent if row.rows]
    return Published(
        runs=len(runs), files=len(rows) - len(runs), rows=sum(row.rows for row in rows)
    )


def _opened(url: str) -> Table:
    try:
        return open_url(url)[0]
    except UsageError as error:
        if not isinstance(error.__cause__, TableNotFoundError) or "Unknown" in str(error.__cause__):
            raise
    return Table.create(url)


def _digests(there: Table) -> dict[str, set[tuple[str, str]]]:
    """File -> (part, digest) of each of its parts."""
    digests: dict[str, set[tuple[str, str]]] = {}
    for row in there.files:
        digests.setdefault(row.file, set()).add((row.part, row.digest))
    return digests


def _batches(
    stored: dict[str, list[FileRow]], there: dict[str, set[tuple[str, str]]]
) -> Iterator[list[FileRow]]:
    """What is lacking, or is there as it was before."""
    batch: list[FileRow] = []
    for file, parts in sorted(stored.items()):
        is_going_on = any(part.source != "asv" and not _is_archive(part) for part in parts)
        is_there = {(part.part, part.digest) for part in parts} == there.get(file)
        if is_going_on or is_there or not any(part.rows for part in parts):
            continue
        batch += parts
        if sum(row.rows for row in batch) >= MAX_ROWS or len(batch) >= _MAX_ARCHIVES:
            yield batch
            batch = []
    if batch:
        yield batch


def _is_archive(row: FileRow) -> bool:
    return row.part.endswith(archive.SUFFIX)


def _send(results: Path, local: Table, there: Table, batch: list[FileRow]) -> list[FileRow]:
    """One transaction; again, without what somebody else has sent meanwhile."""
    for _ in range(_ATTEMPTS):
        there.refresh()
        known = _digests(there)
        lacking = [row for row in batch if (row.part, row.digest) not in known.get(row.file, ())]
        files = {row.file for row in lacking}
        if not files:
            return []
        try:
            there.write(_with_content(results, local.rows_of(files)), files, is_shared=True)
        except CommitFailedError:
            continue
        there.tidy()
        return [row for row in batch if row.file in files]
    raise BrokenError(f"others wrote to {there.url} at the same time {_ATTEMPTS} times; try again")


def _with_content(results: Path, rows: pa.Table) -> pa.Table:
    """Rows of both kinds with the bytes of the archives, of which a run's records are read."""
    contents = [
        read_stored(results / part, results) if part and part.endswith(archive.SUFFIX) else None
        for part in rows.column("part").to_pylist()
    ]
    index = rows.schema.get_field_index("content")
    return rows.set_column(index, "content", pa.array(contents, type=pa.binary()))
