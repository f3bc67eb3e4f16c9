"""Tensors on the fake GPUs, and what an operation of torch does there.

A tensor on a GPU is a CPU tensor in a wrapper. A dispatch mode sees every operation of torch's core
(ATen) that has such a tensor, or such a device, in it: it is done on the CPU at once, and a kernel
or a copy is enqueued on the virtual clock. One whose answer the host needs (`item`, `equal`,
`nonzero`) waits for the stream, as CUDA's do.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from hostbench.core.units import KIB
from tests.fakes.fake_cuda.machine import Block, Gpu, Machine

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
    fake: "Floor"

    @staticmethod
    def __new__(cls, host: torch.Tensor, block: Block, floor: "Floor") -> "CudaTensor":
        self: CudaTensor = torch.Tensor._make_wrapper_subclass(
            cls,
            host.size(),
            strides=host.stride(),
            storage_offset=host.storage_offset(),
            dtype=host.dtype,
            device=torch.device("meta"),
        )
        self.host, self.block, self.fake = host, block, floor
        return self

    gpu = property(lambda self: self.block.gpu)
    device = property(lambda self: torch.device("cuda", self.gpu.index))
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    def get_device(self) -> int:
        return int(self.gpu.index)

    def data_ptr(self) -> int:
        return self.host.data_ptr()

    def record_stream(self, stream: Any) -> None:
        assert isinstance(stream, torch.cuda.Stream)
        self.fake.machine.call()

    def __format__(self, spec: str) -> str:
        """One number as torch formats it, which asks for its own type."""
        return format(self.item() if self.dim() == 0 else repr(self), spec)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Where no mode sees it first, as in a thread of autograd's."""
        some = next(each for each in tree_leaves((args, kwargs)) if isinstance(each, CudaTensor))
        return some.fake.dispatch(func, tuple(args), kwargs or {})


