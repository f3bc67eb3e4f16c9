"""The questions of the project as curves: which rows, on which line, which number. No streamlit."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import words

from hostbench.core.units import format_rate, format_seconds
from hostbench.families.collectives.operations import OPERATIONS
from hostbench.report import charts as vega
from hostbench.report.charts import Spec

POINT = "point"
"""Name of the selection: the point that was clicked."""
SMALL = 200
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [3, 6], [1, 3], [10, 2, 2, 2])
_SHARE = "format(datum.value, '.0%')"
_SHOWN = ["x", "y", "low", "high", "way", "where", "lane", "told", "machine", "run_id", "case"]


class Unit(NamedTuple):
    """A number on the y axis, made of the rows of one question."""

    title: str
    made: Callable[[pd.DataFrame], pd.Series]
    power: int = -1
    """Of the seconds that it goes with, so that their interval is its own."""
    is_log: bool = True
    label: str = "format(datum.value, '.4~g')"


class Picture(NamedTuple):
    title: str
    workloads: tuple[str, ...]
    x: tuple[str, ...]
    units: tuple[str, ...]
    usual: Mapping[str, tuple[str, ...]] = {}
    """Axis -> the values that are drawn unless others are chosen, those first that a small picture
    shows alone; but of schedules it shows all."""


def _beside(rows: pd.DataFrame, axis: str, value: str) -> pd.Series:
    """The seconds of the row that differs from each in this axis alone, where it is `value`."""
    keys = ["machine", "run_id", "workload", *(name for name in axes_of(rows) if name != axis)]
    base = rows[rows[axis] == value].drop_duplicates(keys).set_index(keys)["seconds"]
    at = pd.MultiIndex.from_frame(rows[keys])
    return pd.Series(base.reindex(at).to_numpy(), index=rows.index)


def _bus(rows: pd.DataFrame) -> pd.Series:
    """By the factor of each row's operation."""
    names = rows["operation"] if "operation" in rows else pd.Series("all_reduce", rows.index)
    known = [OPERATIONS.get(name, OPERATIONS["all_reduce"]) for name in names]
    ranks = rows["num_ranks"].astype(int)
    factors = [one.factor(num) for one, num in zip(known, ranks, strict=True)]
    return rows["gb_per_s"] * factors


def _efficiency(rows: pd.DataFrame) -> pd.Series:
    bus = _bus(rows)
    return bus / _beside(rows.assign(seconds=bus), "num_ranks", "2")


UNITS = {
    "GB/s": Unit("GB/s, higher is better", lambda rows: rows["gb_per_s"]),
    "time": Unit("time, lower is better", lambda rows: rows["seconds"], 1, label=vega.SECONDS),
    "bus GB/s": Unit("bus bandwidth in GB/s, higher is better", _bus),
    "efficiency": Unit("bus bandwidth / that of 2 ranks", _efficiency, -1, False, _SHARE),
}
MEMORY = ("pinned", "pageable")
LOOPS = ("serial", "default_stream", "copy_stream", "streams_2", "streams_4")
QUESTIONS = {
    "Copy": Picture(
        "Copy: sync or async",
        ("transfer.host_to_device", "transfer.device_to_host"),
        ("nbytes",),
        ("GB/s", "time"),
        {"workload": ("transfer.host_to_device",), "memory": MEMORY},
    ),
    "Streams": Picture(
        "One stream or several",
        ("overlap.pipeline",),
        ("batch_bytes",),
        ("GB/s", "time"),
        {"memory": MEMORY, "schedule": LOOPS},
    ),
    "Create": Picture(
        "CPU then move, or direct",
        ("allocation.create",),
        ("nbytes",),
        ("time",),
        {"fill": ("zeros", "randn")},
    ),
    "All-reduce": Picture(
        "All-reduce",
        ("collectives.all_reduce",),
        ("nbytes", "num_ranks"),
        ("bus GB/s", "GB/s", "time", "efficiency"),
    ),
    "Collectives": Picture(
        "Collectives beside each other",
        ("collectives.operation",),
        ("nbytes", "num_ranks"),
        ("bus GB/s", "GB/s", "time", "efficiency"),
        {
            "num_ranks": ("2",),
            "dtype": ("float32",),
            "operation": tuple(name for name, one in OPERATIONS.items() if one.factor(2)),
        },
    ),
    "Beside compute": Picture(
        "Compute beside an all-reduce", ("collectives.with_compute",), ("nbytes",), ("time",)
    ),
    "Messages": Picture(
        "Messages between two ranks",
        ("point_to_point.pair",),
        ("nbytes", "num_ranks"),
        ("GB/s", "time"),
        {"num_ranks": ("2",), "direction": ("one_way",)},
    ),
    "Training": Picture(
        "A step of training over ranks",
        ("training.step",),
        ("num_ranks",),
        ("time",),
        {"batch": ("per_rank",), "dtype": ("float32",)},
    ),
    "Step": Picture("Parts of a training step", ("training.exposed",), ("num_ranks",), ("time",)),
    "Sync": Picture(
        "Reads that wait for the device", ("synchronization.loop",), ("step_us",), ("time",)
    ),
    "Loader": Picture("Data loader", ("loading.loop",), ("num_workers", "batch_size"), ("time",)),
}
CARDS = ("Copy", "Streams", "Create", "All-reduce")
"""The four questions of the first page."""


