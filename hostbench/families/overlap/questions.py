"""What is asked of the family overlap: does copying hide behind computing, and by how much."""

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch, ideal_s, overlap
from hostbench.core.round_trip import beats, engines, ideal_round_trip_s
from hostbench.families.overlap.loops import NUM_BATCHES
from hostbench.report.kinds import Compare, Curve, Finding, Parts
from hostbench.report.kinds.parts import Efficiencies
from hostbench.report.kinds.question import peak
from hostbench.report.rows import Row, Rows, where

TRIP = ("copy_in_only", "copy_out_only", "compute_only")
"""The parts of a round trip alone."""
WORDS: Mapping[str, Mapping[AxisValue, str]] = {
    "schedule": {
        "serial": "serial",
        "default_stream": "everything async on one stream",
        "copy_stream": "copy stream and compute stream with events",
        "streams_2": "2 streams, batch by batch",
        "streams_4": "4 streams, batch by batch",
        "three_streams": "a stream each",
        "copy_only": "the copies alone",
        "compute_only": "the computes alone",
        "copy_in_only": "the copies in alone",
        "copy_out_only": "the copies out alone",
    },
    "ordering": {
        "events": "events",
        "record_stream": "a new buffer per batch and record_stream",
        "stream_synchronize": "a stream synchronize",
        "device_synchronize": "a device-wide synchronize",
    },
    "batch_bytes": {
        size: f"{NUM_BATCHES} batches of {units.format_bytes(size)}"
        for size in (units.KIB * 2**power for power in range(21))
    },
}


def _efficiency(serial: Launches, loop: Launches, parts: Mapping[str, Launches]) -> Efficiencies:
    formula = partial(ideal_s, num_batches=NUM_BATCHES)
    ideal = by_launch(formula, parts["copy_only"], parts["compute_only"])
    return {"": overlap(serial, loop, ideal)}


def _bounds(parts: Mapping[str, Launches]) -> list[Launches]:
    """Of the round trip, for one and for two copy engines."""
    formulas = (
        partial(ideal_round_trip_s, num_batches=NUM_BATCHES, num_copy_engines=num) for num in (1, 2)
    )
    return [by_launch(formula, *(parts[name] for name in TRIP)) for formula in formulas]


def _round_trip(serial: Launches, loop: Launches, parts: Mapping[str, Launches]) -> Efficiencies:
    one, two = (overlap(serial, loop, bound) for bound in _bounds(parts))
    if beats(loop, _bounds(parts)[0]):
        one = one.without_share(refused="the loop beats this ideal")
    return {"2 copy engines": two, "1 copy engine": one}


def _engines(named: Mapping[str, Row]) -> str:
    """Which number of copy engines the device behaves like."""
    if not {"three_streams", *TRIP} <= set(named):
        return ""
    launches = {name: row.launches for name, row in named.items()}
    words = engines(launches["three_streams"], *_bounds(launches))
    return f"{words[:1].upper()}{words[1:]}."


def _with_even(rows: Rows) -> Rows:
    """1:1 is the pipeline at the same size and memory."""
    swept = where(rows, "overlap.ratio")
    same = {name: tuple({row.axes[name] for row in swept}) for name in ("batch_bytes", "memory")}
    even = where(rows, "overlap.pipeline", **same) if swept else []
    swept += [row.with_axes(compute_to_copy="1:1").of("overlap.ratio") for row in even]
    return sorted(swept, key=lambda r: Fraction(str(r.axes["compute_to_copy"]).replace(":", "/")))


def _serial(row: Row) -> tuple[str, Mapping[str, AxisValue]]:
    axes = {**row.axes, "schedule": "serial"}
    is_even = axes["compute_to_copy"] == "1:1"
    if is_even:
        del axes["compute_to_copy"]
    return "overlap.pipeline" if is_even else "overlap.ratio", axes


LOOPS: Mapping[str, Any] = {
    "axis": "schedule", "serial": "serial", "controls": ("default_stream",),
    "control": "one stream hides nothing: it can only save waits",
}  # fmt: skip
QUESTIONS = (
    Parts(
        text="Do copies from {memory} memory hide behind compute?", workload="overlap.pipeline",
        each=("memory",), parts=("copy_only", "compute_only"), efficiency=_efficiency,
        ways=("default_stream", "copy_stream", "streams_2", "streams_4"),
        screen="copy beside compute, {memory}", **LOOPS,
    ),
    Finding(
        text="What does a copy stream with non_blocking=True do from pageable memory?",
        workload="overlap.pipeline", where={"schedule": "copy_stream", "memory": "pageable"},
        devices=("cuda", "simulated"), finding="overlapped", share="overlap_share",
        says={True: "copies and computes overlap", False: "nothing overlaps", None: "not observed"},
    ),
    Curve(
        text="From which batch size on does a copy stream pay, from {memory} memory?",
        workload="overlap.pipeline", each=("memory",),
        where={"schedule": ("serial", "copy_stream")},
        crossing=("schedule", "serial", "copy_stream"),
    ),
    Compare(
        text="At which ratio of compute to copy does overlap pay most?", workload="overlap.ratio",
        where={"schedule": "copy_stream"}, select=_with_even, beside=_serial, beside_name="serial",
    ),
    Compare(
        text="How to keep copy and compute in order: which way costs least?",
        workload="overlap.ordered", note=peak,
    ),
    Parts(
        text="Do copies in, computes and copies out run at once?", workload="overlap.round_trip",
        ways=("default_stream", "three_streams"), parts=TRIP, efficiency=_round_trip,
        remark=_engines, **LOOPS,
    ),
)  # fmt: skip
