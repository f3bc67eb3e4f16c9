"""The line of the user's code at each wait, written into the trace while the profiler runs.

The profiler itself names Python functions by the line where they begin, and only with stacks on,
which slow the host down. A mark is an annotation without length, just behind the wait.

torch tells of most waits by its debug mode of synchronizations, as a warning that is raised when
the operation is done (c10/cuda/CUDAFunctions.h). It is silent about waits for an event or for the
whole device, and about copies from pageable memory that are called non_blocking: these calls are
wrapped. Needs only torch.
"""

import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

MARK = "hostbench line "
"""Begins the annotation without length that is written behind a wait."""
BORDER = "hostbench step"
"""Where one step ends and the next begins: a step that is under way at the end is none."""

_SAYS = "called a synchronizing CUDA operation"
_NOT_ALL = "Synchronization debug mode is a prototype"
_STDLIB = Path(sysconfig.get_path("stdlib"))
_PACKAGES = ("site-packages", "dist-packages")
_OURS = Path(__file__).parent.parent


class CodeLine(NamedTuple):
    """A line of a user's code."""

    file: str
    line: int
    function: str
    is_exact: bool = True
    """It is the line of the call, and not the one where its function begins."""


def mark(file: str, line: int, function: str) -> str:
    return f"{MARK}{line} {function} {file}"


def read_mark(text: str) -> CodeLine | None:
    line, _, rest = text.removeprefix(MARK).partition(" ")
    function, _, file = rest.partition(" ")
    return CodeLine(file, int(line), function) if line.isdecimal() and file else None


@contextmanager
def marked() -> Iterator[None]:
    """Marks behind each wait, as long as this is open."""
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_available():
        yield
        return
    with ExitStack() as stack:
        _take_warnings(stack)
        if getattr(sys.flags, "context_aware_warnings", False):
            pass  # each thread has filters of its own, where ours may not come first
        elif not cuda.is_initialized() or cuda.get_sync_debug_mode() == 0:  # else it is somebody's
            stack.callback(lambda: cuda.is_initialized() and cuda.set_sync_debug_mode("default"))
            cuda._lazy_call(lambda: cuda.set_sync_debug_mode("warn"))  # starts no CUDA
        for owner, name, waits in (
            (cuda, "synchronize", _always),
            (cuda.Event, "synchronize", _always),
            (torch.Tensor, "to", _is_unpinned),
            (torch.Tensor, "cuda", _is_unpinned),
            (torch.Tensor, "copy_", _is_unpinned),
        ):
            _wrap(stack, owner, name, waits)
        yield


class _Listener:
    """In a filter of warnings: it is asked before Python knows what to do with a warning. torch's
    words about a wait are a mark, and end here."""

    def __init__(self) -> None:
        self.is_open = True

    def match(self, text: str) -> bool:
        if self.is_open and text.startswith(_SAYS):
            with suppress(Exception):  # a line less, and no error in the script
                _write()
            return True
        return self.is_open and text.startswith(_NOT_ALL)


def _take_warnings(stack: ExitStack) -> None:
    """Before any filter of the script's, one that it sets later too: it may make an error of each
    warning, or keep them in a list."""
    module: Any = warnings
    kind, listener = type(module), _Listener()
    ours = ("ignore", listener, Warning, None, 0)

    def others() -> list[Any]:
        return [entry for entry in vars(module)["filters"] if entry is not ours]

    class Warnings(kind):  # type: ignore[misc, valid-type]
        @property
        def filters(self) -> list[Any]:
            """What Python looks up for each warning."""
            filters: list[Any] = self.__dict__["filters"]
            if not filters or filters[0] is not ours:
                filters[:] = [ours, *others()]
            return filters

        @filters.setter
        def filters(self, filters: list[Any]) -> None:
            self.__dict__["filters"] = filters

    module.__class__ = Warnings

    def undo() -> None:
        listener.is_open = False  # a list that the script has put aside may hold it still
        if type(module) is Warnings:
            module.__class__ = kind
        module.filters[:] = others()

    stack.callback(undo)


def _wrap(stack: ExitStack, owner: Any, name: str, waits: Callable[..., bool]) -> None:
    real = getattr(owner, name)

    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        with suppress(Exception):  # a line less, and no error in the script
            if waits(result, *args, **kwargs):
                _write()
        return result

    if name in vars(owner):
        stack.callback(setattr, owner, name, real)
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, call)


def _always(*_: Any, **__: Any) -> bool:
    return True


def _is_unpinned(result: Any, *args: Any, **kwargs: Any) -> bool:
    """A copy to a device from memory that is not pinned."""
    sources = [value for value in (*args, *kwargs.values()) if _is_on_host(value)]
    return bool(sources) and bool(result.is_cuda) and not sources[0].is_pinned()


def _is_on_host(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.device.type == "cpu"


def _write() -> None:
    """An annotation without length, with the line that is being executed."""
    import torch.profiler

    frame = users_frame(sys._getframe(1))
    if frame is None:
        return
    code, file = frame.f_code, Path(frame.f_code.co_filename)
    with suppress(ValueError):
        file = file.relative_to(Path.cwd())
    profiler: Any = torch.profiler
    with profiler.record_function(mark(str(file), frame.f_lineno, code.co_name)):
        pass


def users_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is of no installed package; else the innermost that is neither
    torch's, Python's nor ours."""
    of_a_package: FrameType | None = None
    while frame is not None:
        whose = _whose(frame.f_code.co_filename)
        if whose == "user":
            return frame
        if whose == "package":
            of_a_package = of_a_package or frame
        frame = frame.f_back
    return of_a_package


@cache
def _whose(file: str) -> str:
    import torch

    path = Path(file)
    if file.startswith("<") or path.is_relative_to(_OURS):
        return "none"
    if path.is_relative_to(Path(torch.__file__).parent):
        return "none"
    if any(name in path.parts for name in _PACKAGES):
        return "package"
    return "none" if path.is_relative_to(_STDLIB) else "user"
