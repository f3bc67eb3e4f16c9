"""finding: what a case turned out to do, by size, and how much of it: the share that was observed,
else how much of the time the call leaves free."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from hostbench.core import units
from hostbench.report.answer import Answer, Axis, Figure, ScreenLine, State, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds.question import Question, unseen
from hostbench.report.rows import Row, Rows, grouped, ordered, size_axis, valid, varying, where

_STATES: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}
_SAID = {True: "yes", False: "no", None: "unknown"}
_ALL = {True: "at every size", False: "at no size", None: "unknown at every size"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Question):
    """Whether cases show a finding: always, never, or from which size on.

    `also` are further workloads that are asked the same; their names go in `words["workload"]`.
    """

    finding: str
    also: tuple[str, ...] = ()
    stretch: Mapping[bool | None, str] = field(
        default_factory=lambda: {True: "yes", False: "no", None: "unknown"}
    )
    """What is said of a stretch of sizes where it is there, is not, or is not known."""
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

    def chosen(self) -> Iterator[tuple[str, Any]]:
        """Not the axis `workload`, which the answer makes."""
        yield from (pair for pair in Question.chosen(self) if pair[0] != "workload")

    def answers(self, rows: Rows) -> Iterator[Answer]:
        """As of one workload: the others count as further values of an axis `workload`."""
        names = (self.workload, *self.also)
        joint = [row.with_axes(workload=row.workload) for row in rows if row.workload in names]
        yield from self.of_rows(where(joint, **self.where), rows)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group)
        axes = [axis for axis in varying(group) if axis != size]
        series = [(self.name(some[0], axes), some) for _, some in grouped(group, axes)]
        known = [(name, ordered(some, size)) for name, some in series if valid(some)]
        findings = {_is_shown(row, self.finding) for _, some in known for row in some}
        is_mixed = len(findings) > 1
        shown = next(iter(findings), None)  # none where a row lacks an axis that others have
        verdict = "not always" if is_mixed else _SAID[shown]
        if size and (is_mixed or len({row.axes[size] for row in valid(group)}) > 1):
            verdict += f": {'; '.join(self._by_size(known, size))}"
        lacking = [f"{name} unknown ({unseen(some)})" for name, some in series if not valid(some)]
        figures = [self.beside(row, rows) for row in valid(group)] if self.beside else []
        chart = None
        if self.of_call:
            figures += [self._figure(name, some[-1], size) for name, some in known]
            ends = "" if self.share else " (1: the call returns at once, 0: it waits)"
            y = Axis(title=f"{self._what}{ends}", unit="share")
            points = (
                marks.point(r, r.axes[size or ""], self.name(r, axes), y.unit, self._much(r))
                for r in (group if size else ())
            )
            chart = marks.chart("line", marks.axis_of(size or ""), y, points)
        state: State = "partly" if is_mixed else _STATES[shown]
        verdict = "; ".join([verdict, *lacking])
        return self.made(text, state, verdict, figures, lost=group, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """At the largest size, of the first that has a number."""
        size = size_axis(group)
        row = max(valid(group), key=lambda row: int(row.axes[size]) if size else 0)
        much = self._much(row)
        figures = "" if much is None else f"{self._what} {much:.2f}"
        if self.share is None and row.call_s is not None:
            call, whole = units.format_seconds(row.call_s), units.format_seconds(row.time)
            figures = f"returns after {call} of {whole}"
        findings = {_is_shown(row, self.finding) for row in valid(group)}
        verdict = "not always" if len(findings) > 1 else self.stretch[findings.pop()]
        yield ScreenLine(self.screen.format(**self.words_of(row)), figures, verdict)

    def _by_size(self, series: Sequence[tuple[str, Rows]], size: str) -> Iterator[str]:
        """`at every size from 1KiB to 1GiB`, or the stretches of sizes that differ; lines of which
        the same is said, together."""
        names: dict[str, list[str]] = {}
        for name, rows in series:
            stretches = [
                (shown, [int(row.axes[size]) for row in some])
                for shown, some in groupby(rows, key=lambda row: _is_shown(row, self.finding))
            ]
            words = self.stretch if len(rows) == 1 or len(stretches) > 1 else _ALL
            text = ", ".join(f"{words[shown]} {span(sizes)}" for shown, sizes in stretches)
            names.setdefault(text, []).append(name)
        for text, some in names.items():
            yield f"{joined(filter(None, some))} {text}".strip()

    def _figure(self, name: str, row: Row, size: str | None) -> Figure:
        """How much of it."""
        at = units.format_bytes(int(row.axes[size])) if size else ""
        label = ": ".join(filter(None, [f"{at} {name}".strip(), self._what]))
        note, much = _call_in_words(row, self.finding), self._much(row)
        if much is not None:
            return Figure(label, much, "share", note=note)
        lacks = "it was not observed" if self.share else "the call's own time is not stored"
        return Figure(label, None, "share", status="refused", reason=lacks, note=note)

    @property
    def _what(self) -> str:
        return "overlapped share of the shorter one" if self.share else "asyncness"

    def _much(self, row: Row) -> float | None:
        """The observed share, else asyncness, 1 - call / end to end; None where it is not known."""
        if self.share is not None:
            value = row.number(self.share)
            return value if value is not None and 0 <= value <= 1 else None
        if row.call_s is None or not row.seconds or row.call_s < 0:
            return None
        return 1 - row.call_s / row.seconds


def span(sizes: Sequence[int]) -> str:
    """`from 1KiB to 1GiB`, or `at 1GiB`."""
    first, last = units.format_bytes(min(sizes)), units.format_bytes(max(sizes))
    return f"at {first}" if first == last else f"from {first} to {last}"


def _is_shown(row: Row, finding: str) -> bool | None:
    """None where it is not known; odd values tell nothing either."""
    value = row.findings.get(finding)
    return value if isinstance(value, bool) else None


def _call_in_words(row: Row, finding: str) -> str:
    """How long the call takes; where that contradicts the delay probe, both are said."""
    if row.call_s is None or row.seconds is None:
        return ""
    call, whole = units.format_seconds(row.call_s), units.format_seconds(row.seconds)
    returns_early = 1 - row.call_s / row.seconds > 0.5
    words = "the call returns after" if returns_early else "the call itself takes"
    shown = _is_shown(row, finding) if finding == "asynchronous" else None
    if shown is True and not returns_early:
        words = "the delay probe saw it return before its stream was done, yet it takes"
    if shown is False and returns_early:
        words = "the delay probe saw it wait for its stream, yet it returns after"
    return f"{words} {call} of {whole}"
