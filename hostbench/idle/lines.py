"""The line of the user's code at each wait, written into the trace while the profiler runs.

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
from typing import Any

from hostbench.idle.marks import mark

_SAYS = "called a synchronizing CUDA operation"
_NOT_ALL = "Synchronization debug mode is a prototype"
_STDLIB = Path(sysconfig.get_path("stdlib"))
_PACKAGES = ("site-packages", "dist-packages")
_OURS = Path(__file__).parent.parent


@contextmanager
def marked() -> Iterator[None]:
    """Marks behind each wait, as long as this is open. Filters of warnings that the user sets
    meanwhile come first: one that ignores all leaves waits without a line."""
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_available():
        yield
        return
    with ExitStack() as stack:
        _take_warnings(stack)
        if not cuda.is_initialized() or cuda.get_sync_debug_mode() == 0:  # else it is somebody's
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


def _take_warnings(stack: ExitStack) -> None:
    """torch's words about a wait are a mark, and are not shown."""
    show = warnings.showwarning

    def heard(message: Any, *args: Any, **kwargs: Any) -> None:
        text = str(message)
        if text.startswith(_SAYS):
            _write()
        elif not text.startswith(_NOT_ALL):
            show(message, *args, **kwargs)

    warnings.filterwarnings("always", message=_SAYS)
    warnings.filterwarnings("always", message=_NOT_ALL)
    warnings.showwarning = heard

    def undo() -> None:
        if warnings.showwarning is heard:
            warnings.showwarning = show

    stack.callback(undo)


def _wrap(stack: ExitStack, owner: Any, name: str, waits: Callable[..., bool]) -> None:
    real = getattr(owner, name)

    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
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
    sources = [each for each in (*args, *kwargs.values()) if _is_on_host(each)]
    return bool(sources) and bool(result.is_cuda) and not sources[0].is_pinned()


def _is_on_host(each: Any) -> bool:
    import torch

    return isinstance(each, torch.Tensor) and each.device.type == "cpu"


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
