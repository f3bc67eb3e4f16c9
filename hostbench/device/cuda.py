"""The cuda device: torch streams, events, the caching and the pinned allocator. The real thing.

Facts to know when reading numbers: pinned blocks are rounded up to powers of two and cached;
streams come from a pool of 32; `compute` multiplies matrices that fill the device, `delay` spins on
the SM clock in one block; the first of each calibrates and therefore waits for the device.
"""

import contextlib
import gc
import json
import os
import re
import weakref
from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import torch

from hostbench.core.errors import BrokenError, Unavailable
from hostbench.core.samples import median
from hostbench.core.units import KIB, MIB, format_bytes
from hostbench.device import chrome, numa
from hostbench.device.activity import Observation
from hostbench.device.base import Buffer, Route, Step, lacking
from hostbench.device.torch_device import TorchDevice, chrome_trace, own_pages, profiler
from hostbench.facts import nvml
from hostbench.facts.host import usable_cores
from hostbench.facts.record import Unknown

_CALIBRATION_CYCLES = 4_000_000  # about 2 ms
_CALIBRATION_READINGS = 7
_SETTLE_BYTES = 64 * MIB
_SETTLE_LEAST_S = 0.3
_SETTLE_LIMIT_S = 2.0
_STEADY_ROUNDS = 5
_STEADY_SHARE = 0.02
_WARMUPS_OF_A_GRAPH = 3

_ROWS = 2048
"""Of the products that a compute is made of. A spinning kernel of one block (`torch.cuda._sleep`)
would not do: two of them run side by side, so that several streams would seem to compute faster
than one. float32 products of this size occupy every multiprocessor and read little memory."""
_DEPTH, _LEAST_DEPTH = 1024, 8
"""The inner dimension of a whole product, and of the shortest."""

_WORK = "hostbench work"
"""The annotation around what is observed."""
_SHORT_S = 1e-6
_HEADS_S = (0.002, 0.05, 0.5)
"""How long the GPU is kept busy before the first short wait, try by try."""

_LOCKED = "a limit on locked memory (`ulimit -l`), a container's or WSL's can be the reason"
_NO_PINNING = re.compile("CUDA error: (out of memory|operation not supported|OS call failed)")
_NO_CACHING = "PYTORCH_NO_CUDA_MEMORY_CACHING"
_NVLINK_SENT_KIB = (138, 0xFFFFFFFF)
"""NVML's NVLINK_THROUGHPUT_DATA_TX: data without headers, by this scope of all links together."""

_cuda: Any = torch.cuda  # torch leaves these calls without types


