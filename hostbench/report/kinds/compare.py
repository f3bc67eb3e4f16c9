"""compare: what the choices on some axes cost or gain beside a baseline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hostbench.core.case import AxisValue
from hostbench.families import declared
from hostbench.judge.conclude import conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Chart, Figure, Ratio, ScreenLine, State, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.question import Question, figure, side_by_side
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

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from (*Question.chosen(self), *(self.claim or {}).items())
        yield from (self.baseline or {}).items()

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        claimed = where(group, **self.claim) if self.claim else []
        if claimed and not valid(claimed):
            return self.unavailable(text, claimed)
        here = self._largest(group, rows)
        axes, references = self._compared(here), self._references(here, rows)
        others = {other.case: other for other in references.values()}
        is_shared = self.beside is not None and len(references) > len(others) == 1
        figures = [
            self._figure(row, axes, references.get(row.case), is_shared) for row in valid(here)
        ]
        state, verdict = self._verdict(figures, here, axes)
        if is_shared:
            figures = [*(figure(self.beside_name, other) for other in others.values()), *figures]
        notes = self.at(here, [axis for axis in varying(group) if axis not in axes])
        chart = self._chart(group, here, axes)
        return self.made(text, state, verdict, figures, lost=here, notes=notes, chart=chart)

    def _largest(self, group: Rows, rows: Rows) -> list[Row]:
        """The rows of the largest size at which a case can be held against another."""
        size = size_axis(group)
        sizes = {int(row.axes[size]) for row in group} if size else ()
        for nbytes in sorted(sizes, reverse=True):
            here = where(group, **{str(size): nbytes})
            references = self._references(here, rows)
            if any(row.case in references for row in where(here, **(self.claim or {}))):
                return here
        return questions.at_size(group)

    def _references(self, here: Rows, rows: Rows) -> dict[str, Row]:
        """Case with a number -> the other one that it is held against, which has one, too."""
        base, references = self._baseline(), {}
        common = {axis: base[axis] for axis in varying(here) if axis in base}
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

    def _baseline(self) -> Mapping[str, AxisValue]:
        work = declared(self.workload)
        if self.baseline is not None or work is None:
            return self.baseline or {}
        return work.base()

    def _compared(self, here: Rows) -> tuple[str, ...]:
        """The axes on which these rows differ; of a single one those on which others would."""
        work = declared(self.workload)
        if (differ := varying(here)) or self.beside is not None or work is None:
            return differ
        return tuple(
            axis
            for axis in self._baseline()
            if len(work.axes.get(axis, ())) > 1 and axis in here[0].axes and axis not in self.each
        )

    def _figure(
        self, row: Row, axes: Sequence[str], reference: Row | None, is_shared: bool
    ) -> Figure:
        """Beside what all share, which is a figure of its own, or beside its own reference."""
        ratio = None
        if reference is not None:
            if is_shared:
                to = self.beside_name
            elif self.beside is not None:
                to = f"{self.beside_name} ({answers.in_unit(reference.time, 's')})"
            else:
                to = self.name(reference, axes) or "the baseline"
            ratio = Ratio(to, conclude(row.by_launch, reference.by_launch))
        is_rate, name = self.show == "rate", self.name(row, axes)
        return figure(name, row, rate=is_rate, ratio=ratio, note=self.note(row))

    def _verdict(
        self, figures: Sequence[Figure], here: Rows, axes: Sequence[str]
    ) -> tuple[State, str]:
        """Names a winner and a factor only where the rule does; of a claim, whether it holds."""
        compared = [(shown, shown.ratio) for shown in figures if shown.ratio is not None]
        if self.claim is not None:
            claimed = {self.name(row, axes) for row in valid(here) if row.has(self.claim)}
            compared = [pair for pair in compared if pair[0].label in claimed]
            if not compared:
                return "undecided", "undecided: what it is held against has no number in this run"
        if not compared:
            return "figure", "; ".join(map(str, figures))
        compared.sort(key=lambda pair: answers.weight(pair[1].conclusion))  # the largest last
        by_verdict: dict[str, list[str]] = {"faster": [], "slower": [], "same": [], "undecided": []}
        labels: dict[str, list[str]] = {verdict: [] for verdict in by_verdict}
        for shown, ratio in compared:
            by_verdict[ratio.conclusion.verdict].append(f"{shown.label} is {ratio}")
            labels[ratio.conclusion.verdict].append(shown.label)
        faster, slower, same, unsure = by_verdict.values()
        if faster and self.claim is not None:
            return "partly" if slower else "yes", joined([faster[-1], *slower[-1:]])
        if faster:
            also = f"; {joined(labels['slower'])} slower" if slower else ""
            return "figure", f"{faster[-1]}{also}"
        if not unsure and self.claim is not None:
            return "no", joined(slower or same)
        if slower and self.claim is None:
            others = f"{slower[-1]}; {len(slower) - 1} others are slower, too"
            return "figure", joined(reversed(slower)) if len(slower) < 3 else others
        if not unsure:
            return "figure", f"the same within 5 %: {joined(shown.label for shown in figures)}"
        few = questions.few_launches(here, "undecided: ")
        return "undecided", few or answers.difference(compared[-1][1].conclusion)

    def _chart(self, group: Rows, here: Rows, axes: Sequence[str]) -> Chart | None:
        """Bars at the one size, or lines over all; rates are bars."""
        size = size_axis(group)
        measured = [row for row in group if row.seconds is not None]
        is_rate = self.show == "rate" and all(row.gb_per_s is not None for row in measured)
        if is_rate or size is None or len({row.axes[size] for row in measured}) < 2:
            y = marks.RATE if is_rate else marks.TIME
            bars = (marks.point(r, self.name(r, axes), "", y.unit, r.gb_per_s) for r in here)
            return marks.chart("bar", marks.LANES, y, bars)
        points = (marks.point(r, r.axes[size], self.name(r, axes)) for r in group)
        return marks.chart("line", marks.axis_of(size), marks.LOG_TIME, points)

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        size = size_axis(group)
        if size is None or not self.both_ends:
            yield from self._lines(self._largest(group, rows), rows)
            return
        sizes = {int(row.axes[size]) for row in valid(group)}
        for nbytes in dict.fromkeys((min(sizes), max(sizes))):
            yield from self._lines(where(group, **{size: nbytes}), rows)

    def _lines(self, here: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """All choices of a few, or the one that differs most beside its reference."""
        measured, references = valid(here), self._references(here, rows)
        axes, is_named = self._compared(measured), "{choice}" not in self.screen
        names = {row.case: self.name(row, axes) for row in measured}
        compared = [
            (row, other, conclude(row.by_launch, other.by_launch))
            for row in measured
            if (other := references.get(row.case))
        ]
        if not compared and self.claim is None and is_named:
            shown = [(names[row.case], figure("", row)) for row in measured[:3]]
            figures = side_by_side(shown if axes else [("", shown[0][1])])
            yield ScreenLine(self.screen.format(**self.words_of(measured[0])), figures, "")
        is_pair = len(measured) > 3 or self.beside is not None or not is_named
        for chosen in self.screen_each:
            some = [pair for pair in compared if pair[0].has(chosen)]
            if not some:
                continue
            row, other, conclusion = max(some, key=lambda pair: answers.weight(pair[2]))
            of_other = {other.case: self.beside_name} if self.beside is not None else {}
            label = {**names, **of_other} if is_named else {}
            shown = [
                (label.get(r.case, ""), figure("", r, rate=self.show == "rate"))
                for r in ([other, row] if is_pair else measured)
            ]
            choice, words = names[row.case], self.words_of(row)
            what = self.screen.format(**words, choice=choice)
            figures = side_by_side(shown, " -> " if is_pair else ", ")
            verdict = answers.difference(conclusion, "" if is_pair else choice)
            learnt = self.learnt.format(what=what, choice=choice, **words)
            yield ScreenLine(what, figures, verdict, conclusion, learnt)
