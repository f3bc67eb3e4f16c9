"""The Delta Lake tables: opened, appended to, replaced in, folded; in a folder or at a URL.

`points` holds the frame's rows, partitioned by machine; `files` what was read, a row for each run
and each file of asv's. A point counts while `files` names its reading. A writer appends the
points first: one that is killed leaves points that do not count, and the next deletes them.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from deltalake import (
    ColumnProperties,
    DeltaTable,
    QueryBuilder,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError

from hostbench.store.table.rows import READING, SCHEMA, as_written, sort

DAMAGE = (OSError, pa.ArrowException, DeltaError)
"""What asking a table raises that is damaged or was deleted: open it again, anew."""
MAX_ROWS = 300_000
"""Of one file of points: what is sorted at once in memory."""
_AT_ONCE = 8192
"""Rows that the writer is given at a time: it holds them as plain text."""
MANY, SMALL = 8, MAX_ROWS // 8
"""So many files of one machine with fewer rows are folded into one."""
_LOCAL_RETENTION_H = 1
"""How long a reader may go on with files that were replaced; at a URL the table's own setting."""
_SETTINGS = {
    "delta.checkpointInterval": "20",
    "delta.logRetentionDuration": "interval 1 days",
    "delta.dataSkippingStatsColumns": f"case,{READING}",  # as in _WRITER
}
_SKIPPING = ColumnProperties(statistics_enabled="PAGE")
_WRITER = WriterProperties(
    compression="ZSTD",
    compression_level=1,
    max_row_group_size=32_768,
    data_page_row_count_limit=8192,
    default_column_properties=ColumnProperties(statistics_enabled="NONE"),
    column_properties={"case": _SKIPPING, READING: _SKIPPING},
)


class _Part(NamedTuple):
    """One Parquet file of points."""

    machine: str | None
    rows: int
    first: int
    last: int
    """Its readings."""


