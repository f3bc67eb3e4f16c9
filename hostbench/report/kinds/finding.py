"""finding: what a case turned out to do, by size, and how much of it: the share that was observed,
else how much of the time the call leaves free."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from hostbench.core import units
from hostbench.report.answer import (
    Answer,
    Axis,
    Chart,
    Figure,
    Point,
    ScreenLine,
    State,
    joined,
)
from hostbench.report.kinds.question import (
    Question,
    chart,
    sizes_axis,
    unseen,
    varying,
    without_number,
)
from hostbench.report.rows import Row, Rows, grouped, size_axis, valid, where

_STATES: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}
_ALL = {True: "at every size", False: "at no size", None: "not to be told at any size"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Question):
    """Whether cases show a finding: always, never, or from which size on.

    `also` are further workloads that are asked the same; their names go in `words["workload"]`.
    """

    finding: str
    also: tuple[str, ...] = ()
    says: Mapping[bool | None, str] = field(
        default_factory=lambda: {True: "yes", False: "no", None: "it cannot be told"}
    )
    stretch: Mapping[bool | None, str] = field(
        default_factory=lambda: {True: "yes", False: "no", None: "not to be told"}
    )
    """The same for a stretch of sizes."""
    share: str | None = None
    """A finding that says how much, from 0 to 1: figures and chart then show that, in place of
    asyncness."""
    beside: Callable[[Row, Rows], Figure] | None = None
    """A further figure of each case, which may need the family's other rows."""
    of_call: bool = True
    """It is about when a call returns, or what ran meanwhile: how much of it is shown."""

    def check(self) -> None:
        Question.check(self)
        for other in self.also:
            replace(self, workload=other, also=()).check()

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        """Not the axis `workload`, which the answer makes."""
        named = Question.names(self)
        yield from ((axis, values) for axis, values in named if axis != "workload")

    def answers(self, rows: Rows) -> Iterator[Answer]:
        """As of one workload: the others count as further values of an axis `workload`."""
        names = (self.workload, *self.also)
        joint = [row.with_axes(workload=row.workload) for row in rows if row.workload in names]
        yield from self.of_rows(where(joint, **self.where), rows)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group)
        axes = [axis for axis in varying(group) if axis != size]
        lines = [(self.name(some[0], axes), some) for _, some in grouped(group, axes)]
        known = [(name, some) for name, some in lines if valid(some)]
        kinds = {_found(row, self.finding) for _, some in known for row in valid(some)}
        is_mixed = len(kinds) > 1
        found = next(iter(kinds), None)  # none where a row lacks an axis that others have
        verdict = "not always" if is_mixed else self.says[found]
        lacking = [f"{name} not known ({unseen(some)})" for name, some in lines if not valid(some)]
        stretches = _together(
            {name: self._by_size(some, size) for name, some in known} if size else {}
        )
        if size and (is_mixed or len({row.axes[size] for row in valid(group)}) > 1):
            verdict += f": {'; '.join(stretches)}"
        figures = [self.beside(row, rows) for row in valid(group)] if self.beside else []
        figures += [self._figure(name, some, size) for name, some in known if self.of_call]
        return self.made(
            text,
            "partly" if is_mixed else _STATES[found],
            "; ".join([verdict, *lacking]),
            figures=(*figures, *without_number(group, self)),
            chart=self._chart(known, size),
        )

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """At the largest size, of the first that has a number."""
        size = size_axis(group)
        row = max(valid(group), key=lambda one: int(one.axes[size]) if size else 0)
        much = self._much(row)
        figures = "" if much is None else f"{self._what} {much:.2f}"
        if self.share is None and row.call_s is not None:
            call, whole = units.format_seconds(row.call_s), units.format_seconds(row.time)
            figures = f"returns after {call} of {whole}"
        kinds = {_found(one, self.finding) for one in valid(group)}
        verdict = "not always" if len(kinds) > 1 else self.stretch[next(iter(kinds))]
        yield ScreenLine(what=self.on_screen(row), figures=figures, verdict=verdict)

    def _by_size(self, rows: Rows, size: str) -> str:
        """`at every size from 1KiB to 1GiB`, or the stretches of sizes that differ."""
        ordered = sorted(valid(rows), key=lambda row: int(row.axes[size]))
        runs = [
            (found, [int(row.axes[size]) for row in some])
            for found, some in groupby(ordered, key=lambda row: _found(row, self.finding))
        ]
        if len(ordered) > 1 and len(runs) == 1:
            return f"{_ALL[runs[0][0]]} {span(runs[0][1])}"
        return ", ".join(f"{self.stretch[found]} {span(sizes)}" for found, sizes in runs)

    def _figure(self, name: str, rows: Rows, size: str | None) -> Figure:
        """At the largest size: how much of it."""
        row = max(valid(rows), key=lambda one: int(one.axes[size]) if size else 0)
        label = " ".join(
            filter(None, [units.format_bytes(int(row.axes[size])) if size else "", name])
        )
        what, much = self._what, self._much(row)
        return Figure(
            label=f"{label}: {what}" if label else what,
            value=much,
            unit="share",
            status="ok" if much is not None else "refused",
            reason=None if much is not None else self._lacks,
            note=_call_in_words(row, self.finding),
        )

    @property
    def _what(self) -> str:
        return "overlapped share of the shorter one" if self.share else "asyncness"

    @property
    def _lacks(self) -> str:
        return "it was not observed" if self.share else "the call's own time is not stored"

    def _much(self, row: Row) -> float | None:
        """The observed share, else asyncness; None where that is not stored."""
        if self.share is None:
            return asyncness(row)
        value = row.findings.get(self.share)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            return None
        return float(value)

    def _chart(self, known: Sequence[tuple[str, Rows]], size: str | None) -> Chart | None:
        if size is None or not self.of_call:
            return None
        points = (
            Point(
                x=float(row.axes[size]),
                y=much,
                series=name,
                status=row.status,
                text=f"{row.case}: {self._what} {much:.2f}",
            )
            for name, some in known
            for row in some
            if (much := self._much(row)) is not None
        )
        ends = "" if self.share else " (1: the call returns at once, 0: it waits)"
        return chart(
            "line", sizes_axis(size), Axis(title=f"{self._what}{ends}", unit="share"), points
        )


