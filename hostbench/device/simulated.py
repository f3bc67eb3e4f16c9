"""The simulated device: a virtual clock, exact to the last digit. Nothing is measured here.

The host has one clock. Every enqueued copy, compute or delay costs the host `launch_s` (events are
free); every synchronize costs `wait_s` once the awaited work has finished. A stream runs its work
in order; a copy needs a copy engine (one, shared by both directions, or two, one each), compute
needs the compute engine; a piece of work starts when the host has enqueued it and its stream and
its engine are free. An engine takes work in the order of enqueueing, whatever stream it is from:
work that waits for its stream holds up what was enqueued for its engine later. Pinned copies run
at the link's rate after `latency_s`. A pageable copy first waits for its stream, then stages at
`pageable_bytes_per_s` while the host waits: never asynchronous, as on CUDA. Allocation is
`alloc_s` on the host; touching or filling host memory runs at `host_bytes_per_s`, generating
random numbers at `host_randn_bytes_per_s` or, on the device, `device_randn_bytes_per_s`.

Data is simulated too: a buffer holds a token from the time at which its copy ends. Reading before
the copy starts reads what was there before, reading while it runs reads neither.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hostbench.device.protocol import Fill, Step
from hostbench.units import GB


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """What the simulated machine is made of. The default is a round-numbered PCIe Gen5 x16 card."""

    host_to_device_bytes_per_s: float = 50 * GB
    device_to_host_bytes_per_s: float = 50 * GB
    pageable_bytes_per_s: float = 10 * GB
    latency_s: float = 5e-6
    launch_s: float = 2e-6
    wait_s: float = 3e-6
    alloc_s: float = 1e-6
    num_copy_engines: int = 2
    host_bytes_per_s: float = 20 * GB
    device_bytes_per_s: float = 2000 * GB
    host_randn_bytes_per_s: float = 0.5 * GB
    device_randn_bytes_per_s: float = 500 * GB


@dataclass(slots=True, eq=False)
class SimulatedBuffer:
    """`nbytes` in some memory. `writes` is (start in seconds, end, token), in order of time."""

    nbytes: int
    on_host: bool
    pinned: bool = False
    writes: list[tuple[float, float, object]] = field(default_factory=list)
    marks: list["Mark"] = field(default_factory=list)
    """Notes of what it held, not yet known: a copy may still be enqueued that ends before them."""

    def token(self, at_s: float) -> object:
        """What a reader sees at that time: while a copy runs, neither the old nor the new."""
        for start_s, end_s, token in reversed(self.writes):
            if end_s <= at_s:
                return token
            if start_s < at_s:
                return ("torn", start_s)
        return None

    def write(self, now_s: float, start_s: float, end_s: float, token: object) -> None:
        """From `end_s` on readers see `token`. Nobody reads before `now_s` any more."""
        self.settle_marks(now_s)
        places = range(len(self.writes) - 1, 0, -1)
        seen = next((place for place in places if self.writes[place][1] <= now_s), 0)
        self.writes = [*self.writes[seen:], (start_s, end_s, token)]

    def settle_marks(self, now_s: float) -> None:
        """Resolve the marks that the host's clock has passed: no later copy can end before them."""
        for mark in self.marks:
            if mark.read_s <= now_s:
                mark.token = self.token(mark.read_s)
        self.marks = [mark for mark in self.marks if mark.read_s > now_s]


@dataclass(slots=True, eq=False)
class Mark:
    """When a buffer was read, and what it held then."""

    buffer: SimulatedBuffer
    read_s: float
    token: object = None


@dataclass(slots=True, eq=False)
class SimulatedStream:
    device: "SimulatedDevice"
    free_s: float = 0.0

    def wait(self, event: "SimulatedEvent") -> None:
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

    def seconds_since(self, earlier: "SimulatedEvent") -> float:
        return self.at_s - earlier.at_s


