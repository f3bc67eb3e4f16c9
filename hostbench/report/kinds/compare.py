"""compare: what the choices on some axes cost or gain beside a baseline, at one size or along an
axis of numbers; scaling: the fewest workers, ranks or items in a batch that are enough."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from hostbench.core import units
from hostbench.core.case import AxisValue
from hostbench.core.samples import Launches
from hostbench.families import declared
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import (
    Answer,
    Axis,
    Chart,
    Figure,
    FigureUnit,
    Ratio,
    Rule,
    in_unit,
    joined,
)
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.question import Question, figure, side_by_side
from hostbench.report.rows import Row, Rows, first, ordered, size_axis, valid, varying, where

Beside = Callable[[Row], tuple[str, Mapping[str, AxisValue]]]
"""Row -> workload and axes of the case that it is held against, in the same family."""
FEW = 3
"""Choices that stand pair by pair on the first screen; of more, two."""


class Pair(NamedTuple):
    """A row with a number, and what the launches say of it beside the other one."""

    row: Row
    other: Row
    conclusion: Conclusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare(Question):
    """The choices at the largest size at which there is something to compare, each beside the
    baseline: the workload's own, or what `beside` says of each case.

    With a `claim` the answer is yes where cases with these values are established to be faster than
    the same with the baseline's. With `over`, an axis of numbers, the figures go along it, each
    beside the fewest, or with a claim beside the other one at the same number.
    """

    unit: FigureUnit = "s"
    """`s`; or `GB/s` or `items/s` for a rate, of which the verdict is each figure."""
    work: Callable[[Row], float | None] | None = None
    """How much of something a step does, where that is not the same in all: the items or bytes of
    a rate, or the part of what the other one does. The time of so much is compared."""
    share_of: str = ""
    """Of what a share is said instead of a factor of times: `that` of a rate."""
    baseline: Mapping[str, AxisValue] | None = None
    """In place of the workload's; `{}`: each stands for itself."""
    beside: Beside | None = None
    beside_name: str = ""
    claim: Mapping[str, AxisValue] | None = None
    over: str = ""
    ideal: Beside | None = None
    """One more case, which all are read beside."""
    ideal_name: str = ""
    note: Callable[[Row], str] = lambda row: ""
    """What else is said of a figure."""
    screen_each: tuple[Mapping[str, Any], ...] = ({},)
    """A line on the first screen for each, of the case with these values that differs most. With
    `{choice}` in `screen` it has no further names."""
    learnt: str = "{what}: {choice}"
    """How the summary on top names a difference."""

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from (*Question.chosen(self), *(self.claim or {}).items())
        yield from (self.baseline or {}).items()
        if self.over:
            yield self.over, ()

    def asks(self, group: Rows) -> bool:
        """A claim along an axis needs several numbers on it, and one rank has no rate."""
        is_along = not (self.over and self.claim) or self.over in varying(group)
        is_defined = bool(self.measured(group)) or not all(row.is_valid for row in group)
        return Question.asks(self, group) and is_along and is_defined

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        claimed = where(group, **self.claim or {})
        if not self.measured(claimed):
            return self.unavailable(text, [row for row in claimed if not row.is_valid])
        here, size = self._largest(group, rows), size_axis(group)
        axes, pairs = self._axes(here), {pair.row.case: pair for pair in self.pairs(here, rows)}
        measured = self.measured(where(here, **self.claim or {}) if self.over else here)
        figures = [self.figure(row, axes, pairs.get(row.case)) for row in measured]
        state, verdict = self.verdict(measured, figures)
        lost, notes = group, list[str]()
        if not size or size != self.over:
            notes += self.at(here, [axis for axis in varying(group) if axis not in axes])
        if size and size != self.over:  # what failed at a larger size is said, too
            lost = [row for row in group if int(row.axes[size]) >= int(here[0].axes[size])]
        if self.unit == "GB/s":
            notes += marks.limits_in_words(measured, self._times)
        alone = []
        if self.ideal is not None:
            workload, at = self.ideal(measured[0])
            alone = [figure(self.ideal_name, own) for own in valid(where(rows, workload, **at))[:1]]
        rules = [Rule(shown.label, shown.value or 0.0) for shown in alone]
        return self.made(
            text,
            state,
            verdict,
            [*figures, *alone],
            lost=lost,
            lines=self.lines(self.measured(here), rows) if self.screen else (),
            notes=tuple(notes),
            chart=self._chart(group, here, rules, [*pairs.values()]),
        )

    # ---- which rows, and what each is held against ----------------------------------------------

    def measured(self, rows: Rows) -> list[Row]:
        """Those with a number, the fewest first."""
        known = ordered(rows, self.over or None)
        return [row for row in known if self.work is None or self.work(row) is not None]

    def pairs(self, here: Rows, rows: Rows) -> list[Pair]:
        """Each row with a number beside the other one that it is held against, which has one,
        too."""
        base, measured, pairs = self._baseline(), self.measured(here), []
        common = {axis: base[axis] for axis in varying(here) if axis in base}
        claimed = {axis: base[axis] for axis in self.claim or {} if axis in base}
        for row in measured:
            other = None
            if self.claim is not None:  # the same case but for what is claimed
                other = first(measured, **{**row.axes, **claimed})
            elif self.beside is not None:
                workload, axes = self.beside(row)
                other = first(rows, workload, **axes)
            elif self.over:
                other = None if self.baseline == {} else measured[0]
            elif common:
                other = first(measured, **common)
            if other is not None and other.case != row.case:
                pairs.append(Pair(row, other, self.conclude(row, other)))
        return pairs

    def conclude(self, row: Row, other: Row) -> Conclusion:
        return conclude(self._by_launch(row), self._by_launch(other))

    def _by_launch(self, row: Row) -> Launches:
        work = self.work(row) if self.work else None
        return {n: s / work for n, s in row.by_launch.items()} if work else row.by_launch

    def _largest(self, group: Rows, rows: Rows) -> Rows:
        """The rows of the largest size at which one is held against another, else at which one has
        a number; all of them where the figures go along the sizes."""
        size = size_axis(group)
        if size is None or size == self.over:
            return group
        for nbytes in sorted({int(row.axes[size]) for row in group}, reverse=True):
            here = where(group, **{size: nbytes})
            if any(pair.row.has(self.claim or {}) for pair in self.pairs(here, rows)):
                return here
        at = questions.at_size(self.measured(group))[0].axes[size]
        return where(group, **{size: at})

    def _baseline(self) -> Mapping[str, AxisValue]:
        work = declared(self.workload)
        if self.baseline is not None or work is None:
            return self.baseline or {}
        return work.base()

    def _axes(self, here: Rows) -> tuple[str, ...]:
        """The axes on which these rows differ; of a single one those on which others would."""
        work = declared(self.workload)
        if (differ := varying(here)) or work is None:
            return differ
        chosen = [axis for axis, values in self.where.items() if isinstance(values, tuple)]
        named = [self.over] if self.over else chosen if self.beside else [*self._baseline()]
        return tuple(
            axis
            for axis in named
            if len(work.axes.get(axis, ())) > 1 and axis in here[0].axes and axis not in self.each
        )

    # ---- what is said of them -------------------------------------------------------------------

    def value(self, row: Row) -> float | None:
        """In `unit`; None where it is not known."""
        if self.unit == "s" or not row.seconds:
            return row.seconds
        if self.work is None:
            return row.gb_per_s
        work = self.work(row)
        return work and work / row.seconds / (units.GB if self.unit == "GB/s" else 1)

    def figure(self, row: Row, axes: Sequence[str], pair: Pair | None = None) -> Figure:
        """The row's number, and what it is beside the other one."""
        crowded = "oversubscribed" if row.is_oversubscribed else ""
        more: dict[str, Any] = {"note": ", ".join(filter(None, [self.note(row), crowded]))}
        if pair is not None:
            if self.beside is not None:
                to = f"{self.beside_name} ({units.format_seconds(pair.other.time)})"
            else:
                differ = [axis for axis in axes if axis != self.over or not self.claim]
                to = self.name(pair.other, differ) or "the baseline"
            more["ratio"] = Ratio(to, pair.conclusion, share_of=self.share_of)
        label, value = self.name(row, axes or filter(None, [size_axis([row])])), self.value(row)
        if self.unit == "s" or value is None:
            return figure(label, row, **more)
        return Figure(label or row.function, value, self.unit, **more)

    def verdict(self, measured: Rows, figures: Sequence[Figure]) -> tuple[answers.State, str]:
        """Names a winner and a factor only where the rule does; of a claim, whether it holds."""
        compared = [
            (row, shown.label, shown.ratio)
            for row, shown in zip(measured, figures, strict=True)
            if shown.ratio is not None and row.has(self.claim or {})
        ]
        if not compared and self.claim is not None:
            return "undecided", "undecided: what it is held against has no number in this run"
        is_listed = self.unit != "s" or self.share_of
        if not compared or (is_listed and self.claim is None):
            return "figure", "; ".join(answers.in_words(figures))
        verdicts = {ratio.conclusion.verdict for *_, ratio in compared}
        is_along, is_sure = bool(self.over and self.claim), "undecided" not in verdicts
        if is_along:
            words = self._stretches([(row, ratio.conclusion) for row, _, ratio in compared])
        else:
            words = _largest([known[1:] for known in compared], figures)
        if not words:
            few = questions.few_launches(measured)
            largest = max((ratio.conclusion for *_, ratio in compared), key=answers.weight)
            words = f"undecided: {few}" if few else answers.difference(largest)
        state: answers.State = "undecided"
        if self.claim is None:
            state = "figure" if is_sure or verdicts & {"faster", "slower"} else state
        elif "faster" in verdicts:
            state = "yes" if len(verdicts) == 1 else "partly"
        elif is_sure:
            state = "no"
        return state, words

    def _stretches(self, compared: Sequence[tuple[Row, Conclusion]]) -> str:
        """`pinned: the same at 1KiB, up to 4.99x faster from 4KiB to 1GiB`."""
        parts = []
        for verdict, group in groupby(compared, key=lambda known: known[1].verdict):
            some = [*group]
            at = self.span(self.over, [row for row, _ in some])
            most = max(answers.factor(conclusion) for _, conclusion in some)
            upto = f"{'up to ' * (len(some) > 1)}{units.format_factor(most)} {verdict}"
            words = {"same": "the same", "undecided": "undecided"}.get(verdict, upto)
            parts.append(f"{words} {at}")
        return f"{self.name(compared[0][0], self.claim or ())}: {', '.join(parts)}"

    def lines(self, measured: Rows, rows: Rows) -> Iterator[answers.ScreenLine]:
        """All choices of a few, or the one that differs most beside the other one."""
        pairs, axes = self.pairs(measured, rows), self._axes(measured)
        names = {row.case: self.name(row, axes) for row in measured}
        if self.unit == "items/s":  # which says what is counted
            names = {row.case: str(row.axes[self.over]) for row in measured}
        is_named = "{choice}" not in self.screen
        if not pairs and self.claim is None and is_named:
            some = measured if len(measured) <= FEW else [*measured[:2], measured[-1]]
            figures = side_by_side((names[row.case], self.figure(row, axes)) for row in some)
            crowded = "oversubscribed" if some[-1].is_oversubscribed else ""
            yield answers.ScreenLine(self.on_screen(measured[0]), figures, crowded)
        is_beside = self.beside is not None
        is_pair = len(measured) > FEW or is_beside or not is_named
        for chosen in self.screen_each:
            some_pairs = [pair for pair in pairs if pair.row.has(chosen)]
            if not some_pairs:
                continue
            row, other, conclusion = max(some_pairs, key=lambda pair: answers.weight(pair[2]))
            label = {**names, **({other.case: self.beside_name} if is_beside else {})}
            shown = [
                (label[r.case] if is_named else "", self.figure(r, axes))
                for r in ([other, row] if is_pair else measured)
            ]
            choice = names[row.case]
            what = self.on_screen(row, choice=choice)
            figures = side_by_side(shown, " -> " if is_pair else ", ")
            verdict = answers.difference(conclusion, "" if is_pair else choice)
            learnt = self.learnt.format(what=what, choice=choice, **self.words_of(row))
            if self.share_of and conclusion.is_different:
                share = f"{100 * conclusion.factor:.0f} % of {label[other.case]}"
                yield answers.ScreenLine(what, figures, share)
            else:
                yield answers.ScreenLine(what, figures, verdict, conclusion, learnt)

    # ---- the chart ------------------------------------------------------------------------------

    def _times(self, row: Row) -> float:
        """This rate over the stored one, which all bytes count in."""
        return (self.value(row) or 0.0) / row.gb_per_s if row.gb_per_s else 0.0

    def _ideal(self, pairs: Sequence[Pair]) -> list[answers.Point]:
        """Where nothing is lost along an axis: the time of what the rows are held against, for as
        much work as theirs."""
        seconds = dict[float, float]()
        for row, other, _ in pairs if self.over and self.beside else ():
            seconds[float(other.axes[self.over])] = other.time
            work = self.work(row) if self.work else None
            seconds[float(row.axes[self.over])] = other.time * (work or 1.0)
        return [answers.Point(x, seconds[x], series="ideal") for x in sorted(seconds)]

    def _chart(
        self, group: Rows, here: Rows, rules: Sequence[Rule], pairs: Sequence[Pair]
    ) -> Chart | None:
        """Lines over sizes or along an axis, else bars."""
        y = Axis({"s": "seconds per step", "items/s": "items per second"}.get(self.unit, self.unit),
                 self.unit, better="lower" if self.unit == "s" else "higher")  # fmt: skip
        drawn = [row for row in group if row.seconds is not None]
        size, differ = size_axis(group), varying(drawn)
        along = [axis for axis in (self.over, size) if axis and axis in differ]
        if not along:
            axes = self._axes(here)
            bars = (marks.point(r, self.name(r, axes), "", y.unit, self.value(r)) for r in here)
            others = {pair.other.time for pair in pairs if self.beside and self.unit == "s"}
            beside = [Rule(self.beside_name, time) for time in others if len(others) == 1]
            return marks.bars(y, bars, rules=(*rules, *beside))
        x = along[-1] if self.unit == "GB/s" else along[0]
        series = [axis for axis in differ if axis != x]
        ideal = self._ideal(pairs)
        named = ((self.name(row, series) or "measured" * bool(ideal), row) for row in drawn)
        points = [
            *(marks.point(row, row.axes[x], name, y.unit, self.value(row)) for name, row in named),
            *ideal,
        ]
        if self.unit == "GB/s":
            rules = marks.near_limits(self.measured(drawn), points, self._times)
        return marks.lines(x, y, points, rules=tuple(rules))


