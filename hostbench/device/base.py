"""The one seam to the machine: what a workload may ask of a device.

Three devices answer it: `cuda` (the real thing), `cpu` (real copies and compute on worker threads,
for machines without an accelerator) and `simulated` (a virtual clock, exact). Code outside this
package never asks which it is. What some device cannot do is refused by default: it raises
`Unavailable` with a reason, so that a new primitive costs only the devices that can do it.
A device takes back only the streams and events that it made itself: those are `Any` here.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Literal, Protocol

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.units import format_seconds
from hostbench.device.activity import Observation
from hostbench.device.loading import Loading

_READINGS, _MOST_STEPS = 7, 50
_HEAD_START_S = 0.001
_SHORT_S = 1e-3
_TOO_LONG = 1.5
"""So many times what it is named after the shortest compute may take."""

Buffer = Any
"""Bytes on the host or the device: a uint8 or float32 torch.Tensor, or a SimulatedBuffer."""

Fill = Literal["empty", "zeros", "randn", "full", "arange"]
Route = Literal["peer", "staged", "through_host"]
"""To a second device: directly, by the driver's way, by pinned host memory."""
Memory = Literal["pageable", "pinned", "device"]
Step = Callable[[], object]

HostRead = Literal[
    "item", "print", "bool", "if_greater", "cpu", "tolist", "nonzero", "mask", "synchronize",
    "shape",
]  # fmt: skip
"""`t.item()`, `print(t)`, `bool(t)`, `if t > 0`, `t.cpu()`, `t.tolist()`, `torch.nonzero(t)`,
`t[t > 0]`, a device-wide synchronize; and `t.shape`, which needs nothing of the device."""

Ability = Literal[
    "pinned memory", "allocator caches", "memory of its own", "second device", "CUDA graphs",
    "events that put the host to sleep", "segments of an allocator", "training steps",
    "streams of torch", "symmetric memory", "tensors of torch", "far NUMA node",
]  # fmt: skip
"""What a workload declares in `needs`, and what some devices do not have."""


_LACKS: Mapping[str, tuple[Ability, ...]] = {
    "cpu": (
        "pinned memory", "allocator caches", "memory of its own", "second device", "CUDA graphs",
        "events that put the host to sleep", "segments of an allocator", "streams of torch",
        "symmetric memory",
    ),
    "simulated": (
        "segments of an allocator", "training steps", "far NUMA node", "tensors of torch",
    ),
}  # fmt: skip


def lacking(device: str, num_devices: int) -> dict[str, str]:
    """The abilities that a device does not have, each with the reason, where this machine has
    `num_devices` of its kind. Without torch: `doctor` tells from it what will be skipped."""
    lacks = {"second device": too_few(device, 2, num_devices)} if num_devices < 2 else {}
    remedy = "; it needs a GPU" if device == "cpu" else ""
    for ability in _LACKS.get(device, ()):
        lacks[ability] = f"the {device} device has no {ability}{remedy}"
    return lacks


def too_few(device: str, needed: int, num_devices: int) -> str:
    """Why a case that uses so many devices is skipped here."""
    units = "GPUs" if device == "cuda" else "devices"
    return f"needs {needed} {units}, this machine has {num_devices}"


def learned(how: HostRead, number: float) -> Any:
    """What the host learns of a tensor of one number, as Python's own values; None: nothing."""
    return {
        "item": number,
        "bool": number != 0,
        "if_greater": number > 0,
        "cpu": [number],
        "tolist": [number],
        "nonzero": [[0]] if number else [],
        "mask": [number] if number > 0 else [],
    }.get(how)


