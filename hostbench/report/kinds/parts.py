"""parts: a whole against its parts alone and the ideal that follows from them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.core.efficiency import Efficiency, Launches
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Axis, Chart, Figure, Point, Ratio, Rule, State, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.question import Question, figure, side_by_side
from hostbench.report.rows import Row, Rows, grouped, valid, varying

HIDES, HARDLY = 0.5, 0.1
"""From this share of the possible gain on it counts as had; below that one as not."""
BEATEN = 1.05
"""A share whose whole interval is above it says that the ideal is none."""

Efficiencies = Mapping[str, Efficiency]
"""What the ideal assumes -> the share of the possible gain; the first leads the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Question):
    """Ways to do the whole (values of `axis`) against `serial` and the ideal.

    `efficiency(serial, way, parts)` gets seconds by launch, the parts' by their names. With `over`
    the answer compares the values of that axis instead of the ways.
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
    over: str = ""
    remark: Callable[[Mapping[str, Row]], str] = lambda named: ""
    """A sentence about all ways of one size."""

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        yield self.axis, (self.serial, *self.ways, *self.parts, *self.controls)
        yield from ((axis, ()) for axis in filter(None, [self.over]))

    def asks(self, group: Rows) -> bool:
        """Without the serial loop nothing can be said; a sweep needs several values."""
        has_serial = any(row.axes.get(self.axis) == self.serial for row in group)
        return (
            Question.asks(self, group)
            and has_serial
            and (not self.over or self.over in varying(group))
        )

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        if self.over:
            return self._sweep(text, group)
        here = questions.at_size(group, together=2)
        named = self._named(here)
        gains = self._gains(named)
        shares = self._shares(named, gains)
        state, verdict = self._verdict(named, gains, shares)
        lost = (self._lost(row) for row in here if not row.is_valid)
        figures = [*self._figures(named, gains, shares), *lost]
        notes = tuple(filter(None, (*self.at(here, ()), self.remark(named))))
        chart = self._bars(here, shares)
        return self.made(text, state, verdict, figures, notes=notes, chart=chart)

    def lines(self, group: Rows, rows: Rows) -> Iterator[answers.ScreenLine]:
        """The serial loop, the fastest way, the ideal."""
        named = self._named(questions.at_size(group, together=2))
        gains = {way: one for way, one in self._gains(named).items() if way not in self.controls}
        if not gains:
            return
        best = max(gains, key=lambda way: gains[way].factor)
        figures = side_by_side((("", figure("", named[w])) for w in (self.serial, best)), " -> ")
        ideal, share = next(iter(self._shares(named, gains)[best].items()))
        if share.ideal_s is not None and share.ideal_s <= named[best].time:
            figures += f", {_ideal(ideal)} {units.format_seconds(share.ideal_s)}"
        verdict, what = answers.difference(gains[best]), self.on_screen(named[best])
        if share.share is not None:
            verdict += f", hides {100 * share.share:.0f} %"
        yield answers.ScreenLine(what, figures, verdict, gains[best], what)

    def _named(self, rows: Rows) -> dict[str, Row]:
        """The loops that have a valid number."""
        return {str(row.axes[self.axis]): row for row in valid(rows) if self.axis in row.axes}

    def _gains(self, named: Mapping[str, Row]) -> dict[str, Conclusion]:
        """Of each way that has a number beside serial."""
        if self.serial not in named:
            return {}
        serial = named[self.serial].by_launch
        ways = (way for way in self.ways if way in named)
        return {way: conclude(named[way].by_launch, serial) for way in ways}

    def _shares(
        self, named: Mapping[str, Row], gains: Mapping[str, Conclusion]
    ) -> dict[str, Efficiencies]:
        """Of each way that can hide anything; no share of a difference that is not established."""
        parts = {name: named[name].launches if name in named else {} for name in self.parts}
        shares: dict[str, Efficiencies] = {}
        for way in (way for way in gains if way not in self.controls):
            of_way = self.efficiency(named[self.serial].launches, named[way].launches, parts)
            is_known = gains[way].verdict != "undecided"
            shares[way] = {
                ideal: _within(one) if is_known else one.without_share()
                for ideal, one in of_way.items()
            }
        return shares

    def _verdict(
        self,
        named: Mapping[str, Row],
        gains: Mapping[str, Conclusion],
        shares: Mapping[str, Efficiencies],
    ) -> tuple[State, str]:
        """A way wins where it is established to be faster than serial, and by an efficiency that
        the launches establish."""
        if not shares:
            lost = "any other loop" if self.serial in named else "the serial loop"
            return "undecided", f"undecided: no number of {lost} in this run"
        words = {way: self.word(self.axis, way) for way in shares}
        unsure = [words[way] for way in shares if gains[way].verdict == "undecided"]
        few = questions.few_launches([*named.values()])
        apart = f"{joined(unsure)} cannot be told from serial{few and f' ({few})'}"
        faster = [way for way in shares if gains[way].verdict == "faster"]
        if not faster and unsure:
            return "undecided", f"undecided: {apart}"
        if not faster:
            are = "is" if len(words) == 1 else "are"
            return "no", f"no: {joined(words.values())} {are} not faster than serial"
        ideal = next(iter(shares[faster[0]]))
        unsaid = [way for way in faster if shares[way][ideal].share is None]
        reasons = _why_unsaid({words[way]: shares[way][ideal] for way in unsaid})
        best = max(faster, key=lambda way: (way not in unsaid, shares[way][ideal].share or 0.0))
        state: State = "no"
        verdict = ""
        if best not in unsaid:
            state, verdict = _hidden(shares[best][ideal], words[best], ideal)
        if state == "no" and unsaid:
            best = max(unsaid, key=lambda way: gains[way].factor)
            factor = units.format_factor(gains[best].factor)
            return "partly", f"{words[best]} is {factor} faster than serial; {reasons}"
        if state != "yes" and (unsaid or unsure):
            others = [reasons] * bool(unsaid) + [apart] * bool(unsure)
            return "undecided", f"undecided: {'; '.join(others)}; of the others: {verdict}"
        return state, verdict

    def _figures(
        self,
        named: Mapping[str, Row],
        gains: Mapping[str, Conclusion],
        shares: Mapping[str, Efficiencies],
    ) -> Iterator[Figure]:
        serial = self.word(self.axis, self.serial)
        for way in (self.serial, *self.ways, *self.parts):
            if way in named:
                ratio = Ratio(serial, gains[way]) if way in gains else None
                note = self.control if way in self.controls else ""
                label = self.word(self.axis, way)
                yield figure(label, named[way], ratio=ratio, note=note)
                for ideal, share in shares.get(way, {}).items():
                    yield _share_figure(label, ideal, share)
        for ideal, seconds in _ideals(shares).items():
            yield Figure(_ideal(ideal), seconds, "s", note="a bound")

    def _lost(self, row: Row) -> Figure:
        label = self.word(self.axis, row.axes.get(self.axis, ""))
        return Figure(label, None, "s", status=row.status, reason=row.reason)

    def _bars(self, here: Rows, shares: Mapping[str, Efficiencies]) -> Chart | None:
        named = {str(row.axes[self.axis]): row for row in here}
        order = [name for name in (*self.parts, self.serial, *self.ways) if name in named]
        points = (marks.time_point(named[name], self.word(self.axis, name)) for name in order)
        rules = tuple(Rule(_ideal(name), s) for name, s in _ideals(shares).items())
        y = replace(marks.TIME, title="seconds per loop")
        return marks.chart("bar", marks.LANES, y, points, rules=rules)

    def _sweep(self, text: str, group: Rows) -> Answer:
        """At which value of `over` most of the serial loop's time is saved."""
        figures: list[Figure] = []
        points: list[Point] = []
        gains: dict[str, Conclusion] = {}
        by_value = sorted(group, key=lambda row: _order(row.axes[self.over]))
        for values, some in grouped(by_value, (self.over,)):
            named = self._named(some)
            name, gained = self.word(self.over, values[self.over]), self._gains(named)
            for way, shares in self._shares(named, gained).items():
                series = self.word(self.axis, way)
                label = f"{name}, {series}" if len(self.ways) > 1 else name
                gains[label] = gained[way]
                figures.append(_saved_figure(label, gained[way]))
                for ideal, one in shares.items():
                    figures.append(_share_figure(label, ideal, one))
                    if one.share is not None:
                        said = f"{name}, {series}: {one.share:.2f}"
                        point = Point(x=name, y=one.share, series=series, text=said)
                        points.append(replace(point, low=one.low, high=one.high))
        x = Axis(title=marks.axis_title(self.over), unit="bytes" if counts_bytes(self.over) else "")
        y = Axis(title="efficiency", unit="share", better="higher")
        state, verdict = _saves_most(gains)
        chart = marks.chart("line", x, y, points, rules=(Rule("ideal", 1.0),))
        return self.made(text, state, verdict, figures, lost=group, chart=chart)