def _largest(compared: Sequence[tuple[str, Ratio]], figures: Sequence[Figure]) -> str:
    """`direct is 2.7x faster than moved`, the largest that is faster, else slower; nothing where
    the launches do not tell."""
    by_size = sorted(compared, key=lambda known: answers.weight(known[1].conclusion))
    slower = [label for label, ratio in by_size if ratio.conclusion.verdict == "slower"]
    for verdict in ("faster", "slower"):
        largest = [known for known in by_size if known[1].conclusion.verdict == verdict][-1:]
        for label, ratio in largest:
            others = [other for other in slower if other != label]
            also = joined(others) if len(others) <= FEW else f"{len(others)} others"
            return f"{label} is {ratio}{f'; {also} slower' if others else ''}"
    if all(ratio.conclusion.verdict == "same" for _, ratio in compared):
        return f"the same within 5 %: {joined(shown.label for shown in figures)}"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling(Compare):
    """The figure at each number, each beside the fewest, and which number is enough."""

    over: str = "num_ranks"

    def asks(self, group: Rows) -> bool:
        return Compare.asks(self, group) and self.over in varying(group)

    def verdict(self, measured: Rows, figures: Sequence[Figure]) -> tuple[answers.State, str]:
        if few := questions.few_launches(measured):
            return "undecided", f"undecided: {few}"
        for best, fewest in enumerate(measured):
            others = {row.case: self.conclude(row, fewest) for row in measured if row is not fewest}
            more = {others[row.case].verdict for row in measured[best + 1 :]}
            if "faster" not in more:
                break
        if others and all(known.verdict == "undecided" for known in others.values()):
            return "undecided", answers.difference(max(others.values(), key=answers.weight))
        slower = joined(
            f"{shown.label} {units.format_factor(1 / others[row.case].factor)}"
            for row, shown in zip(measured, figures, strict=True)
            if row.case in others and others[row.case].verdict == "slower"
        )
        none = "no difference seen with more" if "undecided" in more else "more is no faster"
        value = in_unit(figures[best].value or 0.0, self.unit)
        verdict = f"{figures[best].label}: {value}{' a step' * (self.unit == 's')}"
        verdict += f", and {none}" if more else ""
        return "figure", f"{verdict}; slower: {slower}" if slower else verdict
