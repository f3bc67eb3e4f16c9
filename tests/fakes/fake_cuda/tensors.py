"""Tensors on the stand-in's GPUs: each is a meta tensor with bytes of its own behind it."""

import mmap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tests.fakes.fake_cuda.gpu import Gpu, Queue
from tests.fakes.fake_cuda.memory import Backed
from tests.fakes.fake_cuda.timeline import Touch

Dispatch = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Does one operation of ATen: the operation, its arguments, those by name."""


class CudaTensor(torch.Tensor):
    """Bytes on a GPU. `host` is a CPU tensor of the same shape over them."""

    host: torch.Tensor
    block: Backed
    gpu: Gpu
    dispatch: Dispatch

    @staticmethod
    def __new__(
        cls, host: torch.Tensor, block: Backed, gpu: Gpu, dispatch: Dispatch
    ) -> "CudaTensor":
        self: CudaTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device("meta"),
        )
        self.host, self.block, self.gpu, self.dispatch = host, block, gpu, dispatch
        return self

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return torch.device("cuda", self.gpu.index)

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        return False

    def peek(self) -> torch.Tensor:
        """What the memory holds at this moment, whatever is enqueued: for tests."""
        self.block.pay()
        return self.host

    def get_device(self) -> int:
        return self.gpu.index

    def data_ptr(self) -> int:
        return self.host.data_ptr()

    def record_stream(self, stream: Any) -> None:
        """Raises TypeError for what is no stream."""
        if not isinstance(stream, torch.cuda.Stream):
            raise TypeError(f"record_stream takes a torch.cuda.Stream, not {stream!r}")
        self.block.machine.call()
        queue: Queue = stream.queue  # type: ignore[attr-defined]
        if queue is not self.block.queue:
            self.block.uses[queue] = queue.free_s

    def __format__(self, spec: str) -> str:
        """One number as torch formats it, which asks for its own type."""
        return format(self.item() if self.dim() == 0 else repr(self), spec)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Where no mode sees it first, as in a thread of autograd's."""
        some = next(each for each in tree_leaves((args, kwargs)) if isinstance(each, CudaTensor))
        return some.dispatch(func, tuple(args), kwargs or {})


class Late:
    """A tensor that an operation will use when its time comes: keeps no memory from being freed."""

    def __init__(self, tensor: torch.Tensor, pinned: Backed | None = None) -> None:
        """`pinned` is the block of a CPU tensor."""
        block = tensor.block if isinstance(tensor, CudaTensor) else pinned
        assert block is not None
        host = on_host(tensor)
        self.block = block
        self.start = byte_range(host)[0]
        self._shape = host.dtype, host.storage_offset(), host.size(), host.stride()

    def is_of_no_use(self, ticket: int) -> bool:
        """Whether the memory is freed, and nothing was enqueued after `ticket` that reads it."""
        return self.block.is_free and self.block.last_read < ticket

    def now(self) -> torch.Tensor:
        self.block.pay()
        dtype, offset, size, stride = self._shape
        storage = self.block.bytes.untyped_storage()
        return torch.empty(0, dtype=dtype).set_(storage, offset, size, stride)

    def written(self) -> None:
        self.block.holds = None


def on_host(each: Any) -> Any:
    """The CPU tensor behind a tensor on a GPU; anything else as it is."""
    return each.host if isinstance(each, CudaTensor) else each


def reads(tensors: Iterable[CudaTensor]) -> list[Touch]:
    return [(each.block, *byte_range(each.host), False) for each in tensors]


def writes(tensors: Iterable[CudaTensor]) -> list[Touch]:
    return [(each.block, *byte_range(each.host), True) for each in tensors]


def byte_range(host: torch.Tensor) -> tuple[int, int]:
    """First byte and the one after the last, from the start of the storage."""
    size = host.element_size()
    start = int(host.storage_offset()) * size
    return start, start + span(host) * size


def touched_bytes(host: torch.Tensor) -> int:
    """What its elements and the pages that they lie in have: memory that is new comes by pages."""
    pages = min(span(host) * host.element_size(), host.numel() * mmap.PAGESIZE)
    return max(int(host.nbytes), pages)


def span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last, with what lies between."""
    if not tensor.numel():
        return 0
    steps = zip(tensor.size(), tensor.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in steps)
