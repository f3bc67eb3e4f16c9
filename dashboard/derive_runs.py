"""Runs and machines as tables. No streamlit."""

import pandas as pd
from derive import TableRow
from words import commit8, known, launches, missing

from hostbench.store.columns import STATUSES


def listed(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each run of data.runs, with what a table shows of it."""
    table = runs.assign(
        started=runs["started_at"],
        commit=runs["commit"].map(commit8),
        torch=runs["torch"].map(lambda value: known(value, "")),
        driver=runs["driver"].map(lambda value: known(value, "")),
        kind=[_kind(row) for row in runs.to_dict("records")],
    )
    order = ["started", "machine", "commit", "kind", *STATUSES, "unexpected", "torch", "driver"]
    return table[[*order, "hardware", "run_id"]]


def _kind(row: TableRow) -> str:
    """`standard, 10 launches`, and what it is besides."""
    if missing(row["profile"]):
        said = "asv's own file"
    else:
        said = f"{row['profile']}, {launches(row)}"
    return said if missing(row["scratch"]) else f"{said}, scratch: {row['scratch']}"
