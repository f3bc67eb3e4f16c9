"""A Chart record as a specification of Vega-Lite, for the pages, and as SVG, for the static report;
and what other charts of the pages share with it.

Plain dicts: altair, which makes the same from objects that it checks and copies, takes 50 ms for a
chart. vl-convert comes with the extra `dashboard`. Colours keep a contrast of 3.7 and more on white
and on near-black, and hue and shape say the same thing twice.
"""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import cycle
from typing import Any, TypeAlias

from hostbench.core.units import GIB, KIB, MIB, one_line
from hostbench.report.answer import Chart, in_unit

BLUE, ORANGE, GREEN, PINK, GREY = "#1F83C6", "#D1661C", "#158F6B", "#B8639A", "#7A828C"
PALETTE = (ORANGE, BLUE, GREEN, PINK, GREY, "#8A6D00", "#5B6EE1", "#A33A3A")
SHAPES = (
    "circle",
    "diamond",
    "square",
    "triangle-up",
    "triangle-down",
    "cross",
    "triangle-right",
    "triangle-left",
)
CROSS = "M-1,-1L1,1M-1,1L1,-1"
SECONDS = "replace(format(datum.value, '.3~s'), '\u00b5', 'u') + 's'"
BYTES = (
    f"datum.value >= {GIB} ? format(datum.value / {GIB}, '.4~g') + 'GiB' : "
    f"datum.value >= {MIB} ? format(datum.value / {MIB}, '.4~g') + 'MiB' : "
    f"datum.value >= {KIB} ? format(datum.value / {KIB}, '.4~g') + 'KiB' : datum.value + ' B'"
)
_LABELS = {"s": SECONDS, "bytes": BYTES}
_PLAIN = "format(datum.value, '~g')"
_BETTER = {"lower": " (lower is better)", "higher": " (higher is better)", "": ""}
_ABOUT_LENGTH, _LANE_LENGTH = 56, 24
_LINES = "split(datum.value, '\\n')"
_LINE_HEIGHT, _LANE_HEIGHT = 260, 40
_ROOM, _WIDEST = 1.35, 2.0
"""For the numbers behind the bars."""

_INK, _PALE = "currentColor", "#8886"
_SVG_LOOK: Mapping[str, Any] = {
    "width": 400,
    "config": {
        "background": "transparent",
        "aria": False,
        "view": {"stroke": _PALE},
        "axis": {
            **dict.fromkeys(("labelColor", "titleColor"), _INK),
            **dict.fromkeys(("domainColor", "tickColor"), GREY),
            "gridColor": _PALE,
        },
        "legend": {"labelColor": _INK},
        "title": {"color": _INK},
    },
}
"""So wide that it reads on a telephone."""
MANY = 150
"""Marks of a chart from which on it is drawn otherwise."""
_HOURS_MS = 3 * 86_400_000
"""A shorter time is shown in hours."""

_TYPES = {"N": "nominal", "Q": "quantitative", "T": "temporal"}
Spec: TypeAlias = dict[str, Any]
"""A specification of Vega-Lite, or a part of one."""


def drawn(chart: Chart) -> Spec:
    """The chart with what its dashed lines are over it; its title is the answer's question."""
    layers = _bars(chart) if chart.mark == "bar" else _lines(chart)
    lanes = len({point.x for point in chart.points})
    height = _LANE_HEIGHT * lanes + 20 if chart.mark == "bar" else _LINE_HEIGHT
    return sized(layers, height, _rules_in_words(chart))


def sized(layers: Sequence[Spec], height: int, about: Iterable[str] = ()) -> Spec:
    """A chart as wide as its page, with small lines over it, wrapped to fit a telephone."""
    lines = [part for line in about for part in textwrap.wrap(line, _ABOUT_LENGTH)]
    look = {"fontSize": 11, "fontWeight": "normal", "color": GREY, "anchor": "start", "offset": 8}
    return {
        **({"title": {"text": lines, **look}} if lines else {}),
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "layer": list(layers),
    }


def on_canvas(spec: Spec) -> Spec:
    """For a chart with MANY marks: a node of the page for each is slow. Marks of a canvas are no
    nodes, so none is described to a screen reader."""
    canvas = {"embedOptions": {"renderer": "canvas"}}
    return {**spec, "config": {"aria": False}, "usermeta": canvas}


def layer(rows: Sequence[Mapping[Any, Any]], kind: str, look: Spec, **channels: Any) -> Spec:
    """Marks of one kind: their rows, their look, and what each channel shows of a row."""
    values = [{name: _known(cell) for name, cell in row.items()} for row in rows]
    return {"data": {"values": values}, "mark": {"type": kind, **look}, "encoding": channels}


