"""Series over their runs: points, levels, changes of facts."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from hostbench.core import units

TITLES = {
    "seconds": "seconds (lower is better)",
    "GB/s": "GB/s (higher is better)",
    "% of the limit": "% of what the link can carry (higher is better)",
    "% of the first level": "% of the time of the first level (lower is better)",
    "bytes": "memory (lower is better)",
    "value": "value (asv's rule: lower is better)",
}
KINDS = ("measured", "scratch (never judged)", "failed", "skipped")
MOST = 6
"""Series in one picture."""
MOST_DRAWN = 500
"""Points of a picture: four of a stretch of nine pixels at 1280 px; more are slow to draw."""
_POINTED = (
    "status reason scratch flags commit seconds gb_per_s ci_low_s ci_high_s value unit"
).split()
_FIRST_POINTS = 8
_FACTS = ("torch", "driver", "hardware")


def choices(every: Sequence[pd.DataFrame]) -> list[str]:
    """What may stand on the vertical axis, of what these series have; what is usual comes first."""
    found = []
    if any(rows["seconds"].notna().any() for rows in every):
        found.append("seconds")
        if all(rows["gb_per_s"].notna().any() for rows in every):
            found.append("GB/s")
        if all(rows["ceiling_gb_per_s"].gt(0).any() for rows in every):
            found.append("% of the limit")
        found.append("% of the first level")
    kinds = set(pd.concat([rows["unit"] for rows in every]).dropna()) if every else set()
    return found or ["bytes" if kinds == {"bytes"} else "value"]


def points(rows: pd.DataFrame, series: str, by: str, unit: str) -> pd.DataFrame:
    """A row for each point that was measured, the oldest first, with the label of its row:
    `series`, `machine`, `x` in ms since the epoch, `y` with `low` and `high` (NaN where there is no
    number: those stand on the axis) and `kind`. `by` is started_at or committed_at."""
    some = rows[(rows["status"] != "not measured") & rows[by].notna()]
    some = some.sort_values([by, "started_at"], kind="stable")
    at = some[by].astype("datetime64[ms, UTC]").astype("int64").astype("float64")
    y, low, high = _numbers(some, unit)
    kind = pd.Series(KINDS[0], index=some.index)
    kind[some["scratch"].notna()] = KINDS[1]
    kind[some["status"] == "failed"] = KINDS[2]
    kind[some["status"] == "skipped"] = KINDS[3]
    return pd.DataFrame(
        {
            "series": series,
            "machine": some["machine"].fillna(""),
            "x": at,
            "y": y,
            "low": low,
            "high": high,
            "kind": kind,
            "run_id": some["run_id"],
            "commit": some["commit"],
            "version": some["version"].fillna("").astype(str),
        }
    )


def thinned(found: pd.DataFrame, most: int) -> pd.DataFrame:
    """About `most` points of a line that has more, none of them made up: the points of each kind
    are cut into stretches of equally many, and of each the first, the last, the lowest and the
    highest stay, so that its outline is the same (M4: Jugel et al., VLDB 2014)."""
    if len(found) <= most:
        return found
    of_kind = found.groupby("kind", sort=False)
    size = of_kind["x"].transform("size")
    stretch = of_kind.cumcount() * (most * size // (4 * len(found))).clip(lower=1) // size
    of_each = found.groupby([stretch, found["kind"]], sort=False)
    low, high = (of_each["y"].transform(end) for end in ("min", "max"))
    ends = (found["y"] == low) | (found["y"] == high)
    first = ~found.assign(stretch=stretch).duplicated(["stretch", "kind", "y"])
    at = of_each.cumcount()
    of_last = of_each["x"].transform("size") - 1
    return found[(ends & first) | (at == 0) | (at == of_last)]


def worded(found: pd.DataFrame, rows: pd.DataFrame, unit: str) -> pd.DataFrame:
    """Points of these rows with `said`, what a pointer shows of each."""
    return found.assign(said=_said(rows.loc[found.index], unit))


def _numbers(rows: pd.DataFrame, unit: str) -> tuple[pd.Series, pd.Series, pd.Series]:
    seconds, low, high = rows["seconds"], rows["ci_low_s"], rows["ci_high_s"]
    if unit in ("bytes", "value"):
        nothing = pd.Series(float("nan"), index=rows.index)
        return rows["value"], nothing, nothing
    if unit in ("GB/s", "% of the limit"):
        rate = rows["gb_per_s"]
        if unit == "% of the limit":
            rate = 100 * rate / rows["ceiling_gb_per_s"].where(rows["ceiling_gb_per_s"] > 0)
        return rate, rate * seconds / high, rate * seconds / low
    factor = 1.0
    if unit == "% of the first level":
        good = seconds[(rows["status"] == "ok") & rows["scratch"].isna()].dropna()
        first = (good if len(good) else seconds.dropna()).head(_FIRST_POINTS).median()
        factor = 100 / first if first and first > 0 else float("nan")
    return seconds * factor, low * factor, high * factor


def _said(rows: pd.DataFrame, unit: str) -> list[str]:
    """What a pointer shows of each: number, why it has none, when, which commit."""
    cells = {name: rows[name].tolist() for name in _POINTED}
    times = rows["started_at"].dt.strftime("%Y-%m-%d %H:%M UTC").tolist()
    return [
        _line(dict(zip(cells, row, strict=True)), at, unit)
        for at, *row in zip(times, *cells.values(), strict=True)
    ]


def _line(row: Mapping[str, Any], at: Any, unit: str) -> str:
    why = "" if row["status"] == "ok" else f"{row['status']}: {_text(row['reason'])}"
    scratch = f"scratch: {row['scratch']}" if isinstance(row["scratch"], str) else ""
    commit = _text(row["commit"])[:8] or "no commit"
    about = (_number(row, unit), why, scratch, _text(row["flags"]), _text(at), commit)
    return " · ".join(one for one in about if one)[:300]


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else ""


def _number(row: Mapping[str, Any], unit: str) -> str:
    seconds, rate = row["seconds"], row["gb_per_s"]
    if not seconds > 0:  # NaN, too
        return "" if pd.isna(row["value"]) else units.format_value(row["value"], _text(row["unit"]))
    text = units.format_seconds(seconds)
    if unit in ("GB/s", "% of the limit") and rate > 0:
        text = units.format_rate(rate)
    low, high = row["ci_low_s"], row["ci_high_s"]
    if low == low and high == high:
        text += f" ({units.format_seconds(low)} to {units.format_seconds(high)})"
    return text


def lines(found: pd.DataFrame) -> pd.DataFrame:
    """The points with a number, `piece` by piece: a line ends where the series, the machine or the
    version of the workload does, and where the same commit is measured again (`again`)."""
    drawn = _drawn(found)
    before = drawn.shift()
    ends = ~_alike(drawn, before) | (drawn["commit"] == before["commit"])
    return drawn.assign(piece=ends.cumsum())


def again(found: pd.DataFrame) -> pd.DataFrame:
    """From each point to the next where both are of one commit, `x`, `y` to `x2`, `y2`: a step
    there is not the code's."""
    drawn = _drawn(found)
    after = drawn.shift(-1)
    same = _alike(drawn, after) & (drawn["commit"] == after["commit"])
    ends = drawn[["series", "x", "y"]].assign(x2=after["x"], y2=after["y"])
    return ends[same]


