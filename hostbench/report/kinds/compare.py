"""compare: what the choices on some axes cost or gain beside a baseline."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hostbench.core.case import AxisValue
from hostbench.families import declared
from hostbench.judge.conclude import conclude
from hostbench.report.answer import (
    Answer,
    Chart,
    Figure,
    Ratio,
    ScreenLine,
    State,
    difference,
    in_unit,
    joined,
)
from hostbench.report.kinds.question import (
    LANES,
    LOG_TIME,
    RATE,
    TIME,
    Question,
    at_size,
    chart,
    choices,
    few_launches,
    figure,
    rate_point,
    side_by_side,
    sizes_axis,
    time_point,
    varying,
    weight,
    without_number,
)
from hostbench.report.rows import Row, Rows, first, size_axis, valid, where

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
    note: Callable[[Row], str] | None = None
    """What else is said of a figure."""
    screen_each: tuple[Mapping[str, Any], ...] = ()
    """The cases that have a line each on the first screen, `{choice}` in `screen`; without any one
    line has all choices."""
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
        here = self._here(group, rows)
        axes = self._compared(here)
        figures = [self._figure(row, axes, rows, here) for row in valid(here)]
        state, verdict = self._verdict(figures, here, axes)
        return self.made(
            text,
            state,
            verdict,
            figures=(*figures, *without_number(here, self)),
            notes=self.at(here, [axis for axis in varying(group) if axis not in axes]),
            chart=self._chart(group, here, axes),
        )

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        size = size_axis(group)
        if size is None or not self.both_ends:
            yield from self._lines(self._here(group, rows), rows)
            return
        sizes = sorted({int(row.axes[size]) for row in valid(group)})
        for nbytes in dict.fromkeys((sizes[0], sizes[-1])):
            yield from self._lines(where(group, **{size: nbytes}), rows)

    def _lines(self, here: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """A line for each choice beside its reference, or one for all of one size."""
        measured = valid(here)
        axes = self._compared(measured)
        held = [
            (row, reference, conclude(row.by_launch, reference.by_launch))
            for row in measured
            if (reference := self._reference(row, rows, here)) and reference.case != row.case
        ]
        if self.screen_each:
            for row, reference, conclusion in held:
                if any(row.has(chosen) for chosen in self.screen_each):
                    both = [replace(figure("", one), label="") for one in (reference, row)]
                    what = self.on_screen(row, choice=self.name(row, axes))
                    yield ScreenLine(
                        what=what,
                        figures=side_by_side(both, " -> "),
                        verdict=difference(conclusion),
                        conclusion=conclusion,
                        learnt=what,
                    )
        elif not held and self.claim is None:
            figures = [figure(self.name(row, axes, self.short), row) for row in measured[:3]]
            if not axes:
                figures = [replace(one, label="") for one in figures]
            what = self.on_screen(measured[0])
            yield ScreenLine(what=what, figures=side_by_side(figures), verdict="")
        elif held:
            row, reference, conclusion = max(held, key=lambda one: weight(one[2]))
            is_pair = len(measured) > 3 or self.beside is not None
            shown = [reference, row] if is_pair else measured
            names = {one.case: self.name(one, axes, self.short) for one in measured}
            if self.beside is not None:
                names[reference.case] = self.beside_name
            what, name = self.on_screen(row), names[row.case]
            rate = self.show == "rate"
            yield ScreenLine(
                what=what,
                figures=side_by_side(
                    [figure(names[one.case], one, rate=rate) for one in shown],
                    " -> " if is_pair else ", ",
                ),
                verdict=difference(conclusion, "" if is_pair else name),
                conclusion=conclusion,
                learnt=self.learnt.format(what=what, choice=name, **self.words_of(row)),
            )

    def _here(self, group: Rows, rows: Rows) -> list[Row]:
        """The rows of the largest size at which a case can be held against another."""
        size = size_axis(group)
        if size is None:
            return list(group)
        for nbytes in sorted({int(row.axes[size]) for row in group}, reverse=True):
            here = where(group, **{size: nbytes})
            asked = valid(where(here, **self.claim) if self.claim else here)
            held = ((row, self._reference(row, rows, here)) for row in asked)
            if any(one is not None and one.case != row.case for row, one in held):
                return here
        return at_size(group)

    def _reference(self, row: Row, rows: Rows, here: Rows) -> Row | None:
        if self.beside is not None:
            workload, axes = self.beside(row)
            return first(rows, workload, **axes)
        base = self._baseline()
        if self.claim is not None:  # the same case but for what is claimed
            same = {**row.axes, **{name: base[name] for name in self.claim if name in base}}
            return first(here, self.workload, **same)
        differ = varying(here)
        held = {name: value for name, value in base.items() if name in differ}
        return first(here, self.workload, **held) if held else None

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

    def _figure(self, row: Row, axes: Sequence[str], rows: Rows, here: Rows) -> Figure:
        reference = self._reference(row, rows, here)
        ratio = None
        if reference is not None and reference.case != row.case:
            if self.beside is None:
                to = self.name(reference, axes) or "the baseline"
            else:  # it has no figure of its own here
                to = f"{self.beside_name} ({in_unit(reference.time, 's')})"
            ratio = Ratio(to=to, conclusion=conclude(row.by_launch, reference.by_launch))
        note = self.note(row) if self.note else ""
        rate = self.show == "rate"
        return figure(self.name(row, axes), row, rate=rate, ratio=ratio, note=note)

    def _verdict(
        self, figures: Sequence[Figure], here: Rows, axes: Sequence[str]
    ) -> tuple[State, str]:
        """Names a winner and a factor only where the rule does."""
        held = [one for one in figures if one.ratio is not None]
        if self.claim is not None:
            claimed = {self.name(row, axes) for row in valid(here) if row.has(self.claim)}
            return _claimed([one for one in held if one.label in claimed], here)
        if not held:
            return "figure", "; ".join(map(str, figures))
        faster, slower = _by_factor(held, "faster"), _by_factor(held, "slower")
        if faster:
            also = f"; {joined(one.label for one in slower)} slower" if slower else ""
            return "figure", f"{faster[-1].label} is {faster[-1].ratio}{also}"
        if slower:
            said = [f"{one.label} is {one.ratio}" for one in reversed(slower)]
            others = f"{len(said) - 1} others are slower, too"
            return "figure", joined(said) if len(said) < 3 else f"{said[0]}; {others}"
        if len(_by_factor(held, "same")) == len(held):
            return "figure", f"the same within 5 %: {joined(one.label for one in figures)}"
        return "undecided", _undecided(held, here)

    def _chart(self, group: Rows, here: Rows, axes: Sequence[str]) -> Chart | None:
        """Bars at the one size, or lines over all; rates are bars."""
        size = size_axis(group)
        measured = [row for row in group if row.seconds is not None]
        if self.show == "rate" and all(row.gb_per_s is not None for row in measured):
            return chart("bar", LANES, RATE, (rate_point(r, self.name(r, axes)) for r in here))
        if size is None or len({row.axes[size] for row in measured}) < 2:
            return chart("bar", LANES, TIME, (time_point(r, self.name(r, axes)) for r in here))
        points = (time_point(r, float(r.axes[size]), self.name(r, axes)) for r in group)
        return chart("line", sizes_axis(size), LOG_TIME, points)


def _claimed(held: Sequence[Figure], here: Rows) -> tuple[State, str]:
    """Yes where one of them is established to be faster; no where none can be."""
    if not held:
        return "undecided", "undecided: what it is held against has no number in this run"
    faster, slower = _by_factor(held, "faster"), _by_factor(held, "slower")
    if faster and slower:
        return "partly", joined(f"{one.label} is {one.ratio}" for one in (faster[-1], slower[-1]))
    if faster:
        return "yes", f"{faster[-1].label} is {faster[-1].ratio}"
    if _by_factor(held, "undecided"):
        return "undecided", _undecided(held, here)
    return "no", joined(f"{one.label} is {one.ratio}" for one in slower or held)


def _by_factor(figures: Sequence[Figure], verdict: str) -> list[Figure]:
    """Those of that verdict, the largest factor last."""
    found = [
        (max(ratio.conclusion.factor, 1 / ratio.conclusion.factor), one)
        for one in figures
        if (ratio := one.ratio) is not None and ratio.conclusion.verdict == verdict
    ]
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _undecided(held: Sequence[Figure], here: Rows) -> str:
    """That few launches tell only large differences, or what these leave possible."""
    if few := few_launches(here):
        return f"undecided: {few}"
    return difference(max((one.ratio.conclusion for one in held if one.ratio), key=weight))
