"""Are two samples shifted against each other, and by how much? Distribution-free, exact when small.

The Mann-Whitney test (Mann and Whitney 1947), and the Hodges-Lehmann estimate of the shift with the
interval that belongs to the test (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods,
4.1 to 4.3). With ties the distribution is that of the midranks at hand, over all ways to deal them
out (there, 4.1, comment 4). Pure functions of numbers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

ALPHA = 0.01
"""Of the interval, unless another is asked for."""
EXACT_UP_TO = 30
"""Samples up to this size are judged by the exact distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """How far the second sample lies above the first."""

    estimate: float
    """The median of all differences, second minus first."""
    low: float
    high: float
    """Interval of `estimate`; infinite where the samples are too small for one."""
    p_value: float
    """Two-sided."""


def shift(first: Sequence[float], second: Sequence[float], alpha: float = ALPHA) -> Shift:
    """`alpha`: how often the interval may miss. Raises ValueError for an empty sample."""
    if not first or not second:
        raise ValueError("a shift needs numbers on both sides")
    differences = sorted(b - a for a in first for b in second)
    above = sum(d > 0 for d in differences) + 0.5 * sum(d == 0 for d in differences)
    low, high = _interval(differences, len(first), len(second), alpha)
    middle = len(differences) // 2
    return Shift(
        estimate=(differences[middle] + differences[-1 - middle]) / 2,
        low=low,
        high=high,
        p_value=_p_value(first, second, above),
    )


def share_up_to(num: int, other: int, statistic: int) -> float:
    """Of all orders of two samples of these sizes without ties, the share whose statistic, the
    pairs in which the second value lies above the first, is at most this."""
    counts = _counts(num, other)
    return sum(counts[: statistic + 1]) / sum(counts)


def _p_value(first: Sequence[float], second: Sequence[float], above: float) -> float:
    num, other = len(first), len(second)
    if max(num, other) <= EXACT_UP_TO:
        if len({*first, *second}) < num + other:
            return _tied_p_value(first, second)
        smaller = min(int(above), num * other - int(above))
        return min(1.0, 2 * share_up_to(num, other, smaller))
    spread = _spread([*first, *second], num, other)
    if spread == 0:
        return 1.0
    distance = max(0.0, abs(above - num * other / 2) - 0.5)  # continuity correction
    return math.erfc(distance / spread / math.sqrt(2))


def _tied_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """The share of all ways to deal out the midranks whose rank sum is as far from the middle."""
    ranks = _doubled_midranks([*first, *second])
    num, total = len(first), sum(ranks)
    ways = np.zeros((num + 1, total + 1))  # counts up to 10^17, in sums of like sign
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank]
    middle = num * total / len(ranks)
    off = np.abs(np.arange(total + 1) - middle)
    here = abs(sum(ranks[:num]) - middle)
    return float(ways[num, off >= here - 1e-9].sum() / ways[num].sum())


def _doubled_midranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, 1 for the smallest; equal values share the mean of theirs."""
    ordered = sorted(values)
    first = {value: place for place, value in reversed(list(enumerate(ordered)))}
    return [2 * first[value] + 1 + ordered.count(value) for value in values]


def _spread(values: Sequence[float], num: int, other: int) -> float:
    """Standard deviation of the statistic without a shift, corrected for ties."""
    total = num + other
    ties = [values.count(value) for value in set(values)]
    correction = sum(tie**3 - tie for tie in ties) / (total * (total - 1)) if total > 1 else 0.0
    return math.sqrt(num * other / 12 * (total + 1 - correction))


def _interval(
    differences: Sequence[float], num: int, other: int, alpha: float
) -> tuple[float, float]:
    """The k-th smallest and the k-th largest difference."""
    if max(num, other) <= EXACT_UP_TO:
        counts = _counts(num, other)
        total, below, rank = sum(counts), 0, 0
        while rank < len(counts) and 2 * (below + counts[rank]) <= alpha * total:
            below += counts[rank]
            rank += 1
    else:
        quantile = NormalDist().inv_cdf(1 - alpha / 2)
        rank = math.floor(num * other / 2 - quantile * _spread([], num, other))
    if rank <= 0:
        return -math.inf, math.inf
    return differences[rank - 1], differences[-rank]


@lru_cache(maxsize=256)
def _counts(num: int, other: int) -> tuple[int, ...]:
    """In how many orders of the two samples the statistic is 0, 1, ... num * other.

    The coefficients of the Gaussian binomial coefficient, by its product formula.
    """
    counts = [1] + [0] * (num * other)
    for step in range(1, num + 1):
        for place in range(len(counts) - 1, other + step - 1, -1):
            counts[place] -= counts[place - other - step]
        for place in range(step, len(counts)):
            counts[place] += counts[place - step]
    return tuple(counts)