class CudaDevice(TorchDevice):
    """See the module's docstring. Raises BrokenError where torch.cuda does not work."""

    name = "cuda"
    _is_limited = False
    _sees_nothing: str | None = None
    """Why no work of the device can be observed."""

    def __init__(self, index: int = 0) -> None:
        require_cuda(index)
        torch.cuda.set_device(index)
        self.torch_device = torch.device("cuda", index)
        self.lacks = lacking("cuda", torch.cuda.device_count())
        if _NO_CACHING in os.environ:  # torch looks at no more: 0 is no caching, too
            why = f"{_NO_CACHING} is set: each allocation is a new one; unset it"
            self.lacks |= {"allocator caches": why, "CUDA graphs": why}

    def settle(self) -> None:
        cpus = numa.bind_near(pci_address(self.torch_device))
        cores = usable_cores(len(cpus))
        if cores and torch.get_num_threads() > cores:
            torch.set_num_threads(cores)  # torch took all of the machine's; a quota would stop it
        try:
            source = self.host_buffer(_SETTLE_BYTES, pinned=True)
        except RuntimeError as error:
            if self.refused_pinning(error) is None:  # it is for the cases that need it to say
                raise
            source = self.host_buffer(_SETTLE_BYTES, pinned=False)
        target = self.buffer(_SETTLE_BYTES)
        last = deque[float](maxlen=_STEADY_ROUNDS)
        start_s, least_s = self.now(), _SETTLE_LIMIT_S
        while self.now() - start_s <= least_s:
            last.append(self.event_time(partial(self._settle_round, source, target)))
            is_steady = max(last) - min(last) < _STEADY_SHARE * min(last)
            is_steady &= len(last) == _STEADY_ROUNDS
            least_s = _SETTLE_LEAST_S if is_steady else _SETTLE_LIMIT_S
        del source, target
        self.reset()

    def _settle_round(self, source: Buffer, target: Buffer) -> None:
        self.copy(target, source, blocking=False)
        self.copy(source, target, blocking=False)
        _cuda._sleep(_CALIBRATION_CYCLES)

    # ---- memory

    def registered_buffer(self, nbytes: int, *, far: bool = False) -> Buffer:
        """Page-locked for as long as this tensor object lives: keep it while a view of it is in
        use. CUDA refuses under confidential computing and a limit on locked memory. A page lies on
        the node of the thread that touches it first: this one, where torch would use several."""
        buffer = own_pages(nbytes)
        address = pci_address(self.torch_device)
        with numa.far_from(address) if far else contextlib.nullcontext():
            buffer.numpy()[:] = 0
        runtime = _cuda.cudart()
        code = runtime.cudaHostRegister(buffer.data_ptr(), nbytes, 1)  # cudaHostRegisterPortable
        if int(code) != 0:
            # CUDA keeps the error of a refused call, and the next launch of a kernel takes it for
            # its own: launch one. torch has no way to ask for the error alone.
            with contextlib.suppress(RuntimeError):
                _cuda._sleep(1)
            message = f"cudaHostRegister refused {format_bytes(nbytes)} (CUDA error {int(code)})"
            raise Unavailable(f"{message}; {_LOCKED}")
        weakref.finalize(buffer, runtime.cudaHostUnregister, buffer.data_ptr())
        return buffer

    def refused_pinning(self, error: BaseException) -> Unavailable | None:
        """What a tensor of the device's does not fit into is torch's own OutOfMemoryError. What
        CUDA itself refuses is memory to be pinned, also in the thread of a DataLoader; a refusal
        leaves the device as it was."""
        message = _NO_PINNING.search(str(error))
        if message is None:
            return None
        try:
            self.synchronize()
        except RuntimeError:  # the device itself is broken, or was before
            return None
        return Unavailable(f"CUDA pins no more memory: {message[0]}; {_LOCKED}")

    def second_buffer(self, nbytes: int, route: Route) -> Buffer:
        self.require("second device")
        here = self.torch_device.index or 0
        other = (here + 1) % torch.cuda.device_count()
        is_direct = torch.cuda.can_device_access_peer(here, other)
        if route == "peer" and not is_direct:
            raise Unavailable(
                f"GPU {here} has no direct access to GPU {other}: see nvidia-smi topo -p2p r"
            )
        if route == "staged" and is_direct:
            raise Unavailable(f"GPU {here} has direct access to GPU {other}: nothing is staged")
        return torch.empty(nbytes, dtype=torch.uint8, device=torch.device("cuda", other)).fill_(0)

    def fill_pattern(self, buffer: Buffer, seed: int) -> None:
        super().fill_pattern(buffer, seed)
        if buffer.is_cuda:
            torch.cuda.synchronize(buffer.device)

    def same_values(self, left: Buffer, right: Buffer) -> bool:
        """Compared where `right`, the source, lies: the bytes go back by another way."""
        return super().same_values(left.to(right.device), right)

    def copy(self, target: Buffer, source: Buffer, *, blocking: bool) -> None:
        target.copy_(source, non_blocking=not blocking)

    def pin(self, source: Buffer) -> Buffer:
        return source.pin_memory()

    def move(self, source: Buffer, *, blocking: bool = True) -> Buffer:
        return source.to(self.torch_device, non_blocking=not blocking)

    def fetcher(self, source: Buffer, *, blocking: bool = True) -> Callable[[], Buffer]:
        return partial(source.to, "cpu", non_blocking=not blocking)

    def drop_caches(self) -> None:
        self.synchronize()
        torch.cuda.empty_cache()
        if hasattr(torch.accelerator, "empty_host_cache"):
            torch.accelerator.empty_host_cache()
        else:  # before torch 2.12
            torch._C._host_emptyCache()

    def keep_for(self, buffer: Buffer, stream: Any) -> None:
        buffer.record_stream(stream)

    def memory_stats(self) -> dict[str, int]:
        """Without what `compute` holds, so that the order of the cases does not count."""
        held = self._factors.nbytes if "_factors" in self.__dict__ else 0
        return {"peak_allocated": torch.cuda.max_memory_allocated(self.torch_device) - held}

    def memory_of(self, work: Step) -> dict[str, int]:
        self.synchronize()
        self.reset_peak()
        before = torch.cuda.memory_stats(self.torch_device)
        work()
        stats = torch.cuda.memory_stats(self.torch_device)
        is_native = torch.cuda.get_allocator_backend() == "native"
        counted = ("allocated", "reserved", *(("requested", "inactive_split") * is_native))
        peaks = {
            f"peak_{what}": stats.get(f"{what}_bytes.all.peak", 0)
            - before.get(f"{what}_bytes.all.current", 0)
            for what in counted
        }
        if is_native:
            peaks["num_alloc_retries"] = stats["num_alloc_retries"] - before["num_alloc_retries"]
        return peaks

    def limit_memory(self, nbytes: int) -> None:
        total = torch.cuda.get_device_properties(self.torch_device).total_memory
        limit = torch.cuda.memory_reserved(self.torch_device) + nbytes
        self._is_limited = True
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), self.torch_device)

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.torch_device)

    # ---- work

    def compute(self, seconds: float) -> Step:
        """Products that take about `seconds`: whole ones, then one that takes the rest."""
        least_s, short_s, whole_s = self._product_s
        self.refuse_shorter(seconds, least_s)
        per_depth_s = (whole_s - short_s) / (_DEPTH - _DEPTH // 8)
        num_whole = int(seconds / whole_s)
        rest_s = seconds - num_whole * whole_s - (whole_s - _DEPTH * per_depth_s)
        rest = round(rest_s / per_depth_s / _LEAST_DEPTH) * _LEAST_DEPTH if per_depth_s > 0 else 0
        depths = [_DEPTH] * num_whole
        if rest >= _LEAST_DEPTH or not num_whole:
            depths.append(min(max(rest, _LEAST_DEPTH), _DEPTH))
        factors = [self._factors_of(depth) for depth in depths]

        def products() -> None:
            for left, right in factors:
                torch.mm(left, right)  # its result is dropped: streams share no output

        return products

    @cached_property
    def _factors(self) -> torch.Tensor:
        """One block of 16MiB: torch packs those under 10MiB into segments of 20MiB, and what is
        left of a segment that is in use outlives each emptying of the cache."""
        return torch.ones(2, _ROWS * _DEPTH, device=self.torch_device)

    def _factors_of(self, depth: int) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = self._factors
        return left.view(_ROWS, _DEPTH)[:, :depth], right.view(_DEPTH, _ROWS)[:depth]

    @cached_property
    def _product_s(self) -> tuple[float, float, float]:
        """Seconds of the shortest product, of one of an eighth of the depth, and of a whole one."""
        least_s, short_s, whole_s = (
            median(self.device_times(partial(torch.mm, *self._factors_of(depth))))
            for depth in (_LEAST_DEPTH, _DEPTH // 8, _DEPTH)
        )
        _clear_workspaces()  # else the first case that computes is counted as larger than others
        return least_s, short_s, whole_s

    def delay(self, seconds: float) -> None:
        _cuda._sleep(round(seconds * self._cycles_per_s))

    @cached_property
    def _cycles_per_s(self) -> float:
        """SM clock as `_sleep` counts it: the median of several readings after one to wake up."""
        spin = partial(_cuda._sleep, _CALIBRATION_CYCLES)
        self.event_time(partial(_cuda._sleep, 10 * _CALIBRATION_CYCLES))
        readings = [self.event_time(spin) for _ in range(_CALIBRATION_READINGS)]
        return _CALIBRATION_CYCLES / median(readings)

    def stream(self) -> Any:
        return _cuda.Stream(self.torch_device)

    def on(self, stream: Any) -> Any:
        return torch.cuda.stream(stream)

    def this_stream(self) -> Any:
        return _cuda.current_stream(self.torch_device)

    def event(self, *, timing: bool = True, blocking: bool = False) -> Any:
        return _cuda.Event(enable_timing=timing, blocking=blocking)

    def seconds_between(self, start: Any, end: Any) -> float:
        return float(start.elapsed_time(end)) / 1e3

    def graph(self, work: Step) -> Step:
        """As in torch's guide, but captured on the stream that `work` was warmed up on, so that
        cuBLAS has its workspace already. `torch.cuda.graph` waits for the device first."""
        side, graph = _cuda.Stream(self.torch_device), _cuda.CUDAGraph()
        side.wait_stream(_cuda.current_stream(self.torch_device))
        with torch.cuda.stream(side):
            for _ in range(_WARMUPS_OF_A_GRAPH):
                work()
        with _cuda.graph(graph, stream=side):
            work()
        return graph.replay  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.torch_device)

    # ---- what it did

    def observe(
        self, work: Step, ready: Step = lambda: None, *, traced: bool = False
    ) -> Observation:
        """By torch's profiler, between two short waits. Work that it does not list (copies between
        GPUs) is just not there. A trace has operations of torch, calls of CUDA's runtime and the
        work of each stream.

        The profiler leaves out what it stamps before its beginning or after its end, and its stamps
        of a GPU that has idled may be early (pytorch#192021). So work counts as seen where both
        waits are, and is run again after a longer delay where they are not. Raises Unavailable
        where that does not help, or nothing is seen, which is remembered: each try takes time.
        """
        if not self.agree(self._sees_nothing is None):
            raise Unavailable(
                self._sees_nothing or "the profiler of another rank saw no work of its GPU"
            )
        self.delay(_SHORT_S)  # calibrates: not to be observed

        def work_between_waits(head_s: float) -> None:
            self.delay(head_s)
            self.delay(_SHORT_S)
            self.synchronize()
            with profiler.record_function(_WORK):
                work()
            self.synchronize()
            self.delay(_SHORT_S)
            self.synchronize()

        is_anything_seen = False
        for head_s in _HEADS_S:
            ready()
            self.synchronize()
            trace = chrome_trace(partial(work_between_waits, head_s), on_cuda=True)
            events = chrome.decode(trace).events
            is_anything_seen = any(event.cat in chrome.DEVICE_WORK for event in events)
            waits = [event for event in events if chrome.is_delay(event)]
            num_short = sum(wait.end_s - wait.start_s < 100 * _SHORT_S for wait in waits)
            if self.agree(num_short == 2):
                return Observation(
                    activities=sorted(chrome.activities(events), key=lambda seen: seen.start_s),
                    num_waits=chrome.count_waits(events, _WORK),
                    trace=json.loads(trace)["traceEvents"] if traced else (),
                )
        if is_anything_seen:
            raise Unavailable("the profiler lost part of what the GPU did")
        self._sees_nothing = "the profiler saw no work of it: CUPTI is missing or not permitted"
        raise Unavailable(self._sees_nothing)

    def bytes_counted(self) -> tuple[int, int]:
        return self._counter(nvml.PCIE_IN), self._counter(nvml.PCIE_OUT)

    def bytes_sent(self) -> int:
        """Over PCIe and, where NVML counts it, NVLink."""
        over_nvlink = 0
        with contextlib.suppress(Unavailable):
            over_nvlink = KIB * self._counter(_NVLINK_SENT_KIB)
        return self._counter(nvml.PCIE_OUT) + over_nvlink

    def _counter(self, field: nvml.Field) -> int:
        opened, gpu = self._in_nvml
        counted = opened.ask(nvml.field_value, gpu, field)
        if isinstance(counted, Unknown):
            raise Unavailable(f"NVML field {field}: {counted.why}")
        return int(counted)

    @cached_property
    def _in_nvml(self) -> tuple[nvml.Nvml, Any]:
        """NVML, and its handle of this device."""
        try:
            opened = nvml.open_nvml()
            # by its UUID: torch and NVML count devices differently
            index = opened.index_of(str(_cuda.get_device_properties(self.torch_device).uuid))
            return opened, opened.ask("nvmlDeviceGetHandleByIndex", index)
        except nvml.NvmlUnavailable as error:
            raise Unavailable(str(error)) from error

    def reset(self) -> None:
        self._close_loader()
        gc.collect()
        if self._is_limited:
            torch.cuda.set_per_process_memory_fraction(1.0, self.torch_device)
            self._is_limited = False
        _clear_workspaces()  # streams are new each case
        self.drop_caches()
        self.reset_peak()


def require_cuda(index: int) -> None:
    """Start CUDA and run one kernel. Raises BrokenError with the remedy when either fails."""
    if torch.version.cuda is None:
        raise BrokenError(
            f"device cuda: torch {torch.__version__} is built without CUDA; install a CUDA build "
            "(make bench TORCH_INDEX=...) or choose --device cpu"
        )
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        raise BrokenError(
            "device cuda: CUDA_LAUNCH_BLOCKING is set: the host waits for each kernel, so that no "
            "answer about waiting would be true; unset it"
        )
    try:
        _cuda.init()
        torch.ones(1, device=torch.device("cuda", index)).add_(1).item()
    except (RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError) as error:
        text = str(error).strip().partition("\n")[0]
        remedy = "`hostbench doctor` says what may help, or choose --device cpu"
        raise BrokenError(f"device cuda: {text}; {remedy}") from error


def pci_address(device: torch.device) -> str | None:
    """`0000:18:00.0` as sysfs writes it; None where this torch does not tell (before 2.8)."""
    facts: Any = torch.cuda.get_device_properties(device)
    if not hasattr(facts, "pci_bus_id"):
        return None
    return f"{facts.pci_domain_id:04x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"


def _clear_workspaces() -> None:
    """Of cuBLAS: each stream that has multiplied matrices keeps one."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
