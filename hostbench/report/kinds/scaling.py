"""scaling: what more of something makes of a time or a rate: ranks, workers, items in a batch."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hostbench.core import units
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Axis, Chart, Figure, FigureUnit, Point, Ratio, Rule
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

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from (*Question.chosen(self), (self.over, ()), *self.beside.items())

    def asks(self, group: Rows) -> bool:
        return Question.asks(self, group) and (not self.enough or self.over in varying(group))

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        if self.alone is not None:
            workload, axes = self.alone(group[0])
            group = [*valid(where(rows, workload, **axes))[:1], *group]
        measured = self._measured(group)
        reference = self._reference(measured, rows)
        figures = [self._figure(row, reference) for row in measured]
        if all(shown.value is None for shown in figures):
            return self.unavailable(text, [row for row in group if not row.is_valid])
        state, verdict = (self._fewest if self.enough else self._values)(measured, figures)
        about = [self.about(measured[0])] if self.about else []
        limits = marks.limits_in_words(list(filter(None, map(self._rated, measured))))
        chart = self._chart(group, reference)
        notes = (*about, *limits)
        return self.made(text, state, verdict, figures, lost=group, notes=notes, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[answers.ScreenLine]:
        measured = self._measured(group)
        if self.enough:
            yield from self._line_of_difference(measured)
            return
        several = [row for row in measured if self._count(row) > 1] or measured
        rated = [row for row in several if self._value(row)]
        if not rated:
            return
        shown = rated if len(rated) < 3 else [rated[0], rated[-1]]
        figures = [self._figure(row, self._reference(rated, rows)) for row in shown]
        verdict = "oversubscribed" if rated[-1].is_oversubscribed else ""
        if ratio := figures[-1].ratio:
            share = f"{100 * ratio.conclusion.factor:.0f} % of {ratio.to}"
            is_different = ratio.conclusion.is_different
            verdict = share if is_different else answers.difference(ratio.conclusion)
        what = self.screen.format(**self.words_of(rated[-1]))
        pairs = ((shown.label, shown) for shown in figures)
        yield answers.ScreenLine(what, side_by_side(pairs), verdict)
        size = size_axis(group)
        if self.by_size and size:
            same = where(rows, self.workload, **{self.over: rated[0].axes[self.over]})
            rates = [(row, rate) for row in ordered(same, size) if (rate := self._value(row))]
            if len(rates) > 1:
                words = ((self.word(size, row.axes[size]), rate) for row, rate in rates[-3:])
                what = self.by_size.format(ranks=self._name(rated[0]))
                yield answers.ScreenLine(what, questions.rates_by_size(words), "")

    def _line_of_difference(self, measured: Rows) -> Iterator[answers.ScreenLine]:
        """The fewest and the count that differs most from it."""
        if len(measured) < 2:
            return
        others = [(row, self._against(row, measured[0])) for row in measured[1:]]
        row, conclusion = max(others, key=lambda other: answers.weight(other[1]))
        shown = measured if len(measured) <= 3 else [measured[0], row]
        name_of = self._count if self.per_item else self._name  # a rate says what is counted
        figures = side_by_side((str(name_of(row)), self._figure(row)) for row in shown)
        what, choice = self.screen.format(**self.words_of(row)), str(name_of(row))
        verdict = answers.difference(conclusion, choice)
        yield answers.ScreenLine(what, figures, verdict, conclusion, f"{what}: {choice}")

    def _measured(self, group: Rows) -> list[Row]:
        """The rows with a number at the one size, the fewest first."""
        known, size = ordered(group, self.over), size_axis(group)
        if size is None:
            return known
        sizes = {int(row.axes[size]) for row in known if self._count(row) > 1}
        sizes = sizes or {int(row.axes[size]) for row in known}
        return where(known, **{size: min(sizes) if self.smallest else max(sizes)})

    def _reference(self, measured: Rows, rows: Rows) -> Row | None:
        """What each is held against: the case without what is counted, or the fewest."""
        if self.beside:
            return first(rows, self.workload, **{**self.where, **self.beside})
        return next(filter(self._value, measured), None) if self.rate or self.alone else None

    def _fewest(self, measured: Rows, figures: Sequence[Figure]) -> tuple[answers.State, str]:
        """The fewest than which no more is faster, and those that are slower."""
        if few := questions.few_launches(measured, "undecided: "):
            return "undecided", few
        for best, fewest in enumerate(measured):
            others = {row.case: self._against(row, fewest) for row in measured if row is not fewest}
            more = {others[row.case].verdict for row in measured[best + 1 :]}
            if "faster" not in more:
                break
        if others and all(conclusion.verdict == "undecided" for conclusion in others.values()):
            return "undecided", answers.difference(max(others.values(), key=answers.weight))
        slower = answers.joined(
            f"{self._name(row)} {units.format_factor(1 / others[row.case].factor)}"
            for row in measured
            if row.case in others and others[row.case].verdict == "slower"
        )
        none = "no difference seen with more" if "undecided" in more else "more is no faster"
        value = figures[best]
        verdict = f"{value.label}: {answers.in_unit(value.value or 0.0, value.unit)}"
        verdict += f"{'' if self.per_item else ' a step'}{f', and {none}' if more else ''}"
        return "figure", f"{verdict}; slower: {slower}" if slower else verdict

    def _values(self, measured: Rows, figures: Sequence[Figure]) -> tuple[answers.State, str]:
        """Each count's figure, and whether the launches establish that they differ."""
        rated = [shown for shown in figures if shown.value is not None]
        values = [f"{answers.in_unit(f.value or 0, f.unit)} over {f.label}" for f in rated]
        verdict = ", ".join(values) if len(rated) > 1 else str(rated[0])
        size = size_axis(measured)
        nbytes = measured[0].axes[size] if size else 0
        at = [self.word(size, nbytes) if size and nbytes else "", self.rate_name]
        verdict = ": ".join(filter(None, [", ".join(filter(None, at)), verdict]))
        compared = [shown.ratio.conclusion.verdict for shown in figures if shown.ratio]
        if "undecided" not in compared:
            return "figure", verdict
        is_all = {*compared} == {"undecided"}
        which = "whether they differ" if is_all else "whether all of them differ"
        few = questions.few_launches(measured, " (", ")")
        return "undecided" if is_all else "figure", f"{verdict}; {which} is undecided{few}"

    def _count(self, row: Row) -> int:
        return int(row.axes[self.over])

    def _name(self, row: Row) -> str:
        return self.name(row, [self.over])

    @property
    def _unit(self) -> FigureUnit:
        return "items/s" if self.per_item else "GB/s" if self.rate else "s"

    def _value(self, row: Row) -> float | None:
        """The rate, or the time; None where it is not defined, and of no valid row."""
        if not row.is_valid:
            return None
        if self.per_item:
            return items_per_s(row, self.over)
        if self.rate is None:
            return row.time
        return rate / units.GB if row.nbytes and (rate := self.rate(row)) is not None else None

    def _against(self, row: Row, other: Row) -> Conclusion:
        """By the time of a step, or of so much as the other does in a step."""
        share = self._done(other) / self._done(row)
        return conclude({n: s * share for n, s in row.by_launch.items()}, other.by_launch)

    def _done(self, row: Row) -> float:
        """In a step: items, bytes, or the part of one process's work."""
        return 1 / self.parts(row) if self._unit == "s" else (self._value(row) or 0.0) * row.time

    def _figure(self, row: Row, reference: Row | None = None) -> Figure:
        label, value = self._name(row), self._value(row)
        if value is None:
            return Figure(label, None, self._unit, status="refused", reason=self.undefined)
        ratio, note = None, self.note(row)
        if reference is not None and reference is not row:
            to, left = (
                self.name(reference, self.beside or [self.over]),
                self._against(row, reference),
            )
            share_of = "the speed" if self.alone else "" if self.beside else "that"
            ratio = Ratio(to, left, share_of=share_of)
            if self.alone and left.is_different and not left.is_few:
                between = f"99 % interval {left.low or 0:.0%} to {left.high or 0:.0%}"
                note = ", ".join(filter(None, [between, note]))
        if self._unit == "s":
            return figure(label, row, ratio=ratio, note=note)
        return Figure(label, value, self._unit, ratio=ratio, note=note)

    def _rated(self, row: Row) -> Row | None:
        """With this rate in place of its own, and its limits as they are for that."""
        rate = self._value(row) if self.rate else None
        if not rate or not row.gb_per_s:
            return None
        scale = rate / row.gb_per_s
        names = ("ceiling_gb_per_s", "published_low_gb_per_s", "published_high_gb_per_s")
        known = ((name, getattr(row, name)) for name in names)
        return replace(row, **{name: value * scale for name, value in known if value})

    def _chart(self, group: Rows, reference: Row | None) -> Chart | None:
        """A rate in bytes over sizes, a line for each count, as of nccl-tests; else over the
        counts, a line for each size."""
        size, rules = size_axis(group), tuple[Rule, ...]()
        is_by_size = self.rate is not None and size in varying(group)
        x, series = (str(size), [self.over]) if is_by_size else (self.over, [size] if size else [])
        y = replace(marks.TIME, is_log=not self.enough)
        if self.per_item:
            y = Axis("items per second", "items/s", better="higher")
        if self.rate:
            y = replace(marks.RATE, title=f"{self.rate_name}, GB/s", is_log=True)
        points = [
            marks.point(row, row.axes[x], self.name(row, series), y.unit, self._value(row))
            for row in group
        ]
        if is_by_size:
            rules = marks.near_limits(list(filter(None, map(self._rated, group))), points)
        if self.beside and reference:
            rules = (Rule(self.name(reference, self.beside), reference.time),)
        known = ordered(group, self.over) if self.alone else []
        ideal = (known[0].time * self.parts(known[0]) / self.parts(row) for row in known)
        curve = tuple(Point(self._count(row), time) for row, time in zip(known, ideal, strict=True))
        return marks.chart("line", marks.axis_of(x), y, points, rules=rules, curve=curve)
