"""scaling: what more ranks or workers make of a rate or a time."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hostbench.core.units import GB
from hostbench.judge.conclude import conclude
from hostbench.report.answer import (
    Answer,
    Axis,
    Chart,
    Figure,
    Ratio,
    ScreenLine,
    State,
    difference,
    in_unit,
)
from hostbench.report.kinds.curve import limits_in_words, near
from hostbench.report.kinds.question import (
    LOG_TIME,
    RATE,
    Question,
    axis_title,
    by_size,
    chart,
    few_launches,
    figure,
    rate_point,
    side_by_side,
    sizes_axis,
    time_point,
    without_number,
)
from hostbench.report.rows import Row, Rows, size_axis, valid, where

RateOf = Callable[[Row], float | None]
"""Bytes per second of a row that has a time and bytes; None where it is not defined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Question):
    """The figure at each number of ranks; with a `rate` its share of that at the fewest, where the
    launches establish that they differ.

    Answered at the largest size that has a number at 2 ranks or more, or at the smallest.
    """

    over: str = "num_ranks"
    rate: RateOf | None = None
    rate_name: str = ""
    undefined: str = "it is not defined here"
    """Why, where the rate is None."""
    smallest: bool = False
    about: Callable[[Row], str] | None = None
    """What is said of all ranks together, as of their backend."""
    by_size: str = ""
    """A second line of the first screen: the rate by size at the fewest ranks that have one."""

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        yield self.over, ()

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group)
        here = self._here(group, size)
        measured = sorted(valid(here), key=lambda row: int(row.axes[self.over]))
        fewest = next((row for row in measured if self._rate(row)), None)
        figures = [self._figure(row, fewest) for row in measured]
        rated = [one for one in figures if one.value is not None]
        said = ", ".join(map(_in_words, rated)) if len(rated) > 1 else "".join(map(str, rated))
        if not said:
            return self.unavailable(text, [row for row in group if not row.is_valid])
        nbytes = here[0].axes[size] if size else 0
        at = [self.word(size, nbytes) if size and nbytes else "", self.rate_name]
        where = ", ".join(filter(None, at))
        state, unsure = _undecided(figures, measured)
        return self.made(
            text,
            state,
            f"{where}: {said}{unsure}" if where else f"{said}{unsure}",
            figures=(*figures, *without_number(group, self)),
            notes=tuple(self._notes(measured)),
            chart=(self._over_sizes if self._has_sizes(group, size) else self._over_ranks)(
                group, size
            ),
        )

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        size = size_axis(group)
        measured = valid(self._here(group, size))
        measured = sorted(measured, key=lambda row: int(row.axes[self.over]))
        several = [row for row in measured if int(row.axes[self.over]) > 1] or measured
        with_rate = [row for row in several if self.rate is None or self._rate(row)]
        if not with_rate:
            return
        fewest, most = with_rate[0], with_rate[-1]
        shown = with_rate if len(with_rate) < 3 else [fewest, most]
        figures = [self._figure(row, fewest) for row in shown]
        ratio = figures[-1].ratio
        verdict = ""
        if ratio is not None:
            share = f"{100 * ratio.conclusion.factor:.0f} % of {ratio.to}"
            verdict = share if ratio.conclusion.is_different else difference(ratio.conclusion)
        if not verdict and most.is_oversubscribed:
            verdict = "oversubscribed"
        what = self.on_screen(most)
        yield ScreenLine(what=what, figures=side_by_side(figures), verdict=verdict)
        if not self.by_size or size is None:
            return
        same = where(rows, self.workload, **{self.over: fewest.axes[self.over]})
        line = sorted(valid(same), key=lambda row: int(row.axes[size]))
        known = [(row, rate / GB) for row in line if (rate := self._rate(row)) is not None][-3:]
        if len(known) > 1:
            yield ScreenLine(
                what=self.by_size.format(ranks=self.word(self.over, fewest.axes[self.over])),
                figures=by_size((self.word(size, row.axes[size]), rate) for row, rate in known),
                verdict="",
            )

    def _here(self, group: Rows, size: str | None) -> list[Row]:
        if size is None:
            return list(group)
        several = [row for row in valid(group) if int(row.axes[self.over]) > 1] or valid(group)
        sizes = {int(row.axes[size]) for row in several}
        picked = min(sizes) if self.smallest else max(sizes)
        return [row for row in group if row.axes[size] == picked]

    def _rate(self, row: Row) -> float | None:
        return self.rate(row) if self.rate is not None and row.nbytes and row.is_valid else None

    def _notes(self, measured: Rows) -> Iterator[str]:
        if self.about:
            yield self.about(measured[0])
        yield from limits_in_words(list(filter(None, map(self._rated, measured))))

    def _rated(self, row: Row) -> Row | None:
        """With this rate in place of its own, and its limits as they are for that."""
        rate = self._rate(row)
        if not rate or not row.gb_per_s:
            return None
        scale = rate / GB / row.gb_per_s
        names = (
            "gb_per_s",
            "ceiling_gb_per_s",
            "published_low_gb_per_s",
            "published_high_gb_per_s",
        )
        known = ((name, getattr(row, name)) for name in names)
        return replace(row, **{name: value * scale for name, value in known if value})

    def _figure(self, row: Row, fewest: Row | None) -> Figure:
        label = self.word(self.over, row.axes[self.over])
        note = "oversubscribed" if row.is_oversubscribed else ""
        if self.rate is None:
            return figure(label, row, note=note)
        rate = self._rate(row)
        if rate is None:
            why = self.undefined
            return Figure(label=label, value=None, unit="GB/s", status="refused", reason=why)
        ratio = None if fewest is None or fewest is row else self._beside(row, fewest)
        return Figure(label=label, value=rate / GB, unit="GB/s", ratio=ratio, note=note)

    def _beside(self, row: Row, fewest: Row) -> Ratio:
        """Compares how long the bytes of the fewest would take at this rate."""
        mine, theirs = self._rate(row) or 0.0, self._rate(fewest) or 0.0
        scale = theirs * fewest.time / (mine * row.time)
        scaled = {number: seconds * scale for number, seconds in row.by_launch.items()}
        to = self.word(self.over, fewest.axes[self.over])
        return Ratio(to=to, conclusion=conclude(scaled, fewest.by_launch), of_rates=True)

    def _has_sizes(self, group: Rows, size: str | None) -> bool:
        return self.rate is not None and len({row.axes.get(size or "") for row in group}) > 1

    def _over_sizes(self, group: Rows, size: str | None) -> Chart | None:
        """The picture of nccl-tests: the rate over sizes, a line for each number of ranks."""
        rated = [row for row in map(self._rated, group) if row is not None]
        points = [
            rate_point(row, float(row.axes[size or ""]), self.word(self.over, row.axes[self.over]))
            for row in rated
        ]
        top = max((point.y for point in points if point is not None), default=0.0)
        return chart("line", sizes_axis(size or ""), self._y(), points, rules=near(rated, top))

    def _over_ranks(self, group: Rows, size: str | None) -> Chart | None:
        """A line for each size."""
        points = []
        for row in group:
            ranks = float(row.axes[self.over])
            name = self.word(size, row.axes[size]) if size else ""
            if self.rate is None:
                points.append(time_point(row, ranks, name))
            elif (rate := self._rate(row)) is not None:
                points.append(rate_point(row, ranks, name, rate / GB))
        return chart("line", Axis(title=axis_title(self.over)), self._y(), points)

    def _y(self) -> Axis:
        return (
            replace(RATE, title=f"{self.rate_name}, GB/s", is_log=True) if self.rate else LOG_TIME
        )


def _undecided(figures: Sequence[Figure], rows: Rows) -> tuple[State, str]:
    """Whether the rates differ is not established of any, or of some; the end of the verdict."""
    held = [one.ratio.conclusion for one in figures if one.ratio is not None]
    unsure = [one for one in held if one.verdict == "undecided"]
    if not unsure:
        return "figure", ""
    few = few_launches(rows)
    of_which = "whether they differ" if len(unsure) == len(held) else "whether all of them differ"
    said = f"; {of_which} is undecided{few and f' ({few})'}"
    return ("undecided" if len(unsure) == len(held) else "figure"), said


def _in_words(figure: Figure) -> str:
    return f"{in_unit(figure.value or 0.0, figure.unit)} over {figure.label}"
