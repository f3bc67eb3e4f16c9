"""scaling: what more of something makes of a time or a rate: ranks, workers, items in a batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hostbench.core import units
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Axis, Chart, Figure, Ratio, Rule, ScreenLine, State
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.compare import Beside
from hostbench.report.kinds.question import Question, figure, side_by_side
from hostbench.report.rows import Row, Rows, first, ordered, size_axis, valid, varying, where

RateOf = Callable[[Row], float | None]
"""Bytes per second of a row that has a time and bytes; None where it is not defined."""


def items_per_s(row: Row, axis: str) -> float:
    """Of the items that the axis counts in each step."""
    return int(row.axes[axis]) / row.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Question):
    """The figure at each count: a time, or a rate with its share of that at the fewest.

    With `enough` the verdict is the fewest than which no more is faster. Of several sizes it is the
    largest that has a number at a count of 2 or more, or the smallest.
    """

    over: str = "num_ranks"
    enough: bool = False
    per_item: bool = False
    """The axis counts what one step does: items per second are shown and compared."""
    rate: RateOf | None = None
    rate_name: str = ""
    undefined: str = "it is not defined here"
    """Why, where the rate is None."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Axes that differ in a case that each is held against: the step without what is counted."""
    alone: Beside | None = None
    """The case of one process: what is left of its speed where each of several does as much, or so
    many parts of it (`parts`)."""
    parts: Callable[[Row], int] = lambda row: 1
    note: Callable[[Row], str] = lambda row: "oversubscribed" if row.is_oversubscribed else ""
    about: Callable[[Row], str] | None = None
    """What is said of all counts together, as of the ranks' backend."""
    smallest: bool = False
    by_size: str = ""
    """A second line of the first screen: the rate by size at the fewest that have one."""

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        yield self.over, ()
        yield from questions.choices(self.beside)

    def asks(self, group: Rows) -> bool:
        return Question.asks(self, group) and (not self.enough or self.over in varying(group))

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group)
        group = [*self._one(group, rows), *group]
        measured = self._measured(group, size)
        floor = first(rows, self.workload, **{**self.where, **self.beside}) if self.beside else None
        figures = [self._figure(row, measured, floor) for row in measured]
        conclude_all = self._fewest if self.enough else self._values
        state, verdict = conclude_all(measured, figures)
        if not verdict:
            return self.unavailable(text, [row for row in group if not row.is_valid])
        rated = [row for row in map(self._rated, measured) if row is not None]
        return self.made(
            text,
            state,
            verdict,
            figures=(*figures, *questions.without_number(group, self)),
            notes=(
                *([self.about(measured[0])] if self.about else []),
                *marks.limits_in_words(rated),
            ),
            chart=self._chart(group, size, floor),
        )

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        size = size_axis(group)
        measured = self._measured(group, size)
        if self.enough:
            yield from self._line_of_difference(measured)
            return
        several = [row for row in measured if self._count(row) > 1] or measured
        rated = [row for row in several if self.rate is None or self._rate(row)]
        if not rated:
            return
        shown = rated if len(rated) < 3 else [rated[0], rated[-1]]
        figures = [self._figure(row, rated) for row in shown]
        verdict = "oversubscribed" if rated[-1].is_oversubscribed else ""
        if ratio := figures[-1].ratio:
            share = f"{100 * ratio.conclusion.factor:.0f} % of {ratio.to}"
            is_different = ratio.conclusion.is_different
            verdict = share if is_different else answers.difference(ratio.conclusion)
        pairs = ((each.label, each) for each in figures)
        yield ScreenLine(
            what=self.on_screen(rated[-1]), figures=side_by_side(pairs), verdict=verdict
        )
        if self.by_size and size:
            yield from self._line_by_size(rated[0], where(rows, self.workload), size)

    def _line_of_difference(self, measured: Rows) -> Iterator[ScreenLine]:
        """The fewest and the count that differs most from it."""
        if len(measured) < 2:
            return
        others = [(row, self._against(row, measured[0])) for row in measured[1:]]
        row, conclusion = max(others, key=lambda other: answers.weight(other[1]))
        shown = measured if len(measured) <= 3 else [measured[0], row]
        what, name = self.on_screen(row), self._short(row)
        yield ScreenLine(
            what=what,
            figures=side_by_side((self._short(each), self._figure(each, [])) for each in shown),
            verdict=answers.difference(conclusion, name),
            conclusion=conclusion,
            learnt=f"{what}: {name}",
        )

    def _line_by_size(self, fewest: Row, rows: Rows, size: str) -> Iterator[ScreenLine]:
        same = ordered(where(rows, **{self.over: fewest.axes[self.over]}), size)
        rates = [
            (self.word(size, row.axes[size]), rate / units.GB)
            for row in same
            if (rate := self._rate(row)) is not None
        ]
        if len(rates) > 1:
            what = self.by_size.format(ranks=self._name(fewest))
            yield ScreenLine(what=what, figures=questions.rates_by_size(rates[-3:]), verdict="")

    def _measured(self, group: Rows, size: str | None) -> list[Row]:
        """The rows with a number at the one size, the fewest first."""
        known = ordered(group, self.over)
        if size is None:
            return known
        sizes = {int(row.axes[size]) for row in known if self._count(row) > 1}
        sizes = sizes or {int(row.axes[size]) for row in known}
        return where(known, **{size: min(sizes) if self.smallest else max(sizes)})

    def _fewest(self, measured: Rows, figures: Sequence[Figure]) -> tuple[State, str]:
        """The fewest than which no more is faster, and those that are slower."""
        best, more = measured[0], set[str]()
        for position, best in enumerate(measured):
            more = {self._against(other, best).verdict for other in measured[position + 1 :]}
            if "faster" not in more:
                break
        if few := questions.few_launches(measured):
            return "undecided", f"undecided: {few}"
        others = [(row, self._against(row, best)) for row in measured if row is not best]
        if others and all(conclusion.verdict == "undecided" for _, conclusion in others):
            return "undecided", answers.difference(max((c for _, c in others), key=answers.weight))
        slower = [
            f"{self._name(row)} {units.format_factor(1 / conclusion.factor)}"
            for row, conclusion in others
            if conclusion.verdict == "slower"
        ]
        figure_of_best = figures[measured.index(best)]
        value = answers.in_unit(figure_of_best.value or 0.0, figure_of_best.unit)
        value += "" if self.per_item else " a step"
        none = "no difference seen with more" if "undecided" in more else "more is no faster"
        verdict = f"{self._name(best)}: {value}{', and ' + none if more else ''}"
        return "figure", verdict + (f"; slower: {answers.joined(slower)}" if slower else "")

    def _values(self, measured: Rows, figures: Sequence[Figure]) -> tuple[State, str]:
        """Each count's figure, and whether the launches establish that they differ."""
        rated = [each for each in figures if each.value is not None]
        if not rated:
            return "unavailable", ""
        values = [f"{answers.in_unit(f.value or 0.0, f.unit)} over {f.label}" for f in rated]
        verdict = ", ".join(values) if len(rated) > 1 else str(rated[0])
        size = size_axis(measured)
        at = [self.word(size, measured[0].axes[size])] if size and measured[0].axes[size] else []
        prefix = ", ".join(filter(None, [*at, self.rate_name]))
        verdict = f"{prefix}: {verdict}" if prefix else verdict
        compared = [each.ratio.conclusion for each in figures if each.ratio]
        unsure = [conclusion for conclusion in compared if conclusion.verdict == "undecided"]
        if not unsure:
            return "figure", verdict
        few = questions.few_launches(measured)
        all_unsure = len(unsure) == len(compared)
        which = "whether they differ" if all_unsure else "whether all of them differ"
        verdict += f"; {which} is undecided{few and f' ({few})'}"
        return "undecided" if all_unsure else "figure", verdict

    def _one(self, group: Rows, rows: Rows) -> list[Row]:
        if self.alone is None:
            return []
        workload, axes = self.alone(group[0])
        return valid(where(rows, workload, **axes))[:1]

    def _count(self, row: Row) -> int:
        return int(row.axes[self.over])

    def _name(self, row: Row) -> str:
        return self.word(self.over, row.axes[self.over])

    def _short(self, row: Row) -> str:
        """The count alone of a rate per item, which says what is counted."""
        return str(row.axes[self.over]) if self.per_item else self._name(row)

    def _rate(self, row: Row) -> float | None:
        """Items or bytes per second, or steps of one's work."""
        if self.per_item:
            return items_per_s(row, self.over)
        if self.alone is not None:
            return 1 / (self.parts(row) * row.time)
        return self.rate(row) if self.rate is not None and row.nbytes and row.is_valid else None

    def _against(self, row: Row, other: Row) -> Conclusion:
        """By the time of a step, or of so much as the other does in a step."""
        mine, theirs = self._rate(row), self._rate(other)
        share = theirs * other.time / (mine * row.time) if mine and theirs else 1.0
        return conclude({n: s * share for n, s in row.by_launch.items()}, other.by_launch)

    def _figure(self, row: Row, measured: Rows, floor: Row | None = None) -> Figure:
        label, note, rate = self._name(row), self.note(row), self._rate(row)
        if self.per_item:
            return Figure(label=label, value=rate, unit="items/s", note=note)
        if self.rate is None:
            ratio = None
            if floor is not None:
                to = " ".join(self.word(axis, value) for axis, value in self.beside.items())
                ratio = Ratio(to=to, conclusion=self._against(row, floor))
            elif self.alone is not None and row is not measured[0]:
                left = self._against(row, measured[0])
                ratio = Ratio(to=self._name(measured[0]), conclusion=left, of_rates=True)
                if left.is_different and not left.is_few:
                    between = f"99 % interval {left.low or 0:.0%} to {left.high or 0:.0%}"
                    note = ", ".join(filter(None, [between, note]))
            return figure(label, row, ratio=ratio, note=note)
        if rate is None:
            reason = self.undefined
            return Figure(label=label, value=None, unit="GB/s", status="refused", reason=reason)
        fewest = next(each for each in measured if self._rate(each))
        ratio = None
        if fewest is not row:
            conclusion = self._against(row, fewest)
            ratio = Ratio(to=self._name(fewest), conclusion=conclusion, of_rates=True)
        return Figure(label=label, value=rate / units.GB, unit="GB/s", ratio=ratio, note=note)

    def _rated(self, row: Row) -> Row | None:
        """With this rate in place of its own, and its limits as they are for that."""
        rate = self._rate(row)
        if not rate or not row.gb_per_s or self.per_item:
            return None
        scale = rate / units.GB / row.gb_per_s
        names = ("ceiling_gb_per_s", "published_low_gb_per_s", "published_high_gb_per_s")
        known = {
            name: value * scale for name in ("gb_per_s", *names) if (value := getattr(row, name))
        }
        return replace(row, **known)

    def _chart(self, group: Rows, size: str | None, floor: Row | None) -> Chart | None:
        """The rate over sizes, a line for each count, as of nccl-tests; else over the counts, a
        line for each size."""
        y = marks.TIME if self.enough else marks.LOG_TIME
        if self.per_item:
            y = Axis(title="items per second", unit="items/s", better="higher")
        if self.rate:
            y = replace(marks.RATE, title=f"{self.rate_name}, GB/s", is_log=True)
            if size and len({row.axes[size] for row in group}) > 1:
                rated = [row for row in map(self._rated, group) if row is not None]
                sizes = [marks.rate_point(r, float(r.axes[size]), self._name(r)) for r in rated]
                rules = marks.near_limits(rated, sizes)
                return marks.chart("line", marks.sizes_axis(size), y, sizes, rules=rules)
        points = []
        for row in valid(group) if self.enough else group:
            x, series = float(row.axes[self.over]), ""
            if size and not self.enough:
                series = self.word(size, row.axes[size])
            if self.rate is None and not self.per_item:
                points.append(marks.time_point(row, x, series))
            elif rate := self._rate(row):
                value = rate if self.per_item else rate / units.GB
                points.append(marks.rate_point(row, x, series, value, y.unit))
        to = " ".join(self.word(axis, value) for axis, value in self.beside.items())
        rules = (Rule(label=to, low=floor.time),) if floor is not None else ()
        known = ordered(group, self.over) if self.alone else []
        ideal = [(row, known[0].time * self.parts(known[0]) / self.parts(row)) for row in known]
        curve = tuple(answers.Point(x=float(self._count(row)), y=time) for row, time in ideal)
        counts = [self._count(row) for row in valid(group)]
        is_log = self.enough and min(counts) > 0 and max(counts) > 50 * min(counts)
        x_axis = Axis(title=marks.axis_title(self.over), is_log=is_log)
        return marks.chart("line", x_axis, y, points, rules=rules, curve=curve)
