"""A frame's rows as an Arrow table and back.

The columns are the frame's. What Parquet has no type for is JSON text: findings, proofs, launches,
and the axes (column `axes`: their names differ). `file` is the file that a row came from, `reading`
the number of the reading of it, `place` the row's place in that.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from hostbench.store.columns import COLUMNS, NUMBERS, TIMES, FrameRow

AXES, FILE, READING, PLACE = "axes", "file", "reading", "place"
JSON = ("asynchronous", "findings", "proofs", "launches")
INTS = ("nbytes", "peak_memory_bytes")
TEXTS = tuple(c for c in COLUMNS if c not in (*TIMES, *NUMBERS, *INTS, *JSON))
TEXT = pa.dictionary(pa.int32(), pa.string())
_TYPES = (
    dict.fromkeys(TEXTS, TEXT)
    | dict.fromkeys(JSON, TEXT)
    | dict.fromkeys(TIMES, pa.timestamp("us", tz="UTC"))
    | dict.fromkeys(NUMBERS, pa.float64())
    | dict.fromkeys(INTS, pa.int64())
)
SCHEMA = pa.schema(
    [
        *((column, _TYPES[column]) for column in COLUMNS),
        (AXES, TEXT),
        (FILE, TEXT),
        (READING, pa.int64()),
        (PLACE, pa.int32()),
    ]
)
"""Of a batch in memory. `machine` is the table's partition."""
SHOWN = (*COLUMNS, AXES, READING, PLACE)
"""What the frame needs of a row."""


def axes_json(row: FrameRow) -> str:
    """The columns of a row that are axes, as JSON."""
    return json.dumps({name: value for name, value in row.items() if name not in COLUMNS})


def of_rows(rows: Sequence[FrameRow]) -> pa.Table:
    """Columns that no row has are left out."""
    filled = [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]
    names = [name for name in filled if name not in JSON]
    arrays = {name: _array(name, [row.get(name) for row in rows]) for name in names}
    for name in JSON:  # null: the row says nothing; `null` as JSON: it says that it is not known
        texts = [json.dumps(row[name]) if name in row else None for row in rows]
        arrays[name] = text_array(texts)
    arrays[AXES] = text_array([axes_json(row) for row in rows])
    return pa.table(arrays)


def numbered(table: pa.Table, reading: int) -> pa.Table:
    """With the number of their reading, and each row's place in it."""
    numbers = np.full(len(table), reading, dtype=np.int64)
    places = np.arange(len(table), dtype=np.int32)
    return table.append_column(READING, pa.array(numbers)).append_column(PLACE, pa.array(places))


def _array(name: str, values: list[Any]) -> pa.Array:
    if name in TIMES:
        try:
            return pa.array(values, type=pa.string()).cast(_TYPES[name])
        except (pa.ArrowException, UnicodeEncodeError):  # not as we write them
            pass
        times = pd.to_datetime(
            pd.Series(values, dtype=object), utc=True, format="ISO8601", errors="coerce"
        )
        return pa.Array.from_pandas(times.astype("datetime64[us, UTC]"))
    if name in NUMBERS:
        try:
            return pa.array(values, type=pa.float64(), from_pandas=True)
        except (pa.ArrowException, OverflowError):  # not plain numbers: slower, in every run
            numbers = pd.to_numeric(pd.Series(values, dtype=object))
            return pa.Array.from_pandas(numbers.astype(float))
    if name in INTS:
        return pa.array(values, type=pa.int64())
    return text_array(values)


def text_array(values: Sequence[Any]) -> pa.Array:
    """Texts as a dictionary; what is no text is null."""
    return texts(values).dictionary_encode()


def texts(values: Sequence[Any]) -> pa.Array:
    """What is no text is null."""
    try:
        return pa.array(values, type=pa.string())
    except (pa.ArrowTypeError, UnicodeEncodeError):
        return pa.array(list(map(_text, values)), type=pa.string())


def _text(value: Any) -> str | None:
    """Half a character, which JSON can hold, in its escaped form."""
    return value.encode(errors="backslashreplace").decode() if isinstance(value, str) else None


