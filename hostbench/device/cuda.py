"""The cuda device: torch streams, events, the caching and the pinned allocator. The real thing.

Facts to know when reading numbers: pinned blocks are rounded up to powers of two and cached;
streams come from a pool of 32; `compute` multiplies matrices that fill the device, `delay` spins on
the SM clock in one block; the first of each calibrates and therefore waits for the device.
"""

import contextlib
import gc
import os
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import torch

from hostbench.core.errors import Unavailable
from hostbench.core.samples import median
from hostbench.core.units import MIB, format_bytes
from hostbench.device import numa
from hostbench.device.activity import Activity
from hostbench.device.base import Buffer, Step, Where, lacking
from hostbench.device.cuda_compute import Filler
from hostbench.device.cuda_open import pci_address, require_cuda, uuid_of
from hostbench.device.kineto import Profiler
from hostbench.device.link_counters import LinkCounters
from hostbench.device.torch_device import TorchDevice, own_pages
from hostbench.facts.host import usable_cores

_CALIBRATION_CYCLES = 4_000_000  # about 2 ms
_CALIBRATION_READINGS = 7
_SETTLE_BYTES = 64 * MIB
_SETTLE_LEAST_S = 0.3
_SETTLE_LIMIT_S = 2.0
_STEADY_ROUNDS = 5
_STEADY_SHARE = 0.02
_WARMUPS_OF_A_GRAPH = 3

_LOCKED = "a limit on locked memory (`ulimit -l`), a container's or WSL's can be the reason"

_NO_PINNING = re.compile("CUDA error: (out of memory|operation not supported|OS call failed)")

_NO_CACHING = "PYTORCH_NO_CUDA_MEMORY_CACHING"

_cuda: Any = torch.cuda  # torch leaves these calls without types


class CudaStream(torch.cuda.Stream):
    """torch's. Streams do not wait for the default stream unless told to by an event."""

    wait = torch.cuda.Stream.wait_event


class CudaEvent(torch.cuda.Event):
    """torch's."""

    def seconds_since(self, earlier: torch.cuda.Event) -> float:
        return float(earlier.elapsed_time(self)) / 1e3