class Floor:
    """What an operation does on the GPUs of one machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._untold = 0

    def dispatch(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """One operation of ATen. As torch's bindings do (torch/csrc/Exceptions.h) it warns of a
        wait when it comes out of it."""
        with self.machine.span("cpu_op", _name(func)):
            result = self._dispatch(func, args, kwargs)
        self.warn_of_waits()
        return result

    def warn_of_waits(self) -> None:
        untold, self._untold = self._untold, 0
        for _ in range(untold):
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=2)

    def _dispatch(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        special = _SPECIAL.get(func.overloadpacket)
        if special is not None:
            return special(self, func, args, kwargs)
        tensors = _cuda_tensors(args, kwargs)
        device = kwargs.get("device")
        wanted = torch.device(device) if device is not None else None
        is_made_there = wanted is not None and wanted.type == "cuda"
        if not tensors and not is_made_there:
            return self.on_the_host(func, args, kwargs)
        gpu = self.gpu_of(wanted) if is_made_there and wanted else tensors[0].gpu
        if _needs_the_host(func):
            self.answer(func, gpu)
        if device is not None:
            kwargs = {**kwargs, "device": "cpu", "pin_memory": False}
        host_args, host_kwargs = _mapped(on_host, args), _mapped(on_host, kwargs)
        if _is_view(func) or _is_empty(func) or _needs_the_host(func):
            return self.wrapped(func(*host_args, **host_kwargs), tensors, gpu)
        if self.machine.capture is not None and func._schema.is_mutable:  # only its replays write
            result = host_kwargs.get("out", host_args[0])
        else:
            result = _result(func, host_args, host_kwargs)
        made = self.wrapped(result, tensors, gpu)

        def redo() -> None:
            again = _result(func, host_args, host_kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if old is not new:
                    old.copy_(new)

        outs = [each for each in tree_leaves(made) if isinstance(each, CudaTensor)]
        moved_s = sum(one.nbytes for one in tensors + outs) / self.machine.costs.memory_bytes_per_s
        seconds = max(moved_s, _flops(func, args) / self.machine.costs.flops)
        self.kernel(gpu, _name(func), seconds, redo)
        return made

    def on_the_host(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """An operation of the CPU, which may make pinned memory."""
        if not kwargs.get("pin_memory"):
            made = func(*args, **kwargs)
            if isinstance(made, torch.Tensor) and not (_is_view(func) or _is_empty(func)):
                self.machine.now_s += made.nbytes / self.machine.costs.host_bytes_per_s
            return made
        made = func(*args, **{**kwargs, "pin_memory": False})
        return self.pinned_like(made).copy_(made)

    def pinned_like(self, tensor: torch.Tensor) -> torch.Tensor:
        flat = self.machine.pin(tensor.numel() * tensor.element_size())[: tensor.nbytes]
        return flat.view(tensor.dtype).view(tensor.size())

    def new_like(self, tensor: torch.Tensor, dtype: torch.dtype, gpu: Gpu) -> CudaTensor:
        host = torch.empty_like(tensor, dtype=dtype)
        return CudaTensor(host, self.machine.allocate(gpu, host.nbytes), self)

    def wrapped(self, made: Any, tensors: list[CudaTensor], gpu: Gpu) -> Any:
        """Results: what was given, a view of it, or memory of its own."""
        by_storage = {each.host.untyped_storage().data_ptr(): each for each in tensors}

        def wrap(host: torch.Tensor) -> CudaTensor:
            given = next((each for each in tensors if each.host is host), None)
            if given is not None:
                return given
            owner = by_storage.get(host.untyped_storage().data_ptr())
            if owner is not None and host.numel():
                return CudaTensor(host, owner.block, self)
            return CudaTensor(host, self.machine.allocate(gpu, host.nbytes), self)

        return tree_map_only(torch.Tensor, wrap, made)

    def kernel(
        self, gpu: Gpu, name: str, seconds: float = 0.0, redo: Callable[[], None] = lambda: None
    ) -> None:
        """On the current stream; `seconds` on top of the least that a kernel takes."""
        seconds += self.machine.costs.kernel_s
        self.machine.enqueue(gpu.queue, name, seconds, "compute", redo=redo)

    def answer(self, func: Any, gpu: Gpu) -> None:
        """A kernel, a copy of the answer, and a wait; `item` is the copy alone."""
        self.tell_of_sync()
        if func.overloadpacket is not _aten._local_scalar_dense:
            self.kernel(gpu, _name(func))
        copy_s, name = self.machine.costs.copy_s, "Memcpy DtoH (Device -> Pageable)"
        self.machine.enqueue(gpu.queue, name, copy_s, "DtoH", 8)
        self.machine.wait_queue(gpu.queue, "implicit")

    def tell_of_sync(self) -> None:
        """What torch says, if it shall, where it waits for a stream; of other waits it does not
        know (c10/cuda/CUDAFunctions.h)."""
        self._untold += self.machine.sync_mode == 1

    def gpu_of(self, device: torch.device) -> Gpu:
        lazy_init: Callable[[], None] = torch.cuda._lazy_init
        lazy_init()
        index = self.machine.device if device.index is None else device.index
        if not 0 <= index < len(self.machine.gpus):
            raise self.machine.error("CUDA error: invalid device ordinal")
        return self.machine.gpus[index]

    # ---- copies, by the rules of aten/src/ATen/native/cuda/Copy.cu

    def copy(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool) -> None:
        """Where at least one of them is on a GPU."""

        def move() -> None:
            on_host(target).copy_(on_host(source))

        if isinstance(target, CudaTensor) and isinstance(source, CudaTensor):
            self._between(target, source, move)
        else:
            self._over_the_link(target, source, non_blocking, move)
        if self.machine.capture is None:
            move()

    def _between(self, target: CudaTensor, source: CudaTensor, move: Callable[[], None]) -> None:
        """On one GPU, or from one to another: then both current streams take part."""
        machine, costs, nbytes = self.machine, self.machine.costs, target.nbytes
        queue, other = source.gpu.queue, target.gpu.queue
        if source.gpu is not target.gpu:
            machine.let_wait(queue, machine.record(other))
            seconds = costs.copy_s + nbytes / costs.peer_bytes_per_s
            machine.enqueue(queue, "Memcpy PtoP (Device -> Device)", seconds, "peer", nbytes, move)
            machine.let_wait(other, machine.record(queue))
            return
        is_plain = target.dtype == source.dtype and target.is_contiguous() == source.is_contiguous()
        seconds = costs.kernel_s + (nbytes + source.nbytes) / costs.memory_bytes_per_s
        what = "Memcpy DtoD (Device -> Device)" if is_plain else "copy"
        machine.enqueue(queue, what, seconds, "compute", nbytes if is_plain else 0, move)

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
        machine, gpu, costs = self.machine, there.gpu, self.machine.costs
        casts = target.dtype != source.dtype
        sent = (source if non_blocking else target) if into else target if non_blocking else source
        nbytes = target.numel() * sent.element_size()
        if not nbytes:
            return
        if not there.is_contiguous() or (casts and non_blocking):
            self.kernel(gpu, "copy", there.nbytes / costs.memory_bytes_per_s)
        is_converted = not host.is_contiguous() or (casts and not non_blocking)
        if is_converted:
            machine.now_s += host.nbytes / costs.host_bytes_per_s
        if not non_blocking:
            self.tell_of_sync()
        machine.moved(gpu.index, nbytes if into else 0, 0 if into else nbytes)
        pinned, queue = machine.is_pinned(host) and not is_converted, gpu.queue
        memory, way = "Pinned" if pinned else "Pageable", "HtoD" if into else "DtoH"
        what = f"Memcpy {way} ({f'{memory} -> Device' if into else f'Device -> {memory}'})"
        rate = costs.link_bytes_per_s if pinned else costs.pageable_bytes_per_s
        seconds = costs.copy_s + nbytes / rate
        if pinned or (into and nbytes <= STAGED_BYTES):
            machine.enqueue(queue, what, seconds, way, nbytes, move)
            if not non_blocking:
                machine.wait_queue(queue, "implicit")
            return
        with machine.span("cuda_runtime", "cudaMemcpyAsync"):
            machine.wait_queue(queue, "implicit")
            machine.enqueue(queue, what, seconds, way, nbytes, move)
            if into and non_blocking:
                machine.call(seconds - costs.copy_s)  # all is staged: the rest is on its way
            elif non_blocking:
                machine.wait_queue(queue, "implicit")
        if not non_blocking:
            machine.wait_queue(queue, "implicit")


class Mode(TorchDispatchMode):
    """Sends every operation of this thread to one floor."""

    def __init__(self, floor: Floor) -> None:
        super().__init__()
        self.floor = floor


def _dispatch(self: Mode, func: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
    return self.floor.dispatch(func, tuple(args), kwargs or {})


_mode: Any = Mode
_mode.__torch_dispatch__ = _dispatch  # a method in the class's own text imports torch._dynamo


def _copy_(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> Any:
    target, source = args[:2]
    if not _cuda_tensors(args, {}):
        return floor.on_the_host(func, args, kwargs)
    non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
    floor.copy(target, source, bool(non_blocking))
    return target


def _to_copy(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> Any:
    (source,) = args
    dtype = kwargs.get("dtype") or source.dtype
    device = torch.device(kwargs["device"]) if kwargs.get("device") else source.device
    non_blocking = bool(kwargs.get("non_blocking"))
    if device.type == "cpu" and not isinstance(source, CudaTensor):
        return floor.on_the_host(func, args, kwargs)
    like = on_host(source)
    if device.type == "cuda":
        made: Any = floor.new_like(like, dtype, floor.gpu_of(device))
    elif non_blocking:
        made = floor.pinned_like(torch.empty_like(like, dtype=dtype))
    else:
        made = torch.empty_like(like, dtype=dtype)
    floor.copy(made, source, non_blocking)
    return made


def _is_pinned(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> bool:
    return not isinstance(args[0], CudaTensor) and floor.machine.is_pinned(args[0])


def _pin_memory(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> Any:
    floor.machine.now_s += args[0].nbytes / floor.machine.costs.host_bytes_per_s
    return floor.pinned_like(args[0]).copy_(args[0])


_SPECIAL: dict[Any, Callable[[Floor, Any, Args, Kwargs], Any]] = {
    _aten.copy_: _copy_,
    _aten._to_copy: _to_copy,
    _aten.is_pinned: _is_pinned,
    _aten._pin_memory: _pin_memory,
}


def on_host(each: Any) -> Any:
    """The CPU tensor behind a tensor on a GPU; anything else as it is."""
    return each.host if isinstance(each, CudaTensor) else each


def _result(func: Any, args: Args, kwargs: Kwargs) -> Any:
    if _flops(func, args) > COMPUTED_FLOPS and func is _aten.mm.default:
        return torch.empty(args[0].size(0), args[1].size(1))
    return func(*args, **kwargs)


def _cuda_tensors(args: Args, kwargs: Kwargs) -> list[CudaTensor]:
    return [each for each in _values(args, kwargs) if isinstance(each, CudaTensor)]


def _values(args: Args, kwargs: Kwargs) -> Iterator[Any]:
    """What was given, also in lists: an operation of ATen nests no deeper."""
    for each in (*args, *kwargs.values()):
        if isinstance(each, list | tuple):
            yield from each
        else:
            yield each


def _mapped(function: Callable[[Any], Any], each: Any) -> Any:
    if isinstance(each, list | tuple):
        return type(each)([_mapped(function, item) for item in each])
    if isinstance(each, dict):
        return {name: _mapped(function, item) for name, item in each.items()}
    return function(each)


def _name(func: Any) -> str:
    return str(func._schema.name)


@cache
def _is_view(func: Any) -> bool:
    """It returns other looks at what it was given."""
    aliases = (each.alias_info for each in func._schema.returns)
    return any(alias is not None and not alias.is_write for alias in aliases)


@cache
def _is_empty(func: Any) -> bool:
    return _name(func).removeprefix("aten::").removeprefix("new_").startswith("empty")


@cache
def _needs_the_host(func: Any) -> bool:
    return bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags))


def _flops(func: Any, args: Args) -> float:
    is_product = func.overloadpacket is _aten.mm
    return 2.0 * args[0].numel() * args[1].size(-1) if is_product else 0.0
