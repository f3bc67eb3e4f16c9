"""The machine under the fake CUDA: one virtual host clock, GPUs, streams, memory. Knows no tensor.

Each call costs the host time. What it enqueues gets its start and end at once, by the rules of a
stream and of the engine that runs it. What it does to memory is done at once, too: the fake tells
how often and how long the host waits, not whether a wait is missing.
"""

import itertools
import math
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from hostbench.core.units import GIB

POOL = 32  # streams per GPU that torch hands out, one after the other, over and over

Node = tuple[tuple[str, float, str, int], Callable[[], None]]
"""Of a graph: what `enqueue` was given, and what each replay does to memory."""


@dataclass(slots=True, kw_only=True)
class Costs:
    """Seconds of the host and of the GPU, round figures."""

    call_s: float = 1e-6  # of the host, for a call that enqueues nothing
    launch_s: float = 4e-6  # of the host, for enqueueing a kernel, a copy or an event
    allocate_s: float = 200e-6  # of the host, for memory that no cache had
    pin_s_per_byte: float = 1 / 5e9
    host_bytes_per_s: float = 10e9
    kernel_s: float = 3e-6  # the least that a kernel takes
    copy_s: float = 2e-6  # the least that a copy over the link takes
    link_bytes_per_s: float = 50e9
    pageable_bytes_per_s: float = 10e9
    peer_bytes_per_s: float = 100e9
    memory_bytes_per_s: float = 2e12
    flops: float = 40e12
    sm_hz: float = 1.5e9  # what `_sleep` counts
    collective_s: float = 20e-6


@dataclass(eq=False, slots=True)
class Queue:
    """A stream of one GPU; 0 is the default stream."""

    gpu: "Gpu"
    number: int
    free_s: float = 0.0
    """When everything enqueued so far will be done."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a GPU or the host did, as the profiler lists it."""

    category: str
    """`kernel`, `gpu_memcpy`, `cuda_runtime`, `cpu_op`, `user_annotation`."""
    name: str
    start_s: float
    end_s: float
    thread: int = 0
    queue: Queue | None = None
    nbytes: int = 0
    call: int = 0
    """Of the runtime's call that enqueued it, or that it is."""


class Cache:
    """Bytes that are in use, and those that an allocator keeps: by size, without any packing."""

    def __init__(self) -> None:
        self.used = self.peak_used = self.peak_reserved = 0
        self.kept: Counter[int] = Counter()

    @property
    def reserved(self) -> int:
        return self.used + sum(size * num for size, num in self.kept.items())

    def take(self, size: int) -> bool:
        """Whether the cache had it."""
        had = self.kept[size] > 0
        self.kept[size] -= had
        self.used += size
        self.peak_used = max(self.peak_used, self.used)
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        return had

    def give(self, size: int) -> None:
        self.used -= size
        self.kept[size] += 1

    def reset_peaks(self) -> None:
        self.peak_used, self.peak_reserved = self.used, self.reserved


class Block:
    """Memory of a GPU, until the last tensor on it is gone."""

    def __init__(self, gpu: "Gpu", size: int) -> None:
        self.gpu, self.size = gpu, size

    def __del__(self) -> None:
        self.gpu.memory.give(self.size)


@dataclass(eq=False, slots=True)
class Gpu:
    index: int
    uuid: str
    counts: Counter[str] = field(default_factory=Counter)
    """Of waits (`device`, `stream`, `event`, `implicit`), `launches`, and bytes by kind of copy."""
    engines: dict[str, float] = field(default_factory=dict)
    """When each is free."""
    queues: list[Queue] = field(init=False)
    """The default stream, those that torch hands out, and nccl's own."""
    current: int = 0
    memory: Cache = field(default_factory=Cache)
    limit: float = 1.0
    """Of the memory, which this process may have."""
    next_queue: Callable[[], Queue] = field(init=False)

    def __post_init__(self) -> None:
        self.queues = [Queue(self, number) for number in range(POOL + 2)]
        self.next_queue = itertools.cycle(self.queues[1:-1]).__next__

    @property
    def queue(self) -> Queue:
        """The current stream."""
        return self.queues[self.current]


