"""parts: a whole against its parts alone and the ideal that follows from them."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hostbench.core import units
from hostbench.core.case import counts_bytes
from hostbench.core.efficiency import Efficiency, Launches
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report.answer import (
    Answer,
    Axis,
    Chart,
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
    LANES,
    TIME,
    Question,
    at_size,
    axis_title,
    chart,
    few_launches,
    figure,
    side_by_side,
    time_point,
    without_number,
)
from hostbench.report.rows import Row, Rows, grouped, valid

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
    over: str | None = None
    remark: Callable[[Mapping[str, Row]], str] | None = None
    """A sentence about all ways of one size."""

    def names(self) -> Iterator[tuple[str, Sequence[Any]]]:
        yield from Question.names(self)
        yield self.axis, (self.serial, *self.ways, *self.parts, *self.controls)
        yield from ((axis, ()) for axis in filter(None, [self.over]))

    def asks(self, group: Rows) -> bool:
        """Without the serial loop nothing can be said; a sweep needs several values."""
        has_serial = any(row.axes.get(self.axis) == self.serial for row in group)
        values = {row.axes[self.over] for row in group} if self.over else {}
        return has_serial and (self.over is None or len(values) > 1)

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        if self.over is not None:
            return self._sweep(text, group, self.over)
        here = at_size(group, together=2)
        named = self._named(here)
        gains = self._gains(named)
        known = self._known(named, gains)
        state, verdict = self._verdict(known, gains, named)
        notes = self.at(here, ())
        if self.remark is not None and (said := self.remark(named)):
            notes = (*notes, said)
        missing = [row for row in here if not row.is_valid]
        return self.made(
            text,
            state,
            verdict,
            figures=(*self._figures(named, known, gains), *_each_without(missing, self)),
            notes=notes,
            chart=self._bars(here, known),
        )

    def lines(self, group: Rows, rows: Rows) -> Iterator[ScreenLine]:
        """The serial loop, the fastest way, the ideal."""
        named = self._named(at_size(group, together=2))
        gains = {way: one for way, one in self._gains(named).items() if way not in self.controls}
        if not gains:
            return
        best = max(gains, key=lambda way: gains[way].factor)
        times = [named[self.serial].time, named[best].time]
        shown = [Figure(label="", value=seconds, unit="s") for seconds in times]
        figures = side_by_side(shown, " -> ")
        ideal, efficiency = next(iter(self._known(named, {best: gains[best]})[best].items()))
        if efficiency.ideal_s is not None and efficiency.ideal_s <= named[best].time:
            figures += f", {_ideal(ideal)} {units.format_seconds(efficiency.ideal_s)}"
        verdict = difference(gains[best])
        if efficiency.share is not None:
            verdict += f", hides {100 * efficiency.share:.0f} %"
        what = self.on_screen(named[best])
        yield ScreenLine(
            what=what,
            figures=figures,
            verdict=verdict,
            conclusion=gains[best],
            learnt=what,
        )

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

    def _known(
        self, named: Mapping[str, Row], gains: Mapping[str, Conclusion]
    ) -> dict[str, Efficiencies]:
        """Of each way that can hide anything; no share of a difference that is not established."""
        launches = {name: row.launches for name, row in named.items()}
        parts = {name: launches.get(name, {}) for name in self.parts}
        known: dict[str, Efficiencies] = {}
        for way, gain in gains.items():
            if way in self.controls:
                continue
            shares = self.efficiency(launches[self.serial], launches[way], parts)
            known[way] = {ideal: _within(one) for ideal, one in shares.items()}
            if gain.verdict == "undecided":
                known[way] = {ideal: one.without_share() for ideal, one in known[way].items()}
        return known

    def _verdict(
        self,
        known: Mapping[str, Efficiencies],
        gains: Mapping[str, Conclusion],
        named: Mapping[str, Row],
    ) -> tuple[State, str]:
        """A way wins where it is established to be faster than serial, and by an efficiency that
        the launches establish."""
        if not known:
            lost = "any other loop" if self.serial in named else "the serial loop"
            return "undecided", f"undecided: no number of {lost} in this run"
        words = {way: self.word(self.axis, way) for way in known}
        faster = {words[way]: gains[way] for way in known if gains[way].verdict == "faster"}
        unsure = [words[way] for way in known if gains[way].verdict == "undecided"]
        ideal = next(iter(next(iter(known.values()))))
        shares = {words[way]: found[ideal] for way, found in known.items() if words[way] in faster}
        unsaid = {name: one for name, one in shares.items() if one.share is None}
        few = few_launches([*named.values()])
        apart = f"{joined(unsure)} cannot be told from serial{few and f' ({few})'}"
        if not faster and unsure:
            return "undecided", f"undecided: {apart}"
        if not faster:
            are = "is" if len(words) == 1 else "are"
            return "no", f"no: {joined(words.values())} {are} not faster than serial"
        if len(unsaid) == len(shares):
            return _without_share(faster, unsaid)
        best = max(shares, key=lambda name: _order_of(shares[name]))
        state, verdict = _hidden(shares[best], best, ideal)
        if state == "no" and unsaid:
            return _without_share({name: faster[name] for name in unsaid}, unsaid)
        if state != "yes" and (unsaid or unsure):
            others = [_unsaid(unsaid)] * bool(unsaid) + [apart] * bool(unsure)
            return "undecided", f"undecided: {'; '.join(others)}; of the others: {verdict}"
        return state, verdict

    def _figures(
        self,
        named: Mapping[str, Row],
        known: Mapping[str, Efficiencies],
        gains: Mapping[str, Conclusion],
    ) -> list[Figure]:
        figures = []
        for name in (self.serial, *self.ways, *self.parts):
            if name not in named:
                continue
            ratio = None
            if name in gains:
                ratio = Ratio(to=self.word(self.axis, self.serial), conclusion=gains[name])
            note = self.control if name in self.controls else ""
            said = self.word(self.axis, name)
            figures.append(figure(said, named[name], ratio=ratio, note=note))
            for ideal, one in known.get(name, {}).items():
                figures.append(_share_figure(said, ideal, one))
        for ideal, seconds in self._ideals(known).items():
            figures.append(Figure(label=_ideal(ideal), value=seconds, unit="s", note="a bound"))
        return figures

    def _ideals(self, known: Mapping[str, Efficiencies]) -> dict[str, float]:
        found: dict[str, float] = {}
        for way in known.values():
            for ideal, one in way.items():
                if one.ideal_s is not None:
                    found.setdefault(ideal, one.ideal_s)
        return found

    def _bars(self, here: Rows, known: Mapping[str, Efficiencies]) -> Chart | None:
        named = {str(row.axes[self.axis]): row for row in here}
        order = [name for name in (*self.parts, self.serial, *self.ways) if name in named]
        points = (time_point(named[name], self.word(self.axis, name)) for name in order)
        rules = (Rule(label=_ideal(n), low=seconds) for n, seconds in self._ideals(known).items())
        y = replace(TIME, title="seconds per loop")
        return chart("bar", LANES, y, points, rules=tuple(rules))

    def _sweep(self, text: str, group: Rows, over: str) -> Answer:
        """At which value of `over` most of the serial loop's time is saved."""
        figures: list[Figure] = []
        saved: dict[str, tuple[float, Conclusion]] = {}
        points: list[Point] = []
        for values, some in grouped(sorted(group, key=lambda r: _order(r.axes[over])), (over,)):
            named = self._named(some)
            name, gains = self.word(over, values[over]), self._gains(named)
            for way, found in self._known(named, gains).items():
                gain = gains[way]
                label = f"{name}, {self.word(self.axis, way)}" if len(self.ways) > 1 else name
                saved[label] = (1 - 1 / gain.factor, gain)
                figures.append(_saved_figure(label, gain))
                for ideal, one in found.items():
                    figures.append(_share_figure(label, ideal, one))
                    points += _share_points(name, self.word(self.axis, way), one)
        x = Axis(title=axis_title(over), unit="bytes" if counts_bytes(over) else "")
        y = Axis(title="efficiency", unit="share", better="higher")
        state, verdict = _pays_most(saved)
        return self.made(
            text,
            state,
            verdict,
            figures=(*figures, *without_number(group, self)),
            chart=chart("line", x, y, points, rules=(Rule(label="ideal", low=1.0),)),
        )


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
    what = f"{ideal} could hide" if ideal else "could be hidden"
    said = f"{100 * share:.0f} % of what {what} is hidden by {name} ({_interval(best)})"
    if low <= HARDLY and high >= HIDES:
        return (
            "undecided",
            f"undecided: the best, {name}, hides from {100 * low:.0f} % to {100 * high:.0f} %",
        )
    if share >= HIDES:
        return "yes", f"yes: {said}"
    return ("partly", f"in part: {said}") if share >= HARDLY else ("no", f"no: at best {said}")


