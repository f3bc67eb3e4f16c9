"""What the workloads of the family transfer should turn out to do: their `expects`."""

from typing import Any

from hostbench.core.case import AxisValue
from hostbench.core.units import KIB, MIB

STAGED_AT_ONCE = 64 * KIB
"""Up to this size the driver may take pageable bytes along with the command, without waiting."""


LONG = 16 * MIB
"""From here on a copy is long beside the enqueueing of the next one: 0.3 ms on PCIe Gen5, where
1MiB takes about 19 us and may be over before the other direction begins."""


def plain(
    device: str,
    nbytes: int,
    blocking: bool,
    memory: str = "pinned",
    cache: str = "warm",
    num_tensors: int = 1,
) -> dict[str, bool]:
    """A call returns early when it may and can: on CUDA not from pageable memory, unless perhaps
    for small copies, of which nothing is declared. Nor is it where the caches are cold, for whether
    CUDA's allocations wait for the device is nothing to build on; nor of a thousand calls, which
    may fill CUDA's queue, and then wait for it.

    On the cpu device a stream is a worker thread, so a non-blocking copy needs no pinning.
    """
    is_small = device == "cuda" and memory == "pageable" and nbytes <= STAGED_AT_ONCE
    if (is_small and not blocking) or cache == "cold" or num_tensors > 1:
        return {}
    return {"asynchronous": not blocking and (memory != "pageable" or device == "cpu")}


def strided(
    device: str, nbytes: int, direction: str, memory: str, blocking: bool, **_: AxisValue
) -> dict[str, bool]:
    """What the host gathers is pageable, whatever its source was."""
    gathered = "pageable" if direction == "h2d" else memory
    found = plain(device=device, nbytes=nbytes, memory=gathered, blocking=blocking)
    return {**found, "pageable": gathered == "pageable"}


def both_ways(device: str, nbytes: int, memory: str, **_: Any) -> dict[str, bool]:
    at_once = memory == "pinned" or device == "cpu"
    return {} if at_once and nbytes < LONG else {"both_at_once": at_once}


def cast(blocking: bool, memory: str, direction: str, **axes: Any) -> dict[str, bool]:
    """A copy that blocks is cast on the host, into or from pageable memory."""
    found = plain(blocking=blocking, memory=memory, **axes)
    return {**found, "pageable": blocking or memory == "pageable"}


def to_host(device: str, blocking: bool, **axes: Any) -> dict[str, bool]:
    """Pinned memory is allocated for a copy that does not block, where there is any."""
    found = plain(device=device, blocking=blocking, **axes)
    return {**found, "pageable": blocking or device == "cpu"}
