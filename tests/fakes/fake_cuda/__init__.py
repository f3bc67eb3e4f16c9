"""`torch.cuda` where there is no GPU, so that the code for CUDA runs: `with cuda_machine(2): ...`.

Nothing of `torch.cuda` is replaced but its floor (`torch._C._cuda_*`), so that every call goes
through torch's real signatures and checks. Streams, events, pinned memory and refusals follow
CUDA's rules on a virtual clock; memory is counted and not packed; the profiler lists what was
enqueued; the sums of nccl are gloo's.
"""

import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.utils._python_dispatch import _get_current_dispatch_mode

from hostbench.core.units import MIB
from hostbench.device import cuda as cuda_device
from hostbench.device.cuda import CudaDevice
from hostbench.facts.nvml import open_nvml
from tests.fakes.fake_cuda.hardware import Cache, Costs, Event, Gpu, Node, Queue
from tests.fakes.fake_cuda.tensors import CudaTensor, Machine, Mode
from tests.fakes.fake_nvml import FakeGpu, FakeNvml

__all__ = ["Costs", "CudaTensor", "Machine", "cuda_machine"]

_torch: Any = torch
_CUDA_TYPE = 1
"""torch's DeviceType of CUDA."""


@contextmanager
def cuda_machine(num_gpus: int = 1, nvml: FakeNvml | None = None, **of: Any) -> Iterator[Machine]:
    """`torch.cuda` of this process and thread, NVML and the device's clock of such a machine, until
    the block ends; `of` are fields of Machine."""
    error = getattr(_torch, "AcceleratorError", RuntimeError)
    machine = Machine(num_gpus=num_gpus, error=error, **of)
    counting = nvml or FakeNvml(gpus=tuple(FakeGpu(uuid=f"GPU-{gpu.uuid}") for gpu in machine.gpus))
    machine.moved = lambda gpu, into, out_of: counting.copy(into, out_of, gpu)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        # Sharing out many small operations among busy cores costs more than it saves.
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)

        def put(owner: Any, **values: Any) -> None:
            for name, value in values.items():
                patch.setattr(owner, name, value, raising=False)

        bases = (
            ("_CudaStreamBase", _StreamBase),
            ("_CudaEventBase", _EventBase),
            ("_CUDAGraph", _GraphBase),
        )
        put(_torch._C, **{n: type(n, (own,), {"machine": machine}) for n, own in bases})
        put(_torch.cuda, **_built_on_these_bases())
        patch.setitem(sys.modules, "pynvml", counting)
        open_nvml.cache_clear()
        stack.callback(open_nvml.cache_clear)
        put(CudaDevice, now=lambda self: machine.now_s)
        put(cuda_device, _SETTLE_BYTES=MIB, _SETTLE_LEAST_S=0.02)
        core = _core(machine)
        put(
            _torch._C,
            **{f"_cuda_{name}": function for name, function in core.items()},
            _has_cuda=True,
            _host_emptyCache=machine.pinned.kept.clear,
            _accelerator_emptyHostCache=machine.pinned.kept.clear,
            _accelerator_getAccelerator=lambda: torch.device("cuda"),
            _accelerator_getDeviceIndex=core["getDevice"],
            _accelerator_setDeviceIndex=core["setDevice"],
        )
        put(
            _torch.cuda,
            _exchange_device=core["exchangeDevice"],
            _maybe_exchange_device=core["exchangeDevice"],
            _initialized=False,
            _queued_calls=[],
            _cached_device_count=None,
            _is_in_bad_fork=lambda: False,
            _device_count_nvml=lambda: -1,
            # To be seeded; the numbers themselves are drawn from those of the CPU.
            default_generators=tuple(_torch.Generator() for _ in machine.gpus),
            _cudart=SimpleNamespace(
                cudaHostRegister=lambda address, size, flags: machine.register(address, size),
                cudaHostUnregister=machine.unregister,
            ),
            _get_device_properties=lambda index: _properties(machine, index),
        )
        put(_torch.version, cuda="12.8")
        patch.delattr(_torch.accelerator, "Graph", raising=False)  # CUDA's is torch.cuda's own
        put(_torch.Tensor, **_methods(machine))
        annotated = partial(machine.span, "user_annotation")
        put(_torch.autograd.profiler, record_function=annotated)
        put(_torch.profiler, record_function=annotated, profile=lambda **_: _Profile(machine))
        put(dist, **_nccl(machine))
        with Mode(machine):
            yield machine


def _built_on_these_bases() -> dict[str, Any]:
    """Name -> class of torch's own, made again: in a build for CUDA theirs are built on C's."""
    classes = dict[str, Any]()
    for name, wanted in {"streams": ("Stream", "Event"), "graphs": ("CUDAGraph", "graph")}.items():
        spec = importlib.util.find_spec(f"torch.cuda.{name}")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        classes |= {own: getattr(module, own) for own in wanted}
    return classes


