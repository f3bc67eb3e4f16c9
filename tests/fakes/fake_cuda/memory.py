"""Memory of the stand-in for CUDA: the caching allocator of each GPU, and pinned memory.

The rules are torch's (CUDACachingAllocator, CachingHostAllocator): a freed block goes back to the
stream that it was allocated on and is handed out again there at once, unless `record_stream` named
other streams; then once these are done. What is freed is overwritten, so that whoever still reads
it reads nonsense; what a stream may still use when it is freed is reported as a race.
"""

import os
import weakref
from collections.abc import Callable
from ctypes import c_ubyte
from dataclasses import dataclass, field

import numpy as np
import torch

from hostbench.core.units import MIB
from tests.fakes.fake_cuda.allocator_settings import AllocatorSettings
from tests.fakes.fake_cuda.gpu import Gpu, Queue
from tests.fakes.fake_cuda.segments import (
    OutOfMemory,
    Piece,
    Segments,
    Stats,
)
from tests.fakes.fake_cuda.timeline import Block, Capture, Machine

_POISON, _POISONED_BYTES = 0xA5, 4096


@dataclass(eq=False, slots=True)
class Backed(Block):
    """A block with real bytes behind it."""

    queue: Queue | None = None
    """The stream that it belongs to; None for host memory."""
    uses: dict[Queue, float] = field(default_factory=dict)
    """Streams named by `record_stream`, and those that non_blocking copies use pinned memory on:
    when what they had when the block was freed will be done."""
    bytes: torch.Tensor = field(init=False)
    is_free: bool = False
    graph: Capture | None = None
    """Whose own it is, as what is allocated during a capture."""
    owed: Callable[[], None] | None = None
    """What has been written to it by the clock, and is done when somebody reads it."""
    holds: tuple[object, int] | None = None
    """What the first so many bytes are a copy of, or were copied from; see `copy_bytes`."""

    def __post_init__(self) -> None:
        self.bytes = torch.from_numpy(np.empty(max(1, self.nbytes), dtype=np.uint8))

    @property
    def address(self) -> int:
        return self.bytes.data_ptr()

    def wait_for_its_streams(self) -> bool:
        """The block is freed: it waits for all that its other streams have by now, as by an event
        that is recorded then. Whether there are any."""
        self.uses = {queue: queue.free_s for queue in self.uses}
        return bool(self.uses)

    def pay(self) -> None:
        """Before anybody reads or writes the bytes."""
        if self.owed is not None:
            owed, self.owed = self.owed, None
            owed()

    def poison(self) -> None:
        """Both ends and the middle: where checks look first. By numpy, which is quick at little."""
        self.holds = self.owed = None
        values, middle = self.bytes.numpy(), self.nbytes // 2
        for start in (0, middle, max(0, self.nbytes - _POISONED_BYTES)):
            values[start : start + _POISONED_BYTES] = _POISON

    def handle(self, freed: Callable[["Backed"], None]) -> torch.Tensor:
        """All its bytes as a tensor whose memory is freed with the last view of it."""
        array = self.bytes.numpy()[:]
        ending = weakref.finalize(array, freed, self)
        ending.atexit = False
        return torch.from_numpy(array)


def copy_bytes(target: Backed, start: int, source: Backed, origin: int, nbytes: int) -> None:
    """Copy now, unless these bytes are there already from the copy before: benchmarks copy the same
    bytes a thousand times, there and back."""
    source.pay()
    target.pay()
    from_the_start = start == origin == 0
    if from_the_start and source.holds is not None and source.holds == target.holds:
        if source.holds[1] == nbytes:
            return
    # By numpy, in this thread: torch would share even small ones out among all cores, and wait long
    # for one that is busy.
    target.bytes.numpy()[start : start + nbytes] = source.bytes.numpy()[origin : origin + nbytes]
    if from_the_start and (source.holds is None or source.holds[1] != nbytes):
        source.holds = object(), nbytes
    target.holds = source.holds if from_the_start else None


