"""A chart of series over their runs: up to six in one picture."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from hostbench.judge.grid import Along
from hostbench.report.causes import SERIES, EventRow, in_words
from hostbench.report.charts import (
    BYTES,
    CROSS,
    GREY,
    MANY,
    ORANGE,
    PINK,
    SECONDS,
    Spec,
    field,
    layer,
    legend,
    on_canvas,
    scale,
    time_axis,
    titled,
)
from hostbench.report.trend import (
    KINDS,
    TITLES,
    again,
    choices,
    levels,
    lines,
    points,
    worded,
)

HEIGHT = 400
POINT, DAYS = "point", "days"
"""Names of the selections: the point that was clicked, the days that were dragged over."""
_SHAPES = {KINDS[0]: "circle", KINDS[1]: "circle", KINDS[2]: CROSS, KINDS[3]: "M0,-1.4L0,1.4"}
_SIGNS = {
    KINDS[1]: "Hollow: scratch, never judged.",
    KINDS[2]: "Cross: failed, it counts for nothing.",
    KINDS[3]: "Tick on the axis: skipped.",
}
_SELECTED = ("run_id", "series", "machine")
"""What a click on a point tells."""
NEAR = 30
"""Points on each side of an event."""
_TOLD = {"said": "point", "series": "series", "machine": "machine"}
"""What a pointer shows of a point, and how it calls it."""
_HALF_DAY_MS = 43_200_000
_LABELS = {"seconds": SECONDS, "bytes": BYTES}


def trend(
    points: pd.DataFrame,
    levels: pd.DataFrame,
    rules: pd.DataFrame,
    limits: Mapping[str, float],
    colors: Mapping[str, str],
    *,
    unit: str,
    x_title: str,
    about: Sequence[str] = (),
    height: int = HEIGHT,
) -> Spec:
    """`points` (worded) and `levels` as hostbench.report.trend gives them, with a column `series`;
    `rules`: `x`, `kind` (`this series`, `its machine`, `facts`), `said` and a short `label`;
    `limits` and `colors` by series.

    A click selects a point, dragging selects days; the wheel is left to the page.
    """
    limit = {"domain": _domain(points, levels, limits), "nice": True}
    axis = {"labelExpr": _LABELS.get(unit, "format(datum.value, '.4~g')")}
    y, low = (field(f"{one}:Q", title=TITLES[unit], scale=limit, axis=axis) for one in ("y", "low"))
    names = list(colors)
    color = field("series:N", scale=scale(names, list(colors.values())), legend=_legend(names))
    at = _Channels(x=_time(points, x_title), y=y, low=low, color=color)
    is_many = len(points) > MANY
    drawn = [*_band(levels, at), *_rules(rules, at), *_limits(limits, at)]
    drawn += [*_lines(points, at, is_many), *_levels(levels, at)]
    drawn += [*_intervals(points, at)] if not is_many else []
    drawn += _marks(points, at, is_many, height)
    days = {"type": "interval", "encodings": ["x"], "zoom": False}
    drawn[-1]["params"].append({"name": DAYS, "select": days})
    spec = titled(drawn, "", about, height)
    return on_canvas(spec) if is_many else spec


def around(stored: pd.DataFrame, event: EventRow, along: Along, height: int = HEIGHT) -> Spec:
    """A series on both sides of its event, of report.causes.with_causes, with its levels. `stored`:
    its rows of the tidy frame, marked."""
    by = "committed_at" if along == "commit" else "started_at"
    unit, name = choices([stored])[0], str(event["id"])
    found = points(stored, name, by, unit)
    at = float(pd.Timestamp(event[f"first_{by}"]).value // 1_000_000)
    near = found.iloc[max(0, int((found["x"] < at).sum()) - NEAR) :].head(2 * NEAR)
    near = worded(near, stored, unit)
    half = float(event["detectable"])
    said = f"{in_words(event['effect'])} from here on"
    return trend(
        near,
        levels(near, [at], half).assign(series=name),
        pd.DataFrame([{"x": at, "kind": SERIES, "said": said, "label": ""}]),
        {},
        {name: ORANGE},
        unit=unit,
        x_title="time, UTC",
        about=[words for kind, words in _SIGNS.items() if (near["kind"] == kind).any()],
        height=height,
    )


class _Channels(NamedTuple):
    """What the layers share."""

    x: Spec
    y: Spec
    low: Spec
    color: Spec


def _band(levels: pd.DataFrame, at: _Channels) -> Iterator[Spec]:
    """Within it a change would not be seen."""
    known = levels[levels["low"].notna()]
    if len(known):
        ends = {"x2": {"field": "x2"}, "y2": {"field": "high"}}
        look = {"opacity": 0.12, "clip": True}
        yield _layer(known, "rect", look, x=at.x, y=at.low, color=at.color, **ends)


def _rules(rules: pd.DataFrame, at: _Channels) -> Iterator[Spec]:
    """Where something changed; the wide ones are for the pointer."""
    # labels of neighbours stand below each other
    rules = rules.sort_values("x", ignore_index=True)
    rules["down"] = [13 * (place % 6) for place in range(len(rules))]
    for kind, dash in (("this series", [1, 0]), ("its machine", [6, 4]), ("facts", [2, 3])):
        own = rules[rules["kind"] == kind]
        if own.empty:
            continue
        tip = [field("said:N", title=kind)]
        shade = GREY if kind == "facts" else PINK
        for width, opacity in ((1.5, 1.0), (12.0, 0.0)):
            look = {"color": shade, "strokeDash": dash, "strokeWidth": width, "opacity": opacity}
            yield _layer(own, "rule", {**look, "clip": True}, x=at.x, tooltip=tip)
        look = {"color": shade, "align": "left", "baseline": "top", "fontSize": 11}
        look |= {"dx": 4, "dy": {"expr": "datum.down"}, "limit": 160}
        labels = own[["x", "label", "down"]].to_dict("records")
        yield layer(labels, "text", look, x=at.x, y={"value": 2}, text=field("label:N"))


def _limits(limits: Mapping[str, float], at: _Channels) -> Iterator[Spec]:
    for name, height in limits.items():
        look = {"strokeDash": [8, 4], "strokeWidth": 1.5, "opacity": 0.8}
        row = pd.DataFrame([{"series": name, "y": height}])
        yield _layer(row, "rule", look, y=at.y, color=at.color)


def _lines(points: pd.DataFrame, at: _Channels, is_many: bool) -> Iterator[Spec]:
    """Dashed where the same commit was measured again."""
    look = {"strokeWidth": 1.0 if is_many else 1.5, "opacity": 0.5, "clip": True}
    pieces = lines(points)[["series", "x", "y", "piece"]]
    piece = field("piece:N")
    yield _layer(pieces, "line", look, x=at.x, y=at.y, color=at.color, detail=piece)
    same = again(points)
    if len(same):
        ends = {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
        dashed = {**look, "strokeDash": [3, 4]}
        yield _layer(same, "rule", dashed, x=at.x, y=at.y, color=at.color, **ends)


def _levels(levels: pd.DataFrame, at: _Channels) -> Iterator[Spec]:
    if len(levels):
        look = {"strokeWidth": 2.5, "clip": True}
        yield _layer(levels, "rule", look, x=at.x, x2={"field": "x2"}, y=at.y, color=at.color)


def _intervals(points: pd.DataFrame, at: _Channels) -> Iterator[Spec]:
    known = points[points["low"].notna() & (points["kind"] == KINDS[0])]
    if len(known):
        look = {"strokeWidth": 2, "opacity": 0.45, "clip": True}
        yield _layer(known, "rule", look, x=at.x, y=at.low, y2={"field": "high"}, color=at.color)


def _marks(points: pd.DataFrame, at: _Channels, is_many: bool, height: int) -> list[Spec]:
    """What has a number, and on the axis what has none; the last layer may be clicked."""
    several = [name for name in _SELECTED if points[name].nunique() > 1]
    tip = [field(f"{name}:N", title=_TOLD[name]) for name in _TOLD if name in ("said", *several)]
    size = 14 if is_many else 60
    made = []
    for kind in (one for one in KINDS if one in set(points["kind"])):
        own = points[points["kind"] == kind]
        look: Spec = {"shape": _SHAPES[kind], "size": size, "strokeWidth": 1.5, "clip": True}
        look |= {"filled": kind == KINDS[0], "opacity": 1}
        if kind in KINDS[2:]:
            look |= {"size": 3 * size, "strokeWidth": 2}
        with_number, without = own[own["y"].notna()], own[own["y"].isna()]
        for some, y in ((without, {"value": height - 6}), (with_number, at.y)):
            if len(some):
                place = {"x": at.x, "y": y, "color": at.color}
                made.append(_layer(some, "point", look, tooltip=tip, **place))
    made.sort(key=lambda one: len(one["data"]["values"]))  # most of them above, to be clicked
    select = {"type": "point", "fields": list(_SELECTED)}
    made[-1]["params"] = [{"name": POINT, "select": select}]
    return made


def _layer(rows: pd.DataFrame, kind: str, look: Spec, **channels: Any) -> Spec:
    """With those columns alone that the channels show, and that a click asks for."""
    shown = [one for own in channels.values() for one in (own if isinstance(own, list) else [own])]
    names = {one.get("field") for one in shown} | (
        set(_SELECTED) if "tooltip" in channels else set()
    )
    return layer(
        rows[[name for name in rows if name in names]].to_dict("records"), kind, look, **channels
    )


def _legend(names: Sequence[str]) -> Spec | None:
    return legend(names, columns=1, labelLimit=700) if len(names) > 1 else None


def _domain(points: pd.DataFrame, levels: pd.DataFrame, limits: Mapping[str, float]) -> list[float]:
    """At least 10 % on both sides of the median, so that noise looks small; intervals are cut
    that take more room than the points and their size; zero to one where nothing has a number."""
    y = points["y"]
    room = max(y.max() - y.min(), abs(y.median()))
    low, high = points["low"].clip(lower=y.min() - room), points["high"].clip(upper=y.max() + room)
    values = pd.concat([y, low, high, levels["low"], levels["high"]]).dropna()
    values = pd.concat([values, pd.Series(list(limits.values()), dtype="float64")])
    if values.empty:
        return [0.0, 1.0]
    middle = float(y.median())
    return [float(min(values.min(), 0.9 * middle)), float(max(values.max(), 1.1 * middle))]


def _time(points: pd.DataFrame, title: str) -> Spec:
    """With room on both sides."""
    first, last = float(points["x"].min()), float(points["x"].max())
    span = last - first
    room = max(span / 40, 60_000) if span else _HALF_DAY_MS
    ends = [pd.Timestamp(at, unit="ms", tz="UTC").isoformat() for at in (first - room, last + room)]
    along = {"type": "utc", "domain": ends}
    return field("x:T", title=title, axis=time_axis(span), scale=along)
