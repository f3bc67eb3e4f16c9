"""What the charts of answers are made of: axes, marks, and the limits beside them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.report.answer import Axis, Chart, Figure, FigureUnit, Point, Rule, in_unit
from hostbench.report.rows import Row, Rows, size_axis

Times = Callable[[Row], float]
LANES = Axis(title="")
TIME = Axis(title="seconds per step", unit="s", better="lower")
ABOVE = 1.005
"""Of a limit: what prints as more than 100 %."""
FAR = 2.5
"""A limit further than this factor above the marks would squash them: it is only named."""
_DECADE = 10
"""Numbers that span more are drawn by powers."""


def lines(axis: str, y: Axis, points: Iterable[Point | None], **more: Any) -> Chart | None:
    """Over an axis of cases; None where there is nothing to draw."""
    drawn = tuple(filter(None, points))
    if not drawn:
        return None
    x = replace(axis_of(axis), is_log=_is_wide([float(point.x) for point in drawn]))
    y = replace(y, is_log=y.unit != "share" and _is_wide([point.y for point in drawn]))
    return Chart(mark="line", x=x, y=y, points=drawn, **more)


def axis_of(axis: str) -> Axis:
    """`bytes`, `batch bytes`, `ranks`: an axis of cases as a chart calls it; sizes by powers."""
    title = axis.removeprefix("num_").replace("nbytes", "bytes").replace("_", " ")
    return Axis(title, "bytes", is_log=True) if counts_bytes(axis) else Axis(title)


def _is_wide(numbers: Sequence[float]) -> bool:
    return 0 < _DECADE * min(numbers) < max(numbers)


def bars(y: Axis, points: Iterable[Point | None], **more: Any) -> Chart | None:
    """A lane for each; None where there is nothing to draw."""
    drawn = tuple(filter(None, points))
    return Chart(mark="bar", x=LANES, y=y, points=drawn, **more) if drawn else None


def bars_of(title: str, figures: Iterable[Figure]) -> Chart | None:
    """A lane for each figure that has a value, in the unit of the first."""
    known = [figure for figure in figures if figure.value is not None]
    points = [
        Point(figure.label, figure.value or 0.0, low=figure.low, high=figure.high, text=str(figure))
        for figure in known
    ]
    return bars(Axis(title, known[0].unit), points) if known else None


def point(
    row: Row, x: Any, series: str = "", unit: FigureUnit = "s", value: float | None = None
) -> Point | None:
    """A mark where there is a number, valid or not: its time, else `value`, whose interval follows
    from that of the time where it is a rate."""
    y = row.seconds if unit == "s" else value
    if y is None or row.seconds is None:
        return None
    low, high = row.ci_low_s, row.ci_high_s
    if unit == "share":
        low = high = None
    elif unit != "s":
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


def _limits(rows: Rows, times: Times) -> Iterator[tuple[str, str | None, float, float | None]]:
    """The largest limit, unless a rate exceeds it, and the published band of these rows: kind,
    words, GB/s from and to."""
    limits = [(row.ceiling_gb_per_s * times(row), row) for row in rows if row.ceiling_gb_per_s]
    if limits:
        limit, best = max(limits, key=lambda known: known[0])
        size, since = size_axis([best]), ""
        if size and len(limits) < len(rows):  # small copies may stay in a cache
            least = min(int(row.axes[size]) for _, row in limits)
            since = f" from {units.format_bytes(least)} on"
        if max((row.gb_per_s or 0.0) * times(row) for _, row in limits) < ABOVE * limit:
            yield f"limit{since}", best.ceiling, limit, None
    cited = [row for row in rows if row.published_low_gb_per_s and row.published_high_gb_per_s]
    if cited:
        low = min((row.published_low_gb_per_s or 0) * times(row) for row in cited)
        high = max((row.published_high_gb_per_s or 0) * times(row) for row in cited)
        yield "published", cited[0].published, low, high


def near_limits(
    rows: Rows, points: Iterable[Point | None], times: Times = lambda row: 1.0
) -> tuple[Rule, ...]:
    """Those that do not squash the marks. `times`: a row's rate as drawn over the stored one."""
    top = max((point.y for point in points if point is not None), default=0.0)
    known = ((f"{kind}: {what}", low, high) for kind, what, low, high in _limits(rows, times))
    return tuple(Rule(*rule) for rule in known if (rule[2] or rule[1]) <= FAR * top)


def limits_in_words(rows: Rows, times: Times = lambda row: 1.0) -> Iterator[str]:
    for kind, what, low, high in _limits(rows, times):
        rate = f"{units.format_rate(low)}, " if high is None else ""
        yield f"{kind[:1].upper()}{kind[1:]}: {rate}{what}."