def _within(found: Efficiency) -> Efficiency:
    """A share within 0 and 1; none where even its interval is above: then the parts alone are no
    measure of the parts together."""
    if found.share is None or found.low is None or found.high is None:
        return found
    if found.low > BEATEN:
        return found.without_share(refused="the loop beats the ideal that its parts give")
    share, low, high = (min(max(end, 0.0), 1.0) for end in (found.share, found.low, found.high))
    return replace(found, share=share, low=low, high=high)


def _hidden(best: Efficiency, name: str, ideal: str) -> tuple[State, str]:
    """Of a way that is established to be faster than serial."""
    share, low, high = best.share or 0.0, best.low or 0.0, best.high or 0.0
    if low <= HARDLY and high >= HIDES:
        ends = f"from {100 * low:.0f} % to {100 * high:.0f} %"
        return "undecided", f"undecided: the best, {name}, hides {ends}"
    what = f"{ideal} could hide" if ideal else "could be hidden"
    said = f"{100 * share:.0f} % of what {what} is hidden by {name} ({_interval(best)})"
    if share >= HIDES:
        return "yes", f"yes: {said}"
    return ("partly", f"in part: {said}") if share >= HARDLY else ("no", f"no: at best {said}")


def _interval(share: Efficiency) -> str:
    kind = "few launches say" if share.is_few else "99 % interval"
    return f"{kind} {100 * (share.low or 0.0):.0f} % to {100 * (share.high or 0.0):.0f} %"


