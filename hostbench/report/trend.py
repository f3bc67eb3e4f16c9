"""Series over their runs: their points, the levels between their changes, what changed when; and a
chart of up to six of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Any, Literal

import numpy as np
import pandas as pd

from hostbench.core import units
from hostbench.judge.events import Event
from hostbench.report import charts
from hostbench.report.changes import what
from hostbench.report.charts import GREY, PALETTE, PINK, Spec, field, scale
from hostbench.store.results import SETUP

SHARE = "% of the first level"
UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "time": ("time (lower is better)", units.format_seconds),
    "GB/s": ("GB/s (higher is better)", units.format_rate),
    SHARE: ("% of the time of the first level (lower is better)", "{:.1f} %".format),
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
_SELECTED = ["run_id", "series", "machine"]
"""What a click on a point tells."""
_AROUND = 30
"""Points on each side of an event."""
_FIRST_POINTS = 8
_WORDED = ["status", "reason", "scratch", "flags", "started_at", "commit"]
THIS_SERIES, ITS_MACHINE, FACTS = "this series", "its machine", "facts"
_DASHES = {ITS_MACHINE: [6, 4], FACTS: [2, 3]}
"""What changed -> how its line is drawn; solid where it was this series."""
_LABELS = {"time": charts.SECONDS, "bytes": charts.BYTES}
TALL = 400
_MOST_LABELS, _LABEL_HEIGHT, _LONGEST_LABEL = 4, 13, 30
"""Rows of labels over a chart, the height of one, and letters of a label."""
_LETTER = 0.019
"""The width of a letter, of a chart's on a telephone."""
_ARROW = 4
"""From the edge to the middle of the arrow on an interval that goes on beyond it."""
_FAR = 20
"""Between the usual values of two series: farther apart they share a logarithmic axis."""
_ROOM = 0.02
"""Of what is drawn, over and under it: a point is no half."""
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
    levels: pd.DataFrame
    """Between two changes: `series`, from `x` to `x2`, `y`, and the band within which a change
    would not be seen, `low` and `high` (NaN where it is not known)."""
    rules: list[Spec]
    """What changed: `x`, `kind` (whose change it is), `text`, and `size`: of several at once the
    largest is named."""


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
    rows = _in_order(rows, by)
    points = _points(rows, name, unit, by)
    rules, edges = list[Spec](), list[float]()
    for event in events:
        x = _ms(getattr(event.first, by))
        if points["x"].min() <= x <= points["x"].max():
            change = "" if event.is_reset else units.format_change(event.effect)
            kind = THIS_SERIES if event.case else ITS_MACHINE
            text = f"{change} {what(event).removeprefix('commit ')}".strip()
            rules.append({"x": x, "kind": kind, "text": text, "size": abs(event.effect)})
            edges.append(x)
    for fact in SETUP:
        known = rows[[by, fact]].dropna().itertuples(index=False)
        for (_, before), (at, after) in pairwise(known):
            if before != after:
                text = f"{fact} {before} -> {after}"
                rules.append({"x": _ms(at), "kind": FACTS, "text": text, "size": 0.0})
    drawn = _thinned(points, most)
    about = rows.loc[drawn.index, _WORDED].assign(y=drawn["y"]).astype(object)
    about = about.where(about.notna(), None)
    return Trend(
        name=name,
        points=drawn.assign(text=[_text(row, unit) for row in about.to_dict("records")]),
        num_points=len(points),
        levels=_levels(points, name, edges, detectable),
        rules=rules,
    )


def around(rows: pd.DataFrame, event: Event, others: Iterable[Event], height: int) -> Spec:
    """A series on both sides of an event, with the levels between that and the `others` of it."""
    rows = _in_order(rows, "committed_at")
    start = int((rows["committed_at"] < event.first.committed_at).sum()) - _AROUND
    rows, unit = rows.iloc[max(0, start) :].head(2 * _AROUND), units_of([rows])[0]
    events = [event, *(own for own in others if own != event)]
    series = trend(rows, event.id, unit, events=events, detectable=event.detectable)
    return chart([series], unit, height=height)


# ---- points and levels --------------------------------------------------------------------------


