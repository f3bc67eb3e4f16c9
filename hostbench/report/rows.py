"""Small steps that the families' answers share: choosing rows of the tidy frame and naming them."""

from typing import Any

import pandas as pd

from hostbench import units

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


def seconds(rows: pd.DataFrame, **axes: str | bool) -> float | None:
    for name, value in axes.items():
        rows = rows[rows[name] == value]
    return float(rows["seconds"].iloc[0]) if len(rows) else None


def size(rows: pd.DataFrame) -> str:
    return units.format_bytes(int(rows["nbytes"].iloc[0]))


def label(rows: pd.DataFrame) -> str:
    """Numbers that are no accelerator's say so each time."""
    said = {"cpu": " [cpu device, no GPU]", "simulated": " [simulated]"}
    return next((said.get(device, "") for device in set(rows["device"])), "")


def unseen(rows: pd.DataFrame) -> str:
    """Why there is no number: the reasons that were recorded, each once."""
    reasons = [str(reason) for reason in dict.fromkeys(rows["reason"].dropna())]
    failed = "failed" in set(rows["status"])
    text = "; ".join(reasons) or "this run did not measure it"
    return f"{'failed' if failed else 'cannot be seen here'}: {text}"
