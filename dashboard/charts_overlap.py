"""The charts of overlap: bars of seconds per loop against the ideal, and efficiency."""

import math
import textwrap
from collections.abc import Hashable, Sequence
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
    SECONDS,
    Layers,
    about_run,
    drawn,
    legend,
    scale,
    titled,
)
from derive_overlap import HALVES, SERIAL, WORDS, Group

from hostbench.core import units
from hostbench.report.overlap import SCHEDULES

HEIGHT = 330
MEMORIES = {"pageable": (ORANGE, "circle"), "pinned": (BLUE, "diamond")}
_LABEL_LENGTH = 24
_LINES = "split(datum.value, '\\n')"
_ROOM = 1.4
"""For the numbers behind the bars, whose medians alone set the scale."""
_CLIPPED = 0.8
"""An interval ends here at the latest."""
_NARROWEST, _WIDEST = -0.5, 1.5


def bars(group: Group, schedules: Sequence[str], title: str, about: Sequence[str]) -> Layers:
    """One bar per way to write the loop; the ideal is a dashed line over the whole loops.

    The charts of one size show the same `schedules`, so that they line up.
    """
    lanes = [_wrapped(WORDS[schedule]) for schedule in schedules]
    top = _ROOM * float(group.rows["seconds"].max())
    rows = _bar_rows(group.rows, lanes, top)
    limits = alt.Scale(domain=[0, top], nice=False)
    axis = alt.Axis(labelExpr=SECONDS, tickCount=4)
    x, low, end = (
        alt.X(name, title=f"seconds per loop ({LOWER})", scale=limits, axis=axis)
        for name in ("seconds:Q", "low:Q", "end:Q")
    )
    base = drawn(rows).encode(y=_lanes(lanes))
    pale = alt.when("datum.status == 'ok'").then(alt.value(1.0)).otherwise(alt.value(0.3))
    color = alt.Color("lane:N", scale=_colors(group.memory), legend=None)
    full = base.mark_bar(height={"band": 0.68})
    text = {
        dx: base.mark_text(align="left", dx=dx, fontSize=11, color=GREY, lineBreak="\n").encode(
            x=end, text="said:N"
        )
        for dx in (5, 12)
    }
    layers = [
        full.encode(x=x, color=color, opacity=pale, tooltip=_tooltip()),
        base.transform_filter("datum.low != null && datum.status == 'ok'")
        .mark_rule(strokeWidth=2, color=GREY)
        .encode(x=low, x2="high:Q"),
        text[5].transform_filter("datum.status != 'failed'"),
        text[12].transform_filter("datum.status == 'failed'"),
        base.transform_filter("datum.status == 'failed' && datum.seconds != null")
        .mark_point(shape=CROSS, size=120, strokeWidth=2.5, color=ORANGE)
        .encode(x=x),
    ]
    if group.ideal_s is not None:
        layers.append(_bound(group.ideal_s, limits, lanes))
    return titled(alt.layer(*layers), title, [*about, _ideal_in_words(group)], HEIGHT)


def _bar_rows(rows: pd.DataFrame, lanes: Sequence[str], top: float) -> pd.DataFrame:
    """A row per lane: its interval, cut off before `top`, and what is written behind the bar."""
    rows = rows.assign(
        lane=[_wrapped(what) for what in rows["what"]],
        low=rows["ci_low_s"],
        high=rows["ci_high_s"],
    )
    rows["said"] = [_said(row, _CLIPPED * top) for row in rows.to_dict("records")]
    rows["low"], rows["high"] = (rows[side].clip(upper=_CLIPPED * top) for side in ("low", "high"))
    rows["end"] = rows[["seconds", "high"]].max(axis=1).fillna(0.0)
    missing = [lane for lane in lanes if lane not in set(rows["lane"])]
    if missing:
        said = {"lane": missing, "said": "not in this run", "end": 0.0, "status": "not measured"}
        rows = pd.concat([rows, pd.DataFrame(said)])
    return rows


def _said(row: dict[Hashable, Any], end: float) -> str:
    """The bar's number, or why there is none; an interval that leaves the chart is written out."""
    if pd.isna(row["seconds"]):
        return str(row["status"])
    is_wide = row["status"] == "ok" and row["high"] > end
    return f"{row['number']}\n{row['interval']}" if is_wide else str(row["number"])


def _ideal_in_words(group: Group) -> str:
    if group.ideal_s is None:
        return "No ideal: the efficiency is refused."
    return f"Dashed: ideal {units.format_seconds(group.ideal_s)}, a bound, not measured."


def _bound(at: float, limits: alt.Scale, lanes: list[str]) -> alt.Chart:
    first = lanes.index(_wrapped(WORDS["serial"]))
    ends = {"seconds": [at], "lane": [lanes[first]], "last": [lanes[-1]]}
    line = alt.Chart(pd.DataFrame(ends))
    rule: alt.Chart = line.mark_rule(color=GREEN, strokeWidth=2.5, strokeDash=[6, 4])
    return rule.encode(
        x=alt.X("seconds:Q", scale=limits),
        y=_lanes(lanes).bandPosition(0),
        y2=alt.Y2("last:N", bandPosition=1),
    )


