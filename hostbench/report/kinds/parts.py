"""parts: a whole against its parts alone and the ideal that follows from them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hostbench.core import units
from hostbench.core.efficiency import Efficiency, Launches
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

Efficiencies = Mapping[str, Efficiency]
"""What the ideal assumes -> the share of the possible gain; the first leads the answer."""


class _Way(NamedTuple):
    """A loop beside the serial one."""

    name: str
    row: Row
    gain: Conclusion
    shares: Efficiencies
    """None of a control."""

    @property
    def lead(self) -> Efficiency:
        """By the ideal that leads the answer."""
        return next(iter(self.shares.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Question):
    """Ways to do the whole (values of `axis`) against `serial` and the ideal.

    `efficiency(serial, way, parts)` gets seconds by launch, the parts' by their names.
    """

    axis: str
    serial: str
    ways: tuple[str, ...]
    parts: tuple[str, ...]
    efficiency: Callable[[Launches, Launches, Mapping[str, Launches]], Efficiencies]
    controls: tuple[str, ...] = ()
    """Ways that cannot hide anything: shown without an efficiency, and never called best."""
    control: str = ""
    """What is said of each of them."""
    remark: Callable[[Mapping[str, Row]], str] = lambda named: ""
    """A sentence about all ways of one size."""

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from Question.chosen(self)
        yield self.axis, (self.serial, *self.ways, *self.parts, *self.controls)

    def asks(self, group: Rows) -> bool:
        """Without the serial loop nothing can be said."""
        has_serial = any(row.axes.get(self.axis) == self.serial for row in group)
        return Question.asks(self, group) and has_serial

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        here = questions.at_size(group, together=2)
        named, alone = self._named(here), {str(row.axes[self.axis]): row for row in here}
        ways = self._ways(named)
        state, verdict = self._verdict(named, ways)
        ideals: dict[str, float] = {}
        for name, share in (pair for way in ways.values() for pair in way.shares.items()):
            if share.ideal_s is not None:
                ideals.setdefault(f"ideal of {name}" if name else "ideal", share.ideal_s)
        bounds = (Figure(name, seconds, "s", note="a bound") for name, seconds in ideals.items())
        lost = (
            Figure(self.word(self.axis, name), None, "s", status=row.status, reason=row.reason)
            for name, row in alone.items()
            if not row.is_valid
        )
        figures = (*self._figures(named, ways), *bounds, *lost)
        notes = tuple(filter(None, (*self.at(here, ()), self.remark(named))))
        order = [name for name in (*self.parts, self.serial, *self.ways) if name in alone]
        points = (marks.point(alone[name], self.word(self.axis, name)) for name in order)
        rules = tuple(Rule(name, seconds) for name, seconds in ideals.items())
        chart = marks.chart("bar", marks.LANES, marks.TIME, points, rules=rules)
        return self.made(text, state, verdict, figures, notes=notes, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[answers.ScreenLine]:
        """The serial loop, the fastest way, the ideal."""
        named = self._named(questions.at_size(group, together=2))
        ways = [way for way in self._ways(named).values() if way.shares]
        if not ways:
            return
        best = max(ways, key=lambda way: way.gain.factor)
        loops = (named[self.serial], best.row)
        figures = side_by_side((("", figure("", row)) for row in loops), " -> ")
        ideal, share = next(iter(best.shares.items()))
        if share.ideal_s is not None and share.ideal_s <= best.row.time:
            of = f" of {ideal}" if ideal else ""
            figures += f", ideal{of} {units.format_seconds(share.ideal_s)}"
        verdict, what = answers.difference(best.gain), self.screen.format(**self.words_of(best.row))
        if share.share is not None:
            verdict += f", hides {100 * share.share:.0f} %"
        yield answers.ScreenLine(what, figures, verdict, best.gain, what)

    def _named(self, rows: Rows) -> dict[str, Row]:
        """The loops that have a valid number."""
        return {str(row.axes[self.axis]): row for row in valid(rows) if self.axis in row.axes}

    def _ways(self, named: Mapping[str, Row]) -> dict[str, _Way]:
        """Each way that has a number beside serial; no share of a difference that is not
        established."""
        ways = {}
        parts = {name: named[name].launches if name in named else {} for name in self.parts}
        serial = named.get(self.serial)
        for way in self.ways:
            if serial is None or way not in named:
                continue
            row = named[way]
            gain = conclude(row.by_launch, serial.by_launch)
            shares: Efficiencies = {}
            if way not in self.controls:
                shares = self.efficiency(serial.launches, row.launches, parts)
            is_known = gain.verdict != "undecided"
            shares = {n: _within(e) if is_known else e.without_share() for n, e in shares.items()}
            ways[way] = _Way(self.word(self.axis, way), row, gain, shares)
        return ways

    def _verdict(self, named: Mapping[str, Row], ways: Mapping[str, _Way]) -> tuple[State, str]:
        """A way wins where it is established to be faster than serial, and by an efficiency that
        the launches establish."""
        able = [way for way in ways.values() if way.shares]
        if not able:
            lost = "any other loop" if self.serial in named else "the serial loop"
            return "undecided", f"undecided: no number of {lost} in this run"
        unsure = joined(way.name for way in able if way.gain.verdict == "undecided")
        few = questions.few_launches([*named.values()], " (", ")")
        apart = f"{unsure} cannot be told from serial{few}" if unsure else ""
        faster = [way for way in able if way.gain.verdict == "faster"]
        if not faster and unsure:
            return "undecided", f"undecided: {apart}"
        if not faster:
            are = "is" if len(able) == 1 else "are"
            return "no", f"no: {joined(way.name for way in able)} {are} not faster than serial"
        unsaid = [way for way in faster if way.lead.share is None]
        reasons = _why_unsaid(unsaid)
        best = max(faster, key=lambda way: (way.lead.share is not None, way.lead.share or 0.0))
        state, verdict = _hidden(best) if best.lead.share is not None else ("no", "")
        if state == "no" and unsaid:
            best = max(unsaid, key=lambda way: way.gain.factor)
            factor = units.format_factor(best.gain.factor)
            return "partly", f"{best.name} is {factor} faster than serial; {reasons}"
        if state != "yes" and (reasons or apart):
            others = "; ".join(filter(None, [reasons, apart]))
            return "undecided", f"undecided: {others}; of the others: {verdict}"
        return state, verdict

    def _figures(self, named: Mapping[str, Row], ways: Mapping[str, _Way]) -> Iterator[Figure]:
        serial = self.word(self.axis, self.serial)
        for loop in (self.serial, *self.ways, *self.parts):
            if loop in named:
                way, label = ways.get(loop), self.word(self.axis, loop)
                ratio = Ratio(serial, way.gain) if way else None
                note = self.control if loop in self.controls else ""
                yield figure(label, named[loop], ratio=ratio, note=note)
                yield from _share_figures(label, way.shares if way else {})


def _within(share: Efficiency) -> Efficiency:
    """Within 0 and 1; none where even its interval is above: then the parts alone are no measure
    of the parts together."""
    if share.share is None or share.low is None or share.high is None:
        return share
    if share.low > BEATEN:
        return share.without_share(refused="the loop beats the ideal that its parts give")
    value, low, high = (min(max(end, 0.0), 1.0) for end in (share.share, share.low, share.high))
    return replace(share, share=value, low=low, high=high)


def _hidden(best: _Way) -> tuple[State, str]:
    """Of a way that is established to be faster than serial."""
    share, low, high = (end or 0.0 for end in (best.lead.share, best.lead.low, best.lead.high))
    if low <= HARDLY and high >= HIDES:
        ends = f"from {100 * low:.0f} % to {100 * high:.0f} %"
        return "undecided", f"undecided: the best, {best.name}, hides {ends}"
    ideal = next(iter(best.shares))
    what = f"{ideal} could hide" if ideal else "could be hidden"
    hidden = f"{100 * share:.0f} % of what {what} is hidden by {best.name} ({_interval(best.lead)})"
    if share >= HIDES:
        return "yes", f"yes: {hidden}"
    return ("partly", f"in part: {hidden}") if share >= HARDLY else ("no", f"no: at best {hidden}")


def _interval(share: Efficiency) -> str:
    kind = "few launches say" if share.is_few else "99 % interval"
    return f"{kind} {100 * (share.low or 0.0):.0f} % to {100 * (share.high or 0.0):.0f} %"


def _why_unsaid(ways: Sequence[_Way]) -> str:
    """Of which ways it cannot be said how much they hide, and why."""
    names: dict[str, list[str]] = {}
    for way in ways:
        names.setdefault(str(way.lead.undecided or way.lead.refused), []).append(way.name)
    reasons = "; ".join(f"{joined(some)}: {reason}" for reason, some in names.items())
    return f"how much is hidden cannot be said of {reasons}" if ways else ""


def _share_figures(way: str, shares: Efficiencies) -> Iterator[Figure]:
    for ideal, share in shares.items():
        label = f"{way}, efficiency{f' against {ideal}' if ideal else ''}"
        if share.share is None:
            status, reason = "undecided", share.refused or share.undecided
            status = "refused" if share.refused else status
            yield Figure(label, None, "share", status=status, reason=reason)
        elif share.is_few:
            yield Figure(label, share.share, "share", note=_interval(share))
        else:
            yield Figure(label, share.share, "share", low=share.low, high=share.high)