class _StreamBase:
    """`torch._C._CudaStreamBase`: torch's own Stream class is built on it."""

    machine: Machine
    queue: Queue

    def __new__(
        cls, *_: Any, stream_id: int = 0, device_index: int = 0, device_type: int = 0, **more: Any
    ) -> Any:
        self: Any = object.__new__(cls)
        if device_type:
            self.queue = cls.machine.gpus[device_index].queues[stream_id]
        else:
            self.queue = cls.machine.gpus[cls.machine.device].next_queue()
        self.cuda_stream = self.stream_id = self.queue.number
        self.device_index, self.device_type = self.queue.gpu.index, _CUDA_TYPE
        self.device = torch.device("cuda", self.queue.gpu.index)
        return self

    def synchronize(self) -> None:
        with self.machine.span("cpu_op", "Stream.synchronize"):
            self.machine.wait_queue(self.queue)
        self.machine.warn_of_wait()


class _EventBase:
    """`torch._C._CudaEventBase`."""

    machine: Machine
    enable_timing: bool
    at_s = 0.0
    """Of an event that was never recorded: over."""
    gpu: Gpu

    def __new__(cls, enable_timing: bool = False, **_: bool) -> Any:
        self: Any = object.__new__(cls)
        self.enable_timing, self.gpu = enable_timing, cls.machine.gpus[cls.machine.device]
        return self

    def record(self, stream: Any) -> None:
        self.gpu, self.at_s = stream.queue.gpu, self.machine.record(stream.queue)

    def wait(self, stream: Any) -> None:
        self.machine.let_wait(stream.queue, self.at_s)

    def query(self) -> bool:
        self.machine.call()
        return self.at_s <= self.machine.now_s

    def synchronize(self) -> None:
        if self.at_s:
            self.machine.wait_until(self.at_s, self.gpu, "event", "cudaEventSynchronize")

    def elapsed_time(self, end: Any) -> float:
        """Milliseconds."""
        assert self.enable_timing and end.enable_timing and self.query() and end.query()
        return float(end.at_s - self.at_s) * 1e3


class _GraphBase:
    """`torch._C._CUDAGraph`, of one stream."""

    machine: Machine
    nodes: list[Node]
    queue: Queue | None

    def __new__(cls, keep_graph: bool = False) -> Any:
        self: Any = object.__new__(cls)
        self.nodes, self.queue = [], None
        return self

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        self.queue = self.machine.gpus[self.machine.device].queue
        assert self.queue.number, "CUDA graphs must be captured on a non-default stream."
        self.machine.capture = self.nodes

    def capture_end(self) -> None:
        self.machine.capture = None

    def replay(self) -> None:
        """On the GPU that it was captured on, whichever is current."""
        assert self.queue is not None, "nothing was captured"
        self.machine.replay(self.queue.gpu.queue, self.nodes)

    def reset(self) -> None:
        self.nodes, self.queue = [], None


def _core(machine: Machine) -> dict[str, Callable[..., Any]]:
    """The functions of `torch._C`, by what stands behind `_cuda_` in their names."""
    gpus = machine.gpus

    def init() -> None:
        if not gpus:
            raise RuntimeError("No CUDA GPUs are available")
        machine.call(machine.costs.allocate_s)

    def set_device(index: int) -> None:
        machine.call()
        machine.device = index

    def exchange_device(index: int) -> int:
        before = machine.device
        if index >= 0 and index != before:
            set_device(index)
        return before

    def set_stream(*, stream_id: int, device_index: int, device_type: int) -> None:
        set_device(device_index)
        gpus[device_index].current = stream_id

    def set_sync_debug_mode(mode: int) -> None:
        if mode:
            warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)
        machine.sync_mode = mode

    return {
        "init": init,
        "getDeviceCount": lambda: len(gpus),
        "getDevice": lambda: machine.device,
        "setDevice": set_device,
        "exchangeDevice": exchange_device,
        "canDeviceAccessPeer": lambda here, there: "peers" not in machine.refuses,
        "synchronize": lambda: machine.wait_device(gpus[machine.device]),
        "getCurrentStream": lambda index: (gpus[index].current, index, _CUDA_TYPE),
        "setStream": set_stream,
        "set_sync_debug_mode": set_sync_debug_mode,
        "get_sync_debug_mode": lambda: machine.sync_mode,
        "sleep": machine.sleep,
        "emptyCache": machine.empty_cache,
        "clearCublasWorkspaces": machine.call,
        "getAllocatorBackend": lambda: "native",
        "setMemoryFraction": lambda fraction, device: setattr(gpus[device], "limit", fraction),
        "hostMemoryStats": lambda: {"allocated_bytes": {"current": machine.pinned.reserved}},
        "memoryStats": lambda device: _memory_stats(gpus[device].memory),
        "resetPeakMemoryStats": lambda device: gpus[device].memory.reset_peaks(),
    }


