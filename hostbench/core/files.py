"""Stored files: read within limits, written so that a reader sees all of it or none of it."""

import contextlib
import errno
import fcntl
import gzip
import io
import json
import os
import re
import secrets
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import hostbench
from hostbench.core.errors import BrokenError, HostbenchError, UsageError
from hostbench.core.units import MIB

MAX_BYTES = 64 * MIB
"""Of a file, and of what it unpacks to: some ten times the largest of a real project."""
MAX_VALUES = 4_000_000
"""Of a file: commas, brackets, braces and ends of lines. A value of JSON needs up to 200 bytes of
memory, whatever few bytes it has in the file."""
MAX_POINTS = 200_000
"""Of a file: combinations of parameters, cells of matrices."""

REPLACE = "restore it from git or delete it"
"""What to do with a damaged file."""
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_REMEDY = "make the folder writable or name another with --results"


def is_url(results: Path | str) -> bool:
    """Whether that names a table (`s3://`, `gs://`, `az://`, `file://`), not a folder of files."""
    return isinstance(results, str) and "://" in results


def shipped(path: str) -> Path:
    """A file that comes with hostbench, as `docs/...`: beside the package in a checkout, inside it,
    as `_docs/...`, where it is installed."""
    package = Path(hostbench.__file__).parent
    beside = package.parent / path
    return beside if beside.is_file() else package / f"_{path}"


class RefusedFileError(OSError):
    """A file that is there and is not read; the text says why, with the limit and the remedy."""

    def __str__(self) -> str:
        return str(self.strerror)


@contextlib.contextmanager
def open_stored(path: Path, folder: Path | None = None) -> Iterator[BinaryIO]:
    """A regular file, to be read; with `folder`, only one that lies in there, also through links.
    Never waits, as for the writer of a FIFO. Raises OSError."""
    try:
        is_inside = folder is None or path.resolve().is_relative_to(folder.resolve())
    except RuntimeError as error:
        raise RefusedFileError(errno.ELOOP, "it is a link to itself: delete it") from error
    if not is_inside:
        raise RefusedFileError(errno.EXDEV, f"it is a link out of {folder}: copy the file there")
    _check_regular(path.stat())  # opening a device may do something
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        _check_regular(os.fstat(file.fileno()))
        yield file


def read_stored(path: Path, folder: Path | None = None) -> bytes:
    """All of a stored file, or RefusedFileError where that is too much. Raises OSError."""
    with open_stored(path, folder) as file:
        size = os.fstat(file.fileno()).st_size  # read() makes room for all that it is asked for
        return _within_limits("it is", file.read(min(size, MAX_BYTES) + 1))


def unpack(data: bytes) -> bytes:
    """What gzip packed. Raises OSError for what it did not, RefusedFileError for too much."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(MAX_BYTES + 1)
    except (EOFError, zlib.error) as error:
        raise OSError(errno.EINVAL, str(error)) from error
    return _within_limits("unpacked it is", content)


def load_json(data: bytes) -> Any:
    """What JSON says, and asv's bare NaN. Raises ValueError, also for half a character, which no
    table and no page can hold."""
    content = json.loads(data.decode())
    if _HALF_CHARACTER.search(data):
        json.dumps(content, ensure_ascii=False).encode()
    return content


def damaged(path: Path, error: Exception) -> str:
    """In one line what is wrong with a stored file, and what to do. A refused one is whole."""
    if isinstance(error, RefusedFileError):
        return f"{path} cannot be read ({error})"
    why = getattr(error, "strerror", "") or error  # without the path, which is there already
    return f"{path} is damaged ({why}); {REPLACE}"


def _check_regular(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise RefusedFileError(errno.EINVAL, "it is not a regular file: copy its content into one")


def _within_limits(what: str, data: bytes) -> bytes:
    """The data. Raises RefusedFileError where they are too much."""
    wrong = ""
    if len(data) > MAX_BYTES:
        wrong = f"{what} larger than {MAX_BYTES / MIB:g}MiB"
    elif len(data) > MAX_VALUES and sum(map(data.count, (b",", b"[", b"{", b"\n"))) > MAX_VALUES:
        wrong = f"it has more than {MAX_VALUES:,} values"
    if wrong:
        why = f"{wrong}, the most that is read: keep it elsewhere"
        raise RefusedFileError(errno.EFBIG, why)
    return data


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds this file, where the file system can lock and write. It is
    let go of when the process ends, whatever ends it."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def cannot_write(what: Path | str, error: OSError, remedy: str = _REMEDY) -> HostbenchError:
    """To be raised: a full disk is a failure, all else a wrong folder, with its remedy."""
    wrong = f"cannot write {what}: {error.strerror}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BrokenError(f"{wrong}; make room, and try again")
    return UsageError(f"{wrong}; {remedy}")


def write_atomic(path: Path, data: bytes, remedy: str = _REMEDY) -> None:
    """Write to a temporary file beside `path`, flush it to disk, rename it. The file is new, with a
    name that nobody can guess: a link in its place is no trap. Raises what `cannot_write` says."""
    if not path.name:
        raise UsageError(f"cannot write {path}: it is a folder; {remedy}")
    temporary = path.with_name(f".hostbench-{secrets.token_hex(8)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise cannot_write(path, error, remedy) from error
    finally:
        with contextlib.suppress(OSError):  # what went wrong above matters more
            temporary.unlink()
