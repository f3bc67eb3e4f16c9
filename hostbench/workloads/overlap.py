"""overlap: copying batch N+1 while computing on batch N, in the ways that people write it.

Each step is a whole loop over `NUM_BATCHES` batches. The compute of one batch is calibrated, once
per launch, to last as long as its copy from the same kind of memory takes alone: the ratio where
overlap can help most. `copy_only` and `compute_only` are the two halves of the same loop, so that
serial, overlapped and ideal come from one launch.
"""

from weakref import WeakKeyDictionary

from hostbench.case import AxisValue
from hostbench.device.protocol import Buffer, Device, Step
from hostbench.measure import Prepared
from hostbench.samples import median
from hostbench.units import MIB
from hostbench.workload import DEVICES, workload

NUM_BATCHES = 8
SIZES = (4 * MIB, 32 * MIB)
SCHEDULES = (
    "copy_only",
    "compute_only",
    "serial",
    "default_stream",
    "copy_stream",
    "streams_2",
    "streams_4",
)
_CALIBRATION_LOOPS = 5
_COPY_S: WeakKeyDictionary[Device, dict[tuple[int, bool], float]] = WeakKeyDictionary()
"""Seconds of one copy alone, for the life of a device: every case of a launch computes equally."""


def _moves(batch_bytes: int, schedule: str, **_: AxisValue) -> int:
    return 0 if schedule == "compute_only" else batch_bytes * NUM_BATCHES


def _quick(batch_bytes: int, memory: str, device: str, schedule: str, **_: AxisValue) -> bool:
    """The larger size from the memory that can overlap; pageable memory on CUDA for the snippet
    that most articles print."""
    usual = "pinned" if device == "cuda" else "pageable"
    wanted = memory == usual or schedule == "copy_stream"
    return batch_bytes == SIZES[-1] and wanted and schedule != "streams_4"


@workload(
    axes={
        "device": DEVICES,
        "batch_bytes": SIZES,
        "memory": ("pageable", "pinned"),
        "schedule": SCHEDULES,
    },
    moves=_moves,
    quick=_quick,
    version="1",
)
def pipeline(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy and compute over 8 batches. Timed: the whole loop and one synchronize at its end."""
    loop = _Loop(device, batch_bytes, pinned=memory == "pinned")
    step = loop.schedules()[schedule]
    if schedule == "compute_only":
        return Prepared(step=step)
    alone = schedule in ("copy_only", "serial", "default_stream")
    return Prepared(step=step, verify=loop.verify, one_stream=alone)


class _Loop:
    """Buffers, streams and the seven ways to run the same work over them."""

    def __init__(self, device: Device, nbytes: int, *, pinned: bool) -> None:
        self.device = device
        self.sources = [device.host_buffer(nbytes, pinned=pinned) for _ in range(NUM_BATCHES)]
        for seed, source in enumerate(self.sources, start=1):
            device.fill_pattern(source, seed)
        self.targets = [device.buffer(nbytes) for _ in range(4)]
        self.streams = [device.stream() for _ in range(4)]
        self.marks = device.marks(2 * NUM_BATCHES)
        self.copied = [device.event(timing=False) for _ in self.targets]
        self.computed = [device.event(timing=False) for _ in self.targets]
        self.compute = device.compute(self._copy_s(nbytes, pinned))

    def schedules(self) -> dict[str, Step]:
        return {
            "copy_only": self.copy_only,
            "compute_only": self.compute_only,
            "serial": self.serial,
            "default_stream": self.default_stream,
            "copy_stream": self.copy_stream,
            "streams_2": self.round_robin(2),
            "streams_4": self.round_robin(4),
        }

    def _copy_s(self, nbytes: int, pinned: bool) -> float:
        known = _COPY_S.setdefault(self.device, {})
        if (nbytes, pinned) not in known:
            self.copy_only()
            self.device.synchronize()
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
            self.note(batch, self.copy(batch, 2))

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
                self.copied[slot].record(copies)
            with self.device.on(computes):
                computes.wait(self.copied[slot])
                self.use(batch, target)
                self.computed[slot].record(computes)

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
        """Compute; note what the batch's buffer holds when that begins and when it has ended."""
        self.device.mark(self.marks, batch, target)
        self.compute()
        self.device.mark(self.marks, NUM_BATCHES + batch, target)

    def note(self, batch: int, target: Buffer) -> None:
        """The same notes where nothing is computed."""
        for place in (batch, NUM_BATCHES + batch):
            self.device.mark(self.marks, place, target)

    def verify(self) -> str | None:
        """Every batch of the last loop was seen as its source has it, at both ends."""
        wrong = [
            batch
            for batch, source in enumerate(self.sources)
            if not all(
                self.device.marked(self.marks, place, source)
                for place in (batch, NUM_BATCHES + batch)
            )
        ]
        return f"batches {wrong} were computed on other data" if wrong else None
