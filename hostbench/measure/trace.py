"""One reading of a case as it is timed, seen lane by lane: the host's calls, each stream's work."""

from hostbench.core.lanes import Lane, from_zero
from hostbench.device.base import Device
from hostbench.measure.measure import Prepared


def num_steps(prepared: Prepared) -> int:
    """Of the reading that is seen."""
    return prepared.warmup_steps + prepared.depth


def trace(device: Device, prepared: Prepared) -> tuple[Lane, ...]:
    """All its steps, those of the warm-up too, and one synchronize, on a clock that is 0 when the
    first call begins. Raises what running the step raises, and Unavailable where the device cannot
    be seen."""

    def one_reading() -> None:
        for _ in range(num_steps(prepared)):
            prepared.step()
        device.synchronize()

    prepared.get_ready(device)
    return from_zero(device.trace(one_reading))
