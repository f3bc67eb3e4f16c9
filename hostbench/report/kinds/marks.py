"""What the charts of answers are made of: axes, marks, and the limits beside them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.report.answer import Axis, Chart, FigureUnit, Point, Rule, in_unit
from hostbench.report.rows import Row, Rows, size_axis

LANES = Axis(title="")
RATE = Axis(title="GB/s", unit="GB/s", better="higher")
TIME = Axis(title="seconds per step", unit="s", better="lower")
LOG_TIME = replace(TIME, is_log=True)
_RATES: tuple[FigureUnit, ...] = ("GB/s", "items/s")
FAR = 2.5
"""A limit further than this factor above the marks would squash them: it is only named."""


def axis_of(axis: str) -> Axis:
    """`bytes`, `batch bytes`, `ranks`: an axis of cases as a chart calls it; sizes by powers."""
    title = axis.removeprefix("num_").replace("nbytes", "bytes").replace("_", " ")
    return Axis(title, "bytes", is_log=True) if counts_bytes(axis) else Axis(title)


def chart(
    mark: Literal["line", "bar"], x: Axis, y: Axis, points: Iterable[Point | None], **more: Any
) -> Chart | None:
    """None where there is nothing to draw."""
    drawn = tuple(point for point in points if point is not None)
    return Chart(mark=mark, x=x, y=y, points=drawn, **more) if drawn else None


def point(
    row: Row, x: Any, series: str = "", unit: FigureUnit = "s", value: float | None = None
) -> Point | None:
    """A mark where there is a number, valid or not: its time, else `value`, whose interval follows
    from that of the time where it is a rate."""
    y = row.seconds if unit == "s" else value
    if y is None or row.seconds is None:
        return None
    low, high = (row.ci_low_s, row.ci_high_s) if unit in ("s", *_RATES) else (None, None)
    if unit in _RATES:
        low, high = (y * row.seconds / end if end else None for end in (high, low))
    text = f"{row.case}: {in_unit(y, unit)}"
    return Point(
        x=x if isinstance(x, str) else float(x),
        y=y,
        series=series,
        low=low,
        high=high,
        status=row.status,
        text=f"{text}; {row.flags}" if row.flags else text,
    )


def _limits(rows: Rows) -> Iterator[tuple[str, str | None, float, float | None]]:
    """The largest limit and the published band of these rows: kind, words, GB/s from and to."""
    limited = [row for row in rows if row.ceiling_gb_per_s]
    if limited:
        best = max(limited, key=lambda row: row.ceiling_gb_per_s or 0)
        size, since = size_axis(limited), ""
        if size and len(limited) < len(rows):  # small copies may stay in a cache
            least = min(int(row.axes[size]) for row in limited)
            since = f" from {units.format_bytes(least)} on"
        yield f"limit{since}", best.ceiling, best.ceiling_gb_per_s or 0, None
    cited = [row for row in rows if row.published_low_gb_per_s and row.published_high_gb_per_s]
    if cited:
        low = min(row.published_low_gb_per_s or 0 for row in cited)
        high = max(row.published_high_gb_per_s or 0 for row in cited)
        yield "published", cited[0].published, low, high


def near_limits(rows: Rows, points: Iterable[Point | None]) -> tuple[Rule, ...]:
    """Those that do not squash the marks."""
    top = max((point.y for point in points if point is not None), default=0.0)
    known = ((f"{kind}: {what}", low, high) for kind, what, low, high in _limits(rows))
    return tuple(Rule(*rule) for rule in known if (rule[2] or rule[1]) <= FAR * top)


def limits_in_words(rows: Rows) -> Iterator[str]:
    for kind, what, low, high in _limits(rows):
        rate = f"{units.format_rate(low)}, " if high is None else ""
        yield f"{kind[:1].upper()}{kind[1:]}: {rate}{what}."