def _colors(memory: str) -> alt.Scale:
    """Halves and serial in grey, what overlaps in the colour of its memory."""
    color = MEMORIES.get(memory, (GREEN, "square"))[0]
    names = [_wrapped(words) for words in WORDS.values()]
    return scale(names, [_PALE] * len(HALVES) + [GREY] * len(SERIAL) + [color] * len(SCHEDULES))


_PALE = "#A9B0B8"


def efficiency(rows: pd.DataFrame, title: str, about: Sequence[str]) -> Layers:
    """A point per way and memory with its interval: 0 is serial, 1 is the ideal."""
    rows = rows[rows["schedule"].isin(list(SCHEDULES)) & (rows["status"] == "ok")]
    low, high = _limits(rows)
    lanes = [_wrapped(text) for name, text in SCHEDULES.items() if name in set(rows["schedule"])]
    rows = _share_rows(rows, low, high)
    limits = alt.Scale(domain=[low, high], nice=False)
    named = (
        "datum.value == 0 ? '0 serial' : datum.value == 1 ? '1 ideal' : format(datum.value, '~g')"
    )
    axis = alt.Axis(labelExpr=named, values=[0, 0.5, 1])
    name = f"efficiency ({HIGHER})"
    x, start, anchor = (
        alt.X(field, title=name, scale=limits, axis=axis)
        for field in ("share:Q", "share_low:Q", "end:Q")
    )
    names = [memory for memory in MEMORIES if memory in set(rows["memory"])]
    kinds = [MEMORIES[memory] for memory in names]
    color = alt.Color("mode:N", scale=scale(names, [one[0] for one in kinds]), legend=legend())
    shape = alt.Shape("mode:N", scale=scale(names, [one[1] for one in kinds]), legend=legend())
    offset = alt.YOffset("mode:N", sort=names)
    base = drawn(rows).encode(y=_lanes(lanes), yOffset=offset, color=color)
    said = base.transform_filter("datum.kind == 'said'")
    layers = [
        _ends(limits),
        said.transform_filter("datum.share_low != null")
        .mark_rule(strokeWidth=2, opacity=0.55)
        .encode(x=start, x2="share_high:Q"),
        said.mark_point(size=60, filled=True, opacity=1).encode(
            x=x, shape=shape, tooltip=_tooltip()
        ),
        base.transform_filter("datum.share < 0.5")
        .mark_text(dy=-10, dx=7, align="left", fontSize=10.5)
        .encode(x=anchor, text="said:N"),
        base.transform_filter("datum.share >= 0.5")
        .mark_text(dy=-10, dx=-7, align="right", fontSize=10.5)
        .encode(x=anchor, text="said:N"),
    ]
    return titled(alt.layer(*layers), title, about, HEIGHT)


def _share_rows(rows: pd.DataFrame, low: float, high: float) -> pd.DataFrame:
    """A row per point, clipped to the scale, and what is written beside it."""
    refused = rows["share"].isna()
    share = rows["share"].fillna(0.0).clip(low, high)
    return rows.assign(
        lane=[_wrapped(what) for what in rows["what"]],
        mode=rows["memory"],
        said=rows["efficiency"].where(~refused, "not said"),
        share=share,
        share_low=rows["share_low"].clip(low, high),
        share_high=rows["share_high"].clip(low, high),
        kind=refused.map({True: "refused", False: "said"}),
        end=share.clip(0.0, 1.0),
    )


def _limits(rows: pd.DataFrame) -> tuple[float, float]:
    """From serial to ideal, further for every point, and somewhat further for intervals."""
    values = rows[["share", "share_low", "share_high"]]
    low, high = values.min().min(), values.max().max()
    if math.isnan(low):
        return -0.1, 1.1
    first, last = rows["share"].min() - 0.1, rows["share"].max() + 0.1
    return min(first, max(_NARROWEST, min(-0.1, low))), max(last, min(_WIDEST, max(1.1, high)))


def _ends(limits: alt.Scale) -> alt.Chart:
    ends = alt.Chart(pd.DataFrame({"share": [0.0, 1.0]}))
    rule: alt.Chart = ends.mark_rule(color=GREEN, strokeDash=[6, 4], strokeWidth=1.5)
    return rule.encode(x=alt.X("share:Q", scale=limits))


def _lanes(names: list[str]) -> alt.Y:
    """A lane for every way to write the loop, so that neighbouring charts line up."""
    axis = alt.Axis(labelExpr=_LINES, labelLimit=0, labelPadding=6, ticks=False, domain=False)
    domain = alt.Scale(domain=names)
    return alt.Y("lane:N", title=None, sort=names, scale=domain, axis=axis)


def _wrapped(text: str) -> str:
    return "\n".join(textwrap.wrap(text, _LABEL_LENGTH))


def _tooltip() -> list[alt.Tooltip]:
    first = [
        alt.Tooltip("what:N", title="loop"),
        alt.Tooltip("said:N", title="here"),
        alt.Tooltip("asyncness:Q", title="asyncness", format=".2f"),
    ]
    return first + about_run()
