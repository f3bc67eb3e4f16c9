"""What is derived from a table, kept beside it: sets of small Parquet files.

A set is a folder whose name says what it was made of. It is written elsewhere and renamed, so that
whoever reads it sees all of it, and a writer that is killed leaves nothing that counts.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

DAMAGE = (OSError, pa.ArrowException)
"""What reading a set raises that is damaged, or has gone."""
_NEW = ".new-"


def write(place: Path, tables: Mapping[str, pd.DataFrame | bytes]) -> None:
    """Keep a set, for which there is one writer at a time of those whose names begin with the same
    word. Raises OSError where it cannot be written."""
    unfinished = f"{_NEW}{place.name.partition('-')[0]}-"
    forget(place.parent.glob(f"{unfinished}*"))  # their writer was killed
    made = Path(tempfile.mkdtemp(prefix=unfinished, dir=place.parent))
    for name, table in tables.items():
        if isinstance(table, bytes):
            (made / name).write_bytes(table)
        else:
            rows = pa.Table.from_pandas(table, preserve_index=False)
            parquet.write_table(rows, made / f"{name}.parquet", compression="zstd")
    shutil.rmtree(place, ignore_errors=True)  # a damaged one
    made.rename(place)


def found(folder: Path, start: str) -> list[Path]:
    """The sets whose names begin so, the newest first."""
    paths = [(path.stat().st_mtime_ns, path) for path in folder.glob(f"{start}*") if path.is_dir()]
    return [path for _, path in sorted(paths, reverse=True)]


def forget(paths: Iterable[Path]) -> None:
    for path in paths:
        shutil.rmtree(path, ignore_errors=True)


def read(kept: Path, name: str) -> pd.DataFrame:
    """A table of a set. Raises one of DAMAGE."""
    rows: pd.DataFrame = parquet.ParquetFile(kept / f"{name}.parquet").read().to_pandas()
    return rows


@contextlib.contextmanager
def lock(path: Path) -> Iterator[None]:
    """Wait until no other process writes, where the file system can lock. It is let go of when the
    process ends, whatever ends it. The file and its folder are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
