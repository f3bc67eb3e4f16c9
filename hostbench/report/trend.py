"""Series over their runs: their points, the levels between their changes, what changed when; and a
chart of up to six of them."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import pandas as pd

from hostbench.core import units
from hostbench.judge.events import Event
from hostbench.report import charts
from hostbench.report.blocks import Spec
from hostbench.report.changes import fact_of
from hostbench.report.charts import GREY, PALETTE, PINK, field, layer, scale
from hostbench.store.results import SETUP

SHARE = "% of the first level"
UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "time": ("time (lower is better)", units.format_seconds),
    "GB/s": ("GB/s (higher is better)", units.format_rate),
    SHARE: ("% of the time of the first level (lower is better)", "{:.1f}%".format),
    "bytes": ("memory (lower is better)", units.format_bytes),
    "value": ("value (asv's rule: lower is better)", "{:.4g}".format),
}
"""Of the vertical axis: its title, and a number in words."""
MOST = 6
"""Series in one picture."""
MOST_DRAWN = 500
"""Points of a picture: four of a stretch of nine pixels at 1280 px; more are slow to draw."""
DAYS = "days"
"""Name of the selection: the days that were dragged over."""
MEASURED, SCRATCH, FAILED, SKIPPED = "measured", "scratch (never judged)", "failed", "skipped"
_SHAPES = {MEASURED: "circle", SCRATCH: "circle", FAILED: charts.CROSS, SKIPPED: "M0,-1.4L0,1.4"}
_LABELS = {"time": charts.SECONDS, "bytes": charts.BYTES}
_MOST_LABELS, _LABEL_HEIGHT = 4, 13
_FIRST_POINTS = 8
_WORDED = ["status", "reason", "scratch", "flags", "started_at", "commit"]
TALL = 400
TimeOf = Literal["committed_at", "started_at"]
"""Which date of a run is on the horizontal axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """One series in one unit, as it is drawn. Times are in ms since the epoch."""

    name: str
    points: pd.DataFrame
    """A row for each point that was measured, the oldest first: `series`, `machine`, `x`, `y` with
    `low` and `high` (NaN where there is no number), `kind`, `run_id`, `commit`, `version`, and
    `text`, what a pointer shows of it."""
    num_points: int
    """Before they were thinned out to be drawn."""
    levels: list[Spec]
    """Between two changes: `series`, from `x` to `x2`, `y`, and the band within which a change
    would not be seen, `low` and `high`, both `y` where it is not known."""
    rules: list[Spec]
    """What changed: `x`, `text`, `color`, and `size`: of several at once the largest is named."""


def units_of(every: Sequence[pd.DataFrame]) -> list[str]:
    """The units that all these series can be drawn in, the usual one first."""
    if any(rows["seconds"].notna().any() for rows in every):
        has_rate = all(rows["gb_per_s"].notna().any() for rows in every)
        return ["time", *(["GB/s"] if has_rate else []), SHARE]
    kinds = set(pd.concat([rows["unit"] for rows in every]).dropna()) if every else set()
    return ["bytes" if kinds == {"bytes"} else "value"]


def trend(
    rows: pd.DataFrame,
    name: str,
    unit: str,
    by: TimeOf = "committed_at",
    events: Iterable[Event] = (),
    detectable: float | None = None,
    most: int = MOST_DRAWN,
) -> Trend:
    """Of the rows of one series (Results.trend, marked), with its events and its machine's,
    the smallest change that would be seen, and `most` points."""
    rows = rows[(rows["status"] != "not measured") & rows[by].notna()]
    rows = rows.sort_values([by, "started_at"], kind="stable")
    points = _points(rows, name, unit, by)
    rules, edges = list[Spec](), list[float]()
    for event in events:
        x = _ms(getattr(event.first, by))
        if points["x"].min() <= x <= points["x"].max():
            change = "" if event.is_reset else units.format_change(event.effect)
            text = f"{change} {fact_of(event) or event.first.commit[:8]}".strip()
            rules.append({"x": x, "color": PINK, "text": text, "size": abs(event.effect)})
            edges.append(x)
    for fact in SETUP:
        known = rows[[by, fact]].dropna().itertuples(index=False)
        for (_, before), (at, after) in pairwise(known):
            if before != after:
                text = f"{fact} {before} -> {after}"
                rules.append({"x": _ms(at), "color": GREY, "text": text, "size": 0.0})
    drawn = _thinned(points, most)
    about = rows.loc[drawn.index, _WORDED].assign(y=drawn["y"]).astype(object)
    about = about.where(about.notna(), None)
    return Trend(
        name=name,
        points=drawn.assign(text=[_text(row, unit) for row in about.to_dict("records")]),
        num_points=len(points),
        levels=[*_levels(points, name, edges, detectable)],
        rules=rules,
    )


