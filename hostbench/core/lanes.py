"""What ran when: spans in lanes, and the Chrome trace of them, which Perfetto opens.

A lane is one thing that does one piece of work after the other: the host's thread, a stream.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

Interval = tuple[float, float]
"""Start and end, in seconds."""
SpanKind = Literal["call", "wait", "load", "H2D", "D2H", "copy", "compute", "collective", "other"]
"""Of the host's lane `call`, `wait` (for the device) and `load` (waits for a DataLoader)."""
HOST = "host"
"""The lane of the thread that made the calls."""
NEXT_BATCH = "next batch"
"""The name of the wait for a DataLoader."""


class Span(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of work, or one call of the host."""

    name: str
    """As the device or the profiler calls it: text from anywhere."""
    kind: SpanKind
    start_s: float
    end_s: float
    """Seconds of one clock, the same for all lanes of a trace."""
    nbytes: int = 0
    """Bytes that a copy moved."""


class Lane(Struct, frozen=True, kw_only=True):
    """Spans in the order of their starts."""

    name: str
    """`host`, `stream 7`."""
    place: str = ""
    """Where that is, if there are several: `rank 1`, `GPU 0`."""
    spans: tuple[Span, ...]


def extent(lanes: Iterable[Lane]) -> Interval:
    """From the first start to the last end; (0, 0) where nothing ran."""
    spans = [span for lane in lanes for span in lane.spans]
    if not spans:
        return 0.0, 0.0
    return min(span.start_s for span in spans), max(span.end_s for span in spans)


def from_zero(lanes: Sequence[Lane]) -> tuple[Lane, ...]:
    """The same on a clock that is 0 at the first start."""
    zero_s, _ = extent(lanes)
    return tuple(
        replace(
            lane,
            spans=tuple(
                replace(span, start_s=span.start_s - zero_s, end_s=span.end_s - zero_s)
                for span in lane.spans
            ),
        )
        for lane in lanes
    )


def chrome_trace(lanes: Sequence[Lane], about: Mapping[str, Any]) -> dict[str, Any]:
    """A process for each place, a thread for each lane; times in microseconds. `about` is plain
    values, which Perfetto shows beside the trace."""
    pids = {place: pid for pid, place in enumerate(dict.fromkeys(lane.place for lane in lanes), 1)}
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": place or "hostbench"}}
        for place, pid in pids.items()
    ]
    for tid, lane in enumerate(lanes, 1):
        thread = {"pid": pids[lane.place], "tid": tid}
        for name, args in (
            ("thread_name", {"name": lane.name}),
            ("thread_sort_index", {"sort_index": tid}),
        ):
            events.append({"ph": "M", "name": name, **thread, "args": args})
        for span in lane.spans:
            events.append(
                {
                    "ph": "X",
                    "name": span.name,
                    "cat": span.kind,
                    **thread,
                    "ts": round(span.start_s * 1e6, 3),
                    "dur": round((span.end_s - span.start_s) * 1e6, 3),
                    "args": {"bytes": span.nbytes} if span.nbytes else {},
                }
            )
    return {"displayTimeUnit": "ms", "otherData": dict(about), "traceEvents": events}


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
