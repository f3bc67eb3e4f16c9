"""A Chart record as an altair chart, for the pages, and as SVG, for the static report; and what
other charts of the pages share with it.

altair and vl-convert come with the extra `dashboard`. Colours keep a contrast of 3.7 and more on
white and on near-black, and hue and shape say the same thing twice.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, fields
from itertools import cycle
from typing import Any, TypeAlias

import altair as alt
import pandas as pd

from hostbench.core.units import GIB, KIB, MIB, one_line
from hostbench.report.answer import Axis, Chart, Point, in_unit

BLUE, ORANGE, GREEN, PINK, GREY = "#1F83C6", "#D1661C", "#158F6B", "#B8639A", "#7A828C"
PALETTE = (ORANGE, BLUE, GREEN, PINK, GREY, "#8A6D00", "#5B6EE1", "#A33A3A")
SHAPES = ("circle", "diamond", "square", "triangle-up", "triangle-down", "cross", "stroke", "arrow")
CROSS = "M-1,-1L1,1M-1,1L1,-1"
SECONDS = "replace(format(datum.value, '.3~s'), '\u00b5', 'u') + 's'"
BYTES = (
    f"datum.value >= {GIB} ? format(datum.value / {GIB}, '~g') + ' GiB' : "
    f"datum.value >= {MIB} ? format(datum.value / {MIB}, '~g') + ' MiB' : "
    f"datum.value >= {KIB} ? format(datum.value / {KIB}, '~g') + ' KiB' : datum.value + ' B'"
)
_LABELS = {"s": SECONDS, "bytes": BYTES}
_PLAIN = "format(datum.value, '~g')"
_BETTER = {"lower": " (lower is better)", "higher": " (higher is better)", "": ""}
_TITLE_LENGTH, _ABOUT_LENGTH, _LANE_LENGTH = 46, 56, 24
_LINES = "split(datum.value, '\\n')"
_LINE_HEIGHT, _LANE_HEIGHT = 260, 40
_ROOM, _WIDEST = 1.35, 2.0
"""For the numbers behind the bars."""

Layers: TypeAlias = alt.LayerChart | alt.FacetChart
"""What alt.layer returns; never a facet here."""


def drawn(chart: Chart, about: Sequence[str] = (), *, width: int | str = "container") -> Layers:
    """The chart with what it was measured on over it; its title is the answer's question."""
    layers = _bars(chart) if chart.mark == "bar" else _lines(chart)
    lanes = len({one.x for one in chart.points})
    height = _LANE_HEIGHT * lanes + 20 if chart.mark == "bar" else _LINE_HEIGHT
    said = [one_line(line) for line in (*about, *_rules_in_words(chart))]
    return titled(alt.layer(*layers), "", said, height, width)


def titled(
    layers: Layers, title: str, about: Sequence[str], height: int, width: int | str = "container"
) -> Layers:
    """A chart with its title and lines under it, wrapped to fit a telephone, and its size."""
    heading = alt.TitleParams(
        text=textwrap.wrap(title, _TITLE_LENGTH) or [""],
        subtitle=[part for line in about for part in textwrap.wrap(line, _ABOUT_LENGTH)],
        anchor="start",
        fontSize=14,
        subtitleFontSize=11,
        subtitleColor=GREY,
        offset=8,
    )
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return layers.properties(title=heading, width=width, height=height, autosize=fit)


def svg(chart: Chart, about: Sequence[str] = ()) -> str:
    """The chart as an SVG document, drawn without a browser. Its texts are escaped by vega."""
    import vl_convert

    made: str = vl_convert.vegalite_to_svg(drawn(chart, about, width=560).to_dict())
    return made


def _frame(points: Sequence[Point]) -> pd.DataFrame:
    """Texts come from files, and a control character in one ends the process that draws SVG."""
    columns = [column.name for column in fields(Point)]
    rows = pd.DataFrame([asdict(one) for one in points], columns=columns)
    return rows.map(lambda cell: one_line(cell) if isinstance(cell, str) else cell)


