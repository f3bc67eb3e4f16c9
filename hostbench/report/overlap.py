"""The answers of the family `overlap`: does copying hide behind computing, and by how much."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from hostbench.core import efficiency, units
from hostbench.core.efficiency import Efficiency
from hostbench.families.overlap.loops import NUM_BATCHES
from hostbench.report.overlap_ways import orderings, ratios, round_trips
from hostbench.report.rows import Row, dicts, label, largest, launches_of, ok, unseen, with_axes
from hostbench.report.side_stream import snippet
from hostbench.report.verdict import efficiency_in_words, verdict

SCHEDULES = {
    "default_stream": "everything async on one stream",
    "copy_stream": "copy stream and compute stream with events",
    "streams_2": "2 streams in turn",
    "streams_4": "4 streams in turn",
}
"""The ways to write the loop, in words; `serial` is what they are held against."""
PARTS = {"serial": "serial", "copy_only": "the copies alone", "compute_only": "the computes alone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One way to write the loop at one size and memory, held against serial and ideal."""

    device: str
    nbytes: int
    memory: str
    schedule: str
    seconds: float
    serial_s: float
    num_launches: int
    efficiency: Efficiency


def loops(rows: pd.DataFrame) -> list[Loop]:
    """Every overlapped loop of one run whose serial loop has a number too."""
    found = []
    for _, group in ok(rows).groupby(["device", "batch_bytes", "memory"], sort=True):
        parts = {row["schedule"]: row for row in dicts(group)}
        halves = [launches_of(parts.get(name)) for name in ("serial", "copy_only", "compute_only")]
        serial, copy, compute = halves
        for schedule in SCHEDULES:
            row = parts.get(schedule)
            if row is None or "serial" not in parts:
                continue
            held = launches_of(row)
            found.append(
                Loop(
                    device=row["device"],
                    nbytes=int(row["batch_bytes"]),
                    memory=row["memory"],
                    schedule=schedule,
                    seconds=row["seconds"],
                    serial_s=parts["serial"]["seconds"],
                    num_launches=len(held),
                    efficiency=efficiency.overlap(serial, held, copy, compute, NUM_BATCHES),
                )
            )
    return found


def overlap(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Question and answer per kind of memory, at the largest batch that has numbers, then what the
    other workloads add. `rows` may hold what the run did not come to."""
    rows = with_axes(rows)
    pipeline = rows[rows["workload"] == "overlap.pipeline"]
    if len(pipeline):
        biggest = largest(pipeline, by="batch_bytes")
        for memory in dict.fromkeys(biggest["memory"]):
            chosen = biggest[biggest["memory"] == memory]
            if memory != "pageable" or len(chosen) > 1 or set(chosen["device"]) == {"cpu"}:
                yield f"Do copies from {memory} memory hide behind compute?", hidden(chosen)
        yield from snippet(biggest)
    yield from ratios(rows)
    yield from orderings(rows)
    yield from round_trips(rows)


def hidden(rows: pd.DataFrame) -> str:
    """The verdict, then every loop from the slowest to the fastest, then what has no number."""
    found = loops(rows)
    if not found:
        return _times_alone(rows)
    first = found[0]
    parts = [
        f"{SCHEDULES[one.schedule]} {units.format_seconds(one.seconds)} "
        f"({efficiency_in_words(one.efficiency, one.num_launches)})"
        for one in sorted(found, key=lambda one: one.seconds, reverse=True)
    ]
    refused = {one.efficiency.refused for one in found}
    if len(refused) == 1 and None not in refused:
        parts = [part.partition(" (efficiency not said")[0] for part in parts]
    ideals = [one.efficiency.ideal_s for one in found if one.efficiency.ideal_s]
    ideal = f"; ideal {units.format_seconds(ideals[0])}" if ideals else ""
    best = {SCHEDULES[one.schedule]: one.efficiency for one in found}
    return (
        f"{verdict(best)}. {NUM_BATCHES} batches of {units.format_bytes(first.nbytes)}: serial "
        f"{units.format_seconds(first.serial_s)}, {', '.join(parts)}{ideal}"
        f"{_without(rows)}{label(rows)}"
    )


def _times_alone(rows: pd.DataFrame) -> str:
    """What was measured without the serial loop beside it."""
    timed = [row for row in dicts(ok(rows)) if row["schedule"] in SCHEDULES]
    if not timed:
        return unseen(rows)
    parts = [f"{SCHEDULES[r['schedule']]} {units.format_seconds(r['seconds'])}" for r in timed]
    size = units.format_bytes(int(timed[0]["batch_bytes"]))
    return (
        f"undecided, because the serial loop has no number in this run. {NUM_BATCHES} batches of "
        f"{size}: {', '.join(parts)}{_without(rows)}{label(rows)}"
    )


def _without(rows: pd.DataFrame) -> str:
    """Every loop of the group without a valid number, by name and with the reason."""
    return "".join(f"; {_name(row)}: {_why(row)}" for row in dicts(rows) if row["status"] != "ok")


def _name(row: Row) -> str:
    schedule = str(row["schedule"])
    return {**SCHEDULES, **PARTS}.get(schedule, schedule)


def _why(row: Mapping[str, object]) -> str:
    return f"{row['status']}, {row['reason']}"
