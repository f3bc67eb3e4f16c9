"""The other loops of the family overlap: the ratio sweep, the orderings, the round trip."""

import math
from dataclasses import dataclass

import pandas as pd
from derive import hover
from words import missing

from hostbench.core import units
from hostbench.core.round_trip import RoundTrip
from hostbench.report.overlap_ways import (
    ORDERINGS,
    THREE,
    against,
    ordering_name,
    pays_most,
    ratio_sweep,
    trip,
)
from hostbench.report.rows import dicts, where
from hostbench.report.verdict import efficiency_in_words

STEPS = {
    "copy_in_only": "copies in alone",
    "copy_out_only": "copies out alone",
    "compute_only": "compute alone",
    "serial": "serial: wait for each",
    "default_stream": "everything async on one stream",
    THREE: "a stream each",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trip:
    """The bars of one memory's round trip and what they are held against."""

    memory: str
    size: str
    rows: pd.DataFrame
    known: RoundTrip | None

    @property
    def words(self) -> list[str]:
        """The efficiency against each bound, and the engines."""
        if self.known is None:
            return ["No efficiency: serial or the loop with a stream each has no valid number."]
        num = int(self.rows["num_samples"].max())
        said = [
            f"Against the ideal of {engines} copy engine{'s' * (engines > 1)}: "
            f"{against(self.known, engines, num)}."
            for engines in self.known.efficiencies
        ]
        engines = self.known.engines
        return [*said, f"{engines[:1].upper()}{engines[1:]}."]


def ratios(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per ratio: efficiency with its interval, and the share of serial's time saved."""
    found = [
        {
            "ratio": one.text,
            "x": one.compute_to_copy,
            "memory": one.memory,
            "mode": one.memory,
            "share": math.nan if one.efficiency.share is None else one.efficiency.share,
            "share_low": math.nan if one.efficiency.low is None else one.efficiency.low,
            "share_high": math.nan if one.efficiency.high is None else one.efficiency.high,
            "saved": one.saved,
            "said": efficiency_in_words(one.efficiency, one.num_launches),
            "number": units.format_seconds(one.seconds),
        }
        for one in ratio_sweep(rows)
    ]
    return pd.DataFrame(found)


def most(rows: pd.DataFrame) -> str:
    """Where overlap pays most, in words."""
    return pays_most(ratio_sweep(rows))


def orderings(rows: pd.DataFrame) -> pd.DataFrame:
    """The ways to keep order with time and peak memory, in the order of ORDERINGS."""
    mine = where(rows, workload="overlap.ordered")
    mine = mine[mine["seconds"].notna()]
    if mine.empty:
        return mine
    found = hover(mine)
    found["lane"] = [ordering_name(name) for name in found["ordering"]]
    found["mode"] = found["memory"]
    peaks = pd.to_numeric(found["peak_memory_bytes"], errors="coerce")
    found["peak_mib"] = peaks / units.MIB
    found["said"] = found["number"]
    found["said_peak"] = [
        "not known" if missing(peak) else units.format_bytes(int(peak)) for peak in peaks
    ]
    place = {name: number for number, name in enumerate(ORDERINGS)}
    found["place"] = [place.get(str(name), len(place)) for name in found["ordering"]]
    return found.sort_values("place", kind="stable")


def trips(rows: pd.DataFrame) -> list[Trip]:
    mine = where(rows, workload="overlap.round_trip")
    found = []
    for memory, group in mine.groupby("memory"):
        if group["seconds"].isna().all():
            continue
        shown = hover(group[group["seconds"].notna()])
        shown["lane"] = [STEPS.get(str(name), str(name)) for name in shown["schedule"]]
        shown["said"] = shown["number"]
        place = {name: number for number, name in enumerate(STEPS)}
        shown["place"] = [place.get(str(name), len(place)) for name in shown["schedule"]]
        size = units.format_bytes(int(dicts(group)[0]["batch_bytes"]))
        ordered = shown.sort_values("place", kind="stable")
        found.append(Trip(memory=str(memory), size=size, rows=ordered, known=trip(group)))
    return found