def axes_of(rows: pd.DataFrame) -> list[str]:
    """The axes that the rows' cases have, without the device."""
    names = dict.fromkeys(name for case in rows["case"] for name in words.axes(case))
    return [name for name in names if name != "device"]


def prepared(rows: pd.DataFrame, workloads: Sequence[str]) -> pd.DataFrame:
    """Rows of these workloads with a number; each axis of their cases as text in a column."""
    good = rows[(rows["status"] == "ok") & (rows["seconds"] > 0) & rows["workload"].isin(workloads)]
    good = good.reset_index(drop=True)
    columns = pd.DataFrame([words.axes(case) for case in good["case"]], index=good.index)
    return good.drop(columns=[name for name in columns if name in good]).join(columns)


def lines(rows: pd.DataFrame, x: str, unit: str) -> pd.DataFrame:
    """`prepared` rows, which have the name of their `run`, as points: `x`, `y`, `low` and `high`,
    the `way` whose line it is on, and `where`: the machine, and the run where it has several."""
    number = UNITS[unit]
    y, ends = number.made(rows), ("ci_low_s", "ci_high_s")
    low, high = (y * (rows[end] / rows["seconds"]) ** number.power for end in ends)
    names = [name for name in ("workload", *axes_of(rows)) if name != x]
    several = rows.groupby("machine")["run_id"].nunique().max() > 1
    where = rows["machine"] + (", " + rows["run"] if several else "")
    points = rows.assign(
        x=pd.to_numeric(rows[x], errors="coerce"),
        y=y,
        low=np.fmin(low, high),
        high=np.fmax(low, high),
        way=_joined(rows, [name for name in names if rows[name].nunique() > 1]),
        where=where,
        lane=where if where.nunique() > 1 else "",
        told=[
            f"{words.case(row['case'])}: {format_seconds(row['seconds'])}"
            f"{f', {format_rate(rate)}' if (rate := row['gb_per_s']) > 0 else ''}; {row['run']}"
            for row in rows.to_dict("records")
        ],
    )
    is_drawn = points["y"].gt(0) if number.is_log else points["y"].notna()
    points = points[is_drawn & points["x"].notna()].sort_values("x", kind="stable")
    return points.assign(lane=(points["way"] + " " + points["lane"]).str.strip())


def _joined(rows: pd.DataFrame, names: Sequence[str]) -> list[str]:
    if not names:
        return [""] * len(rows)
    columns = ([words.value(name, cell) for cell in rows[name].fillna("")] for name in names)
    return [" ".join(cells) for cells in zip(*columns, strict=True)]


