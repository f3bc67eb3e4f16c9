"""Which errors end a worker process. Knows errors by their names, so it imports no torch."""

import re
import traceback
from collections.abc import Iterator

from hostbench.core.errors import BrokenError

_STICKY = ("CUDA error", "CUDA driver error", "CUBLAS_STATUS_", "CUDNN_STATUS_", "cuDNN error")
_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory")
_NCCL_TEXT = "NCCL error"
_NCCL_NO_ROOM = ("creating shared memory segment", "No space left on device")
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
    for link in _chain(error):
        text = str(link)
        names = {
            kind.__name__ for kind in type(link).__mro__ if kind.__module__.split(".")[0] == "torch"
        }
        is_runtime = isinstance(link, RuntimeError)
        first_line = text.strip().partition("\n")[0] or type(link).__name__
        if is_runtime and _NCCL_TEXT in text:
            return _nccl_reason(text)
        is_of_memory = is_runtime and any(part in text.lower() for part in _MEMORY_TEXTS)
        if isinstance(link, MemoryError) or "OutOfMemoryError" in names or is_of_memory:
            return f"out of memory: {first_line}"
        is_sticky = is_runtime and any(part in text for part in _STICKY)
        if "AcceleratorError" in names or is_sticky:
            message = first_line.removeprefix("CUDA error: ")
            return f"CUDA error, the process cannot use the device again: {message}"
    return None


def _nccl_reason(text: str) -> str:
    """NCCL's own last words, where torch has them: what stands above them names only a class.

    torch writes "NCCL error in: FILE:LINE, WHAT (run with NCCL_DEBUG=INFO for details), NCCL
    version V", then "ncclCLASS: explanation", then "Last error:" and those words.
    """
    head, _, last = text.partition("Last error:")
    kind = re.search(r"\bnccl[A-Z]\w+", head)
    message = " ".join(last.split()) or " ".join(head[kind.start() if kind else 0 :].split())
    named = f"{kind.group()}: " if kind and not message.startswith(kind.group()) else ""
    remedy = "NCCL_DEBUG=WARN in the environment makes NCCL say more"
    if any(part in text for part in _NCCL_NO_ROOM):
        remedy = "look whether /dev/shm is full; a container gets more by docker run --shm-size=1g"
    return f"NCCL: {named}{message}; {remedy}"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
