"""Tensors on the fake GPUs, and what an operation of torch does there.

A tensor on a GPU is a CPU tensor in a wrapper. A dispatch mode sees every operation of torch's core
(ATen) that has such a tensor, or such a device, in it: it is done on the CPU at once, and a kernel
or a copy is enqueued on the virtual clock. One whose answer the host needs (`item`, `equal`,
`nonzero`) waits for the stream, as CUDA's do.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from hostbench.core.units import KIB
from tests.fakes.fake_cuda.hardware import Block, Gpu, Hardware

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

STAGED_BYTES = 64 * KIB
"""Up to this size a pageable copy to the GPU is taken along with the command."""
COMPUTED_FLOPS = 5e7
"""A product of larger matrices takes a CPU too long: its result is whatever is there."""
_aten: Any = torch.ops.aten


class CudaTensor(torch.Tensor):
    """Bytes on a GPU: those of the CPU tensor `host`."""

    host: torch.Tensor
    block: Block
    machine: "Machine"

    @staticmethod
    def __new__(cls, host: torch.Tensor, block: Block, machine: "Machine") -> "CudaTensor":
        self: CudaTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device("meta"),
        )
        self.host, self.block, self.machine = host, block, machine
        return self

    gpu = property(lambda self: self.block.gpu)
    device = property(lambda self: torch.device("cuda", self.gpu.index))
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    def record_stream(self, stream: Any) -> None:
        assert isinstance(stream, torch.cuda.Stream)
        self.machine.call()

    def __format__(self, spec: str) -> str:
        """One number as torch formats it, which asks for its own type."""
        return format(self.item(), spec)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Where no mode sees it first, as in a thread of autograd's."""
        return cuda_tensors(args, kwargs)[0].machine.dispatch(func, args, kwargs)


