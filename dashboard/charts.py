"""Frame -> altair chart; no streamlit. Each says hardware, metric, unit and direction.

Colours keep a contrast of 3.7 and more on white and on near-black, and hue, dash and shape say the
same thing twice.
"""

import textwrap
from collections.abc import Sequence
from typing import Literal, TypeAlias

import altair as alt
import pandas as pd

from hostbench.core.units import GIB, KIB, MIB

BLUE, ORANGE, GREEN, PINK, GREY = "#1F83C6", "#D1661C", "#158F6B", "#B8639A", "#7A828C"
CROSS = "M-1,-1L1,1M-1,1L1,-1"
TICK = "M0,-1.4L0,1.4"

Layers: TypeAlias = alt.LayerChart | alt.FacetChart
"""What alt.layer returns; never a facet here."""

LOWER = "lower is better"
HIGHER = "higher is better"

SECONDS = "replace(format(datum.value, '.3~s'), '\u00b5', 'u') + 's'"
BYTES = (
    f"datum.value >= {GIB} ? format(datum.value / {GIB}, '~g') + ' GiB' : "
    f"datum.value >= {MIB} ? format(datum.value / {MIB}, '~g') + ' MiB' : "
    f"format(datum.value / {KIB}, '~g') + ' KiB'"
)

_FIELDS = frozenset(
    (
        "x y x2 y2 step low high kind rate number interval launches why when run_id commit8 "
        "torch driver mode call size nbytes gb_per_s rate_low rate_high asyncness status seconds "
        "what floor lane end said share share_low share_high ranks bus algorithm hollow "
        "scaling state since change cause triage"
    ).split()
)

_TITLE_LENGTH, _ABOUT_LENGTH = 42, 52
"""Signs in a line that fit over a chart on a telephone."""


def drawn(rows: pd.DataFrame) -> alt.Chart:
    """A chart over the columns that charts use; axes of other workloads stay out."""
    return alt.Chart(rows[[column for column in rows if column in _FIELDS]])


def titled(chart: Layers, title: str, about: Sequence[str], height: int) -> Layers:
    """The chart with its title, what it was measured on, and its size."""
    heading = alt.TitleParams(
        text=textwrap.wrap(title, _TITLE_LENGTH),
        subtitle=[part for line in about for part in textwrap.wrap(line, _ABOUT_LENGTH)],
        anchor="start",
        fontSize=15,
        subtitleFontSize=12,
        subtitleColor=GREY,
        offset=8,
    )
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return chart.properties(title=heading, width="container", height=height, autosize=fit)


def legend(
    orient: Literal["top", "bottom"] = "top", *, dashed: bool = False, columns: int = 2
) -> alt.Legend:
    """Over or under the chart, to fit a telephone; `dashed` where the dash is what it explains."""
    drawn_as = {
        "orient": orient,
        "title": None,
        "columns": columns,
        "symbolSize": 90,
        "symbolOpacity": 1,
        "labelFontSize": 11,
        "columnPadding": 8,
    }
    solid = {} if dashed else {"symbolDash": [1, 0], "symbolStrokeWidth": 1.5}
    return alt.Legend.from_dict({**drawn_as, **solid, "labelLimit": 260, "offset": 4})


def scale(names: Sequence[str], values: Sequence[str | Sequence[float]]) -> alt.Scale:
    """Each name's value, in this order."""
    return alt.Scale(domain=list(names), range=list(values))


def size_axis(rows: pd.DataFrame, title: str = "bytes per copy") -> alt.X:
    """Bytes on a logarithmic axis with a label at each size that was measured."""
    sizes = sorted({int(size) for size in rows["nbytes"]})
    axis = alt.Axis(values=sizes, labelExpr=BYTES, labelOverlap=True, labelFlush=False, grid=False)
    log = alt.Scale(type="log", base=2, nice=False, padding=14)
    return alt.X("nbytes:Q", title=title, axis=axis, scale=log)


def about_run() -> list[alt.Tooltip]:
    """What a pointer says of any point: fixed titles, text from the frame."""
    named = {
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
    return [alt.Tooltip(f"{key}:N", title=text) for key, text in named.items()]
