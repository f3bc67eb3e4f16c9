"""A table at a URL, to which many machines publish, and which the commands read as it is.

Beside `points` and `files` it holds `archives`: the content of each archive, for the facts and the
records that the frame has no place for.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.files import read_stored
from hostbench.core.records import Run
from hostbench.store import archive
from hostbench.store.table import files
from hostbench.store.table.delta import DAMAGE, MAX_ROWS, DeltaTables, ask, is_in, of_machine, text
from hostbench.store.table.files import ResultTable, Source
from hostbench.store.table.rows import READING

_ATTEMPTS = 10
_ARCHIVES = pa.schema([("file", pa.string()), ("content", pa.binary())])
_FEW_ARCHIVES = WriterProperties(compression="UNCOMPRESSED", max_row_group_size=4)
"""An archive is packed already; one can be read without many others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """What was sent: runs, asv's files, rows."""

    runs: int
    files: int
    rows: int


def open_remote(url: str) -> ResultTable:
    """The table at a URL as it is now. Raises UsageError where there is none that can be read."""
    try:
        tables = _open(url)
        return ResultTable(tables=tables, files=files.read(tables))
    except TableNotFoundError as error:
        raise UsageError(
            f"there is no table at {url}; `hostbench publish URL` makes one"
        ) from error
    except DAMAGE as error:
        raise UsageError(f"cannot read the table at {url}: {short(error)}") from error


def _open(url: str) -> DeltaTables:
    scheme = url.partition("://")[0]
    try:
        tables = DeltaTables(url)
    except TableNotFoundError as error:
        if "Unknown scheme" not in str(error):
            raise
        raise UsageError(
            f"no table can be at {url}: nothing here knows {scheme}://; begin with s3://, gs://, "
            "az:// or file://"
        ) from error
    if not tables.description.startswith(files.HEAD):
        raise UsageError(
            f"the table at {url} is of another version ({tables.description}, this hostbench has "
            f"format {files.FORMAT}): publish to another URL"
        )
    return tables


def version(url: str) -> int:
    """Another number where something was published. Raises UsageError as `open_remote`."""
    try:
        return DeltaTable(f"{url}/files").version()
    except DAMAGE as error:
        raise UsageError(f"cannot read the table at {url}: {short(error)}") from error


def parts(url: str, paths: Sequence[str]) -> Iterator[Run]:
    """The archives of a run. Raises DataError for one that is damaged."""
    where = f"file in ({', '.join(map(text, paths))})"
    rows = ask(DeltaTable(f"{url}/archives"), None, where).to_pylist()
    for row in {row["file"]: row for row in rows}.values():
        yield archive.parse(Path(row["file"]), row["content"])


def publish(results: Path, local: ResultTable, url: str) -> Published:
    """Append what the table at the URL lacks of a results folder; it is made where there is none.

    A run that still goes on is left out. Several machines may publish at once. Raises UsageError
    where the table cannot be written, BrokenError where others were faster again and again.
    """
    try:
        with suppress(TableNotFoundError):
            return _publish(results, local, _open(url))
        tables = DeltaTables.create(url, files.SCHEMA, files.HEAD)
        return _publish(results, local, tables)
    except DAMAGE as error:
        raise UsageError(f"cannot write the table at {url}: {short(error)}") from error


def _publish(results: Path, local: ResultTable, tables: DeltaTables) -> Published:
    there = files.sources_of(files.read(tables))
    here = files.sources_of(local.files)
    lacking = [source for source in here.values() if _is_lacking(source, there)]
    first = (
        time.time_ns()
    )  # numbers of readings of its own: what a killed publisher left never counts
    sent = {u.reading: replace(u, reading=first + place) for place, u in enumerate(lacking)}
    for batch in _batches([source for source in lacking if source.rows]):
        _send_points(local.tables, tables, batch, sent)
    runs = [source for source in lacking if source.kind == "run" and source.about]
    _send_archives(results, tables, runs)
    if sent:
        _register(tables, [*sent.values()])
    rows = sum(source.rows for source in lacking)
    return Published(runs=len(runs), files=len(lacking) - len(runs), rows=rows)


def _is_lacking(source: Source, there: dict[str, Source]) -> bool:
    """Whether the table has not got it, or not as it is now. Sizes and times of change differ from
    clone to clone."""
    if source.kind == "part" or not source.rows:
        return False
    if any(not path.endswith(archive.SUFFIX) for path in (source.about or {}).get("parts", ())):
        return False
    known = there.get(source.key)
    return known is None or any(
        getattr(source, name) != getattr(known, name)
        for name in ("rows", "counts", "first_at", "last_at", "about")
    )


def _batches(sources: list[Source]) -> Iterator[list[Source]]:
    """Of one machine each, and of as many rows as one file holds."""
    sources = sorted(sources, key=lambda source: (source.machine or "", source.reading))
    batch: list[Source] = []
    for source in sources:
        num_rows = sum(one.rows for one in batch) + source.rows
        if batch and (source.machine != batch[0].machine or num_rows > MAX_ROWS):
            yield batch
            batch = []
        batch.append(source)
    if batch:
        yield batch


def _send_points(
    local: DeltaTables, tables: DeltaTables, batch: list[Source], sent: dict[int, Source]
) -> None:
    readings = [source.reading for source in batch]
    rows = local.read(None, f"{of_machine(batch[0].machine)} and {is_in(readings)}")
    old, place = np.unique(rows.column(READING).to_numpy(), return_inverse=True)
    new = np.array([sent[number].reading for number in old.tolist()], dtype=np.int64)
    index = rows.schema.get_field_index(READING)
    tables.append(rows.set_column(index, READING, pa.array(new[place])))


def _send_archives(results: Path, tables: DeltaTables, runs: list[Source]) -> None:
    paths = [path for source in runs for path in (source.about or {})["parts"]]
    for start in range(0, len(paths), 64):
        some = paths[start : start + 64]
        contents = [read_stored(results / path, results) for path in some]
        write_deltalake(
            f"{tables.url}/archives",
            pa.table({"file": some, "content": contents}, schema=_ARCHIVES),
            mode="append",
            writer_properties=_FEW_ARCHIVES,
        )


def _register(tables: DeltaTables, sources: list[Source]) -> None:
    """Say what counts from now on; again, where somebody else did so meanwhile."""
    keys = {source.key for source in sources}
    for _ in range(_ATTEMPTS):
        tables = DeltaTables(tables.url)
        known = tables.read_files(["key", READING]).to_pylist()
        gone = [row[READING] for row in known if row["key"] in keys]
        try:
            tables.replace_files(files.to_table(sources), gone)
        except CommitFailedError:
            continue
        with suppress(DeltaError):  # what is left does not count: the next one deletes it
            tables.delete(gone)
            tables.tidy({source.machine for source in sources})
        return
    raise BrokenError(f"others wrote to {tables.url} at the same time {_ATTEMPTS} times; try again")


def short(error: Exception) -> str:
    """What a library says, as far as one line of ours has room for it."""
    return str(error).partition("\n")[0][:300]
