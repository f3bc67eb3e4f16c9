"""The chart of allocation: two bars per size."""

from collections.abc import Sequence

import altair as alt
import pandas as pd
from charts import (
    CROSS,
    GREEN,
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

from hostbench.core import units

PLACES = {"cpu_then_move": ("create on the CPU, move", ORANGE), "direct": ("create there", GREEN)}


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
