"""The heatmap of the page Status. No streamlit."""

from collections.abc import Sequence

import pandas as pd
from derive_causes import in_words

from hostbench.report.charts import GREY, Spec, field, layer, titled

CELL = "cell"
"""Name of the selection: the cell that was clicked."""
_STRONG = 0.2
"""A change from which on the colour is the strongest."""
_HOLLOW = {"color": GREY, "fillOpacity": 0.12, "stroke": GREY, "strokeDash": [2, 2]}
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
                "shade": max(-_STRONG, min(_STRONG, change)),
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
    names = sorted(set(found["workload"]))
    machines = list(dict.fromkeys(found["machine"]))
    x = field(
        "workload:N",
        sort=names,
        title=None,
        axis={
            "labelAngle": -50,
            "labelLimit": 150,
            "labelFontSize": 9,
            "labelOverlap": False,
            "ticks": False,
            "domain": False,
        },
    )
    y = field(
        "machine:N",
        sort=machines,
        title=None,
        axis={"labelLimit": 180, "ticks": False, "domain": False},
    )
    scale = {"domain": [-_STRONG, _STRONG], "range": _COLORS, "interpolate": "rgb"}
    legend = {
        "title": "change in 20 runs",
        "orient": "top",
        "format": "+.0%",
        "gradientLength": 140,
        "gradientThickness": 8,
    }
    color = field("shade:Q", scale=scale, legend=legend)
    tip = [field(f"{name}:N", title=name) for name in ("machine", "workload", "said", "series")]
    known = found[found["change"].notna()].to_dict("records")
    unknown = found[found["change"].isna()].to_dict("records")
    stale = found[found["stale"]].to_dict("records")
    look = {"cornerRadius": 2, "stroke": "#8888", "strokeWidth": 0.5}
    layers = [
        layer(unknown, "rect", {**look, **_HOLLOW}, x=x, y=y, tooltip=tip),
        {
            **layer(known, "rect", look, x=x, y=y, color=color, tooltip=tip),
        },
    ]
    if stale:
        text = {"text": "///", "fontSize": 10, "color": "#555C64", "tooltip": None}
        layers.append(layer(stale, "text", text, x=x, y=y))
    select = {"type": "point", "fields": ["machine", "workload"]}
    layers[1 if known else 0]["params"] = [{"name": CELL, "select": select}]
    height = 24 * max(len(machines), 1)
    return titled(layers, "", [], height)