def _order_of(found: Efficiency) -> float:
    return -math.inf if found.share is None else found.share


def _interval(found: Efficiency) -> str:
    kind = "few launches say" if found.is_few else "99 % interval"
    return f"{kind} {100 * (found.low or 0.0):.0f} % to {100 * (found.high or 0.0):.0f} %"


def _unsaid(found: Mapping[str, Efficiency]) -> str:
    """Of which ways it cannot be said how much they hide, and why."""
    by_reason: dict[str, list[str]] = {}
    for name, one in found.items():
        by_reason.setdefault(str(one.undecided or one.refused), []).append(name)
    said = "; ".join(f"{joined(names)}: {reason}" for reason, names in by_reason.items())
    return f"how much is hidden cannot be said of {said}"


def _without_share(
    faster: Mapping[str, Conclusion], unsaid: Mapping[str, Efficiency]
) -> tuple[State, str]:
    """Established to be faster than serial, by no efficiency that can be said."""
    best = max(faster, key=lambda name: faster[name].factor)
    factor = units.format_factor(faster[best].factor)
    return "partly", f"{best} is {factor} faster than serial; {_unsaid(unsaid)}"


def _pays_most(saved: Mapping[str, tuple[float, Conclusion]]) -> tuple[State, str]:
    """The value that saves most of the serial loop's time, or those that cannot be told apart."""
    sure = {name: one for name, one in saved.items() if one[1].verdict == "faster"}
    if not sure:
        return "undecided", "no saving is established" if saved else "no value has both loops"
    best = max(sure, key=lambda name: sure[name][0])
    share, gain = sure[best]
    tied = [n for n, (_, one) in saved.items() if n != best and not _apart(gain, one)]
    what = f"saves {share:.0%} of the serial loop's time"
    if not tied:
        more = ", more than at any other" if len(saved) > 1 else ""
        return "figure", f"at {best}, where overlap {what}{more}"
    if len(tied) == len(saved) - 1:
        return "figure", f"their intervals overlap; at {best} overlap {what}"
    return "figure", f"the intervals of {joined([best, *tied])} overlap; at {best} overlap {what}"


