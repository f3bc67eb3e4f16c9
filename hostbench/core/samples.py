"""Plain statistics on samples. Pure: no clock, no device."""

import math
from collections.abc import Callable, Mapping, Sequence

from hostbench.core.units import number_of

MIN_LAUNCHES = 7
"""Launches below which nothing is decided, here or by the rank test of `asv compare`."""
MIN_FOR_INTERVAL = 8
"""Values from which on `median_interval` has one at 99 %."""

Launches = Mapping[int, float]
"""Launch number -> median seconds in that launch."""


def few_launches(num: float) -> str:
    """Why a case or a run with so few launches is never judged."""
    return f"{number_of(round(num), 'launch', 'launches')}, under {MIN_LAUNCHES}"


def quantile(values: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan 1996, type 7). `share` is in
    [0, 1]. Raises ValueError on an empty sequence."""
    if not values:
        raise ValueError("quantile of no values")
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Sequence[float]) -> float:
    """The middle order statistic, or the mean of the two middle ones."""
    return quantile(values, 0.5)


def median_interval(values: Sequence[float], confidence: float = 0.99) -> tuple[float, float]:
    """Distribution-free interval of the median from order statistics.

    The k-th smallest and k-th largest value cover the median with probability
    1 - 2 * P(Binomial(n, 1/2) < k); the largest k that keeps `confidence` is used (Conover,
    Practical Nonparametric Statistics, 3.2). (-inf, inf) for no such k: under 8 values at 99 %.
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


def by_launch(formula: Callable[..., float], *parts: Launches) -> Launches:
    """The formula of the parts, in each launch that holds all of them."""
    whole = sorted(set.intersection(*map(set, parts)))
    return {n: formula(*(part[n] for part in parts)) for n in whole}
