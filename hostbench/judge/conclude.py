"""The one rule for conclusions within a run: is one case faster than another?

Every answer, table and page that names a winner or a factor asks here. The cases of one run share
their launches, so each launch gives a pair. From MIN_LAUNCHES launches on the exact rank test over
launches decides at ALPHA, as between interleaved runs (judge.two_sides). With fewer it cannot, and
Student's interval of the paired log ratios is asked instead (samples.few_interval), of differences
of MIN_EFFECT_FEW and more: three launches tell what differs by far more than they scatter, and
nothing else. Pure functions.
"""

import math
from dataclasses import dataclass

from hostbench.core.samples import MIN_LAUNCHES, Launches, few_interval, median
from hostbench.judge.rank_test import shift
from hostbench.judge.two_sides import SAME_WITHIN, Verdict

ALPHA = 0.01
MIN_EFFECT, MIN_EFFECT_FEW = 0.01, 0.1
"""Smaller differences are never called one, with enough launches and with few."""

SHORTEST, LONGEST = 1e-15, 1e15
"""Seconds. What is stored beyond them is damage, and its factors would overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What the launches say of `this` beside `other`."""

    verdict: Verdict
    factor: float
    """Seconds of `other` over those of `this`, of the medians: above 1 where `this` is faster."""
    low: float | None
    high: float | None
    """Interval of the factor; None where there are too few launches for one."""
    is_few: bool = False
    """Fewer than MIN_LAUNCHES launches on a side: undecided says that more would tell more."""
    spread: float = 0.0
    """How far launches of the same code differ, as a share of their median; of the noisier side."""

    @property
    def is_different(self) -> bool:
        return self.verdict in ("faster", "slower")

    @property
    def possible(self) -> float:
        """The largest relative difference, either way, that the interval leaves possible; infinite
        where there is no interval."""
        if self.low is None or self.high is None or self.low <= 0:
            return math.inf
        return max(1 / self.low, self.high) - 1


def conclude(this: Launches, other: Launches) -> Conclusion:
    """Whether `this` is faster than `other`. Raises ValueError where one has no positive time."""
    mine, theirs = _positive(this), _positive(other)
    if not mine or not theirs:
        raise ValueError("a comparison needs a positive time on both sides")
    ours, other_s = median(list(mine.values())), median(list(theirs.values()))
    factor, effect = other_s / ours, math.log(other_s) - math.log(ours)
    both = sorted(set(mine) & set(theirs))
    is_few = min(len(mine), len(theirs)) < MIN_LAUNCHES
    if not is_few:
        own, others = ([math.log(side[n]) for n in sorted(side)] for side in (mine, theirs))
        found = shift(own, others)
        ends, sure = (found.low, found.high), found.p_value <= ALPHA
    elif len(both) > 1:
        ends = few_interval([math.log(theirs[n]) - math.log(mine[n]) for n in both])
        sure = ends[0] > 0 or ends[1] < 0
    else:
        return Conclusion(verdict="undecided", factor=factor, low=None, high=None, is_few=True)
    return Conclusion(
        verdict=_verdict(effect, *ends, sure, MIN_EFFECT_FEW if is_few else MIN_EFFECT),
        factor=factor,
        low=_exp(ends[0]),
        high=_exp(ends[1]),
        is_few=is_few,
        spread=max(_spread(mine), _spread(theirs)),
    )


def _verdict(effect: float, low: float, high: float, sure: bool, least: float) -> Verdict:
    """A difference under `least` is never called one, however sure; nor is one that the interval
    contradicts, as with ties, or where the medians are those of other launches."""
    agrees = low > 0 if effect > 0 else high < 0
    if sure and agrees and abs(effect) >= math.log1p(least):
        return "faster" if effect > 0 else "slower"
    return "same" if max(-low, high) <= math.log1p(SAME_WITHIN) else "undecided"


def _spread(times: Launches) -> float:
    return (max(times.values()) - min(times.values())) / median([*times.values()])


def _exp(value: float) -> float | None:
    return math.exp(value) if value < 700 else None


def _positive(times: Launches) -> dict[int, float]:
    """What a clock can have read."""
    numbers = {n: s for n, s in times.items() if isinstance(s, int | float)}
    return {n: s for n, s in numbers.items() if SHORTEST <= s <= LONGEST}
