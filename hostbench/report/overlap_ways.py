"""More answers of `overlap`: where it pays, which ordering to take, and the round trip."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from hostbench.core import efficiency, units
from hostbench.core.efficiency import Efficiency
from hostbench.core.latency import SAME
from hostbench.core.round_trip import RoundTrip, round_trip
from hostbench.families.overlap.loops import NUM_BATCHES
from hostbench.report.rows import (
    dicts,
    factor,
    label,
    launches_of,
    lost,
    ok,
    size_of,
    unseen,
    where,
)
from hostbench.report.verdict import efficiency_in_words, verdict
from hostbench.report.winner import NO_DIFFERENCE, fastest

ORDERINGS = {
    "events": "events",
    "record_stream": "a new buffer per batch and record_stream",
    "stream_synchronize": "a stream synchronize",
    "device_synchronize": "a device-wide synchronize",
}
THREE = "three_streams"
NO_BOUND = "no bound: a part has no number"
Answers = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """The copy stream's loop at one proportion of compute to copy."""

    text: str
    """`1:4`."""
    compute_to_copy: float
    memory: str
    seconds: float
    serial_s: float
    num_launches: int
    efficiency: Efficiency
    saved_low: float
    saved_high: float
    """From the ends of both loops' 99 % intervals; NaN where one has none."""

    @property
    def has_interval(self) -> bool:
        return self.saved_low <= self.saved_high  # False for NaN

    @property
    def saved(self) -> float:
        """Share of the serial loop's time that the other one does not need."""
        return 1 - self.seconds / self.serial_s if self.serial_s > 0 else 0.0


def ratio_sweep(rows: pd.DataFrame) -> list[Ratio]:
    """Every ratio with a number, 1:1 from `pipeline` at the same size and memory, in order."""
    swept = where(rows, workload="overlap.ratio")
    if swept.empty:
        return []
    even = where(rows, workload="overlap.pipeline").assign(compute_to_copy="1:1")
    sizes, memories = set(swept["batch_bytes"]), set(swept["memory"])
    even = even[even["batch_bytes"].isin(sizes) & even["memory"].isin(memories)]
    found = []
    for (text, memory), group in ok(pd.concat([swept, even])).groupby(
        ["compute_to_copy", "memory"], sort=False
    ):
        parts = {row["schedule"]: row for row in dicts(group)}
        if not {"serial", "copy_stream"} <= set(parts):
            continue
        names = ("serial", "copy_stream", "copy_only", "compute_only")
        serial, loop, copy, compute = (launches_of(parts.get(name)) for name in names)
        known = efficiency.overlap(serial, loop, copy, compute, NUM_BATCHES)
        found.append(
            Ratio(
                text=str(text),
                compute_to_copy=_ratio(str(text)),
                memory=str(memory),
                seconds=parts["copy_stream"]["seconds"],
                serial_s=parts["serial"]["seconds"],
                num_launches=len(loop),
                efficiency=known,
                saved_low=_saved(parts["copy_stream"]["ci_high_s"], parts["serial"]["ci_low_s"]),
                saved_high=_saved(parts["copy_stream"]["ci_low_s"], parts["serial"]["ci_high_s"]),
            )
        )
    return sorted(found, key=lambda one: one.compute_to_copy)


def _saved(loop_s: float, serial_s: float) -> float:
    return 1 - loop_s / serial_s if serial_s > 0 else math.nan


def _ratio(text: str) -> float:
    compute, copy = text.split(":")
    return float(compute) / float(copy)


def ratios(rows: pd.DataFrame) -> Answers:
    swept = where(rows, workload="overlap.ratio")
    swept = swept[swept["schedule"] == "copy_stream"] if len(swept) else swept
    if swept.empty:
        return
    found = ratio_sweep(rows)
    question = "At which ratio of compute to copy does overlap pay most?"
    if not found:
        yield question, unseen(swept)
        return
    parts = [
        f"{one.text} {'saves' if one.saved >= 0 else 'loses'} {abs(one.saved):.0%} "
        f"({efficiency_in_words(one.efficiency, one.num_launches)})"
        for one in found
    ]
    named = lost(swept, lambda row: str(row["compute_to_copy"]))
    yield question, f"{pays_most(found)}. {size_of(swept)}: {', '.join(parts)}{named}{label(swept)}"


def pays_most(found: Sequence[Ratio]) -> str:
    """The ratio that saves most of the serial loop's time, or those that cannot be told apart."""
    best = max(found, key=lambda one: one.saved)
    note = "" if all(one.has_interval for one in found) else " (no interval)"
    tied = [one.text for one in found if one is best or not _saves_more(best, one)]
    what = f"{best.saved:.0%} of the serial loop's time{note}"
    if len(tied) == 1:
        return f"at {best.text}, where it saves {what}"
    if len(tied) == len(found):
        return f"{NO_DIFFERENCE}: it saves at most {what}"
    return f"{NO_DIFFERENCE} between {' and '.join(tied)}, where it saves most: {what}"