def to_frame(table: pa.Table) -> pd.DataFrame:
    """The tidy frame of these rows, in their order, with the types that frame.tidy would give."""
    table = table.combine_chunks()
    columns: dict[str, Any] = {}
    for name in COLUMNS:
        array = table.column(name)
        if _TYPES[name] == TEXT:
            columns[name] = _decoded(array, _from_json(name) if name in JSON else None)
        elif name in INTS or name == "num_samples":
            columns[name] = _whole_numbers(array)
        else:
            columns[name] = array.to_pandas().array
    axes = _axes(table.column(AXES))
    return pd.DataFrame({**columns, **axes}, columns=[*COLUMNS, *axes], copy=False)


def sort(table: pa.Table) -> pa.Table:
    """By case, then by time, so that a series lies together; what has no time comes first."""
    cases = table.column("case").combine_chunks()
    dictionary = cases.dictionary.to_pylist()
    rank = np.empty(len(dictionary) + 1, dtype=np.int64)
    rank[np.argsort(np.array(dictionary, dtype=object), kind="stable")] = np.arange(len(dictionary))
    rank[-1] = -1  # of a null
    codes = cases.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return table.take(pa.array(np.lexsort((times(table), rank[codes]))))


def times(table: pa.Table) -> Any:
    """started_at in microseconds; the smallest integer where there is none."""
    if "started_at" not in table.column_names:
        return np.full(len(table), np.iinfo(np.int64).min)
    array = table.column("started_at").cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
    return array.to_numpy()


def as_written(table: pa.Table) -> pa.Table:
    """Every column of SCHEMA, what is absent null; `machine`, the partition, as plain text."""
    arrays = {
        field.name: table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in SCHEMA
    }
    arrays["machine"] = arrays["machine"].cast(pa.string())
    return pa.table(arrays)


def _decoded(array: pa.ChunkedArray, read: Callable[[str], Any] | None = None) -> Any:
    if array.null_count == len(array):
        return np.full(len(array), None, dtype=object)
    codes, values = _codes(array)
    found = [read(value) for value in values] if read else values
    return _taken(found, codes)


def _taken(values: list[Any], codes: Any) -> Any:
    """`values[codes]`; -1 is missing. The type is what pandas gives a list of them."""
    if not values:
        return np.full(len(codes), None, dtype=object)
    base = pd.Series([*values, math.nan] if (codes < 0).any() else values)
    return base.array.take(np.where(codes < 0, len(values), codes))


def _codes(array: pa.ChunkedArray) -> tuple[Any, list[str]]:
    """Codes (-1: null) and only those values that are used."""
    if not len(array):
        return np.empty(0, dtype=np.int64), []
    if not pa.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    chunk = array.unify_dictionaries().combine_chunks()
    codes = chunk.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    used, inverse = np.unique(codes, return_inverse=True)
    values = chunk.dictionary.take(pa.array(used[used >= 0])).to_pylist()
    return inverse - (1 if used[0] < 0 else 0), values


def _from_json(name: str) -> Callable[[str], Any]:
    return _launches if name == "launches" else json.loads


def _launches(text: str) -> Any:
    found = json.loads(text)
    return found and {int(key): value for key, value in found.items()}


def _whole_numbers(array: pa.ChunkedArray) -> Any:
    """Integers, or floats where one is missing."""
    if array.null_count == len(array):
        return np.full(len(array), None, dtype=object)
    return (array if array.null_count else array.cast(pa.int64())).to_pandas().array


def _axes(array: pa.ChunkedArray) -> dict[str, Any]:
    """A column per axis."""
    codes, texts = _codes(array)
    found = [
        {str(_text(name)): _text(v) if isinstance(v, str) else v for name, v in axes.items()}
        for axes in map(json.loads, texts)
    ]
    names = dict.fromkeys(name for axes in found for name in axes)
    return {name: _taken([axes.get(name, math.nan) for axes in found], codes) for name in names}
