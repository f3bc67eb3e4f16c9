"""What torch's own Python of `torch.cuda` calls: the C functions that a CPU build lacks.

Nothing of `torch.cuda` is replaced but its floor (`torch._C._cuda_*`), so that every call of
hostbench goes through torch's real signatures and checks.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tests.fakes.fake_cuda import profiler
from tests.fakes.fake_cuda.floor import Floor, Mode
from tests.fakes.fake_cuda.gpu import Mark, Queue
from tests.fakes.fake_cuda.ranks import Nccl
from tests.fakes.fake_cuda.tensors import CudaTensor
from tests.fakes.fake_cuda.timeline import Capture, Machine

CUDA_VERSION = "12.8"
_CUDA_TYPE = 1
"""torch's DeviceType of CUDA."""
_HANDLES = 0x1000

_torch: Any = torch


class StreamBase:
    """`torch._C._CudaStreamBase`: torch's own Stream class is built on it."""

    machine: Machine
    queue: Queue

    def __new__(
        cls,
        priority: int = 0,
        stream_id: int = 0,
        device_index: int = 0,
        device_type: int = 0,
        stream_ptr: int = 0,
    ) -> Any:
        self: Any = object.__new__(cls)
        if device_type:
            self.queue = cls.machine.gpus[device_index].queues[stream_id]
        else:
            cls.machine.call()
            self.queue = cls.machine.gpus[cls.machine.device].new_queue()
        return self

    @property
    def device(self) -> torch.device:
        return torch.device("cuda", self.queue.gpu.index)

    @property
    def cuda_stream(self) -> int:
        """0 for the default stream, as in CUDA."""
        queue = self.queue
        return queue.number and _HANDLES * (queue.gpu.index + 1) + queue.number

    @property
    def stream_id(self) -> int:
        return self.queue.number

    @property
    def device_index(self) -> int:
        return self.queue.gpu.index

    @property
    def device_type(self) -> int:
        return _CUDA_TYPE

    def query(self) -> bool:
        return self.machine.ask(self.queue.free_s, self.queue.all_known(), "cudaStreamQuery")

    def synchronize(self) -> None:
        with self.machine.operation("Stream.synchronize"):
            self.machine.tell_of_sync()
            self.machine.wait_queue(self.queue)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StreamBase) and other.queue is self.queue

    def __hash__(self) -> int:
        return hash(self.queue)


class EventBase:
    """`torch._C._CudaEventBase`."""

    machine: Machine
    mark: Mark | None
    queue: Queue
    enable_timing: bool

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
    ) -> Any:
        self: Any = object.__new__(cls)
        self.enable_timing, self.mark = enable_timing, None
        return self

    @property
    def cuda_event(self) -> int:
        return 0 if self.mark is None else id(self)

    def record(self, stream: Any) -> None:
        """Raises as torch does on another GPU than the first time."""
        gpu = stream.queue.gpu
        if self.mark is not None and self.queue.gpu is not gpu:
            raise RuntimeError(
                f"Event device {self.queue.gpu.index} does not match recording stream's device "
                f"{gpu.index}."
            )
        self.queue = stream.queue
        self.mark = self.machine.record(stream.queue)

    def wait(self, stream: Any) -> None:
        """Of an event that was never recorded: nothing."""
        if self.mark is not None:
            self.machine.let_wait(stream.queue, self.mark)

    def query(self) -> bool:
        return self.mark is None or self.machine.ask(self.mark.at_s, self.mark.known)

    def synchronize(self) -> None:
        if self.mark is not None:
            self.machine.wait_mark(self.mark, self.queue.gpu)

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds. Raises as torch does."""
        if not (self.enable_timing and end.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.mark is None or end.mark is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end.query()):
            raise ValueError("Both events must be completed before calculating elapsed time.")
        return float(end.mark.at_s - self.mark.at_s) * 1e3


class GraphBase:
    """`torch._C._CUDAGraph`, of one stream."""

    floor: Floor
    capture: Capture | None

    def __new__(cls, keep_graph: bool = False) -> Any:
        self: Any = object.__new__(cls)
        self.capture = None
        return self

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Raises as torch does on the default stream."""
        machine = self.floor.machine
        queue = machine.gpus[machine.device].queue
        if queue.number == 0:
            raise RuntimeError("CUDA graphs must be captured on a non-default stream.")
        self.capture = machine.capture = Capture(queue)

    def capture_end(self) -> None:
        self.floor.machine.capture = None

    def replay(self) -> None:
        """On the GPU that it was captured on, whichever is current. Raises as torch does before
        there is a graph."""
        if self.capture is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        self.floor.machine.replay(self.capture, self.capture.queue.gpu.queue)

    def reset(self) -> None:
        capture, self.capture = self.capture, None
        if capture is not None:
            self.floor.memories[capture.queue.gpu.index].give_up(capture)

    def __del__(self) -> None:
        self.reset()


