"""What is asked of the family point_to_point: latency, bandwidth, the cheapest way."""

from collections.abc import Mapping

from hostbench.core.case import AxisValue
from hostbench.report.kinds import Compare, Curve, Scaling

PAIR = "point_to_point.pair"
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "way": {"send_recv": "send and recv", "isend_irecv": "isend and irecv", "batch": "batched"},
    "stride": {1: "to the neighbour", **dict.fromkeys(range(2, 513), "across")},
    "direction": {"one_way": "one way", "both_ways": "both ways"},
}

QUESTIONS = (
    Curve(
        text="Latency and bandwidth of a message, {direction}", workload=PAIR,
        where={"num_ranks": 2}, each=("direction",),
        fits=({"way": "send_recv"}, {"way": "isend_irecv"}, {"way": "batch"}),
    ),
    Compare(
        text="What do messages cost that go both ways at once?", workload=PAIR, learnt="",
        where={"num_ranks": 2, "way": "batch"}, baseline={"direction": "one_way"},
        screen="a message, {nbytes}, 2 ranks",
    ),
    Compare(
        text="Which way to send both ways is cheapest?", workload=PAIR, varies="way",
        where={"num_ranks": 2, "direction": "both_ways"}, baseline={"way": "send_recv"},
    ),
    Compare(
        text="Does it matter to which rank {num_ranks} send at once?", workload=PAIR,
        each=("num_ranks",), varies="stride", baseline={"stride": 1},
    ),
    Scaling(
        text="How fast is a step around a ring?", workload="point_to_point.ring",
        rate=lambda row: row.nbytes / row.time if row.nbytes else None,
        rate_name="bandwidth of one message",
    ),
)  # fmt: skip
