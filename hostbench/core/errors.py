"""Errors and exit codes. Every message names the value, the limit and the remedy."""

import re
import traceback
from collections.abc import Callable
from pathlib import Path

EXIT_OK = 0
EXIT_REGRESSION = 1
EXIT_USAGE = 2
EXIT_NOTHING_MEASURED = 3
EXIT_FAILED = 4

# Torch's errors are known by their names and texts: it is not imported here.
_STICKY = ("CUDA error", "CUDA driver error", "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN error")
_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory")
_NCCL_TEXT, _NCCL_LAST_WORDS = "NCCL error", "Last error:"
_SHARED_MEMORY_REMEDY = "; start the container with --shm-size=1g or --ipc=host"
_BUILD_PATH = re.compile(r"\[(?:enforce fail at )?/\S+:\d+\] ")
"""Before what gloo says: where the line was when torch was built."""

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


def in_words(error: BaseException, where: str, kind: str = "") -> str:
    """In one line why the process must be left, or what kind of error it was, and where."""
    fatal = str(error) if isinstance(error, BrokenError) else fatal_reason(error)
    text = fatal or f"{kind or type(error).__name__}: {_BUILD_PATH.sub('', str(error))}"
    return " ".join(text.split())[:500] + ("" if fatal else where)


def end_of_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))[-4000:]


def fatal_reason(error: BaseException) -> str | None:
    """Why the process must be left after `error`, or None when it may go on.

    Out of memory leaves fragments and half-built cases behind. A CUDA error is sticky: every later
    call of the process fails with it too, and torch does not say which ones are not; so is an NCCL
    error for the process group. The causes behind `error` count as well.
    """
    link: BaseException | None = error
    seen = set[int]()
    while link is not None and id(link) not in seen:  # a chain may come back to itself
        seen.add(id(link))
        text = str(link)
        names = {
            kind.__name__ for kind in type(link).__mro__ if kind.__module__.split(".")[0] == "torch"
        }
        is_runtime = isinstance(link, RuntimeError)
        first_line = text.strip().partition("\n")[0] or type(link).__name__
        if is_runtime and _NCCL_TEXT in text:  # what stands above the last words is a class's name
            last = text.partition(_NCCL_LAST_WORDS)[2].strip()
            remedy = _SHARED_MEMORY_REMEDY if "/dev/shm" in last else ""  # noqa: S108 - a text
            return f"NCCL: {' '.join((last or text).split())}{remedy}"
        is_of_memory = is_runtime and any(part in text.lower() for part in _MEMORY_TEXTS)
        if isinstance(link, MemoryError) or "OutOfMemoryError" in names or is_of_memory:
            return f"out of memory: {first_line}"
        is_sticky = is_runtime and any(part in text for part in _STICKY)
        if "AcceleratorError" in names or is_sticky:
            message = first_line.removeprefix("CUDA error: ")
            return f"CUDA error, the process cannot use the device again: {message}"
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return None
