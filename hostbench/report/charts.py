"""What all charts share: specifications of Vega-Lite, for the pages, and as SVG, for the static
report.

Plain dicts: altair, which makes the same from objects that it checks and copies, takes 50 ms for a
chart. vl-convert comes with the extra `dashboard`. Colours keep a contrast of 3.7 and more on white
and on near-black, and hue and shape say the same thing twice.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from hostbench.core.units import GIB, KIB, MIB, one_line
from hostbench.report.blocks import Spec

BLUE, ORANGE, GREEN, PINK, GREY = "#1F83C6", "#D1661C", "#158F6B", "#B8639A", "#7A828C"
PALETTE = (ORANGE, BLUE, GREEN, PINK, "#8A6D00", "#5B6EE1", "#A33A3A", GREY)
SHAPES = (
    "circle", "diamond", "square", "triangle-up", "triangle-down", "cross", "triangle-right",
)  # fmt: skip
"""One fewer than colours: a ninth line looks like no other."""
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
PLAIN = "format(datum.value, datum.value < 1000 ? '.4~g' : '.4~s')"
MANY = 150
"""Marks of a chart: more are drawn otherwise."""
_IS_MIDNIGHT = "utchours(datum.value) + utcminutes(datum.value) === 0"
TIME_AXIS = {
    "labelExpr": f"utcFormat(datum.value, {_IS_MIDNIGHT} ? '%Y-%m-%d' : '%m-%d %H:%M')",
    "labelOverlap": True,
    "labelBound": 8,
    "tickCount": 6,
    "grid": False,
}
"""With days as YYYY-MM-DD, UTC."""
WHISKER: dict[str, Any] = {"strokeWidth": 2, "opacity": 0.6, "clip": True}
LANE_HEIGHT = 40
_PALE = "#8884"
_TYPES = {"N": "nominal", "Q": "quantitative", "T": "temporal"}


def layer(
    rows: pd.DataFrame | Sequence[Mapping[Any, Any]],
    kind: str,
    look: Spec,
    *,
    clicks: Sequence[str] = (),
    **channels: Any,
) -> Spec:
    """Marks of one kind: their look, what each channel shows of a row, and which of its cells a
    click on a mark selects. What of the rows is none of these stays here."""
    names = {*clicks}
    for channel in channels.values():
        parts = channel if isinstance(channel, list) else [channel]
        names |= {part["field"] for part in parts if "field" in part}
    if isinstance(rows, pd.DataFrame):
        rows = rows[[name for name in rows if name in names]].to_dict("records")
    values = [{name: _known(row[name]) for name in row if name in names} for row in rows]
    spec: Spec = {"data": {"values": values}, "mark": {"type": kind, **look}, "encoding": channels}
    if clicks:
        # A double click would clear what its first click has selected.
        select: Spec = {"type": "point", "fields": list(clicks), "clear": False}
        spec["params"] = [{"name": CLICKED, "select": select}]
    return spec


def _known(cell: Any) -> Any:
    """JSON has no NaN."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def field(name: str, **more: Any) -> Spec:
    """What a channel shows: a column, and N for names, Q for numbers, T for times."""
    column, _, kind = name.partition(":")
    return {"field": column, "type": _TYPES[kind], **more}


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


def lane_texts(rows: pd.DataFrame | Sequence[Mapping[str, Any]], y: Spec) -> list[Spec]:
    """Over each lane what it is, `name`, and on the right its number in words, `number`."""
    room = {"expr": "width - 7 * length(datum['number'])"}
    name, number = ({"align": side, "dy": -12} for side in ("left", "right"))
    left, right = {"value": 0}, {"value": {"expr": "width"}}
    texts: Any = {"text": field("name:N"), "detail": field("number:N")}
    return [
        layer(rows, "text", {**name, "limit": room}, x=left, y=y, **texts),
        layer(rows, "text", number, x=right, y=y, text=field("number:N")),
    ]


def sized(layers: Sequence[Spec], height: int, num_marks: int = 0, **more: Any) -> Spec:
    """A chart as wide as its page, of those layers that have a row. Many marks are drawn on a
    canvas: a node of the page for each is slow; none of them is described to a screen reader."""
    if num_marks > MANY:
        canvas = {"embedOptions": {"renderer": "canvas"}}
        more |= {"config": {"aria": False}, "usermeta": canvas}
    return {
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "padding": dict.fromkeys(("left", "right", "top", "bottom"), 5),
        "layer": [own for own in layers if own["data"]["values"]],
        **more,
    }


def in_ink(spec: Spec, ink: str, **config: Any) -> Spec:
    """With texts of this colour."""
    texts = {"labelColor": ink, "titleColor": ink}
    axis = {**texts, "titleFontWeight": "normal", "gridColor": _PALE}
    axis |= {"domainColor": GREY, "tickColor": GREY}
    look = {"text": {"color": ink}, "legend": texts, "axis": axis}
    return {**spec, "config": {**look, **config, **spec.get("config", {})}}


def svg(spec: Spec, ink: str = "currentColor", width: int = 350) -> str:
    """A chart as an SVG document, drawn without a browser, by default in the colour of the text
    around it and so wide that it reads on a telephone. Its texts are escaped by vega."""
    import vl_convert

    look = {"background": "transparent", "aria": False, "view": {"stroke": _PALE}}
    # fitted into a width, vega would lay out the legend before it knows for how many columns
    sized = {**in_ink(spec, ink, **look), "width": width, "autosize": "pad"}
    document: str = vl_convert.vegalite_to_svg(printable(sized))
    return document


def printable(part: Any) -> Any:
    """Without control characters: some end the process that draws."""
    if isinstance(part, str):
        return one_line(part)
    if isinstance(part, dict):
        return {printable(name): printable(own) for name, own in part.items()}
    return [printable(own) for own in part] if isinstance(part, list | tuple) else part