def _lines(chart: Chart) -> list[alt.Chart]:
    rows = _frame(chart.points)
    x, y = _x(chart), _y(chart)
    names = list(dict.fromkeys(rows["series"]))
    color = alt.Color("series:N", scale=scale(names, PALETTE), legend=legend(names))
    shape = alt.Shape("series:N", scale=scale(names, SHAPES), legend=legend(names))
    tip = [alt.Tooltip("text:N", title="case")]
    good, bad = rows[rows["status"] == "ok"], rows[rows["status"] != "ok"]
    base = alt.Chart(good).encode(x=x, color=color)
    layers = [*_rules(chart), *_curve(chart, x, y)]
    layers.append(base.mark_line(strokeWidth=2).encode(y=y))
    if good["low"].notna().any():
        known = alt.Chart(good[good["low"].notna()]).encode(x=x, color=color)
        ends = known.mark_rule(strokeWidth=2, opacity=0.55, clip=True)
        layers.append(ends.encode(y=_y(chart, "low"), y2="high:Q"))
    points = base.mark_point(size=60, filled=True, opacity=1)
    layers.append(points.encode(y=y, shape=shape, tooltip=tip))
    if len(bad):
        crosses = alt.Chart(bad).mark_point(shape=CROSS, size=200, strokeWidth=2.5)
        layers.append(crosses.encode(x=x, y=y, color=color, tooltip=tip))
    return layers


def _bars(chart: Chart) -> list[alt.Chart]:
    """One bar a lane, lying, with its number behind it; a failed one pale and crossed out."""
    rows = _frame(chart.points)
    rows["lane"] = ["\n".join(textwrap.wrap(str(x), _LANE_LENGTH)) for x in rows["x"]]
    rows["said"] = [_number(value, chart.y) for value in rows["y"]]
    order = list(dict.fromkeys(rows["lane"]))
    widest = _WIDEST * max(rows["y"], default=0.0)  # a whisker beyond it is cut
    rows["end"] = rows[["y", "high"]].max(axis=1).clip(upper=widest)
    top = _ROOM * max([*rows["end"], *(rule.low for rule in chart.rules)], default=1.0)
    domain = alt.Scale(domain=[0, top or 1.0], nice=False)
    label = _LABELS.get(chart.y.unit, _PLAIN)
    title = f"{chart.y.title}{_BETTER[chart.y.better]}"
    ticks = alt.Axis(labelExpr=label, tickCount=4)
    x, low, end = (
        alt.X(f"{name}:Q", title=title, scale=domain, axis=ticks) for name in ("y", "low", "end")
    )
    axis = alt.Axis(labelExpr=_LINES, labelLimit=0, labelPadding=6, ticks=False, domain=False)
    base = alt.Chart(rows).encode(y=alt.Y("lane:N", title=None, sort=order, axis=axis))
    pale = alt.when("datum.status == 'ok'").then(alt.value(1.0)).otherwise(alt.value(0.3))
    tip = [alt.Tooltip("text:N", title="case")]
    layers = [
        base.mark_bar(height={"band": 0.66}, color=BLUE).encode(x=x, opacity=pale, tooltip=tip),
        base.transform_filter("isValid(datum.low) && datum.status == 'ok'")
        .mark_rule(strokeWidth=2, color=GREY, clip=True)
        .encode(x=low, x2="end:Q"),
        base.mark_text(align="left", dx=9, fontSize=11, color=GREY).encode(x=end, text="said:N"),
        base.transform_filter("datum.status != 'ok'")
        .mark_point(shape=CROSS, size=120, strokeWidth=2.5, color=ORANGE)
        .encode(x=x),
    ]
    for rule, color in zip(chart.rules, cycle((GREEN, PINK, ORANGE))):
        mark = alt.Chart(pd.DataFrame({"y": [rule.low]})).mark_rule(
            color=color, strokeWidth=2.5, strokeDash=[6, 4]
        )
        layers.append(mark.encode(x=alt.X("y:Q", scale=domain)))
    return layers