def drawn(points: pd.DataFrame, x: str, unit: str, height: int) -> Spec:
    """Lines over `x`, a colour and a shape for each way, a dash for each machine or run; bars where
    no line has two points."""
    number, columns = UNITS[unit], 2 if height < SMALL else 4
    ways, wheres = (sorted(points[name].unique(), key=words.order) for name in ("way", "where"))
    look = vega.legend(ways, columns=columns) if len(ways) > 1 else None
    color = vega.field("way:N", scale=vega.scale(ways, vega.PALETTE), legend=look)
    told = vega.field("told:N", title="case")
    axis = {"labelExpr": number.label, "tickCount": 5}
    if points.groupby("lane")["x"].nunique().max() == 1:
        if points["x"].nunique() > 1:
            at = [words.value(x, f"{number:g}") for number in points["x"]]
            points = points.assign(lane=points["lane"] + ", " + at)
        lanes = sorted(points["lane"].unique(), key=words.order)
        across = vega.field("y:Q", title=number.title, axis=axis, scale={"zero": True})
        names = {"labelLimit": 200, "ticks": False}
        down = vega.field("lane:N", title=None, sort=lanes, axis=names)
        channels = {"x": across, "y": down, "color": color | {"legend": None}, "tooltip": told}
        bars = _marks(points, "bar", {"height": {"band": 0.6}}, channels, "x")
        return vega.sized(bars, 34 * len(lanes) + 6)
    sizes = sorted(map(float, points["x"].unique()))
    label = vega.BYTES if x.endswith("bytes") else "format(datum.value, '~g')"
    ticks = {"values": sizes, "labelExpr": label, "labelOverlap": True, "grid": False}
    is_wide = sizes[0] > 0 and sizes[-1] / sizes[0] > 4
    along: Spec = {"type": "log", "base": 2} if is_wide else {"zero": False}
    along |= {"nice": False, "padding": 14}
    across = vega.field("x:Q", title=words.axis_name(x), axis=ticks, scale=along)
    up: Spec = {"zero": True}
    if number.is_log:
        up = {"type": "log", "nice": False, "padding": 8}
        axis["values"] = _round(points[["y", "low", "high"]])
    y = vega.field("y:Q", title=number.title, axis=axis, scale=up)
    look = vega.legend(wheres, columns=columns, orient="bottom") if len(wheres) > 1 else None
    dash = vega.field("where:N", scale=vega.scale(wheres, _DASHES), legend=look)
    faint = {"condition": {"param": "ways", "value": 1}, "value": 0.1}
    channels = {"x": across, "y": y, "color": color, "opacity": faint}
    line = vega.layer(_rows(points), "line", {"strokeWidth": 2}, strokeDash=dash, **channels)
    isolate = {"type": "point", "fields": ["way"]}
    line["params"] = [{"name": "ways", "select": isolate, "bind": "legend"}]
    shape = vega.field("way:N", scale=vega.scale(ways, vega.SHAPES), legend=color["legend"])
    channels |= {"shape": shape, "tooltip": told}
    marks = _marks(points, "point", {"size": 60, "filled": True}, channels, "y")
    return vega.sized([*_limits(points, unit, y), line, *marks], height)


def _rows(points: pd.DataFrame) -> list[dict[Any, Any]]:
    return points[_SHOWN].to_dict("records")


def _round(points: pd.DataFrame) -> list[float]:
    """Powers of ten over so much of a logarithmic axis; of less than three also 2 and 5 times."""
    low, high = np.nanmin(points.to_numpy(float)), np.nanmax(points.to_numpy(float))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(powers) < 4 else (1,)
    values = [step * 10.0**power for power in powers for step in steps]
    return [value for value in values if low / 2 <= value <= high * 2]


def _marks(
    points: pd.DataFrame, kind: str, look: Spec, channels: Mapping[str, Spec], number: str
) -> list[Spec]:
    """Marks that can be clicked, and the 99 % interval of each along the channel of the number."""
    marks = vega.layer(_rows(points), kind, look, **channels)
    clicked = {"type": "point", "fields": ["machine", "run_id", "case"]}
    marks["params"] = [{"name": POINT, "select": clicked}]
    shared = {name: own for name, own in channels.items() if name not in ("shape", "tooltip")}
    ends = {number: channels[number] | {"field": "low"}, f"{number}2": {"field": "high"}}
    known = _rows(points[points["low"].notna()])
    ends |= {"color": {"value": vega.GREY}} if kind == "bar" else {}
    intervals = vega.layer(known, "rule", {"strokeWidth": 2}, **(shared | ends))
    return [marks, intervals] if kind == "bar" else [intervals, marks]


def _limits(points: pd.DataFrame, unit: str, y: Spec) -> list[Spec]:
    """What the link can carry. One that is exceeded is no limit, and not drawn."""
    best = points.groupby("where")[["ceiling_gb_per_s", "y"]].max()
    tops = best["ceiling_gb_per_s"][best["ceiling_gb_per_s"] >= best["y"]].unique()
    is_rate = unit in ("GB/s", "bus GB/s")
    rows = [{"y": float(top), "told": f"limit {format_rate(top)}"} for top in tops if is_rate]
    look = {"color": vega.GREY, "strokeDash": [6, 4]}
    text = {"align": "right", "dy": -6, "color": vega.GREY, "fontSize": 11}
    right = {"value": {"expr": "width - 4"}}
    return [
        vega.layer(rows, "rule", look, y=y),
        vega.layer(rows, "text", text, x=right, y=y, text=vega.field("told:N")),
    ]
