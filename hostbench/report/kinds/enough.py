"""enough: over something that is counted, the fewest of it than which no more is faster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hostbench.core import units
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report.answer import (
    Answer,
    Axis,
    Figure,
    Point,
    Ratio,
    Rule,
    ScreenLine,
    State,
    difference,
    joined,
)
from hostbench.report.kinds.question import (
    TIME,
    Question,
    axis_title,
    chart,
    choices,
    few_launches,
    figure,
    side_by_side,
    time_point,
    varying,
    weight,
    without_number,
)
from hostbench.report.rows import Row, Rows, first, valid

_ITEMS = Axis(title="items per second", unit="items/s", better="higher")


def items_per_s(row: Row, axis: str) -> float:
    """Of the items that the axis counts in each step."""
    return int(row.axes[axis]) / row.time


@dataclass(frozen=True, slots=True, kw_only=True)
class Enough(Question):
    """How many are enough: workers, streams, items in a batch.

    With `per_item` the axis counts what one step does, and the time of an item is compared, not
    that of a step. `beside` (axes that differ) is a case that each is held against: the step
    without what is counted.
    """

    over: str
    per_item: bool = False
    beside: Mapping[str, Any] = field(default_factory=dict)
    note: Callable[[Row], str] = lambda row: ""

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        yield self.over, ()
        yield from choices(self.beside)

    def asks(self, group: Rows) -> bool:
        return self.over in varying(group)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        known = sorted(valid(group), key=lambda row: int(row.axes[self.over]))
        state, verdict = self._conclusion(known)
        floor = first(rows, self.workload, **{**self.where, **self.beside}) if self.beside else None
        rules = () if floor is None else (Rule(label=self._name_of_floor(), low=floor.time),)
        x = Axis(title=axis_title(self.over), is_log=_spans_decades(known, self.over))
        y = _ITEMS if self.per_item else TIME
        return self.made(
            text,
            state,
            verdict,
            figures=(
                *(self._figure(row, floor) for row in known),
                *without_number(group, self),
            ),
            chart=chart("line", x, y, map(self._point, known), rules=rules),
        )

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """The fewest and the count that differs most from it."""
        known = sorted(valid(group), key=lambda row: int(row.axes[self.over]))
        if len(known) < 2:
            return
        others = [(row, self._against(row, known[0])) for row in known[1:]]
        row, conclusion = max(others, key=lambda one: weight(one[1]))
        shown = known if len(known) <= 3 else [known[0], row]
        what, name = self.on_screen(row), self._short(row)
        yield ScreenLine(
            what=what,
            figures=side_by_side(
                replace(self._figure(one, None), label=self._short(one)) for one in shown
            ),
            verdict=difference(conclusion, name),
            conclusion=conclusion,
            learnt=f"{what}: {name}",
        )

    def _conclusion(self, known: Sequence[Row]) -> tuple[State, str]:
        best, more = known[0], set[str]()
        for place, best in enumerate(known):
            more = {self._against(other, best).verdict for other in known[place + 1 :]}
            if "faster" not in more:
                break
        if few := few_launches(known):
            return "undecided", f"undecided: {few}"
        against_best = [(row, self._against(row, best)) for row in known]
        if len(known) > 1 and all(
            one.verdict == "undecided" for row, one in against_best if row is not best
        ):
            least = max((one for row, one in against_best if row is not best), key=weight)
            return "undecided", difference(least)
        slower = [
            f"{self._name(row)} {units.format_factor(1 / one.factor)}"
            for row, one in against_best
            if one.verdict == "slower"
        ]
        said = "no difference seen with more" if "undecided" in more else "more is no faster"
        most = f", and {said}" if more else ""
        others = f"; slower: {joined(slower)}" if slower else ""
        return "figure", f"{self._name(best)}: {self._in_words(best)}{most}{others}"

    def _against(self, row: Row, other: Row) -> Conclusion:
        return conclude(self._by_launch(row), self._by_launch(other))

    def _by_launch(self, row: Row) -> Mapping[int, float]:
        num = int(row.axes[self.over]) if self.per_item else 1
        return {launch: seconds / num for launch, seconds in row.by_launch.items()}

    def _in_words(self, row: Row) -> str:
        if self.per_item:
            return f"{items_per_s(row, self.over):,.0f} items/s"
        return f"{units.format_seconds(row.time)} a step"

    def _figure(self, row: Row, floor: Row | None) -> Figure:
        if self.per_item:
            rate = items_per_s(row, self.over)
            return Figure(label=self._name(row), value=rate, unit="items/s", note=self.note(row))
        ratio = None
        if floor is not None:
            ratio = Ratio(to=self._name_of_floor(), conclusion=self._against(row, floor))
        return figure(self._name(row), row, note=self.note(row), ratio=ratio)

    def _short(self, row: Row) -> str:
        """The count alone of a rate per item, which says what is counted."""
        return str(row.axes[self.over]) if self.per_item else self._name(row)

    def _name(self, row: Row) -> str:
        return self.word(self.over, row.axes[self.over])

    def _name_of_floor(self) -> str:
        return " ".join(self.word(axis, value) for axis, value in self.beside.items())

    def _point(self, row: Row) -> Point | None:
        x = float(row.axes[self.over])
        if not self.per_item:
            return time_point(row, x)
        rate = items_per_s(row, self.over)
        return Point(x=x, y=rate, text=f"{row.case}: {rate:,.0f} items/s")


def _spans_decades(rows: Rows, axis: str) -> bool:
    """From 1 to 1024 in a batch, not from no to 8 workers."""
    counts = [int(row.axes[axis]) for row in rows]
    return min(counts) > 0 and max(counts) > 50 * min(counts)
