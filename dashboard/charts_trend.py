"""One series over its runs: its points, the lines between them, and the chart. No streamlit."""

from collections.abc import Iterator, Sequence

import pandas as pd
from derive import TableRow, hover
from derive_marks import KINDS as KINDS_OF_CHANGE
from derive_marks import TOLD
from words import missing

from hostbench.report.charts import (
    BLUE,
    CROSS,
    GREY,
    ORANGE,
    PINK,
    SECONDS,
    Spec,
    field,
    layer,
    legend,
    scale,
    titled,
)

KINDS = ("measured", "scratch (never judged)", "failed (struck out)", "skipped")
STEPS = ("to another commit", "same commit again")

_IN_SECONDS = {"y": "seconds", "low": "ci_low_s", "high": "ci_high_s"}

HEIGHT = 340
_TICK = "M0,-1.4L0,1.4"
_SHAPES = ("circle", "circle", CROSS, _TICK)
_COLORS = (BLUE, BLUE, ORANGE, GREY)
_FILLS = (BLUE, "transparent", "transparent", "transparent")
_HALF_DAY_MS = 43_200_000
_SAID = {
    "rate": "rate",
    "number": "median per step",
    "interval": "99 % interval",
    "launches": "launches",
    "why": "status",
    "when": "run",
    "run_id": "run id",
    "commit8": "commit",
    "torch": "torch",
    "driver": "driver",
}
"""What a pointer says of a point: column -> title."""
_DRAWN = ["x", "y", "low", "high", "status", "kind", *_SAID]


def points(rows: pd.DataFrame, *, by: str, as_rate: bool) -> pd.DataFrame:
    """Adds x (ms since the epoch), y, low, high and kind; leaves out what was not measured.

    `by` is started_at or committed_at. y is NaN where there is no number: those belong on the axis.
    """
    found = hover(rows[rows["status"] != "not measured"])
    found = found[found[by].notna()].sort_values([by, "started_at"], kind="stable")
    found["x"] = found[by].astype("datetime64[ms, UTC]").astype("int64").astype("float64")
    for name, column in _IN_SECONDS.items():
        found[name] = found[column]
    if as_rate:
        found["y"] = found["gb_per_s"]
        found["low"] = found["gb_per_s"] * found["seconds"] / found["ci_high_s"]
        found["high"] = found["gb_per_s"] * found["seconds"] / found["ci_low_s"]
    elif found["seconds"].isna().all():
        found["y"] = found["value"]
    found["kind"] = [_kind(row) for row in found.to_dict("records")]
    return found


def _kind(row: TableRow) -> str:
    if row["status"] != "ok":
        return KINDS[3] if row["status"] == "skipped" else KINDS[2]
    return KINDS[0] if missing(row["scratch"]) else KINDS[1]


def segments(found: pd.DataFrame) -> pd.DataFrame:
    """Lines between neighbours that have a number; a new version of the workload breaks the line.

    A step along `same commit again` cannot come from the code.
    """
    drawn = found[(found["status"] == "ok") & found["y"].notna()]
    after = drawn.shift(-1)
    lines = pd.DataFrame({"x": drawn["x"], "y": drawn["y"], "x2": after["x"], "y2": after["y"]})
    same = (drawn["commit"] == after["commit"]).map({True: STEPS[1], False: STEPS[0]})
    kept = (drawn["version"].fillna("") == after["version"].fillna("")) & after["y"].notna()
    return lines.assign(step=same)[kept]


def _domain(found: pd.DataFrame) -> list[float]:
    """Limits of the y axis: at least 10 % on both sides of the median, so that noise looks small.

    Zero to one where nothing has a number.
    """
    values = pd.concat([found["y"], found["low"], found["high"]]).dropna()
    if values.empty:
        return [0.0, 1.0]
    middle = float(found["y"].median())
    low, high = min(values.min(), 0.9 * middle), max(values.max(), 1.1 * middle)
    return [float(low), float(high)]


