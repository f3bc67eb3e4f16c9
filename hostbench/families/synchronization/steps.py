"""The steps of the family synchronization, which are counted on the device: so is proven that each
has run, and that its trap has read what the steps before it had made."""

from typing import Any, cast

from hostbench.core.samples import median
from hostbench.device.base import Device, HostRead, Step, learned
from hostbench.measure.measure import Prepared


def counted_steps(device: Device, step_us: int, trap: str, every: int = 1) -> Prepared:
    """A step of so much compute that adds 1 to a tensor, and after every so many the trap: in the
    midst of the steps that share one, not at the loop's end, where all wait."""
    compute, counter = device.compute(step_us / 1e6), device.counter()
    num_steps, trapped_at = 0, 0
    returned: Any = None

    def work() -> None:
        """What the device does in a step."""
        compute()
        device.advance(counter)

    def count() -> float:
        return float(device.host_read("item", counter)())

    is_free, how = trap in ("none", "graph"), cast(HostRead, trap)
    body: Step = work
    if trap == "graph":
        body = device.graph(work)
        num_steps = round(count())  # it was warmed up
    read = (lambda: None) if is_free else device.host_read(how, counter)

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
        expected = None if is_free else learned(how, trapped_at)
        value = returned.tolist() if hasattr(returned, "tolist") else returned
        if expected is None or value == expected:
            return None
        return f"after step {trapped_at} {trap} read {value}, not {expected}"

    return Prepared(
        step=step if is_free else trapped_step,
        verify=verify,
        findings=lambda: {"compute_s": median(device.device_times(compute))},
    )
