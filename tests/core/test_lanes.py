"""Spans in lanes: the extent, the clock's zero, and the time in which something ran."""

from hostbench.core.lanes import Lane, Span, busy_s, extent, from_zero


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
    spans = [span(0.0, 2.0), span(1.0, 3.0), span(1.5, 2.0), span(5.0, 6.0), span(8, 9, "wait")]
    assert busy_s(spans) == 5.0
    assert busy_s(spans, ("compute",)) == 4.0
    assert busy_s([]) == 0.0
