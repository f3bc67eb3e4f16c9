"""curve: latency and bandwidth, of a line through the times over a size."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hostbench.core.case import counts_bytes
from hostbench.core.errors import UsageError
from hostbench.core.units import GB, number_of
from hostbench.families import declared
from hostbench.judge.conclude import LONGEST, SHORTEST
from hostbench.report.answer import Answer, Axis, Figure, ScreenLine, in_words
from hostbench.report.kinds import marks
from hostbench.report.kinds.question import Question, unseen
from hostbench.report.rows import Rows, grouped, ordered, size_axis, valid, varying, where

MIN_SIZES = 4
"""Two sizes fix a line, a third checks it: with four the check means something."""
MIN_SPAN = 64
"""Largest over smallest size; over less, latency and bandwidth cannot be told apart."""
MAX_ERROR = 0.15
"""From this root mean square of the relative errors on, the times are no straight line."""
_CROWDED = "some of the times are oversubscribed"
"""Why times hold no latency: ranks wait for a core as well as for each other."""
_RATE = Axis("GB/s", "GB/s", better="higher")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The line seconds = latency + bytes / bandwidth, or why there is none."""

    latency_s: float = math.nan
    bytes_per_s: float = math.nan
    error: float = math.nan
    """Root mean square of (line - time) / time."""
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve(Question):
    """Latency and bandwidth of each of these series that has numbers."""

    fits: str | tuple[Mapping[str, Any], ...]
    """An axis: a line for each value; or the values of each line."""

    def check(self) -> None:
        Question.check(self)
        work = declared(self.workload)
        if work and not any(map(counts_bytes, work.axes)):
            raise UsageError(f"{self.text!r} needs sizes: {work.name} has no axis ...bytes")

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from Question.chosen(self)
        if isinstance(self.fits, str):
            yield self.fits, ()
        else:
            yield from (pair for axes in self.fits for pair in axes.items())

    def asks(self, group: Rows) -> bool:
        """A line needs sizes."""
        return Question.asks(self, group) and size_axis(group) in varying(group)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group) or ""
        if isinstance(self.fits, str):
            chosen = [*grouped(group, [self.fits])]
        else:
            chosen = [(dict(axes), where(group, **axes)) for axes in self.fits]
        series = [(axes, ordered(some, size)) for axes, some in chosen if valid(some)]
        figures, is_fitted = list[Figure](), False
        for axes, some in series:
            name = " ".join(self.word(axis, value) for axis, value in axes.items())
            times = {
                int(row.axes[size]): row.time for row in some if SHORTEST <= row.time <= LONGEST
            }
            crowded = any(row.is_oversubscribed for row in some)
            line = Fit(refused=_CROWDED) if crowded else fit(times)
            figures += _figures(name, line, len(times))
            is_fitted |= not line.refused
        axes_of_line = [axis for axis in varying(group) if axis != size]
        points = [
            marks.point(r, r.axes[size], self.name(r, axes_of_line), "GB/s", r.gb_per_s)
            for r in group
        ]
        rules = marks.near_limits(valid(group), points)
        return self.made(
            text,
            "figure" if is_fitted else "undecided",
            "; ".join(in_words(figures)) or unseen(group),
            figures,
            lost=group,
            lines=self._lines(series[0][1], size) if series else (),
            notes=tuple(marks.limits_in_words(valid(group))),
            chart=marks.lines(size, _RATE, points, rules=rules),
        )

    def _lines(self, series: Rows, size: str) -> Iterator[ScreenLine]:
        """Up to four sizes of the first series, and where it gets fast: in the two digits that a
        curve needs; of less than 0.1 in one, or the line is too long for the screen."""
        rates = [
            (self.word(size, row.axes[size]), int(row.axes[size]) / row.time / GB) for row in series
        ]
        if len(rates) < 2:
            return
        last, top = len(rates) - 1, max(rate for _, rate in rates)
        shown = [rates[i] for i in sorted({0, last // 3, 2 * last // 3, last})]
        figures = ", ".join(f"{name} {rate:.{1 + (rate >= 0.1)}g}" for name, rate in shown)
        fast = next(name for name, rate in rates if 2 * rate >= top)
        yield ScreenLine(self.on_screen(series[0]), f"{figures} GB/s", f"half speed: {fast}")


def _figures(name: str, line: Fit, num_sizes: int) -> list[Figure]:
    """Half speed is Hockney's n1/2: the size at which half of the bandwidth is reached."""
    if line.refused:
        return [Figure(f"{name}: latency", None, "s", status="refused", reason=line.refused)]
    quality = f"{num_sizes} sizes, fit error {line.error:.0%}"
    return [
        Figure(f"{name}: latency", line.latency_s, "s", note=quality),
        Figure(f"{name}: bandwidth", line.bytes_per_s / GB, "GB/s"),
        Figure(f"{name}: half speed at", line.latency_s * line.bytes_per_s, "bytes"),
    ]


def fit(times: Mapping[int, float]) -> Fit:
    """The least-squares line of the relative errors of times, bytes -> positive seconds, so that
    every size counts alike.

    Minimises the sum over sizes of ((latency + bytes / bandwidth - time) / time)**2, which is
    linear in latency and 1 / bandwidth.
    """
    sizes, seconds = np.array([*times], float), np.array([*times.values()])
    if len(times) < MIN_SIZES:
        return Fit(refused=f"{number_of(len(times), 'size')}; {MIN_SIZES} are needed")
    if sizes.max() < MIN_SPAN * sizes.min():
        return Fit(refused=f"the sizes span less than a factor of {MIN_SPAN}")
    per_byte, latency_s = map(float, np.polyfit(sizes, seconds, 1, w=1 / seconds))
    error = float(np.sqrt(np.mean(((latency_s + sizes * per_byte) / seconds - 1) ** 2)))
    if per_byte <= 0:
        return Fit(refused="larger copies do not take longer")
    if error > MAX_ERROR:
        return Fit(refused=f"the times are no straight line: fit error {error:.0%}")
    if latency_s < 0:
        return Fit(refused="the line through the times has a latency below zero")
    return Fit(latency_s=latency_s, bytes_per_s=1 / per_byte, error=error)
