"""Parquet files of rows: one machine each, sorted by case and time: a series lies together."""

import secrets
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hostbench.store.index.manifest import Shard
from hostbench.store.index.table import SCHEMA, UNIT

MAX_ROWS = 250_000
"""Of one shard: what is sorted at once in memory."""
_ROWS_OF_GROUP = 32_768


def sort(table: pa.Table) -> pa.Table:
    """By case, then by time; what has no time comes first."""
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


def write(folder: Path, machine: str, table: pa.Table, schema: pa.Schema = SCHEMA) -> Shard:
    """Write a sorted table as a new shard. Columns that it lacks are null."""
    name = f"{secrets.token_hex(8)}.parquet"
    temporary = folder / f"{name}.tmp"
    columns = table.column_names
    texts = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    options = {"compression": "zstd", "compression_level": 1, "use_dictionary": texts}
    with pq.ParquetWriter(temporary, schema, **options) as writer:
        for start in range(0, len(table), _ROWS_OF_GROUP):
            part = table.slice(start, _ROWS_OF_GROUP)
            arrays = [
                part.column(field.name)
                if field.name in columns
                else pa.nulls(len(part), field.type)
                for field in schema
            ]
            writer.write_table(pa.table(arrays, schema=schema))
    temporary.replace(folder / name)
    size = (folder / name).stat().st_size
    return Shard(name=name, machine=machine, rows=len(table), size=size)


def read(
    folder: Path, shards: list[Shard], dead: list[int], columns: list[str] | None = None
) -> pa.Table:
    """The live rows of these shards, with all columns or those named."""
    tables = [pq.read_table(folder / shard.name, columns=columns) for shard in shards]
    if not tables:
        return SCHEMA.empty_table()
    whole = pa.concat_tables(tables).unify_dictionaries()
    if dead:
        gone = np.isin(whole.column(UNIT).to_numpy(), dead)
        whole = whole.filter(pa.array(~gone))
    return whole


def remove(folder: Path, kept: list[Shard], older_than_s: float, now_s: float) -> None:
    """Delete files that no table of contents names, once nobody can be reading them."""
    names = {shard.name for shard in kept}
    for path in (*folder.glob("*.parquet"), *folder.glob("*.tmp")):
        if path.name in names:
            continue
        try:
            if now_s - path.stat().st_mtime > older_than_s:
                path.unlink()
        except OSError:
            continue  # another process was faster


def read_as_is(folder: Path, shards: list[Shard]) -> pa.Table:
    """Tables that are no rows of the frame."""
    return pa.concat_tables([pq.read_table(folder / shard.name) for shard in shards])
