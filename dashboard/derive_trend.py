"""One series over its runs: points, their kinds, and the lines between them. No streamlit."""

import pandas as pd
from derive import Row, hover
from words import missing

KINDS = ("measured", "scratch (never judged)", "failed (struck out)", "skipped")
STEPS = ("to another commit", "same commit again")

_IN_SECONDS = {"y": "seconds", "low": "ci_low_s", "high": "ci_high_s"}


def points(rows: pd.DataFrame, *, by: str, as_rate: bool) -> pd.DataFrame:
    """Adds x (ms since the epoch), y, low, high and kind; leaves out what was not measured.

    `by` is started_at or committed_at. y is NaN where there is no number: those belong on the axis.
    """
    found = hover(rows[rows["status"] != "not measured"])
    found = found[found[by].notna()].sort_values([by, "started_at"], kind="stable")
    found["x"] = found[by].astype("datetime64[ms, UTC]").astype("int64").astype("float64")
    for name, column in _IN_SECONDS.items():
        found[name] = found[column]
    if as_rate:
        found["y"] = found["gb_per_s"]
        found["low"] = found["gb_per_s"] * found["seconds"] / found["ci_high_s"]
        found["high"] = found["gb_per_s"] * found["seconds"] / found["ci_low_s"]
    elif found["seconds"].isna().all():
        found["y"] = found["value"]
    found["kind"] = [_kind(row) for row in found.to_dict("records")]
    return found


def _kind(row: Row) -> str:
    if row["status"] != "ok":
        return KINDS[3] if row["status"] == "skipped" else KINDS[2]
    return KINDS[0] if missing(row["scratch"]) else KINDS[1]


def segments(found: pd.DataFrame) -> pd.DataFrame:
    """Lines between neighbours that have a number; a new version of the workload breaks the line.

    A step along `same commit again` cannot come from the code.
    """
    drawn = found[(found["status"] == "ok") & found["y"].notna()]
    after = drawn.shift(-1)
    lines = pd.DataFrame({"x": drawn["x"], "y": drawn["y"], "x2": after["x"], "y2": after["y"]})
    same = (drawn["commit"] == after["commit"]).map({True: STEPS[1], False: STEPS[0]})
    kept = (drawn["version"].fillna("") == after["version"].fillna("")) & after["y"].notna()
    return lines.assign(step=same)[kept]


def domain(found: pd.DataFrame) -> list[float]:
    """Limits of the y axis: at least 10 % on both sides of the median, so that noise looks small.

    Zero to one where nothing has a number.
    """
    values = pd.concat([found["y"], found["low"], found["high"]]).dropna()
    if values.empty:
        return [0.0, 1.0]
    middle = float(found["y"].median())
    low, high = min(values.min(), 0.9 * middle), max(values.max(), 1.1 * middle)
    return [float(low), float(high)]
