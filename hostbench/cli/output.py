"""What every command says: results on standard output, warnings on stderr."""

import os
import shutil
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from shlex import quote
from typing import TextIO

from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.units import one_line
from hostbench.report.blocks import Page
from hostbench.report.write import write


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


@cache
def warn(text: str) -> None:
    """One line on stderr, fit for a terminal: text from files may be in it. Once in a command: what
    measures and what reads may meet the same damaged file."""
    with suppress(OSError):  # nobody reads it: the exit code still stands
        print(f"hostbench: {one_line(text)}", file=sys.stderr, flush=True)


def drop_output() -> None:
    """Nobody reads it any more: neither the next line nor Python's flush at exit complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_file(path: Path, data: bytes) -> None:
    """What an option names; its folder is made where there is none. Raises UsageError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file") from error


def show_page(form: str, page: Page) -> None:
    """In the format that `--format` names."""
    show(write(page, form, terminal()))


def terminal() -> TextIO | None:
    """Standard output, where it is a terminal that can move and colour."""
    is_live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return sys.stdout if is_live else None


def program() -> str:
    """`hostbench` where that is on PATH, else the path or `python -m hostbench` that was used: so
    that a command that we print can be typed as it stands."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{short(Path(sys.executable))} -m hostbench"
    on_path = shutil.which("hostbench")
    if on_path and Path(on_path).resolve() == started.resolve():
        return "hostbench"
    return short(started)


def typed_again(options: object, *names: str) -> str:
    """Those of these options that were given, each with a space before it."""
    values = ((name, getattr(options, name)) for name in names)
    return "".join(
        f" --{name}" if value is True else f" --{name} {quote(str(value))}"
        for name, value in values
        if value is not None and value is not False
    )


def short(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
