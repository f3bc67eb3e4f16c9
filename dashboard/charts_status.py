"""The heatmap of the page Status. No streamlit."""

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pandas as pd

from hostbench.report.causes import in_words
from hostbench.report.charts import GREY, MANY, Spec, field, layer, on_canvas, titled

CELL = "cell"
"""Name of the selection: the cell that was clicked."""
NAMED = 100
"""Workloads, at most, whose names can be read below their columns."""
_STRONG = 0.2
"""A change from which on the colour is the strongest."""
_ROOM, _BESIDE = 14, 300
"""Pixels that a slanted name needs, and what is beside the columns: with less they are vertical."""
_LEGEND = {
    "title": "change in 20 runs, orange: slower",
    "titleLimit": 300,
    "orient": "top",
    "format": "+.0%",
    "gradientLength": 180,
    "gradientThickness": 8,
}
_COLORS = ["#158F6B", "#A8D5C6", "#C3CCD5", "#F2C39B", "#D1661C"]
"""Faster, the same, slower: green to orange, which the colour-blind tell apart."""

_HATCH: Spec = {
    "text": {"expr": "pad('', floor(datum.cells * bandwidth('x') / 6), '/')"},
    "font": "monospace",
    "fontSize": 10,
    "align": "left",
    "color": GREY,
    "tooltip": None,
}
"""Over as many cells beside each other, 6 pixels a sign."""


def cells(series: pd.DataFrame) -> pd.DataFrame:
    """A row for each machine and workload: the largest `change` of its series against 20 runs ago
    (NaN where none is judged), how many `series`, and `said`."""
    names = ["machine", "workload"]
    size = series["change"].abs()
    worst = series.assign(size=size).sort_values("size", ascending=False, kind="stable")
    worst = worst.drop_duplicates(names).set_index(names)[["change", "case"]]
    found = series.groupby(names, sort=False).size().rename("series").to_frame().join(worst)
    told = zip(found["change"], found["case"], strict=True)
    found = found.assign(
        shade=found["change"].clip(-_STRONG, _STRONG), said=[_said(*one) for one in told]
    )
    return found.reset_index()[[*names, "change", "shade", "series", "said"]]


def _said(change: float, case: str) -> str:
    if math.isnan(change):
        return "not judged"
    return f"{in_words(change)} of {case}" if change else "no change"


def arranged(found: pd.DataFrame, machines: Sequence[str], stale: set[str]) -> pd.DataFrame:
    """Cells in the order of `machines` and of the workloads' names, with whether the machine is
    `stale`."""
    rank = {name: place for place, name in enumerate(machines)}
    told = found.assign(rank=found["machine"].map(rank), stale=found["machine"].isin(stale))
    return told.sort_values(["rank", "workload"], ignore_index=True).drop(columns="rank")


def heatmap(found: pd.DataFrame) -> Spec:
    """Machines by workloads; hollow where nothing is judged, struck through where the machine has
    been silent for long. A click selects a cell."""
    machines = list(dict.fromkeys(found["machine"]))
    axis = {"ticks": False, "domain": False}
    tight = f"windowSize()[0] < {_ROOM * found['workload'].nunique() + _BESIDE}"
    names = {
        "labels": found["workload"].nunique() <= NAMED,
        "labelAngle": {"expr": f"{tight} ? -90 : -50"},
        "labelFontSize": {"expr": f"{tight} ? 8 : 9"},
        "labelAlign": "right",
        "labelBaseline": "middle",
        "labelLimit": 150,
        "labelOverlap": False,
    }
    x = field("workload:N", sort="ascending", title=None, axis={**axis, **names})
    left = {"labelLimit": {"expr": f"{tight} ? 90 : 180"}}
    y = field("machine:N", sort=machines, title=None, axis={**axis, **left})
    called = {"said": "change"}
    shown = ("machine", "workload", "said", "series")
    tip = [field(f"{name}:N", title=called.get(name, name)) for name in shown]
    shade = {"domain": [-_STRONG, _STRONG], "range": _COLORS, "interpolate": "rgb"}
    channels = {
        "color": {**field("shade:Q", scale=shade, legend=_LEGEND), **_unless_judged(GREY)},
        "fillOpacity": {**_unless_judged(0.12), "value": 1.0},
    }
    named = found[["machine", "workload", "shade", "said", "series"]].to_dict("records")
    look: Spec = {"cornerRadius": 2, "stroke": "#7A828C", "strokeWidth": 0.5, "invalid": None}
    cells = layer(named, "rect", look, x=x, y=y, tooltip=tip, **channels)
    cells["params"] = [
        {"name": CELL, "select": {"type": "point", "fields": ["machine", "workload"]}}
    ]
    layers = [cells]
    stale = list(_stretches(found))
    if stale:
        layers.append(layer(stale, "text", _HATCH, x={**x, "bandPosition": 0}, y=y))
    spec = titled(layers, "", [], 24 * max(len(machines), 1))
    return on_canvas(spec) if len(found) > MANY else spec


def _stretches(found: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Of the machines that are stale: the first `workload` of each stretch of `cells` beside each
    other."""
    place = {name: number for number, name in enumerate(sorted(set(found["workload"])))}
    for machine, own in found[found["stale"]].groupby("machine", sort=False):
        names = sorted(own["workload"], key=place.__getitem__)
        for _, some in groupby(enumerate(names), key=lambda one: place[one[1]] - one[0]):
            stretch = [name for _, name in some]
            yield {"machine": machine, "workload": stretch[0], "cells": len(stretch)}


def _unless_judged(value: Any) -> Spec:
    """A channel's value where a cell has no change to show."""
    return {"condition": {"test": "!isValid(datum.shade)", "value": value}}
