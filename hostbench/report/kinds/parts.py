"""parts: a whole against its parts alone and the ideal that follows from them."""

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any, NamedTuple

from hostbench.core import units
from hostbench.core.samples import MIN_FOR_INTERVAL, Launches, by_launch, median, median_interval
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as answers
from hostbench.report.answer import Answer, Figure, Point, Ratio, Rule, State, joined
from hostbench.report.kinds import marks
from hostbench.report.kinds import question as questions
from hostbench.report.kinds.question import Question, figure, side_by_side
from hostbench.report.rows import Row, Rows, valid

HIDES, HARDLY = 0.5, 0.1
"""From this share of the possible gain on it counts as had; below that one as not."""
BEATEN = 1.05
"""A share whose whole interval is above it says that the ideal is none."""
MIN_STANDARD_ERRORS = 3.0
"""Below it the gain that is possible is lost in the noise, and a share of it means nothing."""
MAX_WIDTH = 0.5
"""An interval of the share that is wider than this says nothing that can be acted on."""
MIN_SHARE_OF_GAIN = 0.25
"""A launch whose own possible gain is below this share of the median one was disturbed: its ratio
would explode."""
_ROUNDING = 1e-9


class _Way(NamedTuple):
    """A loop beside the serial one."""

    name: str
    row: Row
    gain: Conclusion
    hidden: Figure | None
    """The share of the possible gain; None of a control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts(Question):
    """Ways to do the whole (values of `axis`) against `serial` and the ideal."""

    axis: str
    serial: str | Callable[..., float]
    """A loop that was measured, or its seconds from those of each of the parts."""
    ways: tuple[str, ...]
    parts: tuple[str, ...]
    ideal: Callable[..., float]
    """Seconds of the whole at best, from those of each of the parts."""
    controls: tuple[str, ...] = ()
    """Ways that cannot hide anything: shown without an efficiency, and never called best."""
    rest: str = ""
    """What the time of a way over the ideal is called where that is a part, too, with a bar."""

    def chosen(self) -> Iterator[tuple[str, Any]]:
        yield from Question.chosen(self)
        yield self.axis, self._order()

    def _order(self) -> tuple[str, ...]:
        serial = (self.serial,) if isinstance(self.serial, str) else ()
        return (*serial, *self.controls, *self.ways, *self.parts)

    def asks(self, group: Rows) -> bool:
        """Without the serial loop nothing can be said."""
        measured = {row.axes.get(self.axis) for row in group}
        needed = {self.serial} if isinstance(self.serial, str) else {*self.parts}
        return Question.asks(self, group) and needed <= measured

    def answer(self, text: str, group: Rows, rows: Rows) -> Answer:
        here = questions.at_size(group, together=2)
        known = {str(row.axes[self.axis]): row for row in valid(here) if self.axis in row.axes}
        named = {loop: known[loop] for loop in self._order() if loop in known}
        parts = [named[name].launches if name in named else {} for name in self.parts]
        ideal = by_launch(self.ideal, *parts)
        serial: Launches = {}
        if not isinstance(self.serial, str):
            serial = by_launch(self.serial, *parts)
        elif self.serial in named:
            serial = named[self.serial].by_launch
        ways = [*self._ways(named, serial, ideal)] if serial else []
        state, verdict = self._verdict([*named.values()], bool(serial), ways)
        ideal_s = median([*ideal.values()]) if ideal and ways else None
        figures = [*self._figures(named, ways, ideal_s)]
        points = [marks.point(row, self.word(self.axis, name)) for name, row in named.items()]
        for rest in self._rests(ways, ideal):
            figures.append(rest)
            value, low, high = (max(0.0, own or 0.0) for own in (rest.value, rest.low, rest.high))
            points.append(Point(rest.label, value, low=low, high=high, text=str(rest)))
        if ideal_s is not None:
            figures.append(Figure("ideal", ideal_s, "s", note="a bound"))
        rules = () if ideal_s is None else (Rule("ideal", ideal_s),)
        chart = marks.bars(marks.TIME, points, rules=rules)
        lines = self._lines(median([*serial.values()]), ways, ideal_s) if ways else ()
        return self.made(
            text, state, verdict, figures, lost=here, lines=lines, notes=self.at(here), chart=chart
        )

    def _lines(
        self, serial_s: float, ways: Sequence[_Way], ideal_s: float | None
    ) -> Iterator[answers.ScreenLine]:
        """The serial loop, the fastest way, the ideal."""
        able = [way for way in ways if way.hidden]
        if not able:
            return
        best = max(able, key=lambda way: way.gain.factor)
        loops = (Figure("", serial_s, "s"), figure("", best.row))
        figures = side_by_side((("", loop) for loop in loops), " -> ")
        if ideal_s is not None and ideal_s <= best.row.time:
            figures += f", ideal {units.format_seconds(ideal_s)}"
        verdict, what = answers.difference(best.gain), self.on_screen(best.row)
        if best.hidden and best.hidden.value is not None:
            verdict += f", hides {100 * best.hidden.value:.0f} %"
        yield answers.ScreenLine(what, figures, verdict, best.gain, what)

    def _ways(self, named: Mapping[str, Row], serial: Launches, ideal: Launches) -> Iterator[_Way]:
        """Each way that has a number; no share of a difference that is not established."""
        for way in (*self.controls, *self.ways):
            if way in named:
                row, name = named[way], self.word(self.axis, way)
                gain, hidden = conclude(row.by_launch, serial), None
                if way not in self.controls:
                    hidden = hidden_share(f"{name}, hidden share", serial, row.launches, ideal)
                    if gain.verdict == "undecided":
                        hidden = Figure(hidden.label, None, "share", status="undecided")
                yield _Way(name, row, gain, hidden)

    def _verdict(self, measured: Rows, has_serial: bool, ways: Sequence[_Way]) -> tuple[State, str]:
        """A way wins where it is established to be faster than serial, and by a share that the
        launches establish."""
        able = [(way, way.hidden) for way in ways if way.hidden]
        if not able:
            lost = "any other loop" if has_serial else "the serial loop"
            return "undecided", f"undecided: no number of {lost} in this run"
        unsure = joined(way.name for way, _ in able if way.gain.verdict == "undecided")
        few = questions.few_launches(measured)
        serial = "serial" if isinstance(self.serial, str) else "its parts one after the other"
        apart = f"{unsure} cannot be told from {serial}{few and f' ({few})'}" if unsure else ""
        faster = [(way, hidden) for way, hidden in able if way.gain.verdict == "faster"]
        if not faster and unsure:
            return "undecided", f"undecided: {apart}"
        if not faster:
            return "no", f"no: not faster than {serial}: {joined(way.name for way, _ in able)}"
        shares = [(hidden.value, way, hidden) for way, hidden in faster if hidden.value is not None]
        unsaid = "; ".join(f"{w.name}: {h.reason}" for w, h in faster if h.value is None)
        state: State = "no"
        verdict = ""
        if shares:
            state, verdict = _hides(*max(shares, key=lambda known: known[0]))
        if state == "no" and unsaid:
            best = max((way for way, h in faster if h.value is None), key=lambda w: w.gain.factor)
            gain = f"{best.name} is {units.format_factor(best.gain.factor)} faster than {serial}"
            return "partly", f"{gain}; how much it hides is not known ({unsaid})"
        if state != "yes" and (unsaid or apart):
            others = "; ".join(filter(None, [unsaid, apart]))
            return "undecided", f"undecided: {others}; of the others: {verdict}"
        return state, verdict

    def _figures(
        self, named: Mapping[str, Row], ways: Sequence[_Way], ideal_s: float | None
    ) -> Iterator[Figure]:
        serial = self.word(self.axis, self.serial) if isinstance(self.serial, str) else "its parts"
        by_case = {way.row.case: way for way in ways}
        for loop, row in named.items():
            way = by_case.get(row.case)
            more: dict[str, Any] = {"ratio": Ratio(serial, way.gain)} if way else {}
            if way and way.hidden and ideal_s is not None and row.time > ideal_s and not self.rest:
                more["note"] = f"{units.format_seconds(row.time - ideal_s)} over the ideal"
            yield figure(self.word(self.axis, loop), row, **more)
            if way and way.hidden:
                yield way.hidden

    def _rests(self, ways: Sequence[_Way], ideal: Launches) -> Iterator[Figure]:
        """Of each way its time over the ideal, the middle of the differences in each launch."""
        for way in ways if self.rest else ():
            seconds = [*by_launch(sub, way.row.by_launch, ideal).values()]
            low, high = median_interval(seconds)
            if math.isfinite(low):
                note = f"99 % interval {units.format_seconds(low)} to {units.format_seconds(high)}"
                yield Figure(self.rest, median(seconds), "s", low=low, high=high, note=note)


def hidden_share(label: str, serial: Launches, loop: Launches, ideal: Launches) -> Figure:
    """(serial - loop) / (serial - ideal), of the medians over launches.

    Its interval is that of the same share in each launch that holds all three. Undecided where
    serial - ideal is under 3 standard errors of itself over launches, where it collapses in any
    launch, where the interval is wider than 0.5 or does not hold the share of the medians, or where
    too few launches for one are whole. Refused where even the interval is above 1: then the parts
    alone are no measure of the parts together.
    """

    def without(reason: str, status: str = "undecided") -> Figure:
        return Figure(label, None, "share", status=status, reason=reason)

    launches = sorted(set(serial) & set(loop) & set(ideal))
    if len(launches) < MIN_FOR_INTERVAL:
        return without(f"{len(launches)} launch(es) hold all parts; {MIN_FOR_INTERVAL} are needed")
    gains = [serial[n] - ideal[n] for n in launches]
    standard_error = statistics.stdev(gains) / math.sqrt(len(gains))
    if statistics.fmean(gains) <= MIN_STANDARD_ERRORS * standard_error:
        return without("the possible gain is lost in the noise between launches")
    disturbed = sum(gain <= MIN_SHARE_OF_GAIN * median(gains) for gain in gains)
    if disturbed:
        return without(f"in {disturbed} of {len(launches)} launches hardly any gain was possible")
    shares = [(serial[n] - loop[n]) / gain for n, gain in zip(launches, gains, strict=True)]
    low, high = median_interval(shares)
    if high - low > MAX_WIDTH:
        return without(f"launches differ too much: from {low:.2f} to {high:.2f} is possible")
    serial_s, loop_s, ideal_s = (median([*side.values()]) for side in (serial, loop, ideal))
    share = (serial_s - loop_s) / (serial_s - ideal_s) if serial_s > ideal_s else math.nan
    if not low - _ROUNDING <= share <= high + _ROUNDING:
        return without("the medians say something else than the launches")
    if low > BEATEN:
        return without("the loop beats the ideal that its parts give", "refused")
    share, low, high = (min(max(end, 0.0), 1.0) for end in (share, low, high))
    return Figure(label, share, "share", low=low, high=high)


def _hides(share: float, way: _Way, hidden: Figure) -> tuple[State, str]:
    """Of a way that is established to be faster than serial."""
    low, high = hidden.low or 0.0, hidden.high or 0.0
    verb = "hide" if way.name.endswith("streams") else "hides"
    between = f"{100 * low:.0f} % to {100 * high:.0f} %"
    if low <= HARDLY and high >= HIDES:
        return "undecided", f"undecided: the best, {way.name}, {verb} {between}"
    kind = "few launches say" if hidden.note else "99 % interval"
    words = f"{way.name} {verb} {100 * share:.0f} % ({kind} {between})"
    if share >= HIDES:
        return "yes", f"yes: {words}"
    return ("partly", f"in part: {words}") if share >= HARDLY else ("no", f"no: at best {words}")