def asyncness(row: Row) -> float | None:
    """1 - call / end to end; None where one is not stored."""
    if row.call_s is None or not row.seconds or row.call_s < 0:
        return None
    return 1 - row.call_s / row.seconds


def span(sizes: Sequence[int]) -> str:
    """`from 1KiB to 1GiB`, or `at 1GiB`."""
    first, last = units.format_bytes(min(sizes)), units.format_bytes(max(sizes))
    return f"at {first}" if first == last else f"from {first} to {last}"


def _found(row: Row, name: str) -> bool | None:
    """None where it could not be found out; odd values tell nothing either."""
    value = row.findings.get(name)
    return value if isinstance(value, bool) else None


def _together(said: Mapping[str, str]) -> list[str]:
    """Lines of which the same is said, together."""
    turned: dict[str, list[str]] = {}
    for name, text in said.items():
        turned.setdefault(text, []).append(name)
    return [f"{joined(filter(None, names))} {text}".strip() for text, names in turned.items()]


def _call_in_words(row: Row, finding: str) -> str:
    """How long the call takes; where that contradicts the delay probe, both are said."""
    if row.call_s is None or row.seconds is None:
        return ""
    call, whole = units.format_seconds(row.call_s), units.format_seconds(row.seconds)
    returns_early = 1 - row.call_s / row.seconds > 0.5
    words = "the call returns after" if returns_early else "the call itself takes"
    found = _found(row, finding) if finding == "asynchronous" else None
    if found is True and not returns_early:
        words = "the delay probe saw it return before its stream was done, yet it takes"
    if found is False and returns_early:
        words = "the delay probe saw it wait for its stream, yet it returns after"
    return f"{words} {call} of {whole}"