def _memory_stats(memory: Cache) -> dict[str, Any]:
    """Nothing is packed, and no retry is ever made."""
    return {
        "allocated_bytes": {"all": {"current": memory.used, "peak": memory.peak_used}},
        "reserved_bytes": {"all": {"current": memory.reserved, "peak": memory.peak_reserved}},
        "num_alloc_retries": 0,
    }


def _properties(machine: Machine, index: int) -> SimpleNamespace:
    return SimpleNamespace(
        name="NVIDIA H200 (fake)",
        uuid=machine.gpus[index].uuid,
        major=9,
        minor=0,
        pci_domain_id=0,
        pci_bus_id=0x18 + index,
        pci_device_id=0,
        total_memory=machine.memory_bytes,
    )


def _methods(machine: Machine) -> dict[str, Callable[..., Any]]:
    """Of `torch.Tensor`: those that ask the device of a tensor in C."""
    real_to, real_tolist = _torch.Tensor.to, _torch.Tensor.tolist
    real_pin: Callable[..., torch.Tensor] = _torch.Tensor.pin_memory

    def to(self: torch.Tensor, *args: Any, copy: bool = False, **kwargs: Any) -> Any:
        device, dtype, non_blocking, _ = _torch._C._nn._parse_to(*args, **kwargs)
        if not isinstance(self, CudaTensor) and (device is None or device.type != "cuda"):
            return real_to(self, *args, copy=copy, **kwargs)
        device, dtype = device or self.device, dtype or self.dtype
        if device.type == "cuda":
            device = torch.device("cuda", machine.gpu_of(device).index)
        if (device, dtype) == (self.device, self.dtype) and not copy:
            return self
        return torch.ops.aten._to_copy.default(
            self, dtype=dtype, device=device, non_blocking=non_blocking
        )

    def tolist(self: torch.Tensor) -> Any:
        return real_tolist(self.cpu() if isinstance(self, CudaTensor) else self)

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        """Also in a thread that has no mode of its own, as a DataLoader's."""
        if _get_current_dispatch_mode() is not None:
            return real_pin(self)
        with Mode(machine):
            return real_pin(self)

    return {"to": to, "tolist": tolist, "pin_memory": pin_memory}


# ---- the profiler, and nccl


class _Profile:
    """Of `torch.profiler.profile` what hostbench uses: a Chrome trace of the machine's log."""

    def __init__(self, machine: Machine) -> None:
        self._machine, self._events = machine, list[Event]()

    def prepare_trace(self) -> None:
        """As of a warm-up: it is quick here."""

    def start_trace(self) -> "_Profile":
        self._begin = len(self._machine.log)
        return self

    def stop_trace(self, *_: object) -> None:
        self._events = self._machine.log[self._begin :]

    __enter__, __exit__ = start_trace, stop_trace

    def export_chrome_trace(self, path: str) -> None:
        seen = [] if "profiler" in self._machine.refuses else self._events
        Path(path).write_text(json.dumps({"traceEvents": [_chrome(event) for event in seen]}))


def _chrome(event: Event) -> dict[str, Any]:
    """Kineto's clock has nanoseconds; it writes microseconds."""
    start_ns, end_ns = round(event.start_s * 1e9), round(event.end_s * 1e9)
    args: dict[str, Any] = {"correlation": event.call}
    if event.queue is not None:
        args |= {"device": event.queue.gpu.index, "stream": event.queue.number}
    if event.category == "gpu_memcpy":
        args["bytes"] = event.nbytes
    return {
        "ph": "X",
        "cat": event.category,
        "name": event.name,
        "args": args,
        "ts": start_ns / 1e3,
        "dur": (end_ns - start_ns) / 1e3,
        "pid": args.get("device", 1),
        "tid": args.get("stream", event.thread),
    }


def _nccl(machine: Machine) -> dict[str, Callable[..., Any]]:
    """A collective runs on a stream of nccl's own, which the current stream waits for; the host
    does not. gloo carries the data."""
    join, all_reduce = dist.init_process_group, dist.all_reduce

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        device = kwargs.pop("device_id", None)
        assert backend != "nccl" or device.type == "cuda"
        join("gloo" if backend == "nccl" else backend, *args, **kwargs)

    def summed(tensor: CudaTensor, *args: Any) -> None:
        comms, costs = tensor.gpu.queues[-1], machine.costs
        machine.let_wait(comms, machine.record(tensor.gpu.queue))
        seconds = costs.collective_s + 2 * tensor.nbytes / costs.peer_bytes_per_s
        machine.enqueue(comms, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", seconds)
        all_reduce(tensor.host, *args)
        machine.let_wait(tensor.gpu.queue, machine.record(comms))

    return {
        "init_process_group": init_process_group,
        "all_reduce": summed,
        "is_nccl_available": lambda: True,
    }
