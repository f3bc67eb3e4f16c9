"""Curve: latency and bandwidth, of a line through the times over a size."""

from collections.abc import Iterator, Mapping

import numpy as np

from hostbench.core.units import GB, number_of
from hostbench.families.question import NOT_ASKED, Curve, Figure, Rows, valid, where
from hostbench.judge.conclude import LONGEST, SHORTEST
from hostbench.report import answer as base
from hostbench.report.answer import Answer, ScreenLine

MIN_SIZES = 4
"""Two sizes fix a line, a third checks it: with four the check means something."""
MIN_SPAN = 64
"""Largest over smallest size; over less, latency and bandwidth cannot be told apart."""
MAX_ERROR = 0.15
"""From this root mean square of the relative errors on, the times are no straight line."""


def answer(ask: Curve, group: Rows, rows: Rows) -> Answer:
    """A line for each of the series that has numbers."""
    size, figures, series = base.size_axis(group), list[Figure](), list[Rows]()
    if isinstance(ask.fits, str):
        chosen = [*base.grouped(group, [ask.fits])]
    else:
        chosen = [(dict(axes), where(group, **axes)) for axes in ask.fits]
    for axes, some in chosen:
        if known := base.ordered(some, size):
            series.append(known)
            name = " ".join(ask.word(axis, value) for axis, value in axes.items())
            figures += _figures(name, known, size)
    is_known = any(figure.value is not None for figure in figures)
    return base.made(
        ask,
        "figure" if is_known else "undecided",
        "" if figures else NOT_ASKED,
        [*figures, *base.limits(valid(group))],
        lost=group,
        lines=_lines(ask, series[0], size) if series else (),
    )


def _figures(name: str, rows: Rows, size: str) -> Iterator[Figure]:
    """Half speed is Hockney's n1/2: the size at which half of the bandwidth is reached."""
    times = {int(row.axes[size]): row.time for row in rows if SHORTEST <= row.time <= LONGEST}
    line = _fit(times)
    if any(row.is_oversubscribed for row in rows):  # they wait for a core, too: that is no latency
        line = "some of the times are oversubscribed"
    if isinstance(line, str):
        yield Figure(f"{name}: latency", None, "s", status="refused", reason=line)
        return
    latency_s, bytes_per_s, error = line
    quality = f"{len(times)} sizes, fit error {error:.0%}"
    yield Figure(f"{name}: latency", latency_s, "s", notes=(quality,))
    yield Figure(f"{name}: bandwidth", bytes_per_s / GB, "GB/s")
    yield Figure(f"{name}: half speed at", latency_s * bytes_per_s, "bytes")


def _lines(ask: Curve, rows: Rows, size: str) -> Iterator[ScreenLine]:
    """Up to four sizes of the first series, and where it gets fast, or up to where a cache makes it
    so: in the two digits that a curve needs; of less than 0.1 in one, or the line is too long for
    the screen."""
    rates = [(ask.word(size, row.axes[size]), int(row.axes[size]) / row.time / GB) for row in rows]
    if len(rates) < 2:
        return
    last, top = len(rates) - 1, max(rate for _, rate in rates)
    shown = [rates[i] for i in sorted({0, last // 3, 2 * last // 3, last})]
    figures = ", ".join(f"{name} {rate:.{1 + (rate >= 0.1)}g}" for name, rate in shown)
    cached = [name for (name, _), row in zip(rates, rows, strict=True) if row.is_cached]
    fast = next(name for name, rate in rates if 2 * rate >= top)
    verdict = f"up to {cached[-1]} cached" if cached else f"half speed: {fast}"
    yield ScreenLine(ask.fill(ask.screen, rows[0].axes), f"{figures} GB/s", verdict)


def _fit(times: Mapping[int, float]) -> tuple[float, float, float] | str:
    """Latency, bytes per second and root mean square error of the least-squares line of the
    relative errors of times, bytes -> positive seconds, so that every size counts alike; or why
    there is none.

    Minimises the sum over sizes of ((latency + bytes / bandwidth - time) / time)**2, which is
    linear in latency and 1 / bandwidth.
    """
    sizes, seconds = np.array([*times], float), np.array([*times.values()])
    if len(times) < MIN_SIZES:
        return f"{number_of(len(times), 'size')}; {MIN_SIZES} are needed"
    if sizes.max() < MIN_SPAN * sizes.min():
        return f"the sizes span less than a factor of {MIN_SPAN}"
    per_byte, latency_s = map(float, np.polyfit(sizes, seconds, 1, w=1 / seconds))
    error = float(np.sqrt(np.mean(((latency_s + sizes * per_byte) / seconds - 1) ** 2)))
    if per_byte <= 0:
        return "larger copies do not take longer"
    if error > MAX_ERROR:
        return f"the times are not a straight line: fit error {error:.0%}"
    if latency_s < 0:
        return "the line through the times has a latency below zero"
    return latency_s, 1 / per_byte, error
