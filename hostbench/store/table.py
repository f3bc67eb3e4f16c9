"""The table: one Delta Lake table of points, and of the files that they came from.

Rows of the kind `point` have the tidy frame's columns (hostbench.store.frame) and `axes`, `place`.
Rows of the kind `file` say what was read of a stored file (FileRow) and hold the facts of its run.
`file` joins them. What Parquet has no type for is JSON text.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from deltalake import (
    ColumnProperties,
    DeltaTable,
    QueryBuilder,
    WriterProperties,
    write_deltalake,
)
from deltalake.exceptions import DeltaError
from msgspec import Struct
from msgspec import json as structs_json

from hostbench.store.columns import COLUMNS, NUMBERS, TIMES, FrameRow
from hostbench.store.runs import AboutRun

FORMAT = 8
"""To be raised by hand when the columns change, or what is in them: a table of another format is
made anew."""
DESCRIPTION = f"hostbench results, format {FORMAT}"
DAMAGE = (OSError, pa.ArrowException, DeltaError)
"""What asking a table raises that is damaged, was deleted or is of another shape."""


StoredSetup = dict[str, Any]
"""Facts, as facts.record.to_json has them."""
StatusCounts = tuple[str | None, str | None, bool, int, int, int, int, int]
"""(family, device, own, rows of each status, rows with an unexpected finding)."""


class FileRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was read of one stored file: an archive, a journal or a file of asv's."""

    file: str
    """Its path, relative to the results folder."""
    size: int
    changed_ns: int
    """Time of its last change."""
    depends: str = ""
    """What its points depend on besides: where one of the three differs it is read again."""
    digest: str = ""
    """Of its bytes: the same in every clone."""
    warnings: list[str] = []
    """What is not shown of it, and why."""
    run: AboutRun | None = None
    claims: list[tuple[str, int]] = []
    """(benchmark, started_at in ms) of asv's rows that the run holds."""
    setup: StoredSetup = {}
    """hostbench.facts.causes.setup of the run."""
    counts: list[StatusCounts] = []
    rows: int = 0
    machine: str | None = None
    commit: str | None = None
    run_id: str | None = None
    hardware: str | None = None
    torch: str | None = None
    driver: str | None = None
    scratch: str | None = None
    source: str | None = None
    first_us: int | None = None
    """When its first point began, in microseconds since the epoch."""


JSON = ("asynchronous", "findings", "proofs", "launches")
INTS = ("nbytes", "peak_memory_bytes")
TEXT = pa.dictionary(pa.int32(), pa.string())
SHOWN = (*COLUMNS, "axes", "place", "file")
"""What the tidy frame needs of a point."""
_TYPES: dict[str, Any] = (
    dict.fromkeys(TIMES, pa.timestamp("us", tz="UTC"))
    | dict.fromkeys(NUMBERS, pa.float64())
    | dict.fromkeys(INTS, pa.int64())
    | {"place": pa.int32(), "content": pa.binary()}
)
_NAMES = ("kind", *SHOWN, "about", "facts", "content")
SCHEMA = pa.schema([(name, _TYPES.get(name, TEXT)) for name in _NAMES])
"""Of rows in memory. Of a file: `about` is its FileRow, `facts` when -> the facts of its run, both
as JSON; `content` the bytes of an archive, in a table at a URL alone."""

MAX_ROWS = 300_000
"""Of one transaction: what is sorted at once in memory."""
_AT_ONCE = 8192
"""Rows that the writer is given at a time: it holds them as plain text."""
_IN_ORDER = {"datafusion.execution.target_partitions": "1"}
"""One file after the other, which is as fast."""
_TIDY_EVERY = 20
"""Transactions."""
_SMALL_BYTES = 1 << 20
"""Files up to this size are compacted."""
_RETENTION_H = 1
"""How long a reader may go on with files that were replaced; at a URL the table's own setting."""
_SKIPPED_BY = ("machine", "case", "file")
_SKIPPING = ColumnProperties(statistics_enabled="PAGE")
_WRITER = WriterProperties(
    compression="ZSTD",
    compression_level=1,
    max_row_group_size=32_768,
    data_page_row_count_limit=_AT_ONCE,
    default_column_properties=ColumnProperties(statistics_enabled="NONE"),
    column_properties=dict.fromkeys(_SKIPPED_BY, _SKIPPING),
)


