"""A picture of a family, over machines and runs: which rows it draws, and its chart."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

from hostbench import families
from hostbench.core.case import counts_bytes
from hostbench.core.units import GB
from hostbench.families.question import Measure, Picture, Row, Rows, axis_name, in_unit, where
from hostbench.report import charts
from hostbench.report.answer import limits, varying
from hostbench.report.blocks import Spec
from hostbench.report.charts import GREY, PALETTE, WHISKER, field, layer, scale

CLICKS = ("machine", "run_id", "case")
"""What a click on a mark tells."""
_LABELS = {"s": charts.SECONDS, "bytes": charts.BYTES}
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [3, 6], [1, 3], [10, 2, 2, 2])
_LIMIT = {"color": GREY, "strokeDash": [6, 4], "strokeWidth": 2}


# ---- which rows ---------------------------------------------------------------------------------


def with_number(rows: Rows, axis: str) -> list[Row]:
    """Those whose choice on an axis is a number."""
    known = list[Row]()
    for row in rows:
        with suppress(ValueError):
            if math.isfinite(float(str(row.axes.get(axis)))):
                known.append(row)
    return known


def measures_of(picture: Picture, rows: Rows) -> list[Measure]:
    """Those of the picture that these rows have a number in."""
    return [measure for measure in picture.measures if any(map(measure.of(rows), rows))]


def drawn_rows(picture: Picture, rows: Rows, x: str, measure: Measure) -> list[Row]:
    """Those with a number on both axes, in the order of the legend; without an `x` on the one."""
    value = measure.of(rows)
    known = [row for row in (with_number(rows, x) if x else rows) if value(row)]
    axes = [axis for axis in varying(known) if axis != x]

    def key(row: Row) -> tuple[object, ...]:
        ways = [picture.order(axis, row.axes.get(axis, "")) for axis in axes]
        return ways, row.machine, row.run, float(row.axes[x] if x else 0)

    return sorted(known, key=key)


@cache
def picture_of(workload: str) -> Picture:
    """Of a workload, or of a family, that no picture is about, as of a project's own; it calls the
    choices as the family's pictures do, else its questions."""
    family = workload.partition(".")[0]
    words = dict[str, Mapping[Any, str]](families.words(family))
    for own in families.pictures().values():
        words |= own.words if own.workload.partition(".")[0] == family else {}
    return Picture(choice=workload, text=workload, workload=workload, words=words, x=())


def x_axes(picture: Picture, rows: Rows) -> list[str]:
    """Those of the picture, else those of numbers, on which these rows differ; `""` for none."""
    differ = varying(rows)
    axes = picture.x or [axis for axis in differ if with_number(rows, axis)]
    return [axis for axis in axes if axis in differ] or [""]


def few(picture: Picture, rows: Rows) -> Rows:
    """The rows that a small picture is about: of each axis with usual values, but not of schedules,
    the one that was measured at most sizes. Rows have an axis `workload`."""
    rows = where(rows, workload=(picture.workload, *picture.also))
    x = x_axes(picture, rows)[0]
    for axis, usual in picture.usual.items():
        groups = [where(rows, **{axis: own}) for own in usual if axis != "schedule"]
        sizes = [len({row.axes.get(x) for row in group}) for group in groups]
        rows = groups[sizes.index(max(sizes))] if any(sizes) else rows
    return rows


def small(picture: Picture, rows: Rows, height: int, ideal_s: float | None = None) -> Spec | None:
    """A picture of few lines, by its first measure; where it has one size, with what is ideal."""
    rows = few(picture, rows)
    x = x_axes(picture, rows)[0]
    rows = where(rows, schedule=picture.usual.get("schedule", ())) or rows
    for measure in measures_of(picture, rows)[:1]:
        drawn = drawn_rows(picture, rows, x, measure)
        return chart(picture, drawn, x, measure, height, None if x else ideal_s)
    return None


# ---- the chart ----------------------------------------------------------------------------------


