"""What a device did while it was observed: copies and computes with their times."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hostbench.core.lanes import Interval, Lane, Span, SpanKind, length, union

COMPUTE = "compute"
DEFAULT_STREAM = "default stream"
_NCCL = "nccl"
_NUMBER = re.compile(r"\d+")


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
    stream: str = ""
    """The stream that it was enqueued on."""
    place: str = ""
    """Which of several devices it ran on."""
    name: str = ""
    """What the device calls it, where that is more than `what`: the name of a kernel."""


def lanes(activities: Iterable[Activity]) -> list[Lane]:
    """A lane for each stream that did something, in the order of their numbers; the places are
    named where there are several."""
    by_stream: dict[tuple[str, str], list[Span]] = {}
    for activity in activities:
        by_stream.setdefault((activity.place, activity.stream), []).append(_span(activity))
    several = len({place for place, _ in by_stream}) > 1
    return [
        Lane(
            name=stream,
            place=place if several else "",
            spans=tuple(sorted(spans, key=lambda span: span.start_s)),
        )
        for (place, stream), spans in sorted(by_stream.items(), key=lambda item: _order(*item[0]))
    ]


def _order(place: str, stream: str) -> tuple[str, int, str]:
    number = _NUMBER.search(stream)
    return place, int(number[0]) if number else -1, stream


def _span(activity: Activity) -> Span:
    return Span(
        name=activity.name or activity.what,
        kind=_kind(activity),
        start_s=activity.start_s,
        end_s=activity.end_s,
        nbytes=activity.nbytes,
    )


def _kind(activity: Activity) -> SpanKind:
    if activity.name.startswith(_NCCL):
        return "collective"
    if activity.what == COMPUTE:
        return "compute"
    kinds: dict[str, SpanKind] = {"H2D": "H2D", "D2H": "D2H", "D2D": "copy", "P2P": "copy"}
    return kinds.get(activity.what[:3], "other")


def copied(activities: Iterable[Activity]) -> dict[str, int]:
    """Bytes by kind of copy, in the order of first appearance."""
    nbytes_of: dict[str, int] = {}
    for activity in activities:
        if activity.what != COMPUTE:
            nbytes_of[activity.what] = nbytes_of.get(activity.what, 0) + activity.nbytes
    return nbytes_of


def busy(activities: Iterable[Activity], *, kinds: Sequence[str]) -> list[Interval]:
    """The union of the intervals in which work of these kinds ran; a kind is a prefix of `what`."""
    return union((a.start_s, a.end_s) for a in activities if a.what.startswith(tuple(kinds)))


def shared(left: Sequence[Interval], right: Sequence[Interval]) -> float:
    """Seconds in which both ran, as a share of the shorter of the two; 0 when one never ran.

    Both are unions of disjoint intervals in order of time, as `busy` gives them.
    """
    shorter = min(length(left), length(right))
    if shorter <= 0:
        return 0.0
    both = sum(max(0.0, min(a[1], b[1]) - max(a[0], b[0])) for a in left for b in right)
    return both / shorter
