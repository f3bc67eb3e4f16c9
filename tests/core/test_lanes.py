"""Spans in lanes: the extent, the clock's zero, the time in which something ran, the trace."""

from hostbench.core.lanes import Lane, Span, chrome_trace, extent, from_zero, length, union


def span(start_s: float, end_s: float, kind: str = "compute") -> Span:
    return Span(name=kind, kind=kind, start_s=start_s, end_s=end_s)  # type: ignore[arg-type]


LANES = (
    Lane(name="host", spans=(span(10.0, 11.0, "call"), span(11.0, 14.0, "wait"))),
    Lane(name="stream 1", place="GPU 0", spans=(span(12.0, 13.0), span(13.5, 16.0))),
)


def test_the_extent_is_from_the_first_start_to_the_last_end() -> None:
    assert extent(LANES) == (10.0, 16.0)
    assert extent([Lane(name="host", spans=())]) == (0.0, 0.0)


def test_from_zero_moves_every_lane_alike() -> None:
    moved = from_zero(LANES)
    assert extent(moved) == (0.0, 6.0)
    assert moved[1].spans[0].start_s == 2.0


def test_time_in_which_several_run_counts_once() -> None:
    assert length(union([(1.0, 3.0), (0.0, 2.0), (1.5, 2.0), (5.0, 6.0)])) == 4.0


def test_in_a_chrome_trace_each_lane_is_a_thread_and_each_place_a_process() -> None:
    copy = Span(name="H2D", kind="H2D", start_s=12.0, end_s=12.5, nbytes=4096)
    lanes = (*LANES, Lane(name="stream 2", place="GPU 0", spans=(copy,)))
    document = chrome_trace(lanes, {"case": "a.b"})
    assert document["otherData"] == {"case": "a.b"}
    events = document["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [(one["pid"], one["tid"], one["ts"], one["dur"]) for one in spans] == [
        (1, 1, 10e6, 1e6),
        (1, 1, 11e6, 3e6),
        (2, 2, 12e6, 1e6),
        (2, 2, 13.5e6, 2.5e6),
        (2, 3, 12e6, 0.5e6),
    ]
    assert [one["cat"] for one in spans] == ["call", "wait", "compute", "compute", "H2D"]
    assert (spans[0]["args"], spans[-1]["args"]) == ({}, {"bytes": 4096})
    named = [(one["name"], one["args"]["name"]) for one in events if "name" in one.get("args", {})]
    assert named == [
        ("process_name", "hostbench"),
        ("process_name", "GPU 0"),
        ("thread_name", "host"),
        ("thread_name", "stream 1"),
        ("thread_name", "stream 2"),
    ]
