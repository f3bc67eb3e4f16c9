"""The provisional rule: do the last few points say that something happened just now?"""

import math
from collections.abc import Sequence
from statistics import median

from hostbench.judge.changepoint.evidence import BLOCK, MEDIAN_VARIANCE
from hostbench.judge.changepoint.levels import CAP
from hostbench.judge.changepoint.prune import Steps
from hostbench.judge.changepoint.segments import band, runs_off

LENGTHS = (3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 30)
"""Of the tails that are tried."""
FEWEST, MOST = LENGTHS[0], LENGTHS[-1]
HISTORY = 40
"""Points before the tail that its level is held against."""
LEAST_HISTORY = 8
NEAR = 6
"""Points that the start may lie before the split that stood out most."""
THRESHOLD = 4.0
"""Standard errors that the last 3 points or more must be off for a provisional change."""
LEAST_EFFECT = 0.02
"""The smallest provisional change, as a difference of logarithms."""
QUIET = 1.2
"""Noises that the last points are off at the very least: spares quiet series the search."""


def tail_change(series: list[float], found: Steps, noise: float) -> tuple[int, float] | None:
    """First point and height of a change less than MOST points ago, or None.

    The median of the last points is held against the median before them, within the last confirmed
    segment; the split with the largest ratio to its standard error counts, and the series' slow
    noise is part of that error. It is no change where the last three are not all on its side, where
    that level was visited before and left again, or where it began earlier: then there was time to
    confirm it, and it was not.
    """
    segment = found.segments[-1]
    if abs(median(segment.values[-FEWEST:]) - segment.level) < QUIET * noise:
        return None
    points = [i for i in range(segment.start, segment.end) if not found.inside[i]]
    values = [series[i] for i in points]
    wander = max(0.0, found.variance - MEDIAN_VARIANCE * noise**2) / BLOCK
    best = _best_split(values, noise, wander)
    if best is None:
        return None
    num, height, ratio = best
    if num == MOST or ratio < THRESHOLD or abs(height) < LEAST_EFFECT:
        return None
    base = median(_before(values, num))
    if min((value - base) / height for value in values[-FEWEST:]) < 0.4:
        return None
    num = _placed(values, num, base, base + height, noise)
    first = points[-num]
    if _been_there(series, found, first, height, noise):
        return None
    return first, height


def _before(values: Sequence[float], num: int) -> Sequence[float]:
    return values[max(0, len(values) - num - HISTORY) : len(values) - num]


def _best_split(
    values: Sequence[float], noise: float, wander: float
) -> tuple[int, float, float] | None:
    best = None
    for num in LENGTHS:
        if num > len(values) - LEAST_HISTORY:
            break
        before = _before(values, num)
        height = median(values[-num:]) - median(before)
        spread = MEDIAN_VARIANCE * noise**2 * (1 / num + 1 / len(before))
        error = math.sqrt(spread + wander)
        if best is None or abs(height) / error > best[2]:
            best = num, height, abs(height) / error
    return best


def _placed(values: Sequence[float], num: int, old: float, new: float, noise: float) -> int:
    """The number of last points, near `num`, for which the two levels lose least."""
    best, least, loss = num, 0.0, 0.0
    start = min(len(values) - LEAST_HISTORY, num + NEAR)
    for count in range(start, FEWEST - 1, -1):
        if loss < least - 1e-9 or count == start:
            best, least = count, loss
        value = values[-count]
        to_old, to_new = (min(abs(value - level) / noise, CAP) for level in (old, new))
        loss += to_old**2 - to_new**2
    return best


def _been_there(series: list[float], found: Steps, first: int, height: float, noise: float) -> bool:
    """Whether two points together were near that height above their level, before `first`."""
    low, high = band(height, 0.65, 1.5)
    away = (max(low, 3 * noise), high) if height > 0 else (low, min(high, -3 * noise))
    inside = [flag or i >= first for i, flag in enumerate(found.inside)]
    return any(runs_off(series, inside, segment, away) for segment in found.segments)
