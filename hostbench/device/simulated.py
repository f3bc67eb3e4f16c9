"""The simulated device: a virtual clock, exact to the last digit. Nothing is measured here.

The host has one clock. Enqueueing costs it `launch_s` (events are free), a synchronize `wait_s`
once the awaited work has finished. A stream runs its work in order. A copy needs a copy engine
(one, or one for each direction), compute the compute engine, which takes work in the order of
enqueueing, whatever stream it is from. A pageable copy is staged while the host waits: never
asynchronous, as on CUDA.

Data is simulated too: a buffer holds a token from the time at which its copy ends. Reading before
the copy starts reads what was there before, reading while it runs reads neither.

The figures are those of `simulated_file.Link`; what a declared simulation says of a case multiplies
every time but that of a delay while the case is measured.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from hostbench.core.case import Case
from hostbench.device.activity import COMPUTE, DEFAULT_STREAM, Activity, Observation
from hostbench.device.base import Device, Fill, HostRead, Memory, Route, Step, lacking, learned
from hostbench.device.loading import Loading
from hostbench.device.simulated_file import Simulation

DELAY = "delay"
"""The engine of waiting: it is no work, and never slower than asked."""


@dataclass(slots=True, eq=False)
class SimulatedBuffer:
    """`nbytes` in some memory, or a view of it, which shares what is written. `writes` is (start in
    seconds, end, token), in order of time. The token of a copy is what its source held when it
    began: asked for when it is read, for what is enqueued later may have been there by then."""

    nbytes: int
    on_host: bool
    pinned: bool = False
    device: int = 0
    writes: list[tuple[float, float, Any]] = field(default_factory=list)

    def write(self, token: Any, start_s: float, end_s: float | None = None) -> None:
        """At once, where no end is given."""
        self.writes.append((start_s, start_s if end_s is None else end_s, token))

    def token(self, at_s: float) -> Any:
        """What a reader sees at that time: while a copy runs, neither the old nor the new."""
        for start_s, end_s, token in reversed(self.writes):
            if end_s <= at_s:
                return token() if callable(token) else token
            if start_s < at_s:
                return ("torn", start_s)
        return None

    def __getitem__(self, part: slice) -> "SimulatedBuffer":
        """A view of these bytes."""
        return replace(self, nbytes=len(range(*part.indices(self.nbytes))))


@dataclass(slots=True, eq=False)
class SimulatedStream:
    device: "SimulatedDevice"
    name: str = DEFAULT_STREAM
    free_s: float = 0.0

    def wait_event(self, event: Any) -> None:
        self.free_s = max(self.free_s, event.at_s)

    def synchronize(self) -> None:
        self.device.wait_until(self.free_s)


@dataclass(slots=True, eq=False)
class SimulatedEvent:
    device: "SimulatedDevice"
    at_s: float = 0.0

    def record(self, stream: SimulatedStream | None = None) -> None:
        self.at_s = max((stream or self.device.current).free_s, self.device.host_s)

    def synchronize(self) -> None:
        self.device.wait_until(self.at_s)

    def query(self) -> bool:
        return self.at_s <= self.device.host_s


class SimulatedDevice(Device):
    """See the module's docstring."""

    name = "simulated"

    def __init__(self, simulation: Simulation | None = None, *, launch: int = 0) -> None:
        self._simulation, self._launch = simulation or Simulation(), launch
        self.link = self._simulation.link
        self.lacks = lacking(self.name, 2)
        self._begin()

    def _begin(self) -> None:
        self.pace = 1.0
        self.host_s = 0.0
        self.current = SimulatedStream(self)
        self._streams: list[SimulatedStream] = [self.current]
        self._engine_free_s: dict[str, float] = {}
        self._cached: set[tuple[bool, int]] = set()
        self._seen: list[Activity] = []
        self._num_waits = 0
        self._is_replaying = False

    def now(self) -> float:
        return self.host_s

    def enter(self, case: Case) -> None:
        self.pace = self._simulation.pace(case, self._launch)

    # ---- memory

    def host_buffer(self, nbytes: int, *, pinned: bool) -> SimulatedBuffer:
        self.spend(nbytes / self.link.host_bytes_per_s)
        return SimulatedBuffer(nbytes, on_host=True, pinned=pinned)

    def registered_buffer(self, nbytes: int, *, far: bool = False) -> SimulatedBuffer:
        return self.host_buffer(nbytes, pinned=True)

    def buffer(self, nbytes: int) -> SimulatedBuffer:
        return SimulatedBuffer(nbytes, on_host=False)

    def second_buffer(self, nbytes: int, route: Route) -> SimulatedBuffer:
        return SimulatedBuffer(nbytes, on_host=False, device=1)

    def fill_pattern(self, buffer: SimulatedBuffer, seed: int) -> None:
        self.synchronize()
        buffer.write(("pattern", seed), self.host_s)

    def same_values(self, left: SimulatedBuffer, right: SimulatedBuffer) -> bool:
        return bool(left.token(self.host_s) == right.token(self.host_s))

    def creator(self, fill: Fill, nbytes: int, *, on_host: bool) -> Callable[[], SimulatedBuffer]:
        def create() -> SimulatedBuffer:
            created = self.allocate(nbytes, on_host=on_host)
            if on_host:
                self.fill(created, fill)
            elif fill != "empty":
                self.enqueue("compute", nbytes / self.link.device_bytes_per_s, what=COMPUTE)
            return created

        return create

    def fill(self, buffer: SimulatedBuffer, fill: Fill) -> None:
        if fill != "empty":
            self.touch(buffer)

    def allocator(self, nbytes: int, memory: Memory) -> Callable[[], SimulatedBuffer]:
        pinned, on_host = memory == "pinned", memory != "device"

        def allocate() -> SimulatedBuffer:
            allocated = self.allocate(nbytes, on_host=on_host, pinned=pinned)
            if memory == "pageable":
                self.touch(allocated)
            return allocated

        return allocate

    def touch(self, buffer: SimulatedBuffer) -> None:
        self.spend(buffer.nbytes / self.link.host_bytes_per_s)

    def pin(self, source: SimulatedBuffer) -> SimulatedBuffer:
        pinned = self.allocate(source.nbytes, on_host=True, pinned=True)
        self.touch(pinned)
        pinned.write(source.token(self.host_s), self.host_s)
        return pinned

    def move(self, source: SimulatedBuffer, *, blocking: bool = True) -> SimulatedBuffer:
        moved = self.allocate(source.nbytes, on_host=False)
        self.copy(moved, source, blocking=blocking)
        return moved

    def fetcher(
        self, source: SimulatedBuffer, *, blocking: bool = True
    ) -> Callable[[], SimulatedBuffer]:
        def fetch() -> SimulatedBuffer:
            fetched = self.allocate(source.nbytes, on_host=True, pinned=not blocking)
            self.copy(fetched, source, blocking=blocking)
            return fetched

        return fetch

    def drop_caches(self) -> None:
        self.synchronize()
        self._cached.clear()

    def keep_for(self, buffer: SimulatedBuffer, stream: SimulatedStream) -> None:
        """Nothing here is ever freed."""

    def allocate(self, nbytes: int, *, on_host: bool, pinned: bool = False) -> SimulatedBuffer:
        """The host pays; the caches of device and pinned memory answer a size seen before."""
        self.spend(self.link.alloc_s)
        is_cacheable = pinned or not on_host
        if is_cacheable and (pinned, nbytes) not in self._cached:
            self._cached.add((pinned, nbytes))
            self.spend(nbytes / self.link.pin_bytes_per_s if pinned else self.link.malloc_s)
        return SimulatedBuffer(nbytes, on_host=on_host, pinned=pinned)

    # ---- copies

    def copy(self, target: SimulatedBuffer, source: SimulatedBuffer, *, blocking: bool) -> None:
        link, nbytes, into = self.link, source.nbytes, source.on_host
        pageable = (source.on_host or target.on_host) and not (source if into else target).pinned
        if not source.on_host and not target.on_host:
            is_here = source.device == target.device
            engine, what = ("compute", "D2D") if is_here else ("peer", "P2P")
            rate = link.device_bytes_per_s if is_here else link.peer_bytes_per_s
            seconds = nbytes / rate + (0.0 if is_here else link.latency_s)
        else:
            rate = link.host_to_device_bytes_per_s if into else link.device_to_host_bytes_per_s
            rate = min(rate, link.pageable_bytes_per_s) if pageable else rate
            engine = "copy" if link.num_copy_engines == 1 or into else "copy back"
            what = f"{'H2D' if into else 'D2H'} {'pageable' if pageable else 'pinned'}"
            seconds = link.latency_s + nbytes / rate
        start_s, end_s = self.enqueue(engine, seconds, what=what, nbytes=nbytes)
        target.write(partial(source.token, start_s), start_s, end_s)
        if blocking:
            self.current.synchronize()
        elif pageable:
            self._num_waits += 1
            self.host_s = max(self.host_s, end_s)

    # ---- work and waits

    def compute(self, seconds: float) -> Step:
        return partial(self.enqueue, "compute", seconds, what=COMPUTE)

    def delay(self, seconds: float) -> None:
        self.enqueue(DELAY, seconds)

    def stream(self) -> SimulatedStream:
        self._streams.append(SimulatedStream(self, f"stream {len(self._streams)}"))
        return self._streams[-1]

    def event(self, *, timing: bool = True, blocking: bool = False) -> SimulatedEvent:
        return SimulatedEvent(self)

    def seconds_between(self, start: SimulatedEvent, end: SimulatedEvent) -> float:
        return end.at_s - start.at_s

    def loader(self, loading: Loading) -> "SimulatedLoader":
        return SimulatedLoader(self, loading)

    def spin(self, event: SimulatedEvent) -> None:
        self.host_s = max(self.host_s, event.at_s)

    def counter(self) -> SimulatedBuffer:
        counter = self.buffer(4)
        counter.write(0, self.host_s)
        return counter

    def advance(self, counter: SimulatedBuffer) -> None:
        number = counter.writes[-1][2]
        counter.write(number + 1, *self.enqueue("compute", 0.0))

    def host_read(self, how: HostRead, counter: SimulatedBuffer) -> Callable[[], Any]:
        if how == "shape":
            return lambda: (1,)
        if how == "synchronize":
            return self.synchronize
        host = SimulatedBuffer(counter.nbytes, on_host=True)

        def read() -> Any:
            self.copy(host, counter, blocking=True)
            return learned(how, host.token(self.host_s))

        return read

    def graph(self, work: Step) -> Step:
        def replay() -> None:
            self.spend(self.link.launch_s)
            self._is_replaying = True
            work()
            self._is_replaying = False

        return replay

    def synchronize(self) -> None:
        self.wait_until(max(stream.free_s for stream in self._streams))

    def observe(
        self, work: Step, ready: Step = lambda: None, *, traced: bool = False
    ) -> Observation:
        """A trace is on the virtual clock; its row `host` has the whole of `work`."""
        ready()
        self.synchronize()
        self._seen = []
        start_s, before = self.now(), self._num_waits
        work()
        self.synchronize()
        whole = Activity(what="work", start_s=start_s, end_s=self.now(), stream="host")
        trace = [
            {
                "ph": "X",
                "name": row.what,
                "cat": row.what,
                "pid": self.name,
                "tid": row.stream,
                "ts": round(row.start_s * 1e6, 3),
                "dur": round((row.end_s - row.start_s) * 1e6, 3),
                "args": {"bytes": row.nbytes} if row.nbytes else {},
            }
            for row in (whole, *self._seen)
            if traced
        ]
        return Observation(
            activities=self._seen, num_waits=self._num_waits - before - 1, trace=trace
        )

    def reset(self) -> None:
        """The clock begins anew: what a case comes to depends on none before it."""
        self._begin()

    def wait_until(self, end_s: float) -> None:
        """The host waits for `end_s`, then pays for having waited."""
        self._num_waits += 1
        self.host_s = max(self.host_s, end_s)
        self.spend(self.link.wait_s)

    def spend(self, seconds: float) -> None:
        """The host is busy."""
        self.host_s += seconds * self.pace

    def enqueue(
        self, engine: str, seconds: float, *, what: str | None = None, nbytes: int = 0
    ) -> tuple[float, float]:
        """(start, end) of `seconds` of work on the current stream; the host pays for the launch.
        `what` names work that `observe` shows."""
        if not self._is_replaying:
            self.spend(self.link.launch_s)
        if engine != DELAY:
            seconds *= self.pace
        stream = self.current
        start_s = max(self.host_s, stream.free_s, self._engine_free_s.get(engine, 0.0))
        end_s = stream.free_s = self._engine_free_s[engine] = start_s + seconds
        if what is not None:
            done = Activity(
                what=what, start_s=start_s, end_s=end_s, nbytes=nbytes, stream=stream.name
            )
            self._seen.append(done)
        return start_s, end_s


