"""What a table at a URL lacks of a results folder, sent there: the same rows, and the archives."""

from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from hostbench.core.errors import BrokenError
from hostbench.core.files import read_stored
from hostbench.store import archive, table
from hostbench.store.index import open_table
from hostbench.store.results import open_url
from hostbench.store.runs import StoredFile
from hostbench.store.table import ResultTable

_ATTEMPTS = 10
_AT_ONCE = 100
"""Files of one transaction."""


def publish(results: Path, url: str) -> list[StoredFile]:
    """Append what the table at the URL lacks of a results folder; it is made where there is none.
    The files that were sent.

    Several machines may publish at once. Raises UsageError where no table of ours can be at the
    URL, BrokenError where it cannot be written.
    """
    local, _ = open_table(results)
    sent: list[StoredFile] = []
    try:
        there = open_url(url, create=True)
        lacking = _lacking(there, local.files)
        for start in range(0, len(lacking), _AT_ONCE):
            sent += _send(results, local, there, lacking[start : start + _AT_ONCE])
    except table.DAMAGE as error:
        wrong = f"cannot write the table at {url}: {table.reason(error)}"
        raise BrokenError(f"{wrong}; fix that, or publish to another URL") from error
    return sent


def _lacking(there: ResultTable, rows: list[StoredFile]) -> list[StoredFile]:
    """Those that the table has not got, or as they were before. Sizes and times of change differ
    from clone to clone."""
    known = {row.file: (row.digest, row.rows) for row in there.files}
    return [
        row
        for row in rows
        if known.get(row.file) != (row.digest, row.rows) and (row.rows or row.file in known)
    ]


def _send(
    results: Path, local: ResultTable, there: ResultTable, batch: list[StoredFile]
) -> list[StoredFile]:
    """One transaction; again, without what somebody else has sent meanwhile."""
    for _ in range(_ATTEMPTS):
        there.refresh()
        lacking = _lacking(there, batch)
        if not lacking:
            return []
        files = {row.file for row in lacking}
        rows = local.ask(table.SCHEMA.names, table.is_in("file", files))
        # the bytes of archives, of which a run's records are read
        contents = [
            read_stored(results / file, results)
            if kind == "file" and file.endswith(archive.SUFFIX)
            else None
            for kind, file in zip(rows["kind"].to_pylist(), rows["file"].to_pylist(), strict=True)
        ]
        index = table.SCHEMA.get_field_index("content")
        rows = rows.set_column(index, "content", pa.array(contents, type=pa.binary()))
        try:
            there.write(rows, files)
        except table.CommitFailedError:
            continue
        with suppress(table.DeltaError):  # others write: one of them does it
            there.tidy()
        return lacking
    raise BrokenError(f"others wrote to {there.url} at the same time {_ATTEMPTS} times; try again")
