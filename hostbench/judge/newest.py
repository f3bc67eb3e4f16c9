"""What each series of a machine said last, also those that are never judged. Pure function of a
frame."""

import numpy as np
import pandas as pd

from hostbench.judge.changepoint.levels import Integers
from hostbench.judge.grid import ORDER, Along, marked, settings

_CAME = ("ok", "failed", "skipped")
_LATER = 1 << 60
"""More microseconds than any two dates are apart."""


def newest(rows: pd.DataFrame, axis: Along) -> pd.DataFrame:
    """A row for each series that a run came to, with the columns of `rows` (judge.grid.NEEDED) at
    its newest point, runs that may be judged before scratch ones.

    The index is the place among `rows`. `setting`: what keeps series of one machine apart, empty
    for hostbench's own. `points`: how many numbers of runs that may be judged it has.
    """
    came, case = rows["status"].isin(_CAME).to_numpy(), rows["case"].cat
    setting = settings(rows)
    num = len(setting.categories) * len(case.categories)
    series = setting.codes.astype(np.int32) * len(case.categories) + case.codes.to_numpy()
    scratch = rows["scratch"].notna().to_numpy()
    at = _times(rows[ORDER[axis][0]])
    at[scratch] -= _LATER
    last = np.full(num, np.iinfo(np.int64).min)
    np.maximum.at(last, series[came], at[came])
    places = np.flatnonzero(came & (at == last[series]))
    counts = came & ~scratch & (rows["status"] == "ok").to_numpy()
    points = np.bincount(series[counts], minlength=num)
    found = rows.iloc[places].set_index(places)
    started = found["started_at"].fillna(found["committed_at"])
    found = found.assign(setting=setting[places], series=series[places], at=_times(started))
    found = found.sort_values("at", kind="stable").drop_duplicates("series", keep="last")
    found = found.sort_values("series").assign(points=lambda own: points[own["series"]])
    return marked(found.drop(columns=["series", "at"]))


def _times(dates: pd.Series) -> Integers:
    """In microseconds; what has no date comes first."""
    at = dates.to_numpy(dtype="datetime64[us]").view(np.int64)
    return np.where(dates.isna(), -_LATER, at)
