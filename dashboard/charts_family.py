"""The charts of the families' questions: rate and asyncness over size, two bars per size."""

from collections.abc import Sequence

import altair as alt
import pandas as pd
from charts import (
    BLUE,
    CROSS,
    GREEN,
    HIGHER,
    LOWER,
    ORANGE,
    SECONDS,
    Layers,
    about_run,
    drawn,
    legend,
    scale,
    size_axis,
    titled,
)
from derive import CALLS

from hostbench import units

MODES = {
    "pageable, blocking": (ORANGE, "circle"),
    "pageable, non_blocking": (ORANGE, "square"),
    "pinned, blocking": (BLUE, "triangle-up"),
    "pinned, non_blocking": (BLUE, "diamond"),
}
DASHES = ([1, 0], [4, 3])
PLACES = {"cpu_then_move": ("create on the CPU, move", ORANGE), "direct": ("create there", GREEN)}


def rate(rows: pd.DataFrame, title: str, about: Sequence[str], top: float) -> Layers:
    """GB/s over size, one line per memory and call; `top` is shared by both directions."""
    y = alt.Y("gb_per_s:Q", title=f"GB/s ({HIGHER})", scale=alt.Scale(domain=[0, top]))
    low = alt.Y("rate_low:Q", scale=alt.Scale(domain=[0, top]))
    with_interval = rows[rows["rate_low"].notna() & (rows["status"] == "ok")]
    bars = _base(with_interval).mark_rule(strokeWidth=2).encode(y=low, y2="rate_high:Q")
    layers = alt.layer(*_lines(rows, y), bars, _struck(rows, y))
    return titled(layers, title, about, 300)


def asyncness(rows: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """Which part of the copy the calling thread does not wait for."""
    name = "asyncness (1: free, 0: blocks)"
    seen = rows["asyncness"].clip(upper=1)
    bottom = min(0.0, float(seen.min()) if seen.notna().any() else 0.0)
    y = alt.Y("asyncness:Q", title=name, scale=alt.Scale(domain=[bottom, 1]))
    return titled(alt.layer(*_lines(rows, y)), title, about, 220)


def _lines(rows: pd.DataFrame, y: alt.Y) -> tuple[alt.Chart, alt.Chart]:
    """Solid where the call blocks, dashed where it need not."""
    base = _base(rows[rows["status"] == "ok"])
    names = _modes(rows)
    shapes = scale(names, [MODES[name][1] for name in names])
    points = base.mark_point(size=55, filled=True, opacity=1).encode(
        y=y, shape=alt.Shape("mode:N", scale=shapes, legend=legend()), tooltip=_copy_tooltip()
    )
    dash = alt.StrokeDash("call:N", scale=scale(CALLS, DASHES), legend=None)
    return base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash), points


def _struck(rows: pd.DataFrame, y: alt.Y) -> alt.Chart:
    """Numbers that a proof has refused, crossed out and joined to nothing."""
    crosses = _base(rows[rows["status"] == "failed"])
    marks: alt.Chart = crosses.mark_point(shape=CROSS, size=240, strokeWidth=2.5)
    return marks.encode(y=y, tooltip=_copy_tooltip())


def _base(rows: pd.DataFrame) -> alt.Chart:
    names = _modes(rows)
    colors = scale(names, [MODES[name][0] for name in names])
    return drawn(rows).encode(
        x=size_axis(rows), color=alt.Color("mode:N", scale=colors, legend=legend())
    )


def _modes(rows: pd.DataFrame) -> list[str]:
    return [mode for mode in MODES if mode in set(rows["mode"])]


def _copy_tooltip() -> list[alt.Tooltip]:
    first = [
        alt.Tooltip("mode:N", title="memory, call"),
        alt.Tooltip("size:N", title="size"),
        alt.Tooltip("gb_per_s:Q", title="GB/s", format=".3~g"),
        alt.Tooltip("asyncness:Q", title="asyncness", format=".2f"),
    ]
    return first + about_run()


def two_places(
    rows: pd.DataFrame, title: str, about: Sequence[str], limits: tuple[float, float]
) -> Layers:
    """Two bars per size on a logarithmic axis, each with its time written on it."""
    bottom, top = limits
    rows = rows.assign(
        size=[units.format_bytes(int(size)) for size in rows["nbytes"]],
        what=[PLACES[place][0] for place in rows["place"]],
        floor=bottom,
    )
    names = [name for name, _ in PLACES.values()]
    order = [units.format_bytes(int(size)) for size in sorted(rows["nbytes"].unique())]
    log = alt.Scale(type="log", domain=[bottom, top], nice=False)
    tens = [10.0**power for power in range(-9, 4) if bottom <= 10.0**power <= top]
    axis = alt.Axis(labelExpr=SECONDS, values=tens)
    y = alt.Y("seconds:Q", title=f"seconds per tensor, log ({LOWER})", scale=log, axis=axis)
    base = drawn(rows).encode(
        x=alt.X("size:N", sort=order, title="size of the tensor", axis=alt.Axis(labelAngle=0)),
        xOffset=alt.XOffset("what:N", sort=names),
        tooltip=[alt.Tooltip("what:N", title="where"), *about_run()],
    )
    color = alt.Color("what:N", scale=scale(names, [c for _, c in PLACES.values()]))
    pale = alt.when("datum.status == 'ok'").then(alt.value(1.0)).otherwise(alt.value(0.3))
    bars = base.mark_bar().encode(y=y, y2="floor:Q", color=color.legend(legend()), opacity=pale)
    text = base.mark_text(dy=-7, fontSize=10, color="#7A828C").encode(y=y, text="number:N")
    crosses = base.transform_filter("datum.status != 'ok'").mark_point(
        shape=CROSS, size=120, strokeWidth=2.5, color=ORANGE
    )
    return titled(alt.layer(bars, text, crosses.encode(y=y)), title, about, 300)