class ResultTable:
    """A table as it was when it was opened."""

    def __init__(self, url: str) -> None:
        """Raises one of DAMAGE where there is none."""
        self.url = url
        self._delta = DeltaTable(url)
        self.description = str(self._delta.metadata().description)

    @property
    def version(self) -> int:
        return self._delta.version()

    def refresh(self) -> None:
        """As it is now."""
        self._delta.update_incremental()
        self.__dict__.pop("files", None)

    @staticmethod
    def create(url: str) -> "ResultTable":
        """An empty one; one that is there already stays."""
        fields = [pa.field(f.name, pa.string() if f.type == TEXT else f.type) for f in SCHEMA]
        DeltaTable.create(
            url,
            pa.schema(fields),
            mode="ignore",
            partition_by=["kind"],
            description=DESCRIPTION,
            configuration={
                "delta.checkpointInterval": "20",
                "delta.logRetentionDuration": "interval 1 days",
                "delta.dataSkippingStatsColumns": ",".join(_SKIPPED_BY),
            },
        )
        return ResultTable(url)

    def num_rows(self, kind: str) -> int:
        """As the log counts them."""
        actions = pa.table(self._delta.get_add_actions(flatten=True)).to_pylist()
        return sum(own["num_records"] or 0 for own in actions if own["partition.kind"] == kind)

    @cached_property
    def files(self) -> list[FileRow]:
        """Raises msgspec.DecodeError for what no hostbench of this format wrote."""
        rows = self.ask("select {} from t where kind = 'file'", ["about"])
        decoder = structs_json.Decoder(FileRow)
        return [decoder.decode(about) for about in rows["about"].to_pylist()]

    def of_files(self, name: str, where: str = "true") -> dict[str, Any]:
        """Path of a file -> one of its fields, where it has one."""
        query = f"select {{}} from t where kind = 'file' and {name} is not null and {where}"
        rows = self.ask(query, ("file", name))
        return dict(zip(rows["file"].to_pylist(), rows[name].to_pylist(), strict=True))

    def points(self, columns: Sequence[str], where: str) -> pa.Table:
        """In no order, text as dictionaries."""
        return self.ask(f"select {{}} from t where kind = 'point' and {where}", columns)

    def rows_of(self, files: Collection[str]) -> pa.Table:
        """All rows of these files, of both kinds."""
        return self.ask(f"select {{}} from t where {is_in('file', files)}", SCHEMA.names)

    def ask(self, query: str, columns: Sequence[str]) -> pa.Table:
        """What a query of the table `t` gives, the same rows always in the same order.

        The library reads, not a dataset of pyarrow's: that scans through a file system in Python,
        and a thread of it that lets go of a buffer as the interpreter ends aborts the process
        (apache/arrow issue 34314).
        """
        builder = QueryBuilder(_IN_ORDER)
        builder.register("t", self._delta)
        names = ", ".join(map(_selected, columns))
        reader = pa.RecordBatchReader.from_stream(builder.execute(query.format(names)))
        return reader.read_all().unify_dictionaries()

    def write(self, rows: pa.Table, replaced: Collection[str], *, is_shared: bool = False) -> None:
        """One transaction: these rows, in place of what there is of the files `replaced`.

        `is_shared`: others may be writing. Raises CommitFailedError where they were faster with one
        of these files.
        """
        data = _as_written(rows).to_reader(max_chunksize=_AT_ONCE)
        if not (replaced or is_shared):
            write_deltalake(self._delta, data, mode="append", writer_properties=_WRITER)
            return
        names = {*replaced, *rows["file"].unique().to_pylist()}
        write_deltalake(
            self._delta,
            data,
            mode="overwrite",
            predicate=is_in("file", names),
            schema_mode="merge",
            writer_properties=_WRITER,
        )

    def tidy(self) -> None:
        """Now and then small files become few, and what nobody can be reading any more goes."""
        if self.version % _TIDY_EVERY == 0:
            self._delta.optimize.compact(target_size=_SMALL_BYTES, writer_properties=_WRITER)
            hours = None if "://" in self.url else _RETENTION_H
            self._delta.vacuum(hours, dry_run=False, enforce_retention_duration=False)


def text(value: str) -> str:
    """A text in SQL."""
    quoted = value.replace("'", "''")
    return f"'{quoted}'"


def is_in(name: str, values: Iterable[str]) -> str:
    ordered = sorted(values)
    if not ordered:
        return "false"
    within = f"{name} >= {text(ordered[0])} and {name} <= {text(ordered[-1])}"
    return f"{within} and {name} in ({', '.join(map(text, ordered))})"


def of_machine(machine: str | None) -> str:
    return "machine is null" if machine is None else f"machine = {text(machine)}"


def _selected(name: str) -> str:
    """A column in SQL. Text as a dictionary, of each batch: as views it would be many times as
    large in memory, and Arrow takes no rows of those."""
    kind = {TEXT: "Dictionary(Int32, Utf8)", pa.binary(): "Binary"}.get(SCHEMA.field(name).type)
    return f'arrow_cast("{name}", \'{kind}\') as "{name}"' if kind else f'"{name}"'


# ---- into rows ----------------------------------------------------------------------------------


def of_files(rows: Sequence[FileRow], facts: Sequence[str | None]) -> pa.Table:
    """Files, and the facts of each as JSON."""
    columns: dict[str, Sequence[str | None]] = {
        "kind": ["file"] * len(rows),
        "file": [row.file for row in rows],
        "machine": [row.machine for row in rows],
        "case": [None] * len(rows),
        "about": [structs_json.encode(row).decode() for row in rows],
        "facts": facts,
    }
    return pa.table({name: text_array(values) for name, values in columns.items()})


