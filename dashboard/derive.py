"""From the tidy frame to what a chart or a table shows: frame -> frame, no streamlit."""

import math
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from words import DIRECTIONS, axes, commit8, known, missing, when

from hostbench.core import units
from hostbench.families import load as load_workloads
from hostbench.report.rows import with_axes

Row = dict[Hashable, Any]

CALLS = ("blocking", "non_blocking")
STATUSES = ("ok", "skipped", "failed", "not measured")


def counts(rows: pd.DataFrame) -> dict[str, int]:
    """How many cases of each status, and how many surprises."""
    found = {status: int((rows["status"] == status).sum()) for status in STATUSES}
    return {**found, "surprises": len(surprises(rows))}


def surprises(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that turned out to do something else than their case declares."""
    return rows[rows["flags"].fillna("").astype(str).str.contains("surprise:", regex=False)]


def of_workloads(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of hostbench's own workloads, whose axes are known."""
    return rows[rows["workload"].isin(list(load_workloads()))]


def of_family(rows: pd.DataFrame, family: str) -> pd.DataFrame:
    return with_axes(of_workloads(rows[rows["family"] == family]))


def newest_first(rows: pd.DataFrame, column: str) -> list[str]:
    """The values of a column, the one with the newest point first; what is only simulated last."""
    simulated = rows["run_id"].isin(set(rows["run_id"][rows["device"] == "simulated"]))
    found: dict[str, None] = {}
    for part in (rows[~simulated], rows[simulated]):
        newest = part.groupby(column, sort=False)["started_at"].max().sort_values(ascending=False)
        found |= dict.fromkeys(map(str, newest.index))
    return list(found)


def newest_of_family(rows: pd.DataFrame, family: str) -> pd.DataFrame:
    """A machine's newest run that measured or tried the family: hostbench's own before asv's, and
    what may be judged before scratch."""
    mine = of_workloads(rows[rows["family"] == family])
    came_to = mine[mine["status"] != "not measured"]
    if came_to.empty:
        return came_to
    own = came_to[came_to["source"] != "asv"]
    kept = own[own["scratch"].isna()]
    chosen = next(part for part in (kept, own, came_to) if len(part))
    return mine[mine["run_id"] == newest_first(chosen, "run_id")[0]]


def numbers_first(rows: pd.DataFrame) -> list[str]:
    """The cases in their order, those that have a number before those that never had one."""
    cases = list(dict.fromkeys(rows["case"]))
    having = set(rows["case"][rows["status"] == "ok"])
    return sorted(cases, key=lambda case: case not in having)


def number_text(row: pd.Series) -> str:
    """The row's number for a person, or a dash."""
    if not missing(row["seconds"]):
        return units.format_seconds(row["seconds"])
    return "-" if missing(row["value"]) else f"{row['value']:.4g} {known(row['unit'], '')}"


def decades(seconds: pd.Series) -> tuple[float, float]:
    """Limits of a logarithmic axis: the powers of ten below the shortest and above the longest."""
    bottom = 10.0 ** math.floor(math.log10(seconds.min() / 1.5))
    return bottom, 10.0 ** math.ceil(math.log10(seconds.max() * 2))


def copies(rows: pd.DataFrame) -> pd.DataFrame:
    """Transfers with mode, direction, asyncness, and the interval of the rate."""
    found = rows.copy()
    found["call"] = np.where(found["blocking"].astype(bool), *CALLS)
    found["mode"] = found["memory"].astype(str) + ", " + found["call"]
    found["direction"] = found["workload"].map(DIRECTIONS)
    found["nbytes"] = found["nbytes"].astype(float)
    found["asyncness"] = 1 - found["call_s"] / found["seconds"]
    found["rate_low"] = found["gb_per_s"] * found["seconds"] / found["ci_high_s"]
    found["rate_high"] = found["gb_per_s"] * found["seconds"] / found["ci_low_s"]
    return hover(found)


def hover(rows: pd.DataFrame) -> pd.DataFrame:
    """Adds the words that a pointer shows: number, interval, commit8, when, why."""
    found = rows.copy()
    cells = found.to_dict("records")
    found["number"] = [number_text(row) for _, row in found.iterrows()]
    found["rate"] = [_rate(row) for row in cells]
    found["size"] = [_size(row) for row in cells]
    found["interval"] = [_interval(row) for row in cells]
    found["launches"] = [_count(row["num_samples"]) for row in cells]
    found["commit8"] = [commit8(row["commit"]) for row in cells]
    found["when"] = [when(row["started_at"]) for row in cells]
    found["why"] = [_why(row) for row in cells]
    for column in ("torch", "driver"):
        found[column] = [known(row[column], "none") for row in cells]
    return found


def _rate(row: Row) -> str:
    return "-" if missing(row["gb_per_s"]) else units.format_rate(row["gb_per_s"])


def _size(row: Row) -> str:
    size = row["nbytes"]
    is_number = isinstance(size, int | float) and not missing(size)
    return units.format_bytes(int(size)) if is_number else known(size, "-")


def _interval(row: Row) -> str:
    if not missing(row["ci_low_s"]) and not missing(row["ci_high_s"]):
        low, high = units.format_seconds(row["ci_low_s"]), units.format_seconds(row["ci_high_s"])
        return f"{low} to {high}"
    if missing(row["num_samples"]):
        return "none"
    return f"none: {row['num_samples']:.0f} launches, 8 are needed"


def _count(number: float) -> str:
    return "none" if missing(number) else f"{number:.0f}"


def _why(row: Row) -> str:
    """Status, reason, scratch and flags in one line."""
    scratch = "" if missing(row["scratch"]) else f"scratch: {row['scratch']}"
    parts = [str(row["status"]), known(row["reason"], ""), known(row["flags"], ""), scratch]
    return "; ".join(part for part in parts if part)


def without_number(rows: pd.DataFrame) -> pd.DataFrame:
    """What was skipped, failed or not measured: one row per reason, with its cases."""
    bad = rows[rows["status"] != "ok"].copy()
    bad["reason"] = [known(reason, "no reason stored") for reason in bad["reason"]]
    bad["axes"] = [
        axes(case, name) for case, name in zip(bad["case"], bad["workload"], strict=True)
    ]
    keys = ["status", "workload", "reason"]
    groups = bad.groupby(keys, sort=False)["axes"].agg([len, "  |  ".join])
    return groups.set_axis(["cases", "which"], axis=1).reset_index()


def run_table(points: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """One line per run, newest first."""
    lines = []
    for run_id, rows in points.groupby("run_id", sort=False):
        first = rows.iloc[0]
        lines.append(
            {
                "machine": first["machine"],
                "started": when(first["started_at"]),
                "commit": commit8(first["commit"]),
                "run_id": run_id,
                "scratch": known(first["scratch"], ""),
                "torch": known(first["torch"]),
                "driver": known(first["driver"], "none"),
                **counts(rows),
                "at": first["started_at"],
            }
        )
    table = pd.DataFrame(lines).merge(runs, on="run_id", how="left")
    order = ["machine", "started", "commit", "profile", "scratch", "torch", "driver"]
    rest = [column for column in table if column not in [*order, "at"]]
    return table.sort_values("at", ascending=False, ignore_index=True)[order + rest]
