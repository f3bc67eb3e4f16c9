"""What is asked of the family overlap: does copying hide behind computing, and by how much."""

from collections.abc import Mapping
from functools import partial

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.efficiency import Launches, by_launch, ideal_s, overlap
from hostbench.core.round_trip import beats, engines, ideal_round_trip_s
from hostbench.families.overlap.loops import NUM_BATCHES
from hostbench.report.kinds import Compare, Finding, Parts
from hostbench.report.kinds.parts import Efficiencies
from hostbench.report.rows import Row, Rows

TRIP = ("copy_in_only", "copy_out_only", "compute_only")
"""The parts of a round trip alone."""
ONE_STREAM = "one stream hides nothing: it can only save waits"
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
    said = engines(launches["three_streams"], *_bounds(launches))
    return f"{said[:1].upper()}{said[1:]}."


def _with_even(rows: Rows) -> Rows:
    """1:1 is the pipeline at the same size and memory."""
    swept = [row for row in rows if row.workload == "overlap.ratio"]
    sizes = {(row.axes["batch_bytes"], row.axes["memory"]) for row in swept}
    even = [
        row.with_axes(compute_to_copy="1:1").of("overlap.ratio")
        for row in rows
        if row.workload == "overlap.pipeline"
        and (row.axes["batch_bytes"], row.axes["memory"]) in sizes
        and row.axes["schedule"] in {one.axes["schedule"] for one in swept}
    ]
    return [*swept, *even]


def _peak(row: Row) -> str:
    nbytes = row.peak_memory_bytes
    return f"peak {units.format_bytes(int(nbytes))}" if nbytes else ""


QUESTIONS = (
    Parts(
        text="Do copies from {memory} memory hide behind compute?",
        workload="overlap.pipeline",
        each=("memory",),
        axis="schedule",
        serial="serial",
        ways=("default_stream", "copy_stream", "streams_2", "streams_4"),
        controls=("default_stream",),
        control=ONE_STREAM,
        parts=("copy_only", "compute_only"),
        efficiency=_efficiency,
        screen="copy beside compute, {memory}",
    ),
    Finding(
        text="What does a copy stream with non_blocking=True do from pageable memory?",
        workload="overlap.pipeline",
        where={"schedule": "copy_stream", "memory": "pageable"},
        devices=("cuda", "simulated"),
        finding="overlapped",
        share="overlap_share",
        says={True: "copies and computes overlap", False: "nothing overlaps", None: "not observed"},
    ),
    Parts(
        text="At which batch size do copies from {memory} memory hide best?",
        workload="overlap.pipeline",
        each=("memory",),
        axis="schedule",
        serial="serial",
        ways=("copy_stream",),
        parts=("copy_only", "compute_only"),
        efficiency=_efficiency,
        over="batch_bytes",
    ),
    Parts(
        text="At which ratio of compute to copy does overlap pay most?",
        workload="overlap.ratio",
        axis="schedule",
        serial="serial",
        ways=("copy_stream",),
        parts=("copy_only", "compute_only"),
        efficiency=_efficiency,
        over="compute_to_copy",
        select=_with_even,
    ),
    Compare(
        text="How to keep copy and compute in order: which way costs least?",
        workload="overlap.ordered",
        note=_peak,
    ),
    Parts(
        text="Do copies in, computes and copies out run at once?",
        workload="overlap.round_trip",
        axis="schedule",
        serial="serial",
        ways=("default_stream", "three_streams"),
        controls=("default_stream",),
        control=ONE_STREAM,
        parts=TRIP,
        efficiency=_round_trip,
        remark=_engines,
    ),
)