def _apart(best: Conclusion, other: Conclusion) -> bool:
    """Whether the intervals of the factors do not touch."""
    return best.low is not None and other.high is not None and best.low > other.high


def _saved_figure(label: str, gain: Conclusion) -> Figure:
    """No share of a difference that is not established."""
    label = f"{label}, saved"
    if not gain.is_different:
        reason = str(Ratio(to="serial", conclusion=gain))
        return Figure(label=label, value=None, unit="share", status="undecided", reason=reason)
    return Figure(
        label=label,
        value=1 - 1 / gain.factor,
        unit="share",
        low=None if gain.low is None or gain.is_few else 1 - 1 / gain.low,
        high=None if gain.high is None or gain.is_few else 1 - 1 / gain.high,
    )


def _share_figure(way: str, ideal: str, found: Efficiency) -> Figure:
    label = f"{way}, efficiency{f' against {ideal}' if ideal else ''}"
    if found.share is None:
        status = "refused" if found.refused else "undecided"
        why = found.refused or found.undecided
        return Figure(label=label, value=None, unit="share", status=status, reason=why)
    if found.is_few:
        return Figure(label=label, value=found.share, unit="share", note=_interval(found))
    return Figure(label=label, value=found.share, unit="share", low=found.low, high=found.high)


def _share_points(x: str, series: str, found: Efficiency) -> Iterable[Point]:
    if found.share is not None:
        text = f"{x}, {series}: {found.share:.2f}"
        yield Point(x=x, y=found.share, series=series, low=found.low, high=found.high, text=text)


def _each_without(rows: Sequence[Row], question: Parts) -> Iterable[Figure]:
    """Each way without a valid number, by its name."""
    for row in rows:
        name = question.word(question.axis, row.axes.get(question.axis, ""))
        yield Figure(label=name, value=None, unit="s", status=row.status, reason=row.reason)


def _ideal(name: str) -> str:
    return f"ideal of {name}" if name else "ideal"


def _order(value: Any) -> float:
    """`1:4` before `1:1` before `4:1`; numbers by size."""
    if isinstance(value, str) and ":" in value:
        compute, copy = value.split(":")
        return float(compute) / float(copy)
    return float(value) if isinstance(value, int | float) else 0.0
