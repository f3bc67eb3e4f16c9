"""What each series of a machine said last, also those that are never judged. Pure function of a
frame."""

import numpy as np
import pandas as pd

from hostbench.judge.grid import ORDER, Along, marked, settings
from hostbench.judge.levels import Integers

_CAME = ("ok", "failed", "skipped")
_LATER = 1 << 60
"""More microseconds than any two dates are apart."""


def newest(rows: pd.DataFrame, axis: Along) -> pd.DataFrame:
    """A row for each series that a run came to, with the columns of `rows` (judge.grid.NEEDED) at
    its newest point, runs that may be judged before scratch ones.

    The index is the place among `rows`. `setting`: what keeps series of one machine apart, empty
    for hostbench's own. `points`: how many numbers of runs that may be judged it has.
    """
    came = np.flatnonzero(rows["status"].isin(_CAME))
    setting, case = settings(rows), rows["case"].cat
    series = (
        setting.codes.astype(np.int64)[came] * len(case.categories) + case.codes.to_numpy()[came]
    )
    names, series = np.unique(series, return_inverse=True)
    scratch = rows["scratch"].notna().to_numpy()[came]
    at = _times(rows, ORDER[axis][0])[came] - _LATER * scratch
    last = np.full(len(names), np.iinfo(np.int64).min)
    np.maximum.at(last, series, at)
    places = came[at == last[series]]
    found = rows.iloc[places].set_index(places).assign(setting=setting[places])
    found = found.assign(series=series[at == last[series]], at=_times(found, "started_at"))
    found = found.sort_values("at", kind="stable").drop_duplicates("series", keep="last")
    counts = ~scratch & (rows["status"] == "ok").to_numpy()[came]
    points = np.bincount(series[counts], minlength=len(names))
    found = found.assign(points=points[found["series"]])
    return marked(found.sort_values("series").drop(columns=["series", "at"]))


def _times(rows: pd.DataFrame, name: str) -> Integers:
    """In microseconds; the commit's where a run has no time of its own; what has neither comes
    first."""
    dates = rows[name].fillna(rows["committed_at"]) if name == "started_at" else rows[name]
    at = dates.astype("datetime64[us, UTC]").to_numpy(dtype="datetime64[us]").astype(np.int64)
    return np.where(dates.isna(), -_LATER, at)
