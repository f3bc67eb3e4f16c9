"""From the tidy frame to what a chart or a table shows: frame -> frame, no streamlit."""

from collections.abc import Hashable
from typing import Any

import pandas as pd
from words import axes, commit8, known, missing, when

from hostbench.core import units

TableRow = dict[Hashable, Any]


def unexpected(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that turned out to do something else than their case declares."""
    return rows[rows["flags"].fillna("").astype(str).str.contains("unexpected:", regex=False)]


def hover(rows: pd.DataFrame) -> pd.DataFrame:
    """Adds the words that a pointer shows: number, rate, interval and so on."""
    found = rows.copy()
    cells = found.to_dict("records")
    found["number"] = [_number(row) for row in cells]
    found["rate"] = [_rate(row) for row in cells]
    found["interval"] = [_interval(row) for row in cells]
    found["launches"] = [_count(row["num_samples"]) for row in cells]
    found["commit8"] = [commit8(row["commit"]) for row in cells]
    found["when"] = [when(row["started_at"]) for row in cells]
    found["why"] = [_why(row) for row in cells]
    for column in ("torch", "driver"):
        found[column] = [known(row[column], "none") for row in cells]
    return found


def _number(row: TableRow) -> str:
    if not missing(row["seconds"]):
        return units.format_seconds(row["seconds"])
    return "-" if missing(row["value"]) else units.format_value(row["value"], row["unit"])


def _rate(row: TableRow) -> str:
    return "-" if missing(row["gb_per_s"]) else units.format_rate(row["gb_per_s"])


def _interval(row: TableRow) -> str:
    if not missing(row["ci_low_s"]) and not missing(row["ci_high_s"]):
        low, high = units.format_seconds(row["ci_low_s"]), units.format_seconds(row["ci_high_s"])
        return f"{low} to {high}"
    if missing(row["num_samples"]):
        return "none"
    return f"none: {row['num_samples']:.0f} launches, 8 are needed"


def _count(number: float) -> str:
    return "none" if missing(number) else f"{number:.0f}"


def _why(row: TableRow) -> str:
    """Status, reason, scratch and flags in one line."""
    scratch = "" if missing(row["scratch"]) else f"scratch: {row['scratch']}"
    parts = [str(row["status"]), known(row["reason"], ""), known(row["flags"], ""), scratch]
    return "; ".join(part for part in parts if part)


def without_number(rows: pd.DataFrame) -> pd.DataFrame:
    """What failed, was not measured or was skipped: one row per reason, with its cases."""
    bad = rows[rows["status"] != "ok"].sort_values("status", key=_worst_first, kind="stable")
    bad["reason"] = [known(reason, "no reason stored") for reason in bad["reason"]]
    bad["axes"] = [
        axes(case, name) for case, name in zip(bad["case"], bad["workload"], strict=True)
    ]
    keys = ["status", "workload", "reason"]
    groups = bad.groupby(keys, sort=False)["axes"].agg([len, "  |  ".join])
    return groups.set_axis(["cases", "which"], axis=1).reset_index()


def _worst_first(statuses: pd.Series) -> pd.Series:
    found: pd.Series = statuses.map({"failed": 0, "not measured": 1, "skipped": 2})
    return found
