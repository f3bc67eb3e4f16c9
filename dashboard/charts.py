"""The pictures of runs and of comparisons. No streamlit."""

from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.units import format_change
from hostbench.report import charts as vega
from hostbench.report.blocks import Spec
from hostbench.report.charts import BLUE, GREY, ORANGE, PINK

MOST_DOTS, MOST_LANES = 1500, 24
KINDS = {
    "ok": (BLUE, "circle"),
    "scratch": (GREY, "circle"),
    "facts changed": (PINK, "diamond"),
    "failures": (ORANGE, "cross"),
}
"""Of a run: its colour and shape. The last that it is counts, and is drawn over the others."""
SHOWN = ("machine", "name", "ok", "failed", "skipped", "changed")
VERDICTS = {"failed": PINK, "slower": ORANGE, "faster": BLUE, "undecided": GREY, "same": GREY}


def dots(runs: pd.DataFrame) -> Spec:
    """Machines by days, a dot for each run (data.runs)."""
    known = runs[runs["started_at"].notna()].head(MOST_DOTS)
    is_kind = [known["failed"] > 0, known["changed"] != "", known["scratch"].notna()]
    kind = np.select(is_kind, ["failures", "facts changed", "scratch"], "ok")
    rows = known.assign(kind=kind, at=known["started_at"].map(pd.Timestamp.isoformat))
    rows = rows.sort_values("kind", key=lambda own: own.map([*KINDS].index), kind="stable")
    color, shape = (
        vega.field("kind:N", scale=vega.scale([*KINDS], values), legend=vega.legend([*KINDS]))
        for values in zip(*KINDS.values(), strict=True)
    )
    x = vega.field("at:T", title=None, axis=vega.TIME_AXIS, scale={"type": "utc", "padding": 12})
    y = vega.field("machine:N", title=None, axis={"labelLimit": 180, "ticks": False, "grid": True})
    look = {"filled": True, "size": 70, "opacity": 1}
    tip = [vega.field(f"{name}:N") for name in SHOWN]
    channels: Any = {"x": x, "y": y, "color": color, "shape": shape, "tooltip": tip}
    marks = vega.layer(rows, "point", look, clicks=("run_id", "machine"), **channels)
    return vega.sized([marks], 28 * known["machine"].nunique() + 10, len(rows))


def by_workload(rows: pd.DataFrame) -> Spec:
    """Of data.comparison: the median change of each workload's series that moved, else of all, the
    range of all of them, and how many of which verdict there are."""
    known = rows[rows["verdict"].isin(VERDICTS)]
    groups = known.groupby("workload", sort=False)
    moved = known["change"].where(known["verdict"].isin(("slower", "faster")))
    change, worst = groups["change"], groups["verdict"].first()
    middle = moved.groupby(known["workload"], sort=False).median().fillna(change.median())
    num = known.groupby(["workload", "verdict"], sort=False).size().reset_index(name="num")
    num["text"] = num["num"].astype(str) + " " + num["verdict"]
    texts = num.groupby("workload", sort=False)["text"].agg(", ".join)
    cells = {"verdict": worst, "change": middle, "low": change.min(), "high": change.max()}
    lanes = pd.DataFrame({**cells, "number": texts}).rename_axis("name").reset_index()
    return _forest(lanes.assign(id=lanes["name"]))


def by_series(rows: pd.DataFrame) -> Spec:
    """Of data.comparison: each series' change with its 99 % interval."""
    known = rows[rows["verdict"].isin(VERDICTS)]
    pairs = zip(known["change"], known["verdict"], strict=True)
    text = [own if pd.isna(effect) else f"{format_change(effect)} {own}" for effect, own in pairs]
    name = (known["series"] + ", " + known["machine"]).str.removesuffix(", ")
    return _forest(known.assign(name=name, number=text), "case")


def _forest(rows: pd.DataFrame, click: str = "id") -> Spec:
    """A lane for each row: its name and text, and below them its change with the interval; what is
    three times as slow or more is at the edge. A click has the row's `click`."""
    rows = rows.head(MOST_LANES)
    farthest = rows[["low", "change", "high"]].astype(float).abs().max().max()
    edge = min(max(0.05, farthest), 2.0)
    across = {"domain": [-min(edge, 1.0), edge], "nice": True, "clamp": True}
    ticks = {"orient": "top", "format": "+.0%", "tickCount": 6}
    x = vega.field("change:Q", title="change (right: slower)", scale=across, axis=ticks)
    y = vega.field("id:N", sort=[*rows["id"]], axis=None)
    hues = vega.scale([*VERDICTS], [*VERDICTS.values()])
    color = vega.field("verdict:N", scale=hues, legend=None)
    known = rows[rows["low"].notna()]
    look = {"size": 90, "filled": True, "opacity": 1, "yOffset": 4}
    line = {"strokeWidth": 3, "opacity": 0.5, "yOffset": 4, "y2Offset": 4}
    low, high = x | {"field": "low"}, {"field": "high"}
    tip = [vega.field("name:N"), vega.field("number:N", title="verdict")]
    over = {"x": {"value": 0}, "x2": {"value": "width"}, "y": y, "tooltip": tip}
    layers = [
        vega.layer([{"change": 0}], "rule", {"color": GREY, "strokeDash": [4, 3]}, x=x),
        vega.layer(known, "rule", line, x=low, x2=high, y=y, color=color),
        *vega.lane_texts(rows, y),
        vega.layer(rows, "point", look, x=x, y=y, color=color),
        vega.layer(rows, "rect", {"opacity": 0}, clicks=[click], **over),
    ]
    return vega.sized(layers, vega.LANE_HEIGHT * max(len(rows), 2))