@dataclass(eq=False, slots=True)
class DeviceMemory:
    """The caching allocator of one GPU. Where blocks lie and what is reserved for them says
    `segments`; the bytes behind a block are its own, for nobody looks at addresses."""

    machine: Machine
    gpu: Gpu
    segments: Segments = field(init=False)
    stats: Stats = field(default_factory=Stats)
    workspaces: dict[Queue, torch.Tensor] = field(default_factory=dict)
    """Of cuBLAS, one per stream that has multiplied matrices."""
    _pieces: dict[Backed, Piece] = field(default_factory=dict)
    _cached: list[Backed] = field(default_factory=list)
    _held: list[Backed] = field(default_factory=list)
    """Freed, but a stream that `record_stream` named has not finished."""
    _num: int = 0

    def __post_init__(self) -> None:
        self.segments = Segments(self.machine.memory_bytes, AllocatorSettings.of(os.environ))

    def allocate(self, nbytes: int) -> Backed:
        """A block for the current stream. Raises torch's OutOfMemoryError."""
        self.machine.call()
        self._take_back()
        queue, graph = self.gpu.queue, self.machine.capture
        if graph is not None and (block := self._from(graph.pool, nbytes, queue)) is not None:
            self._count("allocated", self._pieces[block].size)
            block.is_free = False
            return block
        piece = self._piece(nbytes, queue)
        block = self._from(self._cached, piece.size, queue)
        if block is None:
            self._num += 1
            name = f"block {self._num} of GPU {self.gpu.index}"
            block = Backed(self.machine, name, piece.size, queue=queue)
        self._pieces[block], block.graph = piece, graph
        self._count("allocated", piece.size)
        block.is_free = False
        return block

    def freed(self, block: Backed) -> None:
        """The last tensor on a block is gone."""
        self.stats["allocated"] -= self._pieces[block].size
        block.is_free = True
        assert block.queue is not None
        if block.graph is not None and not block.graph.is_gone:
            block.graph.pool.append(block)
            return
        for access in block.touched:
            if access.queue not in block.uses and not self.machine.is_ordered(access, block.queue):
                self.machine.report(
                    f"{block.name} of stream {block.queue.number} is freed while stream "
                    f"{access.queue.number} uses it: record_stream is missing"
                )
        if block.wait_for_its_streams():
            self._held.append(block)
        else:
            self._give(block)

    def give_up(self, graph: Capture) -> None:
        """A graph is gone: its blocks are everybody's."""
        graph.is_gone = True
        for block in graph.pool:
            self._give(block)
        graph.pool.clear()

    def empty_cache(self) -> None:
        self._take_back()
        if self._cached:
            self.machine.wait_device(self.gpu, "implicit")  # cudaFree waits
        self.segments.empty_cache()
        self._cached.clear()

    def reset_peaks(self) -> None:
        self.stats["peak_allocated"] = self.stats["allocated"]
        self.segments.reset_peaks()

    def limit(self, fraction: float) -> None:
        self.segments.limit = int(fraction * self.machine.memory_bytes)

    def _piece(self, nbytes: int, queue: Queue) -> Piece:
        """Where it lies; the host pays for each time that the device was asked for memory, and
        waits where some was given back."""
        before = self.segments.stats.copy()
        try:
            return self.segments.allocate(nbytes, queue.number)
        except OutOfMemory:
            self.stats["num_ooms"] += 1
            raise torch.OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {nbytes / 2**30:.2f} GiB. GPU "
                f"{self.gpu.index} has a total capacity of "
                f"{self.machine.memory_bytes / 2**30:.2f} GiB"
            ) from None
        finally:
            done = self.segments.stats - before
            self.machine.call(done["num_device_alloc"] * self.machine.costs.allocate_s)
            if done["num_device_free"]:
                self.machine.wait_device(self.gpu, "implicit")

    def _count(self, name: str, nbytes: int) -> None:
        self.stats[name] += nbytes
        self.stats[f"peak_{name}"] = max(self.stats[name], self.stats[f"peak_{name}"])

    def _give(self, block: Backed) -> None:
        block.uses.clear()
        self.segments.free(self._pieces.pop(block))
        self._cached.append(block)
        assert block.queue is not None
        self.machine.behind(block.queue, block.poison)

    def _take_back(self) -> None:
        """Of the held blocks those whose streams have come to where they were when it was freed."""
        for block in list(self._held):
            if max(block.uses.values()) <= self.machine.now_s:
                self.machine.catch_up()  # what these streams do to it comes before what follows
                self._held.remove(block)
                block.touched = [a for a in block.touched if a.queue not in block.uses]
                self._give(block)

    @staticmethod
    def _from(freed: list[Backed], nbytes: int, queue: Queue) -> Backed | None:
        """Bytes that were freed, so that they hold nonsense."""
        fits = [b for b in freed if b.queue is queue and nbytes <= b.nbytes <= nbytes + MIB]
        if not fits:
            return None
        best = min(fits, key=lambda block: block.nbytes)
        freed.remove(best)
        return best


