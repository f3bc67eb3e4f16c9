"""overlap: copying batch N+1 while computing on batch N, in the ways that people write it.

Each step is a whole loop over 8 batches. The compute of one batch is calibrated, once per launch,
in proportion to its copy from the same kind of memory alone: 1:1 unless the axis says otherwise,
the ratio where overlap can help most. The copies alone and the computes alone are cases too, so
that serial, overlapped and ideal come from one launch.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload

ORDER = 30  # of the families in a report


def setup_cache():
    return suite.measure("overlap")


NUM_BATCHES = 8
RATIOS = {"1:4": 0.25, "1:2": 0.5, "2:1": 2.0, "4:1": 4.0}
"""compute:copy; 1:1 is the workload `pipeline`."""
LOOPS = ("copy_only", "compute_only", "serial", "copy_stream")
_NOTED_BYTES = 8
_CALIBRATION_LOOPS = 5
_TRIED_NUMBERS, _MOST_NUMBERS = 32 * MIB, 256 * MIB
"""Of float32: what a memory-bound compute adds to while it is calibrated, 128MiB, which no cache
holds; and the most that it takes."""
_SECONDS: WeakKeyDictionary[Device, dict[object, float]] = WeakKeyDictionary()
"""What was calibrated, for the life of a device: every case of a launch computes equally."""


def _needs(memory: str, schedule: str = "", **_: Any) -> list[str]:
    return ["pinned memory"] * (memory == "pinned") + ["CUDA graphs"] * (schedule == "graph")


def _moves(batch_bytes: int, schedule: str = "", **_: Any) -> int:
    return 0 if schedule == "compute_only" else NUM_BATCHES * batch_bytes


def _moves_both_ways(batch_bytes: int, schedule: str, **_: Any) -> int:
    is_one_way = schedule in ("copy_in_only", "copy_out_only")
    return _moves(batch_bytes, schedule) * (1 if is_one_way else 2)


def _usual(device: str, memory: str, **_: Any) -> bool:
    """The memory from which copies can be asynchronous; what pageable memory does to a loop on CUDA
    is a question for `pipeline` alone."""
    return memory == ("pinned" if device == "cuda" else "pageable")


def _quick(device: str, batch_bytes: int, memory: str, schedule: str) -> bool:
    """A size whose loop takes some milliseconds, from the memory that can overlap; pageable memory
    on CUDA for the snippet that most articles print."""
    size = 32 * MIB if device == "cuda" else 4 * MIB
    wanted = _usual(device, memory) or schedule == "copy_stream"
    return batch_bytes == size and wanted and schedule not in ("streams_4", "graph")


def _expects(
    device: str, batch_bytes: int, memory: str, schedule: str, **_: Any
) -> dict[str, bool]:
    """One stream never overlaps. Whether side streams do is sure only for pinned memory on CUDA,
    and where a copy is long beside the enqueueing of an observed one."""
    if schedule in ("serial", "default_stream"):
        return {"overlapped": False}
    is_sure = device == "cuda" and memory == "pinned" and batch_bytes >= 4 * MIB
    return {"overlapped": True} if is_sure and not schedule.endswith("_only") else {}


def _workload(*batch_bytes: int, axes: dict[str, tuple[str, ...]], **options: Any) -> Any:
    """`@workload` with what most declare; each is of the memory that can overlap, if not said."""
    sizes_and_memory = {"batch_bytes": batch_bytes, "memory": ("pageable", "pinned")}
    usual: dict[str, Any] = {
        "moves": _moves,
        "expects": _expects,
        "needs": _needs,
        "only": _usual,
        "baseline": {"schedule": "serial"},
    }
    return workload(axes={"device": DEVICES, **sizes_and_memory, **axes}, **{**usual, **options})


class Loop:
    """The loop over batches that copies and computes, written in many ways: the same batches,
    buffers, streams and checks for every way, so that nothing but the way differs. All end without
    waiting: the one synchronize is the timer's.

    `returns`: results are copied out, too. `memory_bound`: the compute adds to a large buffer, and
    multiplies no matrices.
    """

    def __init__(
        self,
        device: Device,
        nbytes: int,
        memory: str,
        *,
        compute_to_copy: float = 1.0,
        returns: bool = False,
        memory_bound: bool = False,
    ) -> None:
        from hostbench.measure.measure import reading

        self.device, self.batch_bytes, self.memory = device, nbytes, memory
        host_buffer = partial(device.host_buffer, nbytes, pinned=memory == "pinned")
        self.sources = [host_buffer() for _ in range(NUM_BATCHES)]
        for seed, source in enumerate(self.sources, start=1):
            device.fill_pattern(source, seed)
        self.results = [host_buffer() for _ in range(NUM_BATCHES * returns)]
        self.slots = 2
        self.targets = [device.buffer(nbytes) for _ in range(4)]
        self.streams = [device.stream() for _ in range(4)]
        self.copied, self.computed, self.fetched = (
            [device.event(timing=False) for _ in self.targets] for _ in range(3)
        )
        self.notes = [device.buffer(_NOTED_BYTES) for _ in range(2 * NUM_BATCHES)]
        self.is_noting = False
        known, what = _SECONDS.setdefault(device, {}), (nbytes, memory)
        if what not in known:
            loop = partial(reading, self.copy_only, 1, device.now, device.synchronize)
            known[what] = median(loop()[0] for _ in range(_CALIBRATION_LOOPS)) / NUM_BATCHES
        seconds = compute_to_copy * known[what]
        self.compute = self._adding(seconds) if memory_bound else device.compute(seconds)
        device.synchronize()

    def _adding(self, seconds: float) -> Callable[[], object]:
        """A kernel whose limit is the device's memory: it adds to so many numbers."""
        import torch

        numbers = torch.zeros(_TRIED_NUMBERS, device=self.device.torch_device)
        add = partial(self.device.advance, numbers)
        known = _SECONDS[self.device]
        if "add" not in known:
            known["add"] = median(self.device.device_times(add))
        num = min(int(seconds / known["add"] * _TRIED_NUMBERS), _MOST_NUMBERS)
        return partial(self.device.advance, numbers.new_zeros(max(1, num)))

    def prepared(self, schedule: str) -> Prepared:
        """The loop in the way of that name. Frees what it does not use: peak memory is compared."""
        way = WAYS[schedule]
        self.slots = (3 if self.results else 2) if way.slots is None else way.slots
        del self.targets[self.slots :]
        body = partial(way.body, self)
        make_step = partial(self.device.graph, body) if schedule == "graph" else lambda: body
        ways = ["H2D"] * (schedule != "copy_out_only")
        ways += ["D2H"] * (schedule != "copy_in_only" and bool(self.results))
        if schedule == "compute_only":
            return Prepared(step=body)
        return Prepared(
            step=make_step(),
            verify=lambda: self._check(make_step, ways),
            copies={f"{to} {self.memory}": NUM_BATCHES * self.batch_bytes for to in ways},
            one_stream=way.one_stream,
        )

    # ---- the ways

    def copy_only(self) -> None:
        for batch in range(NUM_BATCHES):
            self._note(batch, self._copy(batch))
            self._note(NUM_BATCHES + batch, self.targets[batch % self.slots])

    def copy_out_only(self) -> None:
        for batch in range(NUM_BATCHES):
            self._fetch(batch)

    def compute_only(self) -> None:
        for _ in range(NUM_BATCHES):
            self.compute()

    def default_stream(self, *, waits: bool) -> None:
        """Everything on one stream. `waits`: the host waits for the copy, then for the compute or
        the copy of its result; else it is free, and the device still takes turns."""
        for batch in range(NUM_BATCHES):
            self._use(batch, self._copy(batch, blocking=waits))
            if self.results:
                self._fetch(batch, blocking=waits)
            elif waits:
                self.device.synchronize()

    def copy_stream(self) -> None:
        """A stream for copies, one for compute; events hand two buffers back and forth."""
        copies, computes = self.streams[:2]
        for batch in range(NUM_BATCHES):
            slot = batch % 2
            with self.device.on(copies):
                if batch >= 2:
                    copies.wait_event(self.computed[slot])
                target = self._copy(batch)
                self.copied[slot].record()
            with self.device.on(computes):
                computes.wait_event(self.copied[slot])
                self._use(batch, target)
                self.computed[slot].record()

    def captured(self) -> None:
        """`copy_stream`, whose streams fork from the one that is captured, and join it again."""
        captured = self.device.this_stream()
        start, *ends = self.fetched[:3]
        start.record()
        for stream in self.streams[:2]:
            stream.wait_event(start)
        self.copy_stream()
        for stream, end in zip(self.streams[:2], ends, strict=True):
            end.record(stream)
            captured.wait_event(end)

    def round_robin(self) -> None:
        """As many streams as buffers: batch N on stream N modulo these, in order on each."""
        for batch in range(NUM_BATCHES):
            with self.device.on(self.streams[batch % self.slots]):
                self._use(batch, self._copy(batch))

    def record_stream(self) -> None:
        """A new buffer per batch, which the allocator may reuse once the compute has ended."""
        copies, computes = self.streams[:2]
        for batch, source in enumerate(self.sources):
            slot = batch % 2
            with self.device.on(copies):
                target = self.device.move(source, blocking=False)
                self.copied[slot].record()
            with self.device.on(computes):
                computes.wait_event(self.copied[slot])
                self._use(batch, target)
                self.device.keep_for(target, computes)

    def host_waits(self, *, for_device: bool) -> None:
        """The host waits between a copy and its compute: for it, and for the compute before."""
        copies, computes = self.streams[:2]
        waits = [copies.synchronize, computes.synchronize]
        waits = [self.device.synchronize] if for_device else waits
        for batch in range(NUM_BATCHES):
            with self.device.on(copies):
                target = self._copy(batch)
            for wait in waits:
                wait()
            with self.device.on(computes):
                self._use(batch, target)

    def three_streams(self) -> None:
        """A stream each for copies in, compute and copies out. The next copy in is enqueued before
        the copy out: a card with one copy engine takes them in that order."""
        ins, computes, outs = self.streams[:3]

        def bring(batch: int) -> None:
            with self.device.on(ins):
                if batch >= self.slots:
                    ins.wait_event(self.fetched[batch % self.slots])
                self._copy(batch)
                self.copied[batch % self.slots].record()

        bring(0)
        for batch in range(NUM_BATCHES):
            slot = batch % self.slots
            if batch + 1 < NUM_BATCHES:
                bring(batch + 1)
            with self.device.on(computes):
                computes.wait_event(self.copied[slot])
                self._use(batch, self.targets[slot])
                self.computed[slot].record()
            with self.device.on(outs):
                outs.wait_event(self.computed[slot])
                self._fetch(batch)
                self.fetched[slot].record()

    # ---- their parts

    def _copy(self, batch: int, *, blocking: bool = False) -> Any:
        target = self.targets[batch % self.slots]
        self.device.copy(target, self.sources[batch], blocking=blocking)
        return target

    def _fetch(self, batch: int, *, blocking: bool = False) -> None:
        target = self.targets[batch % self.slots]
        self.device.copy(self.results[batch], target, blocking=blocking)

    def _use(self, batch: int, target: Any) -> None:
        """Compute on the batch's buffer."""
        self._note(batch, target)
        self.compute()
        self._note(NUM_BATCHES + batch, target)

    def _note(self, index: int, target: Any) -> None:
        """While checking: the end of the buffer when its compute begins, the last to arrive; its
        beginning, the first that is overwritten, when that has ended."""
        if self.is_noting:
            self.device.copy(self.notes[index], _noted(index, target), blocking=False)

    def _check(self, step: Callable[[], Callable[[], object]], ways: list[str]) -> str | None:
        """After timing: every result is what was copied out, and the last buffers hold their
        batches, byte for byte; then once more with notes: every batch was there when its compute
        began and when it had ended."""
        same, sources = self.device.same_values, self.sources
        if "D2H" in ways:
            took_turns = [self.targets[batch % self.slots] for batch in range(NUM_BATCHES)]
            origins = sources if "H2D" in ways else took_turns
            pairs = enumerate(zip(self.results, origins, strict=True))
            if wrong := [batch for batch, pair in pairs if not same(*pair)]:
                return f"batches {wrong} came back as other data"
        if "H2D" not in ways:
            return None
        last = range(NUM_BATCHES - self.slots, NUM_BATCHES)
        if wrong := [b for b in last if not same(self.targets[b % self.slots], sources[b])]:
            return f"batches {wrong} did not arrive whole"
        self.is_noting = True
        step()()
        self.device.synchronize()
        self.is_noting = False
        wrong = [
            batch
            for batch, source in enumerate(sources)
            for index in (batch, NUM_BATCHES + batch)
            if not same(self.notes[index], _noted(index, source))
        ]
        return f"batches {sorted({*wrong})} were computed on other data" if wrong else None