class DeltaTables:
    """The two tables at one place, as they were when they were opened."""

    def __init__(self, url: str) -> None:
        """Raises one of DAMAGE where there are none."""
        self.url = url
        self.files = DeltaTable(f"{url}/files")
        self.points = DeltaTable(f"{url}/points")
        version = None
        is_shared = "://" in url  # a folder's one writer holds a lock
        while is_shared and version != self.files.version():  # until nobody has written in between
            version = self.files.version()
            self.refresh()

    @staticmethod
    def create(url: str, files: pa.Schema, description: str) -> "DeltaTables":
        """Empty tables; those that are there already stay."""
        points = as_written(SCHEMA.empty_table()).schema
        plain = [_plain(field) for field in points]
        for name, schema, partitions in (
            ("points", pa.schema(plain), ["machine"]),
            ("files", files, []),
        ):
            DeltaTable.create(
                f"{url}/{name}",
                schema,
                mode="ignore",
                partition_by=partitions,
                description=description,
                configuration=_SETTINGS if name == "points" else {"delta.checkpointInterval": "20"},
            )
        return DeltaTables(url)

    @property
    def description(self) -> str:
        return str(self.files.metadata().description)

    @property
    def num_points(self) -> int:
        """Of all that were written, also those that do not count."""
        return sum(part.rows for part in self._parts())

    def read_files(self, columns: Sequence[str]) -> pa.Table:
        return ask(self.files, columns, "true")

    def read(self, columns: Sequence[str] | None, where: str) -> pa.Table:
        """Points in no order, text as dictionaries; all columns, or these."""
        return ask(self.points, columns, where)

    def read_column(self, name: str, machine: str | None) -> pa.ChunkedArray:
        """A column of all points of a machine, always in the same order, text as dictionaries: as
        it is stored, where an answer to a query holds every text once more."""
        from pyarrow import dataset  # 30 ms that no single question needs

        is_text = pa.types.is_dictionary(SCHEMA.field(name).type) and name != "machine"
        read = dataset.ParquetReadOptions(dictionary_columns={name} if is_text else set())
        field = dataset.field("machine")
        own = field.is_null() if machine is None else field == machine
        points = self.points.to_pyarrow_dataset(parquet_read_options=read)
        return points.to_table([name], filter=own).unify_dictionaries().column(0)

    def append(self, table: pa.Table) -> None:
        """Points of one machine, sorted here."""
        rows = as_written(sort(table)).to_reader(max_chunksize=_AT_ONCE)
        write_deltalake(
            self.points,
            rows,
            mode="append",
            writer_properties=_WRITER,
        )

    def replace_files(self, table: pa.Table, gone: Collection[int]) -> None:
        """From now on these readings count, those no more. Raises DeltaError where somebody else
        has replaced some of them meanwhile."""
        if gone:
            replaced = is_in({*gone, *table.column(READING).to_pylist()})
            write_deltalake(self.files, table, mode="overwrite", predicate=replaced)
        elif len(table):
            write_deltalake(self.files, table, mode="append")

    def delete(self, gone: Collection[int]) -> None:
        """The points of these readings."""
        if gone:
            self.points.update_incremental()
            self.points.delete(is_in(gone), writer_properties=_WRITER)

    def refresh(self) -> None:
        """As they are now."""
        self.points.update_incremental()
        self.files.update_incremental()

    def tidy(self, machines: Iterable[str | None]) -> None:
        """Small files become few, and what nobody can be reading any more is deleted."""
        self.refresh()
        folded = [machine for machine in machines if self._fold(machine)]
        if len(self.files.file_uris()) >= MANY:
            self.files.optimize.compact()
            folded.append(None)
        if folded:
            hours = None if "://" in self.url else _LOCAL_RETENTION_H
            for table in (self.points, self.files):
                table.vacuum(hours, dry_run=False, enforce_retention_duration=False)

    def _fold(self, machine: str | None) -> bool:
        """Whether the small files of a machine were written as one, sorted."""
        small = [part for part in self._parts() if part.machine == machine and part.rows < SMALL]
        if len(small) < MANY:
            return False
        first, last = min(part.first for part in small), max(part.last for part in small)
        where = f"{of_machine(machine)} and {READING} >= {first} and {READING} <= {last}"
        rows = as_written(sort(self.read(None, where)))
        write_deltalake(
            self.points, rows, mode="overwrite", predicate=where, writer_properties=_WRITER
        )
        return True

    def _parts(self) -> list[_Part]:
        actions = pa.table(self.points.get_add_actions(flatten=True))
        names = ("partition.machine", "num_records", f"min.{READING}", f"max.{READING}")
        if not len(actions):
            return []
        return [*map(_Part, *(actions.column(name).to_pylist() for name in names))]


def text(value: str) -> str:
    """A text in SQL."""
    quoted = value.replace("'", "''")
    return f"'{quoted}'"


def of_machine(machine: str | None) -> str:
    return "machine is null" if machine is None else f"machine = {text(machine)}"


def is_in(readings: Collection[int]) -> str:
    return f"{READING} in ({', '.join(map(str, sorted(readings)))})"


def counting(table: pa.Table, readings: Any) -> pa.Table:
    """Without the points of readings that do not count."""
    keep = np.isin(table.column(READING).to_numpy(), list(readings))
    return table if keep.all() else table.filter(pa.array(keep))


def ask(table: DeltaTable, columns: Sequence[str] | None, where: str) -> pa.Table:
    """Rows of a table; all columns or these."""
    names = "*" if columns is None else ", ".join(f'"{name}"' for name in columns)
    return ask_sql(table, f"select {names} from t where {where}")


def ask_sql(table: DeltaTable, query: str) -> pa.Table:
    """What a query of the table `t` gives, text as dictionaries: Arrow cannot take rows of the
    views that come."""
    builder = QueryBuilder()
    builder.register("t", table)
    reader = pa.RecordBatchReader.from_stream(builder.execute(query))
    batches = [pa.table(_encoded(batch)) for batch in reader]
    if not batches:
        return pa.table(_encoded(reader.schema.empty_table()))
    return pa.concat_tables(batches).unify_dictionaries()


def _encoded(batch: Any) -> dict[str, Any]:
    arrays = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        is_text = pa.types.is_string_view(array.type) or pa.types.is_string(array.type)
        arrays[name] = array.cast(pa.string()).dictionary_encode() if is_text else array
    return arrays


def _plain(field: Any) -> Any:
    is_text = pa.types.is_dictionary(field.type)
    return pa.field(field.name, pa.string() if is_text else field.type)