def _known(cell: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def time_axis(span_ms: float) -> Spec:
    """UTC over so long a time; hours are named where they tell points apart."""
    form = "%Y-%m-%d" if span_ms > _HOURS_MS else "%m-%d %H:%M"
    return {"format": form, "labelOverlap": True, "tickCount": 6, "grid": False}


def field(name: str, **more: Any) -> Spec:
    """What a channel shows: a column and how it is meant, N for names, Q for numbers, T for
    times."""
    column, _, kind = name.partition(":")
    return {"field": column, "type": _TYPES[kind], **more}


def svg(spec: Spec) -> str:
    """A chart as an SVG document, drawn without a browser, in the colour of the text around it. Its
    texts are escaped by vega."""
    import vl_convert

    document: str = vl_convert.vegalite_to_svg(printable(spec) | _SVG_LOOK)
    return document


def printable(part: Any) -> Any:
    """A specification without control characters but the ends of lines: any other ends the process
    that draws."""
    if isinstance(part, str):
        return "\n".join(map(one_line, part.split("\n")))
    if isinstance(part, dict):
        return {printable(name): printable(own) for name, own in part.items()}
    return [printable(own) for own in part] if isinstance(part, list | tuple) else part


def _lines(chart: Chart) -> list[Spec]:
    rows = list(map(asdict, chart.points))
    x, y = _x(chart), _y(chart)
    names = list(dict.fromkeys(row["series"] for row in rows))
    color = field("series:N", scale=scale(names, PALETTE), legend=legend(names))
    shape = field("series:N", scale=scale(names, SHAPES), legend=legend(names))
    tip = [field("text:N", title="case")]
    good = [row for row in rows if row["status"] == "ok"]
    bad = [row for row in rows if row["status"] != "ok"]
    known = [row for row in good if row["low"] is not None]
    layers = [*_rules(chart), *_curve(chart, x, y)]
    layers.append(layer(good, "line", {"strokeWidth": 2}, x=x, y=y, color=color))
    if known:
        look: Spec = {"strokeWidth": 2, "opacity": 0.55, "clip": True}
        ends = {"y": _y(chart, "low"), "y2": {"field": "high"}}
        layers.append(layer(known, "rule", look, x=x, color=color, **ends))
    look = {"size": 60, "filled": True, "opacity": 1}
    layers.append(layer(good, "point", look, x=x, y=y, color=color, shape=shape, tooltip=tip))
    if bad:
        look = {"shape": CROSS, "size": 200, "strokeWidth": 2.5}
        layers.append(layer(bad, "point", look, x=x, y=y, color=color, tooltip=tip))
    return layers


def _bars(chart: Chart) -> list[Spec]:
    """One bar a lane, lying, with its number behind it; a failed one pale and crossed out."""
    rows = list(map(asdict, chart.points))
    widest = _WIDEST * max((row["y"] for row in rows), default=0.0)  # a whisker beyond it is cut
    for row in rows:
        row["lane"] = "\n".join(textwrap.wrap(str(row["x"]), _LANE_LENGTH))
        row["number"] = in_unit(row["y"], chart.y.unit)
        row["end"] = min(max(row["y"], row["high"] or row["y"]), widest)
    top = _ROOM * max(
        [row["end"] for row in rows] + [rule.low for rule in chart.rules], default=1.0
    )
    domain = {"domain": [0, top or 1.0], "nice": False}
    title = f"{chart.y.title}{_BETTER[chart.y.better]}"
    ticks = {"labelExpr": _LABELS.get(chart.y.unit, _PLAIN), "tickCount": 4}
    if chart.y.unit == "bytes":
        ticks["values"] = _round_bytes(top)
    x, low, end = (
        field(f"{name}:Q", title=title, scale=domain, axis=ticks) for name in ("y", "low", "end")
    )
    axis = {"labelExpr": _LINES, "labelLimit": 0, "labelPadding": 6, "ticks": False}
    order = list(dict.fromkeys(row["lane"] for row in rows))
    y = field("lane:N", title=None, sort=order, axis={**axis, "domain": False})
    pale = {"condition": {"test": "datum.status == 'ok'", "value": 1.0}, "value": 0.3}
    tip = [field("text:N", title="case")]
    good = [row for row in rows if row["status"] == "ok"]
    known = [row for row in good if row["low"] is not None]
    bad = [row for row in rows if row["status"] != "ok"]
    bar = {"height": {"band": 0.66}, "color": BLUE}
    whisker = {"strokeWidth": 2, "color": GREY, "clip": True}
    text = {"align": "left", "dx": 9, "fontSize": 11, "color": GREY}
    cross = {"shape": CROSS, "size": 120, "strokeWidth": 2.5, "color": ORANGE}
    layers = [
        layer(rows, "bar", bar, x=x, y=y, opacity=pale, tooltip=tip),
        layer(known, "rule", whisker, x=low, x2={"field": "end"}, y=y),
        layer(rows, "text", text, x=end, y=y, text=field("number:N")),
        layer(bad, "point", cross, x=x, y=y),
    ]
    for rule, color in zip(chart.rules, cycle((GREEN, PINK, ORANGE))):
        look = {"color": color, "strokeWidth": 2.5, "strokeDash": [6, 4]}
        layers.append(layer([{"y": rule.low}], "rule", look, x=field("y:Q", scale=domain)))
    return layers


def _rules(chart: Chart) -> list[Spec]:
    """Bands, and dashed lines."""
    layers = []
    for rule, color in zip(chart.rules, cycle((GREEN, GREY, PINK))):
        ends, y = [{"low": rule.low, "high": rule.high}], _y(chart, "low")
        if rule.high is not None and rule.high > rule.low:
            look: Spec = {"color": GREY, "opacity": 0.28}
            layers.append(layer(ends, "rect", look, y=y, y2={"field": "high"}))
        else:
            look = {"color": color, "strokeDash": [6, 4], "strokeWidth": 1.5}
            layers.append(layer(ends, "rule", look, y=y))
    return layers


def _curve(chart: Chart, x: Spec, y: Spec) -> list[Spec]:
    if not chart.curve:
        return []
    return [
        layer(list(map(asdict, chart.curve)), "line", {"strokeWidth": 1, "color": GREY}, x=x, y=y)
    ]


def _x(chart: Chart) -> Spec:
    values = list(dict.fromkeys(point.x for point in chart.points))
    if any(isinstance(value, str) for value in values):
        order = list(map(str, values))
        return field("x:N", sort=order, title=chart.x.title, axis={"labelAngle": 0})
    axis = {
        "values": sorted(float(value) for value in values),
        "labelExpr": _LABELS.get(chart.x.unit, _PLAIN),
        "labelOverlap": True,
        "labelFlush": False,
        "grid": False,
    }
    scale: Spec = {"nice": False, "padding": 14}
    scale |= {"type": "log", "base": 2} if chart.x.is_log else {"zero": False}
    return field("x:Q", title=chart.x.title, axis=axis, scale=scale)


def _y(chart: Chart, column: str = "y") -> Spec:
    values = [point.y for point in chart.points if point.y > 0]
    axis: Spec = {"labelExpr": _LABELS[chart.y.unit]} if chart.y.unit in _LABELS else {}
    scale: Spec = {"zero": True, "nice": True, "clamp": True}
    if chart.y.unit == "bytes" and values:
        axis["values"] = _round_bytes(max(values))
        scale |= {"domain": [0, axis["values"][-1]], "nice": False}
    if chart.y.unit == "share":  # all of its range, so that nothing looks like something
        ends = [
            end
            for point in chart.points
            for end in (point.y, point.low, point.high)
            if end is not None
        ]
        scale = {"domain": [min(0.0, *ends), max(1.0, *ends)], "nice": True, "clamp": True}
    if chart.y.is_log and values:
        tens = _tens(min(values), max(values))
        axis = {"values": tens, "labelExpr": _LABELS.get(chart.y.unit, _PLAIN)}
        scale = {"type": "log", "domain": [tens[0], tens[-1]], "nice": False, "clamp": True}
    title = f"{chart.y.title}{', log' if chart.y.is_log else ''}{_BETTER[chart.y.better]}"
    return field(f"{column}:Q", title=title, scale=scale, axis=axis)


def _round_bytes(top: float) -> list[float]:
    """From 0 to `top` and beyond in 4 to 8 steps of a power of two; vega's are of ten."""
    step = 2.0 ** max(0, math.ceil(math.log2(max(top, 1.0) / 8)))
    return [step * number for number in range(math.ceil(top / step) + 1)]


def _tens(low: float, high: float) -> list[float]:
    """The powers of ten from below `low` to above `high`."""
    powers = [10.0**exponent for exponent in range(-12, 13)]
    first = max(power for power in powers if power <= max(low, powers[0]))
    last = min(power for power in powers if power >= min(high, powers[-1]))
    return [power for power in powers if first <= power <= max(last, 10 * first)]


def scale(names: Sequence[str], values: Sequence[Any]) -> Spec:
    """Each name's value, in this order."""
    chosen = [values[number % len(values)] for number in range(len(names))]
    return {"domain": list(names), "range": chosen}


def legend(names: Sequence[str], **more: Any) -> Spec | None:
    """Over the chart, to fit a telephone; none for a single line without a name."""
    if names in ([""], []):
        return None
    columns = 1 if max(map(len, names)) > 24 else 2
    usual = {"orient": "top", "title": None, "columns": columns, "labelLimit": 280, "offset": 4}
    usual["symbolOpacity"] = 1  # else it is as pale as the palest layer
    return {**usual, **more}


def _rules_in_words(chart: Chart) -> list[str]:
    """What the dashed lines and the band are."""
    return [
        f"Dashed: {rule.label}, {in_unit(rule.low, chart.y.unit)}."
        if rule.high is None or rule.high <= rule.low
        else f"Band: {rule.label}."
        for rule in chart.rules
    ]
