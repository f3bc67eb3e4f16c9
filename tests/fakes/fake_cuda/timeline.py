"""The virtual machine under the stand-in for CUDA: one host clock, GPUs, queues, and who may touch
what. Knows no torch.

Each call costs the host time. What it enqueues gets its start and end at once, by the rules of a
stream and of the engine that runs it; what it does to memory is done later, in the order of the
ends, when the host waits or asks. Whether two accesses of one memory are ordered is decided as a
race detector does it, by what each queue has waited for (vector clocks), never by
their times: a missing wait is found also where the times happened to be right.
"""

import heapq
import itertools
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from hostbench.core.units import GIB
from tests.fakes.fake_cuda.costs import Costs, Refusals
from tests.fakes.fake_cuda.gpu import (
    Access,
    Gpu,
    GpuWork,
    Mark,
    Operation,
    Queue,
    RuntimeCall,
    VectorClock,
    about_others,
    learn,
)

_LOOK_AT_LAST_ERROR = ("kernel", "D2D", "P2P")
"""After these torch asks for CUDA's last error."""


class DataRace(Exception):
    """Two accesses of one memory, one of which writes, that nothing orders. No RuntimeError: what
    handles CUDA's errors does not handle it."""


@dataclass(frozen=True, slots=True)
class Enqueued:
    """What a stream gets to do."""

    what: str
    seconds: float
    engine: str | None
    do: Callable[[], None] | None
    """To memory, when its time has come."""
    touches: tuple["Touch", ...]
    nbytes: int


@dataclass(eq=False, slots=True)
class Capture:
    """A CUDA graph: what was enqueued on one stream while it was being captured, and the blocks
    that were freed meanwhile. They stay the graph's own, for each replay writes to them again."""

    queue: Queue
    nodes: list[Enqueued] = field(default_factory=list)
    pool: list[Any] = field(default_factory=list)
    is_gone: bool = False

    def take(self, queue: Queue, work: Enqueued, error: type[Exception]) -> None:
        """Raises as CUDA does where another stream is used meanwhile."""
        if queue is not self.queue:
            raise error(
                "CUDA error: operation would make the legacy stream depend on a capturing blocking "
                "stream"
            )
        self.nodes.append(work)


