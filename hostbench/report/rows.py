"""Small steps that the families' answers share: choosing rows of the tidy frame and naming them."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.families import load as load_workloads
from hostbench.families.overlap.loops import NUM_BATCHES

Row = dict[str, Any]


def dicts(rows: pd.DataFrame) -> list[Row]:
    return [{str(key): value for key, value in row.items()} for row in rows.to_dict("records")]


def ok(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.loc[rows["status"] == "ok"]


def largest(rows: pd.DataFrame, by: str = "nbytes") -> pd.DataFrame:
    """The rows of the largest size that has a number, or of the largest there is."""
    measured = ok(rows)
    source = measured if len(measured) else rows
    chosen: pd.DataFrame = rows.loc[rows[by] == source[by].max()]
    return chosen


def where(rows: pd.DataFrame, **axes: AxisValue) -> pd.DataFrame:
    """The rows with these values; none where a run has no such axis."""
    for name, value in axes.items():
        rows = rows.loc[rows[name] == value] if name in rows else rows.iloc[:0]
    return rows


def seconds(rows: pd.DataFrame, **axes: AxisValue) -> float | None:
    rows = where(rows, **axes)
    return float(rows["seconds"].iloc[0]) if len(rows) else None


def times(rows: pd.DataFrame) -> dict[int, float]:
    """Bytes -> seconds of the valid rows."""
    return {int(row["nbytes"]): float(row["seconds"]) for row in dicts(ok(rows))}


def with_axes(rows: pd.DataFrame) -> pd.DataFrame:
    """What a run did not come to has no axes in the frame: here they are, from the case."""
    works, found = load_workloads(), rows.copy()
    for index, row in rows[rows["status"] == "not measured"].iterrows():
        work = works.get(row["workload"])
        cases = work.cases() if work else ()
        for axis, value in next((c.values for c in cases if str(c) == row["case"]), {}).items():
            found[axis] = found[axis].astype(object) if axis in found else None
            found.at[index, axis] = value
    return found


def mode(row: Row) -> str:
    """`async pinned`: what the program asks for."""
    return f"{'sync' if row['blocking'] else 'async'} {row['memory']}"


def factor(numerator: float, denominator: float) -> str:
    return units.format_factor(numerator / denominator) if denominator > 0 else "n/a"


def size(rows: pd.DataFrame) -> str:
    return units.format_bytes(int(rows["nbytes"].iloc[0]))


def size_of(rows: pd.DataFrame) -> str:
    """`8 batches of 4 MiB`, of the family overlap."""
    return f"{NUM_BATCHES} batches of {units.format_bytes(int(rows['batch_bytes'].iloc[0]))}"


def launches_of(row: Row | None) -> dict[int, float]:
    """Launch -> seconds of a row; nothing where asv kept none or something odd is stored."""
    held = row.get("launches") if row else None
    return dict(held) if isinstance(held, dict) else {}


def label(rows: pd.DataFrame) -> str:
    """Numbers that are no accelerator's say so each time."""
    said = {"cpu": " [cpu device, no GPU]", "simulated": " [simulated]"}
    return next((said.get(device, "") for device in set(rows["device"])), "")


def lost(rows: pd.DataFrame, name: Callable[[Row], str]) -> str:
    """The failed ones of rows some of which have a number, each with its reason."""
    failed = dicts(rows[rows["status"] == "failed"])
    return "".join(f"; {name(row)}: failed, {row['reason']}" for row in failed)


def unseen(rows: pd.DataFrame) -> str:
    """Why there is no number: the reasons that were recorded, each once."""
    reasons = [str(reason) for reason in dict.fromkeys(rows["reason"].dropna())]
    failed = "failed" in set(rows["status"])
    text = "; ".join(reasons) or "this run did not measure it"
    return f"{'failed' if failed else 'cannot be seen here'}: {text}"
