"""Transfers: the fitted line, the limits behind the points, and the other workloads' bars."""

import math
from dataclasses import dataclass

import pandas as pd
from derive import hover
from words import missing

from hostbench.core import units
from hostbench.core.latency import Fit, fit
from hostbench.core.units import GB
from hostbench.report.conversions import hidden
from hostbench.report.rows import dicts, times

FITTED = (("pinned", False), ("pageable", True))
"""Memory and call of the series through which a line is laid, the first that is there."""
_STEPS = 60
_FAR = 2.5
"""A ceiling further than this factor above the points would squash them: it is only told."""
WAYS = {
    "transfer.to_device": ("tensor.to(device)", ("memory", "call", "cache")),
    "transfer.to_host": ('tensor.to("cpu")', ("call", "cache")),
    "transfer.pin_and_copy": ("pin_memory() and copy", ("call", "cache")),
    "transfer.many_tensors": ("The same bytes in many tensors", ("num_tensors", "memory", "call")),
    "transfer.both_ways": ("Both directions at once", ("memory",)),
    "transfer.strided": ("Every second element", ("direction", "memory", "call")),
    "transfer.cast": ("Cast to float16 on the way", ("direction", "memory", "call")),
    "transfer.on_device": ("Inside the device's memory", ("nbytes",)),
    "transfer.between_devices": ("From one GPU to another", ("route",)),
}
"""Workload -> the chart's title, and the axes that tell its bars apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one direction is held against."""

    ceiling_gb_per_s: float
    ceiling: str
    low_gb_per_s: float
    high_gb_per_s: float
    published: str

    @property
    def words(self) -> list[str]:
        said = []
        if not math.isnan(self.ceiling_gb_per_s):
            said.append(f"Ceiling: {units.format_rate(self.ceiling_gb_per_s)}, {self.ceiling}.")
        if not math.isnan(self.low_gb_per_s):
            said.append(f"Band: published, {self.published}.")
        return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A fit through one series, as what a chart draws."""

    mode: str
    fit: Fit
    curve: pd.DataFrame
    """nbytes, gb_per_s; empty where the fit is refused."""
    half: pd.DataFrame
    """The one point at the half-rate size."""


def limits_of(rows: pd.DataFrame) -> Limits:
    """Of one direction; what its rows say of the largest limit."""
    known = rows.dropna(subset=["ceiling_gb_per_s"])
    best = known.sort_values("ceiling_gb_per_s").iloc[-1] if len(known) else None
    cited = rows.dropna(subset=["published_low_gb_per_s", "published_high_gb_per_s"])
    return Limits(
        ceiling_gb_per_s=math.nan if best is None else float(best["ceiling_gb_per_s"]),
        ceiling="" if best is None else str(best["ceiling"]),
        low_gb_per_s=float(cited["published_low_gb_per_s"].min()) if len(cited) else math.nan,
        high_gb_per_s=float(cited["published_high_gb_per_s"].max()) if len(cited) else math.nan,
        published=str(cited["published"].iloc[0]) if len(cited) else "",
    )


def top_rate(numbers: pd.DataFrame, others: pd.DataFrame) -> float:
    """The axis' end, shared by both directions: every point, and each limit that is not far."""
    top = float(numbers["gb_per_s"].max())
    if len(others):
        top = max(top, float(others["gb_per_s"].max()))
    columns = ("ceiling_gb_per_s", "published_high_gb_per_s", "rate_high")
    far = [float(numbers[column].astype(float).max()) for column in columns]
    return 1.08 * max([top, *(one for one in far if one <= _FAR * top)])


def line(rows: pd.DataFrame) -> Line | None:
    """The fit of one direction through the series that is best for it; None where there is none."""
    for memory, blocking in FITTED:
        series = rows[(rows["memory"] == memory) & (rows["blocking"] == blocking)]
        known = times(series)
        if not known:
            continue
        found = fit(known)
        columns = {"nbytes": [], "gb_per_s": []} if found.refused else _curve(found)
        at = found.half_rate_bytes
        is_seen = not found.refused and found.sizes[0] <= at <= found.sizes[-1]
        half = {"nbytes": [at], "gb_per_s": [found.bytes_per_s / 2 / GB], "said": ["n1/2"]}
        return Line(
            mode=str(series["mode"].iloc[0]),
            fit=found,
            curve=pd.DataFrame(columns),
            half=pd.DataFrame(half if is_seen else {name: [] for name in half}),
        )
    return None


def _curve(found: Fit) -> dict[str, list[float]]:
    first, last = math.log(found.sizes[0]), math.log(found.sizes[-1])
    sizes = [math.exp(first + (last - first) * step / _STEPS) for step in range(_STEPS + 1)]
    return {"nbytes": sizes, "gb_per_s": [size / found.seconds(size) / GB for size in sizes]}


def ways(rows: pd.DataFrame, workload: str) -> pd.DataFrame:
    """The bars of one workload at its largest size with a number: `lane` names each."""
    mine = rows[rows["workload"] == workload]
    mine = mine[mine["seconds"].notna()]
    if mine.empty:
        return mine
    axes = WAYS[workload][1]
    if "nbytes" not in axes:
        mine = mine[mine["nbytes"] == mine["nbytes"].max()]
    found = hover(mine.sort_values(["blocking" if a == "call" else a for a in axes], kind="stable"))
    if "blocking" in found:
        found["call"] = ["blocking" if one else "non_blocking" for one in found["blocking"]]
    lanes = [[_word(axis, row[axis]) for axis in axes] for row in dicts(found)]
    found["lane"] = [", ".join(filter(None, words)) for words in lanes]
    found["mode"] = found["memory"].fillna("") if "memory" in found else ""
    found["said"] = [
        number if missing(rate) or rate == "-" else f"{number}, {rate}"
        for number, rate in zip(found["number"], found["rate"], strict=True)
    ]
    return found


def _word(axis: str, value: object) -> str:
    if missing(value):
        return ""
    if axis == "cache":
        return f"{value} cache"
    if axis == "num_tensors":
        return f"{float(str(value)):g} tensor{'s' * (value != 1)}"
    if axis == "nbytes":
        return units.format_bytes(int(float(str(value))))
    names = {"h2d": "H2D", "d2h": "D2H", "through_host": "through the host", "peer": "directly"}
    return names.get(str(value), str(value))


def conversions(rows: pd.DataFrame) -> pd.DataFrame:
    """What every strided and cast copy did, beside its time."""
    found = rows[rows["workload"].isin(["transfer.strided", "transfer.cast"])]
    found = found[found["seconds"].notna()]
    if found.empty:
        return found
    shown = hover(found)
    shown["observed"] = [_observed(row["findings"]) for row in dicts(found)]
    shown["in words"] = [hidden(row) for row in dicts(found)]
    shown["call"] = ["blocking" if one else "non_blocking" for one in shown["blocking"]]
    shown["what"] = shown["workload"].str.removeprefix("transfer.")
    columns = ["what", "size", "direction", "memory", "call", "number", "observed", "in words"]
    return shown[[*columns, "status"]].rename(columns={"number": "median"})


def _observed(findings: object) -> str:
    seen = findings.get("copies") if isinstance(findings, dict) else None
    return seen if isinstance(seen, str) else "not observed"
