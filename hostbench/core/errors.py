"""Errors and exit codes. Every message names the value, the limit and the remedy."""

import traceback
from collections.abc import Callable
from pathlib import Path

EXIT_OK = 0
EXIT_REGRESSION = 1
EXIT_USAGE = 2
EXIT_NOTHING_MEASURED = 3
EXIT_FAILED = 4

Warn = Callable[[str], object]
"""Takes a warning in words."""

TABLE = ("deltalake", "pyarrow", "pandas", "numpy")
"""What reads stored results."""
INSTALL_TABLE = f"pip install {' '.join(TABLE)}"


def install(extra: str) -> str:
    """How to get what an extra of pyproject.toml brings, for a hostbench that is in no index."""
    return f"pip install 'hostbench[{extra}]', in a checkout `make bench`"


class HostbenchError(Exception):
    """Something the person at the terminal can fix; the CLI prints it as one line, and ends with
    `exit_code`."""

    exit_code = EXIT_USAGE


class UsageError(HostbenchError):
    """A flag, a name, a file or a setting is wrong."""


class NothingMeasured(HostbenchError):
    """The command had nothing to work on: no results, or every case was skipped."""

    exit_code = EXIT_NOTHING_MEASURED


class Interrupted(NothingMeasured):
    """An interrupt came before there was anything to keep."""


class BrokenError(HostbenchError):
    """Something that should work on this machine does not (a GPU without a working torch.cuda)."""

    exit_code = EXIT_FAILED


class DeviceLost(BrokenError):
    """The device does not start, or no longer: no case that is left can be measured."""


class DataError(HostbenchError):
    """A stored file is damaged; nothing is deleted, the message names the file."""

    exit_code = EXIT_FAILED


class CollectiveError(RuntimeError):
    """A collective failed: often because another rank did, so this rank is the last to blame."""


class RankFailure(Exception):
    """A rank was lost, raised or did not answer; the message names it."""

    def __init__(self, reason: str, traceback: str | None = None) -> None:
        super().__init__(reason)
        self.traceback = traceback


class Unavailable(NotImplementedError):
    """This machine cannot do this case: a skip with a reason, never a failure. asv knows a skip by
    NotImplementedError."""


def raised_at(error: BaseException, source: Path) -> str:
    """` (bench/steps.py:12)`: the innermost line of this file, or below this folder, that an error
    came through; from the working directory on, else the file's name. Empty where it is in none."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [(frame.filename, frame.lineno) for frame in frames]
    if isinstance(error, SyntaxError):
        places.append((str(error.filename), error.lineno))
    inside = [(Path(name), line) for name, line in places if Path(name).is_relative_to(source)]
    if not inside:
        return ""
    (path, line), here = inside[-1], Path.cwd()
    return f" ({path.relative_to(here) if path.is_relative_to(here) else path.name}:{line})"
