"""What is asked of the family collectives: what operations cost, and how they scale."""

from collections.abc import Iterator, Mapping
from typing import Any

from hostbench.core.case import AxisValue
from hostbench.core.units import GB, KIB, MIB, format_seconds
from hostbench.families import question
from hostbench.families.operations import OPERATIONS
from hostbench.families.question import Compare, Curve, Figure, Finding, Parts, Picture, Row, Rows

ALONE, QUEUED = "collectives.all_reduce", "collectives.all_reduce_queued"
ANY = "collectives.operation"
WITH_DATA = tuple(name for name in OPERATIONS if name != "barrier")
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "operation": {
        "all_gather_into_tensor": "all-gather", "reduce_scatter_tensor": "reduce-scatter",
        "all_to_all_single": "all-to-all", "all_to_all_uneven": "uneven all-to-all",
        "all_reduce": "all-reduce",
    },
    "stage": {"rendezvous": "all join a store", "init": "a new group", "first": "its first sum"},
    "schedule": {
        "communicate_only": "the all-reduce alone", "compute_only": "the compute alone",
        "serial": "one after the other", "overlapped": "compute beside the all-reduce",
    },
}  # fmt: skip


def bus_bytes(row: Row) -> float | None:
    """What crosses the bus in a step; None for one rank, which sends nothing."""
    operation, num = str(row.axes.get("operation", "all_reduce")), int(row.axes["num_ranks"])
    known = OPERATIONS.get(operation)  # another version may have had others
    return row.nbytes * known.factor(num) if known and num > 1 and row.nbytes else None


def _bus_rate(row: Row) -> float | None:
    nbytes = bus_bytes(row)
    return nbytes / row.time / GB if nbytes and row.is_valid else None


def _transfer(row: Row, rows: Rows) -> Iterator[Figure]:
    """Of a collective to which ranks come one after the other; and the waiting before it."""
    waiting, who = format_seconds(row.findings["waiting_s"]), row.findings["last_rank"]
    note = f"after {waiting} of waiting for {who}"
    yield Figure("transfer", row.findings["transfer_s"], "s", notes=(note,))


def _sent(row: Row, rows: Rows) -> Iterator[Figure]:
    """What the busiest rank was seen to send, as a part of S, and beside what it must."""
    sent, num = row.findings.get("most_sent_bytes"), int(row.axes["num_ranks"])
    if sent is None or not row.nbytes:
        reason = "nobody counted the bytes"
        yield Figure("sent of S", None, "share", status="refused", reason=reason)
        return
    factor = OPERATIONS[str(row.axes["operation"])].factor(num)
    note = f"{sent / row.nbytes / factor:.2f} of what bus bandwidth counts"
    yield Figure("sent of S", sent / row.nbytes, "share", notes=(note,))


# Bus bandwidth, as of nccl-tests, beside that over the fewest ranks.
BUS: Mapping[str, Any] = {
    "over": "num_ranks", "unit": "GB/s", "work": bus_bytes, "is_habit": False,
}  # fmt: skip
QUESTIONS = (
    Compare(
        text="What bus bandwidth does all-reduce reach, by ranks?", workload=ALONE,
        screen="all-reduce bus, {nbytes}", **BUS,
    ),
    Compare(  # by gloo nothing queues up
        text="What bus bandwidth does all-reduce reach, 20 before each synchronize?",
        workload=QUEUED, devices=("cuda",), **BUS,
    ),
    Compare(  # of these sizes the time is latency, and a bandwidth says little
        text="What does a small all-reduce cost?", workload=ALONE, baseline={}, over="num_ranks",
        where={"nbytes": 4 * KIB}, screen="all-reduce, {nbytes}",
    ),
    Compare(
        text="What does one synchronize after 20 small all-reduces save?", workload=QUEUED,
        where={"nbytes": 4 * KIB}, beside=question.same("one each", ALONE),
    ),
    Compare(
        text="What does one CUDA graph of 20 small all-reduces cost?", devices=("cuda",),
        workload="collectives.all_reduce_graph", where={"nbytes": 4 * KIB}, baseline={},
        over="num_ranks",
    ),
    Compare(
        text="What do other collectives cost over {num_ranks}, beside an all-reduce?",
        workload=ANY, each=("num_ranks",), beside=question.same("all-reduce", ALONE),
        is_habit=False,
        where={"operation": tuple(name for name in WITH_DATA[1:] if name != "all_to_all_uneven")},
        screen="others, {nbytes}, {num_ranks}",
    ),
    Compare(
        text="What bus bandwidth does {operation} reach, by ranks?",
        workload=ANY, each=("operation",), where={"operation": WITH_DATA[1:]}, **BUS,
    ),
    Compare(
        text="What does a barrier cost?", workload=ANY, where={"operation": "barrier"}, baseline={},
        over="num_ranks",
    ),
    Curve(
        text="Latency and bandwidth of all-reduce", workload=ALONE,
        select=lambda rows: [row for row in rows if row.axes.get("num_ranks") != 1],
        fits="num_ranks", screen="all-reduce, {num_ranks}",
    ),
    Curve(
        text="Latency and bandwidth of {operation}", workload=ANY, each=("operation",),
        where={"operation": WITH_DATA[1:]}, fits="num_ranks",
    ),
    Parts(
        text="Does an all-reduce hide behind compute?", workload="collectives.with_compute",
        axis="schedule", serial="serial", ways=("overlapped",), ideal=max,
        parts=("communicate_only", "compute_only"), screen="all-reduce + compute",
    ),
    Finding(
        text="Is a rank that comes 1 ms late named, of {num_ranks}?",
        workload="collectives.arrival", each=("num_ranks",),
        where={"late_us": 1000}, finding="late_rank_named", figures=_transfer,
    ),
    Finding(
        text="Does each of {num_ranks} send as many bytes as documented?", workload=ANY,
        each=("num_ranks",), where={"operation": WITH_DATA[1:], "nbytes": MIB},
        finding="sends_as_documented", figures=_sent,
    ),
    Compare(
        text="How long does a job of {num_ranks} take to start?",
        workload="collectives.first", each=("num_ranks",), baseline={},
    ),
)  # fmt: skip
OVER_RANKS: Mapping[str, Any] = {
    "x": ("nbytes", "num_ranks"),
    "measures": (
        question.Measure("bus GB/s", "GB/s", _bus_rate, title="bus bandwidth in GB/s"),
        question.RATE, question.TIME,
        question.Measure(
            "efficiency", "share", _bus_rate, title="bus bandwidth / that of 2 ranks", better="",
            share_of={"num_ranks": 2},
        ),
    ),
}  # fmt: skip
PICTURES = (
    Picture(choice="All-reduce", text="All-reduce", workload=ALONE, has_card=True, **OVER_RANKS),
    Picture(
        choice="Collectives", text="Collectives beside each other", workload=ANY, **OVER_RANKS,
        usual={"num_ranks": (2,), "dtype": ("float32",), "operation": WITH_DATA},
    ),
    Picture(
        choice="Beside compute", text="Compute beside an all-reduce",
        workload="collectives.with_compute",
    ),
)  # fmt: skip
