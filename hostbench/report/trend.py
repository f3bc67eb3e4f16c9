"""Series over their runs: their points, levels and changes of facts, and a chart of up to six."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd

from hostbench.core import units
from hostbench.judge.grid import Along
from hostbench.report.causes import SERIES, EventRow
from hostbench.report.charts import (
    BYTES,
    CROSS,
    GREY,
    MANY,
    ORANGE,
    PINK,
    SECONDS,
    Spec,
    field,
    layer,
    legend,
    on_canvas,
    scale,
    sized,
    time_axis,
)

TITLES = {
    "seconds": "seconds (lower is better)",
    "GB/s": "GB/s (higher is better)",
    "% of the limit": "% of what the link can carry (higher is better)",
    "% of the first level": "% of the time of the first level (lower is better)",
    "bytes": "memory (lower is better)",
    "value": "value (asv's rule: lower is better)",
}
KINDS = ("measured", "scratch (never judged)", "failed", "skipped")
MOST = 6
"""Series in one picture."""
MOST_DRAWN = 500
"""Points of a picture: four of a stretch of nine pixels at 1280 px; more are slow to draw."""
_POINTED = (
    "status reason scratch flags commit seconds gb_per_s ci_low_s ci_high_s value unit"
).split()
_FIRST_POINTS = 8
_FACTS = ("torch", "driver", "hardware")
HEIGHT = 400
POINT, DAYS = "point", "days"
"""Names of the selections: the point that was clicked, the days that were dragged over."""
_SHAPES = {KINDS[0]: "circle", KINDS[1]: "circle", KINDS[2]: CROSS, KINDS[3]: "M0,-1.4L0,1.4"}
_SIGNS = {
    KINDS[1]: "Hollow: scratch, never judged.",
    KINDS[2]: "Cross: failed, it counts for nothing.",
    KINDS[3]: "Tick on the axis: skipped.",
}
_SELECTED = ("run_id", "series", "machine")
"""What a click on a point tells."""
NEAR = 30
"""Points on each side of an event."""
_POINTER = {"text": "point", "series": "series", "machine": "machine"}
"""What a pointer shows of a point, and how it calls it."""
_HALF_DAY_MS = 43_200_000
_LABELS = {"seconds": SECONDS, "bytes": BYTES}


def choices(every: Sequence[pd.DataFrame]) -> list[str]:
    """What may stand on the vertical axis, of what these series have; what is usual comes first."""
    names = []
    if any(rows["seconds"].notna().any() for rows in every):
        names.append("seconds")
        if all(rows["gb_per_s"].notna().any() for rows in every):
            names.append("GB/s")
        if all(rows["ceiling_gb_per_s"].gt(0).any() for rows in every):
            names.append("% of the limit")
        names.append("% of the first level")
    kinds = set(pd.concat([rows["unit"] for rows in every]).dropna()) if every else set()
    return names or ["bytes" if kinds == {"bytes"} else "value"]


def points(rows: pd.DataFrame, series: str, by: str, unit: str) -> pd.DataFrame:
    """A row for each point that was measured, the oldest first, with the label of its row:
    `series`, `machine`, `x` in ms since the epoch, `y` with `low` and `high` (NaN where there is no
    number: those stand on the axis) and `kind`. `by` is started_at or committed_at."""
    some = rows[(rows["status"] != "not measured") & rows[by].notna()]
    some = some.sort_values([by, "started_at"], kind="stable")
    at = some[by].astype("datetime64[ms, UTC]").astype("int64").astype("float64")
    y, low, high = _numbers(some, unit)
    kind = pd.Series(KINDS[0], index=some.index)
    kind[some["scratch"].notna()] = KINDS[1]
    kind[some["status"] == "failed"] = KINDS[2]
    kind[some["status"] == "skipped"] = KINDS[3]
    return pd.DataFrame(
        {
            "series": series,
            "machine": some["machine"].fillna(""),
            "x": at,
            "y": y,
            "low": low,
            "high": high,
            "kind": kind,
            "run_id": some["run_id"],
            "commit": some["commit"],
            "version": some["version"].fillna("").astype(str),
        }
    )


def thinned(points: pd.DataFrame, most: int) -> pd.DataFrame:
    """About `most` points of a line that has more, none of them invented: the points of each kind
    are cut into stretches of equally many, and of each the first, the last, the lowest and the
    highest stay, so that its outline is the same (M4: Jugel et al., VLDB 2014)."""
    if len(points) <= most:
        return points
    of_kind = points.groupby("kind", sort=False)
    size = of_kind["x"].transform("size")
    stretch = of_kind.cumcount() * (most * size // (4 * len(points))).clip(lower=1) // size
    of_each = points.groupby([stretch, points["kind"]], sort=False)
    low, high = (of_each["y"].transform(end) for end in ("min", "max"))
    ends = (points["y"] == low) | (points["y"] == high)
    first = ~points.assign(stretch=stretch).duplicated(["stretch", "kind", "y"])
    at = of_each.cumcount()
    of_last = of_each["x"].transform("size") - 1
    return points[(ends & first) | (at == 0) | (at == of_last)]


def worded(points: pd.DataFrame, rows: pd.DataFrame, unit: str) -> pd.DataFrame:
    """Points of these rows with `text`, what a pointer shows of each."""
    return points.assign(text=_texts(rows.loc[points.index], unit))


def _numbers(rows: pd.DataFrame, unit: str) -> tuple[pd.Series, pd.Series, pd.Series]:
    seconds, low, high = rows["seconds"], rows["ci_low_s"], rows["ci_high_s"]
    if unit in ("bytes", "value"):
        nothing = pd.Series(float("nan"), index=rows.index)
        return rows["value"], nothing, nothing
    if unit in ("GB/s", "% of the limit"):
        rate = rows["gb_per_s"]
        if unit == "% of the limit":
            rate = 100 * rate / rows["ceiling_gb_per_s"].where(rows["ceiling_gb_per_s"] > 0)
        return rate, rate * seconds / high, rate * seconds / low
    factor = 1.0
    if unit == "% of the first level":
        good = seconds[(rows["status"] == "ok") & rows["scratch"].isna()].dropna()
        first = (good if len(good) else seconds.dropna()).head(_FIRST_POINTS).median()
        factor = 100 / first if first and first > 0 else float("nan")
    return seconds * factor, low * factor, high * factor


def _texts(rows: pd.DataFrame, unit: str) -> list[str]:
    """What a pointer shows of each: number, why it has none, when, which commit."""
    cells = {name: rows[name].tolist() for name in _POINTED}
    times = rows["started_at"].dt.strftime("%Y-%m-%d %H:%M UTC").tolist()
    return [
        _line(dict(zip(cells, row, strict=True)), at, unit)
        for at, *row in zip(times, *cells.values(), strict=True)
    ]


def _line(row: Mapping[str, Any], at: Any, unit: str) -> str:
    why = "" if row["status"] == "ok" else f"{row['status']}: {_text(row['reason'])}"
    scratch = f"scratch: {row['scratch']}" if isinstance(row["scratch"], str) else ""
    commit = _text(row["commit"])[:8] or "no commit"
    about = (_number(row, unit), why, scratch, _text(row["flags"]), _text(at), commit)
    return " · ".join(filter(None, about))[:300]


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else ""


def _number(row: Mapping[str, Any], unit: str) -> str:
    seconds, rate = row["seconds"], row["gb_per_s"]
    if not seconds > 0:  # NaN, too
        return "" if pd.isna(row["value"]) else units.format_value(row["value"], _text(row["unit"]))
    text = units.format_seconds(seconds)
    if unit in ("GB/s", "% of the limit") and rate > 0:
        text = units.format_rate(rate)
    low, high = row["ci_low_s"], row["ci_high_s"]
    if low == low and high == high:
        text += f" ({units.format_seconds(low)} to {units.format_seconds(high)})"
    return text


def lines(points: pd.DataFrame) -> pd.DataFrame:
    """The points with a number, `piece` by piece: a line ends where the series, the machine or the
    version of the workload does, and where the same commit is measured again (`again`)."""
    drawn = _drawn(points)
    before = drawn.shift()
    ends = ~_alike(drawn, before) | (drawn["commit"] == before["commit"])
    return drawn.assign(piece=ends.cumsum())


def again(points: pd.DataFrame) -> pd.DataFrame:
    """From each point to the next where both are of one commit, `x`, `y` to `x2`, `y2`: a step
    there is not the code's."""
    drawn = _drawn(points)
    after = drawn.shift(-1)
    same = _alike(drawn, after) & (drawn["commit"] == after["commit"])
    ends = drawn[["series", "x", "y"]].assign(x2=after["x"], y2=after["y"])
    return ends[same]


