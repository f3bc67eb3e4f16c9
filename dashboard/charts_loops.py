"""The charts of the ratio sweep, the orderings and the round trip."""

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
    scale,
    titled,
)
from derive_loops import STEPS, Trip

from hostbench.core import units
from hostbench.report.overlap_ways import THREE

_LANE_LENGTH = 24
_LINES = "split(datum.value, '\\n')"
_ROOM = 1.45
_PALE = "#A9B0B8"
_ENGINES = {1: PINK, 2: GREEN}
_LOW, _HIGH = -0.1, 1.15
"""The axis of efficiency; a median beyond it extends it, an interval does not."""


def ratio(rows: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """Efficiency over compute:copy, and the share of the serial loop's time that is saved."""
    names = list(rows["ratio"])
    low = min(_LOW, float(rows["share"].min()) - 0.05) if rows["share"].notna().any() else _LOW
    high = max(_HIGH, float(rows["share"].max()) + 0.05) if rows["share"].notna().any() else _HIGH
    domain = alt.Scale(domain=[low, high], nice=False, clamp=True)
    x = alt.X("ratio:N", sort=names, title="compute : copy", axis=alt.Axis(labelAngle=0))
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".2~f")
    y = alt.Y("share:Q", title=f"share ({HIGHER})", scale=domain, axis=axis)
    base = alt.Chart(rows).encode(x=x)
    tip = [
        alt.Tooltip("ratio:N", title="compute : copy"),
        alt.Tooltip("said:N", title="efficiency"),
        alt.Tooltip("saved:Q", title="of serial's time saved", format=".0%"),
        alt.Tooltip("number:N", title="loop"),
    ]
    saved = y.copy()
    saved.shorthand = "saved:Q"
    one = alt.Chart(pd.DataFrame({"share": [1.0]})).mark_rule(color=GREEN, strokeDash=[6, 4])
    known = base.transform_filter("isValid(datum.share)")
    bars = base.mark_bar(color=_PALE, width={"band": 0.5}).encode(y=saved, tooltip=tip)
    text = base.mark_text(dy=-7, fontSize=11, color=GREY)
    layers = [
        bars,
        text.encode(y=saved, text=alt.Text("saved:Q", format=".0%")),
        one.encode(y=y),
        known.mark_line(color=BLUE, strokeWidth=2).encode(y=y),
        base.transform_filter("isValid(datum.share_low)")
        .mark_rule(color=BLUE, strokeWidth=2, opacity=0.55, clip=True)
        .encode(y=alt.Y("share_low:Q", scale=domain), y2="share_high:Q"),
        known.mark_point(color=BLUE, filled=True, size=70, opacity=1, shape="diamond").encode(
            y=y, tooltip=tip
        ),
    ]
    return titled(alt.layer(*layers), title, about, 280)


def bars(
    rows: pd.DataFrame, column: str, name: str, said: str, title: str, about: Sequence[str]
) -> Layers:
    """One bar per ordering: seconds, or MiB of the device's memory at the most."""
    top = float(rows[column].max())
    limits = alt.Scale(domain=[0, _ROOM * (top if top > 0 else 1.0)], nice=False)
    named = SECONDS if column == "seconds" else "format(datum.value, '~g')"
    axis = alt.Axis(tickCount=4, labelExpr=named)
    x = alt.X(f"{column}:Q", title=name, scale=limits, axis=axis)
    lanes = [_wrapped(lane) for lane in rows["lane"]]
    base = alt.Chart(_only_text(rows.assign(lane=lanes, said=rows[said]), column))
    base = base.encode(y=_lanes(lanes))
    return titled(alt.layer(*_bars(base, x, alt.value(BLUE))), title, about, 46 + 44 * len(lanes))


def round_trip(one: Trip, title: str, about: Sequence[str]) -> Layers:
    """The loops and their parts, with the bound for one and for two copy engines."""
    lanes = [_wrapped(lane) for lane in one.rows["lane"]]
    ideals = {} if one.known is None else one.known.ideals_s
    top = max([float(one.rows["seconds"].max()), *ideals.values()])
    limits = alt.Scale(domain=[0, _ROOM * top], nice=False)
    axis = alt.Axis(labelExpr=SECONDS, tickCount=4)
    x = alt.X("seconds:Q", title=f"seconds per loop ({LOWER})", scale=limits, axis=axis)
    base = drawn(one.rows.assign(lane=lanes)).encode(y=_lanes(lanes))
    names = {"serial": GREY, "default_stream": BLUE, THREE: BLUE}
    shades = [names.get(step, _PALE) for step in STEPS]
    color = alt.Color(
        "lane:N", scale=scale([_wrapped(words) for words in STEPS.values()], shades), legend=None
    )
    layers = _bars(base, x, color)
    for engines, at in ideals.items():
        rule = alt.Chart(pd.DataFrame({"seconds": [at]}))
        dashes = [6, 4] if engines == 2 else [2, 3]
        mark = rule.mark_rule(color=_ENGINES[engines], strokeWidth=2.5, strokeDash=dashes)
        layers.append(mark.encode(x=alt.X("seconds:Q", scale=limits)))
    words = [
        f"{'Dashed green' if engines == 2 else 'Dotted pink'}: ideal of {engines} copy "
        f"engine{'s' * (engines > 1)}, {units.format_seconds(at)}."
        for engines, at in sorted(ideals.items(), reverse=True)
    ]
    return titled(alt.layer(*layers), title, [*about, *words], 46 + 40 * len(lanes))


def _bars(base: alt.Chart, x: alt.X, color: Any) -> list[alt.Chart]:
    pale = alt.when("datum.status == 'ok'").then(alt.value(1.0)).otherwise(alt.value(0.3))
    tip = [alt.Tooltip("lane:N", title="way"), *about_run()]
    return [
        base.mark_bar(height={"band": 0.66}).encode(x=x, color=color, opacity=pale, tooltip=tip),
        base.mark_text(align="left", dx=9, fontSize=11, color=GREY).encode(x=x, text="said:N"),
        base.transform_filter("datum.status == 'failed'")
        .mark_point(shape=CROSS, size=120, strokeWidth=2.5, color=ORANGE)
        .encode(x=x),
    ]


def _only_text(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    """What a chart draws; no nested values."""
    told = "number interval launches why when run_id commit8 torch driver".split()
    return rows[["lane", "said", "status", column, *told]]


def _lanes(names: list[str]) -> alt.Y:
    axis = alt.Axis(labelExpr=_LINES, labelLimit=0, labelPadding=6, ticks=False, domain=False)
    return alt.Y("lane:N", title=None, sort=list(dict.fromkeys(names)), axis=axis)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _LANE_LENGTH))