def of_rows(rows: Sequence[FrameRow]) -> pa.Table:
    """The frame's rows; columns that none of them has are left out."""
    filled = [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]
    arrays = {n: _array(n, [row.get(n) for row in rows]) for n in filled if n not in JSON}
    for name in JSON:  # null: the row says nothing; `null` as JSON: it says that it is not known
        arrays[name] = text_array([json.dumps(row[name]) if name in row else None for row in rows])
    arrays["axes"] = text_array([axes_json(row) for row in rows])
    return pa.table(arrays)


def of_file(points: pa.Table, file: str) -> pa.Table:
    """Points with their file and their place in it."""
    of_all = pa.array(np.zeros(len(points), np.int32))
    for name, text in (("kind", "point"), ("file", file)):
        column = pa.DictionaryArray.from_arrays(of_all, pa.array([text]))
        points = points.append_column(name, column)
    return points.append_column("place", pa.array(np.arange(len(points), dtype=np.int32)))


def axes_json(row: FrameRow) -> str:
    """The columns of a row that are axes."""
    return json.dumps({name: value for name, value in row.items() if name not in COLUMNS})


def text_array(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, type=pa.string()).dictionary_encode()


def _array(name: str, values: list[Any]) -> pa.Array:
    kind = SCHEMA.field(name).type
    if kind == TEXT:
        return text_array(values)
    if name in TIMES:
        series = pd.Series(values, dtype=object)
        return pa.Array.from_pandas(pd.to_datetime(series, utc=True, format="ISO8601"), type=kind)
    return pa.array(values, type=kind, from_pandas=True)


def _as_written(rows: pa.Table) -> pa.Table:
    """By machine, case and time, so that a series lies together; every column of SCHEMA, what is
    absent null."""
    ranks = (_ranks(rows.column(name)) for name in ("case", "machine"))
    rows = rows.take(pa.array(np.lexsort((times(rows), *ranks))))
    columns = {
        name: rows.column(name) if name in rows.column_names else pa.nulls(len(rows))
        for name in SCHEMA.names
    }
    columns["kind"] = columns["kind"].cast(pa.string())  # the partition
    plain = [field.with_type(pa.string()) if field.name == "kind" else field for field in SCHEMA]
    return pa.table(columns).cast(pa.schema(plain))


def _ranks(column: pa.ChunkedArray) -> Any:
    """A number for each text, in their order; -1 for none."""
    array = column.unify_dictionaries().combine_chunks()
    values = array.dictionary.to_pylist()
    rank = np.empty(len(values) + 1, dtype=np.int64)
    rank[np.argsort(np.array(values, dtype=object), kind="stable")] = np.arange(len(values))
    rank[-1] = -1
    return rank[array.indices.fill_null(-1).to_numpy(zero_copy_only=False)]


def times(rows: pa.Table) -> Any:
    """started_at in microseconds; the smallest integer where there is none."""
    none = np.iinfo(np.int64).min
    if "started_at" not in rows.column_names:
        return np.full(len(rows), none)
    return rows.column("started_at").cast(pa.int64()).fill_null(none).to_numpy()


# ---- and back -----------------------------------------------------------------------------------


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The tidy frame of these points, in their order."""
    table = table.unify_dictionaries().combine_chunks()
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        array = table.column(name)
        if SCHEMA.field(name).type == TEXT:
            codes, texts = _codes(array)
            columns[name] = _taken([*map(json.loads, texts)] if name in JSON else texts, codes)
        elif name in INTS or name == "num_samples":
            is_whole = len(array) and not array.null_count
            columns[name] = (array.cast(pa.int64()) if is_whole else array).to_pandas().array
        else:
            columns[name] = array.to_pandas().array
    columns["launches"] = [
        own and {int(number): value for number, value in own.items()} for own in columns["launches"]
    ]
    codes, texts = _codes(table.column("axes"))
    axes = [*map(json.loads, texts)]
    names = dict.fromkeys(name for row in axes for name in row)
    columns |= {name: _taken([row.get(name) for row in axes], codes) for name in names}
    return pd.DataFrame(columns, columns=[*COLUMNS, *names], copy=False)


def _codes(array: pa.ChunkedArray) -> tuple[Any, list[str]]:
    """Of each row the index of its text, -1 for none; the texts."""
    if not len(array):
        return np.empty(0, dtype=np.int64), []
    chunk = array.chunk(0)
    return chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False), chunk.dictionary.to_pylist()


def _taken(values: list[Any], codes: Any) -> Any:
    """`values[codes]`, None for -1."""
    choices = np.empty(len(values) + 1, dtype=object)
    choices[:-1] = values
    return choices[codes]
