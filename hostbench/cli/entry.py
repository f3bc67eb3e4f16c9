"""Words in, an exit code out."""

import atexit
import gc
import sys
import traceback
from collections.abc import Callable, Sequence
from io import TextIOWrapper

import click

from hostbench.cli.commands import COMMANDS
from hostbench.cli.output import drop_output, show, warn
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_USAGE,
    INSTALL_TABLE,
    TABLE,
    HostbenchError,
    install,
)
from hostbench.core.processes import terminate_as_interrupt

_NEW_OBJECTS = 100_000
"""Python looks for garbage after so many. Imports make most of them, and none of those is garbage:
after every 700, as is usual, that takes a fifth of a report's time."""


def main(
    argv: Sequence[str] | None = None, command: click.Command = COMMANDS, program: str = "hostbench"
) -> int:
    """Run one command and return its exit code. A known error is one line on stderr."""
    if argv is None:
        gc.set_threshold(_NEW_OBJECTS)
        atexit.register(gc.freeze)  # nor is any looked for when this ends
    warn.cache_clear()
    words = list(sys.argv[1:] if argv is None else argv)
    if command is COMMANDS and not words:
        words = ["--help"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a file's name may be no text in any encoding
            stream.reconfigure(errors="backslashreplace")
    with terminate_as_interrupt():
        code = guarded(lambda: _run(words, command, program))
        return guarded(lambda: show("", end="")) or code


def _run(words: list[str], command: click.Command, program: str) -> int | None:
    try:
        with command.make_context(program, words) as context:
            code: int | None = command.invoke(context)
            return code
    except click.exceptions.Exit as done:  # --help and --version
        return done.exit_code
    except BrokenPipeError:  # of what those print
        drop_output()
        return EXIT_OK
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else program
        warn(f"{error.format_message()} See `{path} --help`.")
        return EXIT_USAGE


def guarded(work: Callable[[], int | None]) -> int:
    """The exit code of some work; its error is one line on stderr."""
    try:
        return int(work() or EXIT_OK)
    except HostbenchError as error:
        warn(str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        warn("interrupted")
        return EXIT_FAILED
    except Exception as error:  # Python's own exit code, 1, would say that something regressed
        lacking = str(getattr(error, "name", "")).partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and lacking in TABLE:
            warn(f"{lacking} is missing, which reads what is stored: {INSTALL_TABLE}")
            return EXIT_USAGE
        if isinstance(error, ModuleNotFoundError) and lacking == "torch":
            warn(f"torch is not installed: {install('bench')}")
            return EXIT_FAILED
        traceback.print_exc()
        return EXIT_FAILED