def chart(
    picture: Picture,
    rows: Rows,
    x: str,
    measure: Measure,
    height: int,
    ideal_s: float | None = None,
) -> Spec:
    """Of `drawn_rows`, at least one: lines over `x`, or a bar each where no line has two points.
    `description` says which choices all of it shares, what the dashed lines are, and which ranks
    are more than the cores."""
    value, differ, places = measure.of(rows), varying(rows), _places(rows)
    names = [picture.name(row, [axis for axis in differ if axis != x]) for row in rows]
    ways = [*zip(names, places, strict=True)]
    has_lines = len({*zip(ways, (row.axes.get(x) for row in rows), strict=True)}) > len({*ways})
    points = list[Spec]()
    for row, (name, place) in zip(rows, ways, strict=True):
        number, low, high = value(row) or 0.0, row.ci_low_s, row.ci_high_s
        if measure.unit == "share":
            low = high = None
        elif measure.unit != "s":  # the interval of a rate follows from that of its time
            low, high = (number * row.time / end if end else None for end in (high, low))
        of_bar = picture.name(row, sorted(differ, key=lambda axis: axis == x))
        point: Spec = {"y": number, "low": low, "high": high, "series": name, "dash": place}
        point |= {"x": float(row.axes[x])} if has_lines else {}
        point["name"] = ", ".join(filter(None, (of_bar, place))) or row.machine
        point["number"] = in_unit(number, measure.unit)
        case = picture.name(row, row.axes) or row.function
        point["text"] = "; ".join(filter(None, (case, point["number"], row.flags, row.run)))
        points.append(point | {name: getattr(row, name) for name in CLICKS})
    limit_of = _limits(rows, places, measure) if measure.unit == "GB/s" else {}
    if ideal_s and measure.unit == "GB/s" and rows[0].nbytes:
        limit_of["ideal"] = rows[0].nbytes / ideal_s / GB
    dashed = "; ".join(f"{what}, {in_unit(rate, 'GB/s')}" for what, rate in limit_of.items())
    rules = [{"limit": rate} for rate in limit_of.values()]
    alike = [axis for axis in rows[0].axes if axis not in differ]
    about = picture.name(rows[0], [axis for axis in alike if axis != "workload" or picture.also])
    look = _value_axis(points, rules, measure, is_log=has_lines and measure.unit != "share")
    if has_lines:
        layers = _lines(points, rules, x, look)
    else:
        layers = _bars(points, rules, look)
        height = charts.LANE_HEIGHT * len({point["name"] for point in points})
    crowded = dict.fromkeys(picture.name(r, ["num_ranks"]) for r in rows if r.is_oversubscribed)
    note = f"{', '.join(crowded)} oversubscribed" if crowded else ""
    says = "; ".join(filter(None, (about, dashed and f"dashed {dashed}", note)))
    return charts.sized(layers, height, description=says)


def _lines(points: list[Spec], rules: list[Spec], x: str, look: Spec) -> list[Spec]:
    """A line for each series, ticked at the numbers that there are; a dash for each place. A click
    on an entry of the legend shows it alone."""
    values = sorted({point["x"] for point in points})
    axis: Spec = {"values": values, "grid": False}
    is_us, labels = x.endswith("_us"), charts.BYTES if counts_bytes(x) else charts.PLAIN
    in_s = charts.SECONDS.replace("datum.value", "datum.value / 1e6")
    axis |= {"labelExpr": in_s if is_us else labels}
    axis |= {"labelOverlap": True, "labelFlush": False}
    is_log = values[0] > 0
    along: Spec = {"type": "log", "base": 2} if is_log else {"zero": False}
    along |= {"nice": False, "padding": 14}
    at: Any = {"x": field("x:Q", title=axis_name(x.removesuffix("_us")), axis=axis, scale=along)}
    y, low, limit = (field(f"{column}:Q", **look) for column in ("y", "low", "limit"))
    names, dashed = ([*dict.fromkeys(own[key] for own in points)] for key in ("series", "dash"))
    key, faint = charts.legend(names), {"condition": {"param": "shown", "value": 1}, "value": 0.1}
    hue: Any = {"color": field("series:N", scale=scale(names, PALETTE), legend=key)}
    hue |= {"opacity": faint} if key else {}
    shape = field("series:N", scale=scale(names, charts.SHAPES), legend=key)
    strokes = charts.legend(dashed, orient="bottom", symbolSize=400, symbolStrokeWidth=2)
    dash = field("dash:N", scale=scale(dashed, _DASHES), legend=strokes)
    line = layer(points, "line", {"strokeWidth": 2}, **at, y=y, **hue, strokeDash=dash)
    if key:
        alone = {"type": "point", "fields": ["series"]}
        line["params"] = [{"name": "shown", "select": alone, "bind": "legend"}]
    known = [point for point in points if point["low"] is not None]
    dot, tip = {"size": 60, "filled": True, "opacity": 1}, field("text:N", title="case")
    return [
        layer(rules, "rule", _LIMIT, y=limit),
        line,
        layer(known, "rule", WHISKER, **at, y=low, y2={"field": "high"}, **hue),
        layer(points, "point", dot, clicks=CLICKS, **at, y=y, **hue, shape=shape, tooltip=tip),
    ]


