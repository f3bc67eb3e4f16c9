"""A Chart record as a specification of Vega-Lite, for the pages, and as SVG, for the static report;
and what other charts of the pages share with it.

Plain dicts: altair, which makes the same from objects that it checks and copies, takes 50 ms for a
chart. vl-convert comes with the extra `dashboard`. Colours keep a contrast of 3.7 and more on white
and on near-black, and hue and shape say the same thing twice.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import cycle
from typing import Any, TypeAlias

from hostbench.core.units import GIB, KIB, MIB, one_line
from hostbench.families.question import in_unit
from hostbench.report.picture import Chart

BLUE, ORANGE, GREEN, PINK, GREY = "#1F83C6", "#D1661C", "#158F6B", "#B8639A", "#7A828C"
PALETTE = (ORANGE, BLUE, GREEN, PINK, "#8A6D00", "#5B6EE1", "#A33A3A", GREY)
SHAPES = (
    "circle", "diamond", "square", "triangle-up", "triangle-down", "cross", "triangle-right",
    "triangle-left",
)  # fmt: skip
CROSS = "M-1,-1L1,1M-1,1L1,-1"
CLICKED = "clicked"
"""Name of the selection: what was clicked."""
SECONDS = (
    "replace(replace(format(datum.value, '.3~s'), '\u00b5', 'u'), regexp('[a-z]?$'), ' $&') + 's'"
)
BYTES = (
    f"datum.value >= {GIB} ? format(datum.value / {GIB}, '.4~g') + 'GiB' : "
    f"datum.value >= {MIB} ? format(datum.value / {MIB}, '.4~g') + 'MiB' : "
    f"datum.value >= {KIB} ? format(datum.value / {KIB}, '.4~g') + 'KiB' : datum.value + ' B'"
)
_LABELS = {"s": SECONDS, "bytes": BYTES}
PLAIN = "format(datum.value, datum.value < 1000 ? '.4~g' : '.4~s')"
_BETTER = {"lower": " (lower is better)", "higher": " (higher is better)", "": ""}
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [3, 6], [1, 3], [10, 2, 2, 2])
_ABOUT_LENGTH, _LANE_LENGTH = 56, 24
"""So long that it fits a telephone."""
_LINE_HEIGHT, _LANE_HEIGHT = 260, 40
_WIDEST, _ROOM = 2.0, 1.03
"""Beyond so many times the longest bar a whisker is cut, and where the axis ends."""
_PALE = "#8884"
_SVG_WIDTH = 350
"""So wide that it reads on a telephone."""
MANY = 150
"""Marks of a chart from which on it is drawn otherwise."""
_HOURS_MS = 7 * 86_400_000
"""A shorter time is shown in hours."""

_TYPES = {"N": "nominal", "Q": "quantitative", "T": "temporal"}
_TIP = {"tooltip": [{"field": "text", "type": "nominal", "title": "case"}]}
_WHISKER: dict[str, Any] = {"strokeWidth": 2, "opacity": 0.6, "clip": True}
GOES_ON: dict[str, Any] = {"size": 50, "filled": True, "opacity": 1, "color": GREY}
"""At the end of a whisker that is cut."""
Spec: TypeAlias = dict[str, Any]
"""A specification of Vega-Lite, or a part of one."""


def drawn(
    chart: Chart,
    height: int = _LINE_HEIGHT,
    *,
    takes_clicks: bool = False,
    letters: int = _ABOUT_LENGTH,
) -> Spec:
    """Lines over x, or lying bars with their numbers. What the dashed lines are stands over it, in
    lines of so many letters. A click tells what the mark is `about`, where it takes clicks: without
    it is quicker."""
    points = chart.points
    top = max(point.y for point in points)
    rows = [
        {
            **asdict(replace(point, about={})),
            **(point.about if takes_clicks else {}),
            "lane": "\n".join(textwrap.wrap(str(point.x), _LANE_LENGTH)),
            "number": in_unit(point.y, chart.y.unit),
            "end": min(max(point.y, point.high or point.y), _WIDEST * top),
        }
        for point in points
    ]
    if chart.mark == "bar":
        layers = _bars(chart, rows, top)
        height = _LANE_HEIGHT * len({row["lane"] for row in rows}) + 20
    else:
        layers = _lines(chart, rows, top)
    marks = next(own for own in layers if own["mark"]["type"] in ("bar", "point"))
    if takes_clicks:
        clickable(marks, *points[0].about)
    about = (f"Dashed: {what}, {in_unit(y, chart.y.unit)}." for what, y in chart.limits.items())
    lines = [part for line in about for part in textwrap.wrap(line, letters)]
    return sized([shown for shown in layers if shown["data"]["values"]], height, lines)


def _bars(chart: Chart, rows: Sequence[Spec], top: float) -> list[Spec]:
    """A lane for each, with its number at the end of it; dots where the axis has no zero."""
    known = [row for row in rows if row["low"] is not None]
    look = _value(chart, max([*(row["end"] for row in rows), *chart.limits.values()]), top)
    order = list(dict.fromkeys(row["lane"] for row in rows))
    axis: Spec = {"labelExpr": "split(datum.value, '\\n')", "labelLimit": 0}
    axis |= {"labelPadding": 6, "ticks": False, "domain": False}
    lane = {"y": field("lane:N", title=None, sort=order, axis=axis)}
    at = {**lane, "x": field("y:Q", **look)}
    number = {**lane, "x": {"value": {"expr": "width"}}, "text": field("number:N")}
    interval = {**lane, "x": field("low:Q", **look), "x2": {"field": "end"}}
    cut = [row for row in known if row["high"] > row["end"]]
    names = list(dict.fromkeys(row["series"] for row in rows))
    hues = scale(names, PALETTE if len(names) > 1 else (BLUE,))
    color = field("series:N", scale=hues, legend=None)
    kind = "point" if chart.y.is_log else "bar"
    mark: Spec = {"size": 110, "filled": True} if chart.y.is_log else {"height": {"band": 0.66}}
    text = {"align": "left", "dx": 8, "fontSize": 11}
    return [
        layer(rows, kind, mark, **at, **_TIP, color=color),
        *_rules(chart, "x", look),
        layer(known, "rule", _WHISKER | {"color": GREY, "opacity": 1}, **interval),
        layer(
            cut, "point", GOES_ON | {"shape": "triangle-right"}, **lane, x=field("end:Q", **look)
        ),
        layer(rows, "text", text, **number),
    ]


def _lines(chart: Chart, rows: Sequence[Spec], top: float) -> list[Spec]:
    """A line for each series, ticked at the numbers that there are; a dash for each place. A click
    on an entry of the legend shows it alone."""
    known = [row for row in rows if row["low"] is not None]
    look = _value(chart, 0.0, top)
    axis = {"values": sorted({row["x"] for row in rows}), "grid": False}
    axis |= {"labelExpr": _LABELS.get(chart.x.unit, PLAIN)}
    axis |= {"labelOverlap": True, "labelFlush": False}
    along: Spec = {"type": "log", "base": 2} if chart.x.is_log else {"zero": False}
    along |= {"nice": False, "padding": 14}
    x = {"x": field("x:Q", title=chart.x.title, axis=axis, scale=along)}
    at = {**x, "y": field("y:Q", **look)}
    interval = {**x, "y": field("low:Q", **look), "y2": {"field": "high"}}
    names, dashed = ([*dict.fromkeys(row[key] for row in rows)] for key in ("series", "dash"))
    key, faint = legend(names), {"condition": {"param": "shown", "value": 1}, "value": 0.1}
    own: Spec = {"color": field("series:N", scale=scale(names, PALETTE), legend=key)}
    own |= {"opacity": faint} if key else {}
    shapes = SHAPES + SHAPES[1:] + SHAPES[:1]  # a ninth line has the first one's colour
    shape = field("series:N", scale=scale(names, shapes), legend=key)
    strokes = legend(dashed, orient="bottom", symbolSize=400, symbolStrokeWidth=2)
    dash = field("dash:N", scale=scale(dashed, _DASHES), legend=strokes)
    dot = {"size": 60, "filled": True, "opacity": 1}
    line = layer(rows, "line", {"strokeWidth": 2}, **at, **own, strokeDash=dash)
    if key:
        alone = {"type": "point", "fields": ["series"]}
        line["params"] = [{"name": "shown", "select": alone, "bind": "legend"}]
    return [
        *_rules(chart, "y", look),
        line,
        layer(known, "rule", _WHISKER, **interval, **own),
        layer(rows, "point", dot, **at, **own, **_TIP, shape=shape),
    ]


def sized(layers: Sequence[Spec], height: int, lines: Sequence[str] = ()) -> Spec:
    """A chart as wide as its page, with small lines over it."""
    look = {"fontSize": 11, "fontWeight": "normal", "anchor": "start", "offset": 8}
    return {
        **({"title": {"text": lines, **look}} if lines else {}),
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": dict.fromkeys(("left", "right", "top", "bottom"), 5),
        "layer": list(layers),
    }


def on_canvas(spec: Spec) -> Spec:
    """For a chart with MANY marks: a node of the page for each is slow. Marks of a canvas are no
    nodes, so none is described to a screen reader."""
    canvas = {"embedOptions": {"renderer": "canvas"}}
    return {**spec, "config": {"aria": False}, "usermeta": canvas}


def in_ink(spec: Spec, ink: str, **config: Any) -> Spec:
    """With texts of this colour."""
    texts = {"labelColor": ink, "titleColor": ink}
    axis = {**texts, "titleFontWeight": "normal", "gridColor": _PALE}
    axis |= {"domainColor": GREY, "tickColor": GREY}
    look = {"text": {"color": ink}, "title": {"color": ink}, "legend": texts, "axis": axis}
    return {**spec, "config": {**look, **config, **spec.get("config", {})}}


def layer(rows: Sequence[Mapping[Any, Any]], kind: str, look: Spec, **channels: Any) -> Spec:
    """Marks of one kind: their rows, their look, and what each channel shows of a row."""
    values = [{name: _known(cell) for name, cell in row.items()} for row in rows]
    return {"data": {"values": values}, "mark": {"type": kind, **look}, "encoding": channels}


def clickable(layer: Spec, *fields: str) -> None:
    """A click on a mark of it selects these fields of its row."""
    select = {"type": "point", "fields": list(fields)}
    layer["params"] = [{"name": CLICKED, "select": select}]


def _known(cell: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def time_axis(span_ms: float) -> Spec:
    """UTC over so long a time; hours are named where they tell points apart."""
    form = "%Y-%m-%d" if span_ms > _HOURS_MS else "%m-%d %H:%M"
    return {"format": form, "labelOverlap": True, "labelBound": 8, "tickCount": 6, "grid": False}


def field(name: str, **more: Any) -> Spec:
    """What a channel shows: a column, and N for names, Q for numbers, T for times."""
    column, _, kind = name.partition(":")
    return {"field": column, "type": _TYPES[kind], **more}


def svg(spec: Spec, ink: str = "currentColor", width: int = _SVG_WIDTH) -> str:
    """A chart as an SVG document, drawn without a browser, by default in the colour of the text
    around it. Its texts are escaped by vega."""
    import vl_convert

    look = {"background": "transparent", "aria": False, "view": {"stroke": _PALE}}
    # fitted into a width, vega would lay out the legend before it knows for how many columns
    sized = {**in_ink(spec, ink, **look), "width": width, "autosize": "pad"}
    document: str = vl_convert.vegalite_to_svg(printable(sized))
    return document


def printable(part: Any) -> Any:
    """Without control characters but the ends of lines: any other ends the process that draws."""
    if isinstance(part, str):
        return "\n".join(map(one_line, part.split("\n")))
    if isinstance(part, dict):
        return {printable(name): printable(own) for name, own in part.items()}
    return [printable(own) for own in part] if isinstance(part, list | tuple) else part


def _rules(chart: Chart, value: str, look: Spec) -> Iterator[Spec]:
    """A dashed line for each limit."""
    for (label, number), color in zip(chart.limits.items(), cycle((GREY, PINK, GREEN))):
        dashed = {"color": color, "strokeDash": [6, 4], "strokeWidth": 2}
        rows = [{"label": label, "limit": number}]
        yield layer(rows, "rule", dashed, **{value: field("limit:Q", **look)})


def _value(chart: Chart, end: float, top: float) -> Spec:
    """How the values are read: to `end` where that is given. A share has all of its range, so that
    nothing looks like something."""
    axis: Spec = {"labelExpr": _LABELS[chart.y.unit]} if chart.y.unit in _LABELS else {}
    room = _ROOM * end  # else a whisker to the edge looks cut
    up: Spec = {"domain": [0, room], "nice": False} if end else {"zero": True, "nice": True}
    axis["tickCount"] = 4 if end else 5
    if chart.y.unit == "share":
        up = {"domain": [0, max(1.0, top)]}
    if chart.y.is_log:
        values = [n for own in chart.points for n in (own.y, own.low, own.high) if n and n > 0]
        values += chart.limits.values()
        ticks = round_numbers(min(values), max(values))
        # one number alone lets nobody read the scale: then they are vega's
        axis = {"values": ticks} if len(ticks) > 1 else {"tickCount": 4}
        axis["labelExpr"] = _LABELS.get(chart.y.unit, PLAIN)
        ends = [min(*values, *ticks), max(*values, *ticks)]
        up = {"type": "log", "domain": ends, "nice": False, "padding": 8}
    title = f"{chart.y.title}{', log' if chart.y.is_log else ''}{_BETTER[chart.y.better]}"
    return {"title": title, "axis": axis, "scale": up | {"clamp": True}}


def round_numbers(low: float, high: float) -> list[float]:
    """Powers of ten over so much of a logarithmic axis, or a little more; of less than three also 2
    and 5 times."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) < 4 else (1,)
    values = [step * 10.0**power for power in powers for step in steps]
    return [value for value in values if low / 1.5 <= value <= high * 1.5]


def scale(names: Sequence[str], values: Sequence[Any]) -> Spec:
    """Each name's value, in this order."""
    chosen = [values[number % len(values)] for number in range(len(names))]
    return {"domain": list(names), "range": chosen}


def legend(names: Sequence[str], **more: Any) -> Spec | None:
    """Over the chart, to fit a telephone; none for a single line without a name."""
    if names in ([""], []):
        return None
    width = 8 * max(map(len, names)) + 50  # a dash is long
    columns = {"expr": f"max(1, floor(width / {width}))"}
    usual: Spec = {"orient": "top", "title": None, "columns": columns, "labelLimit": 280}
    usual |= {"offset": 4, "symbolOpacity": 1}  # else it is as pale as the palest layer
    return {**usual, **more}