class Device(Protocol):
    """See the module's docstring. All sizes are bytes, all times seconds. What is without a body
    each device has to do, by the check of types."""

    name: ClassVar[str]
    lacks: Mapping[str, str]
    """The abilities that it does not have, with the reason why not."""
    current: Any = None
    """The stream that work is enqueued on, where the device keeps it itself."""
    agree: Callable[[bool], bool] = bool
    """Whether something is so for all ranks, which observe it again together or not at all."""

    def refusal(self, what: str) -> Unavailable:
        """The error for an ability or a primitive that the device does not have."""
        return Unavailable(self.lacks.get(what) or f"the {self.name} device has no {what}")

    def require(self, ability: Ability) -> None:
        """Raises Unavailable with the reason where the device does not have it."""
        if ability in self.lacks:
            raise self.refusal(ability)

    @property
    def torch_device(self) -> Any:
        """Where code that uses torch itself makes tensors of this device."""
        raise self.refusal("tensors of torch")

    def now(self) -> float:
        """The host's clock in seconds, monotonic; virtual on the simulated device."""
        return time.perf_counter()

    def settle(self) -> None:
        """Once per launch, before anything is allocated: bind to the device's NUMA node where it
        has one, and wake link and clocks until they are steady."""
        return

    def enter(self, case: Case) -> None:
        """The steps of this case come next, until `reset`: it may be declared to be slower."""
        return

    def refused_pinning(self, error: BaseException) -> Unavailable | None:
        """Where that error of a case means that memory cannot be pinned: so, as the reason."""
        return None

    def host_buffer(self, nbytes: int, *, pinned: bool) -> Buffer:
        """Touched host memory. Raises Unavailable where it cannot be pinned."""

    def registered_buffer(self, nbytes: int, *, far: bool = False) -> Buffer:
        """Touched host memory with pages of its own, page-locked afterwards (cudaHostRegister);
        `far`: on a NUMA node that is not the device's. Raises Unavailable where it cannot be."""
        raise self.refusal("pinned memory")

    def buffer(self, nbytes: int) -> Buffer:
        """Touched device memory."""

    def second_buffer(self, nbytes: int, route: Route) -> Buffer:
        """Touched memory of a second device. Raises Unavailable where that, or the way, is not."""
        raise self.refusal("second device")

    def fill_pattern(self, buffer: Buffer, seed: int) -> None:
        """Write values that depend on `seed`, and wait until they are there: any bytes, or whole
        numbers below 2048 where the buffer is of floats (exact in float16 too)."""

    def same_values(self, left: Buffer, right: Buffer) -> bool:
        """Whether two buffers, wherever they are, hold equal values now. Does not synchronize."""

    def copy(self, target: Buffer, source: Buffer, *, blocking: bool) -> None:
        """Copy `source` into `target` on the current stream; direction follows from the two."""

    def creator(self, fill: Fill, nbytes: int, *, on_host: bool) -> Callable[[], Buffer]:
        """What makes a new float32 tensor of `nbytes` in host memory, or directly on the device.
        As for all that is resolved once, a call of it costs no more than torch's own."""

    def fill(self, buffer: Buffer, fill: Fill) -> None:
        """Write into a float32 buffer in host memory what `creator` has in a new one."""

    def touch(self, buffer: Buffer) -> None:
        """Touch each page of a buffer in host memory once, so that it is there."""

    def allocator(self, nbytes: int, memory: Memory) -> Callable[[], Buffer]:
        """What gives new memory with every page of it there, and nothing written into it:
        `pageable` has its pages from the system, whatever the C library has left. Raises
        Unavailable where it cannot be pinned, or the device has none of its own."""

    def pin(self, source: Buffer) -> Buffer:
        """`tensor.pin_memory()`: a copy in newly allocated pinned memory, from the cache where it
        holds a block. Raises Unavailable where nothing can be pinned."""
        raise self.refusal("pinned memory")

    def move(self, source: Buffer, *, blocking: bool = True) -> Buffer:
        """`tensor.to(device, non_blocking=not blocking)`: allocate on the device and copy."""

    def fetcher(self, source: Buffer, *, blocking: bool = True) -> Callable[[], Buffer]:
        """`tensor.to("cpu", non_blocking=not blocking)`: allocate host memory and copy."""

    def drop_caches(self) -> None:
        """Synchronize and give back what the device's and the pinned allocator cache. Raises
        Unavailable where allocators have no caches, so that cold and warm are one case."""
        raise self.refusal("allocator caches")

    def keep_for(self, buffer: Buffer, stream: Any) -> None:
        """`tensor.record_stream(stream)`: not reused before what `stream` has now is done."""

    def compute(self, seconds: float) -> Step:
        """A calibrated step that keeps the device busy about `seconds` on the current stream.
        Raises Unavailable where none is that short."""

    def event_time(
        self, step: Step, count: int = 1, *, behind_s: float = 0.0, line_up: Step = lambda: None
    ) -> float:
        """Seconds of the device for a step, of so many between two events. They are enqueued behind
        a delay, which hides the time that this takes the host; `line_up` behind it, before them."""
        start, end = self.event(), self.event()
        if behind_s:
            self.delay(behind_s)
        line_up()
        start.record()
        for _ in range(count):
            step()
        end.record()
        self.synchronize()
        return self.seconds_between(start, end) / count

    def device_times(self, step: Step) -> list[float]:
        """Several of `event_time`, after one to warm up. A short step is repeated in between."""
        number, seconds = 1, list[float]()
        for _ in range(1 + _READINGS):
            seconds.append(self.event_time(step, number, behind_s=_HEAD_START_S))
            number = max(1, min(_MOST_STEPS, int(_SHORT_S / max(seconds[-1], 1e-9))))
        return seconds[1:]

    def refuse_shorter(self, seconds: float, least_s: float) -> None:
        """Raises Unavailable for a compute of `seconds` where the shortest takes `least_s`: that
        this one is slow while others use the core does not make it impossible."""
        if least_s > _TOO_LONG * seconds:
            asked, took = format_seconds(seconds), format_seconds(least_s)
            raise Unavailable(f"a compute of {asked} takes {took} here: none is that short")

    def training_step(self, num_examples: int) -> Step:
        """A small training step on the current stream: forward, backward and update of a perceptron
        on so many examples. What it is built of is there from the start; its memory grows with the
        examples by what is kept for the backward pass."""
        raise self.refusal("training steps")

    def delay(self, seconds: float) -> None:
        """Enqueue about `seconds` of waiting on the current stream; the call itself returns."""

    def stream(self) -> Any:
        """A new stream, an ordered queue of the device's work. `wait_event(event)`: what comes
        after it waits for that, the host does not. `synchronize()`: the host waits until all that
        was enqueued so far has finished."""

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        """Make `stream` the current stream inside the block."""
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def this_stream(self) -> Any:
        """The current stream."""
        return self.current

    def event(self, *, timing: bool = True, blocking: bool = False) -> Any:
        """A new event, a mark in a stream. `record(stream=None)` enqueues it, on the current stream
        where none is named; `synchronize()`: the host waits until it has been reached; `query()`:
        whether it has, without waiting. `blocking`: who synchronizes with it sleeps, and does not
        spin."""

    def seconds_between(self, start: Any, end: Any) -> float:
        """Device seconds from one event to a later one, both of which have been reached."""

    def loader(self, loading: Loading) -> Any:
        """The case's DataLoader; `reset` closes it. To iterate it is an epoch of host buffers, a
        batch each, all items in order; it starts workers where none are there. `expected(batch)`: a
        host buffer with what the batch of that number in an epoch holds, not loaded by it. Raises
        Unavailable where batches cannot be pinned, or shared memory is too small for them."""

    def synchronize(self) -> None:
        """Block the host until all streams have finished. Raises what the device's work raised."""

    def spin(self, event: Any) -> None:
        """Ask an event until it has been reached: the host is busy all the while."""
        while not event.query():
            pass

    def counter(self) -> Buffer:
        """A small tensor on the device: one float32, 0."""

    def advance(self, counter: Buffer) -> None:
        """Enqueue adding 1 to a counter."""

    def host_read(self, how: HostRead, counter: Buffer) -> Callable[[], Any]:
        """What a program does to a small tensor, as one call that is made over and over: it returns
        what the expression does. All but `shape` wait for the device."""

    def num_enqueued(self) -> int | None:
        """How often the device was given work so far; None where nobody counts. Operations of torch
        give the cpu device none: they run at once, in the host's thread."""
        return None

    def graph(self, work: Step) -> Step:
        """A step that replays, with one launch, all that `work` enqueues. `work` runs a few times
        before. Raises Unavailable where there are no graphs."""
        raise self.refusal("CUDA graphs")

    def memory_stats(self) -> dict[str, int]:
        """Bytes: `peak_allocated`; empty where nobody counts."""
        return {}

    def reset_peak(self) -> None:
        """Let `peak_allocated` begin at what is allocated now, where somebody counts."""
        return

    def memory_of(self, work: Step) -> dict[str, int]:
        """Run `work` and a synchronize, and tell what device memory it took beyond what was there,
        in bytes: `peak_allocated`; where an allocator caches `peak_reserved`; where it packs
        segments also `peak_requested`, `peak_inactive_split` (free, but in a segment that is in
        use) and how often it had to give back its cache, `num_alloc_retries`."""
        raise self.refusal("count of its memory")

    def limit_memory(self, nbytes: int) -> None:
        """Until `reset`: no more device memory than so many bytes beyond what is reserved now."""
        raise self.refusal("segments of an allocator")

    def observe(
        self, work: Step, ready: Step = lambda: None, *, traced: bool = False
    ) -> Observation:
        """Run `work` and a synchronize, and tell what the device did meanwhile; `ready` before each
        run of it. Never inside a timer. Raises Unavailable where it cannot be seen."""

    def bytes_counted(self) -> tuple[int, int]:
        """(into the device, out of it): bytes that the link has carried so far, by the hardware's
        own counters, everybody's. Raises Unavailable where there are none."""
        raise self.refusal("counters of its link's bytes")

    def bytes_sent(self) -> int:
        """Bytes that have left the device so far, over all of its links, by the hardware's own
        counters, everybody's. Raises Unavailable where there are none."""
        raise self.refusal("counters of its links' bytes")

    def reset(self) -> None:
        """Between cases: synchronize, drop caches of the device and the host, reset peaks."""

    def close(self) -> None:
        """Stop worker threads, where it has any; the device is not used again."""
        return
