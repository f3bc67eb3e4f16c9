"""What a device did while it was observed: copies and computes with their times."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

COMPUTE, COLLECTIVE = "compute", "collective"
DEFAULT_STREAM = "default stream"
Interval = tuple[float, float]
"""Start and end, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One piece of device work."""

    what: str
    """`compute`, `collective` (a kernel of nccl), or a copy: `H2D pinned`, `H2D pageable`,
    `D2H pinned`, `D2H pageable`, `D2D`, `P2P`."""
    start_s: float
    end_s: float
    nbytes: int = 0
    """Bytes that a copy moved."""
    stream: str = ""
    """The stream that it was enqueued on, where no profiler tells."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was seen of some work."""

    activities: Sequence[Activity]
    """What the device did, in order of time."""
    num_waits: int
    """How often the host waited for the device, the synchronize after the work aside."""
    trace: Sequence[dict[str, Any]] = ()
    """Events of a Chrome trace, where asked for, with what a profiler saw of the host."""


def copied(activities: Iterable[Activity]) -> dict[str, int]:
    """Bytes by kind of copy, in the order of first appearance."""
    nbytes_of: dict[str, int] = {}
    for activity in activities:
        if activity.what not in (COMPUTE, COLLECTIVE):
            nbytes_of[activity.what] = nbytes_of.get(activity.what, 0) + activity.nbytes
    return nbytes_of


def busy(activities: Iterable[Activity], *, kinds: Sequence[str]) -> list[Interval]:
    """When work of these kinds ran, disjoint intervals in order; a kind is a prefix of `what`."""
    merged: list[Interval] = []
    ran = [(a.start_s, a.end_s) for a in activities if a.what.startswith(tuple(kinds))]
    for start_s, end_s in sorted(ran):
        if merged and start_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end_s, merged[-1][1]))
        else:
            merged.append((start_s, end_s))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    """Seconds, of intervals that are disjoint."""
    return sum(end_s - start_s for start_s, end_s in intervals)


def shared(left: Sequence[Interval], right: Sequence[Interval]) -> float:
    """Seconds in which both ran, as a share of the shorter of the two; 0 when one never ran. Both
    are disjoint intervals in order of time, as `busy` gives them."""
    shorter = min(length(left), length(right))
    if shorter <= 0:
        return 0.0
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in left for b in right)
    return both / shorter