def _bars(points: list[Spec], rules: list[Spec], look: Spec) -> list[Spec]:
    """A lane for each, with its name and its number over it."""
    names = [*dict.fromkeys(point["name"] for point in points)]
    lane = field("name:N", sort=names, axis=None)
    x, low, limit = (field(f"{column}:Q", **look) for column in ("y", "low", "limit"))
    series = [*dict.fromkeys(point["series"] for point in points)]
    color = field("series:N", scale=scale(series, PALETTE), legend=None)
    bar, tip = {"height": 14, "yOffset": 6}, field("text:N", title="case")
    beside = [{**rule, "name": name} for rule in rules for name in names]
    beside_bar = {**_LIMIT, "yOffset": -4, "y2Offset": 16}  # not through the numbers
    known = [point for point in points if point["low"] is not None]
    whisker = WHISKER | {"color": GREY, "opacity": 1, "yOffset": 6, "y2Offset": 6}
    return [
        layer(points, "bar", bar, clicks=CLICKS, x=x, y=lane, color=color, tooltip=tip),
        layer(beside, "rule", beside_bar, x=limit, y=lane, y2={"field": "name"}),
        layer(known, "rule", whisker, x=low, x2={"field": "high"}, y=lane),
        *charts.lane_texts(points, lane),
    ]


def _value_axis(points: list[Spec], rules: list[Spec], measure: Measure, *, is_log: bool) -> Spec:
    """Over all numbers where it is logarithmic, else from zero to the largest, and a share has all
    of its range, so that nothing looks like something; what of an interval is beyond is cut."""
    of_limits = [rule["limit"] for rule in rules]
    numbers = [*(point["y"] for point in points), *of_limits]
    axis: Spec = {"labelExpr": _LABELS.get(measure.unit, charts.PLAIN), "tickCount": 4}
    if is_log:
        ends = (point[end] for point in points for end in ("y", "low", "high"))
        numbers = [*of_limits, *(number for number in ends if number and number > 0)]
        low, high = min(numbers), max(numbers)
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        steps = (1, 2, 5) if len(powers) < 4 else (1,)
        round_numbers = [step * 10.0**power for power in powers for step in steps]
        ticks = [number for number in round_numbers if low / 1.5 <= number <= high * 1.5]
        if len(ticks) > 1:  # one number alone lets nobody read the scale: then they are vega's
            axis = {"labelExpr": axis["labelExpr"], "values": ticks}
        span = [min(low, *ticks), max(high, *ticks)]
        up: Spec = {"type": "log", "domain": span, "nice": False, "padding": 8, "clamp": True}
    else:
        highs = (min(point["high"] or 0.0, 2 * max(numbers)) for point in points)
        end = max(1.0, *numbers) if measure.unit == "share" else 1.03 * max(*numbers, *highs)
        up = {"domain": [0, end], "nice": False}
    better = f" ({measure.better} is better)" if measure.better else ""
    title = f"{measure.title or measure.name}{', log' * is_log}{better}"
    return {"title": title, "axis": axis, "scale": up}


def _places(rows: Rows) -> list[str]:
    """The machine of each row, with its run if a machine has several; nothing if all are of one."""
    runs = {(row.machine, row.run_id) for row in rows}
    several = len(runs) > len({machine for machine, _ in runs})
    names = [f"{row.machine}, {row.run}" if several else row.machine for row in rows]
    return names if len(runs) > 1 else [""] * len(rows)


def _limits(rows: Rows, places: Sequence[str], measure: Measure) -> dict[str, float]:
    """What the links can carry: equal ones once, named by their places where they differ."""
    value = measure.of(rows)
    places_of: dict[tuple[str, float], list[str]] = {}
    for place in dict.fromkeys(places):
        there = [row for row, own in zip(rows, places, strict=True) if own == place]
        for own in limits(there, value):
            if own.label != "published" and own.value:
                label = f"{own.label}: {', '.join(own.notes)}"
                places_of.setdefault((label, own.value), []).append(place)
    return {
        ", ".join([label, *(own if len(places_of) > 1 else ())]): rate
        for (label, rate), own in places_of.items()
    }
