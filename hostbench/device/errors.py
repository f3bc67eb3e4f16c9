"""Which errors end a worker process. Knows errors by their names, so it imports no torch."""

from collections.abc import Iterator

_STICKY_TEXTS = (
    "CUDA error",
    "CUDA driver error",
    "CUBLAS_STATUS_",
    "CUDNN_STATUS_",
    "cuDNN error",
    "NCCL error",
)
_MEMORY_TEXTS = ("out of memory", "can't allocate memory", "cannot allocate memory")


def fatal_reason(error: BaseException) -> str | None:
    """Why the process must be left after `error`, or None when it may go on.

    Out of memory leaves fragments and half-built cases behind. A CUDA error is sticky: every later
    call of the process fails with it too, and torch does not say which ones are not. The causes
    behind `error` count as well.
    """
    for link in _chain(error):
        text = str(link)
        if isinstance(link, MemoryError) or _is_named(link, "OutOfMemoryError"):
            return f"out of memory: {_first_line(link)}"
        if isinstance(link, RuntimeError) and any(part in text.lower() for part in _MEMORY_TEXTS):
            return f"out of memory: {_first_line(link)}"
        if _is_named(link, "AcceleratorError") or (
            isinstance(link, RuntimeError) and any(part in text for part in _STICKY_TEXTS)
        ):
            return f"CUDA error, the process cannot use the device again: {_first_line(link)}"
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _is_named(error: BaseException, name: str) -> bool:
    """Whether torch's class of that name is among the error's classes."""
    return any(
        kind.__name__ == name and kind.__module__.partition(".")[0] == "torch"
        for kind in type(error).__mro__
    )


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