def _in_order(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """Those that were measured, the oldest first."""
    rows = rows[(rows["status"] != "not measured") & rows[by].notna()]
    return rows.sort_values([by, "started_at"], kind="stable")


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
) -> pd.DataFrame:
    good = points[points["y"].notna() & (points["kind"] == MEASURED)]
    rows = []
    for start, end in pairwise([float("-inf"), *sorted(edges), float("inf")]):
        own = good[(good["x"] >= start) & (good["x"] < end)]
        if len(own):
            y = float(own["y"].median())
            half = float("nan") if detectable is None else detectable * abs(y)
            rows.append((name, own["x"].iloc[0], own["x"].iloc[-1], y, y - half, y + half))
    return pd.DataFrame(rows, columns=["series", "x", "x2", "y", "low", "high"])


# ---- the chart ----------------------------------------------------------------------------------


def chart(
    trends: Sequence[Trend], unit: str, x_title: str = "time, UTC", height: int = TALL
) -> Spec:
    """A click selects a point, dragging selects days; the wheel is left to the page."""
    points = pd.concat([series.points for series in trends], ignore_index=True)
    levels = pd.concat([series.levels for series in trends], ignore_index=True)
    names, is_many = [series.name for series in trends], len(points) > charts.MANY
    span_ms = float(points["x"].max() - points["x"].min())
    rules = _labelled(trends, float(points["x"].min()), span_ms)
    room = 6 + _LABEL_HEIGHT * len({*rules["row"].dropna()})
    key = charts.legend(names, labelLimit=700, offset=room) if len(names) > 1 else None
    color = {"color": field("series:N", scale=scale(names, PALETTE), legend=key)}
    along, axis = {"type": "utc", "padding": 20}, charts.time_axis(span_ms)
    x = field("x:T", title=x_title, axis=axis, scale=along)
    x2, high = {"field": "x2"}, {"field": "high"}
    is_log = _is_log(points)
    bottom, top = _domain(points, levels, is_log)
    kind = "log" if is_log else "linear"
    up: Spec = {"scale": {"type": kind, "domain": [bottom, top], "nice": False}}
    up["axis"] = {"labelExpr": _LABELS.get(unit, charts.PLAIN), "tickCount": 6}
    if is_log:
        up["axis"]["values"] = charts.round_numbers(bottom, top)
    title = UNITS[unit][0] + ", log" * is_log
    y, low = (field(f"{column}:Q", title=title, **up) for column in ("y", "low"))
    line = points[points["y"].notna() & points["kind"].isin((MEASURED, SCRATCH))]
    pieces = [field("series:N"), field("version:N")]
    thin: Spec = {"strokeWidth": 1.0 if is_many else 1.5, "opacity": 0.5}
    bars = points[points["low"].notna() & (points["kind"] == MEASURED) & (not is_many)]
    over, under = bars[bars["high"] > top], bars[bars["low"] < bottom]
    arrows = [{**charts.GOES_ON, "shape": f"triangle-{way}"} for way in ("up", "down")]
    bands = levels[levels["low"].notna()]
    bands = bands.assign(low=bands["low"].clip(lower=bottom))  # a log axis has no zero
    hues, size = dict(zip(names, cycle(PALETTE))), 14 if is_many else 60
    layers = [
        _layer(bands, "rect", {"opacity": 0.12}, x=x, y=low, x2=x2, y2=high, **color),
        *_rules(rules, x),
        _layer(line, "line", thin, x=x, y=y, detail=pieces, **color),
        _layer(levels, "rule", {"strokeWidth": 2.5}, x=x, x2=x2, y=y, **color),
        _layer(bars, "rule", {"strokeWidth": 2, "opacity": 0.45}, x=x, y=low, y2=high, **color),
        _layer(over, "point", arrows[0], x=x, y={"value": _ARROW}),
        _layer(under, "point", arrows[1], x=x, y={"value": height - _ARROW}),
        *_marks(points.assign(hue=points["series"].map(hues)), x, y, size, height),
    ]
    layers = [own for own in layers if own["data"]["values"]]
    charts.clickable(layers[-1], *_SELECTED)
    layers[-1]["params"] += [
        {"name": DAYS, "select": {"type": "interval", "encodings": ["x"], "zoom": False}}
    ]
    spec = charts.sized(layers, height)
    return charts.on_canvas(spec) if is_many else spec


def _layer(rows: pd.DataFrame, kind: str, look: Spec, **channels: Any) -> Spec:
    """With those columns alone that are shown, and that a click asks for."""
    names = {"kind", *(_SELECTED if kind == "point" else ())}
    for own in channels.values():
        names |= {spec.get("field") for spec in (own if isinstance(own, list) else [own])}
    values = rows[[name for name in rows if name in names]].to_dict("records")
    return charts.layer(values, kind, {**look, "clip": True}, **channels)


