"""What is asked of the family overlap: does copying hide behind computing, and by how much."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from hostbench.core.case import AxisValue
from hostbench.core.units import format_seconds
from hostbench.families import question
from hostbench.families.question import Compare, Figure, Finding, Parts, Picture, Row, Rows

NUM_BATCHES = 8  # of a loop, as in benchmarks/overlap.py
HOST_BOUND = 0.8  # from this share of the time on in calls, none of which waits
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "schedule": {
        "serial": "serial",
        "default_stream": "async on one stream",
        "copy_stream": "a copy stream",
        "graph": "a CUDA graph",
        "streams_2": "2 streams",
        "streams_4": "4 streams",
        "three_streams": "3 streams",
        "copy_only": "the copies alone",
        "compute_only": "the computes alone",
        "copy_in_only": "the copies in alone",
        "copy_out_only": "the copies out alone",
    },
    "ordering": {
        "events": "events",
        "record_stream": "a new buffer per batch and record_stream",
        "stream_synchronize": "synchronize of the stream",
        "device_synchronize": "synchronize of the device",
    },
}


def ideal_s(in_s: float, compute_s: float, out_s: float = 0.0) -> float:
    """The shortest loop, from its copies in, computes and copies out alone, with an engine for
    each: none can be done sooner than all of its work, after what has to come before the first
    piece and before what has to follow the last. Without copies out that is the bound of NVIDIA's
    simpleMultiCopy sample with the ends added: the first copy, then the longer of the two for each
    further batch, then the last compute.
    """
    one_in, one_compute, one_out = (part / NUM_BATCHES for part in (in_s, compute_s, out_s))
    return max(
        in_s + one_compute + one_out, one_in + compute_s + one_out, one_in + one_compute + out_s
    )


def _share(row: Row, rows: Rows) -> Iterator[Figure]:
    share = row.number("overlap_share")
    if share is not None and 0 <= share <= 1:
        yield Figure("overlapped share of the shorter one", share, "share")


def _host_bound(row: Row) -> str:
    """`host-bound: 38 us of calls a batch`: the loop takes as long as they do, and none waits."""
    is_free = row.number("syncs_per_step") == 0
    if not is_free or row.call_s is None or row.call_s < HOST_BOUND * row.time:
        return ""
    return f"host-bound: {format_seconds(row.call_s / NUM_BATCHES)} of calls a batch"


def _with_even(rows: Rows) -> Rows:
    """1:1 is the pipeline at the same size and memory."""
    swept = question.where(rows, "overlap.ratio")
    at = {name: tuple({row.axes[name] for row in swept}) for name in ("batch_bytes", "memory")}
    even = question.where(rows, "overlap.pipeline", **at) if swept else []
    swept += [
        replace(row, workload="overlap.ratio").with_axes(compute_to_copy="1:1") for row in even
    ]
    return sorted(swept, key=lambda r: Fraction(str(r.axes["compute_to_copy"]).replace(":", "/")))


# One stream hides nothing: it can only save waits.
LOOPS: Mapping[str, Any] = {
    "axis": "schedule", "serial": "serial", "controls": ("default_stream",),
}  # fmt: skip
QUESTIONS = (
    Parts(
        text="Do copies from {memory} memory hide behind compute?", workload="overlap.pipeline",
        each=("memory",), parts=("copy_only", "compute_only"), ideal=ideal_s,
        ways=("copy_stream", "streams_2", "streams_4"),
        screen="copy + compute, {memory}", **LOOPS,
    ),
    Finding(
        text="Does a copy stream overlap anything from pageable memory?",
        workload="overlap.pipeline", where={"schedule": "copy_stream", "memory": "pageable"},
        devices=("cuda", "simulated"), finding="overlapped",
        figures=_share,
    ),
    Compare(
        text="From which batch size does a copy stream pay, from {memory} memory?",
        workload="overlap.pipeline", each=("memory",), over="batch_bytes",
        where={"schedule": ("serial", "copy_stream")}, claim={"schedule": "copy_stream"},
        baseline={"schedule": "serial"}, note=_host_bound,
    ),
    Compare(
        text="From which batch size does a CUDA graph of the loop pay?",
        workload="overlap.pipeline", devices=("cuda", "simulated"), over="batch_bytes",
        where={"schedule": ("copy_stream", "graph"), "memory": "pinned"},
        claim={"schedule": "graph"}, baseline={"schedule": "copy_stream"}, note=_host_bound,
    ),
    Parts(
        text="Do copies hide behind a compute that needs the device's memory, too?",
        workload="overlap.memory_bound", parts=("copy_only", "compute_only"),
        ideal=ideal_s, ways=("copy_stream",),
        **{**LOOPS, "controls": ()},
    ),
    Compare(
        text="Which ratio of compute to copy gains most from overlap?", workload="overlap.ratio",
        where={"schedule": "copy_stream"}, select=_with_even,
        beside=question.same("serial", "overlap.ratio", schedule="serial"),
    ),
    Compare(
        text="What is the cheapest way to order copy and compute?",
        workload="overlap.ordered", note=Row.peak,
    ),
    Parts(
        text="Do copies in, computes and copies out run at once?", workload="overlap.round_trip",
        ways=("three_streams",), parts=("copy_in_only", "copy_out_only", "compute_only"),
        ideal=lambda in_s, out_s, compute_s: ideal_s(in_s, compute_s, out_s), **LOOPS,
    ),
)  # fmt: skip
PICTURES = (
    Picture(
        choice="Streams", text="One stream or several", workload="overlap.pipeline",
        x=("batch_bytes",), has_card=True,
        usual={
            "memory": ("pinned", "pageable"),
            "schedule": ("serial", "default_stream", "copy_stream", "streams_2", "streams_4"),
        },
    ),
)  # fmt: skip
