"""The line of the user's code at each wait, written into the trace while the profiler runs.

The profiler itself names Python functions by the line where they begin, and only with stacks on,
which slow the host down. A mark is an annotation without length, just behind the wait.

torch tells of most waits by its debug mode of synchronizations, as a warning that is raised when
the operation is done (c10/cuda/CUDAFunctions.h). It is silent about waits for an event or for the
whole device, and about copies from pageable memory that are called non_blocking: these calls are
wrapped. Without a GPU those are wrapped that would wait for one. Needs only torch.
"""

import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, wraps
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

MARK = "hostbench line "
"""Begins the annotation without length that is written behind a wait."""
MARK_FIELDS = rf"^{MARK}(?P<line>\d+) (?P<call>\S*) (?P<function>\S+) (?P<file>.+)$"
"""The call is empty for a wait, and named where it would wait if there were a GPU."""
BORDER = "hostbench step"
"""Where one step ends and the next begins: a step that is under way at the end is none."""

_SAYS = "called a synchronizing CUDA operation"
_NOT_ALL = "Synchronization debug mode is a prototype"
_STDLIB = Path(sysconfig.get_path("stdlib"))
_PACKAGES = ("site-packages", "dist-packages")
_OURS = Path(__file__).parent.parent
_WOULD_WAIT = {
    **{f"__{kind}__": f"{kind}(t)" for kind in ("bool", "int", "float", "index")},
    **dict.fromkeys(("__repr__", "__format__"), "print(t)"),
    **{name: f".{name}()" for name in ("item", "tolist", "nonzero", "masked_select", "unique")},
    "cpu": ".cpu()",
    "to": ".to(device)",
}
"""Methods of a tensor, and what a program calls, which waits if the tensor is on a GPU; `to` if it
goes there from memory that is not pinned."""


@contextmanager
def marked() -> Iterator[None]:
    """Marks behind each wait, as long as this is open."""
    import torch

    cuda: Any = torch.cuda
    with ExitStack() as stack:
        if not cuda.is_available():
            for name in _WOULD_WAIT:
                _wrap(stack, torch.Tensor, name, _would_wait)
            yield
            return
        _take_warnings(stack)
        if getattr(sys.flags, "context_aware_warnings", False):
            pass  # each thread has filters of its own, where ours may not come first
        elif not cuda.is_initialized() or cuda.get_sync_debug_mode() == 0:  # else it is somebody's
            stack.callback(lambda: cuda.is_initialized() and cuda.set_sync_debug_mode("default"))
            cuda._lazy_call(lambda: cuda.set_sync_debug_mode("warn"))  # starts no CUDA
        for owner in (cuda, cuda.Event):
            _wrap(stack, owner, "synchronize", lambda *_: "")
        for name in ("to", "cuda", "copy_"):
            _wrap(stack, torch.Tensor, name, _from_unpinned)
        yield


class _Filters(list[Any]):
    """As `warnings.filters`: the first stays the first, whatever filters the script sets. It may
    make an error of each warning, or keep them in a list."""

    def insert(self, index: Any, entry: Any) -> None:
        super().insert(index + 1, entry)

    def __getitem__(self, index: Any) -> Any:
        entries = super().__getitem__(index)
        return _Filters(entries) if isinstance(index, slice) else entries

    def __setitem__(self, index: Any, entries: Any) -> None:
        super().__setitem__(index, [self[0], *entries] if isinstance(index, slice) else entries)


def _take_warnings(stack: ExitStack) -> None:
    """By a filter of warnings, which is asked before Python knows what to do with one. torch's
    words about a wait are a mark, and end here."""
    module: Any = warnings

    def match(text: str) -> bool:
        if text.startswith(_SAYS):
            with suppress(Exception):  # a line less, and no error in the script
                _write()
        return text.startswith((_SAYS, _NOT_ALL))

    def undo() -> None:
        module.filters = [entry for entry in module.filters if entry is not ours]

    ours = ("ignore", SimpleNamespace(match=match), Warning, None, 0)
    module.filters = _Filters([ours, *module.filters])
    stack.callback(undo)


def _wrap(stack: ExitStack, owner: Any, name: str, waits: Callable[..., str | None]) -> None:
    """`waits`, of the name, the result and the arguments: the call that a mark names, or None."""
    real = getattr(owner, name)

    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        with suppress(Exception):  # a line less, and no error in the script
            named = waits(name, result, *args, *kwargs.values())
            if named is not None:
                _write(named)
        return result

    if name in vars(owner):
        stack.callback(setattr, owner, name, real)
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, call)


def _from_unpinned(name: str, result: Any, *values: Any) -> str | None:
    """A copy to a device from memory that is not pinned."""
    import torch

    tensors = (value for value in values if isinstance(value, torch.Tensor))
    source = next((tensor for tensor in tensors if tensor.device.type == "cpu"), None)
    return "" if source is not None and result.is_cuda and not source.is_pinned() else None


def _would_wait(name: str, result: Any, *values: Any) -> str | None:
    """Not where torch itself calls: what it reads so is mostly kept on the host, as the steps of
    an optimizer."""
    import torch

    if _whose(sys._getframe(2).f_code.co_filename) == "torch":
        return None
    is_moved = any(isinstance(value, str | torch.device) for value in values)
    return _WOULD_WAIT[name] if is_moved or name != "to" else None


def _write(call: str = "") -> None:
    """An annotation without length, with the line that is being executed."""
    import torch.profiler

    frame = users_frame(sys._getframe(1))
    if frame is None:
        return
    code, file = frame.f_code, Path(frame.f_code.co_filename)
    with suppress(ValueError):
        file = file.relative_to(Path.cwd())
    profiler: Any = torch.profiler
    with profiler.record_function(f"{MARK}{frame.f_lineno} {call} {code.co_name} {file}"):
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
    if path.is_relative_to(Path(torch.__file__).parent):
        return "torch"
    if file.startswith("<") or path.is_relative_to(_OURS):
        return "none"
    if any(name in path.parts for name in _PACKAGES):
        return "package"
    return "none" if path.is_relative_to(_STDLIB) else "user"