@dataclass(eq=False, slots=True)
class Hardware:
    """The host, its GPUs and the clock that they share."""

    num_gpus: int = 1
    costs: Costs = field(default_factory=Costs)
    refuses: tuple[str, ...] = ()
    """Of `registered` memory, `peers`, and the `profiler`, for which CUPTI is missing."""
    most_pinned_bytes: float = math.inf
    memory_bytes: int = 80 * GIB  # of each GPU
    now_s: float = 0.0
    device: int = 0  # the current one
    moved: Callable[[int, int, int], None] = lambda gpu, into, out_of: None
    """Told of bytes over a GPU's link: the GPU, bytes into it, bytes out of it."""
    gpus: list[Gpu] = field(init=False)
    latched: str | None = None  # CUDA's last error: the next launch raises it
    sticky: str | None = None  # every call raises it from now on
    capture: list[Node] | None = None
    """The graph that is being captured now."""
    sync_mode: int = 0
    """torch's debug mode of synchronizations: 1 warns."""
    error: type[Exception] = RuntimeError
    log: list[Event] = field(default_factory=list)
    pinned: Cache = field(default_factory=Cache)
    pinned_sizes: dict[int, int] = field(default_factory=dict)
    """Address -> bytes of pinned and registered memory."""
    _inside: dict[str, int] = field(default_factory=dict)
    """Category -> number of the call that the host is in."""
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        numbers = range(self.num_gpus)
        self.gpus = [Gpu(n, f"{n:08x}-1111-2222-3333-444444444444") for n in numbers]

    # ---- the host

    def call(self, seconds: float | None = None) -> None:
        """The host makes a call into CUDA. Raises what has gone wrong before."""
        self.now_s += self.costs.call_s if seconds is None else seconds
        if self.sticky:
            raise self.error(self.sticky)

    @contextmanager
    def span(self, category: str, name: str, _: object = None) -> Iterator[None]:
        """The host is in that function; one that it uses inside is part of it."""
        if category in self._inside:
            yield
            return
        number = self._inside[category] = next(self._numbers)
        start_s, thread = self.now_s, threading.get_native_id()
        try:
            yield
        finally:
            self._inside.pop(category, None)  # another thread may have left it first
            self.log.append(Event(category, name, start_s, self.now_s, thread, call=number))

    def wait_until(self, moment_s: float, gpu: Gpu, why: str, name: str) -> None:
        """Raises as CUDA does of a wait of the host while a graph is captured."""
        if self.capture is not None:
            raise self.error("CUDA error: operation not permitted when stream is capturing")
        with self.span("cuda_runtime", name):
            self.call()
            gpu.counts[why] += 1
            self.now_s = max(self.now_s, moment_s)
            self.call(0.0)

    def wait_device(self, gpu: Gpu, why: str = "device") -> None:
        end_s = max(queue.free_s for queue in gpu.queues)
        self.wait_until(end_s, gpu, why, "cudaDeviceSynchronize" if why == "device" else "cudaFree")

    def wait_queue(self, queue: Queue, why: str = "stream") -> None:
        self.wait_until(queue.free_s, queue.gpu, why, "cudaStreamSynchronize")

    # ---- streams

    def enqueue(
        self,
        queue: Queue,
        name: str,
        seconds: float,
        engine: str = "",
        nbytes: int = 0,
        redo: Callable[[], None] = lambda: None,
    ) -> None:
        """Work that takes `engine` for so long."""
        is_copy = name.startswith("Memcpy")
        with self.span("cuda_runtime", "cudaMemcpyAsync" if is_copy else "cudaLaunchKernel"):
            self.call(self.costs.launch_s)
            if self.latched:
                error, self.latched = self.latched, None
                raise self.error(error)
            if self.capture is None:
                self._place(queue, name, seconds, engine, nbytes)
            else:
                self.capture.append(((name, seconds, engine, nbytes), redo))

    def replay(self, queue: Queue, nodes: list[Node]) -> None:
        """All of a captured graph, for one launch of the host."""
        with self.span("cuda_runtime", "cudaGraphLaunch"):
            self.call(self.costs.launch_s)
            for node, redo in nodes:
                self._place(queue, *node)
                redo()

    def _place(self, queue: Queue, name: str, seconds: float, engine: str, nbytes: int) -> None:
        gpu, is_copy = queue.gpu, name.startswith("Memcpy")
        gpu.counts[name if is_copy else "launches"] += nbytes or 1
        start_s = max(self.now_s, queue.free_s, gpu.engines.get(engine, 0.0))
        queue.free_s = end_s = start_s + seconds
        if engine:
            gpu.engines[engine] = end_s
        category, by = "gpu_memcpy" if is_copy else "kernel", self._inside["cuda_runtime"]
        self.log.append(Event(category, name, start_s, end_s, 0, queue, nbytes, by))

    def sleep(self, cycles: int) -> None:
        queue = self.gpus[self.device].queue
        self.enqueue(queue, "spin_kernel", cycles / self.costs.sm_hz)

    def record(self, queue: Queue) -> float:
        self.call(self.costs.launch_s)
        return max(self.now_s, queue.free_s)

    def let_wait(self, queue: Queue, moment_s: float) -> None:
        self.call()
        queue.free_s = max(queue.free_s, moment_s)

    # ---- memory

    def allocate(self, gpu: Gpu, nbytes: int) -> Block:
        """Raises torch's OutOfMemoryError."""
        self.call()
        size = max(512, -(-nbytes // 512) * 512)
        if gpu.memory.used + size > gpu.limit * self.memory_bytes:
            raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {nbytes} bytes")
        if not gpu.memory.take(size):
            self.call(self.costs.allocate_s)
        return Block(gpu, size)

    def empty_cache(self) -> None:
        self.call()
        for gpu in self.gpus:
            if +gpu.memory.kept:
                self.wait_device(gpu, "implicit")  # cudaFree waits
            gpu.memory.kept.clear()

    def pin(self, nbytes: int) -> torch.Tensor:
        """Pinned bytes, whose size is rounded up to a power of two. Raises as CUDA does where it
        cannot lock them."""
        self.call()
        size = 1 << max(9, (nbytes - 1).bit_length())
        if not self.pinned.kept[size]:
            if self.pinned.reserved + size > self.most_pinned_bytes:
                raise self.error("CUDA error: out of memory")
            self.call(self.costs.allocate_s + size * self.costs.pin_s_per_byte)
        self.pinned.take(size)
        array = np.empty(max(1, nbytes), dtype=np.uint8)
        made = torch.from_numpy(array)
        self.pinned_sizes[address := made.data_ptr()] = size

        def freed() -> None:
            self.pinned_sizes.pop(address, None)
            self.pinned.give(size)

        weakref.finalize(array, freed).atexit = False
        return made

    def register(self, address: int, nbytes: int) -> int:
        """cudaHostRegister: 0, or CUDA's code, which stays behind as the last error too."""
        self.call(nbytes * self.costs.pin_s_per_byte)
        if "registered" in self.refuses:
            self.latched = "CUDA error: operation not supported"
            return 801
        self.pinned_sizes[address] = nbytes
        return 0

    def unregister(self, address: int) -> int:
        self.call()
        del self.pinned_sizes[address]
        return 0

    def is_pinned(self, tensor: Any) -> bool:
        return tensor.untyped_storage().data_ptr() in self.pinned_sizes