def _alike(rows: pd.DataFrame, others: pd.DataFrame) -> pd.Series:
    """Whether a line may go from the one to the other."""
    names = ["series", "machine", "version"]
    return (rows[names] == others[names]).all(axis=1)


def _drawn(found: pd.DataFrame) -> pd.DataFrame:
    return found[found["y"].notna() & found["kind"].isin(KINDS[:2])]


def levels(found: pd.DataFrame, steps: Sequence[float], detectable: float | None) -> pd.DataFrame:
    """The level between each two confirmed steps (`x` of the first point at the new level): a row
    for each with `x`, `x2`, `y`, and the band within which a change would not be seen, `low` and
    `high` (NaN where it is not known)."""
    good = found[found["y"].notna() & (found["kind"] == KINDS[0])]
    edges = [float("-inf"), *sorted(steps), float("inf")]
    rows = []
    for start, end in pairwise(edges):
        own = good[(good["x"] >= start) & (good["x"] < end)]
        if len(own):
            y = float(own["y"].median())
            half = float("nan") if detectable is None else detectable * abs(y)
            ends = {"x": own["x"].iloc[0], "x2": own["x"].iloc[-1]}
            rows.append({**ends, "y": y, "low": y - half, "high": y + half})
    return pd.DataFrame(rows, columns=["x", "x2", "y", "low", "high"])


def facts_changed(rows: pd.DataFrame, by: str) -> Iterator[tuple[float, str]]:
    """(x, `torch 2.12 -> 2.13`) wherever torch, the driver or the hardware changed."""
    order = rows[rows[by].notna()].sort_values([by, "started_at"], kind="stable")
    for name in (one for one in _FACTS if order[one].nunique() > 1):
        values = order[[by, name]].dropna().to_dict("records")
        for before, after in pairwise(values):
            if before[name] != after[name]:
                x = float(after[by].value // 1_000_000)
                yield x, f"{name} {before[name]} -> {after[name]}"


def limit(rows: pd.DataFrame, unit: str) -> float | None:
    """What the link can carry, in the unit of the axis; None where nobody knows it."""
    if unit == "% of the limit":
        return 100.0
    newest = rows["ceiling_gb_per_s"].dropna()
    return float(newest.iloc[-1]) if unit == "GB/s" and len(newest) else None


def samples(row: Mapping[Hashable, Any]) -> list[float]:
    """The launch medians of one point, in seconds."""
    held = row.get("launches")
    return [float(one) for one in held.values()] if isinstance(held, dict) else []