def _alike(rows: pd.DataFrame, others: pd.DataFrame) -> pd.Series:
    """Whether a line may go from the one to the other."""
    names = ["series", "machine", "version"]
    return (rows[names] == others[names]).all(axis=1)


def _drawn(points: pd.DataFrame) -> pd.DataFrame:
    return points[points["y"].notna() & points["kind"].isin(KINDS[:2])]


def levels(points: pd.DataFrame, steps: Sequence[float], detectable: float | None) -> pd.DataFrame:
    """The level between each two confirmed steps (`x` of the first point at the new level): a row
    for each with `x`, `x2`, `y`, and the band within which a change would not be seen, `low` and
    `high` (NaN where it is not known)."""
    good = points[points["y"].notna() & (points["kind"] == KINDS[0])]
    edges = [float("-inf"), *sorted(steps), float("inf")]
    rows = []
    for start, end in pairwise(edges):
        own = good[(good["x"] >= start) & (good["x"] < end)]
        if len(own):
            y = float(own["y"].median())
            half = float("nan") if detectable is None else detectable * abs(y)
            ends = {"x": own["x"].iloc[0], "x2": own["x"].iloc[-1]}
            rows.append({**ends, "y": y, "low": y - half, "high": y + half})
    return pd.DataFrame(rows, columns=["x", "x2", "y", "low", "high"])


