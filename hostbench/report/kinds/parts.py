"""parts: a whole against its parts alone and the ideal that follows from them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hostbench.core import units
from hostbench.core.efficiency import Efficiency, by_launch, overlap
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Figure, Ratio, Rule, State, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.question import Question, figure, side_by_side
from hostbench.report.rows import Row, Rows, valid

HIDES, HARDLY = 0.5, 0.1
"""From this share of the possible gain on it counts as had; below that one as not."""
BEATEN = 1.05
"""A share whose whole interval is above it says that the ideal is none."""


class _Way(NamedTuple):
    """A loop beside the serial one."""

    name: str
    row: Row
    gain: Conclusion
    hidden: Efficiency | None
    """The share of the possible gain; None of a control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Question):
    """Ways to do the whole (values of `axis`) against `serial` and the ideal."""

    axis: str
    serial: str
    ways: tuple[str, ...]
    parts: tuple[str, ...]
    ideal: Callable[..., float]
    """Seconds of the whole at best, from those of each of the parts."""
    controls: tuple[str, ...] = ()
    """Ways that cannot hide anything: shown without an efficiency, and never called best."""

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from Question.chosen(self)
        yield self.axis, (self.serial, *self.ways, *self.parts, *self.controls)

    def asks(self, group: Rows) -> bool:
        """Without the serial loop nothing can be said."""
        has_serial = any(row.axes.get(self.axis) == self.serial for row in group)
        return Question.asks(self, group) and has_serial

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        here = questions.at_size(group, together=2)
        named = self._named(here)
        ways = self._ways(named)
        state, verdict = self._verdict(named, ways)
        figures = [*self._figures(named, ways)]
        ideal = next((w.hidden.ideal_s for w in ways.values() if w.hidden), None)
        if ideal is not None:
            figures.append(Figure("ideal", ideal, "s", note="a bound"))
        order = [*self.parts, self.serial, *self.controls, *self.ways]
        drawn = sorted(
            (row for row in here if row.axes.get(self.axis) in order),
            key=lambda row: order.index(str(row.axes[self.axis])),
        )
        points = (marks.point(row, self.name(row, [self.axis])) for row in drawn)
        rules = () if ideal is None else (Rule("ideal", ideal),)
        chart = marks.chart("bar", marks.LANES, marks.TIME, points, rules=rules)
        notes = self.at(here, ())
        return self.made(text, state, verdict, figures, lost=here, notes=notes, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[answers.ScreenLine]:
        """The serial loop, the fastest way, the ideal."""
        named = self._named(questions.at_size(group, together=2))
        able = [(way, way.hidden) for way in self._ways(named).values() if way.hidden]
        if not able:
            return
        best, hidden = max(able, key=lambda pair: pair[0].gain.factor)
        loops = (named[self.serial], best.row)
        figures = side_by_side((("", figure("", row)) for row in loops), " -> ")
        if hidden.ideal_s is not None and hidden.ideal_s <= best.row.time:
            figures += f", ideal {units.format_seconds(hidden.ideal_s)}"
        verdict, what = answers.difference(best.gain), self.screen.format(**self.words_of(best.row))
        if hidden.share is not None:
            verdict += f", hides {100 * hidden.share:.0f} %"
        yield answers.ScreenLine(what, figures, verdict, best.gain, what)

    def _named(self, rows: Rows) -> dict[str, Row]:
        """The loops that have a valid number."""
        return {str(row.axes[self.axis]): row for row in valid(rows) if self.axis in row.axes}

    def _ways(self, named: Mapping[str, Row]) -> dict[str, _Way]:
        """Each way that has a number beside serial; no share of a difference that is not
        established."""
        serial = named.get(self.serial)
        if serial is None:
            return {}
        parts = (named[name].launches if name in named else {} for name in self.parts)
        ideal = by_launch(self.ideal, *parts)
        ways = {}
        for way in (*self.controls, *self.ways):
            if way in named:
                row = named[way]
                gain, hidden = conclude(row.by_launch, serial.by_launch), None
                if way not in self.controls:
                    hidden = _within(overlap(serial.launches, row.launches, ideal))
                    hidden = hidden.without_share() if gain.verdict == "undecided" else hidden
                ways[way] = _Way(self.word(self.axis, way), row, gain, hidden)
        return ways

    def _verdict(self, named: Mapping[str, Row], ways: Mapping[str, _Way]) -> tuple[State, str]:
        """A way wins where it is established to be faster than serial, and by a share that the
        launches establish."""
        able = [(way, way.hidden) for way in ways.values() if way.hidden]
        if not able:
            lost = "any other loop" if self.serial in named else "the serial loop"
            return "undecided", f"undecided: no number of {lost} in this run"
        faster = [(way, hidden) for way, hidden in able if way.gain.verdict == "faster"]
        unsure = joined(way.name for way, _ in able if way.gain.verdict == "undecided")
        few = questions.few_launches([*named.values()], " (", ")")
        apart = f"{unsure} cannot be told from serial{few}" if unsure else ""
        if not faster and unsure:
            return "undecided", f"undecided: {apart}"
        if not faster:
            are = "is" if len(able) == 1 else "are"
            return "no", f"no: {joined(way.name for way, _ in able)} {are} not faster than serial"
        shares = [(hidden.share, way, hidden) for way, hidden in faster if hidden.share is not None]
        unsaid = [(way, hidden) for way, hidden in faster if hidden.share is None]
        reasons = "; ".join(f"{w.name}: {h.undecided or h.refused}" for w, h in unsaid)
        state: State = "no"
        verdict = ""
        if shares:
            state, verdict = _hides(*max(shares, key=lambda known: known[0]))
        if state == "no" and unsaid:
            best = max((way for way, _ in unsaid), key=lambda way: way.gain.factor)
            factor = units.format_factor(best.gain.factor)
            said = f"{best.name} is {factor} faster than serial"
            return "partly", f"{said}; how much it hides is not known ({reasons})"
        if state != "yes" and (reasons or apart):
            others = "; ".join(filter(None, [reasons, apart]))
            return "undecided", f"undecided: {others}; of the others: {verdict}"
        return state, verdict

    def _figures(self, named: Mapping[str, Row], ways: Mapping[str, _Way]) -> Iterator[Figure]:
        serial = self.word(self.axis, self.serial)
        for loop in (self.serial, *self.controls, *self.ways, *self.parts):
            if loop in named:
                way, label = ways.get(loop), self.word(self.axis, loop)
                yield figure(label, named[loop], ratio=Ratio(serial, way.gain) if way else None)
                if way and way.hidden:
                    yield _share_figure(f"{label}, hidden share", way.hidden)


def _within(share: Efficiency) -> Efficiency:
    """Within 0 and 1; none where even its interval is above: then the parts alone are no measure
    of the parts together."""
    if share.share is None or share.low is None or share.high is None:
        return share
    if share.low > BEATEN:
        return share.without_share(refused="the loop beats the ideal that its parts give")
    value, low, high = (min(max(end, 0.0), 1.0) for end in (share.share, share.low, share.high))
    return replace(share, share=value, low=low, high=high)


def _hides(share: float, way: _Way, hidden: Efficiency) -> tuple[State, str]:
    """Of a way that is established to be faster than serial."""
    low, high = hidden.low or 0.0, hidden.high or 0.0
    verb = "hide" if way.name.endswith("streams") else "hides"
    if low <= HARDLY and high >= HIDES:
        ends = f"from {100 * low:.0f} % to {100 * high:.0f} %"
        return "undecided", f"undecided: the best, {way.name}, {verb} {ends}"
    words = f"{way.name} {verb} {100 * share:.0f} % ({_interval(hidden)})"
    if share >= HIDES:
        return "yes", f"yes: {words}"
    return ("partly", f"in part: {words}") if share >= HARDLY else ("no", f"no: at best {words}")


def _interval(share: Efficiency) -> str:
    kind = "few launches say" if share.is_few else "99 % interval"
    return f"{kind} {100 * (share.low or 0.0):.0f} % to {100 * (share.high or 0.0):.0f} %"


def _share_figure(label: str, share: Efficiency) -> Figure:
    if share.share is None:
        reason = share.refused or share.undecided
        status = "refused" if share.refused else "undecided"
        return Figure(label, None, "share", status=status, reason=reason)
    if share.is_few:
        return Figure(label, share.share, "share", note=_interval(share))
    return Figure(label, share.share, "share", low=share.low, high=share.high)
