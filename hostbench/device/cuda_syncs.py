"""How often the host waits for CUDA: torch's debug mode of synchronizations, and what it overlooks.

`torch.cuda.set_sync_debug_mode("warn")` warns where torch copies and then waits, and where it waits
for a stream: `.item()`, `nonzero`, `x[mask]`, `.cpu()`. It says nothing of a wait for an event or
for the whole device, nor of a copy from or to pageable memory that is called non_blocking and waits
all the same. Those calls are counted here where they are looked up when they are made, as in
`torch.cuda.synchronize()`; a name that was bound before, and other libraries, are not seen. A copy
of up to 64KiB to the device, which the driver may take along at once, counts as a wait too.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import wraps
from typing import Any

import torch

_SAYS = "called a synchronizing CUDA operation"
"""torch's words (c10/cuda/CUDAFunctions.cpp)."""

_cuda: Any = torch.cuda

Waited = Callable[[tuple[Any, ...]], bool]
"""Whether a call waited, from its result and what it was given."""


def count(work: Callable[[], object]) -> int:
    """Waits of the host in `work`, one for each call or operation that waits. The debug mode is
    what it was afterwards. It is the whole process's: no other thread may use CUDA meanwhile."""
    before = _cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with _watched(caught):
            _cuda.set_sync_debug_mode("warn")  # says once that it does not see everything
            try:
                work()
            finally:
                _cuda.set_sync_debug_mode(before)
    return sum(_SAYS in str(warning.message) for warning in caught)


@contextmanager
def _watched(caught: list[warnings.WarningMessage]) -> Iterator[None]:
    """Has the calls that the debug mode overlooks say one warning each."""
    with ExitStack() as stack:
        for owner, name, waits in (
            (_cuda, "synchronize", _always),
            (_cuda.Event, "synchronize", _always),
            (_cuda.Stream, "synchronize", _always),
            (torch.Tensor, "copy_", _is_pageable),
            (torch.Tensor, "to", _is_pageable),
            (torch.Tensor, "cuda", _is_pageable),
        ):
            undo = (
                (setattr, owner, name, vars(owner)[name])
                if name in vars(owner)
                else (delattr, owner, name)
            )
            stack.callback(*undo)
            setattr(owner, name, _heard(getattr(owner, name), waits, caught))
        yield


def _heard(
    real: Callable[..., Any], waits: Waited, caught: list[warnings.WarningMessage]
) -> Callable[..., Any]:
    @wraps(real)
    def call(*args: Any, **kwargs: Any) -> Any:
        num = len(caught)
        result = real(*args, **kwargs)
        if waits((result, *args, *kwargs.values())):
            del caught[num:]  # what the debug mode saw of this same call
            warnings.warn(_SAYS, stacklevel=2)
        return result

    return call


def _always(_: tuple[Any, ...]) -> bool:
    return True


def _is_pageable(values: tuple[Any, ...]) -> bool:
    """A copy between a device and memory of the host that is not pinned."""
    tensors = [tensor for tensor in values if isinstance(tensor, torch.Tensor)]
    host = [tensor for tensor in tensors if tensor.device.type == "cpu"]
    return 0 < len(host) < len(tensors) and not any(tensor.is_pinned() for tensor in host)
