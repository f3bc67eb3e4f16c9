"""synchronization: what it costs a loop to wait for the device, and which wait costs what.

A step enqueues a calibrated compute and adds 1 to a small tensor on the device, as a training step
makes its loss; then comes the trap. A case's time is that of one step, of a loop with one
synchronize at its end. How many steps the loop has is part of the case.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from hostbench import DEVICES, Device, Prepared, suite, workload
from hostbench.core.case import AxisValue
from hostbench.device.base import BLOCKING_EVENTS, GRAPHS, Step
from hostbench.device.traps import Trap, learned

ORDER = 25
"""Where the family stands in a report."""


def setup_cache() -> dict[str, Any]:
    return suite.measure("synchronization")


DEPTHS = {10: 100, 100: 50, 1_000: 10, 10_000: 10}
"""Microseconds of compute in a step -> steps of a loop."""
LoopTrap = Trap | Literal["none", "item_every_10", "graph"]
TRAPS: tuple[LoopTrap, ...] = (
    "none",
    "item",
    "item_every_10",
    "print",
    "bool",
    "if_greater",
    "cpu",
    "tolist",
    "nonzero",
    "mask",
    "synchronize",
    "shape",
    "graph",
)
FREE = ("none", "shape", "graph")
"""What needs nothing of the device."""
_LONG = ("none", "item", "item_every_10", "synchronize")
"""At 10 ms, where every loop takes long and the traps differ by nothing."""
_QUICK: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "cpu": {
        10: ("none", "item", "item_every_10", "print", "bool", "synchronize", "shape"),
        1_000: ("none", "item", "shape"),
    },
    "cuda": {10: ("none", "item", "shape", "graph"), 1_000: ("none", "item")},
}
"""Length of a step -> traps. On GPUs a quick run has no time for more."""
_QUICK_WAYS = {"cpu": ("device", "event", "event_query"), "cuda": ("device", "event_query")}
SAMPLING = 1 / 4
"""Each reading is the mean of many steps."""
QUEUED = (1, 2, 5, 10, 50)
WAYS = ("device", "stream", "event", "event_query", "blocking_event")
_WAIT_US, _WAIT_DEPTH = 100, 20


class CountedSteps:
    """The steps, and what they have to come to: the tensor counts them."""

    def __init__(self, device: Device, step_us: int) -> None:
        self._compute = device.compute(step_us / 1e6)
        self._device, self._counter = device, device.counter()
        self._num_steps, self._trapped_at = 0, 0
        self._returned: Any = None

    def body(self) -> None:
        """What the device does in a step."""
        self._compute()
        self._device.advance(self._counter)

    def prepared(self, trap: LoopTrap, every: int = 1) -> Prepared:
        """The loop with this trap in each step, or after every so many."""
        if trap == "item_every_10":
            return self.prepared("item", every=10)
        if trap == "none":
            return self._prepared(self._counted(self.body), lambda: None)
        if trap == "graph":
            replay = self._device.graph(self.body)
            self._num_steps = round(self._now())  # it was warmed up
            return self._prepared(self._counted(replay), lambda: None)
        step = self._trapped(self._device.trap(trap, self._counter), every)
        return self._prepared(step, lambda: self._misread(trap))

    def _counted(self, body: Step) -> Step:
        def step() -> None:
            body()
            self._num_steps += 1

        return step

    def _trapped(self, trap: Callable[[], Any], every: int) -> Step:
        """In the midst of the steps that share one: not at the loop's end, where all wait."""

        def step() -> None:
            self.body()
            self._num_steps += 1
            if (self._num_steps + every // 2) % every == 0:
                self._returned = trap()
                self._trapped_at = self._num_steps

        return step

    def _prepared(self, step: Step, misread: Callable[[], str | None]) -> Prepared:
        return Prepared(
            step=step, verify=lambda: self._miscounted() or misread(), counts_syncs=True
        )

    def _now(self) -> float:
        return float(self._device.trap("item", self._counter)())

    def _miscounted(self) -> str | None:
        """Each step has run, once."""
        number = self._now()
        if number == self._num_steps:
            return None
        return f"the steps counted to {number:g}, not to {self._num_steps}"

    def _misread(self, trap: Trap) -> str | None:
        """The trap has read what the steps before it had made."""
        wanted = learned(trap, self._trapped_at)
        if wanted is None:
            return None
        read = self._returned.tolist() if hasattr(self._returned, "tolist") else self._returned
        said = f"after step {self._trapped_at} {trap} read {read}, not {wanted}"
        return None if read == wanted else said


def _needs(trap: str, **_: AxisValue) -> Iterator[str]:
    if trap == "graph":
        yield GRAPHS


def _quick(device: str, step_us: int, trap: str) -> bool:
    return trap in _QUICK[device].get(step_us, ())


def _expects(trap: str, **_: AxisValue) -> dict[str, bool]:
    return {} if trap == "item_every_10" else {"asynchronous": trap in FREE}


@workload(
    axes={"device": DEVICES, "step_us": tuple(DEPTHS), "trap": TRAPS},
    depth=lambda step_us, **_: DEPTHS[step_us],
    only=lambda step_us, trap, **_: step_us < 10_000 or trap in _LONG,
    quick=_quick,
    needs=_needs,
    expects=_expects,
    baseline={"trap": "none"},
    sampling=SAMPLING,
    version="1",
)
def loop(device: Device, step_us: int, trap: LoopTrap) -> Prepared:
    """A step that ends with reading a tensor. Timed: a loop of them and one synchronize; a step."""
    return CountedSteps(device, step_us).prepared(trap)


@workload(
    axes={"device": DEVICES, "step_us": (100,), "num_queued": QUEUED},
    depth=max(QUEUED),
    quick=lambda device, num_queued, **_: device == "cpu" and num_queued in (1, 10),
    baseline={"num_queued": 1},
    sampling=SAMPLING,
    version="1",
)
def queued(device: Device, step_us: int, num_queued: int) -> Prepared:
    """`.item()` after every so many steps. Timed: as `loop`."""
    return CountedSteps(device, step_us).prepared("item", every=num_queued)


def _ways(device: Device, way: str) -> tuple[Step, Step]:
    """What is enqueued for the wait, and the wait."""
    if way in ("device", "stream"):
        waits = device.synchronize if way == "device" else device.this_stream().synchronize
        return (lambda: None), waits
    event = device.event(timing=False, blocking=way == "blocking_event")
    return event.record, (
        (lambda: device.spin(event)) if way == "event_query" else event.synchronize
    )


@workload(
    axes={"device": DEVICES, "way": WAYS},
    depth=_WAIT_DEPTH,
    quick=lambda device, way: way in _QUICK_WAYS[device],
    needs=lambda way, **_: [BLOCKING_EVENTS] if way == "blocking_event" else [],
    expects=lambda **_: {"asynchronous": False},
    baseline={"way": "device"},
    sampling=SAMPLING,
    version="1",
)
def wait(device: Device, way: str) -> Prepared:
    """100 us of compute and a wait for it. Timed: 20 of them; one, with recording its event."""
    compute = device.compute(_WAIT_US / 1e6)
    marks, waits = _ways(device, way)

    def step() -> None:
        compute()
        marks()
        waits()

    def verify() -> str | None:
        done = device.event(timing=False)
        device.delay(1e-3)
        done.record()
        step()
        return None if done.query() else "it was back before the work was done"

    return Prepared(step=step, verify=verify)