def facts_changed(rows: pd.DataFrame, by: str) -> Iterator[tuple[float, str]]:
    """(x, `torch 2.12 -> 2.13`) wherever torch, the driver or the hardware changed."""
    order = rows[rows[by].notna()].sort_values([by, "started_at"], kind="stable")
    for name in (name for name in _FACTS if order[name].nunique() > 1):
        values = order[[by, name]].dropna().to_dict("records")
        for before, after in pairwise(values):
            if before[name] != after[name]:
                x = float(after[by].value // 1_000_000)
                yield x, f"{name} {before[name]} -> {after[name]}"


def limit(rows: pd.DataFrame, unit: str) -> float | None:
    """What the link can carry, in the unit of the axis; None where nobody knows it."""
    if unit == "% of the limit":
        return 100.0
    newest = rows["ceiling_gb_per_s"].dropna()
    return float(newest.iloc[-1]) if unit == "GB/s" and len(newest) else None


def chart(
    points: pd.DataFrame,
    levels: pd.DataFrame,
    rules: pd.DataFrame,
    limits: Mapping[str, float],
    colors: Mapping[str, str],
    *,
    unit: str,
    x_title: str,
    about: Sequence[str] = (),
    height: int = HEIGHT,
) -> Spec:
    """`points` (worded) and `levels` as hostbench.report.trend gives them, with a column `series`;
    `rules`: `x`, `kind` (`this series`, `its machine`, `facts`), `text` and a short `label`;
    `limits` and `colors` by series.

    A click selects a point, dragging selects days; the wheel is left to the page.
    """
    limit = {"domain": _domain(points, levels, limits), "nice": True}
    axis = {"labelExpr": _LABELS.get(unit, "format(datum.value, '.4~g')")}
    y, low = (
        field(f"{name}:Q", title=TITLES[unit], scale=limit, axis=axis) for name in ("y", "low")
    )
    names = list(colors)
    look = legend(names, columns=1, labelLimit=700) if len(names) > 1 else None
    color = field("series:N", scale=scale(names, list(colors.values())), legend=look)
    x, is_many = _time(points, x_title), len(points) > MANY
    layers: list[Spec] = []

    def add(rows: pd.DataFrame, kind: str, look: Spec, **channels: Spec) -> None:
        """Marks of these rows, where there are any."""
        if len(rows):
            layers.append(_layer(rows, kind, look | {"clip": True}, color=color, **channels))

    x2, y2, high = ({"field": name} for name in ("x2", "y2", "high"))
    band = levels[levels["low"].notna()]
    add(band, "rect", {"opacity": 0.12}, x=x, y=low, x2=x2, y2=high)
    layers += _rules(rules, x)
    tops = pd.DataFrame(limits.items(), columns=["series", "y"])
    add(tops, "rule", {"strokeDash": [8, 4], "strokeWidth": 1.5, "opacity": 0.8}, y=y)
    thin = {"strokeWidth": 1.0 if is_many else 1.5, "opacity": 0.5}
    add(lines(points), "line", thin, x=x, y=y, detail=field("piece:N"))
    add(again(points), "rule", thin | {"strokeDash": [3, 4]}, x=x, y=y, x2=x2, y2=y2)
    add(levels, "rule", {"strokeWidth": 2.5}, x=x, x2=x2, y=y)
    if not is_many:
        known = points[points["low"].notna() & (points["kind"] == KINDS[0])]
        add(known, "rule", {"strokeWidth": 2, "opacity": 0.45}, x=x, y=low, y2=high)
    layers += _marks(points, {"x": x, "y": y, "color": color}, 14 if is_many else 60, height)
    days = {"type": "interval", "encodings": ["x"], "zoom": False}
    layers[-1]["params"].append({"name": DAYS, "select": days})
    spec = sized(layers, height, about)
    return on_canvas(spec) if is_many else spec


def around(stored: pd.DataFrame, event: EventRow, along: Along, height: int = HEIGHT) -> Spec:
    """A series on both sides of its event, of report.causes.event_rows, with its levels. `stored`:
    its rows of the tidy frame, marked."""
    by = "committed_at" if along == "commit" else "started_at"
    unit, name = choices([stored])[0], str(event["id"])
    line = points(stored, name, by, unit)
    at = float(pd.Timestamp(event[f"first_{by}"]).value // 1_000_000)
    near = line.iloc[max(0, int((line["x"] < at).sum()) - NEAR) :].head(2 * NEAR)
    near = worded(near, stored, unit)
    half = float(event["detectable"])
    text = f"{units.format_change(event['effect'])} from here on"
    return chart(
        near,
        levels(near, [at], half).assign(series=name),
        pd.DataFrame([{"x": at, "kind": SERIES, "text": text, "label": ""}]),
        {},
        {name: ORANGE},
        unit=unit,
        x_title="time, UTC",
        about=[words for kind, words in _SIGNS.items() if (near["kind"] == kind).any()],
        height=height,
    )


def _rules(rules: pd.DataFrame, x: Spec) -> Iterator[Spec]:
    """Where something changed; the wide ones are for the pointer."""
    # labels of neighbours stand below each other
    rules = rules.sort_values("x", ignore_index=True)
    rules["down"] = [13 * (index % 6) for index in range(len(rules))]
    for kind, dash in (("this series", [1, 0]), ("its machine", [6, 4]), ("facts", [2, 3])):
        own = rules[rules["kind"] == kind]
        if own.empty:
            continue
        tip = [field("text:N", title=kind)]
        shade = GREY if kind == "facts" else PINK
        for width, opacity in ((1.5, 1.0), (12.0, 0.0)):
            look = {"color": shade, "strokeDash": dash, "strokeWidth": width, "opacity": opacity}
            yield _layer(own, "rule", {**look, "clip": True}, x=x, tooltip=tip)
        look = {"color": shade, "align": "left", "baseline": "top", "fontSize": 11}
        look |= {"dx": 4, "dy": {"expr": "datum.down"}, "limit": 160}
        labels = own[["x", "label", "down"]].to_dict("records")
        yield layer(labels, "text", look, x=x, y={"value": 2}, text=field("label:N"))


def _marks(points: pd.DataFrame, at: Mapping[str, Spec], size: int, height: int) -> list[Spec]:
    """What has a number, and on the axis what has none; the last layer may be clicked."""
    several = [name for name in _SELECTED if points[name].nunique() > 1]
    tip = [
        field(f"{name}:N", title=_POINTER[name]) for name in _POINTER if name in ("text", *several)
    ]
    layers = []
    for kind in (kind for kind in KINDS if kind in set(points["kind"])):
        own = points[points["kind"] == kind]
        look: Spec = {"shape": _SHAPES[kind], "size": size, "strokeWidth": 1.5, "clip": True}
        look |= {"filled": kind == KINDS[0], "opacity": 1}
        if kind in KINDS[2:]:
            look |= {"size": 3 * size, "strokeWidth": 2}
        with_number, without = own[own["y"].notna()], own[own["y"].isna()]
        for some, y in ((without, {"value": height - 6}), (with_number, at["y"])):
            if len(some):
                layers.append(_layer(some, "point", look, tooltip=tip, **{**at, "y": y}))
    layers.sort(key=lambda marks: len(marks["data"]["values"]))  # most of them above, to be clicked
    select = {"type": "point", "fields": list(_SELECTED)}
    layers[-1]["params"] = [{"name": POINT, "select": select}]
    return layers


def _layer(rows: pd.DataFrame, kind: str, look: Spec, **channels: Any) -> Spec:
    """With those columns alone that the channels show, and that a click asks for."""
    shown = [
        spec for own in channels.values() for spec in (own if isinstance(own, list) else [own])
    ]
    names = {spec.get("field") for spec in shown} | (
        set(_SELECTED) if "tooltip" in channels else set()
    )
    return layer(
        rows[[name for name in rows if name in names]].to_dict("records"), kind, look, **channels
    )


def _domain(points: pd.DataFrame, levels: pd.DataFrame, limits: Mapping[str, float]) -> list[float]:
    """At least 10 % on both sides of the median, so that noise looks small; intervals are cut
    that take more room than the points and their size; zero to one where nothing has a number."""
    y = points["y"]
    room = max(y.max() - y.min(), abs(y.median()))
    low, high = points["low"].clip(lower=y.min() - room), points["high"].clip(upper=y.max() + room)
    values = pd.concat([y, low, high, levels["low"], levels["high"]]).dropna()
    values = pd.concat([values, pd.Series(list(limits.values()), dtype="float64")])
    if values.empty:
        return [0.0, 1.0]
    middle = float(y.median())
    return [float(min(values.min(), 0.9 * middle)), float(max(values.max(), 1.1 * middle))]


def _time(points: pd.DataFrame, title: str) -> Spec:
    """With room on both sides."""
    first, last = float(points["x"].min()), float(points["x"].max())
    span = last - first
    room = max(span / 40, 60_000) if span else _HALF_DAY_MS
    ends = [pd.Timestamp(at, unit="ms", tz="UTC").isoformat() for at in (first - room, last + room)]
    along = {"type": "utc", "domain": ends}
    return field("x:T", title=title, axis=time_axis(span), scale=along)
