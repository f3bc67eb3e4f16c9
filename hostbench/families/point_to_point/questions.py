"""What is asked of the family point_to_point: latency, bandwidth, the cheapest way."""

from collections.abc import Callable, Mapping
from typing import Any

from hostbench.core.case import AxisValue
from hostbench.report.kinds import Compare, Curve, Scaling
from hostbench.report.kinds.question import varying
from hostbench.report.rows import Rows, grouped, where

PAIR = "point_to_point.pair"
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "way": {"send_recv": "send and recv", "isend_irecv": "isend and irecv", "batch": "batched"},
    "stride": {1: "to the neighbour", **dict.fromkeys(range(2, 513), "across")},
    "direction": {"one_way": "one way", "both_ways": "both ways"},
}


def _varied(axis: str, **chosen: Any) -> Callable[[Rows], Rows]:
    """The pairs of as many ranks of which the run has several values of the axis."""

    def select(rows: Rows) -> Rows:
        groups = grouped(where(rows, PAIR, **chosen), ("num_ranks",))
        return [row for _, group in groups if axis in varying(group) for row in group]

    return select


QUESTIONS = (
    Curve(
        text="What are latency and bandwidth of a message, {direction}?", workload=PAIR,
        where={"num_ranks": 2}, each=("direction",),
        fits=({"way": "send_recv"}, {"way": "isend_irecv"}, {"way": "batch"}),
    ),
    Compare(
        text="What do messages cost that go both ways at once?", workload=PAIR, learnt="",
        where={"num_ranks": 2, "way": "batch"}, baseline={"direction": "one_way"},
        screen="a message, {nbytes}, 2 ranks",
    ),
    Compare(
        text="Which way to send both ways is cheapest?", workload=PAIR,
        select=_varied("way", num_ranks=2, direction="both_ways"), baseline={"way": "send_recv"},
    ),
    Compare(
        text="Does it matter to whom {num_ranks} send, all at once?", workload=PAIR,
        select=_varied("stride"), each=("num_ranks",), baseline={"stride": 1},
    ),
    Scaling(
        text="What does a step around a ring reach?", workload="point_to_point.ring",
        rate=lambda row: row.nbytes / row.time if row.nbytes else None,
        rate_name="bandwidth of one message",
    ),
)  # fmt: skip
