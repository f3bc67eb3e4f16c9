"""Series that had numbers and now fail, or are skipped. Pure functions of frames."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A series whose newest runs gave no number; a run that did not come to it says nothing."""

    series: int
    """Row of the grid."""
    status: Literal["failed", "skipped"]
    run_id: str
    """The first run of those."""
    commit: str
    committed_at: pd.Timestamp
    num_runs: int
    is_newest: bool
    """The machine's newest run is one of them."""


def stopped(rows: pd.DataFrame, cases: Sequence[str], order: Sequence[str]) -> Iterator[Stopped]:
    """Of one machine's rows of any status, with the runs ordered by these columns."""
    rows = rows[rows["commit"].notna() & rows["committed_at"].notna()]
    rows = rows.assign(started_at=rows["started_at"].fillna(rows["committed_at"]))
    rows = rows.sort_values(list(order), kind="stable")
    came = rows[rows["status"].isin(("ok", "failed", "skipped"))]
    last = came.drop_duplicates("case", keep="last")
    ended = last.loc[last["status"] != "ok", "case"]
    for case, own in came[came["case"].isin(ended)].groupby("case", observed=True):
        if case in cases:
            status = own["status"].iloc[-1]
            newest = own[own["status"].eq(status)[::-1].cummin()[::-1]]
            yield Stopped(
                series=cases.index(str(case)),
                status=status,
                run_id=str(newest["run_id"].iloc[0]),
                commit=str(newest["commit"].iloc[0]),
                committed_at=newest["committed_at"].iloc[0],
                num_runs=newest["run_id"].nunique(),
                is_newest=newest["run_id"].iloc[-1] == rows["run_id"].iloc[-1],
            )