def _noted(index: int, buffer: Any) -> Any:
    return buffer[-_NOTED_BYTES:] if index < NUM_BATCHES else buffer[:_NOTED_BYTES]


class Way(NamedTuple):
    """One way to write the loop."""

    body: Callable[[Loop], None]
    slots: int | None = None
    """Buffers on the device that take turns, where not as many as a batch needs at once; 0 where
    each batch has one of its own."""
    one_stream: bool = False


WAYS = {
    "copy_only": Way(Loop.copy_only, one_stream=True),
    "copy_in_only": Way(Loop.copy_only, 2, one_stream=True),
    "copy_out_only": Way(Loop.copy_out_only, one_stream=True),
    "compute_only": Way(Loop.compute_only, one_stream=True),
    "serial": Way(partial(Loop.default_stream, waits=True), one_stream=True),
    "default_stream": Way(partial(Loop.default_stream, waits=False), one_stream=True),
    "copy_stream": Way(Loop.copy_stream),
    "graph": Way(Loop.captured, one_stream=True),
    "streams_2": Way(Loop.round_robin, 2),
    "streams_4": Way(Loop.round_robin, 4),
    "events": Way(Loop.copy_stream),
    "record_stream": Way(Loop.record_stream, 0),
    "stream_synchronize": Way(partial(Loop.host_waits, for_device=False)),
    "device_synchronize": Way(partial(Loop.host_waits, for_device=True)),
    "three_streams": Way(Loop.three_streams),
}