class CudaDevice(TorchDevice):
    """See the module's docstring. Raises BrokenError where torch.cuda does not work."""

    name = "cuda"
    _is_limited = False

    def __init__(self, index: int = 0) -> None:
        require_cuda(index)
        torch.cuda.set_device(index)
        self.torch_device = torch.device("cuda", index)
        self.lacks = lacking("cuda", torch.cuda.device_count())
        if os.environ.get(_NO_CACHING, "0") not in ("", "0"):
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
            if self.refused_pinning(error) is None:
                raise
            # for the cases to say that need pinned memory
            source = self.host_buffer(_SETTLE_BYTES, pinned=False)
        target = self.buffer(_SETTLE_BYTES)
        rounds: list[float] = []
        start_s = self.now()
        while not _is_settled(rounds, self.now() - start_s):
            rounds.append(self._seconds(partial(self._settle_round, source, target)))
        del source, target
        self.reset()

    def is_near(self) -> bool | None:
        return numa.is_near(pci_address(self.torch_device))

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
            self._forget_last_error()
            message = f"cudaHostRegister refused {format_bytes(nbytes)} (CUDA error {int(code)})"
            raise Unavailable(f"{message}; {_LOCKED}")
        weakref.finalize(buffer, runtime.cudaHostUnregister, buffer.data_ptr())
        return buffer

    def target_buffer(self, nbytes: int, where: Where) -> Buffer:
        if where == "here":
            return self.buffer(nbytes)
        self.require("second device")
        here, other = self.torch_device.index or 0, self._second.index
        is_direct = torch.cuda.can_device_access_peer(here, other)
        if where == "peer" and not is_direct:
            raise Unavailable(
                f"GPU {here} has no direct access to GPU {other}: see nvidia-smi topo -p2p r"
            )
        if where == "staged" and is_direct:
            raise Unavailable(f"GPU {here} has direct access to GPU {other}: nothing is staged")
        return torch.empty(nbytes, dtype=torch.uint8, device=self._second).fill_(0)

    def fill_pattern(self, buffer: Buffer, seed: int) -> None:
        super().fill_pattern(buffer, seed)
        if buffer.is_cuda:
            torch.cuda.synchronize(buffer.device)

    def same_values(self, left: Buffer, right: Buffer) -> bool:
        """Compared where `right`, the source, lies: what a copy brought goes back by the other way
        than it came."""
        where = right.device
        if left.is_cuda and right.is_cuda and left.device != right.device:
            where = torch.device("cpu")
        return super().same_values(left.to(where), right.to(where))

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
        # Cached pinned blocks: public since torch 2.12, private since 2.5.
        public = getattr(torch.accelerator, "empty_host_cache", None)
        empty = public or getattr(torch._C, "_host_emptyCache", None)
        if empty is not None:
            empty()

    def keep_for(self, buffer: Buffer, stream: CudaStream) -> None:
        buffer.record_stream(stream)

    def compute(self, seconds: float) -> Step:
        return self.as_short(self._filler.step(seconds), seconds)

    def delay(self, seconds: float) -> None:
        _cuda._sleep(round(seconds * self._cycles_per_s))

    def stream(self) -> CudaStream:
        return CudaStream(self.torch_device)  # type: ignore[no-untyped-call]

    @contextmanager
    def on(self, stream: CudaStream) -> Iterator[None]:
        with torch.cuda.stream(stream):
            yield

    def this_stream(self) -> CudaStream:
        stream: Any = torch.cuda.current_stream(self.torch_device)
        names = "stream_id", "device_index", "device_type"
        same: CudaStream = CudaStream(**{name: getattr(stream, name) for name in names})  # type: ignore[no-untyped-call]
        return same

    def event(self, *, timing: bool = True, blocking: bool = False) -> CudaEvent:
        made: CudaEvent = CudaEvent(enable_timing=timing, blocking=blocking)  # type: ignore[no-untyped-call]
        return made

    def graph(self, work: Step) -> Step:
        """As torch's guide has it: `work` runs a few times on a side stream and is captured, here
        on the same one, so that cuBLAS has its workspace already. `torch.cuda.graph` waits for the
        device first."""
        side, graph = _cuda.Stream(self.torch_device), _cuda.CUDAGraph()
        side.wait_stream(_cuda.current_stream(self.torch_device))
        with torch.cuda.stream(side):
            for _ in range(_WARMUPS_OF_A_GRAPH):
                work()
        with _cuda.graph(graph, stream=side):
            work()
        return graph.replay  # type: ignore[no-any-return]

    def count_syncs(self, work: Step) -> int:
        profiler = self._profiler
        self.synchronize()
        return profiler.count_waits(work)

    def synchronize(self) -> None:
        torch.cuda.synchronize(self.torch_device)

    def memory_stats(self) -> dict[str, int]:
        """Without what `compute` holds, so that the order of the cases does not count."""
        stats = torch.cuda.memory_stats(self.torch_device)
        held = self._filler.nbytes if "_filler" in self.__dict__ else 0
        return {
            "allocated": stats.get("allocated_bytes.all.current", 0) - held,
            "peak_allocated": stats.get("allocated_bytes.all.peak", 0) - held,
            "reserved": stats.get("reserved_bytes.all.current", 0) - held,
        }

    def memory_of(self, work: Step) -> dict[str, int]:
        self.synchronize()
        self.reset_peak()
        before = torch.cuda.memory_stats(self.torch_device)
        work()
        stats = torch.cuda.memory_stats(self.torch_device)
        is_native = torch.cuda.get_allocator_backend() == "native"
        counted = ("allocated", "reserved", *(("requested", "inactive_split") * is_native))
        found = {
            f"peak_{what}": stats.get(f"{what}_bytes.all.peak", 0)
            - before.get(f"{what}_bytes.all.current", 0)
            for what in counted
        }
        if is_native:
            found["num_alloc_retries"] = stats["num_alloc_retries"] - before["num_alloc_retries"]
        return found

    def limit_memory(self, nbytes: int) -> None:
        total = torch.cuda.get_device_properties(self.torch_device).total_memory
        limit = torch.cuda.memory_reserved(self.torch_device) + nbytes
        self._is_limited = True
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), self.torch_device)

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self.torch_device)

    def observe(self, work: Step, ready: Step = lambda: None) -> list[Activity]:
        profiler = self._profiler
        self.synchronize()
        return profiler.observe(work, ready)

    def trace(self, work: Step) -> list[dict[str, Any]]:
        profiler = self._profiler
        self.synchronize()
        return profiler.trace(work)

    def bytes_counted(self, *, second: bool = False) -> tuple[int, int]:
        return (self._second_counters if second else self._counters).read()

    def bytes_sent(self) -> int:
        return self._counters.sent()

    def reset(self) -> None:
        self._close_loaders()
        gc.collect()
        if self._is_limited:
            torch.cuda.set_per_process_memory_fraction(1.0, self.torch_device)
            self._is_limited = False
        _clear_workspaces()  # streams are new each case
        self.drop_caches()
        torch.cuda.reset_peak_memory_stats(self.torch_device)

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

    def _forget_last_error(self) -> None:
        """CUDA keeps the error of a refused call, and the next launch of a kernel takes it for its
        own: launch one. torch has no way to ask for the error alone."""
        with contextlib.suppress(RuntimeError):
            _cuda._sleep(1)

    def _settle_round(self, source: Buffer, target: Buffer) -> None:
        self.copy(target, source, blocking=False)
        self.copy(source, target, blocking=False)
        _cuda._sleep(_CALIBRATION_CYCLES)

    def _seconds(self, work: Step) -> float:
        """Device seconds of `work`, with the host's gaps, if it has any; waits for it."""
        start, end = self.event(), self.event()
        start.record()
        work()
        end.record()
        end.synchronize()
        return end.seconds_since(start)

    @cached_property
    def _filler(self) -> Filler:
        made = Filler(self.torch_device, self.device_times)
        _clear_workspaces()  # else the first case that computes is counted as larger than others
        return made

    @cached_property
    def _profiler(self) -> Profiler:
        self.delay(1e-3)  # calibrates: not to be observed
        return Profiler(self.delay, self.synchronize, lambda is_so: self.agree(is_so))

    @cached_property
    def _counters(self) -> LinkCounters:
        return LinkCounters(uuid_of(self.torch_device))

    @cached_property
    def _second_counters(self) -> LinkCounters:
        return LinkCounters(uuid_of(self._second))

    @property
    def _second(self) -> torch.device:
        """The next GPU; the only one itself."""
        here = self.torch_device.index or 0
        return torch.device("cuda", (here + 1) % torch.cuda.device_count())

    @cached_property
    def _cycles_per_s(self) -> float:
        """SM clock as `_sleep` counts it: the median of several readings after one to wake up."""
        spin = partial(_cuda._sleep, _CALIBRATION_CYCLES)
        self._seconds(partial(_cuda._sleep, 10 * _CALIBRATION_CYCLES))
        readings = [self._seconds(spin) for _ in range(_CALIBRATION_READINGS)]
        return _CALIBRATION_CYCLES / median(readings)


def _clear_workspaces() -> None:
    """Of cuBLAS: each stream that has multiplied matrices keeps one."""
    clear = getattr(torch._C, "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()


def _is_settled(rounds: list[float], elapsed_s: float) -> bool:
    """Whether the last rounds took equally long, or the time for waiting is over."""
    last = rounds[-_STEADY_ROUNDS:]
    steady = len(last) == _STEADY_ROUNDS and max(last) - min(last) < _STEADY_SHARE * min(last)
    return elapsed_s > (_SETTLE_LEAST_S if steady else _SETTLE_LIMIT_S)
