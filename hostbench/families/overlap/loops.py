"""Building blocks of the family overlap: one loop over batches, written in many ways.

The same batches, buffers and checks for every way, so that nothing but the way differs. All loops
end without waiting: the one synchronize is the timer's. What each batch was computed on is noted
in a loop of its own after the timing, for the notes are work, too.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from hostbench.core.samples import median
from hostbench.device.base import Buffer, Device, Step
from hostbench.measure.measure import Prepared

NUM_BATCHES = 8
_SLOTS = 3
"""Buffers of a round trip: one being filled, one computed on, one emptied."""
_CALIBRATION_LOOPS = 5
_COPY_S: WeakKeyDictionary[Device, dict[tuple[int, bool], float]] = WeakKeyDictionary()
"""Seconds of one copy alone, for the life of a device: every case of a launch computes equally."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to write the loop."""

    step: Step
    num_targets: int = 2
    """Buffers on the device that take turns; 0 where each batch has one of its own."""
    one_stream: bool = False


class Loop:
    """Buffers, streams and the ways to copy batch N+1 while computing on batch N."""

    def __init__(
        self, device: Device, nbytes: int, *, pinned: bool, compute_to_copy: float = 1.0
    ) -> None:
        self.device = device
        self.batch_bytes = nbytes
        self.memory = "pinned" if pinned else "pageable"
        self.sources = [device.host_buffer(nbytes, pinned=pinned) for _ in range(NUM_BATCHES)]
        for seed, source in enumerate(self.sources, start=1):
            device.fill_pattern(source, seed)
        self.targets = [device.buffer(nbytes) for _ in range(4)]
        self.streams = [device.stream() for _ in range(4)]
        self.marks = device.marks(2 * NUM_BATCHES)
        self.is_noting = False
        self.copied = [device.event(timing=False) for _ in self.targets]
        self.computed = [device.event(timing=False) for _ in self.targets]
        self.compute = device.compute(compute_to_copy * self._copy_s(nbytes, pinned))
        device.synchronize()

    def prepared(self, name: str) -> Prepared:
        """The loop in the way of that name. Frees the buffers that it does not use, for peak memory
        is compared."""
        way = self.ways()[name]
        del self.targets[way.num_targets :]
        if name == "compute_only":
            return Prepared(step=way.step)
        return Prepared(
            step=way.step,
            verify=lambda: self.check(way),
            copies={
                f"{direction} {self.memory}": self.batch_bytes * NUM_BATCHES
                for direction in self.directions(name)
            },
            one_stream=way.one_stream,
        )

    def directions(self, name: str) -> tuple[str, ...]:
        """Of its copies."""
        return ("H2D",)

    def ways(self) -> dict[str, Way]:
        return {
            "copy_only": Way(self.copy_only, one_stream=True),
            "compute_only": Way(self.compute_only, one_stream=True),
            "serial": Way(self.serial, one_stream=True),
            "default_stream": Way(self.default_stream, one_stream=True),
            "copy_stream": Way(self.copy_stream),
            "streams_2": Way(self.round_robin(2)),
            "streams_4": Way(self.round_robin(4), 4),
        }

    def _copy_s(self, nbytes: int, pinned: bool) -> float:
        known = _COPY_S.setdefault(self.device, {})
        if (nbytes, pinned) not in known:
            seconds = []
            for _ in range(_CALIBRATION_LOOPS):
                start_s = self.device.now()
                self.copy_only()
                self.device.synchronize()
                seconds.append((self.device.now() - start_s) / NUM_BATCHES)
            known[nbytes, pinned] = median(seconds)
        return known[nbytes, pinned]

    def copy_only(self) -> None:
        for batch in range(NUM_BATCHES):
            self.note(batch, self.copy(batch, 2), at_end=False)
            self.note(batch, self.targets[batch % 2], at_end=True)

    def compute_only(self) -> None:
        for _ in range(NUM_BATCHES):
            self.compute()

    def serial(self) -> None:
        """Wait for the copy, compute, wait for the compute."""
        for batch in range(NUM_BATCHES):
            self.use(batch, self.copy(batch, 2, blocking=True))
            self.device.synchronize()

    def default_stream(self) -> None:
        """Enqueue everything on one stream: the host is free, the device still takes turns."""
        for batch in range(NUM_BATCHES):
            self.use(batch, self.copy(batch, 2))

    def copy_stream(self) -> None:
        """A stream for copies, one for compute; events hand two buffers back and forth."""
        copies, computes = self.streams[:2]
        for batch in range(NUM_BATCHES):
            slot = batch % 2
            with self.device.on(copies):
                if batch >= 2:
                    copies.wait(self.computed[slot])
                target = self.copy(batch, 2)
                self.copied[slot].record()
            with self.device.on(computes):
                computes.wait(self.copied[slot])
                self.use(batch, target)
                self.computed[slot].record()

    def round_robin(self, num_streams: int) -> Step:
        """Batch N on stream N modulo `num_streams`, copy and compute in order on each."""

        def step() -> None:
            for batch in range(NUM_BATCHES):
                with self.device.on(self.streams[batch % num_streams]):
                    self.use(batch, self.copy(batch, num_streams))

        return step

    def copy(self, batch: int, num_buffers: int, *, blocking: bool = False) -> Buffer:
        target = self.targets[batch % num_buffers]
        self.device.copy(target, self.sources[batch], blocking=blocking)
        return target

    def use(self, batch: int, target: Buffer) -> None:
        """Compute on the batch's buffer."""
        self.note(batch, target, at_end=False)
        self.compute()
        self.note(batch, target, at_end=True)

    def note(self, batch: int, target: Buffer, *, at_end: bool) -> None:
        """While noting: what the buffer holds when its compute begins, or when it has ended."""
        if self.is_noting:
            self.device.mark(self.marks, batch + at_end * NUM_BATCHES, target)

    def check(self, way: Way) -> str | None:
        """After timing: the last buffers hold their batches, byte for byte; then once more with
        notes: every batch was there when its compute began and when it had ended."""
        last = range(NUM_BATCHES - way.num_targets, NUM_BATCHES)
        wrong = [
            batch
            for batch in last
            if not self.device.same_values(
                self.targets[batch % way.num_targets], self.sources[batch]
            )
        ]
        if wrong:
            return f"batches {wrong} did not arrive whole"
        self.is_noting = True
        try:
            way.step()
            self.device.synchronize()
        finally:
            self.is_noting = False
        return self._wrong_notes()

    def _wrong_notes(self) -> str | None:
        wrong = [
            batch
            for batch, source in enumerate(self.sources)
            if not all(
                self.device.marked(self.marks, place, source)
                for place in (batch, NUM_BATCHES + batch)
            )
        ]
        return f"batches {wrong} were computed on other data" if wrong else None