@dataclass(eq=False, slots=True)
class PinnedMemory:
    """Page-locked host memory: what the pinned allocator gives and caches, and what was registered.

    Sizes are rounded up to powers of two. A block that a non_blocking copy used comes back when all
    is done that the copy's stream had when the block was freed.
    """

    machine: Machine
    stats: Stats = field(default_factory=Stats)
    _by_address: dict[int, Backed] = field(default_factory=dict)
    _cached: list[Backed] = field(default_factory=list)
    _held: list[Backed] = field(default_factory=list)

    def allocate(self, nbytes: int) -> torch.Tensor:
        """Uninitialized bytes. Raises as CUDA does where it cannot lock them."""
        self.machine.call()
        rounded = 1 << max(9, (nbytes - 1).bit_length())
        with self.machine.lock:
            self._take_back()
            block = next((each for each in self._cached if each.nbytes == rounded), None)
            if block is None:
                block = self._new(rounded)
            else:
                self._cached.remove(block)
            return block.handle(self._freed)[:nbytes]

    def _new(self, nbytes: int) -> Backed:
        if self._is_too_much(nbytes):
            raise self.machine.error("CUDA error: out of memory")
        costs = self.machine.costs
        self.machine.call(costs.allocate_s + nbytes * costs.pin_s_per_byte)
        block = Backed(self.machine, f"{nbytes} bytes of pinned memory", nbytes)
        self._by_address[block.address] = block
        self.stats["allocated"] += nbytes
        return block

    def register(self, address: int, nbytes: int) -> int:
        """cudaHostRegister: 0, or CUDA's code, which stays behind as the last error too."""
        self.machine.call(nbytes * self.machine.costs.pin_s_per_byte)
        if self.machine.refusals.registered:
            self.machine.latched = "CUDA error: operation not supported"
            return 801
        if self._is_too_much(nbytes):
            self.machine.latched = "CUDA error: out of memory"
            return 2
        if address in self._by_address:
            self.machine.latched = "CUDA error: part or all of the requested memory range is mapped"
            return 712
        block = _Registered(self.machine, f"{nbytes} bytes of registered memory", nbytes)
        block.bytes = torch.frombuffer((c_ubyte * nbytes).from_address(address), dtype=torch.uint8)
        self._by_address[address] = block
        self.stats["registered"] += nbytes
        return 0

    def unregister(self, address: int) -> int:
        self.machine.call()
        if not isinstance(self._by_address.get(address), _Registered):
            self.machine.latched = "CUDA error: pointer does not correspond to a registered memory"
            return 713
        block = self._by_address.pop(address)
        self.stats["registered"] -= block.nbytes
        if any(not self.machine.is_ordered(access, None) for access in block.touched):
            self.machine.report(f"{block.name} are unregistered while a stream uses them")
        block.bytes = torch.empty_like(block.bytes)  # what is still enqueued touches nobody's bytes
        return 0

    def block_of(self, address: int) -> Backed | None:
        """By the address of a tensor's storage; None for pageable memory."""
        return self._by_address.get(address)

    def empty_cache(self) -> None:
        with self.machine.lock:
            self._take_back()
            for block in self._cached:
                del self._by_address[block.address]
                self.stats["allocated"] -= block.nbytes
            self._cached.clear()

    def _is_too_much(self, nbytes: int) -> bool:
        most = self.machine.refusals.pinned_bytes
        used = self.stats["allocated"] + self.stats["registered"]
        return most is not None and used + nbytes > most

    def _freed(self, block: Backed) -> None:
        with self.machine.lock:
            (self._held if block.wait_for_its_streams() else self._cached).append(block)

    def _take_back(self) -> None:
        """As torch does, which asks the events of the blocks' streams."""
        for block in list(self._held):
            if max(block.uses.values()) <= self.machine.now_s:
                self.machine.catch_up()
                block.touched = [a for a in block.touched if a.queue not in block.uses]
                block.uses.clear()
                self._held.remove(block)
                self._cached.append(block)


class _Registered(Backed):
    """Somebody else's bytes."""

    def __post_init__(self) -> None:
        self.bytes = torch.empty(0, dtype=torch.uint8)