class Machine(Hardware):
    """A machine on which torch's operations run."""

    def dispatch(self, func: Any, args: Args, kwargs: Kwargs | None) -> Any:
        """One operation of ATen."""
        kwargs = kwargs or {}
        with self.span("cpu_op", func._schema.name):
            if func.overloadpacket is _aten.is_pinned:
                return not isinstance(args[0], CudaTensor) and self.is_pinned(args[0])
            if func.overloadpacket is _aten._pin_memory:
                self.now_s += args[0].nbytes / self.costs.host_bytes_per_s
                return self.pinned_like(args[0]).copy_(args[0])
            tensors = cuda_tensors(args, kwargs)
            device = torch.device(kwargs["device"]) if kwargs.get("device") else None
            if not tensors and (device is None or device.type != "cuda"):
                return self.on_the_host(func, args, kwargs)
            if func.overloadpacket is _aten.copy_:
                non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
                return self.copy(args[0], args[1], bool(non_blocking))
            if func.overloadpacket is _aten._foreach_copy_:  # torch's loop, where devices differ
                for target, source in zip(*args[:2], strict=True):
                    self.copy(target, source, bool(args[2:] and args[2]))
                return None
            if func.overloadpacket is _aten._to_copy:
                return self.to_copy(args[0], **kwargs)
            gpu = self.gpu_of(device) if device else tensors[0].gpu
            return self.compute(func, args, kwargs, tensors, gpu)

    def compute(
        self, func: Any, args: Args, kwargs: Kwargs, tensors: list[CudaTensor], gpu: Gpu
    ) -> Any:
        """What no copy is: done on the CPU, and a kernel unless it only looks at memory."""
        if _needs_the_host(func):
            self.answer(func, gpu)
        if kwargs.get("device") is not None:
            kwargs = {**kwargs, "device": "cpu", "pin_memory": False}
        host_args, host_kwargs = on_host((args, kwargs))
        if _writes_nothing(func) or _needs_the_host(func):
            return self.wrapped(func(*host_args, **host_kwargs), tensors, gpu)
        if self.capture is not None and func._schema.is_mutable:  # only its replays write
            result = host_kwargs.get("out", host_args[0])
        else:
            result = _result(func, host_args, host_kwargs)
        made = self.wrapped(result, tensors, gpu)

        def redo() -> None:
            again = _result(func, host_args, host_kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if old is not new:
                    old.copy_(new)

        moved_bytes = sum(tensor.nbytes for tensor in tensors + cuda_tensors(made))
        moved_s = moved_bytes / self.costs.memory_bytes_per_s
        computed_s = _flops(func, args) / self.costs.flops
        self.kernel(gpu, func._schema.name, max(moved_s, computed_s), redo)
        return made

    def on_the_host(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """An operation of the CPU, which may make pinned memory."""
        if not kwargs.get("pin_memory"):
            made = func(*args, **kwargs)
            if isinstance(made, torch.Tensor) and not _writes_nothing(func):
                self.now_s += made.nbytes / self.costs.host_bytes_per_s
            return made
        made = func(*args, **{**kwargs, "pin_memory": False})
        return self.pinned_like(made).copy_(made)

    def pinned_like(self, tensor: torch.Tensor) -> torch.Tensor:
        flat = self.pin(tensor.numel() * tensor.element_size())[: tensor.nbytes]
        return flat.view(tensor.dtype).view(tensor.size())

    def on_gpu(self, host: torch.Tensor, gpu: Gpu) -> CudaTensor:
        """A tensor with memory of its own."""
        return CudaTensor(host, self.allocate(gpu, host.nbytes), self)

    def wrapped(self, made: Any, tensors: list[CudaTensor], gpu: Gpu) -> Any:
        """Results: what was given, a view of it, or memory of its own."""
        by_storage = {each.host.untyped_storage().data_ptr(): each for each in tensors}

        def wrap(host: torch.Tensor) -> CudaTensor:
            given = next((each for each in tensors if each.host is host), None)
            owner = by_storage.get(host.untyped_storage().data_ptr())
            if given is not None:
                return given
            if owner is not None and host.numel():
                return CudaTensor(host, owner.block, self)
            return self.on_gpu(host, gpu)

        return tree_map_only(torch.Tensor, wrap, made)

    def kernel(
        self, gpu: Gpu, name: str, seconds: float = 0.0, redo: Callable[[], None] = lambda: None
    ) -> None:
        """On the current stream; `seconds` on top of the least that a kernel takes."""
        self.enqueue(gpu.queue, name, seconds + self.costs.kernel_s, "compute", redo=redo)

    def answer(self, func: Any, gpu: Gpu) -> None:
        """A kernel, a copy of the answer, and a wait; `item` is the copy alone."""
        if func.overloadpacket is not _aten._local_scalar_dense:
            self.kernel(gpu, func._schema.name)
        name = "Memcpy DtoH (Device -> Pageable)"
        self.enqueue(gpu.queue, name, self.costs.copy_s, "DtoH", 8)
        self.wait_queue(gpu.queue, "implicit")
        self.warn_of_wait()

    def warn_of_wait(self) -> None:
        """What torch says, if it shall, where it waits for a stream; of other waits it does not
        know (c10/cuda/CUDAFunctions.h)."""
        if self.sync_mode == 1:
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=2)

    def gpu_of(self, device: torch.device) -> Gpu:
        lazy_init: Callable[[], None] = torch.cuda._lazy_init
        lazy_init()
        return self.gpus[self.device if device.index is None else device.index]

    # ---- copies, by the rules of aten/src/ATen/native/cuda/Copy.cu

    def to_copy(
        self,
        source: torch.Tensor,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        **_: Any,
    ) -> torch.Tensor:
        """A new tensor; one on the host is pinned where the copy does not block."""
        device = torch.device(device or source.device)
        new = torch.empty_like(on_host(source), dtype=dtype or source.dtype)
        if device.type == "cuda":
            new = self.on_gpu(new, self.gpu_of(device))
        elif non_blocking:
            new = self.pinned_like(new)
        return self.copy(new, source, non_blocking)

    def copy(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> torch.Tensor:
        """Where at least one of them is on a GPU. Returns the target."""

        def move() -> None:
            on_host(target).copy_(on_host(source))

        if isinstance(target, CudaTensor) and isinstance(source, CudaTensor):
            self._between(target, source, move)
        elif target.numel():
            self._over_the_link(target, source, non_blocking, move)
        if self.capture is None:
            move()
        return target

    def _between(self, target: CudaTensor, source: CudaTensor, move: Callable[[], None]) -> None:
        """On one GPU, or from one to another: then both current streams take part."""
        costs, nbytes = self.costs, target.nbytes
        queue, other = source.gpu.queue, target.gpu.queue
        if source.gpu is not target.gpu:
            self.let_wait(queue, self.record(other))
            seconds = costs.copy_s + nbytes / costs.peer_bytes_per_s
            self.enqueue(queue, "Memcpy PtoP (Device -> Device)", seconds, "peer", nbytes, move)
            self.let_wait(other, self.record(queue))
            return
        is_plain = target.dtype == source.dtype and target.is_contiguous() == source.is_contiguous()
        seconds = costs.kernel_s + (nbytes + source.nbytes) / costs.memory_bytes_per_s
        what = "Memcpy DtoD (Device -> Device)" if is_plain else "copy"
        self.enqueue(queue, what, seconds, "compute", nbytes if is_plain else 0, move)

    def _over_the_link(
        self,
        target: torch.Tensor,
        source: torch.Tensor,
        non_blocking: bool,
        move: Callable[[], None],
    ) -> None:
        """A cast runs on the GPU where the copy does not block, and on the host where it does. What
        is not dense is gathered first, on its own side. What the host converts is pageable."""
        into = isinstance(target, CudaTensor)
        there, host = (target, source) if into else (source, target)
        assert isinstance(there, CudaTensor)
        gpu, costs, queue = there.gpu, self.costs, there.gpu.queue
        casts = target.dtype != source.dtype
        crossing = source if into == non_blocking else target  # before the cast or after it
        nbytes = target.numel() * crossing.element_size()
        if not there.is_contiguous() or (casts and non_blocking):
            self.kernel(gpu, "copy", there.nbytes / costs.memory_bytes_per_s)
        is_converted = not host.is_contiguous() or (casts and not non_blocking)
        if is_converted:
            self.now_s += host.nbytes / costs.host_bytes_per_s
        self.moved(gpu.index, nbytes if into else 0, 0 if into else nbytes)
        pinned = self.is_pinned(host) and not is_converted
        memory, way = "Pinned" if pinned else "Pageable", "HtoD" if into else "DtoH"
        what = f"Memcpy {way} ({f'{memory} -> Device' if into else f'Device -> {memory}'})"
        rate = costs.link_bytes_per_s if pinned else costs.pageable_bytes_per_s
        is_staged = not pinned and not (into and nbytes <= STAGED_BYTES)
        with self.span("cuda_runtime", "cudaMemcpyAsync"):
            if is_staged:
                self.wait_queue(queue, "implicit")
            self.enqueue(queue, what, costs.copy_s + nbytes / rate, way, nbytes, move)
            if is_staged and non_blocking and into:
                self.call(nbytes / rate)  # all is staged: the rest is on its way
            elif is_staged and non_blocking:
                self.wait_queue(queue, "implicit")
        if not non_blocking:
            self.wait_queue(queue, "implicit")
            self.warn_of_wait()


class Mode(TorchDispatchMode):
    """Sends every operation of this thread to one machine."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine


_mode: Any = Mode  # a method in the class's own text imports torch._dynamo
_mode.__torch_dispatch__ = lambda mode, func, types, args=(), kwargs=None: mode.machine.dispatch(
    func, args, kwargs
)


def on_host(values: Any) -> Any:
    """The same, with the CPU tensors behind those on a GPU. By hand, as below: arguments are plain
    lists and dicts, and torch's way takes as long as the operations."""
    if isinstance(values, CudaTensor):
        return values.host
    if isinstance(values, dict):
        return {name: on_host(value) for name, value in values.items()}
    return type(values)(map(on_host, values)) if isinstance(values, list | tuple) else values


def cuda_tensors(*values: Any) -> list[CudaTensor]:
    found: list[CudaTensor] = []
    for value in values:
        if isinstance(value, CudaTensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += cuda_tensors(*value)
        elif isinstance(value, dict):
            found += cuda_tensors(*value.values())
    return found


def _result(func: Any, args: Args, kwargs: Kwargs) -> Any:
    if _flops(func, args) > COMPUTED_FLOPS and func is _aten.mm.default:
        return torch.empty(args[0].size(0), args[1].size(1))
    return func(*args, **kwargs)


@cache
def _writes_nothing(func: Any) -> bool:
    """It returns other looks at what it was given, or memory as it is."""
    aliases = [each.alias_info for each in func._schema.returns]
    is_view = any(alias is not None and not alias.is_write for alias in aliases)
    return is_view or func._opname.removeprefix("new_").startswith("empty")


@cache
def _needs_the_host(func: Any) -> bool:
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))


def _flops(func: Any, args: Args) -> float:
    is_product = func.overloadpacket is _aten.mm
    return 2.0 * args[0].numel() * args[1].size(-1) if is_product else 0.0
