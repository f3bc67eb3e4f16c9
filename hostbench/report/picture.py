"""A picture of a family, over machines and runs: which rows it draws, and as what."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from hostbench import families
from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.families.question import (
    FigureUnit,
    Measure,
    Picture,
    Row,
    Rows,
    axis_name,
    in_unit,
    where,
)
from hostbench.report.kinds.base import limits, varying

_DECADE, _OCTAVES = 10, 4
"""Numbers of an axis y, of an axis x, that span more are drawn by powers."""


@dataclass(frozen=True, slots=True)
class Axis:
    """How one direction of a chart is read."""

    title: str
    unit: FigureUnit = ""
    is_log: bool = False
    better: Literal["lower", "higher", ""] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One mark. `x` is a number, or the name of a lane."""

    x: float | str
    y: float
    low: float | None
    high: float | None
    series: str
    dash: str
    """Where it was measured, in a chart over several machines or runs."""
    text: str
    """What a pointer on the mark says."""
    about: Mapping[str, str]
    """What a click on it tells."""


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn; hostbench.report.charts draws it."""

    mark: Literal["line", "bar"]
    x: Axis
    y: Axis
    points: tuple[Point, ...]
    limits: Mapping[str, float]
    """What it is -> GB/s."""


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


def picture_of(workload: str) -> Picture:
    """Of a workload that no picture is about, as of a project's own."""
    words = families.words(workload.partition(".")[0])
    return Picture(choice=workload, text=workload, workload=workload, words=words)


def shared(picture: Picture, rows: Rows) -> str:
    """`H2D 64MiB pinned`: the choices that all these rows share."""
    differ = {*varying(rows)} | ({"workload"} if not picture.also else set())
    return picture.name(rows[0], [axis for axis in rows[0].axes if axis not in differ])


def small(picture: Picture, rows: Rows) -> tuple[Chart | None, str]:
    """A picture of few lines, by its first measure, and what all of them share: of each axis with
    usual values the one that was measured at most sizes, but of schedules all. Rows have an axis
    `workload`."""
    rows = where(rows, workload=(picture.workload, *picture.also))
    x = next((axis for axis in picture.x if axis in varying(rows)), "")
    for axis, usual in picture.usual.items():
        sizes = {
            value: len({row.axes.get(x) for row in where(rows, **{axis: value})}) for value in usual
        }
        shown = usual if axis == "schedule" else (max(usual, key=sizes.__getitem__),)
        rows = where(rows, **{axis: shown}) if any(sizes.values()) else rows
    for measure in measures_of(picture, rows)[:1]:
        rows = drawn_rows(picture, rows, x, measure)
        return chart(picture, rows, x, measure), shared(picture, rows)
    return None, ""


# ---- as what ------------------------------------------------------------------------------------


def chart(picture: Picture, rows: Rows, x: str, measure: Measure) -> Chart:
    """Of `drawn_rows`, at least one: a mark for each, named by its choices; lines over `x`, or a
    lane each where there is none or no line has two points."""
    value, differ, places = measure.of(rows), varying(rows), _places(rows)
    axes = [axis for axis in differ if axis != x]
    names = [picture.name(row, axes) for row in rows]
    ways = [*zip(names, places, strict=True)]
    marks = {*zip(ways, [row.axes.get(x) for row in rows], strict=True)}
    has_lines, of_lane = len(marks) > len({*ways}), sorted(differ, key=lambda axis: axis == x)
    points = list[Point]()
    for row, place, name in zip(rows, places, names, strict=True):
        number, low, high = value(row) or 0.0, row.ci_low_s, row.ci_high_s
        if measure.unit == "share":
            low = high = None
        elif measure.unit != "s":  # the interval of a rate follows from that of its time
            low, high = (number * row.time / end if end else None for end in (high, low))
        lane = ", ".join(filter(None, (picture.name(row, of_lane), place))) or row.machine
        point = Point(
            x=float(row.axes[x]) if has_lines else lane,
            y=number,
            low=low,
            high=high,
            series=name,
            dash=place,
            text=_text(picture, row, in_unit(number, measure.unit)),
            about={"machine": row.machine, "run_id": row.run_id, "case": row.case},
        )
        points.append(point)
    is_log = has_lines or _span([point.y for point in points]) > _DECADE
    is_log = is_log and measure.unit != "share"
    y = Axis(measure.title or measure.name, measure.unit, is_log=is_log, better=measure.better)
    known = _limits(rows, places, measure) if measure.unit == "GB/s" else {}
    if not has_lines:
        return Chart("bar", Axis(""), y, tuple(points), known)
    is_log = _span([float(row.axes[x]) for row in rows]) > _OCTAVES
    along = Axis(axis_name(x), "bytes" if counts_bytes(x) else "", is_log=is_log)
    return Chart("line", along, y, tuple(points), known)


def _places(rows: Rows) -> list[str]:
    """The machine of each row, with its run if a machine has several; nothing if all are of one."""
    runs = {(row.machine, row.run_id) for row in rows}
    several = len(runs) > len({machine for machine, _ in runs})
    names = [f"{row.machine}, {row.run}" if several else row.machine for row in rows]
    return names if len(runs) > 1 else [""] * len(rows)


def _limits(rows: Rows, places: Sequence[str], measure: Measure) -> dict[str, float]:
    """What the links can carry: equal ones once, named by their places unless all share it."""
    value = measure.of(rows)
    places_of: dict[tuple[str, float], list[str]] = {}
    for place in dict.fromkeys(places):
        there = [row for row, own in zip(rows, places, strict=True) if own == place]
        if limit := limits(there, value)[0]:
            places_of.setdefault(limit, []).append(place)
    every = len({*places})
    return {
        ", ".join([label, *(own if len(own) < every else ())]): rate
        for (label, rate), own in places_of.items()
    }


def _text(picture: Picture, row: Row, number: str) -> str:
    """What a pointer says: the case, the number that is drawn and what it was made of."""
    is_rate = number.endswith("GB/s")  # which may count other bytes than the stored one
    rate = units.format_rate(row.gb_per_s) if row.gb_per_s and not is_rate else ""
    numbers = dict.fromkeys(filter(None, (number, units.format_seconds(row.time), rate)))
    case = picture.name(row, row.axes) or row.function
    return "; ".join(filter(None, (f"{case}: {', '.join(numbers)}", row.flags, row.run)))


def _span(numbers: Sequence[float]) -> float:
    """The largest over the smallest; 0 where one is not positive."""
    return max(numbers) / min(numbers) if min(numbers) > 0 else 0.0
