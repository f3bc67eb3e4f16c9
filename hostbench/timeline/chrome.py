"""Lanes as a Chrome trace, and back from one that was written here."""

from collections.abc import Mapping, Sequence
from typing import Any

from hostbench.core.lanes import KINDS, Interval, Lane, Span

_ABOUT = "otherData"
_DIGITS = 3
"""Of microseconds: nanoseconds, as Kineto has them."""


def chrome_trace(
    lanes: Sequence[Lane], about: Mapping[str, Any], window: Interval | None = None
) -> dict[str, Any]:
    """A process for each place, a thread for each lane; times are the lanes', in microseconds.
    `about` is plain values, which Perfetto shows beside the trace. A `window` has a mark at each
    end, so that what is shown is all of it, also where nothing ran."""
    places = list(dict.fromkeys(lane.place for lane in lanes))
    events: list[dict[str, Any]] = [
        _named("process_name", pid, 0, place or "hostbench") for pid, place in enumerate(places, 1)
    ]
    for tid, lane in enumerate(lanes, 1):
        pid = places.index(lane.place) + 1
        events.append(_named("thread_name", pid, tid, lane.name))
        order = {"name": "thread_sort_index", "args": {"sort_index": tid}}
        events.append({"ph": "M", "pid": pid, "tid": tid, **order})
        events += (_event(span, pid, tid) for span in lane.spans)
    if window is not None:
        events += [_mark("start", window[0]), _mark("end", window[1])]
    return {"displayTimeUnit": "ms", _ABOUT: dict(about), "traceEvents": events}


def read_trace(document: Any) -> tuple[tuple[Lane, ...], dict[str, Any]]:
    """Lanes and `about` of what `chrome_trace` made. Raises ValueError, TypeError, KeyError or
    AttributeError for anything else."""
    places: dict[int, str] = {}
    names: dict[int, tuple[str, str]] = {}
    spans: dict[int, list[Span]] = {}
    for event in document["traceEvents"]:
        if event["name"] == "process_name":
            places[event["pid"]] = "" if event["args"]["name"] == "hostbench" else _place(event)
        elif event["name"] == "thread_name":
            names[event["tid"]] = str(event["args"]["name"]), places[event["pid"]]
        elif event["ph"] == "X":
            spans.setdefault(event["tid"], []).append(_span(event))
    lanes = (
        Lane(name=name, place=place, spans=tuple(spans.get(tid, ())))
        for tid, (name, place) in names.items()
    )
    return tuple(lanes), dict(document[_ABOUT])


def _named(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _mark(name: str, at_s: float) -> dict[str, Any]:
    """A moment, across all of the trace."""
    at_us = round(at_s * 1e6, _DIGITS)
    return {"ph": "i", "s": "g", "name": name, "pid": 1, "tid": 1, "ts": at_us}


def _place(event: Mapping[str, Any]) -> str:
    return str(event["args"]["name"])


def _event(span: Span, pid: int, tid: int) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": span.name,
        "cat": span.kind,
        "pid": pid,
        "tid": tid,
        "ts": round(span.start_s * 1e6, _DIGITS),
        "dur": round((span.end_s - span.start_s) * 1e6, _DIGITS),
        "args": {"bytes": span.nbytes} if span.nbytes else {},
    }


def _span(event: Mapping[str, Any]) -> Span:
    start_s, dur_s = float(event["ts"]) / 1e6, float(event["dur"]) / 1e6
    if event["cat"] not in KINDS or not 0 <= start_s <= start_s + dur_s < float("inf"):
        raise ValueError(f"no span: {event!r:.80}")
    return Span(
        name=str(event["name"]),
        kind=event["cat"],
        start_s=start_s,
        end_s=start_s + dur_s,
        nbytes=int(event["args"].get("bytes", 0)),
    )
