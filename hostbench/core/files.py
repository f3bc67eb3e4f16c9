"""Writing a file so that a reader sees all of it or none of it."""

import contextlib
import os
from pathlib import Path

from hostbench.core.errors import UsageError

_REMEDY = "make the folder writable or name another with --results"


def write_atomic(path: Path, data: bytes, remedy: str = _REMEDY) -> None:
    """Write to a temporary file beside `path`, flush it to disk, rename it.

    Raises UsageError, which ends with the remedy, where the file cannot be written.
    """
    if not path.name:
        raise UsageError(f"cannot write {path}: it is a folder; {remedy}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; {remedy}") from error
    finally:
        with contextlib.suppress(OSError):  # what went wrong above matters more
            temporary.unlink()
