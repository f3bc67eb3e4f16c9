"""scaling: what more of something makes of a time or a rate: ranks, workers, items in a batch."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hostbench.core import units
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Axis, Chart, Figure, FigureUnit, Point, Ratio, Rule
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.compare import Beside
from hostbench.report.kinds.question import Question, figure, side_by_side
from hostbench.report.rows import Row, Rows, first, ordered, size_axis, varying, where

RateOf = Callable[[Row], float | None]
"""Bytes per second of a row that has a time and bytes; None where it is not defined."""


def items_per_s(row: Row, axis: str) -> float:
    """Of the items that the axis counts in each step."""
    return int(row.axes[axis]) / row.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Question):
    """The figure at each count, at the largest size that has a number at a count of 2 or more: a
    time, or a rate with its share of that at the fewest.

    With `enough` the verdict is the fewest than which no more is faster.
    """

    over: str = "num_ranks"
    enough: bool = False
    per_item: bool = False
    """The axis counts what one step does: items per second are shown and compared."""
    rate: RateOf | None = None
    rate_name: str = ""
    beside: Beside | None = None
    """The case that each time is held against: without what is counted, or of one process."""
    beside_name: str = ""
    parts: Callable[[Row], int] | None = None
    """In how many parts each count cuts the work of the case that it is held against: shown is what
    is left of that one's speed, with its interval, and the ideal in the chart."""
    note: Callable[[Row], str] = lambda row: "oversubscribed" if row.is_oversubscribed else ""

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from (*Question.chosen(self), (self.over, ()))

    def asks(self, group: Rows) -> bool:
        is_defined = any(not row.is_valid or self._value(row) is not None for row in group)
        is_enough = not self.enough or self.over in varying(group)
        return Question.asks(self, group) and is_defined and is_enough

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        measured = self._measured(group)
        if not measured:
            return self.unavailable(text, [row for row in group if not row.is_valid])
        reference = self._reference(measured, rows)
        if self.parts and reference:
            group, measured = [reference, *group], [reference, *measured]
        figures = [self._figure(row, reference) for row in measured]
        state, verdict = (self._fewest if self.enough else self._values)(measured, figures)
        notes = tuple(marks.limits_in_words([*self._rated(measured)]))
        chart = self._chart(group, reference)
        return self.made(text, state, verdict, figures, lost=group, notes=notes, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[answers.ScreenLine]:
        measured = self._measured(group)
        if self.enough:
            yield from self._line_of_difference(measured)
            return
        several = [row for row in measured if self._count(row) > 1] or measured
        if not several:
            return
        shown = several if len(several) < 3 else [several[0], several[-1]]
        figures = [self._figure(row, self._reference(several, rows)) for row in shown]
        verdict = "oversubscribed" if several[-1].is_oversubscribed else ""
        if ratio := figures[-1].ratio:
            share = f"{100 * ratio.conclusion.factor:.0f} % of {ratio.to}"
            is_different = ratio.conclusion.is_different
            verdict = share if is_different else answers.difference(ratio.conclusion)
        words, size = self.words_of(several[-1]), size_axis(group)
        pairs = ((shown.label, shown) for shown in figures)
        yield answers.ScreenLine(self.screen.format(**words), side_by_side(pairs), verdict)
        same = where(group, **{self.over: several[0].axes[self.over]})
        rates = [(row, rate) for row in ordered(same, size) if (rate := self._value(row))]
        if self.rate and size and len(rates) > 1:  # its curve, at the fewest
            by_size = ((self.word(size, row.axes[size]), rate) for row, rate in rates[-3:])
            what = self.screen.format(**{**words, size: self._name(several[0])})
            yield answers.ScreenLine(what, questions.rates_by_size(by_size), "")

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
        """The rows with a figure at the one size, the fewest first."""
        known = [row for row in ordered(group, self.over) if self._value(row) is not None]
        size = size_axis(group)
        if size is None:
            return known
        sizes = [int(row.axes[size]) for row in known if self._count(row) > 1]
        sizes = sizes or [int(row.axes[size]) for row in known]
        return where(known, **{size: max(sizes, default=0)})

    def _reference(self, measured: Rows, rows: Rows) -> Row | None:
        if self.beside is None:
            return measured[0] if self.rate and measured else None
        workload, axes = self.beside(measured[0])
        return first(rows, workload, **axes)

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
        values = [f"{answers.in_unit(f.value or 0, f.unit)} over {f.label}" for f in figures]
        verdict = ", ".join(values) if len(figures) > 1 else str(figures[0])
        size = size_axis(measured)
        nbytes = measured[0].axes[size] if size else 0  # a barrier has none
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
        """By the time of a step, or of so many items or bytes as the other does in a step."""
        share = float(self.parts(row)) if self.parts else 1.0
        if self._unit != "s":
            mine, others = ((self._value(r) or 0.0) * r.time for r in (row, other))
            share = others / mine
        return conclude({n: s * share for n, s in row.by_launch.items()}, other.by_launch)

    def _figure(self, row: Row, reference: Row | None = None) -> Figure:
        ratio, label, note = None, self._name(row), self.note(row)
        if reference is not None and reference is not row:
            to = self.beside_name or self._name(reference)
            share_of = "that" if self.rate else "the speed" if self.parts else ""
            ratio = Ratio(to, left := self._against(row, reference), share_of=share_of)
            if self.parts and left.is_different and not left.is_few:
                interval = f"99 % interval {left.low or 0:.0%} to {left.high or 0:.0%}"
                note = ", ".join(filter(None, [interval, note]))
        if self._unit == "s":
            return figure(label, row, ratio=ratio, note=note)
        return Figure(label, self._value(row), self._unit, ratio=ratio, note=note)

    def _rated(self, rows: Rows) -> Iterator[Row]:
        """Those that have a rate, with their limits as they are for that."""
        names = ("ceiling_gb_per_s", "published_low_gb_per_s", "published_high_gb_per_s")
        for row in rows:
            rate = self._value(row) if self.rate else None
            if rate and row.gb_per_s:
                known = ((name, getattr(row, name)) for name in names)
                scaled = {name: value * rate / row.gb_per_s for name, value in known if value}
                yield replace(row, **scaled)

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
            rules = marks.near_limits([*self._rated(group)], points)
        elif self.beside_name and reference and not self.parts:
            rules = (Rule(self.beside_name, reference.time),)
        curve = tuple[Point, ...]()
        if self.parts and reference:
            ideal = {self._count(row): reference.time / self.parts(row) for row in group}
            curve = tuple(Point(count, ideal[count]) for count in sorted(ideal))
        return marks.chart("line", marks.axis_of(x), y, points, rules=rules, curve=curve)
