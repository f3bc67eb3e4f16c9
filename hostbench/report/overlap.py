"""The answer of the family `overlap`: does copying hide behind computing, and by how much."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from hostbench import efficiency, units
from hostbench.efficiency import Efficiency
from hostbench.report.rows import dicts, label, largest, ok, unseen
from hostbench.workloads.loops import NUM_BATCHES

SCHEDULES = {
    "default_stream": "everything async on one stream",
    "copy_stream": "copy stream and compute stream with events",
    "streams_2": "2 streams in turn",
    "streams_4": "4 streams in turn",
}
"""The ways to write the loop, in words; `serial` is what they are held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One way to write the loop at one size and memory, held against serial and ideal."""

    device: str
    nbytes: int
    memory: str
    schedule: str
    seconds: float
    serial_s: float
    efficiency: Efficiency


def loops(rows: pd.DataFrame) -> list[Loop]:
    """Every overlapped loop of one run whose serial, copy and compute parts have numbers too."""
    found = []
    for _, group in ok(rows).groupby(["device", "batch_bytes", "memory"], sort=True):
        parts = {row["schedule"]: row for row in dicts(group)}
        halves = [_launches(parts.get(name)) for name in ("serial", "copy_only", "compute_only")]
        serial, copy, compute = halves
        for schedule in SCHEDULES:
            row = parts.get(schedule)
            if row is None or "serial" not in parts:
                continue
            found.append(
                Loop(
                    device=row["device"],
                    nbytes=int(row["batch_bytes"]),
                    memory=row["memory"],
                    schedule=schedule,
                    seconds=row["seconds"],
                    serial_s=parts["serial"]["seconds"],
                    efficiency=efficiency.overlap(
                        serial, _launches(row), copy, compute, NUM_BATCHES
                    ),
                )
            )
    return found


def overlap(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Question and answer per kind of memory, at the largest batch that has numbers."""
    biggest = largest(rows[rows["workload"] == "overlap.pipeline"], by="batch_bytes")
    for memory in dict.fromkeys(biggest["memory"]):
        chosen = biggest[biggest["memory"] == memory]
        yield f"Do copies from {memory} memory hide behind compute?", _hidden(chosen)


def _hidden(rows: pd.DataFrame) -> str:
    found = loops(rows)
    if not found:
        return _times_alone(rows)
    first = found[0]
    refused = {loop.efficiency.refused for loop in found}
    same = next(iter(refused)) if len(refused) == 1 else None
    parts = [
        f"{SCHEDULES[loop.schedule]} {units.format_seconds(loop.seconds)}"
        + ("" if same else f" ({_share(loop)})")
        for loop in sorted(found, key=lambda loop: loop.seconds, reverse=True)
    ]
    ideals = [loop.efficiency.ideal_s for loop in found if loop.efficiency.ideal_s]
    ideal = f"; ideal {units.format_seconds(ideals[0])}" if ideals else ""
    return (
        f"{NUM_BATCHES} batches of {units.format_bytes(first.nbytes)}: serial "
        f"{units.format_seconds(first.serial_s)}, {', '.join(parts)}{ideal}"
        f"{f'; efficiency not said: {same}' if same else ''}{label(rows)}"
    )


def _times_alone(rows: pd.DataFrame) -> str:
    """What was measured without the serial loop beside it."""
    timed = [row for row in dicts(ok(rows)) if row["schedule"] in SCHEDULES]
    if not timed:
        return unseen(rows)
    parts = [f"{SCHEDULES[r['schedule']]} {units.format_seconds(r['seconds'])}" for r in timed]
    size = units.format_bytes(int(timed[0]["batch_bytes"]))
    return (
        f"{NUM_BATCHES} batches of {size}: {', '.join(parts)}; the serial loop was not measured in "
        f"this run, so no efficiency{label(rows)}"
    )


def _share(loop: Loop) -> str:
    known = loop.efficiency
    if known.share is None:
        return f"efficiency not said: {known.refused}"
    text = f"efficiency {known.share:.2f}"
    if known.low is not None and known.high is not None:
        text += f", 99 % interval {known.low:.2f} to {known.high:.2f}"
    return text


def _launches(row: Mapping[str, object] | None) -> dict[int, float]:
    held = row.get("launches") if row else None
    return dict(held) if isinstance(held, dict) else {}