class SimulatedLoader:
    """When each batch of a DataLoader is there, by torch's rules: `prefetch_factor` batches are
    asked of each worker at the start of an epoch and one more whenever one is taken; batches come
    in order, from workers in turn that have a core each. Batches that shall be pinned are pinned
    one after the other; without workers the loop loads them itself."""

    def __init__(self, device: SimulatedDevice, loading: Loading) -> None:
        self._device, self._loading = device, loading
        self._has_workers = False

    def __iter__(self) -> Iterator[SimulatedBuffer]:
        device, loading = self._device, self._loading
        if loading.num_workers and not (self._has_workers and loading.persistent):
            device.spend(loading.num_workers * device.link.start_worker_s)
            self._has_workers = True
        pinned_s = device.host_s
        asked_s, free_s = [pinned_s] * loading.ahead, [pinned_s] * loading.num_workers
        pinning_s = loading.batch_bytes / device.link.host_bytes_per_s if loading.pinned else 0.0
        for batch in itertools.islice(itertools.count(), loading.num_batches):
            if loading.num_workers == 0:
                device.spend(loading.seconds(batch) + pinning_s)
            else:
                worker, slot = batch % loading.num_workers, batch % loading.ahead
                begin_s = max(asked_s[slot], free_s[worker])
                free_s[worker] = begin_s + loading.seconds(batch) * device.pace
                pinned_s = max(free_s[worker], pinned_s) + pinning_s * device.pace
                asked_s[slot] = device.host_s = max(device.host_s, pinned_s)
            yield self.expected(batch, pinned=loading.pinned)

    def expected(self, batch: int, *, pinned: bool = False) -> SimulatedBuffer:
        buffer = SimulatedBuffer(self._loading.batch_bytes, on_host=True, pinned=pinned)
        buffer.write(("batch", batch), self._device.host_s)
        return buffer
