"""A picture of a family, drawn over machines and runs."""

import math
from contextlib import suppress
from typing import Any

from hostbench.families.question import Measure, Picture, Row, Rows
from hostbench.report.answer import Axis, Chart, Rule
from hostbench.report.kinds import base


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
    axes = [axis for axis in base.varying(known) if axis != x]

    def key(row: Row) -> tuple[object, ...]:
        ways = [picture.order(axis, row.axes.get(axis, "")) for axis in axes]
        return ways, row.machine, row.run, float(row.axes[x] if x else 0)

    return sorted(known, key=key)


def chart(picture: Picture, rows: Rows, x: str, measure: Measure) -> Chart | None:
    """Of `drawn_rows`: lines over `x`, or bars where there is none or no line has two points."""
    if not rows:
        return None
    value, is_log = measure.of(rows), measure.unit != "share"
    title = measure.title or measure.name
    y = Axis(title, measure.unit, is_log=is_log, better=measure.better)
    differ, places = base.varying(rows), base.places(rows)
    places_of: dict[Rule, list[str]] = {}  # what the link of each can carry, equal ones once
    for place in dict.fromkeys(places) if measure.unit == "GB/s" else ():
        there = [row for row, own in zip(rows, places, strict=True) if own == place]
        for rule in base.limits(there, value)[0]:
            if rule.high is None:
                places_of.setdefault(rule, []).append(place)
    every = len({*places})  # a limit of all of them names none
    rules = [
        Rule(", ".join([rule.label, *(own if len(own) < every else ())]), rule.low)
        for rule, own in places_of.items()
    ]
    axes = [axis for axis in differ if axis != x]
    ways = [*zip([picture.name(row, axes) for row in rows], places, strict=True)]
    if x and len({(*way, row.axes[x]) for way, row in zip(ways, rows, strict=True)}) > len({*ways}):
        return base.chart(picture, rows, y, value, axes=axes, x=x, rules=rules)
    lane, unnamed = sorted(differ, key=lambda axis: axis == x), rows[0].machine
    more: dict[str, Any] = {"axes": lane, "hues": axes, "unnamed": unnamed}
    return base.chart(picture, rows, y, value, rules=rules, **more)
