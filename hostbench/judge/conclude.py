"""The one rule for conclusions within a run: is one case faster than another?

Every answer, table and page that names a winner or a factor asks here. Two cases of a launch share
what it was disturbed by, so launches are pairs, and Student's t of their winsorized differences
decides at ALPHA; fewer than MIN_LAUNCHES decide nothing. Pure functions.
"""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hostbench.core.samples import MIN_LAUNCHES, Launches, median
from hostbench.judge import moderated
from hostbench.judge.changepoint.detector import LARGEST_HEIGHT
from hostbench.judge.two_sides import SAME_WITHIN, Verdict

ALPHA = 0.005
WINSORIZED = 8
"""Of so many launches one at each end is drawn in to its neighbour; of fewer, one as well."""
MIN_EFFECT = 0.01
"""Smaller differences are never called one."""

SHORTEST, LONGEST = 1e-15, 1e15
"""Seconds. What is stored beyond them is damage, and its factors would overflow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusion:
    """What the launches say of `this` beside `other`."""

    verdict: Verdict
    factor: float
    """Seconds of `other` over those of `this` in a launch, or of the medians where launches are
    few: above 1 where `this` is faster."""
    low: float | None
    high: float | None
    """Interval of the factor; None where there are too few launches for one."""
    spread: float = 0.0
    """How far launches of the same code differ, as a share of their median; of the noisier side."""

    @property
    def is_different(self) -> bool:
        return self.verdict in ("faster", "slower")

    @property
    def possible(self) -> float:
        """The largest difference, either way, that the interval leaves; infinite without one."""
        if self.low is None or self.high is None or self.low <= 0:
            return math.inf
        return max(1 / self.low, self.high) - 1


def conclude(this: Launches, other: Launches) -> Conclusion:
    """Whether `this` is faster than `other`: by the mean over launches of the logarithm of their
    factor with the outermost drawn in, and its interval at ALPHA (Dixon and Tukey, Technometrics
    1968). Raises ValueError where one has no positive time."""
    mine, theirs = _positive(this), _positive(other)
    if not mine or not theirs:
        raise ValueError("a comparison needs a positive time on both sides")
    both = mine.keys() & theirs.keys()
    num = len(both)
    if num < MIN_LAUNCHES:
        factor = median([*theirs.values()]) / median([*mine.values()])
        return Conclusion(verdict="undecided", factor=factor, low=None, high=None)
    drawn_in = max(1, num // WINSORIZED)
    inner = sorted(math.log(theirs[n] / mine[n]) for n in both)[drawn_in : num - drawn_in]
    winsorized = [inner[0]] * drawn_in + inner + [inner[-1]] * drawn_in
    degrees = len(inner) - 1
    error = float(np.std(winsorized, ddof=1)) / math.sqrt(num) * (num - 1) / degrees
    middle, half = float(np.mean(winsorized)), _quantile(degrees) * error
    verdict: Verdict = "undecided"
    if abs(middle) > half and abs(middle) >= math.log1p(MIN_EFFECT):
        verdict = "faster" if middle > 0 else "slower"
    elif abs(middle) + half <= math.log1p(SAME_WITHIN):
        verdict = "same"
    return Conclusion(
        verdict=verdict,
        factor=math.exp(middle),
        low=math.exp(middle - half),
        high=math.exp(min(middle + half, LARGEST_HEIGHT)),
        spread=max(
            (max(times) - min(times)) / median(times)
            for times in ([*mine.values()], [*theirs.values()])
        ),
    )


@lru_cache
def _quantile(degrees: int) -> float:
    return float(moderated.quantile(ALPHA, np.array([float(degrees)]))[0])


def _positive(times: Launches) -> dict[int, float]:
    """What a clock can have read."""
    return {
        launch: seconds
        for launch, seconds in times.items()
        if isinstance(seconds, int | float) and SHORTEST <= seconds <= LONGEST
    }
