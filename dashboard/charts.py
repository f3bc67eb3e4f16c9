"""The pictures of runs and of comparisons. No streamlit."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hostbench.core.units import format_change
from hostbench.report import charts as vega
from hostbench.report.charts import BLUE, GREY, ORANGE, PINK, Spec

MOST_DOTS, MOST_LANES = 1500, 24
_ABOUT = "machine run_id name changed started_at scratch ok failed skipped".split()
_KINDS = ("ok", "scratch (quick, dirty)", "facts changed", "with failures")
_DOTS, _SHAPES = (BLUE, GREY, PINK, ORANGE), ("circle", "circle", "diamond", "cross")
VERDICTS = ("failed", "slower", "faster", "undecided", "same")
_COLORS = (PINK, ORANGE, BLUE, GREY, GREY)


def dots(runs: pd.DataFrame) -> Spec:
    """Machines by days, a dot for each run (data.runs), a diamond where facts changed."""
    known = runs[runs["started_at"].notna()].head(MOST_DOTS)
    rows = []
    for run in known[_ABOUT].to_dict("records"):
        is_scratch, has_changed = isinstance(run["scratch"], str), run["changed"] != ""
        is_kind = (True, is_scratch, has_changed, run["failed"] > 0)
        rank = max(index for index, is_it in enumerate(is_kind) if is_it)
        row = {name: run[name] for name in ("machine", "run_id", "name", "changed")}
        row |= {"rank": rank, "kind": _KINDS[rank], "at": run["started_at"].isoformat()}
        row["cases"] = f"{run['ok']} ok, {run['failed']} failed, {run['skipped']} skipped"
        rows.append(row)
    rows.sort(key=lambda row: row["rank"])  # what is rare is drawn last, over the others
    used = sorted({row["rank"] for row in rows})
    kinds, colors, shapes = ([of[rank] for rank in used] for of in (_KINDS, _DOTS, _SHAPES))
    span = (known["started_at"].max() - known["started_at"].min()).total_seconds()
    x = vega.field("at:T", title=None, axis=vega.time_axis(1e3 * span))
    x["scale"] = {"type": "utc", "padding": 12}
    y = vega.field("machine:N", title=None, axis={"labelLimit": 180, "ticks": False, "grid": True})
    legend = vega.legend(kinds)
    color = vega.field("kind:N", scale=vega.scale(kinds, colors), legend=legend)
    shape = vega.field("kind:N", scale=vega.scale(kinds, shapes), legend=legend)
    tip = [vega.field(f"{name}:N") for name in ("machine", "name", "cases", "changed")]
    look = {"filled": True, "size": 70, "opacity": 1}
    marks = vega.layer(rows, "point", look, x=x, y=y, color=color, shape=shape, tooltip=tip)
    vega.clickable(marks, "run_id", "machine")
    spec = vega.sized([marks], 28 * known["machine"].nunique() + 10)
    return vega.on_canvas(spec) if len(rows) > vega.MANY else spec


def by_workload(rows: pd.DataFrame) -> Spec:
    """Of data.comparison: the median change of each workload's series that moved, else of all, the
    range of all of them, and how many of which verdict there are."""
    cells = []
    for name, own in rows[rows["verdict"].isin(VERDICTS)].groupby("workload", sort=False):
        num = own["verdict"].value_counts(sort=False)  # the worst first, as in all of the rows
        moved = own["change"][own["verdict"].isin(("slower", "faster"))].dropna()
        cells.append(
            {
                "name": name,
                "id": name,
                "verdict": num.index[0],
                "change": (moved if len(moved) else own["change"]).median(),
                "low": own["change"].min(),
                "high": own["change"].max(),
                "text": ", ".join(f"{num[verdict]} {verdict}" for verdict in num.index),
            }
        )
    return _forest(pd.DataFrame(cells[:MOST_LANES]))


def by_series(rows: pd.DataFrame) -> Spec:
    """Of data.comparison: each series' change with its 99 % interval."""
    known = rows[rows["verdict"].isin(VERDICTS)].head(MOST_LANES)
    pairs = zip(known["change"], known["verdict"], strict=True)
    text = [own if pd.isna(effect) else f"{format_change(effect)} {own}" for effect, own in pairs]
    name = (known["series"] + ", " + known["machine"]).str.removesuffix(", ")
    return _forest(known.assign(name=name, text=text))


def _forest(rows: pd.DataFrame) -> Spec:
    """A lane for each row: its name and text, and below them its change with the interval."""
    ends = rows[["change", "low", "high"]].to_numpy(float)
    edge = float(np.nanmax([0.05, *np.abs(ends).clip(max=2.0).ravel()]))
    across = {"domain": [-min(edge, 1.0), edge], "nice": True, "clamp": True}
    ticks = {"orient": "top", "format": "+.0%", "tickCount": 6}
    x = vega.field("change:Q", title="change (right: slower)", scale=across, axis=ticks)
    y = vega.field("id:N", sort=list(rows["id"]), axis=None)
    color = vega.field("verdict:N", scale=vega.scale(VERDICTS, _COLORS), legend=None)
    cells = rows[["name", "id", "verdict", "change", "low", "high", "text"]].to_dict("records")
    known = [cell for cell in cells if pd.notna(cell["low"])]
    cut = [cell for cell, far in zip(cells, ends > edge, strict=True) if far.any()]
    dots = [cell for cell in cells if not cell["change"] > edge]  # what is beyond is an arrow alone
    interval = {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": color}
    name = {"align": "left", "dy": -12, "limit": {"expr": "0.6 * width"}}
    text = {"align": "right", "dy": -12, "limit": {"expr": "0.38 * width"}}
    tip: Sequence[Spec] = [vega.field("name:N"), vega.field("text:N", title="verdict")]
    look = {"size": 90, "filled": True, "opacity": 1, "yOffset": 4}
    line = {"strokeWidth": 3, "opacity": 0.5, "yOffset": 4, "y2Offset": 4}
    arrow = vega.GOES_ON | {"shape": "triangle-right", "size": 110, "yOffset": 4}
    left, right = {"x": {"value": 0}}, {"x": {"value": {"expr": "width"}}}
    layers = [
        vega.layer([{"change": 0}], "rule", {"color": GREY, "strokeDash": [4, 3]}, x=x),
        vega.layer(known, "rule", line, **interval),
        vega.layer(cells, "text", name, **left, y=y, text=vega.field("name:N")),
        vega.layer(cells, "text", text, **right, y=y, text=vega.field("text:N")),
        vega.layer(dots, "point", look, x=x, y=y, color=color),
        vega.layer(cut, "point", arrow, **right, y=y, color=color),
        vega.layer(cells, "rect", {"opacity": 0}, **left, x2={"value": "width"}, y=y, tooltip=tip),
    ]
    vega.clickable(layers[-1], "id")
    return vega.sized(layers, 40 * max(len(cells), 2))
