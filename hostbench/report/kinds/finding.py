"""finding: what cases turned out to do, by size, and what was counted of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from hostbench.core import units
from hostbench.report.answer import Answer, Axis, Figure, ScreenLine, State, in_unit, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds.question import NOT_ASKED, Question, side_by_side, unseen
from hostbench.report.rows import Row, Rows, grouped, ordered, size_axis, valid, varying

Shown = Callable[[Row], bool | None]
"""Whether a case shows it; None where it is not known."""
_STATES: dict[bool | None, State] = {True: "yes", False: "no", None: "undecided"}
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(Question):
    """Whether cases show a finding: always, never, or from which size on; and what a family makes
    of the numbers of each case.
    """

    finding: str | Shown = ""
    """Without one the verdict is the figures."""
    stretch: Mapping[bool | None, str] = field(default_factory=lambda: {True: "yes", False: "no"})
    """What is said where it is there and where it is not."""
    mixed: str = "not always"
    share: str = ""
    """A finding that says how much, from 0 to 1, which is shown and drawn."""
    is_of_call: bool = False
    """It is about when a call returns: shown and drawn is asyncness, 1 - call / end to end."""
    figures: Callable[[Row, Rows], Iterable[Figure]] | None = None
    """What is said of each case that has a number, which may need the family's other rows."""
    counts: str = ""
    """What these figures count: the title of their chart, if they have one."""

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        size = size_axis(group)
        axes = [axis for axis in varying(group) if axis != size]
        series = [(self.name(some[0], axes), some) for _, some in grouped(group, axes)]
        known = [(name, ordered(some, size)) for name, some in series if valid(some)]
        of_each = self.figures or (lambda row, rows: ())
        figures = [shown for row in valid(group) for shown in of_each(row, rows)]
        counted = [figure for figure in figures if figure.value is not None]
        if self.finding:
            state, verdict = self._by_size(known, size)
            lacking = [
                f"{name} {_UNKNOWN} ({unseen(some)})" for name, some in series if not valid(some)
            ]
            verdict = "; ".join([verdict, *lacking])
            state = "partly" if lacking and state == "yes" else state
        else:
            is_refused = figures and all(figure.status == "refused" for figure in figures)
            state = "figure" if counted else "no" if is_refused else "undecided"
            reasons = dict.fromkeys(own.reason or NOT_ASKED for own in figures) or [NOT_ASKED]
            values = (f"{own.label} {in_unit(own.value or 0.0, own.unit)}" for own in counted)
            verdict = joined(values) or f"{state}: {'; '.join(reasons)}"
        chart = marks.bars_of(self.counts, counted) if self.counts else None
        if self.share or self.is_of_call:
            figures += [self._figure(name, some[-1], size) for name, some in known]
            y = Axis(self._what, "share")
            points = (
                marks.point(
                    row, row.axes[size or ""], self.name(row, axes), "share", self._much(row)
                )
                for row in (group if size else ())
            )
            chart = marks.lines(size or "", y, points)
        lines = self._lines(group, size, verdict, counted)
        notes = self.at(group) if size and size not in varying(group) else ()
        return self.made(
            text, state, verdict, figures, lost=group, lines=lines, notes=notes, chart=chart
        )

    def _by_size(self, known: Sequence[tuple[str, Rows]], size: str | None) -> tuple[State, str]:
        """`not always: async at 1KiB, not async from 4KiB to 16KiB`; lines of which the same is
        said, together."""
        findings = {self._shows(row) for _, some in known for row in some}
        is_mixed = len(findings) > 1
        verdict = self.mixed if is_mixed else self._said(next(iter(findings), None))
        names: dict[str, list[str]] = {}
        for name, rows in known:
            stretches = [
                f"{self._said(shown) * is_mixed} {self.span(size, [*some]) if size else ''}".strip()
                for shown, some in groupby(rows, key=self._shows)
            ]
            names.setdefault(", ".join(stretches), []).append(name)
        by_name = [f"{joined(filter(None, some))} {text}".strip() for text, some in names.items()]
        state: State = "partly" if is_mixed else _STATES[next(iter(findings), None)]
        return state, ": ".join(filter(None, [verdict, "; ".join(by_name)]))

    def _lines(
        self, group: Rows, size: str | None, verdict: str, counted: Sequence[Figure]
    ) -> Iterator[ScreenLine]:
        """At the largest size, of the first that has a number."""
        row = max(valid(group), key=lambda row: int(row.axes[size]) if size else 0)
        much = self._much(row)
        figures = "" if much is None else f"{self._what} {much:.2f}"
        if counted:
            figures = side_by_side(("", figure) for figure in counted)
        if self.is_of_call and row.call_s is not None:
            call, whole = units.format_seconds(row.call_s), units.format_seconds(row.time)
            figures = f"returns after {call} of {whole}"
        yield ScreenLine(self.on_screen(row), figures, verdict.partition(":")[0])

    def _shows(self, row: Row) -> bool | None:
        """None where it is not known; odd values tell nothing either."""
        finding = self.finding
        value = row.findings.get(finding) if isinstance(finding, str) else finding(row)
        return value if isinstance(value, bool) else None

    def _said(self, shown: bool | None) -> str:
        return _UNKNOWN if shown is None else self.stretch[shown]

    def _figure(self, name: str, row: Row, size: str | None) -> Figure:
        """How much of it."""
        at = units.format_bytes(int(row.axes[size])) if size else ""
        label = ": ".join(filter(None, [f"{at} {name}".strip(), self._what.partition(" (")[0]]))
        much, note = self._much(row), self._call(row) if self.is_of_call else ""
        if much is not None:
            return Figure(label, much, "share", note=note)
        lacks = "it was not observed" if self.share else "the call's own time is not stored"
        return Figure(label, None, "share", status="refused", reason=lacks, note=note)

    @property
    def _what(self) -> str:
        of_call = "asyncness (1: the call returns at once, 0: it waits)"
        return "overlapped share of the shorter one" if self.share else of_call

    def _much(self, row: Row) -> float | None:
        """The observed share, else asyncness; None where it is not known."""
        if self.share:
            value = row.number(self.share)
            return value if value is not None and 0 <= value <= 1 else None
        if row.call_s is None or not row.seconds or row.call_s < 0:
            return None
        return 1 - row.call_s / row.seconds

    def _call(self, row: Row) -> str:
        """When the call returns; that this contradicts the delay probe."""
        if row.call_s is None or row.seconds is None:
            return ""
        call, whole = units.format_seconds(row.call_s), units.format_seconds(row.seconds)
        is_early = 1 - row.call_s / row.seconds > 0.5
        odd = "" if self._shows(row) in (None, is_early) else ", which the delay probe contradicts"
        return f"the call returns after {call} of {whole}{odd}"