@dataclass(eq=False, slots=True)
class Machine:
    """The host, its GPUs and the clock that they share."""

    num_gpus: int = 1
    costs: Costs = field(default_factory=Costs)
    refusals: Refusals = field(default_factory=Refusals)
    name: str = "NVIDIA H200 (stand-in)"
    memory_bytes: int = 80 * GIB
    """Of each GPU."""
    uuids: tuple[str, ...] = ()
    broken: str = ""
    """What CUDA says instead of starting; empty where it starts."""
    process: int | None = None
    """That started CUDA."""
    now_s: float = 0.0
    device: int = 0
    """The current device."""
    lost: Callable[[], None] = lambda: None
    """Told when the GPUs fall off the bus."""
    are_lost: Callable[[], bool] = lambda: False
    """Whether they have, as another process saw: then CUDA starts without any."""
    moved: Callable[[int, int, int], None] = lambda gpu, into, out_of: None
    """Told of bytes over a GPU's link: the GPU, bytes into it, bytes out of it."""
    gpus: list[Gpu] = field(init=False)
    known: VectorClock = field(default_factory=dict)
    """What the host has waited for."""
    latched: str | None = None
    """CUDA's last error: the next launch of a kernel raises it, or the next copy between GPUs."""
    sticky: str | None = None
    """Every call raises it from now on."""
    reported: list[str] = field(default_factory=list)
    """Races found where nothing can be raised: the next call raises the first."""
    capture: Capture | None = None
    """The graph that is being captured now."""
    sync_mode: int = 0
    """torch's debug mode of synchronizations: 1 warns, 2 raises."""
    has_raced: bool = False
    """Since the last device-wide wait: what a race leaves behind is no other race."""
    calls: list[RuntimeCall] | None = None
    """While a profiler runs."""
    operations: list[Operation] | None = None
    """While a profiler runs."""
    error: type[Exception] = RuntimeError
    lock: AbstractContextManager[bool] = field(default_factory=threading.RLock)
    """A thread of the host holds it while it changes what others use too."""
    behind_the_scenes: Callable[[], AbstractContextManager[Any]] = nullcontext
    """Around what enqueued work does to memory."""
    _waiting: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _correlation: int = 0
    """Of the call that the host is in."""
    _in_operation: bool = False
    _untold: list[str] = field(default_factory=list)
    """Warnings of the operation that the host is in."""
    _tickets: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        uuids = self.uuids or [f"{n:08x}-1111-2222-3333-444444444444" for n in range(self.num_gpus)]
        self.gpus = [Gpu(index, uuids[index]) for index in range(self.num_gpus)]

    # ---- the host ---------------------------------------------------------------------------

    def call(self, seconds: float | None = None) -> None:
        """The host makes a call into CUDA. Raises what has gone wrong before."""
        self.now_s += self.costs.call_s if seconds is None else seconds
        lost_s = self.refusals.lost_after_s
        if lost_s is not None and self.now_s >= lost_s and not self.sticky:
            self.sticky = "CUDA error: unspecified launch failure"
            self.lost()
        if self.sticky:
            raise self.error(self.sticky)
        if self.reported:
            race, self.reported = self.reported[0], []
            raise DataRace(race)

    @contextmanager
    def api(self, name: str) -> Iterator[int]:
        """The host is in that function of CUDA's runtime: its correlation. A function that another
        one uses inside counts as that one."""
        if self._correlation:
            yield self._correlation
            return
        self._correlation, start_s = next(self._tickets), self.now_s
        try:
            yield self._correlation
        finally:
            made, self._correlation = self._correlation, 0
            if self.calls is not None:
                thread = threading.get_native_id()
                self.calls.append(RuntimeCall(name, start_s, self.now_s, made, thread))

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """The host is in that operation of torch. As torch's bindings do (torch/csrc/Exceptions.h)
        it warns when it comes out of it; an operation that another one uses is part of that."""
        if self._in_operation:
            yield
            return
        self._in_operation, start_s = True, self.now_s
        try:
            yield
        finally:
            self._in_operation = False
            if self.operations is not None:
                thread = threading.get_native_id()
                self.operations.append(Operation(name, start_s, self.now_s, thread))
            untold, self._untold = self._untold, []
            for text in untold:
                warnings.warn(text, UserWarning, stacklevel=2)

    def tell_of_sync(self) -> None:
        """What torch says, if it shall, where it waits for a stream; of other waits it does not
        know (c10/cuda/CUDAFunctions.h)."""
        said = "called a synchronizing CUDA operation"
        if self.sync_mode == 2:
            raise RuntimeError(said)
        if self.sync_mode == 1:
            self._untold.append(said)

    def work(self, nbytes: int) -> None:
        """The host writes so many bytes itself."""
        self.now_s += self.costs.call_s + nbytes / self.costs.host_bytes_per_s

    def wait_device(self, gpu: Gpu, why: str = "device") -> None:
        self._may_wait()
        with self.api("cudaDeviceSynchronize" if why == "device" else "cudaFree"):
            self.call()
            gpu.counts[why] += 1
            self._wait_until(max(queue.free_s for queue in gpu.queues))
        self._now_everything_is_done(gpu)
        self.call(0.0)

    def wait_queue(self, queue: Queue, why: str = "stream") -> None:
        self._may_wait()
        with self.api("cudaStreamSynchronize"):
            self.call()
            queue.gpu.counts[why] += 1
            self._wait_until(queue.free_s)
        learn(self.known, queue.all_known())
        self.call(0.0)

    def wait_mark(self, mark: Mark, gpu: Gpu) -> None:
        self._may_wait()
        with self.api("cudaEventSynchronize"):
            self.call()
            gpu.counts["event"] += 1
            self._wait_until(mark.at_s)
        learn(self.known, mark.known)
        self.call(0.0)

    def ask(self, at_s: float, known: VectorClock, api: str = "cudaEventQuery") -> bool:
        """Whether that moment has come: then the host knows what was done before it."""
        with self.api(api):
            self.call()
        self.catch_up()
        if at_s > self.now_s:
            return False
        learn(self.known, known)
        return True

    # ---- queues -----------------------------------------------------------------------------

    def enqueue(
        self,
        queue: Queue,
        what: str,
        seconds: float,
        engine: str | None = None,
        do: Callable[[], None] | None = None,
        touches: Iterable["Touch"] = (),
        nbytes: int = 0,
    ) -> None:
        """Enqueue work that takes `engine` for so long; `do` is what it does to memory."""
        with self.api("cudaLaunchKernel" if what.startswith("kernel") else "cudaMemcpyAsync") as by:
            self.call(self.costs.launch_s)
        if self.latched and what.startswith(_LOOK_AT_LAST_ERROR):
            error, self.latched = self.latched, None
            raise self.error(error)
        work = Enqueued(what, seconds, engine, do, tuple(touches), nbytes)
        if self.capture is not None:
            self.capture.take(queue, work, self.error)
        else:
            self._place(queue, work, by)

    def replay(self, graph: Capture, queue: Queue) -> None:
        """All of a captured graph, for one launch of the host."""
        with self.api("cudaGraphLaunch") as by:
            self.call(self.costs.launch_s)
        for work in graph.nodes:
            self._place(queue, work, by)

    def _place(self, queue: Queue, work: Enqueued, by: int) -> None:
        """In its stream, by the call that enqueued it."""
        gpu = queue.gpu
        if work.what.startswith("kernel"):
            gpu.counts["launches"] += 1
        elif work.nbytes:
            gpu.counts[work.what] += work.nbytes
        learn(queue.known, self.known)
        queue.last = ticket = next(self._tickets)
        for block, start, stop, writes in work.touches:
            block.touch(Access(queue, ticket, start, stop, writes))
        start_s = max(self.now_s, queue.free_s, gpu.engines.get(work.engine or "", 0.0))
        queue.free_s = end_s = start_s + work.seconds
        if work.engine is not None:
            gpu.engines[work.engine] = end_s
        if work.seconds:
            done = GpuWork(gpu.index, work.what, queue.number, start_s, end_s, work.nbytes, by)
            gpu.log.append(done)
        if work.do is not None:
            heapq.heappush(self._waiting, (end_s, ticket, work.do))

    def behind(self, queue: Queue, do: Callable[[], None]) -> None:
        """Do something, in no time, once everything enqueued so far is done."""
        heapq.heappush(self._waiting, (queue.free_s, next(self._tickets), do))

    def report(self, race: str) -> None:
        """A race where nothing can be raised."""
        if not self.has_raced:
            self.has_raced = True
            self.reported.append(race)

    def record(self, queue: Queue) -> Mark:
        self._may_wait("events")
        with self.api("cudaEventRecord"):
            self.call(self.costs.launch_s)
        learn(queue.known, self.known)
        return Mark(max(self.now_s, queue.free_s), queue.all_known())

    def let_wait(self, queue: Queue, mark: Mark) -> None:
        self._may_wait("events")
        with self.api("cudaStreamWaitEvent"):
            self.call()
        queue.free_s = max(queue.free_s, mark.at_s)
        learn(queue.known, mark.known)

    def is_ordered(self, access: Access, queue: Queue | None) -> bool:
        """Whether an earlier access is done before what `queue` (or the host) does next."""
        if access.ticket <= access.queue.gpu.waited or access.queue is queue:
            return True
        if access.ticket <= self.known.get(access.queue, 0):
            return True
        return queue is not None and access.ticket <= queue.known.get(access.queue, 0)

    def _may_wait(self, what: str = "") -> None:
        """Raises as CUDA does of a wait of the host while a graph is captured."""
        if self.capture is not None and what:
            raise NotImplementedError(f"the stand-in for CUDA captures no {what} in a graph")
        if self.capture is not None:
            raise self.error("CUDA error: operation not permitted when stream is capturing")

    def _wait_until(self, moment_s: float) -> None:
        self.now_s = max(self.now_s, moment_s)
        self.catch_up()

    def catch_up(self) -> None:
        """Do to memory what is done by now."""
        if not self._waiting or self._waiting[0][0] > self.now_s:
            return
        with self.lock, self.behind_the_scenes():
            while self._waiting and self._waiting[0][0] <= self.now_s:
                heapq.heappop(self._waiting)[2]()

    def _now_everything_is_done(self, gpu: Gpu) -> None:
        self.has_raced = False
        gpu.waited = max(queue.last for queue in gpu.queues)
        self.known = about_others(self.known, gpu)
        for queue in (queue for each in self.gpus for queue in each.queues):
            queue.known = about_others(queue.known, gpu)


