"""The charts of plain copies: rate, asyncness and time over size; and one bar per way to copy."""

import textwrap
from collections.abc import Sequence
from typing import Any

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
from derive import CALLS, decades, surprises
from derive_transfer import Limits, Line

MODES = {
    "pageable, blocking": (ORANGE, "circle"),
    "pageable, non_blocking": (ORANGE, "square"),
    "pinned, blocking": (BLUE, "triangle-up"),
    "pinned, non_blocking": (BLUE, "diamond"),
    "registered, blocking": (PINK, "triangle-down"),
    "registered, non_blocking": (PINK, "triangle-right"),
}
DASHES = ([1, 0], [4, 3])
STAR = (
    "M0,-1L0.29,-0.4L0.95,-0.31L0.48,0.15L0.59,0.81L0,0.5"
    "L-0.59,0.81L-0.48,0.15L-0.95,-0.31L-0.29,-0.4Z"
)
MEMORIES = {"pageable": ORANGE, "pinned": BLUE, "registered": PINK}
_LANE_LENGTH = 26
_LINES = "split(datum.value, '\\n')"


def rate(
    rows: pd.DataFrame,
    others: pd.DataFrame,
    limits: Limits,
    line: Line | None,
    title: str,
    about: Sequence[str],
    top: float,
) -> Layers:
    """GB/s over size, one line per memory and call; `top` is shared by both directions."""
    domain = alt.Scale(domain=[0, top], nice=False)
    y = alt.Y("gb_per_s:Q", title=f"GB/s ({HIGHER})", scale=domain)
    layers = [
        *_held_against(limits, domain, top),
        *_fitted(line, rows, y),
        *_lines(rows, y),
        *_half_rate(line, rows, y),
        *_intervals(rows, domain),
        *_struck(rows, y),
        *_peers(others, rows, y),
    ]
    return titled(alt.layer(*layers), title, about, 320)


def _held_against(limits: Limits, domain: alt.Scale, top: float) -> list[alt.Chart]:
    """The published band and the ceiling, where they are on the chart."""
    layers = []
    low, high, ceiling = limits.low_gb_per_s, limits.high_gb_per_s, limits.ceiling_gb_per_s
    if low <= top:
        band = pd.DataFrame({"low": [low * (1 if low < high else 0.995)], "high": [min(high, top)]})
        area = alt.Chart(band).mark_rect(color=GREY, opacity=0.28)
        layers.append(area.encode(y=alt.Y("low:Q", scale=domain), y2="high:Q"))
    if ceiling <= top:
        at = alt.Chart(pd.DataFrame({"gb_per_s": [ceiling]}))
        rule = at.mark_rule(color=GREEN, strokeDash=[6, 4], strokeWidth=1.5)
        layers.append(rule.encode(y=alt.Y("gb_per_s:Q", scale=domain)))
    return layers


def _fitted(line: Line | None, rows: pd.DataFrame, y: alt.Y) -> list[alt.Chart]:
    if line is None or line.curve.empty:
        return []
    curve = alt.Chart(line.curve).mark_line(strokeWidth=1, color=GREY)
    return [curve.encode(x=size_axis(rows), y=y)]


def _half_rate(line: Line | None, rows: pd.DataFrame, y: alt.Y) -> list[alt.Chart]:
    """The mark at half of the line's bandwidth."""
    if line is None or line.half.empty:
        return []
    marks = alt.Chart(line.half).encode(x=size_axis(rows), y=y)
    dot = marks.mark_point(shape="circle", size=150, color=GREY, strokeWidth=2)
    text = marks.mark_text(dx=-12, dy=-10, fontSize=12, color=GREY, align="right")
    return [dot, text.encode(text="said:N")]


def _peers(others: pd.DataFrame, rows: pd.DataFrame, y: alt.Y) -> list[alt.Chart]:
    if others.empty:
        return []
    shown = others.assign(why=others["source"], nbytes=others["nbytes"].astype(float))
    stars = drawn(shown).mark_point(shape=STAR, size=260, filled=True, color=GREEN, opacity=1)
    tip = [
        alt.Tooltip("why:N", title="measured by"),
        alt.Tooltip("gb_per_s:Q", title="GB/s", format=".3~g"),
    ]
    return [stars.encode(x=size_axis(rows), y=y, tooltip=tip)]


