"""The charts of all-reduce: rate and scaling over ranks, time over bytes."""

from collections.abc import Sequence

import altair as alt
import pandas as pd
from charts import (
    BLUE,
    CROSS,
    GREEN,
    GREY,
    HIGHER,
    LOWER,
    ORANGE,
    PINK,
    SECONDS,
    Layers,
    about_run,
    drawn,
    legend,
    scale,
    size_axis,
    titled,
)
from derive import decades
from derive_collectives import with_interval, without_rate
from words import ranks

from hostbench.core import units
from hostbench.families.collectives.workloads import NUM_RANKS, SIZES

HEIGHT = 300
_COLORS = (GREY, PINK, ORANGE, GREEN, BLUE)
_SHAPES = ("square", "triangle-up", "circle", "triangle-down", "diamond")


def rate(
    found: pd.DataFrame,
    column: str,
    title: str,
    about: Sequence[str],
    limits: tuple[float, float],
) -> Layers:
    """GB/s over ranks on a logarithmic axis, one line per size; both charts share `limits`."""
    log = alt.Scale(type="log", domain=list(limits), nice=False)
    axis = alt.Axis(format="~g", values=_tens(limits))
    y, low = (
        alt.Y(name, title=f"GB/s, log ({HIGHER})", scale=log, axis=axis)
        for name in (f"{column}:Q", "rate_low:Q")
    )
    x, color, key = _over_ranks(found), *_by_size(found)
    rows = found[found[column].notna()]
    layers = [*_lines(rows, x, y, color, key), *_why_not(found, x)]
    known = with_interval(found, column)
    if len(known):
        bars = drawn(known).mark_rule(strokeWidth=2, opacity=0.55)
        layers.append(bars.encode(x=x, y=low, y2="rate_high:Q", color=color))
    return titled(alt.layer(*layers), title, about, HEIGHT)


def scaling(found: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """Bus bandwidth over that of the fewest ranks; the line at 1 costs nothing."""
    top = max(1.1, 1.05 * float(found["scaling"].max()))
    limits = alt.Scale(domain=[0, top], nice=False)
    axis = alt.Axis(tickCount=5)
    y = alt.Y("scaling:Q", title=f"scaling efficiency ({HIGHER})", scale=limits, axis=axis)
    one = alt.Chart(pd.DataFrame({"scaling": [1.0]}))
    even = one.mark_rule(color=GREEN, strokeDash=[6, 4], strokeWidth=1.5)
    x, color, key = _over_ranks(found), *_by_size(found)
    rows = found[found["scaling"].notna()]
    layers = [even.encode(y=y), *_lines(rows, x, y, color, key), *_why_not(found, x)]
    return titled(alt.layer(*layers), title, about, HEIGHT)


def time(found: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """Seconds over bytes, both logarithmic, one line per number of ranks."""
    rows = found[found["seconds"].notna()]
    low, high = limits = decades(rows["seconds"])
    log = alt.Scale(type="log", domain=[low, high], nice=False)
    axis = alt.Axis(labelExpr=SECONDS, values=_tens(limits))
    y, start = (
        alt.Y(name, title=f"seconds per all-reduce, log ({LOWER})", scale=log, axis=axis)
        for name in ("seconds:Q", "low:Q")
    )
    x = size_axis(rows, "bytes of each rank's buffer")
    used = sorted({*NUM_RANKS, *found["ranks"]})
    color, key = _encoding("what", [(ranks(num), num in set(rows["ranks"])) for num in used])
    bars = rows[rows["ci_low_s"].notna() & (rows["status"] == "ok")]
    bars = bars.assign(low=bars["ci_low_s"], high=bars["ci_high_s"])
    layers = _lines(rows, x, y, color, key)
    if len(bars):
        rules = drawn(bars).mark_rule(strokeWidth=2, opacity=0.55)
        layers.append(rules.encode(x=x, y=start, y2="high:Q", color=color))
    return titled(alt.layer(*layers), title, about, HEIGHT)


def rate_limits(found: pd.DataFrame) -> tuple[float, float]:
    """The powers of ten around every rate."""
    return decades(pd.concat([found["bus"], found["algorithm"]]).dropna())


def _lines(
    rows: pd.DataFrame, x: alt.X, y: alt.Y, color: alt.Color, shape: alt.Shape
) -> list[alt.Chart]:
    """Lines through what is valid; hollow where ranks share cores, crossed out where refused."""
    valid = rows[rows["status"] == "ok"]
    line = drawn(valid).mark_line(strokeWidth=2).encode(x=x, y=y, color=color)
    layers = [line]
    for hollow, some in valid.groupby("hollow"):
        marks = drawn(some).mark_point(size=70, filled=not hollow, opacity=1, strokeWidth=2)
        layers.append(marks.encode(x=x, y=y, color=color, shape=shape, tooltip=_tooltip()))
    struck = rows[rows["status"] != "ok"]
    if len(struck):
        crosses = drawn(struck).mark_point(shape=CROSS, size=240, strokeWidth=2.5)
        layers.append(crosses.encode(x=x, y=y, color=color, tooltip=_tooltip()))
    return layers


def _over_ranks(found: pd.DataFrame) -> alt.X:
    """Every number of ranks of the run, also those without a number."""
    used = sorted(set(found["ranks"]))
    axis = alt.Axis(labelAngle=0, grid=False)
    return alt.X("ranks:O", title="ranks", scale=alt.Scale(domain=used), axis=axis)


def _by_size(found: pd.DataFrame) -> tuple[alt.Color, alt.Shape]:
    measured = set(found["nbytes"][found["bus"].notna()])
    used = sorted({*SIZES, *(int(size) for size in measured)})
    return _encoding("size", [(units.format_bytes(size), size in measured) for size in used])


def _encoding(column: str, names: Sequence[tuple[str, bool]]) -> tuple[alt.Color, alt.Shape]:
    """A name keeps its colour and shape, whether or not the others are there."""
    kept = [
        (name, _COLORS[place % len(_COLORS)], _SHAPES[place % len(_SHAPES)])
        for place, (name, there) in enumerate(names)
        if there
    ]
    words, colors, shapes = ([one[part] for one in kept] for part in range(3))
    key = legend(columns=3)
    color = alt.Color(f"{column}:N", scale=scale(words, colors), legend=key)
    return color, alt.Shape(f"{column}:N", scale=scale(words, shapes), legend=key)


def _why_not(found: pd.DataFrame, x: alt.X) -> list[alt.Chart]:
    """A word on the axis where no bandwidth can be drawn."""
    words = without_rate(found)
    if words.empty:
        return []
    text: alt.Chart = alt.Chart(words).mark_text(fontSize=11, color=GREY, dy=-9)
    return [text.encode(x=x, y=alt.value(HEIGHT), text="said:N")]


def _tens(limits: tuple[float, float]) -> list[float]:
    return [10.0**power for power in range(-9, 6) if limits[0] <= 10.0**power <= limits[1]]


def _tooltip() -> list[alt.Tooltip]:
    first = [
        alt.Tooltip("what:N", title="ranks"),
        alt.Tooltip("size:N", title="buffer"),
        alt.Tooltip("bus:Q", title="bus GB/s", format=".3~g"),
        alt.Tooltip("algorithm:Q", title="algorithm GB/s", format=".3~g"),
        alt.Tooltip("scaling:Q", title="scaling efficiency", format=".2f"),
    ]
    return first + about_run()
