"""What every command says: results on standard output, warnings on stderr."""

import os
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path

from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.files import write_atomic
from hostbench.core.units import one_line

_LINE_EVERY_S = 10.0


def show(text: str, end: str = "\n") -> None:
    """Print a result. A reader who has read enough of it (`| head`) does not undo it.

    Raises BrokenError where standard output cannot be written, as on a full disk.
    """
    try:
        print(text, end=end, flush=True)
    except BrokenPipeError:
        drop_output()
    except OSError as error:
        drop_output()
        raise BrokenError(
            f"standard output cannot be written: {error.strerror or error}; make room, or send it "
            "elsewhere"
        ) from None


def replace_closed() -> None:
    """In place of a standard stream that is closed (`2>&-`) the null device: else the next file
    that is opened takes its number, and what is said goes into it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))


def drop_output() -> None:
    """Nobody reads it any more: neither the next line nor Python's flush at exit complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """One line on stderr, fit for a terminal: text from files may be in it."""
    with suppress(OSError):  # nobody reads it: the exit code still stands
        print(f"hostbench: {one_line(text)}", file=sys.stderr)


class Reading:
    """How far reading results has come, on stderr: one line that is written over on a terminal, a
    flushed line every 10 s elsewhere. Nothing is said of what takes less."""

    def __init__(self) -> None:
        self._num, self._said_s = 0, time.monotonic()
        self._is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._is_drawn = False

    def __call__(self, path: Path) -> None:
        """This file is about to be read."""
        self._num += 1
        if time.monotonic() - self._said_s < (1 if self._is_live else _LINE_EVERY_S):
            return
        self._said_s, self._is_drawn = time.monotonic(), self._is_live
        text = one_line(f"reading results: {self._num} files, now {path}")
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{text:.{width}}" if self._is_live else f"{text}\n")

    def __enter__(self) -> "Reading":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_drawn:
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError):
            print(text, end="", file=sys.stderr, flush=True)


def check_folder(path: Path, option: str = "-o") -> None:
    """Before the work, not after. Raises UsageError where the folder of what the option names is
    not there."""
    if not path.parent.is_dir():
        raise UsageError(
            f"cannot write {path}: there is no folder {path.parent}; name another file with "
            f"{option}"
        )


def write_file(path: Path, data: bytes, option: str = "-o") -> None:
    """What the option names. A link or a device (/dev/stdout) is written through, never replaced.
    Raises UsageError."""
    remedy = f"name another file with {option}"
    check_folder(path, option)
    if not path.is_symlink() and (path.is_file() or path.is_dir() or not path.exists()):
        write_atomic(path, data, remedy)
        return
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; {remedy}") from error
