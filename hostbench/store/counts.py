"""What the stored runs came to, counted: enough for an overview without reading their rows."""

import pandas as pd

from hostbench.families import load as load_workloads
from hostbench.store.peers import ours

STATUSES = ("ok", "skipped", "failed", "not measured")
ABOUT = ("commit", "started_at", "hardware", "torch", "driver", "scratch", "source")
"""What is the same in all rows of a run on a machine."""
KEYS = ("machine", "run_id", "family", "device", "own")
COUNTS = (*KEYS, *ABOUT, *STATUSES, "unexpected")
"""`own`: a workload of hostbench's or of this project, else of another one. A column for each
status: how many rows. `unexpected`: rows with a finding that their case does not declare."""


def count(rows: pd.DataFrame) -> pd.DataFrame:
    """The counts of a frame, other tools' points left out, the oldest run first."""
    rows = ours(rows)
    flags = rows["flags"].fillna("").astype(str)
    counted = rows[[name for name in (*KEYS, *ABOUT) if name != "own"]].assign(
        own=rows["workload"].isin(list(load_workloads())),
        unexpected=flags.str.contains("unexpected:", regex=False),
        **{status: rows["status"] == status for status in STATUSES},
    )
    how = dict.fromkeys(ABOUT, "first") | dict.fromkeys((*STATUSES, "unexpected"), "sum")
    groups = counted.groupby(list(KEYS), sort=False, dropna=False)
    found: pd.DataFrame = groups.agg(how).reset_index()
    return found[list(COUNTS)]


def series_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Workload, case, and whether it has a number in any row; the first measured first."""
    rows = ours(rows)
    found = rows.assign(
        workload=rows["workload"].astype(object),
        case=rows["case"].astype(object),
        has_number=rows["status"] == "ok",
    )
    groups = found.groupby(["workload", "case"], sort=False)
    shown = groups.agg(at=("started_at", "min"), has_number=("has_number", "max")).reset_index()
    shown = shown.sort_values("at", kind="stable", ignore_index=True)
    chosen: pd.DataFrame = shown[["workload", "case", "has_number"]]
    return chosen
