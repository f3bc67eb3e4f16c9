"""Parts: a whole against its parts alone and the ideal that follows from them."""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hostbench.core.samples import MIN_FOR_INTERVAL, Launches, by_launch, median, median_interval
from hostbench.core.units import format_seconds
from hostbench.families.question import Figure, Parts, Row, Rows, valid
from hostbench.judge.conclude import Conclusion, conclude
from hostbench.report import answer as base
from hostbench.report.answer import Answer, ScreenLine, State, difference

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


class WayResult(NamedTuple):
    """A loop beside the serial one."""

    name: str
    row: Row
    gain: Conclusion
    hidden: Figure
    """The share of the possible gain."""


def answer(ask: Parts, group: Rows, rows: Rows) -> Answer:
    """The time of each loop, what the ways hide, and the ideal."""
    here = base.at_size(group, lambda some: len(valid(some)) > 1, valid)
    known = {str(row.axes[ask.axis]): row for row in valid(here) if ask.axis in row.axes}
    loops = {loop: known[loop] for loop in ask.loops if loop in known}
    parts = [loops[name].launches if name in loops else {} for name in ask.parts]
    ideal, serial_name = by_launch(ask.ideal, *parts), "its parts"
    ideal_s = median([*ideal.values()]) if ideal else None
    if isinstance(ask.serial, str):
        serial_name = ask.word(ask.axis, ask.serial)
        serial = loops[ask.serial].by_launch if ask.serial in loops else {}
    else:
        serial = by_launch(ask.serial, *parts)
    figures, ways = list[Figure](), list[WayResult]()
    for loop, row in loops.items():
        name, against = ask.word(ask.axis, loop), base.BASELINE * (loop == ask.serial)
        if not serial or loop not in (*ask.controls, *ask.ways):
            figures.append(base.figure_of(name, row, against=against))
            continue
        gain, notes = conclude(row.by_launch, serial), list[str]()
        if loop in ask.ways and ideal_s is not None and row.time > ideal_s:
            notes.append(f"{format_seconds(row.time - ideal_s)} over the ideal")
        beside = f"{serial_name} {format_seconds(median([*serial.values()]))}"
        figures.append(base.figure_of(name, row, gain, beside=beside, notes=notes))
        if loop in ask.ways:
            hidden = _hidden_share(name, gain, serial, row.launches, ideal)
            figures.append(hidden)
            ways.append(WayResult(name, row, gain, hidden))
    if ideal_s is not None and ways:
        figures.append(Figure("ideal", ideal_s, "s", notes=("a bound",)))
    best = max(ways, key=_rank, default=None)
    missing: tuple[State, str] = ("undecided", "undecided: too few loops to compare")
    state, verdict = _verdict(best, ways) if best else missing
    return base.made(
        ask,
        state,
        verdict,
        figures,
        lost=here,
        lines=_lines(ask, median([*serial.values()]), best, ideal_s) if best else (),
        shared=base.shared(ask, here),
    )


def _lines(
    ask: Parts, serial_s: float, best: WayResult, ideal_s: float | None
) -> Iterator[ScreenLine]:
    """The serial loop, the fastest way, the ideal."""
    figures = f"{format_seconds(serial_s)} -> {format_seconds(best.row.time)}"
    if ideal_s is not None and ideal_s <= best.row.time:
        figures += f", ideal {format_seconds(ideal_s)}"
    verdict, what = difference(best.gain), ask.fill(ask.screen, best.row.axes)
    if best.hidden.value is not None:
        verdict += f", hides {best.hidden.value:.0%}"
    yield ScreenLine(what, figures, verdict, best.gain, what)


def _rank(way: WayResult) -> tuple[bool, bool, float]:
    """The best is the fastest of those that are established to be faster than serial."""
    return way.gain.verdict == "faster", way.hidden.value is not None, way.gain.factor


def _verdict(best: WayResult, ways: Sequence[WayResult]) -> tuple[State, str]:
    """Which share of the possible gain the best way has; that none is faster."""
    if best.gain.verdict != "faster":
        is_open = any(way.gain.verdict == "undecided" for way in ways)
        return ("undecided", "undecided") if is_open else ("no", "no: none is faster")
    share, low, high = best.hidden.value, best.hidden.low or 0.0, best.hidden.high or 0.0
    if share is None:
        return "partly", f"partly: {best.name} is faster; how much it hides is not known"
    words = f"{share:.0%} hidden by {best.name} ({100 * low:.0f}-{100 * high:.0f})"
    state: State = "yes" if share >= HIDES else "partly" if share >= HARDLY else "no"
    state = "undecided" if low <= HARDLY and high >= HIDES else state
    return state, f"{state}: {words}"


def _hidden_share(
    name: str, gain: Conclusion, serial: Launches, loop: Launches, ideal: Launches
) -> Figure:
    """(serial - loop) / (serial - ideal), of the medians over launches.

    Its interval is that of the same share in each launch that holds all three. Undecided where the
    loop's gain is, where serial - ideal is under 3 standard errors of itself over launches, where
    it collapses in any launch, where the interval is wider than 0.5 or does not hold the share of
    the medians, or where too few launches for one are whole. Refused where even the interval is
    above 1: then the parts alone are no measure of the parts together.
    """

    def without(reason: str, status: str = "undecided") -> Figure:
        return Figure(f"{name}, hidden share", None, "share", status=status, reason=reason)

    launches = sorted(set(serial) & set(loop) & set(ideal))
    if gain.verdict == "undecided":
        return without("")
    if len(launches) < MIN_FOR_INTERVAL:
        return without("too few launches")
    gains = [serial[n] - ideal[n] for n in launches]
    standard_error = statistics.stdev(gains) / math.sqrt(len(gains))
    if statistics.fmean(gains) <= MIN_STANDARD_ERRORS * standard_error or min(
        gains
    ) <= MIN_SHARE_OF_GAIN * median(gains):
        return without("the possible gain is lost in the noise between launches")
    shares = [(serial[n] - loop[n]) / gain for n, gain in zip(launches, gains, strict=True)]
    low, high = median_interval(shares)
    serial_s, loop_s, ideal_s = (median([*side.values()]) for side in (serial, loop, ideal))
    share = (serial_s - loop_s) / (serial_s - ideal_s) if serial_s > ideal_s else math.nan
    if high - low > MAX_WIDTH or not low - _ROUNDING <= share <= high + _ROUNDING:
        return without("launches differ too much")
    if low > BEATEN:
        return without("the loop beats the ideal that its parts give", "refused")
    share, low, high = (min(max(end, 0.0), 1.0) for end in (share, low, high))
    return Figure(f"{name}, hidden share", share, "share", low=low, high=high)
