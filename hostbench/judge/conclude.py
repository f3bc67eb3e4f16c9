"""The one rule for conclusions within a run: is one case faster than another?

Every answer, table and page that names a winner or a factor asks here. The exact rank test over
launches decides at ALPHA, as between interleaved runs (judge.two_sides); fewer than MIN_LAUNCHES
decide nothing. Pure functions.
"""

import math
from dataclasses import dataclass

from hostbench.core.samples import MIN_LAUNCHES, Launches, median
from hostbench.judge.rank_test import shift
from hostbench.judge.two_sides import SAME_WITHIN, Verdict

ALPHA = 0.01
MIN_EFFECT = 0.01
"""Smaller differences are never called one."""

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
    own_s, other_s = median(list(mine.values())), median(list(theirs.values()))
    factor = other_s / own_s
    if min(len(mine), len(theirs)) < MIN_LAUNCHES:
        return Conclusion(verdict="undecided", factor=factor, low=None, high=None, is_few=True)
    own, others = ([math.log(side[n]) for n in sorted(side)] for side in (mine, theirs))
    between = shift(own, others)
    # Nor is a difference one that the interval contradicts, as with ties.
    agrees = between.low > 0 if factor > 1 else between.high < 0
    verdict: Verdict = "undecided"
    if between.p_value <= ALPHA and agrees and max(factor, 1 / factor) >= 1 + MIN_EFFECT:
        verdict = "faster" if factor > 1 else "slower"
    elif max(-between.low, between.high) <= math.log1p(SAME_WITHIN):
        verdict = "same"
    return Conclusion(
        verdict=verdict,
        factor=factor,
        low=_exp(between.low),
        high=_exp(between.high),
        spread=max(_spread(mine), _spread(theirs)),
    )


def _spread(times: Launches) -> float:
    return (max(times.values()) - min(times.values())) / median([*times.values()])


def _exp(value: float) -> float | None:
    return math.exp(value) if value < 700 else None


def _positive(times: Launches) -> dict[int, float]:
    """What a clock can have read."""
    numbers = {n: s for n, s in times.items() if isinstance(s, int | float)}
    return {n: s for n, s in numbers.items() if SHORTEST <= s <= LONGEST}
