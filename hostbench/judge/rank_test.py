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
from statistics import NormalDist, median

import numpy as np

from hostbench.core.arrays import Floats

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
    rank = _interval_rank(len(first), len(second), alpha)
    return Shift(
        estimate=median(differences),
        low=differences[rank - 1] if rank > 0 else -math.inf,
        high=differences[-rank] if rank > 0 else math.inf,
        p_value=_p_value(_doubled_midranks([*first, *second]), len(first)),
    )


def _p_value(ranks: Sequence[int], num: int) -> float:
    """The share of all ways to deal out these ranks in which the sum of `num` of them is as far
    from the middle as that of the first `num` is."""
    total = len(ranks)
    off = abs(sum(ranks[:num]) - num * (total + 1))
    if max(num, total - num) <= EXACT_UP_TO:
        shares = _rank_sums(tuple(sorted(ranks)), num)
        far = np.abs(np.arange(len(shares)) - num * (total + 1)) >= off
        return min(1.0, float(shares[far].sum()))
    spread = _spread(ranks, num)
    # A pair more or less moves the doubled sum by 2: half of that is the continuity correction.
    return math.erfc(max(0, off - 1) / spread / math.sqrt(2)) if spread else 1.0


def _interval_rank(num: int, other: int, alpha: float) -> int:
    """The interval begins at the difference of this rank and ends at that from the other end; 0
    where the samples are too small for one."""
    ranks = range(2, 2 * (num + other) + 1, 2)
    if max(num, other) <= EXACT_UP_TO:
        below = np.cumsum(_rank_sums(tuple(ranks), num)[num * (num + 1) :: 2])
        return int(np.count_nonzero(2 * below <= alpha))
    quantile = NormalDist().inv_cdf(1 - alpha / 2)
    return max(0, math.floor(num * other / 2 - quantile * _spread(ranks, num) / 2))


def _doubled_midranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, 1 for the smallest; equal values share the mean of theirs."""
    ordered = np.sort(values)
    below, up_to = (np.searchsorted(ordered, values, side) for side in ("left", "right"))
    doubled: list[int] = (below + up_to + 1).tolist()
    return doubled


@lru_cache(maxsize=256)
def _rank_sums(ranks: tuple[int, ...], num: int) -> Floats:
    """Of all ways to deal out `num` of these ranks the share that has each sum, 0 and up."""
    ways = np.zeros((num + 1, sum(ranks) + 1))  # counts up to 10^17, in sums of like sign
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, :-rank]
    shares: Floats = ways[num] / ways[num].sum()
    return shares


def _spread(ranks: Sequence[int], num: int) -> float:
    """Standard deviation of the sum of `num` of these ranks, of all ways to deal them out."""
    total = len(ranks)
    return math.sqrt(num * (total - num) / (total - 1) * float(np.var(ranks)))
