"""The provisional rule: do the last few points say that something happened just now?"""

import math
from collections.abc import Sequence

from hostbench.judge.change import Options
from hostbench.judge.evidence import MEDIAN_VARIANCE
from hostbench.judge.prune import Found
from hostbench.judge.segments import band, median, runs_off

FEWEST, MOST = 3, 20
HISTORY = 40
"""Points before the tail that its level is held against."""
LEAST_HISTORY = 8


def tail_change(
    series: list[float], found: Found, noise: float, options: Options
) -> tuple[int, float] | None:
    """First point and height of a change in the last MOST points, or None.

    The median of the last points is held against the median before them, within the last confirmed
    segment; the split with the largest ratio to its standard error counts. It is no change where
    the last three are not all on its side, or where that level was visited before and left again.
    """
    segment = found.segments[-1]
    points = [i for i in range(segment.start, segment.end) if not found.inside[i]]
    values = [series[i] for i in points]
    best = _best_split(values, noise)
    if best is None:
        return None
    num, height, ratio = best
    if ratio < options.tail_threshold or abs(height) < options.tail_effect:
        return None
    base = median(_before(values, num))
    if min((value - base) / height for value in values[-FEWEST:]) < 0.4:
        return None
    first = points[-num]
    if _been_there(series, found, first, height, noise):
        return None
    return first, height


def _before(values: Sequence[float], num: int) -> Sequence[float]:
    return values[max(0, len(values) - num - HISTORY) : len(values) - num]


def _best_split(values: Sequence[float], noise: float) -> tuple[int, float, float] | None:
    best = None
    for num in range(FEWEST, min(MOST, len(values) - LEAST_HISTORY) + 1):
        before = _before(values, num)
        height = median(values[-num:]) - median(before)
        error = noise * math.sqrt(MEDIAN_VARIANCE * (1 / num + 1 / len(before)))
        if best is None or abs(height) / error > best[2]:
            best = num, height, abs(height) / error
    return best


def _been_there(
    series: list[float], found: Found, first: int, height: float, noise: float
) -> bool:
    """Whether two points together were near that height above their level, before `first`."""
    low, high = band(height, 0.65, 1.5)
    away = (max(low, 3 * noise), high) if height > 0 else (low, min(high, -3 * noise))
    inside = [flag or i >= first for i, flag in enumerate(found.inside)]
    return any(runs_off(series, inside, segment, away, 2) for segment in found.segments)
