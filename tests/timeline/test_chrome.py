"""The Chrome trace: what Perfetto needs, and back without loss."""

import json
from typing import Any

import pytest

from hostbench.core.lanes import Lane, Span
from hostbench.timeline import chrome_trace, read_trace

LANES = (
    Lane(
        name="host",
        spans=(
            Span(name="copy", kind="call", start_s=5.0, end_s=5.000_001),
            Span(name="synchronize", kind="wait", start_s=5.000_002, end_s=5.001),
        ),
    ),
    Lane(
        name="stream 7",
        place="GPU 0",
        spans=(Span(name="H2D", kind="H2D", start_s=5.0001, end_s=5.0009, nbytes=4096),),
    ),
    Lane(name="stream 8", place="GPU 0", spans=()),
)


def test_each_lane_is_a_thread_and_each_place_a_process() -> None:
    document = chrome_trace(LANES, {"case": "a.b"})
    events = document["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [(one["pid"], one["tid"], one["ts"], one["dur"]) for one in spans] == [
        (1, 1, 5_000_000.0, 1.0),
        (1, 1, 5_000_002.0, 998.0),
        (2, 2, 5_000_100.0, 800.0),
    ]
    assert [one["args"] for one in spans] == [{}, {}, {"bytes": 4096}]
    named = [
        (one["name"], one["pid"], one["tid"], one["args"]["name"])
        for one in events
        if one["name"] in ("process_name", "thread_name")
    ]
    assert named == [
        ("process_name", 1, 0, "hostbench"),
        ("process_name", 2, 0, "GPU 0"),
        ("thread_name", 1, 1, "host"),
        ("thread_name", 2, 2, "stream 7"),
        ("thread_name", 2, 3, "stream 8"),
    ]
    assert document["otherData"] == {"case": "a.b"}


def test_a_window_has_a_mark_at_each_end() -> None:
    moments = [
        (event["ts"], event["s"])
        for event in chrome_trace(LANES, {}, window=(4.5, 6.0))["traceEvents"]
        if event["ph"] == "i"
    ]
    assert moments == [(4_500_000.0, "g"), (6_000_000.0, "g")]


def test_it_is_read_back_as_it_was() -> None:
    document = json.loads(json.dumps(chrome_trace(LANES, {"case": "a.b"}, window=(0.0, 6.0))))
    lanes, about = read_trace(document)
    assert chrome_trace(lanes, about, window=(0.0, 6.0)) == document
    assert [(lane.name, lane.place, len(lane.spans)) for lane in lanes] == [
        ("host", "", 2),
        ("stream 7", "GPU 0", 1),
        ("stream 8", "GPU 0", 0),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {},
        {"traceEvents": 3, "otherData": {}},
        {"traceEvents": [{"ph": "X"}], "otherData": {}},
        {"traceEvents": [], "otherData": 3},
    ],
)
def test_what_is_no_trace_of_ours_is_refused(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        read_trace(wrong)


@pytest.mark.parametrize(
    "change", [{"cat": "magic"}, {"dur": -1}, {"ts": float("nan")}, {"dur": float("inf")}]
)
def test_a_span_that_cannot_be_is_refused(change: dict[str, Any]) -> None:
    document = chrome_trace(LANES, {})
    next(event for event in document["traceEvents"] if event["ph"] == "X").update(change)
    with pytest.raises(ValueError):
        read_trace(document)
