"""What ran when: spans in lanes, from a device to the picture and the file of them.

A lane is one thing that does one piece of work after the other: the host's thread, a stream.
"""

from collections.abc import Container, Iterable, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

Interval = tuple[float, float]
"""Start and end, in seconds."""
SpanKind = Literal[
    "call", "wait", "load", "op", "H2D", "D2H", "copy", "compute", "collective", "other"
]
HOST = "host"
"""The lane of the thread that made the calls."""
NEXT_BATCH = "next batch"
"""The name of the wait for a DataLoader."""
KINDS: dict[SpanKind, str] = {
    "call": "host: call",
    "wait": "host: waits",
    "load": "host: waits for data",
    "op": "host: operation of torch",
    "H2D": "copy to the device",
    "D2H": "copy to the host",
    "copy": "copy on or between devices",
    "compute": "compute",
    "collective": "collective",
    "other": "other",
}
"""Every kind of span, in the order of a legend -> what it is called there."""


class Span(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of work, or one call of the host."""

    name: str
    """As the device or a trace calls it: text from anywhere."""
    kind: SpanKind
    start_s: float
    end_s: float
    """Seconds of one clock, the same for all lanes of a picture."""
    nbytes: int = 0
    """Bytes that a copy moved."""


class Lane(Struct, frozen=True, kw_only=True):
    """Spans in the order of their starts."""

    name: str
    """`host`, `stream 7`."""
    place: str = ""
    """Where that is, if there are several: `rank 1`, `GPU 0`."""
    spans: tuple[Span, ...]


def extent(lanes: Iterable[Lane]) -> tuple[float, float]:
    """From the first start to the last end; (0, 0) where nothing ran."""
    spans = [span for lane in lanes for span in lane.spans]
    if not spans:
        return 0.0, 0.0
    return min(span.start_s for span in spans), max(span.end_s for span in spans)


def from_zero(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """The same on a clock that is 0 at the first start."""
    start_s, _ = extent(lanes)
    return moved(lanes, -start_s)


def moved(lanes: Iterable[Lane], by_s: float) -> tuple[Lane, ...]:
    """The same, so much later."""
    return tuple(
        replace(
            lane,
            spans=tuple(
                replace(span, start_s=span.start_s + by_s, end_s=span.end_s + by_s)
                for span in lane.spans
            ),
        )
        for lane in lanes
    )


def busy_s(spans: Iterable[Span], kinds: Container[SpanKind] = KINDS) -> float:
    """Seconds in which at least one span of these kinds ran."""
    return length(union((span.start_s, span.end_s) for span in spans if span.kind in kinds))


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """The time in which any of them ran: disjoint intervals in order."""
    merged: list[Interval] = []
    for start_s, end_s in sorted(intervals):
        if merged and start_s <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end_s, merged[-1][1]))
        else:
            merged.append((start_s, end_s))
    return merged


def length(intervals: Iterable[Interval]) -> float:
    return sum(end_s - start_s for start_s, end_s in intervals)
