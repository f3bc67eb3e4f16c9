"""The table: one Delta Lake table of points, and of the files that they came from.

Rows of the kind `point` have the tidy frame's columns (hostbench.store.points), `axes` as JSON and
their `position` in their file. Rows of the kind `file` say what was read of a stored file and hold
the facts of its run. `file` joins them. What Parquet has no type for is JSON text.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import json as structs_json

from hostbench.core.errors import UsageError
from hostbench.core.files import is_url
from hostbench.store.points import COLUMNS, NUMBERS, TIMES, FrameRow
from hostbench.store.runs import StoredFile

os.environ.setdefault("RUST_LOG", "error")  # else deltalake warns of each try to find a login

from deltalake import ColumnProperties, DeltaTable, QueryBuilder, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError as CommitFailedError
from deltalake.exceptions import DeltaError as DeltaError
from deltalake.exceptions import TableNotFoundError as TableNotFoundError

FORMAT = 16
"""To be raised by hand when the columns change, or what is in them: a table of another format is
made anew."""
DESCRIPTION = f"hostbench results, format {FORMAT}"
DAMAGE = (OSError, pa.ArrowException, DeltaError)
"""What asking a table raises that is damaged, was deleted or is of another shape."""
JSON = ("findings", "proofs", "launches")
INTS = ("nbytes", "peak_memory_bytes")
TEXT = pa.dictionary(pa.int32(), pa.string())
SHOWN = (*COLUMNS, "axes", "position", "file")
"""What the tidy frame needs of a point."""
_TYPES: dict[str, Any] = (
    dict.fromkeys(TIMES, pa.timestamp("us", tz="UTC"))
    | dict.fromkeys(NUMBERS, pa.float64())
    | dict.fromkeys(INTS, pa.int64())
    | {"position": pa.int32(), "content": pa.binary()}
)
_NAMES = ("kind", *SHOWN, "about", "facts", "content")
SCHEMA = pa.schema([(name, _TYPES.get(name, TEXT)) for name in _NAMES])
"""Of rows in memory. Of a file: `about` is its StoredFile, `facts` when -> the facts of its run,
both as JSON; `content` the bytes of an archive, in a table at a URL alone."""

ReadFile = tuple[StoredFile, str | None, pa.Table | None]
"""What was read of a file: its row, the facts of its run as JSON, its points."""
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
_PLAIN = ColumnProperties(statistics_enabled="NONE", dictionary_enabled=False)
_WRITER = WriterProperties(
    compression="SNAPPY",  # a third less time to write than ZSTD's, a fourth more bytes
    max_row_group_size=32_768,
    data_page_row_count_limit=_AT_ONCE,
    default_column_properties=ColumnProperties(statistics_enabled="NONE"),
    column_properties={
        **dict.fromkeys(_SKIPPED_BY, ColumnProperties(statistics_enabled="PAGE")),
        # no two are alike: a dictionary of them all would be read for a page
        **dict.fromkeys((*NUMBERS, *TIMES, "position"), _PLAIN),
    },
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

    @cached_property
    def files(self) -> list[StoredFile]:
        """Raises msgspec.DecodeError for what no hostbench of this format wrote."""
        rows = self.ask(["about"], "kind = 'file'")
        decode = structs_json.Decoder(StoredFile).decode
        return [decode(about) for about in rows["about"].to_pylist()]

    def of_files(self, name: str, where: str = "true") -> dict[str, Any]:
        """Path of a file -> one of its columns, where it has one. Raises UsageError."""
        rows = self._read(("file", name), f"kind = 'file' and {name} is not null and {where}")
        return dict(zip(rows["file"].to_pylist(), rows[name].to_pylist(), strict=True))

    def points(self, columns: Sequence[str], where: str, *counted: str) -> pa.Table:
        """In no order, text as dictionaries. Raises UsageError."""
        return self._read(columns, f"kind = 'point' and {where}", *counted)

    def _read(self, columns: Sequence[str], where: str, *counted: str) -> pa.Table:
        try:
            return self.ask(columns, where, *counted)
        except DAMAGE as error:
            raise unreadable(self.url, error) from error

    def ask(self, columns: Sequence[str], where: str, *counted: str) -> pa.Table:
        """Columns of the rows `where`, the same rows always in the same order; or, where something
        is `counted`, a row for each of their combinations, and that of it.

        The library reads, not a dataset of pyarrow's: that scans through a file system in Python,
        and a thread of it that lets go of a buffer as the interpreter ends aborts the process
        (apache/arrow issue 34314).
        """
        builder = QueryBuilder(_IN_ORDER)
        builder.register("t", self._delta)
        # Text as a dictionary, of each batch: as views it would be many times as large in memory,
        # and Arrow takes no rows of those.
        kinds = {TEXT: "Dictionary(Int32, Utf8)", pa.binary(): "Binary"}
        selected = [
            f'arrow_cast("{name}", \'{kind}\') as "{name}"' if kind else f'"{name}"'
            for name, kind in ((name, kinds.get(SCHEMA.field(name).type)) for name in columns)
        ]
        names = ", ".join([*selected, *counted])
        query = f"select {names} from t where {where}"  # noqa: S608 - `text` quotes what is stored
        if counted:
            query += " group by " + ", ".join(f'"{name}"' for name in columns)
        reader = pa.RecordBatchReader.from_stream(builder.execute(query))
        return reader.read_all().unify_dictionaries()

    def write(self, rows: pa.Table, replaced: Collection[str]) -> None:
        """One transaction: these rows, in place of what there is of the files `replaced`. Raises
        CommitFailedError where others were faster with one of these."""
        how: dict[str, Any] = {"mode": "append"}
        if replaced:
            names = {*replaced, *rows["file"].unique().to_pylist()}
            predicate = is_in("file", names)
            how = {"mode": "overwrite", "predicate": predicate, "schema_mode": "merge"}
        data = _in_order(rows).to_reader(max_chunksize=_AT_ONCE)
        write_deltalake(self._delta, data, writer_properties=_WRITER, **how)

    def tidy(self) -> None:
        """Now and then small files become few, and what nobody can be reading any more goes."""
        if self.version % _TIDY_EVERY == 0:
            self._delta.optimize.compact(target_size=_SMALL_BYTES, writer_properties=_WRITER)
            hours = None if "://" in self.url else _RETENTION_H
            self._delta.vacuum(hours, dry_run=False, enforce_retention_duration=False)


def unreadable(url: str, error: Exception) -> UsageError:
    """That a table is damaged, or has gone."""
    remedy = "" if is_url(url) else "; delete it: it is made anew"
    return UsageError(f"cannot read the table at {url}: {reason(error)}{remedy}")


def reason(error: Exception) -> str:
    """What a library says, in one line: the last of its causes."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[-1].rpartition("\u21b3\x1b[0m ")[2][:300]


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


# ---- into rows ----------------------------------------------------------------------------------


def of_run(rows: Sequence[FrameRow], file: str) -> pa.Table:
    """Rows of the kind `point` from the frame's rows of a run."""
    points = []
    for position, row in enumerate(rows):
        as_json = {name: json.dumps(row[name]) for name in JSON if name in row}
        axes = json.dumps({name: row[name] for name in row if name not in COLUMNS})
        points.append(
            row | as_json | {"kind": "point", "file": file, "position": position, "axes": axes}
        )
    return pa.Table.from_pylist(points, schema=SCHEMA)


def of_columns(columns: Mapping[str, Any], texts: Mapping[str, str | None]) -> pa.Table:
    """The same from columns, and from texts that all rows share; what is absent is null."""
    num = len(columns["case"])
    arrays = {
        name: pa.DictionaryArray.from_arrays(pa.array(np.zeros(num, np.int32)), [value])
        for name, value in {"kind": "point", **texts}.items()
        if value is not None
    }
    for name, values in {**columns, "position": range(num)}.items():
        is_made = isinstance(values, pa.Array)
        arrays[name] = values if is_made else pa.array(values, SCHEMA.field(name).type)
    return pa.table(arrays)


def with_files(files: Sequence[ReadFile]) -> pa.Table:
    """All columns of the points of these files, and a row of the kind `file` for each."""
    rows = [
        {
            "kind": "file",
            "file": row.file,
            "machine": row.machine,
            "about": structs_json.encode(row).decode(),
            "facts": facts,
        }
        for row, facts, _ in files
    ]
    points = [table for _, _, table in files if table is not None]
    of_files = pa.Table.from_pylist(rows, schema=SCHEMA)
    return pa.concat_tables([of_files, *points], promote_options="default")


def _in_order(rows: pa.Table) -> pa.Table:
    """By machine, case and time, so that a series lies together."""
    rows = rows.unify_dictionaries().combine_chunks()
    if len(rows):
        texts = [rows[name].chunk(0) for name in ("machine", "case")]
        keys = [pc.rank(text.dictionary).take(text.indices) for text in texts]
        by = pa.table([*keys, rows["started_at"]], ["machine", "case", "at"])
        order = pc.sort_indices(by, [(name, "ascending") for name in by.column_names])
        columns = (c if c.null_count == len(c) else c.take(order) for c in rows.columns)
        rows = pa.table([*columns], schema=SCHEMA)
    kind = SCHEMA.get_field_index("kind")  # the partition
    return rows.set_column(kind, "kind", rows["kind"].cast(pa.string()))


# ---- and back -----------------------------------------------------------------------------------


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The tidy frame of these points, in their order: the columns that they have."""
    stored, columns = table.to_pandas(), dict[str, Any]()
    for name in (name for name in (*COLUMNS, "axes") if name in stored):
        cells = stored[name]
        if cells.dtype == "category":
            values, codes = [*cells.cat.categories], cells.cat.codes.to_numpy()
            if name in (*JSON, "axes"):
                values = [*map(json.loads, values)]
            if name == "launches":
                values = [{int(number): s for number, s in launches.items()} for launches in values]
            if name == "axes":
                for axis in dict.fromkeys(axis for axes in values for axis in axes):
                    columns[axis] = _taken([axes.get(axis) for axes in values], codes)
            else:
                columns[name] = _taken(values, codes)
        else:
            is_whole = name == "num_samples" and len(cells) and cells.notna().all()
            columns[name] = cells.astype(np.int64) if is_whole else cells
    return pd.DataFrame(columns, copy=False)


def _taken(values: list[Any], codes: Any) -> Any:
    """`values[codes]`, None for -1."""
    choices = np.empty(len(values) + 1, dtype=object)
    choices[:-1] = values
    return choices[codes]
