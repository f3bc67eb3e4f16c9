"""The questions of the project as curves: which rows, on which line, which number. No streamlit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import words

from hostbench import families
from hostbench.core.units import format_rate, format_seconds
from hostbench.families.collectives.operations import OPERATIONS
from hostbench.families.question import Picture
from hostbench.report.answer import Axis, Chart, Point, Rule
from hostbench.report.kinds.base import axis_of


class Unit(NamedTuple):
    """A number on the y axis, made of the rows of one question."""

    axis: Axis
    made: Callable[[pd.DataFrame], pd.Series]
    power: int = -1
    """Of the seconds that it goes with, so that their interval is its own."""


def _bus(rows: pd.DataFrame) -> pd.Series:
    """By the factor of each row's operation."""
    names = rows["operation"] if "operation" in rows else pd.Series("all_reduce", rows.index)
    ranks = rows["num_ranks"].astype(int)
    operations = (OPERATIONS.get(name, OPERATIONS["all_reduce"]) for name in names)
    factors = [own.factor(num) for own, num in zip(operations, ranks, strict=True)]
    return rows["gb_per_s"] * factors


def _efficiency(rows: pd.DataFrame) -> pd.Series:
    """Bus bandwidth beside that of the same sum over 2 ranks."""
    bus = _bus(rows)
    same = ["machine", "run_id", "workload", *(n for n in axes_of(rows) if n != "num_ranks")]
    of_two = bus.where(rows["num_ranks"] == "2")
    return bus / of_two.groupby([rows[name] for name in same], dropna=False).transform("max")


_RATE = Axis("GB/s", "GB/s", is_log=True, better="higher")
UNITS = {
    "GB/s": Unit(_RATE, lambda rows: rows["gb_per_s"]),
    "time": Unit(Axis("time", "s", is_log=True, better="lower"), lambda rows: rows["seconds"], 1),
    "bus GB/s": Unit(replace(_RATE, title="bus bandwidth in GB/s"), _bus),
    "efficiency": Unit(Axis("bus bandwidth / that of 2 ranks", "share"), _efficiency),
}
QUESTIONS = families.pictures()
CARDS = [name for name, picture in QUESTIONS.items() if picture.has_card]
"""The four questions of the first page."""
COLUMNS = (
    *("machine", "run_id", "run", "commit", "workload", "case", "seconds", "ci_low_s", "ci_high_s"),
    *("gb_per_s", "ceiling_gb_per_s", "num_samples"),
)
"""What a picture and its numbers need of the tidy frame: each one more is copied at each visit."""
_FAR = 10
"""Bars of numbers further apart could not be told from each other."""


def axes_of(rows: pd.DataFrame) -> list[str]:
    """The axes that the rows' cases have, without the device."""
    names = dict.fromkeys(name for case in rows["case"] for name in words.axes(case))
    return [name for name in names if name != "device"]


def prepared(rows: pd.DataFrame, workloads: Sequence[str]) -> pd.DataFrame:
    """Rows of these workloads with a number; each axis of their cases as text in a column."""
    good = rows[(rows["status"] == "ok") & (rows["seconds"] > 0) & rows["workload"].isin(workloads)]
    good = good[list(COLUMNS)].reset_index(drop=True)
    columns = pd.DataFrame([words.axes(case) for case in good["case"]], index=good.index)
    return good.drop(columns=[name for name in columns if name in good]).join(columns)


def units_of(rows: pd.DataFrame, picture: Picture) -> list[str]:
    """Those of the picture that these `prepared` rows have a number in."""
    return [unit for unit in picture.units if UNITS[unit].made(rows).notna().any()]


def lines(rows: pd.DataFrame, x: str, unit: str) -> pd.DataFrame:
    """`prepared` rows, which have the name of their `run`, as points: `x`, `y`, `low` and `high`,
    the `way` whose line it is on, and `where`: the machine, and the run where it has several; empty
    where all are of one."""
    number = UNITS[unit]
    y, ends = number.made(rows), ("ci_low_s", "ci_high_s")
    low, high = (y * (rows[end] / rows["seconds"]) ** number.power for end in ends)
    names = [name for name in ("workload", *axes_of(rows)) if name != x]
    varying = [name for name in names if rows[name].nunique() > 1]
    several = rows.groupby("machine")["run_id"].nunique().max() > 1
    where = rows["machine"] + (", " + rows["run"] if several else "")
    values = [*rows[varying].fillna("").astype(str).itertuples(index=False, name=None)]
    ways = [" ".join(map(words.value, varying, cells)) for cells in values]
    orders = {way: [*map(words.order, varying, own)] for way, own in zip(ways, values, strict=True)}
    ranks = {way: rank for rank, way in enumerate(sorted(orders, key=orders.__getitem__))}
    points = rows.assign(
        x=pd.to_numeric(rows[x], errors="coerce"),
        y=y,
        low=np.fmin(low, high),
        high=np.fmax(low, high),
        way=ways,
        where=where if where.nunique() > 1 else "",
    )
    is_drawn = points["y"].gt(0) if number.axis.is_log else points["y"].notna()
    points = points[is_drawn & points["x"].notna()]
    return points.assign(rank=points["way"].map(ranks)).sort_values(["rank", "where", "x"])


def chart(points: pd.DataFrame, x: str, unit: str) -> Chart:
    """Lines over `x`, or bars where no line has two points: dots where they span powers of ten."""
    y, along = UNITS[unit].axis, axis_of(x)
    smallest, largest = points["x"].min(), points["x"].max()
    is_wide = bool(smallest > 0 and largest / smallest > 4)
    along = replace(along, title=words.axis_name(x), is_log=is_wide)
    is_bar = points.groupby(["way", "where"])["x"].nunique().max() == 1
    is_near = points["y"].max() < _FAR * points["y"].min()
    return Chart(
        mark="bar" if is_bar else "line",
        x=along,
        y=replace(y, is_log=y.is_log and not (is_bar and is_near)),
        points=tuple(
            Point(
                x=_lane(row, x if largest > smallest else "") if is_bar else row["x"],
                y=row["y"],
                series=row["way"],
                low=row["low"] if np.isfinite(row["low"]) else None,
                high=row["high"] if np.isfinite(row["high"]) else None,
                text=_text(row),
                dash=row["where"],
                about={name: row[name] for name in ("machine", "run_id", "case")},
            )
            for row in points.to_dict("records")
        ),
        rules=tuple(_limits(points)) if y.unit == "GB/s" else (),
    )


def _lane(row: Mapping[Any, Any], x: str) -> str:
    """The name of a bar: what tells it from the others."""
    size = words.value(x, row[x]) if x else ""
    return ", ".join(filter(None, (row["way"], row["where"], size))) or row["machine"]


def _text(row: Mapping[Any, Any]) -> str:
    rate = f", {format_rate(row['gb_per_s'])}" if row["gb_per_s"] > 0 else ""
    return f"{words.case(row['case'])}: {format_seconds(row['seconds'])}{rate}; {row['run']}"


def _limits(points: pd.DataFrame) -> Iterator[Rule]:
    """What the link of each place can carry. One that is exceeded is no limit, and not drawn."""
    best = points.groupby("where")[["ceiling_gb_per_s", "y"]].max()
    known = best["ceiling_gb_per_s"][best["ceiling_gb_per_s"] >= best["y"]]
    for top in sorted({*known}):
        of = [where for where in known.index[known == top] if where]
        yield Rule(", ".join(["limit of the link", *of]), top)
