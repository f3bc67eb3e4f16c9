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
from hostbench.store.table.files import ResultTable, Unit
from hostbench.store.table.lake import DAMAGE, MAX_ROWS, Lake, ask, is_in, of_machine, text
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
        lake = _lake(url)
        return ResultTable(lake=lake, files=files.read(lake))
    except TableNotFoundError as error:
        raise UsageError(
            f"there is no table at {url}; `hostbench publish URL` makes one"
        ) from error
    except DAMAGE as error:
        raise UsageError(f"cannot read the table at {url}: {short(error)}") from error


def _lake(url: str) -> Lake:
    scheme = url.partition("://")[0]
    try:
        lake = Lake(url)
    except TableNotFoundError as error:
        if "Unknown scheme" not in str(error):
            raise
        raise UsageError(
            f"no table can be at {url}: nothing here knows {scheme}://; begin with s3://, gs://, "
            "az:// or file://"
        ) from error
    if not lake.description.startswith(files.HEAD):
        raise UsageError(
            f"the table at {url} is of another version ({lake.description}, this hostbench has "
            f"format {files.FORMAT}): publish to another URL"
        )
    return lake


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
            return _publish(results, local, _lake(url))
        lake = Lake.create(url, files.SCHEMA, files.HEAD)
        return _publish(results, local, lake)
    except DAMAGE as error:
        raise UsageError(f"cannot write the table at {url}: {short(error)}") from error


def _publish(results: Path, local: ResultTable, lake: Lake) -> Published:
    there = files.units_of(files.read(lake))
    here = files.units_of(local.files)
    lacking = [unit for unit in here.values() if _is_lacking(unit, there)]
    first = (
        time.time_ns()
    )  # numbers of readings of its own: what a killed publisher left never counts
    sent = {u.reading: replace(u, reading=first + place) for place, u in enumerate(lacking)}
    for batch in _batches([unit for unit in lacking if unit.rows]):
        _send_points(local.lake, lake, batch, sent)
    runs = [unit for unit in lacking if unit.kind == "run" and unit.about]
    _send_archives(results, lake, runs)
    if sent:
        _register(lake, [*sent.values()])
    rows = sum(unit.rows for unit in lacking)
    return Published(runs=len(runs), files=len(lacking) - len(runs), rows=rows)


def _is_lacking(unit: Unit, there: dict[str, Unit]) -> bool:
    """Whether the table has not got it, or not as it is now. Sizes and times of change differ from
    clone to clone."""
    if unit.kind == "part" or not unit.rows:
        return False
    if any(not path.endswith(archive.SUFFIX) for path in (unit.about or {}).get("parts", ())):
        return False
    known = there.get(unit.key)
    return known is None or any(
        getattr(unit, name) != getattr(known, name)
        for name in ("rows", "counts", "first_at", "last_at", "about")
    )


def _batches(units: list[Unit]) -> Iterator[list[Unit]]:
    """Of one machine each, and of as many rows as one file holds."""
    units = sorted(units, key=lambda unit: (unit.machine or "", unit.reading))
    batch: list[Unit] = []
    for unit in units:
        num_rows = sum(one.rows for one in batch) + unit.rows
        if batch and (unit.machine != batch[0].machine or num_rows > MAX_ROWS):
            yield batch
            batch = []
        batch.append(unit)
    if batch:
        yield batch


def _send_points(local: Lake, lake: Lake, batch: list[Unit], sent: dict[int, Unit]) -> None:
    readings = [unit.reading for unit in batch]
    rows = local.read(None, f"{of_machine(batch[0].machine)} and {is_in(readings)}")
    old, place = np.unique(rows.column(READING).to_numpy(), return_inverse=True)
    new = np.array([sent[number].reading for number in old.tolist()], dtype=np.int64)
    index = rows.schema.get_field_index(READING)
    lake.append(rows.set_column(index, READING, pa.array(new[place])))


def _send_archives(results: Path, lake: Lake, runs: list[Unit]) -> None:
    paths = [path for unit in runs for path in (unit.about or {})["parts"]]
    for start in range(0, len(paths), 64):
        some = paths[start : start + 64]
        contents = [read_stored(results / path, results) for path in some]
        write_deltalake(
            f"{lake.url}/archives",
            pa.table({"file": some, "content": contents}, schema=_ARCHIVES),
            mode="append",
            writer_properties=_FEW_ARCHIVES,
        )


def _register(lake: Lake, units: list[Unit]) -> None:
    """Say what counts from now on; again, where somebody else did so meanwhile."""
    keys = {unit.key for unit in units}
    for _ in range(_ATTEMPTS):
        lake = Lake(lake.url)
        known = lake.read_files(["key", READING]).to_pylist()
        gone = [row[READING] for row in known if row["key"] in keys]
        try:
            lake.replace_files(files.to_table(units), gone)
        except CommitFailedError:
            continue
        with suppress(DeltaError):  # what is left does not count: the next one deletes it
            lake.delete(gone)
            lake.tidy({unit.machine for unit in units})
        return
    raise BrokenError(f"others wrote to {lake.url} at the same time {_ATTEMPTS} times; try again")


def short(error: Exception) -> str:
    """What a library says, as far as one line of ours has room for it."""
    return str(error).partition("\n")[0][:300]
