"""What the commands share: the results folder, a warning."""

import os
import stat
import sys
from argparse import Namespace
from pathlib import Path

from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.units import one_line
from hostbench.runner.places import asv_results, project_root


def results_folder(args: Namespace) -> Path:
    """`--results`, else the one that the nearest asv.conf.json names, else ./results.

    It need not be there yet. Raises UsageError for what is no folder and cannot become one.
    """
    if args.results is not None:
        return _checked(Path(args.results).absolute())
    return _checked(asv_results(project_root(Path.cwd()) or Path.cwd()))


def _checked(path: Path) -> Path:
    why = None
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            why = "it is a file"
    except FileNotFoundError:
        if path.is_symlink():
            why = "it is a link to nothing"
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    if why:
        raise UsageError(f"{path} is no results folder: {why}; name a folder with --results")
    return path


def check_writable(folder: Path) -> None:
    """Before hours of measuring, not after. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write results to {folder}: {error.strerror}; make it writable or name another "
            "folder with --results"
        ) from error


def show(text: str, end: str = "\n") -> None:
    """Print what was found. A reader who has seen enough of it (`| head`) does not undo it.

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


def drop_output() -> None:
    """Nobody reads it any more: neither the next line nor Python's flush at exit complains."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(text: str) -> None:
    """One line on stderr, fit for a terminal: text from files may be in it."""
    print(f"hostbench: {one_line(text)}", file=sys.stderr)
