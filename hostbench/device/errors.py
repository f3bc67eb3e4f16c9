"""Which errors end a worker process. Knows errors by their names, so it imports no torch."""

import re
import traceback

from hostbench.core.errors import BrokenError

_STICKY = ("CUDA error", "CUDA driver error", "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN error")
_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory")
_NCCL_TEXT, _NCCL_LAST_WORDS = "NCCL error", "Last error:"
_SHARED_MEMORY_REMEDY = "; start the container with --shm-size=1g or --ipc=host"
_BUILD_PATH = re.compile(r"\[(?:enforce fail at )?/\S+:\d+\] ")
"""Before what gloo says: where the line was when torch was built."""


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