@contextmanager
def installed(machine: Machine, *, cuda: str | None = CUDA_VERSION) -> Iterator[Floor]:
    """`torch.cuda` of this process and thread on that machine, until the block ends."""
    floor = Floor(machine)
    accelerator_error = getattr(_torch, "AcceleratorError", RuntimeError)
    machine.error = accelerator_error
    with ExitStack() as stack:
        # Real work is spread over many small operations: sharing each out among all cores costs
        # more than it saves, and much more where a core is busy.
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)

        def put(owner: Any, **values: Any) -> None:
            for name, value in values.items():
                stack.enter_context(mock.patch.object(owner, name, value, create=True))

        stream = type("StreamBase", (StreamBase,), {"machine": machine})
        event = type("EventBase", (EventBase,), {"machine": machine})
        graph = type("GraphBase", (GraphBase,), {"floor": floor})
        for ours, theirs in (
            (stream, _torch.cuda.Stream),
            (event, _torch.cuda.Event),
            (graph, _torch.cuda.CUDAGraph),
        ):
            stack.callback(setattr, theirs, "__bases__", theirs.__bases__)
            theirs.__bases__ = (ours,)
        functions = _Core(machine, floor).functions()
        put(_torch._C, **functions)
        put(
            _torch.cuda,
            _exchange_device=functions["_cuda_exchangeDevice"],
            _maybe_exchange_device=functions["_cuda_maybeExchangeDevice"],
        )
        put(_torch.version, cuda=cuda)
        put(_torch.cuda, **_state(machine, floor))
        if hasattr(_torch.accelerator, "Graph"):  # that of CUDA is torch.cuda's own
            stack.callback(setattr, _torch.accelerator, "Graph", _torch.accelerator.Graph)
            del _torch.accelerator.Graph
        put(_torch.Tensor, to=_to(machine, _torch.Tensor.to), cuda=_cuda(machine))
        put(_torch.Tensor, tolist=_tolist(_torch.Tensor.tolist))
        put(_torch.Tensor, pin_memory=_pin_memory(floor, _torch.Tensor.pin_memory))
        put(_torch.profiler, **(profiled := profiler.of(machine)))
        put(_torch.autograd.profiler, record_function=profiled["record_function"])
        Nccl(floor).install(put)
        stack.enter_context(Mode(floor))
        yield floor


class _Core:
    """The functions of `torch._C`, by what stands behind `_cuda_` in their names."""

    def __init__(self, machine: Machine, floor: Floor) -> None:
        self._machine, self._floor = machine, floor

    def functions(self) -> dict[str, Any]:
        ours = {f"_cuda_{name}": getattr(self, name) for name in dir(self) if name[0] != "_"}
        pinned = self._floor.pinned
        return {
            **ours,
            "_has_cuda": True,
            "_host_emptyCache": pinned.empty_cache,
            "_accelerator_emptyHostCache": pinned.empty_cache,
            "_accelerator_getAccelerator": lambda: torch.device("cuda"),
            "_accelerator_getDeviceIndex": self.getDevice,
            "_accelerator_setDeviceIndex": self.setDevice,
            "_nccl_version": lambda: 2 << 32 | 29 << 16 | 7,
            "_nccl_version_suffix": lambda: b"",
        }

    def init(self) -> None:
        if self._machine.broken or not self.getDeviceCount():
            raise RuntimeError(self._machine.broken or "No CUDA GPUs are available")
        self._machine.process = os.getpid()
        self._machine.call(self._machine.costs.allocate_s)

    def getDeviceCount(self) -> int:
        has_none = self._machine.broken or self._machine.are_lost()
        return 0 if has_none else len(self._machine.gpus)

    def getArchFlags(self) -> str:
        return "sm_90"

    def getDevice(self) -> int:
        return self._machine.device

    def setDevice(self, index: int) -> None:
        self._machine.call()
        if not 0 <= index < len(self._machine.gpus):
            raise self._machine.error("CUDA error: invalid device ordinal")
        self._machine.device = index

    def exchangeDevice(self, index: int) -> int:
        before = self._machine.device
        if index >= 0 and index != before:
            self.setDevice(index)
        return before

    def maybeExchangeDevice(self, index: int) -> int:
        return self.exchangeDevice(index)

    def canDeviceAccessPeer(self, here: int, there: int) -> bool:
        return not self._machine.refusals.peers

    def synchronize(self) -> None:
        self._machine.wait_device(self._machine.gpus[self._machine.device])

    def getCurrentStream(self, index: int) -> tuple[int, int, int]:
        return self._machine.gpus[index].current, index, _CUDA_TYPE

    def getCurrentRawStream(self, index: int) -> int:
        return self._machine.gpus[index].current

    def getDefaultStream(self, index: int) -> tuple[int, int, int]:
        return 0, index, _CUDA_TYPE

    def setStream(self, *, stream_id: int, device_index: int, device_type: int) -> None:
        self.setDevice(device_index)
        self._machine.gpus[device_index].current = stream_id

    def set_sync_debug_mode(self, mode: int) -> None:
        if mode:
            warnings.warn(
                "Synchronization debug mode is a prototype feature and does not yet detect all "
                "synchronizing operations",
                UserWarning,
                stacklevel=2,
            )
        self._machine.sync_mode = mode

    def get_sync_debug_mode(self) -> int:
        return self._machine.sync_mode

    def isCurrentStreamCapturing(self) -> bool:
        return self._machine.capture is not None

    def sleep(self, cycles: int) -> None:
        queue = self._machine.gpus[self._machine.device].queue
        self._machine.enqueue(queue, "kernel spin_kernel", cycles / self._machine.costs.sm_hz)

    def emptyCache(self) -> None:
        self._machine.call()
        for memory in self._floor.memories:
            memory.empty_cache()

    def clearCublasWorkspaces(self) -> None:
        for memory in self._floor.memories:
            memory.workspaces.clear()

    def getAllocatorBackend(self) -> str:
        return self._floor.memories[0].segments.settings.backend

    def setMemoryFraction(self, fraction: float, device: int) -> None:
        self._floor.memories[device].limit(fraction)

    def memoryStats(self, device: int) -> dict[str, Any]:
        memory = self._floor.memories[device]
        stats = memory.stats + memory.segments.stats
        bytes_of = ("allocated", "active", "requested", "reserved", "inactive_split")
        counts = ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free")
        return {
            f"{name}_bytes": {"all": {"current": stats[name], "peak": stats[f"peak_{name}"]}}
            for name in bytes_of
        } | {name: stats[name] for name in counts}

    def resetPeakMemoryStats(self, device: int) -> None:
        self._floor.memories[device].reset_peaks()

    def hostMemoryStats(self) -> dict[str, Any]:
        return {"allocated_bytes": {"current": self._floor.pinned.stats["allocated"]}}


