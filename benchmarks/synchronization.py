"""synchronization: what it costs a loop to wait for the device, and which wait costs what.

A step enqueues a calibrated compute and adds 1 to a small tensor on the device, as a training step
makes its loss; then comes the trap. A case's time is that of one step, of a loop with one
synchronize at its end. How many steps the loop has is part of the case.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from hostbench import DEVICES, Device, Prepared, suite, workload

ORDER = 25  # of the families in a report


def setup_cache():
    return suite.measure("synchronization")


SAMPLING = 1 / 4  # each reading is the mean of many steps
DEPTHS = {10: 100, 100: 50, 1_000: 10, 10_000: 10}
"""Microseconds of compute in a step -> steps of a loop."""
TRAPS = (
    "none", "item", "item_every_10", "print", "bool", "if_greater", "cpu", "tolist", "nonzero",
    "mask", "synchronize", "shape", "graph",
)  # fmt: skip
FREE = ("none", "shape", "graph")  # what needs nothing of the device
LONG = ("none", "item", "item_every_10", "synchronize")
"""At 10 ms, where every loop takes long and the traps differ by nothing."""
QUICK = {
    ("cpu", 100): ("none", "item", "item_every_10", "print", "bool", "synchronize", "shape"),
    ("cpu", 1_000): ("none", "item"),
    ("cuda", 10): ("none", "item", "shape", "graph"),
    ("cuda", 1_000): ("none", "item"),
}
"""On GPUs a quick run has no time for more; the cpu device has hardly a compute as short as 10 us.
"""


def counted_steps(device: Device, step_us: int, trap: Any, every: int = 1) -> Prepared:
    """A step of so much compute that adds 1 to a tensor, and after every so many the trap: in the
    midst of the steps that share one, not at the loop's end, where all wait.

    So is proven that each step has run, and that the trap has read what those before it had made.
    """
    from hostbench.device.base import learned

    compute, counter = device.compute(step_us / 1e6), device.counter()
    num_steps, trapped_at = 0, 0
    returned: Any = None

    def work() -> None:
        """What the device does in a step."""
        compute()
        device.advance(counter)

    def count() -> float:
        return float(device.host_read("item", counter)())

    is_free = trap in ("none", "graph")
    body: Callable[[], object] = work
    if trap == "graph":
        body = device.graph(work)
        num_steps = round(count())  # it was warmed up
    read = (lambda: None) if is_free else device.host_read(trap, counter)

    def step() -> None:
        nonlocal num_steps
        body()
        num_steps += 1

    def trapped_step() -> None:
        nonlocal num_steps, trapped_at, returned
        body()
        num_steps += 1
        if (num_steps + every // 2) % every == 0:
            returned = read()
            trapped_at = num_steps

    def verify() -> str | None:
        """Each step has run, once; the trap has read what the steps before it had made."""
        if (number := count()) != num_steps:
            return f"the steps counted to {number:g}, not to {num_steps}"
        expected = None if is_free else learned(trap, trapped_at)
        value = returned.tolist() if hasattr(returned, "tolist") else returned
        if expected is None or value == expected:
            return None
        return f"after step {trapped_at} {trap} read {value}, not {expected}"

    return Prepared(
        step=step if is_free else trapped_step,
        verify=verify,
        findings=lambda: {"compute_s": median(device.device_times(compute))},
    )


@workload(
    axes={"device": DEVICES, "step_us": tuple(DEPTHS), "trap": TRAPS},
    only=lambda step_us, trap, **_: step_us < 10_000 or trap in LONG,
    depth=lambda step_us, **_: DEPTHS[step_us],
    expects=lambda trap, **_: {} if trap == "item_every_10" else {"asynchronous": trap in FREE},
    needs=lambda trap, **_: ["CUDA graphs"] if trap == "graph" else [],
    quick=lambda device, step_us, trap: trap in QUICK.get((device, step_us), ()),
    sampling=SAMPLING,
    version="2",
)
def loop(device: Device, step_us: int, trap: str) -> Prepared:
    """A step that ends with reading a tensor. Timed: a loop of them and one synchronize; a step."""
    how, _, every = trap.partition("_every_")
    return counted_steps(device, step_us, how, every=int(every or 1))


@workload(
    axes={"device": DEVICES, "step_us": (100,), "num_queued": (1, 2, 5, 10, 50)},
    depth=50,
    quick=lambda device, num_queued, **_: device == "cpu" and num_queued in (1, 10),
    sampling=SAMPLING,
    version="2",
)
def queued(device: Device, step_us: int, num_queued: int) -> Prepared:
    """`.item()` after every so many steps. Timed: as `loop`."""
    return counted_steps(device, step_us, "item", every=num_queued)


@workload(
    axes={"device": DEVICES, "way": ("device", "stream", "event", "event_query", "blocking_event")},
    depth=20,
    expects={"asynchronous": False},
    needs=lambda way, **_: ["events that put the host to sleep"] if way == "blocking_event" else [],
    quick=lambda device, way: way in ("device", "event_query") or (device, way) == ("cpu", "event"),
    sampling=SAMPLING,
    version="2",
)
def wait(device: Device, way: str) -> Prepared:
    """100 us of compute and a wait for it. Timed: 20 of them; one, with recording its event."""
    compute, event = device.compute(100e-6), device.event(timing=False, blocking="blocking" in way)
    waits: dict[str, Callable[[], None]] = {
        "device": device.synchronize,
        "stream": device.this_stream().synchronize,
        "event_query": partial(device.spin, event),
    }
    enqueue_mark = event.record if "event" in way else (lambda: None)
    wait_for_it = waits.get(way, event.synchronize)

    def step() -> None:
        compute()
        enqueue_mark()
        wait_for_it()

    def verify() -> str | None:
        done = device.event(timing=False)
        device.delay(1e-3)
        done.record()
        step()
        return None if done.query() else "it was back before the work was done"

    return Prepared(step=step, verify=verify)