class SimulatedDevice:
    """See the module's docstring."""

    name = "simulated"

    def __init__(self, link: Link | None = None) -> None:
        self.link = link or Link()
        self.host_s = 0.0
        self.current = self.default = SimulatedStream(self)
        self._streams = [self.default]
        self._engine_free_s: dict[str, float] = {}

    def now(self) -> float:
        return self.host_s

    def settle(self) -> None:
        """A virtual link never sleeps."""

    def host_buffer(self, nbytes: int, *, pinned: bool) -> SimulatedBuffer:
        self.host_s += nbytes / self.link.host_bytes_per_s
        return SimulatedBuffer(nbytes, on_host=True, pinned=pinned)

    def buffer(self, nbytes: int) -> SimulatedBuffer:
        return SimulatedBuffer(nbytes, on_host=False)

    def fill_pattern(self, buffer: SimulatedBuffer, seed: int) -> None:
        self.synchronize()
        buffer.write(self.host_s, self.host_s, self.host_s, ("pattern", seed))

    def same_bytes(self, left: SimulatedBuffer, right: SimulatedBuffer) -> bool:
        return left.token(self.host_s) == right.token(self.host_s)

    def marks(self, num: int) -> list["Mark"]:
        return [Mark(SimulatedBuffer(0, on_host=False), 0.0)] * num

    def mark(self, marks: list["Mark"], place: int, buffer: SimulatedBuffer) -> None:
        marks[place] = Mark(buffer, self._enqueue("compute", 0.0)[0])
        buffer.marks.append(marks[place])

    def marked(self, marks: list["Mark"], place: int, source: SimulatedBuffer) -> bool:
        marks[place].buffer.settle_marks(self.host_s)
        return marks[place].token == source.token(self.host_s)

    def copy(self, target: SimulatedBuffer, source: SimulatedBuffer, *, blocking: bool) -> None:
        if not source.on_host and not target.on_host:
            start_s, end_s = self._enqueue("compute", source.nbytes / self.link.device_bytes_per_s)
            target.write(self.host_s, start_s, end_s, source.token(start_s))
            return self.current.synchronize() if blocking else None
        to_device = source.on_host and not target.on_host
        host = source if to_device else target
        rate = (
            self.link.host_to_device_bytes_per_s
            if to_device
            else self.link.device_to_host_bytes_per_s
        )
        seconds = self.link.latency_s + source.nbytes / rate
        if not host.pinned:
            seconds = self.link.latency_s + source.nbytes / min(
                rate, self.link.pageable_bytes_per_s
            )
        engine = "copy" if self.link.num_copy_engines == 1 or to_device else "copy back"
        start_s, end_s = self._enqueue(engine, seconds)
        target.write(self.host_s, start_s, end_s, source.token(start_s))
        if blocking:
            self.current.synchronize()
        elif not host.pinned:
            self.host_s = max(self.host_s, end_s)

    def create(self, fill: Fill, nbytes: int, *, on_host: bool) -> SimulatedBuffer:
        made = SimulatedBuffer(nbytes, on_host=on_host)
        self.host_s += self.link.alloc_s
        link = self.link
        if on_host:
            rates = {"zeros": link.host_bytes_per_s, "randn": link.host_randn_bytes_per_s}
            self.host_s += nbytes / rates[fill] if fill in rates else 0.0
        elif fill != "empty":
            rates = {"zeros": link.device_bytes_per_s, "randn": link.device_randn_bytes_per_s}
            self._enqueue("compute", nbytes / rates[fill])
        return made

    def move(self, source: SimulatedBuffer) -> SimulatedBuffer:
        self.host_s += self.link.alloc_s
        moved = self.buffer(source.nbytes)
        self.copy(moved, source, blocking=True)
        return moved

    def compute(self, seconds: float) -> Step:
        return lambda: _ignore(self._enqueue("compute", seconds))

    def delay(self, seconds: float) -> None:
        self._enqueue("delay", seconds)

    def stream(self) -> SimulatedStream:
        made = SimulatedStream(self)
        self._streams.append(made)
        return made

    @contextmanager
    def on(self, stream: SimulatedStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def event(self, *, timing: bool = True) -> SimulatedEvent:
        return SimulatedEvent(self)

    def synchronize(self) -> None:
        self.wait_until(max(stream.free_s for stream in self._streams))

    def memory_stats(self) -> dict[str, int]:
        return {}

    def reset(self) -> None:
        self.synchronize()
        self._streams = [self.default]
        self.current = self.default

    def close(self) -> None:
        """Nothing to stop."""

    def wait_until(self, end_s: float) -> None:
        """The host waits for `end_s`, then pays for having waited."""
        self.host_s = max(self.host_s, end_s) + self.link.wait_s

    def _enqueue(self, engine: str, seconds: float) -> tuple[float, float]:
        """(start, end) of `seconds` of work on the current stream; the host pays for the launch."""
        self.host_s += self.link.launch_s
        stream = self.current
        start_s = max(self.host_s, stream.free_s, self._engine_free_s.get(engine, 0.0))
        stream.free_s = self._engine_free_s[engine] = start_s + seconds
        return start_s, stream.free_s


def _ignore(_: object) -> None:
    """A step returns nothing."""
