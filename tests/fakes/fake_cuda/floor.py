"""What an operation of torch does on the stand-in's GPUs: costs, enqueues, and waits for.

A dispatch mode sees every operation of torch's core (ATen) that has a tensor on a GPU, or such a
device, in it. A view is made at once. Any other operation is enqueued on the current stream and
done later; one whose answer the host needs (`item`, `equal`, `nonzero`) waits for the stream
first, as CUDA's do.
"""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

from hostbench.core.units import MIB
from tests.fakes.fake_cuda.compiler import no_compiler
from tests.fakes.fake_cuda.copies import copy
from tests.fakes.fake_cuda.gpu import Gpu
from tests.fakes.fake_cuda.memory import Backed, DeviceMemory, PinnedMemory
from tests.fakes.fake_cuda.tensors import (
    CudaTensor,
    Late,
    byte_range,
    on_host,
    reads,
    span,
    touched_bytes,
    writes,
)
from tests.fakes.fake_cuda.timeline import Machine

WORKSPACE_BYTES = 32 * MIB
"""Of cuBLAS on Hopper, for each stream that multiplies matrices."""

Args = tuple[Any, ...]
Kwargs = dict[str, Any]

_aten: Any = torch.ops.aten
_cuda: Any = torch.cuda
_PRODUCTS = {"aten::mm": 0, "aten::addmm": 1, "aten::bmm": 0, "aten::baddbmm": 1}
"""Which argument is the left matrix."""


