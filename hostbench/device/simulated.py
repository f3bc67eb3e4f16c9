"""The simulated device: a virtual clock, exact to the last digit. Nothing is measured here.

The host has one clock. Every enqueued copy, compute or delay costs the host `launch_s` (events are
free); every synchronize costs `wait_s` once the awaited work has finished. A stream runs its work
in order; a copy needs a copy engine (one, shared by both directions, or two, one each), compute
needs the compute engine; a piece of work starts when the host has enqueued it and its stream and
its engine are free. An engine takes work in the order of enqueueing, whatever stream it is from:
work that waits for its stream holds up what was enqueued for its engine later. Pinned copies run
at the link's rate after `latency_s`. A pageable copy first waits for its stream, then stages at
`pageable_bytes_per_s` while the host waits: never asynchronous, as on CUDA.

Allocation is `alloc_s` on the host, and `malloc_s` more on the device, or page-locking at
`pin_bytes_per_s`, while no cache has seen the size since `drop_caches`. Touching, filling, casting
and gathering host memory runs at `host_bytes_per_s`, on the device at `device_bytes_per_s`;
generating random numbers at `host_randn_bytes_per_s` or `device_randn_bytes_per_s`. Which side
casts and gathers is decided as in torch's CUDA copy: memory that is not dense is gathered first, on
the side it is on; a cast runs on the host when the copy blocks and on the device when it does not;
what the host casts or gathers is pageable, whatever its source was (pytorch,
aten/src/ATen/native/cuda/Copy.cu).

What a program does with a small tensor (`trap`) is the kernels of `_KERNELS`, which take no time
but their launches, around one pageable copy of its 4 bytes to the host, which waits; `print` reads
it once. A query never costs anything, and who spins is back when the event is reached, with nothing
to pay. A replayed graph costs one launch.

Data is simulated too: a buffer holds a token from the time at which its copy ends. Reading before
the copy starts reads what was there before, reading while it runs reads neither.

A declared simulation (`simulated_file`) has other figures, and a pace that multiplies every time
but that of a delay while a case is measured.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hostbench.core.case import Case
from hostbench.device.activity import COMPUTE, DEFAULT_STREAM, Activity
from hostbench.device.base import (
    SECOND_DEVICE,
    Device,
    DType,
    Fill,
    Memory,
    Step,
    Where,
    lacking,
)
from hostbench.device.loading import Loading
from hostbench.device.simulated_loader import SimulatedLoader
from hostbench.device.simulated_pace import Pace
from hostbench.device.simulated_parts import (
    Contents,
    Link,
    Note,
    SimulatedBuffer,
    SimulatedEvent,
    SimulatedStream,
)
from hostbench.device.traps import Trap, learned

__all__ = ["Link", "SimulatedBuffer", "SimulatedDevice"]

DELAY = "delay"
"""The engine of waiting: it is no work, and never slower than asked."""
_SIZES = {"uint8": 1, "float16": 2, "float32": 4}
_KERNELS = {"if_greater": (1, 0), "nonzero": (1, 1), "mask": (2, 1)}
"""Of a trap: before and after the host has read; the others need none."""


class SimulatedDevice(Device):
    """See the module's docstring."""

    name = "simulated"

    def __init__(self, link: Link | None = None, pace: Pace | None = None) -> None:
        self.link = link or Link()
        self.lacks = lacking(self.name, self.link.num_devices)
        self.pace = pace or Pace()
        self.host_s = 0.0
        self.current = self.default = SimulatedStream(self.wait_until)
        self._streams = [self.default]
        self._engine_free_s: dict[str, float] = {}
        self._cached: set[tuple[str, int]] = set()
        self._seen: list[Activity] = []
        self._num_waits = 0
        self._is_replaying = False

    def now(self) -> float:
        return self.host_s

    def enter(self, case: Case) -> None:
        self.pace.enter(case)

    def host_buffer(self, nbytes: int, *, pinned: bool) -> SimulatedBuffer:
        self.spend(nbytes / self.link.host_bytes_per_s)
        return SimulatedBuffer(nbytes, on_host=True, pinned=pinned)

    def registered_buffer(self, nbytes: int) -> SimulatedBuffer:
        return self.host_buffer(nbytes, pinned=True)

    def buffer(self, nbytes: int) -> SimulatedBuffer:
        return SimulatedBuffer(nbytes, on_host=False)

    def target_buffer(self, nbytes: int, where: Where) -> SimulatedBuffer:
        if where != "here":
            self.require(SECOND_DEVICE)
        return SimulatedBuffer(nbytes, on_host=False, device=0 if where == "here" else 1)

    def typed(self, buffer: SimulatedBuffer, dtype: DType) -> SimulatedBuffer:
        return replace(buffer, dtype=dtype)

    def every_second(self, buffer: SimulatedBuffer) -> SimulatedBuffer:
        return replace(buffer, nbytes=buffer.nbytes // 2, is_dense=False)

    def fill_pattern(self, buffer: SimulatedBuffer, seed: int) -> None:
        self.synchronize()
        buffer.contents.write(self.host_s, self.host_s, self.host_s, ("pattern", seed))

    def same_values(self, left: SimulatedBuffer, right: SimulatedBuffer) -> bool:
        return left.contents.token(self.host_s) == right.contents.token(self.host_s)

    def marks(self, num: int) -> list[Note]:
        return [Note(Contents(), 0.0)] * num

    def mark(self, marks: list[Note], place: int, buffer: SimulatedBuffer) -> None:
        marks[place] = Note(buffer.contents, self.enqueue("compute", 0.0)[0])
        buffer.contents.marks.append(marks[place])

    def marked(self, marks: list[Note], place: int, source: SimulatedBuffer) -> bool:
        marks[place].contents.settle_marks(self.host_s)
        return marks[place].token == source.contents.token(self.host_s)

    def copy(self, target: SimulatedBuffer, source: SimulatedBuffer, *, blocking: bool) -> None:
        if not source.is_dense:
            source = self._converted(source, source.dtype)
        if source.dtype == target.dtype:
            return self._copy_bytes(target, source, blocking=blocking)
        cast_on_host = blocking and (source.on_host or target.on_host)
        if source.on_host == cast_on_host:
            cast = self._converted(source, target.dtype)
            return self._copy_bytes(target, cast, blocking=blocking)
        between = _like(source, target, source.dtype)
        self._copy_bytes(between, source, blocking=blocking)
        return self._convert(target, between)

    def create(self, fill: Fill, nbytes: int, *, on_host: bool) -> SimulatedBuffer:
        made = SimulatedBuffer(nbytes, on_host=on_host)
        self.allocate(nbytes, on_host=on_host)
        link = self.link
        if on_host:
            self.fill(made, fill)
        elif fill != "empty":
            is_random = fill == "randn"
            rate = link.device_randn_bytes_per_s if is_random else link.device_bytes_per_s
            self.enqueue("compute", nbytes / rate, what=COMPUTE)
        return made

    def fill(self, buffer: SimulatedBuffer, fill: Fill) -> None:
        link = self.link
        rate = link.host_randn_bytes_per_s if fill == "randn" else link.host_bytes_per_s
        self.spend(buffer.nbytes / rate if fill != "empty" else 0.0)

    def new_memory(self, nbytes: int, memory: Memory) -> SimulatedBuffer:
        on_host, pinned = memory != "device", memory == "pinned"
        self.allocate(nbytes, on_host=on_host, pinned=pinned)
        made = SimulatedBuffer(nbytes, on_host=on_host, pinned=pinned)
        if memory == "pageable":
            self.touch(made)
        return made

    def touch(self, buffer: SimulatedBuffer) -> None:
        self.spend(buffer.nbytes / self.link.host_bytes_per_s)

    def pin(self, source: SimulatedBuffer) -> SimulatedBuffer:
        self.allocate(source.nbytes, on_host=True, pinned=True)
        self.spend(source.nbytes / self.link.host_bytes_per_s)
        made = SimulatedBuffer(source.nbytes, on_host=True, pinned=True)
        token = source.contents.token(self.host_s)
        made.contents.write(self.host_s, self.host_s, self.host_s, token)
        return made

    def move(self, source: SimulatedBuffer, *, blocking: bool = True) -> SimulatedBuffer:
        self.allocate(source.nbytes, on_host=False)
        moved = self.buffer(source.nbytes)
        self.copy(moved, source, blocking=blocking)
        return moved

    def fetch(self, source: SimulatedBuffer, *, blocking: bool = True) -> SimulatedBuffer:
        pinned = not blocking
        self.allocate(source.nbytes, on_host=True, pinned=pinned)
        fetched = SimulatedBuffer(source.nbytes, on_host=True, pinned=pinned)
        self.copy(fetched, source, blocking=blocking)
        return fetched

    def drop_caches(self) -> None:
        self.synchronize()
        self._cached.clear()

    def keep_for(self, buffer: SimulatedBuffer, stream: SimulatedStream) -> None:
        """Nothing here is ever freed."""

    def compute(self, seconds: float) -> Step:
        taken_s = seconds / self.link.compute_speed
        return lambda: _ignore(self.enqueue("compute", taken_s, what=COMPUTE))

    def delay(self, seconds: float) -> None:
        self.enqueue(DELAY, seconds)

    def stream(self) -> SimulatedStream:
        made = SimulatedStream(self.wait_until)
        self._streams.append(made)
        return made

    def event(self, *, timing: bool = True, blocking: bool = False) -> SimulatedEvent:
        return SimulatedEvent(self)

    def loader(self, loading: Loading) -> SimulatedLoader:
        return SimulatedLoader(self, loading)

    def spin(self, event: SimulatedEvent) -> None:
        self.host_s = max(self.host_s, event.at_s)

    def counter(self) -> SimulatedBuffer:
        made = self.buffer(_SIZES["float32"])
        made.contents.write(self.host_s, self.host_s, self.host_s, 0)
        return made

    def advance(self, counter: SimulatedBuffer) -> None:
        start_s, end_s = self.enqueue("compute", 0.0)
        number = counter.contents.writes[-1][2]
        assert isinstance(number, int)
        counter.contents.write(self.host_s, start_s, end_s, number + 1)

    def trap(self, how: Trap, counter: SimulatedBuffer) -> Callable[[], Any]:
        if how == "shape":
            return lambda: (1,)
        if how == "synchronize":
            return self.synchronize
        host = SimulatedBuffer(counter.nbytes, on_host=True)
        before, after = _KERNELS.get(how, (0, 0))

        def run() -> Any:
            for _ in range(before):
                self.enqueue("compute", 0.0)
            self._copy_bytes(host, counter, blocking=True)
            for _ in range(after):
                self.enqueue("compute", 0.0)
            number = host.contents.token(self.host_s)
            assert isinstance(number, int)
            return learned(how, number)

        return run

    def graph(self, work: Step) -> Step:
        def replay() -> None:
            self.spend(self.link.launch_s)
            self._is_replaying = True
            try:
                work()
            finally:
                self._is_replaying = False

        return replay

    def count_syncs(self, work: Step) -> int:
        before = self._num_waits
        work()
        return self._num_waits - before

    def synchronize(self) -> None:
        self.wait_until(max(stream.free_s for stream in self._streams))
        self.pace.next_sample()

    def observe(self, work: Step) -> list[Activity]:
        self.synchronize()
        self._seen = []
        work()
        self.synchronize()
        return self._seen

    def reset(self) -> None:
        self.synchronize()
        self.pace.leave()
        self._streams = [self.default]
        self.current = self.default
        self._seen = []
        self._cached.clear()

    def wait_until(self, end_s: float) -> None:
        """The host waits for `end_s`, then pays for having waited."""
        self._num_waits += 1
        self.host_s = max(self.host_s, end_s)
        self.spend(self.link.wait_s)

    def spend(self, seconds: float) -> None:
        """The host is busy."""
        self.host_s += seconds * self.pace.factor

    def allocate(self, nbytes: int, *, on_host: bool, pinned: bool = False) -> None:
        """The host pays for an allocation; the caches of the device and of pinned memory answer a
        size that they have seen."""
        self.spend(self.link.alloc_s)
        place = "pinned" if pinned else "host" if on_host else "device"
        if place == "host" or (place, nbytes) in self._cached:
            return
        self._cached.add((place, nbytes))
        seconds = nbytes / self.link.pin_bytes_per_s if pinned else self.link.malloc_s
        self.spend(seconds)

    def enqueue(
        self, engine: str, seconds: float, *, what: str | None = None, nbytes: int = 0
    ) -> tuple[float, float]:
        """(start, end) of `seconds` of work on the current stream; the host pays for the launch.

        `what` names work that `observe` shows.
        """
        if not self._is_replaying:
            self.spend(self.link.launch_s)
        if engine != DELAY:
            seconds *= self.pace.factor
        stream = self.current
        start_s = max(self.host_s, stream.free_s, self._engine_free_s.get(engine, 0.0))
        end_s = stream.free_s = self._engine_free_s[engine] = start_s + seconds
        if what is not None:
            seen = Activity(
                what=what,
                start_s=start_s,
                end_s=end_s,
                nbytes=nbytes,
                stream=self._name_of(stream),
            )
            self._seen.append(seen)
        return start_s, end_s

    def _name_of(self, stream: SimulatedStream) -> str:
        number = self._streams.index(stream)
        return f"stream {number}" if number else DEFAULT_STREAM

    def _converted(self, source: SimulatedBuffer, dtype: str) -> SimulatedBuffer:
        """The source gathered and cast, on the side it is on."""
        made = _like(source, source, dtype)
        self._convert(made, source)
        return made

    def _convert(self, target: SimulatedBuffer, source: SimulatedBuffer) -> None:
        """Both on one side; the temporary was allocated by a cache."""
        nbytes = max(source.nbytes, target.nbytes)
        self.spend(self.link.alloc_s)
        if source.on_host:
            start_s = self.host_s
            self.spend(nbytes / self.link.host_bytes_per_s)
            end_s = self.host_s
        else:
            seconds = nbytes / self.link.device_bytes_per_s
            start_s, end_s = self.enqueue("compute", seconds, what=COMPUTE)
        target.contents.write(self.host_s, start_s, end_s, source.contents.token(start_s))

    def _copy_bytes(
        self, target: SimulatedBuffer, source: SimulatedBuffer, *, blocking: bool
    ) -> None:
        """As they are, by an engine."""
        engine, seconds, what = self._plan(target, source)
        start_s, end_s = self.enqueue(engine, seconds, what=what, nbytes=source.nbytes)
        target.contents.write(self.host_s, start_s, end_s, source.contents.token(start_s))
        if blocking:
            self.current.synchronize()
        elif what.endswith("pageable"):
            self._num_waits += 1
            self.host_s = max(self.host_s, end_s)

    def _plan(self, target: SimulatedBuffer, source: SimulatedBuffer) -> tuple[str, float, str]:
        """(engine, seconds, what `observe` calls it)."""
        link = self.link
        if not source.on_host and not target.on_host:
            if source.device == target.device:
                return "compute", source.nbytes / link.device_bytes_per_s, "D2D"
            return "peer", link.latency_s + source.nbytes / link.peer_bytes_per_s, "P2P"
        to_device = source.on_host
        pinned = (source if to_device else target).pinned
        rate = link.host_to_device_bytes_per_s if to_device else link.device_to_host_bytes_per_s
        if not pinned:
            rate = min(rate, link.pageable_bytes_per_s)
        engine = "copy" if link.num_copy_engines == 1 or to_device else "copy back"
        what = f"{'H2D' if to_device else 'D2H'} {'pinned' if pinned else 'pageable'}"
        return engine, link.latency_s + source.nbytes / rate, what


def _like(source: SimulatedBuffer, place: SimulatedBuffer, dtype: str) -> SimulatedBuffer:
    """A new dense buffer for the source's elements as `dtype`, on the side of `place`."""
    nbytes = source.nbytes // _SIZES[source.dtype] * _SIZES[dtype]
    return SimulatedBuffer(nbytes, on_host=place.on_host, device=place.device, dtype=dtype)


def _ignore(_: object) -> None:
    """A step returns nothing."""
