"""All-reduce over ranks: bandwidths and scaling efficiency. No streamlit."""

from collections.abc import Callable

import pandas as pd
from derive import hover
from words import ranks

from hostbench.core import units
from hostbench.core.bandwidth import algorithm_bytes_per_s, bus_bytes_per_s, scaling_efficiency

OVERSUBSCRIBED = "oversubscribed"


def all_reduces(rows: pd.DataFrame) -> pd.DataFrame:
    """Adds ranks, bus and algorithm bandwidth in GB/s, scaling efficiency, and hollow.

    Both bandwidths are NaN for one rank, which sends nothing.
    """
    found = hover(rows).sort_values(["nbytes", "num_ranks"]).reset_index(drop=True)
    found["ranks"] = found["num_ranks"].astype(int)
    found["what"] = found["ranks"].map(ranks)
    found["size"] = [units.format_bytes(int(size)) for size in found["nbytes"]]
    found["hollow"] = found["flags"].fillna("").str.contains(OVERSUBSCRIBED, regex=False)
    found["bus"] = _each(found, _bus)
    found["algorithm"] = _each(found, _algorithm)
    found["scaling"] = _scaling(found)
    return found


def with_interval(found: pd.DataFrame, column: str) -> pd.DataFrame:
    """The rows whose rate in `column` has an interval, as rate_low and rate_high."""
    kept = found[found["ci_low_s"].notna() & found[column].notna() & (found["status"] == "ok")]
    per_second = kept[column] * kept["seconds"]
    low, high = per_second / kept["ci_high_s"], per_second / kept["ci_low_s"]
    return kept.assign(rate_low=low, rate_high=high)


def _each(found: pd.DataFrame, rate: Callable[[int, float, int], float | None]) -> pd.Series:
    cells = zip(found["nbytes"], found["seconds"], found["ranks"], strict=True)
    return pd.Series(
        [
            None if pd.isna(seconds) else rate(int(nbytes), seconds, num)
            for nbytes, seconds, num in cells
        ],
        dtype=float,
    )


def _bus(nbytes: int, seconds: float, num_ranks: int) -> float | None:
    rate = bus_bytes_per_s(nbytes, seconds, num_ranks)
    return None if rate is None else rate / units.GB


def _algorithm(nbytes: int, seconds: float, num_ranks: int) -> float | None:
    return algorithm_bytes_per_s(nbytes, seconds) / units.GB if num_ranks > 1 else None


def _scaling(found: pd.DataFrame) -> pd.Series:
    """Bus bandwidth over that of the fewest ranks measured at the same size."""
    share = pd.Series(float("nan"), found.index)
    for _, rows in found[(found["status"] == "ok") & found["bus"].notna()].groupby("nbytes"):
        known = scaling_efficiency(dict(zip(rows["ranks"], rows["bus"], strict=True)))
        share.loc[rows.index] = rows["ranks"].map(known)
    return share


def without_rate(found: pd.DataFrame) -> pd.DataFrame:
    """Numbers of ranks at which no size has a bandwidth, each with the word for why."""
    lacking = found.groupby("ranks").filter(lambda rows: rows["bus"].isna().all())
    said = [
        "not defined" if num == 1 else ", ".join(dict.fromkeys(rows["status"]))
        for num, rows in lacking.groupby("ranks")
    ]
    return pd.DataFrame({"ranks": sorted(set(lacking["ranks"])), "said": said})