class Orderings(Loop):
    """The ways to keep copy and compute in order on two streams."""

    def ways(self) -> dict[str, Way]:
        return {
            "events": Way(self.copy_stream),
            "record_stream": Way(self.record_stream, 0),
            "stream_synchronize": Way(self.waiting(self._both_streams)),
            "device_synchronize": Way(self.waiting(self.device.synchronize)),
        }

    def record_stream(self) -> None:
        """A new buffer per batch, which the allocator may reuse once the compute has ended."""
        copies, computes = self.streams[:2]
        for batch, source in enumerate(self.sources):
            slot = batch % 2
            with self.device.on(copies):
                target = self.device.move(source, blocking=False)
                self.copied[slot].record()
            with self.device.on(computes):
                computes.wait(self.copied[slot])
                self.use(batch, target)
                self.device.keep_for(target, computes)

    def waiting(self, synchronize: Step) -> Step:
        """The host waits between a copy and its compute."""
        copies, computes = self.streams[:2]

        def step() -> None:
            for batch in range(NUM_BATCHES):
                with self.device.on(copies):
                    target = self.copy(batch, 2)
                synchronize()
                with self.device.on(computes):
                    self.use(batch, target)

        return step

    def _both_streams(self) -> None:
        """Wait for the copy's stream, and for the compute before."""
        for stream in self.streams[:2]:
            stream.synchronize()


class RoundTrip(Loop):
    """Copy in, compute, copy the result out."""

    def __init__(self, device: Device, nbytes: int, *, pinned: bool) -> None:
        super().__init__(device, nbytes, pinned=pinned)
        self.results = [device.host_buffer(nbytes, pinned=pinned) for _ in range(NUM_BATCHES)]
        self.fetched = [device.event(timing=False) for _ in range(_SLOTS)]

    def ways(self) -> dict[str, Way]:
        return {
            "copy_in_only": Way(self.copy_only, one_stream=True),
            "copy_out_only": Way(self.copy_out_only, _SLOTS, one_stream=True),
            "compute_only": Way(self.compute_only, one_stream=True),
            "serial": Way(self.serial, _SLOTS, one_stream=True),
            "default_stream": Way(self.default_stream, _SLOTS, one_stream=True),
            "three_streams": Way(self.three_streams, _SLOTS),
        }

    def directions(self, name: str) -> tuple[str, ...]:
        return {"copy_in_only": ("H2D",), "copy_out_only": ("D2H",)}.get(name, ("H2D", "D2H"))

    def copy_out_only(self) -> None:
        for batch in range(NUM_BATCHES):
            self.fetch(batch)

    def serial(self) -> None:
        for batch in range(NUM_BATCHES):
            self.use(batch, self.copy(batch, _SLOTS, blocking=True))
            self.fetch(batch, blocking=True)

    def default_stream(self) -> None:
        for batch in range(NUM_BATCHES):
            self.use(batch, self.copy(batch, _SLOTS))
            self.fetch(batch)

    def three_streams(self) -> None:
        """A stream each for copies in, compute and copies out. The next copy in is enqueued before
        the copy out: a card with one copy engine takes them in that order."""
        self._bring(0)
        computes, outs = self.streams[1:3]
        for batch in range(NUM_BATCHES):
            slot = batch % _SLOTS
            if batch + 1 < NUM_BATCHES:
                self._bring(batch + 1)
            with self.device.on(computes):
                computes.wait(self.copied[slot])
                self.use(batch, self.targets[slot])
                self.computed[slot].record()
            with self.device.on(outs):
                outs.wait(self.computed[slot])
                self.fetch(batch)
                self.fetched[slot].record()

    def _bring(self, batch: int) -> None:
        ins, slot = self.streams[0], batch % _SLOTS
        with self.device.on(ins):
            if batch >= _SLOTS:
                ins.wait(self.fetched[slot])
            self.copy(batch, _SLOTS)
            self.copied[slot].record()

    def fetch(self, batch: int, *, blocking: bool = False) -> None:
        self.device.copy(self.results[batch], self.targets[batch % _SLOTS], blocking=blocking)

    def check(self, way: Way) -> str | None:
        """Besides: every result is what was copied out."""
        if way.step == self.copy_only:
            return super().check(way)
        out_only = way.step == self.copy_out_only
        wrong = [
            batch
            for batch, result in enumerate(self.results)
            if not self.device.same_values(
                result, self.targets[batch % _SLOTS] if out_only else self.sources[batch]
            )
        ]
        if wrong:
            return f"batches {wrong} came back as other data"
        return None if out_only else super().check(way)
