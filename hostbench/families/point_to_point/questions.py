"""What is asked of the family point_to_point: latency, bandwidth, the cheapest way."""

from collections.abc import Mapping

from hostbench.core.case import AxisValue
from hostbench.report.kinds import Compare, Curve, Scaling
from hostbench.report.kinds.question import varying
from hostbench.report.rows import Rows, where

PAIR = "point_to_point.pair"
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "way": {"send_recv": "send and recv", "isend_irecv": "isend and irecv", "batch": "batched"},
    "stride": {1: "to the neighbour", 2: "across", 4: "across"},
    "direction": {"one_way": "one way", "both_ways": "both ways"},
}


def _several_ways(rows: Rows) -> Rows:
    """None where there is one way alone, as in a quick run."""
    both = where(rows, PAIR, num_ranks=2, direction="both_ways")
    return both if "way" in varying(both) else []


QUESTIONS = (
    Curve(
        text="What are latency and bandwidth of a message, {direction}?",
        workload=PAIR,
        where={"num_ranks": 2},
        each=("direction",),
        fits=({"way": "send_recv"}, {"way": "isend_irecv"}, {"way": "batch"}),
    ),
    Compare(
        text="What do messages cost that go both ways at once?",
        workload=PAIR,
        where={"num_ranks": 2, "way": "batch"},
        baseline={"direction": "one_way"},
        screen="a message, {nbytes}, 2 ranks",
        learnt="",
    ),
    Compare(
        text="Which way to send both ways is cheapest?",
        workload=PAIR,
        select=_several_ways,
        baseline={"way": "send_recv"},
    ),
    Compare(
        text="Does it matter to whom {num_ranks} send, all at once?",
        workload=PAIR,
        where={"num_ranks": (4, 8)},
        each=("num_ranks",),
        baseline={"stride": 1},
    ),
    Scaling(
        text="What does a step around a ring reach?",
        workload="point_to_point.ring",
        rate=lambda row: row.nbytes / row.time if row.nbytes else None,
        rate_name="bandwidth of one message",
    ),
)