def _state(machine: Machine, floor: Floor) -> dict[str, Any]:
    """What `torch.cuda` holds itself, as after an import on such a machine. A process that was
    forked after CUDA had started cannot use it."""

    def is_in_bad_fork() -> bool:
        return machine.process not in (None, os.getpid())

    return {
        "_initialized": False,
        "_queued_calls": [],
        "_cached_device_count": None,
        "_is_in_bad_fork": is_in_bad_fork,
        "_device_count_nvml": lambda: -1,
        # To be seeded; the numbers themselves are drawn on the host, from torch's own.
        "default_generators": tuple(_torch.Generator() for _ in machine.gpus),
        "_cudart": SimpleNamespace(
            cudaHostRegister=lambda ptr, size, flags: floor.pinned.register(ptr, size),
            cudaHostUnregister=lambda ptr: floor.pinned.unregister(ptr),
        ),
        "_get_device_properties": lambda index: _properties(machine, index),
    }


def _properties(machine: Machine, index: int) -> SimpleNamespace:
    return SimpleNamespace(
        name=machine.name,
        uuid=machine.gpus[index].uuid,
        total_memory=machine.memory_bytes,
        major=9,
        minor=0,
        multi_processor_count=132,
        pci_domain_id=0,
        pci_bus_id=0x18 + index,
        pci_device_id=0,
    )


def _to(machine: Machine, real: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`Tensor.to`, which asks the device of a tensor in C."""

    def to(self: torch.Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> torch.Tensor:
        device, dtype, non_blocking, _ = _torch._C._nn._parse_to(*args, **kwargs)
        if not isinstance(self, CudaTensor) and (device is None or device.type != "cuda"):
            return real(self, *args, copy=copy, **kwargs)
        device, dtype = device or self.device, dtype or self.dtype
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", machine.device)
        if (device, dtype) == (self.device, self.dtype) and not copy:
            return self
        if device.type == "cuda":
            _torch.cuda._lazy_init()
        made: torch.Tensor = torch.ops.aten._to_copy.default(
            self, dtype=dtype, device=device, non_blocking=non_blocking
        )
        return made

    return to


def _tolist(real: Callable[..., Any]) -> Callable[..., Any]:
    """`Tensor.tolist`, which torch refuses to subclasses: a copy to the host, as in C."""

    def tolist(self: torch.Tensor) -> Any:
        return real(self.cpu() if isinstance(self, CudaTensor) else self)

    return tolist


def _cuda(machine: Machine) -> Callable[..., torch.Tensor]:
    def cuda(self: torch.Tensor, device: Any = None, non_blocking: bool = False) -> torch.Tensor:
        where = torch.device("cuda", machine.device if device is None else device)
        return self.to(where, non_blocking=non_blocking)

    return cuda


def _pin_memory(floor: Floor, real: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """`Tensor.pin_memory`, also in a thread that has no mode of its own, as a DataLoader's."""

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        if _get_current_dispatch_mode() is not None:
            return real(self)
        with Mode(floor):
            return real(self)

    return pin_memory