SCHEDULES = (*LOOPS[:3], "default_stream", "copy_stream", "streams_2", "streams_4", "graph")


@_workload(
    *(512 * KIB, 4 * MIB, 32 * MIB),
    axes={"schedule": SCHEDULES},
    only=lambda schedule, **axes: schedule != "graph" or _usual(**axes),
    quick=_quick,
    version="4",
)
def pipeline(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy and compute over 8 batches. Timed: the whole loop and one synchronize at its end."""
    return Loop(device, batch_bytes, memory).prepared(schedule)


@_workload(4 * MIB, axes={"compute_to_copy": tuple(RATIOS), "schedule": LOOPS}, version="3")
def ratio(
    device: Device, batch_bytes: int, memory: str, compute_to_copy: str, schedule: str
) -> Prepared:
    """The pipeline with more or less compute per copy. Timed: as `pipeline`."""
    share = RATIOS[compute_to_copy]
    return Loop(device, batch_bytes, memory, compute_to_copy=share).prepared(schedule)


@_workload(
    32 * MIB,
    axes={"schedule": LOOPS},
    needs=lambda **axes: [*_needs(**axes), "tensors of torch"],
    expects={},
    version="1",
)
def memory_bound(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """The pipeline with a compute that adds to a large buffer. Timed: as `pipeline`.

    Products of matrices leave the device's memory free for the copies; this compute does not.
    """
    return Loop(device, batch_bytes, memory, memory_bound=True).prepared(schedule)


@_workload(
    32 * MIB,
    axes={"ordering": ("events", "record_stream", "stream_synchronize", "device_synchronize")},
    expects={},
    baseline={"ordering": "events"},
    version="2",
)
def ordered(device: Device, batch_bytes: int, memory: str, ordering: str) -> Prepared:
    """The ways to keep copy and compute in order on two streams. Timed: as `pipeline`."""
    return Loop(device, batch_bytes, memory).prepared(ordering)


THERE_AND_BACK = ("copy_in_only", "copy_out_only", *LOOPS[1:3], "default_stream", "three_streams")


@_workload(16 * MIB, axes={"schedule": THERE_AND_BACK}, moves=_moves_both_ways, version="2")
def round_trip(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy in, compute, copy the result out, over 8 batches. Timed: as `pipeline`."""
    return Loop(device, batch_bytes, memory, returns=True).prepared(schedule)