class Floor:
    """Where tensors live: the memories of one machine, and what an operation does there."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        machine.behind_the_scenes = _disable_current_modes
        self.memories = [DeviceMemory(machine, gpu) for gpu in machine.gpus]
        self.pinned = PinnedMemory(machine)

    def dispatch(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """One operation of ATen."""
        with self.machine.operation(_name(func)):
            return self._dispatch(func, args, kwargs)

    def _dispatch(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        special = _SPECIAL.get(func.overloadpacket)
        if special is not None:
            return special(self, func, args, kwargs)
        there = _tensors(args, kwargs)
        device = kwargs.get("device")
        wanted = torch.device(device) if device is not None else None
        if not there and (wanted is None or wanted.type != "cuda"):
            return self.on_the_host(func, args, kwargs)
        if _is_made_of_others(func):
            with Mode(self):
                return func.decompose(*args, **kwargs)
        _check_one_device(there, args, kwargs)
        if there and _is_view(func):
            return self._view(func, args, kwargs, there[0])
        is_new = wanted is not None and wanted.type == "cuda"
        gpu = self._gpu_of(wanted) if is_new and wanted else there[0].gpu
        if _needs_the_host(func):
            return self._answer(func, args, kwargs, gpu)
        return self._enqueue(func, args, kwargs, gpu)

    def on_the_host(self, func: Any, args: Args, kwargs: Kwargs) -> Any:
        """An operation of the CPU: it may use pinned memory, which streams use too."""
        if kwargs.get("pin_memory"):
            made = self.new_pinned(func(*args, **{**kwargs, "pin_memory": False, "device": "meta"}))
            if not _is_empty(func):
                made.copy_(func(*args, **{**kwargs, "pin_memory": False}))
            return made
        for argument, each in _arguments(func, args, kwargs):
            if isinstance(each, torch.Tensor) and each.device.type == "cpu" and not _is_view(func):
                block = self.pinned_block(each)
                if block is not None:
                    block.touch_by_host(*byte_range(each), _is_written(argument))
                    block.holds = None if _is_written(argument) else block.holds
        made = func(*args, **kwargs)
        if isinstance(made, torch.Tensor) and not (_is_view(func) or _is_empty(func)):
            self.machine.work(touched_bytes(made))
        return made

    def new(self, like: torch.Tensor, gpu: Gpu) -> CudaTensor:
        """Uninitialized, of the shape, strides and type of `like`."""
        nbytes = span(like) * like.element_size()
        memory = self.memories[gpu.index]
        block = memory.allocate(nbytes)
        flat = block.handle(memory.freed)[:nbytes].view(like.dtype)
        host = flat.as_strided(like.size(), like.stride())
        return CudaTensor(host, block, gpu, self.dispatch)

    def new_pinned(self, like: torch.Tensor) -> torch.Tensor:
        nbytes = span(like) * like.element_size()
        flat = self.pinned.allocate(max(1, nbytes))[:nbytes].view(like.dtype)
        return flat.as_strided(like.size(), like.stride())

    def pinned_block(self, tensor: torch.Tensor) -> Backed | None:
        """Of a CPU tensor; None for pageable memory."""
        return self.pinned.block_of(tensor.untyped_storage().data_ptr())

    def kernel(
        self, gpu: Gpu, name: str, do: Callable[[], None] | None, touches: Any, seconds: float = 0.0
    ) -> None:
        """On the current stream; `seconds` on top of the least that a kernel takes."""
        seconds += self.machine.costs.kernel_s
        self.machine.enqueue(gpu.queue, f"kernel {name}", seconds, "compute", do, touches)

    def _gpu_of(self, device: torch.device) -> Gpu:
        _cuda._lazy_init()
        index = self.machine.device if device.index is None else device.index
        if not 0 <= index < len(self.machine.gpus):
            raise self.machine.error("CUDA error: invalid device ordinal")
        return self.machine.gpus[index]

    def _view(self, func: Any, args: Args, kwargs: Kwargs, of: CudaTensor) -> Any:
        def wrapped(each: torch.Tensor) -> torch.Tensor:
            if each.untyped_storage().data_ptr() != of.block.address:
                raise NotImplementedError(f"the stand-in for CUDA does not know {func}")
            return CudaTensor(each, of.block, of.gpu, self.dispatch)

        made = func(*_mapped(on_host, args), **_mapped(on_host, kwargs))
        return tree_map_only(torch.Tensor, wrapped, made)

    def _answer(self, func: Any, args: Args, kwargs: Kwargs, gpu: Gpu) -> Any:
        """The host needs it: a kernel, a copy of the answer, and a wait for the stream; `item` is
        the copy alone."""
        costs, there = self.machine.costs, _tensors(args, kwargs)
        self.machine.tell_of_sync()
        touches = reads(there)
        if func.overloadpacket is not _aten._local_scalar_dense:
            self.kernel(gpu, _name(func), None, touches)
            touches = []
        self.machine.enqueue(
            gpu.queue, "D2H pageable", costs.copy_s, "D2H", touches=touches, nbytes=8
        )
        self.machine.wait_queue(gpu.queue, "implicit")
        for each in there:
            each.block.pay()

        def there_again(each: torch.Tensor) -> torch.Tensor:
            made = self.new(each, gpu)
            made.host.copy_(each)
            return made

        answer = func(*_mapped(on_host, args), **_mapped(on_host, kwargs))
        return tree_map_only(torch.Tensor, there_again, answer)

    def _enqueue(self, func: Any, args: Args, kwargs: Kwargs, gpu: Gpu) -> Any:
        there = _tensors(args, kwargs)
        given = [
            each
            for argument, each in _arguments(func, args, kwargs)
            if _is_written(argument) and isinstance(each, CudaTensor)
        ]
        made: Any = given[0] if len(given) == 1 else tuple(given)
        if not given:
            with no_compiler():
                shapes = func(*_mapped(_meta, args), **_elsewhere(_mapped(_meta, kwargs), "meta"))
            made = tree_map_only(torch.Tensor, lambda each: self.new(each, gpu), shapes)
            if _is_empty(func):
                return made
        if _name(func) in _PRODUCTS:
            self._workspace(gpu)
        outs = [each for each in tree_leaves(made) if isinstance(each, CudaTensor)]
        seconds = _seconds(self.machine, func, args, [*there, *outs])
        self._do_later(func, args, kwargs, gpu, outs, bool(given), seconds)
        return made

    def _do_later(
        self,
        func: Any,
        args: Args,
        kwargs: Kwargs,
        gpu: Gpu,
        outs: list[CudaTensor],
        are_given: bool,
        seconds: float,
    ) -> None:
        there = _tensors(args, kwargs)
        later = _mapped(_late, (args, _elsewhere(kwargs, "cpu")))
        late_outs = [Late(each) for each in outs]
        is_made_from_nothing = not there and len(outs) == 1  # as random numbers are

        def do() -> None:
            if all(each.is_of_no_use(ticket) for each in late_outs):
                return  # dropped by all: a product of large matrices takes a CPU long
            if is_made_from_nothing:
                late_outs[0].block.owed = write
            else:
                write()

        def write() -> None:
            now_args, now_kwargs = _mapped(_now, later)
            result = func(*now_args, **now_kwargs)
            values = late_outs if are_given else tree_leaves(result)
            for late, value in zip(late_outs, values, strict=True):
                if not are_given:
                    late.now().copy_(value)
                late.written()

        self.kernel(gpu, _name(func), do, [*reads(there), *writes(outs)], seconds)
        ticket = gpu.queue.last

    def _workspace(self, gpu: Gpu) -> None:
        memory = self.memories[gpu.index]
        if gpu.queue not in memory.workspaces:
            shape = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="meta")
            memory.workspaces[gpu.queue] = self.new(shape, gpu)


class Mode(TorchDispatchMode):
    """Sends every operation of this thread to one floor."""

    def __init__(self, floor: Floor) -> None:
        super().__init__()
        self.floor = floor


def _dispatch(self: Mode, func: Any, types: Any, args: Args = (), kwargs: Any = None) -> Any:
    with self.floor.machine.lock:
        return self.floor.dispatch(func, tuple(args), kwargs or {})


_mode: Any = Mode
_mode.__torch_dispatch__ = _dispatch  # a method in the class's own text imports torch._dynamo


# ---- what is special --------------------------------------------------------------------------


def _copy_(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> Any:
    target, source = args[:2]
    non_blocking = kwargs.get("non_blocking", args[2] if len(args) > 2 else False)
    if not _tensors(args, {}):
        return floor.on_the_host(func, args, kwargs)
    with Mode(floor):  # what it needs on the way are operations too
        return copy(floor, target, source, bool(non_blocking))


def _to_copy(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> Any:
    (source,) = args
    dtype = kwargs.get("dtype") or source.dtype
    device = torch.device(kwargs["device"]) if kwargs.get("device") else source.device
    non_blocking = bool(kwargs.get("non_blocking"))
    if device.type == "cpu" and not isinstance(source, CudaTensor):
        return floor.on_the_host(func, args, kwargs)
    stride = torch.empty_like(on_host(source)).stride()  # for a meta tensor torch imports sympy
    with Mode(floor):
        made = torch.empty_strided(
            source.size(),
            stride,
            dtype=dtype,
            device=device,
            pin_memory=device.type == "cpu" and non_blocking,
        )
        return _aten.copy_(made, source, non_blocking)  # in C nobody sees who wraps Tensor.copy_


def _is_pinned(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> bool:
    return not isinstance(args[0], CudaTensor) and floor.pinned_block(args[0]) is not None


def _pin_memory(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> Any:
    source = args[0]
    if isinstance(source, CudaTensor):
        raise RuntimeError(f"cannot pin '{source.device}': only dense CPU tensors can be pinned")
    made = floor.new_pinned(source)
    with Mode(floor):
        return made.copy_(source)


def _assert_async(floor: Floor, func: Any, args: Args, kwargs: Kwargs) -> Any:
    tensor = args[0]
    if not isinstance(tensor, CudaTensor):
        return floor.on_the_host(func, args, kwargs)
    late, machine = Late(tensor), floor.machine

    def do() -> None:
        if not bool(late.now()):
            machine.sticky = "CUDA error: device-side assert triggered"

    floor.kernel(tensor.gpu, "_assert_async", do, reads([tensor]))
    return None


_SPECIAL: dict[Any, Callable[[Floor, Any, Args, Kwargs], Any]] = {
    _aten.copy_: _copy_,
    _aten._to_copy: _to_copy,
    _aten.is_pinned: _is_pinned,
    _aten._pin_memory: _pin_memory,
    _aten._assert_async: _assert_async,
}


# ---- about operations -------------------------------------------------------------------------


def _tensors(args: Args, kwargs: Kwargs) -> list[CudaTensor]:
    return [each for each in _values(args, kwargs) if isinstance(each, CudaTensor)]


def _values(args: Args, kwargs: Kwargs) -> Iterator[Any]:
    """What was given, also in lists: an operation of ATen nests no deeper. torch's pytree does the
    same in ten times the time."""
    for each in (*args, *kwargs.values()):
        if isinstance(each, list | tuple):
            yield from each
        else:
            yield each


def _mapped(function: Callable[[Any], Any], each: Any) -> Any:
    """Of arguments, or of results."""
    if isinstance(each, list | tuple):
        return type(each)([_mapped(function, item) for item in each])
    if isinstance(each, dict):
        return {name: _mapped(function, item) for name, item in each.items()}
    return function(each)


def _arguments(func: Any, args: Args, kwargs: Kwargs) -> Iterator[tuple[Any, Any]]:
    """(declaration, value) of each argument that was given."""
    declared = func._schema.arguments
    yield from zip(declared, args, strict=False)
    by_name = {argument.name: argument for argument in declared}
    yield from ((by_name[name], value) for name, value in kwargs.items())


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _name(func: Any) -> str:
    return str(func._schema.name)


@cache
def _is_made_of_others(func: Any) -> bool:
    """As `contiguous` is, which is a view or a copy."""
    key = "CompositeImplicitAutograd"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), key))


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


def _check_one_device(there: list[CudaTensor], args: Args, kwargs: Kwargs) -> None:
    """Raises as torch does for tensors on several devices; CPU tensors of one number are fine."""
    others = [
        each
        for each in _values(args, kwargs)
        if isinstance(each, torch.Tensor) and not isinstance(each, CudaTensor) and each.dim()
    ]
    devices = {str(each.device) for each in (*there, *others)}
    if there and len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            + " and ".join(sorted(devices))
        )


def _seconds(machine: Machine, func: Any, args: Args, used: list[CudaTensor]) -> float:
    """By the bytes that are read and written, or by the arithmetic of a product."""
    moved_s = sum(each.nbytes for each in used) / machine.costs.memory_bytes_per_s
    at = _PRODUCTS.get(_name(func))
    if at is None:
        return moved_s
    left, right = args[at : at + 2]
    return float(max(moved_s, 2.0 * left.numel() * right.size(-1) / machine.costs.flops))


def _meta(each: Any) -> Any:
    if not isinstance(each, torch.Tensor):
        return each
    return torch.empty_strided(each.size(), each.stride(), dtype=each.dtype, device="meta")


def _elsewhere(kwargs: Kwargs, device: str) -> Kwargs:
    return {**kwargs, "device": device} if kwargs.get("device") is not None else kwargs


def _late(each: Any) -> Any:
    if isinstance(each, CudaTensor):
        return Late(each)
    return each.clone() if isinstance(each, torch.Tensor) else each


def _now(each: Any) -> Any:
    return each.now() if isinstance(each, Late) else each
