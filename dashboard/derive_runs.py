"""Runs and machines as tables. No streamlit."""

import pandas as pd
from derive import TableRow
from words import commit8, environment, known, launches, missing

from hostbench.store.asv_tree import environment_of
from hostbench.store.columns import STATUSES

_OF_KIND = ["run_id", "profile", "launches", "measured", "complete", "scratch"]


def listed(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each run of data.runs, with what a table shows of it; without a column that says
    nothing of any."""
    every = {name for name in map(environment_of, runs["run_id"].dropna()) if name}
    table = runs.assign(
        started=runs["started_at"],
        commit=runs["commit"].map(commit8),
        torch=runs["torch"].map(lambda value: known(value, "")),
        driver=runs["driver"].map(lambda value: known(value, "")),
        kind=[_kind(row, every) for row in runs[_OF_KIND].to_dict("records")],
    )
    seldom = ("not measured", "unexpected", "torch", "driver")
    order = ["started", "machine", "commit", "kind", *STATUSES, *seldom[1:], "hardware", "run_id"]
    return table[[one for one in order if one not in seldom or table[one].any()]]


def _kind(row: TableRow, every: set[str]) -> str:
    """`standard, 10 launches`, and what it is besides."""
    if missing(row["profile"]):
        name = environment_of(str(row["run_id"]))
        said = f"asv: {environment(name, every)}" if name and len(every) > 1 else "asv's own file"
    else:
        said = f"{row['profile']}, {launches(row)}"
    return said if missing(row["scratch"]) else f"{said}, scratch: {row['scratch']}"