def _if(kinds: Mapping[str, Any], usual: Any) -> Spec:
    """A channel whose value goes by the kind."""
    tests = [{"test": f"datum['kind'] == '{kind}'", "value": own} for kind, own in kinds.items()]
    return {"condition": tests, "value": usual}


def _labelled(trends: Sequence[Trend], start: float, span: float) -> pd.DataFrame:
    """When something changed, and on which `side` of its line and in which `row` over the chart its
    label stands: no two touch, on a telephone too. One without room has no row."""
    every = [rule for series in trends for rule in series.rules]
    rules = pd.DataFrame(every, columns=["x", "kind", "text", "size"])
    rules = rules.sort_values("size", ascending=False, kind="stable").drop_duplicates("x")
    rules = rules.sort_values("x", ignore_index=True)
    sides, rows, ends = [], list[Any](), [0.0] * _MOST_LABELS
    for at, text in zip((rules["x"] - start) / max(span, 1.0), rules["text"], strict=True):
        width = _LETTER * min(len(text), _LONGEST_LABEL)
        is_left = at + width < 1.0
        first = at if is_left else max(0.0, at - width)
        row = next((row for row, end in enumerate(ends) if end <= first), None)
        if row is not None:
            ends[row] = first + width
        sides.append("left" if is_left else "right")
        rows.append(row)
    return rules.assign(side=sides, row=rows)


def _rules(rules: pd.DataFrame, x: Spec) -> list[Spec]:
    """A line for each, which a pointer names, and the labels that have room."""
    line = {"x": x, "color": _if({FACTS: GREY}, PINK), "strokeDash": _if(_DASHES, [1, 0])}
    look: Spec = {"baseline": "bottom", "fontSize": 11, "limit": 180}
    look |= {"align": {"expr": "datum['side']"}}
    look |= {"dy": {"expr": f"-5 - {_LABEL_HEIGHT} * datum['row']"}}
    text: Spec = {"x": x, "y": {"value": 0}, "text": field("text:N")}
    tip = {"tooltip": [field("text:N", title="what changed")]}
    labels = rules[rules["row"].notna()].to_dict("records")
    return [
        _layer(rules, "rule", {"strokeWidth": 1.5}, **line, **tip),
        charts.layer(labels, "text", look, **text, **tip),
    ]


def _marks(points: pd.DataFrame, x: Spec, y: Spec, size: int, height: int) -> list[Spec]:
    """On the axis what has no number, and what has one; the larger layer, which is the last, may be
    clicked."""
    several = [name for name in ("series", "machine") if points[name].nunique() > 1]
    hue = field("hue:N", scale=None)
    shown = {
        "shape": field("kind:N", scale=scale([*_SHAPES], [*_SHAPES.values()]), legend=None),
        "size": _if({FAILED: 3 * size, SKIPPED: 3 * size}, size),
        "fillOpacity": _if({MEASURED: 1}, 0),
        "stroke": hue,
        "fill": hue,
        "tooltip": [field("text:N", title="point"), *(field(f"{name}:N") for name in several)],
    }
    look: Spec = {"filled": True, "opacity": 1, "strokeWidth": 1.5}
    has_number = points["y"].notna()
    layers = [
        _layer(points[~has_number], "point", look, x=x, y={"value": height - 6}, **shown),
        _layer(points[has_number], "point", look, x=x, y=y, **shown),
    ]
    return sorted(layers, key=lambda marks: len(marks["data"]["values"]))


def _is_log(points: pd.DataFrame) -> bool:
    """Where one series would lie on the axis of another."""
    usual = points.groupby("series")["y"].median()
    return bool(points["y"].min() > 0 and usual.max() > _FAR * usual.min())


def _domain(points: pd.DataFrame, levels: pd.DataFrame, is_log: bool) -> list[float]:
    """At least 10 % on both sides of the median, so that noise looks small; longer intervals are
    cut, with an arrow; zero to one where nothing has a number."""
    values = pd.concat([points["y"], levels["low"], levels["high"]]).dropna()
    if values.empty:
        return [0.0, 1.0]
    if is_log:
        return [float(0.9 * points["y"].min()), float(1.1 * values.max())]
    middle = float(points["y"].median())
    low, high = min(values.min(), 0.9 * middle), max(values.max(), 1.1 * middle)
    room = _ROOM * (high - low)
    return [float(low - room), float(high + room)]