def _why_unsaid(shares: Mapping[str, Efficiency]) -> str:
    """Of which ways it cannot be said how much they hide, and why."""
    names: dict[str, list[str]] = {}
    for name, share in shares.items():
        names.setdefault(str(share.undecided or share.refused), []).append(name)
    reasons = "; ".join(f"{joined(some)}: {reason}" for reason, some in names.items())
    return f"how much is hidden cannot be said of {reasons}"


def _saves_most(gains: Mapping[str, Conclusion]) -> tuple[State, str]:
    """The value that saves most of the serial loop's time, or those that cannot be told apart."""
    faster = [name for name, gain in gains.items() if gain.verdict == "faster"]
    if not faster:
        return "undecided", "no saving is established" if gains else "no value has both loops"
    best = max(faster, key=lambda name: gains[name].factor)
    low = gains[best].low
    tied = [
        name
        for name, gain in gains.items()
        if name != best and (low is None or gain.high is None or low <= gain.high)
    ]
    what = f"overlap saves {1 - 1 / gains[best].factor:.0%} of the serial loop's time"
    if not tied:
        more = ", more than at any other" if len(gains) > 1 else ""
        return "figure", f"at {best}, where {what}{more}"
    which = (
        "their intervals"
        if len(tied) == len(gains) - 1
        else (f"the intervals of {joined([best, *tied])}")
    )
    return "figure", f"{which} overlap; at {best} {what}"


def _saved_figure(label: str, gain: Conclusion) -> Figure:
    """No share of a difference that is not established."""
    label = f"{label}, saved"
    if not gain.is_different:
        reason = str(Ratio("serial", gain))
        return Figure(label, None, "share", status="undecided", reason=reason)
    value, low, high = (
        None if end is None or (gain.is_few and end != gain.factor) else 1 - 1 / end
        for end in (gain.factor, gain.low, gain.high)
    )
    return Figure(label, value, "share", low=low, high=high)


def _share_figure(way: str, ideal: str, share: Efficiency) -> Figure:
    label = f"{way}, efficiency{f' against {ideal}' if ideal else ''}"
    if share.share is None:
        status = "refused" if share.refused else "undecided"
        reason = share.refused or share.undecided
        return Figure(label, None, "share", status=status, reason=reason)
    if share.is_few:
        return Figure(label, share.share, "share", note=_interval(share))
    return Figure(label, share.share, "share", low=share.low, high=share.high)


def _ideal(name: str) -> str:
    return f"ideal of {name}" if name else "ideal"


def _ideals(shares: Mapping[str, Efficiencies]) -> dict[str, float]:
    """What the ideal assumes -> its seconds."""
    ideals: dict[str, float] = {}
    for ideal, share in ((i, share) for of_way in shares.values() for i, share in of_way.items()):
        if share.ideal_s is not None:
            ideals.setdefault(ideal, share.ideal_s)
    return ideals


def _order(value: Any) -> float:
    """`1:4` before `1:1` before `4:1`; numbers by size."""
    if isinstance(value, str) and ":" in value:
        compute, copy = value.split(":")
        return float(compute) / float(copy)
    return float(value) if isinstance(value, int | float) else 0.0
