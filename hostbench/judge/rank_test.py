"""Are two samples shifted against each other, and by how much? Distribution-free, exact when small.

The Mann-Whitney test (Mann and Whitney 1947), and the Hodges-Lehmann estimate of the shift with the
interval that belongs to the test (Hollander, Wolfe and Chicken, Nonparametric Statistical Methods,
4.1 to 4.3). With ties the distribution is that of the midranks at hand, over all ways to deal them
out (there, 4.1, comment 4). Pure functions of numbers.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import median

import numpy as np

from hostbench.core.arrays import Floats

ALPHA = 0.01
"""How often the interval may miss."""
EXACT_UP_TO = 30
"""Samples up to this size are judged by the exact distribution, larger ones by the normal one."""


def shift(first: Sequence[float], second: Sequence[float]) -> tuple[float, float, float, float]:
    """How far the second sample lies above the first, by the median of all differences; the ends of
    its interval, infinite where the samples are too small for one; the two-sided p-value. Neither
    sample is empty."""
    num, total = len(first), len(first) + len(second)
    differences = sorted(b - a for a in first for b in second)
    # Equal values share the mean of their ranks, and where any are equal all ranks are doubled, so
    # that they are whole.
    values = np.array([*first, *second])
    below, up_to = (np.searchsorted(np.sort(values), values, side) for side in ("left", "right"))
    ranks: list[int] = (below + up_to + 1 if (up_to - below > 1).any() else up_to).tolist()
    shares, middle = _rank_sums(tuple(sorted(ranks)), num), num * sum(ranks) / total
    is_far = np.abs(np.arange(len(shares)) - middle) >= abs(sum(ranks[:num]) - middle)
    # The interval ends at the differences of this rank from either end; 0 where they are too few.
    below = np.cumsum(_rank_sums(tuple(range(1, total + 1)), num)[num * (num + 1) // 2 :])
    rank = int(np.count_nonzero(2 * below <= ALPHA))
    low, high = (differences[rank - 1], differences[-rank]) if rank else (-math.inf, math.inf)
    return median(differences), low, high, min(1.0, float(shares[is_far].sum()))


@lru_cache(maxsize=8)  # without ties every series asks for the same
def _rank_sums(ranks: tuple[int, ...], num: int) -> Floats:
    """Of all ways to deal out `num` of these ranks the share that has each sum, 0 and up."""
    total = len(ranks)
    if max(num, total - num) > EXACT_UP_TO:
        spread = math.sqrt(num * (total - num) / (total - 1) * float(np.var(ranks))) or 1e-9
        off = np.arange(sum(ranks) + 1) - num * sum(ranks) / total
        weights = np.exp(-((off / spread) ** 2) / 2)
    else:
        ways = np.zeros((num + 1, sum(ranks) + 1))  # counts up to 10^17, in sums of like sign
        ways[0, 0] = 1.0
        for rank in ranks:
            ways[1:, rank:] += ways[:-1, :-rank]
        weights = ways[num]
    shares: Floats = weights / weights.sum()
    return shares
