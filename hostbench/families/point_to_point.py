"""What is asked of the family point_to_point: latency, bandwidth, the cheapest way."""

from collections.abc import Mapping

from hostbench.core.case import AxisValue
from hostbench.families.question import Compare, Curve, Picture

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
        fits="way",
    ),
    Compare(
        text="What do messages cost that go both ways at once?", workload=PAIR, is_habit=False,
        where={"num_ranks": 2, "way": "batch"}, baseline={"direction": "one_way"},
        screen="message, {nbytes}",
    ),
    Compare(
        text="Which way to send both ways is cheapest?", workload=PAIR,
        where={"num_ranks": 2, "direction": "both_ways"}, baseline={"way": "send_recv"},
    ),
    Compare(
        text="Does it matter to which rank {num_ranks} send at once?", workload=PAIR,
        each=("num_ranks",), baseline={"stride": 1},
    ),
    Compare(
        text="How fast is a step around a ring?", workload="point_to_point.ring",
        over="num_ranks", unit="GB/s", work=lambda row: row.nbytes,
    ),
)  # fmt: skip
PICTURES = (
    Picture(
        choice="Messages", text="Messages between two ranks", workload=PAIR,
        x=("nbytes", "num_ranks"), usual={"num_ranks": (2,), "direction": ("one_way",)},
    ),
)  # fmt: skip
