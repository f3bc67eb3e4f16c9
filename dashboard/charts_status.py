"""The heatmap of the page Status. No streamlit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from derive_causes import in_words

from hostbench.report.charts import GREY, Spec, field, layer, titled

CELL = "cell"
"""Name of the selection: the cell that was clicked."""
_STRONG = 0.2
"""A change from which on the colour is the strongest."""
_LEGEND = {
    "title": "change in 20 runs",
    "orient": "top",
    "format": "+.0%",
    "gradientLength": 140,
    "gradientThickness": 8,
}
_COLORS = ["#158F6B", "#A8D5C6", "#C3CCD5", "#F2C39B", "#D1661C"]
"""Faster, the same, slower: green to orange, which the colour-blind tell apart."""


def cells(series: pd.DataFrame) -> pd.DataFrame:
    """A row for each machine and workload: the largest `change` of its series against 20 runs ago
    (NaN where none is judged), how many `series`, and `said`."""
    rows = []
    for names, own in series.groupby(["machine", "workload"], sort=False):
        machine, workload = map(str, names if isinstance(names, tuple) else (names, ""))
        known = own[own["change"].notna()]
        change, said = float("nan"), "not judged"
        if len(known):
            worst = known.iloc[int(known["change"].abs().argmax())]
            change = float(worst["change"])
            said = f"{in_words(change)} of {worst['case']}" if change else "no change"
        rows.append(
            {
                "machine": machine,
                "workload": workload,
                "change": change,
                "shade": float(np.clip(change, -_STRONG, _STRONG)),
                "series": len(own),
                "said": said,
            }
        )
    columns = ["machine", "workload", "change", "shade", "series", "said"]
    return pd.DataFrame(rows, columns=columns)


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
    names = {"labelAngle": -50, "labelLimit": 150, "labelFontSize": 9, "labelOverlap": False}
    x = field("workload:N", sort="ascending", title=None, axis={**axis, **names})
    y = field("machine:N", sort=machines, title=None, axis={**axis, "labelLimit": 180})
    tip = [field(f"{name}:N", title=name) for name in ("machine", "workload", "said", "series")]
    shade = {"domain": [-_STRONG, _STRONG], "range": _COLORS, "interpolate": "rgb"}
    channels = {
        "color": {**field("shade:Q", scale=shade, legend=_LEGEND), **_unless_judged(GREY)},
        "fillOpacity": {**_unless_judged(0.12), "value": 1.0},
    }
    look: Spec = {"cornerRadius": 2, "stroke": "#7A828C", "strokeWidth": 0.5, "invalid": None}
    cells = layer(found.to_dict("records"), "rect", look, x=x, y=y, tooltip=tip, **channels)
    cells["params"] = [
        {"name": CELL, "select": {"type": "point", "fields": ["machine", "workload"]}}
    ]
    layers = [cells]
    stale = found[found["stale"]].to_dict("records")
    if stale:
        text = {"text": "///", "fontSize": 10, "color": "#555C64", "tooltip": None}
        layers.append(layer(stale, "text", text, x=x, y=y))
    return titled(layers, "", [], 24 * max(len(machines), 1))


def _unless_judged(value: Any) -> Spec:
    """A channel's value where a cell has no change to show."""
    return {"condition": {"test": "!isValid(datum.shade)", "value": value}}