def asyncness(rows: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """Which part of the copy the calling thread does not wait for."""
    name = "asyncness (1: free, 0: blocks)"
    seen = rows["asyncness"].clip(upper=1)
    bottom = min(0.0, float(seen.min()) if seen.notna().any() else 0.0)
    y = alt.Y("asyncness:Q", title=name, scale=alt.Scale(domain=[max(bottom, -0.5), 1], clamp=True))
    return titled(alt.layer(*_lines(rows, y), *_struck(rows, y)), title, about, 220)


def time(rows: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """Seconds over size, both logarithmic: flat where latency rules, rising where the link does."""
    low, high = decades(rows["seconds"])
    tens = [10.0**power for power in range(-9, 4) if low <= 10.0**power <= high]
    y = alt.Y(
        "seconds:Q",
        title=f"seconds per copy, log ({LOWER})",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(labelExpr=SECONDS, values=tens),
    )
    return titled(alt.layer(*_lines(rows, y), *_struck(rows, y)), title, about, 320)


def _lines(rows: pd.DataFrame, y: alt.Y) -> tuple[alt.Chart, alt.Chart]:
    """Solid where the call blocks, dashed where it need not; no line through a few odd sizes."""
    base = _base(rows[rows["status"] == "ok"], rows)
    names = _modes(rows)
    shapes = scale(names, [MODES[name][1] for name in names])
    points = base.mark_point(size=55, filled=True, opacity=1).encode(
        y=y, shape=alt.Shape("mode:N", scale=shapes, legend=legend()), tooltip=_copy_tooltip()
    )
    dash = alt.StrokeDash("call:N", scale=scale(CALLS, DASHES), legend=None)
    joined = base.transform_filter("!test(/^registered/, datum.mode)")
    return joined.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash), points


def _intervals(rows: pd.DataFrame, domain: alt.Scale) -> list[alt.Chart]:
    known = rows[rows["rate_low"].notna() & (rows["status"] == "ok")]
    if known.empty:
        return []
    bars = _base(known, rows).mark_rule(strokeWidth=2)
    return [bars.encode(y=alt.Y("rate_low:Q", scale=domain), y2="rate_high:Q")]


def _struck(rows: pd.DataFrame, y: alt.Y) -> list[alt.Chart]:
    """Numbers that a proof has refused, crossed out and joined to nothing; surprises are ringed."""
    layers = []
    failed = rows[rows["status"] == "failed"]
    if len(failed):
        crosses = _base(failed, rows).mark_point(shape=CROSS, size=240, strokeWidth=2.5)
        layers.append(crosses.encode(y=y, tooltip=_copy_tooltip()))
    odd = surprises(rows)
    if len(odd):
        rings = _base(odd, rows).mark_point(shape="circle", size=330, strokeWidth=1.5, color=GREY)
        layers.append(rings.encode(y=y, color=alt.value(GREY), tooltip=_copy_tooltip()))
    return layers


def _base(rows: pd.DataFrame, all_rows: pd.DataFrame) -> alt.Chart:
    names = _modes(all_rows)
    colors = scale(names, [MODES[name][0] for name in names])
    return drawn(rows).encode(
        x=size_axis(all_rows), color=alt.Color("mode:N", scale=colors, legend=legend())
    )


def _modes(rows: pd.DataFrame) -> list[str]:
    return [mode for mode in MODES if mode in set(rows["mode"])]


def _copy_tooltip() -> list[alt.Tooltip]:
    first = [
        alt.Tooltip("mode:N", title="memory, call"),
        alt.Tooltip("size:N", title="size"),
        alt.Tooltip("gb_per_s:Q", title="GB/s", format=".3~g"),
        alt.Tooltip("asyncness:Q", title="asyncness", format=".2f"),
        alt.Tooltip("flags:N", title="flags"),
    ]
    return first + about_run()


def bars(rows: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """One bar per way, with its time written behind it; a failed one pale and crossed out."""
    lanes = ["\n".join(textwrap.wrap(lane, _LANE_LENGTH)) for lane in rows["lane"]]
    rows = rows.assign(lane=lanes)
    limits = alt.Scale(domain=[0, 1.75 * float(rows["seconds"].max())], nice=False)
    ticks = alt.Axis(labelExpr=SECONDS, tickCount=3)
    x = alt.X("seconds:Q", title=f"seconds ({LOWER})", scale=limits, axis=ticks)
    axis = alt.Axis(labelExpr=_LINES, labelLimit=0, labelPadding=6, ticks=False, domain=False)
    order = list(dict.fromkeys(lanes))
    base = drawn(rows).encode(y=alt.Y("lane:N", title=None, sort=order, axis=axis))
    names = [name for name in MEMORIES if name in set(rows["mode"])]
    colors: Any = alt.value(GREY)
    if names:
        shades = scale(names, [MEMORIES[name] for name in names])
        colors = alt.Color("mode:N", scale=shades, legend=None)
    pale = alt.when("datum.status == 'ok'").then(alt.value(1.0)).otherwise(alt.value(0.3))
    tip = [alt.Tooltip("lane:N", title="way"), *about_run()]
    layers = [
        base.mark_bar(height={"band": 0.66}).encode(x=x, color=colors, opacity=pale, tooltip=tip),
        base.mark_text(align="left", dx=9, fontSize=11, color=GREY).encode(x=x, text="said:N"),
        base.transform_filter("datum.status == 'failed'")
        .mark_point(shape=CROSS, size=120, strokeWidth=2.5, color=ORANGE)
        .encode(x=x),
    ]
    deep = max(lane.count("\n") for lane in lanes) + 1
    height = max(90, (16 * deep + 12) * len(order))
    return titled(alt.layer(*layers), title, about, height)
