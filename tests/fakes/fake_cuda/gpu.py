"""A GPU under the stand-in for CUDA: its streams, what each has waited for, what was done on it."""

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

POOL = 32
"""Streams per GPU that torch hands out, one after the other, over and over."""


@dataclass(eq=False, slots=True)
class Queue:
    """A stream of one GPU."""

    gpu: "Gpu"
    number: int
    """0 is the default stream."""
    free_s: float = 0.0
    """When everything enqueued so far will be done."""
    last: int = 0
    """Ticket of what was enqueued last."""
    known: "VectorClock" = field(default_factory=dict)
    """What is done before what this one does next."""

    def all_known(self) -> "VectorClock":
        return {**self.known, self: self.last}


VectorClock = dict[Queue, int]
"""By queue, up to which ticket everything is done."""


def learn(own: VectorClock, known: VectorClock) -> None:
    """What another knows is known from now on, too."""
    for queue, ticket in known.items():
        if ticket > own.get(queue, 0):
            own[queue] = ticket


def about_others(known: VectorClock, gpu: "Gpu") -> VectorClock:
    return {queue: ticket for queue, ticket in known.items() if queue.gpu is not gpu}


@dataclass(eq=False, slots=True)
class Mark:
    """A recorded event."""

    at_s: float
    """The later of the host's clock and the stream's."""
    known: VectorClock


@dataclass(frozen=True, slots=True)
class Access:
    """What somebody does to a part of a block."""

    queue: Queue
    ticket: int
    start: int
    stop: int
    writes: bool


@dataclass(frozen=True, slots=True)
class GpuWork:
    """One thing that a GPU did, for the profiler and for tests."""

    gpu: int
    what: str
    """`kernel mm`, or a copy: `H2D pinned`, `D2H pageable`, `D2D`, `P2P`."""
    queue: int
    start_s: float
    end_s: float
    nbytes: int
    correlation: int = 0
    """Of the host's call that enqueued it."""


@dataclass(frozen=True, slots=True)
class RuntimeCall:
    """One function of CUDA's runtime that the host was in, for the profiler and for tests."""

    name: str
    start_s: float
    end_s: float
    correlation: int
    thread: int


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of torch that the host was in, for the profiler."""

    name: str
    start_s: float
    end_s: float
    thread: int


@dataclass(eq=False, slots=True)
class Gpu:
    """One GPU."""

    index: int
    uuid: str
    counts: Counter[str] = field(default_factory=Counter)
    """Of waits (`device`, `stream`, `event`, `implicit`), `launches`, and bytes by kind of copy."""
    log: list[GpuWork] = field(default_factory=list)
    engines: dict[str, float] = field(default_factory=dict)
    """When each is free."""
    waited: int = 0
    """The ticket up to which a device-wide wait has seen everything done."""
    queues: list[Queue] = field(default_factory=list)
    """The default stream, those that torch hands out, and nccl's own."""
    current: int = 0
    _handed_out: Iterator[int] = field(default_factory=lambda: itertools.cycle(range(1, POOL + 1)))

    def __post_init__(self) -> None:
        self.queues = [Queue(self, number) for number in range(POOL + 2)]

    def new_queue(self) -> Queue:
        return self.queues[next(self._handed_out)]

    @property
    def queue(self) -> Queue:
        """The current stream."""
        return self.queues[self.current]