def trend(
    points: pd.DataFrame,
    changes: pd.DataFrame,
    title: str,
    about: Sequence[str],
    x_title: str,
    y_title: str,
    *,
    in_seconds: bool,
) -> Spec:
    """The median with its 99 % interval; what has no number stands on the axis with its reason. A
    rule stands at each of `changes` that is within the points."""
    x = _time(points, x_title)
    lines, points = segments(points), points[_DRAWN]
    limits = {"domain": _domain(points), "nice": True}
    axis = {"labelExpr": SECONDS if in_seconds else "format(datum.value, '.4~g')"}
    y, low = (field(name, title=y_title, scale=limits, axis=axis) for name in ("y:Q", "low:Q"))
    within = changes["x"].between(points["x"].min(), points["x"].max())
    layers = list(_rules(changes[within], x))
    layers += [_steps(lines, x, y)] if len(lines) else []
    measured = points[points["low"].notna() & (points["status"] == "ok")]
    look = {"color": BLUE, "strokeWidth": 2, "opacity": 0.55}
    layers.append(layer(_records(measured), "rule", look, x=x, y=low, y2={"field": "high"}))
    layers.append(_marks(points[points["y"].notna()], points, x, y))
    lacking = points[points["y"].isna()]
    if len(lacking):
        layers.append(_marks(lacking, points, x, {"value": HEIGHT - 8}))
    return titled(layers, title, about, HEIGHT)


def _records(rows: pd.DataFrame) -> list[TableRow]:
    return rows.to_dict("records")


def _rules(changes: pd.DataFrame, x: Spec) -> Iterator[Spec]:
    """Solid where the series changed, dashed where its machine did; the wide ones are for the
    pointer."""
    about = [field(f"{name}:N", title=name) for name in TOLD]
    for kind, dash in zip(KINDS_OF_CHANGE, ([1, 0], [6, 4]), strict=True):
        some = changes[changes["what"] == kind]
        if len(some):
            for width, opacity in ((1.5, 1.0), (14.0, 0.0)):
                look = {"color": PINK, "strokeDash": dash, "strokeWidth": width, "opacity": opacity}
                yield layer(_records(some), "rule", look, x=x, tooltip=about)


def _steps(lines: pd.DataFrame, x: Spec, y: Spec) -> Spec:
    """Solid to another commit, dashed where the same commit was measured again."""
    dashes = scale(STEPS, ([1, 0], [3, 4]))
    dash = field("step:N", scale=dashes, legend=legend(STEPS, orient="bottom"))
    ends = {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
    look = {"color": GREY, "strokeWidth": 1.5}
    return layer(_records(lines), "rule", look, x=x, y=y, strokeDash=dash, **ends)


def _marks(some: pd.DataFrame, points: pd.DataFrame, x: Spec, y: Spec) -> Spec:
    """Shape, stroke and fill say the kind of a point, in one legend."""
    kinds = [kind for kind in KINDS if kind in set(points["kind"])]
    place = [KINDS.index(kind) for kind in kinds]
    key = legend(kinds, symbolDash=[1, 0], symbolStrokeWidth=1.5)
    by_kind = {
        channel: field("kind:N", scale=scale(kinds, [values[one] for one in place]), legend=key)
        for channel, values in (("shape", _SHAPES), ("stroke", _COLORS), ("fill", _FILLS))
    }
    tip = [field(f"{name}:N", title=text) for name, text in _SAID.items()]
    look = {"size": 80, "strokeWidth": 2, "opacity": 1}
    return layer(_records(some), "point", look, x=x, y=y, tooltip=tip, **by_kind)


def _time(points: pd.DataFrame, title: str) -> Spec:
    """UTC, with room on both sides; days are named where they tell points apart."""
    first, last = int(points["x"].min()), int(points["x"].max())
    span = last - first
    room = max(span // 20, 60_000) if span else _HALF_DAY_MS
    form = "%Y-%m-%d" if span > 6 * _HALF_DAY_MS else "%m-%d %H:%M"
    axis = {"format": form, "labelOverlap": True, "tickCount": 6, "grid": False}
    domain = {"type": "utc", "domain": [_iso(first - room), _iso(last + room)]}
    return field("x:T", title=title, axis=axis, scale=domain)


def _iso(epoch_ms: int) -> str:
    """Vega-Lite passes over a time domain of plain numbers."""
    return pd.Timestamp(epoch_ms, unit="ms", tz="UTC").isoformat()
