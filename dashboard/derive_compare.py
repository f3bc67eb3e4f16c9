"""Two sides of a comparison as a table and a chart. No streamlit."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
from derive import TableRow
from words import case

from hostbench.core import units
from hostbench.judge.compare import Comparison
from hostbench.judge.grid import short_version
from hostbench.report.charts import BLUE, GREEN, GREY, ORANGE, Spec, field, layer, scale, titled
from hostbench.report.comparison import in_order, name_of
from hostbench.report.side_runs import SideRuns
from hostbench.report.sides import Key

VERDICTS = ("slower", "faster", "same", "undecided")
COLORS = (ORANGE, GREEN, BLUE, GREY)
NOT_SHOWN = ["before_value", "after_value", "unit"]
"""Columns of the CSV alone."""
MOST_DRAWN = 40
"""Series in the chart: the rest is in the table."""
_LONGEST = 68
LABELS = {"expr": "windowSize()[0] < 700 ? 150 : 420"}
"""Pixels for the names: a telephone has little room beside them."""
MOST_ROWS = 20_000
"""Of each side: the newest runs of a machine or version that has more."""
COLUMNS = (
    "verdict series change low high detectable before after observations note before_value "
    "after_value unit"
).split()
KINDS = {
    "commit": "commits",
    "machine": "machines",
    "torch": "torch",
    "driver": "driver",
    "environment": "environments",
}
"""Column of History.sides -> what a page calls it."""


def names(runs: pd.DataFrame, column: str) -> list[str]:
    """What may be compared, the newest first."""
    known = runs[runs["scratch"].isna()] if column != "run_id" else runs
    order = known.sort_values("started_at", ascending=False, kind="stable")
    return [str(one) for one in order[column].dropna().unique()]


def newest(side: SideRuns, num_rows: Mapping[str, int]) -> SideRuns:
    """With its newest runs alone where it has more than MOST_ROWS; `num_rows` by run."""
    runs = side.rows.sort_values("started_at", ascending=False, kind="stable")
    before = runs["run_id"].map(num_rows).fillna(0).cumsum().shift(fill_value=0)
    return replace(side, rows=runs[before < MOST_ROWS].iloc[::-1])


def counted(found: Mapping[Key, Comparison]) -> dict[str, int]:
    """Verdict -> series, in the order of VERDICTS."""
    number = Counter[str](one.verdict for one in found.values())
    return {verdict: number[verdict] for verdict in VERDICTS}


def geometric_mean(found: Mapping[Key, Comparison]) -> float | None:
    """Of the times of the second side over those of the first; None without numbers."""
    ratios = [1 + one.effect for one in found.values() if one.effect is not None]
    ratios = [ratio for ratio in ratios if ratio > 0]
    return math.exp(math.fsum(map(math.log, ratios)) / len(ratios)) if ratios else None


def table(found: Mapping[Key, Comparison], in_bytes: set[Key]) -> pd.DataFrame:
    """A row for each series; shares as numbers, times in seconds; a verdict with a `?` is
    provisional. A version that is a hash of asv's is told only where a case has several."""
    order = in_order(found)
    rows = [_row(key, one, in_bytes) for key, one in order]
    versions = Counter(key[:-1] for key in found)
    for row, (key, _) in zip(rows, order, strict=True):
        if versions[key[:-1]] == 1 and short_version(key[-1]) != key[-1]:
            row["series"] = name_of((*key[:-1], "1"))
    return pd.DataFrame(rows, columns=COLUMNS)


def _row(key: Key, one: Comparison, in_bytes: set[Key]) -> TableRow:
    provisional = one.is_provisional and one.verdict != "undecided"
    return {
        "verdict": f"{one.verdict}{'?' * provisional}",
        "series": name_of(key),
        "change": one.effect,
        "low": one.low,
        "high": one.high,
        "detectable": one.detectable,
        "before": _in_words(one.before, key in in_bytes),
        "after": _in_words(one.after, key in in_bytes),
        "before_value": one.before,
        "after_value": one.after,
        "unit": "bytes" if key in in_bytes else "seconds",
        "observations": f"{one.num[0]} and {one.num[1]} {one.unit}{'es' * (one.unit == 'launch')}"
        f"{'s' * (one.unit != 'launch')}",
        "note": one.why,
    }


def _in_words(number: float | None, is_bytes: bool) -> str:
    if number is None:
        return ""
    return units.format_bytes(round(number)) if is_bytes else units.format_seconds(number)


def forest(rows: pd.DataFrame, about: Sequence[str]) -> Spec:
    """Each series' change with its 99 % interval, the largest first; hollow: provisional."""
    drawn = rows[rows["change"].notna()].head(MOST_DRAWN)
    cells = drawn.assign(
        change=100 * drawn["change"],
        low=100 * drawn["low"],
        high=100 * drawn["high"],
        label=labels(drawn["series"]),
        kind=drawn["verdict"].str.removesuffix("?"),
        provisional=drawn["verdict"].str.endswith("?"),
        said=[f"{change:+.1%}" for change in drawn["change"]],
    ).to_dict("records")
    title = "change in % (to the right is slower)"
    x = field("change:Q", title=title, axis={"grid": True, "orient": "top"})
    low = field("low:Q", title=title)
    order = [row["label"] for row in cells]
    y = field(
        "label:N",
        sort=order,
        title=None,
        axis={"labelLimit": LABELS, "labelFlush": False, "ticks": False},
    )
    color = field("kind:N", scale=scale(VERDICTS, COLORS), legend=None)
    called = {"said": "change"}
    shown = ("series", "verdict", "said", "note")
    tip = [field(f"{name}:N", title=called.get(name, name)) for name in shown]
    solid = {"fillOpacity": {"condition": {"test": "datum.provisional", "value": 0}, "value": 1}}
    known = [row for row in cells if not math.isnan(row["low"])]
    layers = [
        layer([{"zero": 0}], "rule", {"color": GREY, "strokeDash": [4, 3]}, x=field("zero:Q")),
        layer(known, "rule", {"strokeWidth": 2, "clip": True}, x=low, x2={"field": "high"}, y=y)
        | {"encoding": {"x": low, "x2": {"field": "high"}, "y": y, "color": color}},
        layer(cells, "point", {"size": 60, "opacity": 1}, x=x, y=y)
        | {"encoding": {"x": x, "y": y, "fill": color, "stroke": color, **solid, "tooltip": tip}},
    ]
    places = {name.rpartition("@")[2] for name in drawn["series"]}
    where = [f"on {one}" for one in places if len(places) == 1]
    return titled(layers, "", [*about, *where], 22 * max(len(cells), 2) + 10)


def labels(names: Iterable[str]) -> list[str]:
    """What each series is called beside its mark: `host_to_device 1MiB, pinned @box`, without the
    machine where all have one; no two alike."""
    names = list(names)
    is_one = len({name.rpartition("@")[2] for name in names}) == 1
    found: dict[str, int] = {}
    made = []
    for name in names:
        text, at, machine = name.rpartition("@")
        text = text if at else name
        workload = text.partition("[")[0]
        words = f"{workload.rpartition('.')[2]} {case(text, workload, with_device=False)}"
        said = words if is_one or not at else f"{words} @{machine}"
        said = said if len(said) <= _LONGEST else f"{said[: _LONGEST - 24]}...{said[-21:]}"
        found[said] = found.get(said, 0) + 1
        made.append(said if found[said] == 1 else f"{said} ({found[said]})")
    return made
