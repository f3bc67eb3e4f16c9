"""Samples of one case in one launch, and plain statistics on them. Pure: no clock, no device."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """What the three clocks said, in seconds per step. Shape of every tuple: (num_samples,)."""

    end_to_end_s: tuple[float, ...]
    """Host clock around `depth` steps and one synchronize, over `depth`: what asv gets."""
    call_s: tuple[float, ...]
    """Host clock until the last of the `depth` calls returned, over `depth`."""
    device_s: tuple[float, ...]
    """Between two events on the device, over `depth`. Empty when `device_reason` says why."""
    device_reason: str | None
    """Why there is no device time; None when there is."""
    first_s: float
    """The very first step with its synchronize: allocation, first touch, lazy loading."""
    depth: int
    """Steps enqueued before one synchronize: fixed by the case."""
    number: int
    """Repetitions of `depth` inside one timer reading; above 1 only for host-only steps."""


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan 1996, type 7).

    `share` is in [0, 1]. Raises ValueError on an empty sequence.
    """
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float:
    """The middle order statistic, or the mean of the two middle ones."""
    return quantile(values, 0.5)


def relative_iqr(values: Sequence[float]) -> float:
    """Interquartile range over the median: the dispersion that the stop rule looks at.

    Infinite where the median is not positive.
    """
    middle = median(values)
    if middle <= 0:
        return math.inf
    return (quantile(values, 0.75) - quantile(values, 0.25)) / middle


def median_interval(values: Sequence[float], confidence: float = 0.99) -> tuple[float, float]:
    """Distribution-free interval of the median from order statistics.

    The k-th smallest and k-th largest value cover the median with probability
    1 - 2 * P(Binomial(n, 1/2) < k); the largest k that keeps `confidence` is used (Conover,
    Practical Nonparametric Statistics, 3.2). (-inf, inf) where n is too small for any k:
    under 8 values at 99 %.
    """
    ordered = sorted(values)
    num = len(ordered)
    below = 0.0
    rank = 0
    for k in range(num // 2 + 1):
        below += math.comb(num, k) / (1 << num)
        if 2 * below > 1 - confidence:
            break
        rank = k + 1
    if rank == 0:
        return (-math.inf, math.inf)
    return (ordered[rank - 1], ordered[num - rank])
