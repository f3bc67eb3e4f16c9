"""The index: the frame's rows in Parquet files beside the data, kept up to date, read by DuckDB.

`results/.index/` can be deleted at will. It needs duckdb and pyarrow, which the extra `dashboard`
brings; `hostbench.store.history` does without where they are missing.
"""

from pathlib import Path

import duckdb
import pyarrow as pa

from hostbench.core.errors import UsageError
from hostbench.store.index.query import Index
from hostbench.store.index.update import refresh

__all__ = ["DAMAGE", "Index", "open_index"]


def open_index(results: Path, rebuild: bool = False) -> Index:
    """The index of a results folder as it is now.

    Raises UsageError when there is no such folder; it or OSError where nothing can be written.
    """
    if not results.is_dir():
        raise UsageError(f"there is no results folder {results}; name one with --results")
    try:
        return Index(results, *refresh(results, rebuild))
    except pa.ArrowException:  # a shard of the right size that is damaged inside
        return Index(results, *refresh(results, rebuild=True))


DAMAGE = (OSError, pa.ArrowException, duckdb.Error)
"""What asking an index raises whose files are damaged or were swept away: open it again, anew."""