def _rules(chart: Chart) -> list[alt.Chart]:
    """Bands, and dashed lines."""
    layers = []
    for rule, color in zip(chart.rules, cycle((GREEN, GREY, PINK))):
        ends = pd.DataFrame({"low": [rule.low], "high": [rule.high]})
        base = alt.Chart(ends).encode(y=_y(chart, "low"))
        if rule.high is not None and rule.high > rule.low:
            layers.append(base.mark_rect(color=GREY, opacity=0.28).encode(y2="high:Q"))
        else:
            layers.append(base.mark_rule(color=color, strokeDash=[6, 4], strokeWidth=1.5))
    return layers


def _curve(chart: Chart, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    if not chart.curve:
        return []
    line = alt.Chart(_frame(chart.curve)).mark_line(strokeWidth=1, color=GREY)
    return [line.encode(x=x, y=y)]


def _x(chart: Chart) -> alt.X:
    values = list(dict.fromkeys(one.x for one in chart.points))
    if any(isinstance(value, str) for value in values):
        return alt.X(
            "x:N",
            sort=[one_line(str(value)) for value in values],
            title=chart.x.title,
            axis=alt.Axis(labelAngle=0),
        )
    numbers = sorted(float(value) for value in values)
    axis = alt.Axis(
        values=numbers,
        labelExpr=_LABELS.get(chart.x.unit, _PLAIN),
        labelOverlap=True,
        labelFlush=False,
        grid=False,
    )
    scale = (
        alt.Scale(type="log", base=2, nice=False, padding=14)
        if chart.x.is_log
        else (alt.Scale(nice=False, padding=14, zero=False))
    )
    return alt.X("x:Q", title=chart.x.title, axis=axis, scale=scale)


def _y(chart: Chart, column: str = "y") -> alt.Y:
    values = [one.y for one in chart.points if one.y > 0]
    axis = alt.Axis(labelExpr=_LABELS[chart.y.unit]) if chart.y.unit in _LABELS else alt.Axis()
    scale = alt.Scale(zero=True, nice=True, clamp=True)
    if chart.y.unit == "share":  # all of its range, so that nothing looks like something
        ends = [
            end for one in chart.points for end in (one.y, one.low, one.high) if end is not None
        ]
        scale = alt.Scale(domain=[min(0.0, *ends), max(1.0, *ends)], nice=True, clamp=True)
    if chart.y.is_log and values:
        tens = _tens(min(values), max(values))
        axis = alt.Axis(values=tens, labelExpr=_LABELS.get(chart.y.unit, _PLAIN))
        scale = alt.Scale(type="log", domain=[tens[0], tens[-1]], nice=False, clamp=True)
    title = f"{chart.y.title}{', log' if chart.y.is_log else ''}{_BETTER[chart.y.better]}"
    return alt.Y(f"{column}:Q", title=title, scale=scale, axis=axis)


def _tens(low: float, high: float) -> list[float]:
    """The powers of ten from below `low` to above `high`."""
    powers = [10.0**power for power in range(-12, 13)]
    first = max(one for one in powers if one <= max(low, powers[0]))
    last = min(one for one in powers if one >= min(high, powers[-1]))
    return [one for one in powers if first <= one <= max(last, 10 * first)]


def scale(names: Sequence[str], values: Sequence[Any]) -> alt.Scale:
    """Each name's value, in this order."""
    return alt.Scale(domain=list(names), range=[values[n % len(values)] for n in range(len(names))])


def legend(names: Sequence[str], **more: Any) -> alt.Legend | None:
    """Over the chart, to fit a telephone; none for a single line without a name."""
    if names in ([""], []):
        return None
    columns = 1 if max(map(len, names)) > 24 else 2
    usual = {"orient": "top", "title": None, "columns": columns, "labelLimit": 280, "offset": 4}
    return alt.Legend(**{**usual, **more})


def _number(value: float, axis: Axis) -> str:
    return in_unit(value, axis.unit)


def _rules_in_words(chart: Chart) -> list[str]:
    """What the dashed lines and the band are."""
    return [
        f"Dashed: {rule.label}, {_number(rule.low, chart.y)}."
        if rule.high is None or rule.high <= rule.low
        else f"Band: {rule.label}."
        for rule in chart.rules
    ]
