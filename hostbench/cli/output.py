"""What every command says: results on standard output, warnings on stderr."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from hostbench.core.errors import BrokenError
from hostbench.core.units import one_line


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