# ---- points and levels --------------------------------------------------------------------------


def _ms(at: Any) -> float:
    return float(pd.Timestamp(at).value // 1_000_000)


def _points(rows: pd.DataFrame, name: str, unit: str, by: str) -> pd.DataFrame:
    seconds = rows["seconds"]
    numbers = {"y": seconds, "low": rows["ci_low_s"], "high": rows["ci_high_s"]}
    if unit in ("bytes", "value"):
        numbers = {"y": rows["value"], "low": seconds * np.nan, "high": seconds * np.nan}
    elif unit == "GB/s":
        gigabytes = rows["gb_per_s"] * seconds
        low, high = gigabytes / numbers["high"], gigabytes / numbers["low"]
        numbers = {"y": rows["gb_per_s"], "low": low, "high": high}
    elif unit == SHARE:
        good = seconds[(rows["status"] == "ok") & rows["scratch"].isna()].dropna()
        first = (good if len(good) else seconds.dropna()).head(_FIRST_POINTS).median()
        numbers = {end: 100 * own / first for end, own in numbers.items()}
    kind = pd.Series(MEASURED, index=rows.index).where(rows["scratch"].isna(), SCRATCH)
    kind = kind.mask(rows["status"].isin((FAILED, SKIPPED)), rows["status"])
    at = rows[by].astype("datetime64[ms, UTC]").astype("int64").astype("float64")
    about = {"series": name, "machine": rows["machine"].fillna(""), "x": at, **numbers}
    points = pd.DataFrame({**about, "kind": kind, **rows[["run_id", "commit"]]})
    return points.assign(version=rows["version"].fillna("").astype(str))


def _thinned(points: pd.DataFrame, most: int) -> pd.DataFrame:
    """About `most` points of a line that has more, none of them invented: of each stretch and kind
    the first, the last, the lowest and the highest stay, so that its outline is the same (M4: Jugel
    et al., VLDB 2014)."""
    if len(points) <= most:
        return points
    stretch = np.arange(len(points)) * (most // 4) // len(points)
    numbered = points.assign(row=np.arange(len(points)), y=points["y"].fillna(0.0))
    of_each = numbered.set_index("row").groupby([stretch, "kind"], sort=False)
    first, last = of_each.head(1).index, of_each.tail(1).index
    chosen = {*first, *last, *of_each["y"].idxmin(), *of_each["y"].idxmax()}
    return points.iloc[sorted(chosen)]


def _text(row: dict[Any, Any], unit: str) -> str:
    """Number, why it has none, when, which commit."""
    number = "" if row["y"] is None else UNITS[unit][1](row["y"])
    why = "" if row["status"] == "ok" else f"{row['status']}: {row['reason'] or ''}"
    scratch = f"scratch: {row['scratch']}" if row["scratch"] else ""
    at = f"{row['started_at']:%Y-%m-%d %H:%M UTC}" if row["started_at"] else ""
    commit = (row["commit"] or "")[:8] or "no commit"
    return " · ".join(filter(None, (number, why, scratch, row["flags"], at, commit)))[:300]


def _levels(
    points: pd.DataFrame, name: str, edges: Iterable[float], detectable: float | None
) -> Iterator[Spec]:
    good = points[points["y"].notna() & (points["kind"] == MEASURED)]
    for start, end in pairwise([-math.inf, *sorted(edges), math.inf]):
        own = good[(good["x"] >= start) & (good["x"] < end)]
        if len(own):
            y = float(own["y"].median())
            level = {"series": name, "x": own["x"].iloc[0], "x2": own["x"].iloc[-1], "y": y}
            half = 0.0 if detectable is None else detectable * abs(y)
            yield level | {"low": y - half, "high": y + half}


# ---- the chart ----------------------------------------------------------------------------------


def chart(
    trends: Sequence[Trend],
    unit: str,
    x_title: str = "time, UTC",
    height: int = TALL,
    palette: Sequence[str] = PALETTE,
) -> Spec:
    """A click selects a point, dragging selects days; the wheel is left to the page."""
    points = pd.concat([series.points for series in trends], ignore_index=True)
    levels = [level for series in trends for level in series.levels]
    names, is_many = [series.name for series in trends], len(points) > charts.MANY
    rules = [rule for series in trends for rule in series.rules]
    rules.sort(key=itemgetter("size"))
    largest = {rule["x"]: rule for rule in rules}  # of several at once
    rules = sorted(largest.values(), key=itemgetter("size"), reverse=True)
    domain = _domain(points, levels)
    room = 6 + _LABEL_HEIGHT * min(len(rules), _MOST_LABELS)
    key = charts.legend(names, labelLimit=700, offset=room) if len(names) > 1 else None
    hues = scale(names, palette)
    color: Any = {"color": field("series:N", scale=hues, legend=key)}
    along = {"type": "utc", "padding": 20}
    x = field("x:T", title=x_title, axis=charts.TIME_AXIS, scale=along)
    axis = {"labelExpr": _LABELS.get(unit, charts.PLAIN), "tickCount": 6}
    up: Any = {"title": UNITS[unit][0], "axis": axis, "scale": {"domain": domain, "nice": False}}
    y, low = field("y:Q", **up), field("low:Q", **up)
    span: Any = {"x": x, "x2": {"field": "x2"}}
    high = {"field": "high"}
    line = points[points["y"].notna() & points["kind"].isin((MEASURED, SCRATCH))]
    pieces = [field("series:N"), field("version:N")]
    thin: Spec = {"strokeWidth": 1.0 if is_many else 1.5, "opacity": 0.5, "clip": True}
    size = 14 if is_many or height < TALL / 2 else 60
    interval = points[points["low"].notna() & (points["kind"] == MEASURED) & (not is_many)]
    layers = [
        layer(levels, "rect", {"opacity": 0.12, "clip": True}, **span, y=low, y2=high, **color),
        *_rules(rules, x, float(points["x"].mean())),
        layer(line, "line", thin, x=x, y=y, detail=pieces, **color),
        layer(levels, "rule", {"strokeWidth": 2.5, "clip": True}, **span, y=y, **color),
        layer(interval, "rule", charts.WHISKER, x=x, y=low, y2=high, **color),
        _marks(points.assign(y=points["y"].fillna(domain[0])), x, y, hues, size),
    ]
    return charts.sized(layers, height, len(points))


def _rules(rules: list[Spec], x: Spec, middle: float) -> list[Spec]:
    """A line for each change, which a pointer names; of the largest a label over the chart, on a
    row of its own."""
    tip, color = field("text:N", title="what changed"), field("color:N", scale=None)
    layers = [layer(rules, "rule", {"strokeWidth": 1.5}, x=x, color=color, tooltip=tip)]
    for row, rule in enumerate(rules[:_MOST_LABELS]):
        look: Spec = {"baseline": "bottom", "fontSize": 11, "limit": 180}
        look["align"] = "left" if rule["x"] < middle else "right"
        look["dy"] = -5 - _LABEL_HEIGHT * row
        above: Any = {"y": {"value": 0}, "text": field("text:N"), "tooltip": tip}
        layers.append(layer([rule], "text", look, x=x, **above))
    return layers


def _marks(points: pd.DataFrame, x: Spec, y: Spec, hues: Spec, size: int) -> Spec:
    """The points, which may be clicked, and dragged over; what has no number is on the axis."""
    hue = field("series:N", scale=hues, legend=None)
    shape, filled = (
        field("kind:N", scale=scale([*_SHAPES], values), legend=None)
        for values in ([*_SHAPES.values()], [1, 0, 0, 0])
    )
    several = [name for name in ("series", "machine") if points[name].nunique() > 1]
    tip = [field("text:N", title="point"), *(field(f"{name}:N") for name in several)]
    look: Spec = {"filled": True, "opacity": 1, "strokeWidth": 1.5, "size": size}
    channels: Any = {"shape": shape, "fillOpacity": filled, "stroke": hue, "fill": hue}
    clicks = ("run_id", "series", "machine")
    spec = layer(points, "point", look, clicks=clicks, x=x, y=y, tooltip=tip, **channels)
    days = {"type": "interval", "encodings": ["x"], "zoom": False}
    spec["params"] += [{"name": DAYS, "select": days}]
    return spec


def _domain(points: pd.DataFrame, levels: list[Spec]) -> list[float]:
    """At least 10 % on both sides of the median, so that noise looks small; longer intervals are
    cut; zero to one where nothing has a number."""
    known = points["y"].dropna()
    if known.empty:
        return [0.0, 1.0]
    middle = float(known.median())
    values = [known.min(), known.max(), 0.9 * middle, 1.1 * middle]
    values += [level[end] for level in levels for end in ("low", "high")]
    room = 0.02 * (max(values) - min(values))  # a point is no half
    return [float(min(values) - room), float(max(values) + room)]
