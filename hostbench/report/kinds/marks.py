"""What the charts of answers are made of: axes, marks, and the limits beside them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Literal

from hostbench.core import units
from hostbench.report.answer import Axis, Chart, FigureUnit, Point, Rule, in_unit
from hostbench.report.rows import Row, Rows, size_axis

LANES = Axis(title="")
RATE = Axis(title="GB/s", unit="GB/s", better="higher")
TIME = Axis(title="seconds per step", unit="s", better="lower")
LOG_TIME = replace(TIME, is_log=True)

FAR = 2.5
"""A limit further than this factor above the marks would squash them: it is only named."""


def axis_title(axis: str) -> str:
    """`bytes`, `batch bytes`, `ranks`: an axis as a chart calls it."""
    return axis.removeprefix("num_").replace("nbytes", "bytes").replace("_", " ")


def sizes_axis(axis: str) -> Axis:
    return Axis(title=axis_title(axis), unit="bytes", is_log=True)


def chart(
    mark: Literal["line", "bar"], x: Axis, y: Axis, points: Iterable[Point | None], **more: Any
) -> Chart | None:
    """None where there is nothing to draw."""
    drawn = tuple(point for point in points if point is not None)
    return Chart(mark=mark, x=x, y=y, points=drawn, **more) if drawn else None


def time_point(row: Row, x: float | str, series: str = "") -> Point | None:
    """A mark in seconds, where there is a number, valid or not."""
    if row.seconds is None:
        return None
    text = f"{row.case}: {units.format_seconds(row.seconds)}"
    return Point(
        x=x,
        y=row.seconds,
        series=series,
        low=row.low_s,
        high=row.high_s,
        status=row.status,
        text=f"{text}; {row.flags}" if row.flags else text,
    )


def rate_point(
    row: Row,
    x: float | str,
    series: str = "",
    rate: float | None = None,
    unit: FigureUnit = "GB/s",
) -> Point | None:
    """A mark in GB/s, or of another rate than the row's own where one is given."""
    rate = row.gb_per_s if rate is None else rate
    if rate is None or row.seconds is None:
        return None
    moved = rate * row.seconds
    return Point(
        x=x,
        y=rate,
        series=series,
        low=None if row.high_s is None else moved / row.high_s,
        high=None if row.low_s is None else moved / row.low_s,
        status=row.status,
        text=f"{row.case}: {in_unit(rate, unit)}",
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
