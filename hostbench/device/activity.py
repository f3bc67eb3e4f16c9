"""What a device did while it was observed: copies and computes with their times."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Interval = tuple[float, float]

COMPUTE = "compute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """One piece of device work."""

    what: str
    """`compute`, or a copy: `H2D pinned`, `H2D pageable`, `D2H pinned`, `D2H pageable`, `D2D`,
    `P2P`."""
    start_s: float
    end_s: float
    nbytes: int = 0
    """Bytes that a copy moved."""


def copied(activities: Iterable[Activity]) -> dict[str, int]:
    """Bytes by kind of copy, in the order of first appearance."""
    found: dict[str, int] = {}
    for one in activities:
        if one.what != COMPUTE:
            found[one.what] = found.get(one.what, 0) + one.nbytes
    return found


def busy(activities: Iterable[Activity], *, kinds: Sequence[str]) -> list[Interval]:
    """The union of the intervals in which work of these kinds ran; a kind is a prefix of `what`."""
    chosen = [(a.start_s, a.end_s) for a in activities if a.what.startswith(tuple(kinds))]
    merged: list[Interval] = []
    for start_s, end_s in sorted(chosen):
        if merged and start_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end_s, merged[-1][1]))
        else:
            merged.append((start_s, end_s))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(end_s - start_s for start_s, end_s in intervals)


def shared(left: Sequence[Interval], right: Sequence[Interval]) -> float:
    """Seconds in which both ran, as a share of the shorter of the two; 0 when one never ran.

    Both are unions of disjoint intervals in order of time, as `busy` gives them.
    """
    shorter = min(length(left), length(right))
    if shorter <= 0:
        return 0.0
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in left for b in right)
    return both / shorter