def _saves_more(best: Ratio, other: Ratio) -> bool:
    if best.has_interval and other.has_interval:
        return best.saved_low > other.saved_high
    return best.saved - other.saved > SAME


def orderings(rows: pd.DataFrame) -> Answers:
    """Seconds and the most that the device's allocator held, each way beside events."""
    found = where(rows, workload="overlap.ordered")
    if found.empty:
        return
    question = "How to keep copy and compute in order: which way costs least?"
    for _, group in found.groupby("memory"):
        measured = dicts(ok(group).sort_values("seconds"))
        if not measured:
            yield question, unseen(group)
            return
        base = next((row["seconds"] for row in measured if row["ordering"] == "events"), 0.0)
        parts = [
            f"{ordering_name(row['ordering'])} {units.format_seconds(row['seconds'])}"
            + (f" ({factor(row['seconds'], base)})" if base and row["seconds"] != base else "")
            + peak(row["peak_memory_bytes"])
            for row in measured
        ]
        named = lost(group, lambda row: ordering_name(row["ordering"]))
        lead = fastest(measured, [ordering_name(row["ordering"]) for row in measured])
        yield question, f"{lead}. {size_of(group)}: {', '.join(parts)}{named}{label(group)}"
        return


def ordering_name(name: object) -> str:
    return ORDERINGS.get(str(name), str(name))


def peak(nbytes: object) -> str:
    known = isinstance(nbytes, int | float) and nbytes == nbytes and nbytes > 0
    return f", peak {units.format_bytes(int(nbytes))}" if known else ""  # type: ignore[call-overload]


def trip(rows: pd.DataFrame) -> RoundTrip | None:
    """The round trip of one device and memory against both bounds; None without its loops."""
    parts = {row["schedule"]: row for row in dicts(ok(rows))}
    if not {"serial", THREE} <= set(parts):
        return None
    return round_trip(
        launches_of(parts["serial"]),
        launches_of(parts[THREE]),
        launches_of(parts.get("copy_in_only")),
        launches_of(parts.get("copy_out_only")),
        launches_of(parts.get("compute_only")),
        NUM_BATCHES,
    )


def round_trips(rows: pd.DataFrame) -> Answers:
    found = where(rows, workload="overlap.round_trip")
    if found.empty:
        return
    question = "Do copies in, computes and copies out run at once?"
    for _, group in found.groupby("memory"):
        known = trip(group)
        if known is None:
            yield question, _no_trip(group)
            return
        parts = {row["schedule"]: row["seconds"] for row in dicts(ok(group))}
        num = len(launches_of(next(r for r in dicts(ok(group)) if r["schedule"] == THREE)))
        times = ", ".join(
            f"{words} {units.format_seconds(parts[name])}"
            for name, words in (
                ("serial", "serial"),
                ("default_stream", "everything async on one stream"),
                (THREE, "a stream each"),
            )
            if name in parts
        )
        bounds = "; ".join(
            f"with {engines} copy engine{'s' * (engines > 1)} ideal "
            f"{units.format_seconds(known.ideals_s[engines])}, {against(known, engines, num)}"
            for engines in known.efficiencies
            if engines in known.ideals_s
        )
        lead = verdict({"a stream each, against two copy engines": known.efficiencies[2]})
        yield (
            question,
            (
                f"{lead}. {size_of(group)}: {times}; {bounds or NO_BOUND}; "
                f"{known.engines}{_failed(group)}{label(group)}"
            ),
        )
        return


def against(known: RoundTrip, engines: int, num_launches: int) -> str:
    """The efficiency against that many copy engines; `the loop beats it` says all of a bound for
    one that a device with two is below."""
    if engines == 1 and known.beats_one:
        return "the loop beats it"
    return efficiency_in_words(known.efficiencies[engines], num_launches)


def _no_trip(group: pd.DataFrame) -> str:
    needed = group[group["schedule"].isin(["serial", THREE])]
    lacking = needed[needed["status"] != "ok"]
    if ok(group).empty or lacking.empty:
        return unseen(group)
    return f"undecided, because{_failed(lacking)[1:]}{label(group)}"


def _failed(group: pd.DataFrame) -> str:
    bad = dicts(group[group["status"] != "ok"])
    return "".join(f"; {row['schedule']}: {row['status']}, {row['reason']}" for row in bad)