@dataclass(eq=False, slots=True)
class Block:
    """A piece of memory, and who has touched it."""

    machine: Machine
    name: str
    nbytes: int
    last_read: int = 0
    """Ticket."""
    touched: list[Access] = field(default_factory=list)

    def touch(self, access: Access) -> None:
        """Raises DataRace where an earlier access conflicts and nothing orders the two."""
        self._check(access.start, access.stop, access.writes, access.queue)
        if not access.writes:
            self.last_read = access.ticket
        kept = [
            old
            for old in self.touched
            if not self.machine.is_ordered(old, access.queue)
            or old.start < access.start
            or old.stop > access.stop
            or (old.writes and not access.writes)
        ]
        self.touched = [*kept, access]

    def touch_by_host(self, start: int, stop: int, writes: bool) -> None:
        self._check(start, stop, writes, None)
        self.touched = [old for old in self.touched if not self.machine.is_ordered(old, None)]

    def _check(self, start: int, stop: int, writes: bool, queue: Queue | None) -> None:
        for old in self.touched:
            overlaps = old.start < stop and start < old.stop
            if not overlaps or not (old.writes or writes):
                continue
            if not self.machine.is_ordered(old, queue):
                who = "the host" if queue is None else f"stream {queue.number}"
                self.machine.has_raced = True
                raise DataRace(
                    f"{who} {'writes' if writes else 'reads'} {self.name} while stream "
                    f"{old.queue.number} {'writes' if old.writes else 'reads'} it: nothing orders "
                    "the two (an event's wait or a synchronize is missing)"
                )


Touch = tuple[Block, int, int, bool]
"""A block, the first byte, the one after the last, and whether it is written."""
