"""compare: what the choices on some axes cost or gain beside a baseline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hostbench.core.case import AxisValue
from hostbench.families import declared
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Chart, Figure, Ratio, ScreenLine, State, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.question import Question, choices, figure, side_by_side
from hostbench.report.rows import Row, Rows, first, size_axis, valid, varying, where

Beside = Callable[[Row], tuple[str, Mapping[str, AxisValue]]]
"""Row -> workload and axes of the case that it is held against, in the same family."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Question):
    """The choices at one size, each beside the baseline.

    The baseline is the workload's own, or what `beside` says of each case. With a `claim` the
    answer is yes where a case with these values is established to be faster than the baseline.
    """

    show: Literal["seconds", "rate"] = "seconds"
    baseline: Mapping[str, AxisValue] | None = None
    """In place of the workload's."""
    beside: Beside | None = None
    beside_name: str = ""
    claim: Mapping[str, AxisValue] | None = None
    note: Callable[[Row], str] = lambda row: ""
    """What else is said of a figure."""
    screen_each: tuple[Mapping[str, Any], ...] = ({},)
    """A line on the first screen for each, of the case with these values that differs most. With
    `{choice}` in `screen` it has no further names."""
    learnt: str = "{what}: {choice}"
    """How the summary on top names a difference."""
    both_ends: bool = False
    """The first screen has a line for the smallest size too, not for the largest alone."""

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        yield from choices(self.claim or {})
        yield from choices(self.baseline or {})

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        claimed = where(group, **self.claim) if self.claim else []
        if claimed and not valid(claimed):
            return self.unavailable(text, claimed)
        here = self._largest(group, rows)
        axes, references = self._compared(here), self._references(here, rows)
        figures = [self._figure(row, axes, references.get(row.case)) for row in valid(here)]
        state, verdict = self._verdict(figures, here, axes)
        notes = self.at(here, [axis for axis in varying(group) if axis not in axes])
        chart = self._chart(group, here, axes)
        return self.made(text, state, verdict, figures, lost=here, notes=notes, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        size = size_axis(group)
        if size is None or not self.both_ends:
            yield from self._lines(self._largest(group, rows), rows)
            return
        sizes = {int(row.axes[size]) for row in valid(group)}
        for nbytes in dict.fromkeys((min(sizes), max(sizes))):
            yield from self._lines(where(group, **{size: nbytes}), rows)

    def _lines(self, here: Rows, rows: Rows) -> Iterator[ScreenLine]:
        measured, references = valid(here), self._references(here, rows)
        axes = self._compared(measured)
        compared = [
            (row, reference, conclude(row.by_launch, reference.by_launch))
            for row in measured
            if (reference := references.get(row.case))
        ]
        for chosen in self.screen_each:
            some = [pair for pair in compared if pair[0].has(chosen)]
            if some:
                largest = max(some, key=lambda pair: answers.weight(pair[2]))
                yield self._line(*largest, measured, axes)
        if not compared and self.claim is None and "{choice}" not in self.screen:
            shown = [(self.name(row, axes, self.short), figure("", row)) for row in measured[:3]]
            figures = side_by_side(shown if axes else [("", shown[0][1])])
            yield ScreenLine(self.on_screen(measured[0]), figures, "")

    def _line(
        self, row: Row, reference: Row, conclusion: Conclusion, measured: Rows, axes: Sequence[str]
    ) -> ScreenLine:
        """All choices of a few, or this one beside its reference."""
        is_named = "{choice}" not in self.screen
        is_pair = len(measured) > 3 or self.beside is not None or not is_named
        names = {one.case: self.name(one, axes, self.short) for one in measured}
        if self.beside is not None:
            names[reference.case] = self.beside_name
        choice, is_rate = names[row.case], self.show == "rate"
        shown = [
            (names[one.case] if is_named else "", figure("", one, rate=is_rate))
            for one in ([reference, row] if is_pair else measured)
        ]
        what = self.on_screen(row, choice=choice)
        figures = side_by_side(shown, " -> " if is_pair else ", ")
        verdict = answers.difference(conclusion, "" if is_pair else choice)
        learnt = self.learnt.format(what=what, choice=choice, **self.words_of(row))
        return ScreenLine(what, figures, verdict, conclusion, learnt)

    def _largest(self, group: Rows, rows: Rows) -> list[Row]:
        """The rows of the largest size at which a case can be held against another."""
        size = size_axis(group)
        if size is None:
            return list(group)
        for nbytes in sorted({int(row.axes[size]) for row in group}, reverse=True):
            here = where(group, **{size: nbytes})
            references = self._references(here, rows)
            if any(row.case in references for row in where(here, **(self.claim or {}))):
                return here
        return questions.at_size(group)

    def _references(self, here: Rows, rows: Rows) -> dict[str, Row]:
        """Case with a number -> the other one that it is held against, which has one, too."""
        base = self._baseline()
        common = {axis: base[axis] for axis in varying(here) if axis in base}
        references = {}
        for row in valid(here):
            reference = None
            if self.beside is not None:
                workload, axes = self.beside(row)
                reference = first(rows, workload, **axes)
            elif self.claim is not None:  # the same case but for what is claimed
                claimed = {axis: base[axis] for axis in self.claim if axis in base}
                reference = first(here, self.workload, **{**row.axes, **claimed})
            elif common:
                reference = first(here, self.workload, **common)
            if reference is not None and reference.case != row.case:
                references[row.case] = reference
        return references

    def _compared(self, here: Rows) -> tuple[str, ...]:
        """The axes on which these rows differ; of a single one those on which others would."""
        if (differ := varying(here)) or self.beside is not None:
            return differ
        work = declared(self.workload)
        known = work.axes if work else {}
        return tuple(
            axis
            for axis in self._baseline()
            if len(known.get(axis, ())) > 1 and axis in here[0].axes and axis not in self.each
        )

    def _baseline(self) -> Mapping[str, AxisValue]:
        if self.baseline is not None:
            return self.baseline
        work = declared(self.workload)
        return work.base() if work else {}

    def _figure(self, row: Row, axes: Sequence[str], reference: Row | None) -> Figure:
        ratio = None
        if reference is not None:
            if self.beside is None:
                to = self.name(reference, axes) or "the baseline"
            else:  # it has no figure of its own here
                to = f"{self.beside_name} ({answers.in_unit(reference.time, 's')})"
            ratio = Ratio(to, conclude(row.by_launch, reference.by_launch))
        is_rate, name = self.show == "rate", self.name(row, axes)
        return figure(name, row, rate=is_rate, ratio=ratio, note=self.note(row))

    def _verdict(
        self, figures: Sequence[Figure], here: Rows, axes: Sequence[str]
    ) -> tuple[State, str]:
        """Names a winner and a factor only where the rule does; of a claim, whether it holds."""
        compared = [one for one in figures if one.ratio is not None]
        if self.claim is not None:
            claimed = {self.name(row, axes) for row in valid(here) if row.has(self.claim)}
            compared = [one for one in compared if one.label in claimed]
            if not compared:
                return "undecided", "undecided: what it is held against has no number in this run"
        elif not compared:
            return "figure", "; ".join(map(str, figures))
        faster, slower, same = (_by_weight(compared, v) for v in ("faster", "slower", "same"))
        worse = [f"{one.label} is {one.ratio}" for one in slower]
        better = [f"{one.label} is {one.ratio}" for one in faster]
        if self.claim is not None and faster:
            return "partly" if slower else "yes", joined([better[-1], *worse[-1:]])
        if faster:
            also = f"; {joined(one.label for one in slower)} slower" if slower else ""
            return "figure", f"{better[-1]}{also}"
        is_decided = len(slower) + len(same) == len(compared)
        if self.claim is not None and is_decided:
            return "no", joined(worse or (f"{one.label} is {one.ratio}" for one in compared))
        if self.claim is None and slower:
            others = f"{worse[-1]}; {len(worse) - 1} others are slower, too"
            return "figure", joined(reversed(worse)) if len(worse) < 3 else others
        if self.claim is None and is_decided:
            return "figure", f"the same within 5 %: {joined(one.label for one in figures)}"
        if few := questions.few_launches(here):
            return "undecided", f"undecided: {few}"
        conclusions = (one.ratio.conclusion for one in compared if one.ratio)
        return "undecided", answers.difference(max(conclusions, key=answers.weight))

    def _chart(self, group: Rows, here: Rows, axes: Sequence[str]) -> Chart | None:
        """Bars at the one size, or lines over all; rates are bars."""
        size = size_axis(group)
        measured = [row for row in group if row.seconds is not None]
        is_rate = self.show == "rate" and all(row.gb_per_s is not None for row in measured)
        if is_rate or size is None or len({row.axes[size] for row in measured}) < 2:
            mark = marks.rate_point if is_rate else marks.time_point
            y = marks.RATE if is_rate else marks.TIME
            points = (mark(row, self.name(row, axes)) for row in here)
            return marks.chart("bar", marks.LANES, y, points)
        points = (marks.time_point(r, float(r.axes[size]), self.name(r, axes)) for r in group)
        return marks.chart("line", marks.sizes_axis(size), marks.LOG_TIME, points)


def _by_weight(figures: Sequence[Figure], verdict: str) -> list[Figure]:
    """Those of that verdict, the largest difference last."""
    ratios = [(one.ratio, one) for one in figures if one.ratio]
    some = [(r.conclusion, one) for r, one in ratios if r.conclusion.verdict == verdict]
    return [one for _, one in sorted(some, key=lambda pair: answers.weight(pair[0]))]
