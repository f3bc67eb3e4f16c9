"""The third stage: which boundaries between two segments stand up, as pure tests on their points.

`noise` is the standard deviation from point to point; a segment's values are a list of logarithms.
"""

import math
from statistics import median_low

import numpy as np

from hostbench.core.arrays import Floats
from hostbench.judge.changepoint.levels import CAP, MAD_TO_SIGMA
from hostbench.judge.changepoint.segments import Segment

MIN_EFFECT = 0.015
"""Nothing smaller is reported, as a difference of logarithms."""
MIN_POINTS = 8
"""Points at the new and at the old level before a change can be confirmed."""
MIN_GAIN = 8.0
"""Points' worth of bounded loss that splitting the two segments must save."""
LINE_MARGIN = 6.0
"""Squared noise over two by which a step must fit better than a straight line."""
MEDIAN_VARIANCE = math.pi / 2
"""Variance of the median of n normal values, times n over their variance."""
BLOCK = 16
"""Points over which slow noise (sessions, drift) is averaged to be seen."""
SLOW_WEIGHT = 1.5
"""On the slow noise's variance, because the segments have already swallowed a part of it."""

OLD = 30
"""Points after which the newest segment is an ordinary one."""
OPEN_WEIGHT = 0.75
NEAR_LEVEL = 0.3
"""Share of a step: points nearer than this to a level count for it, however quiet the series is."""


def long_run_variance(residuals: Floats, noise: float) -> float:
    """n times the variance of a mean of n points, n large: above the noise's own where slow.

    Residuals are clipped at CAP noises, so that it measures wandering and not outliers: BLOCK
    times the mean square of the means of BLOCK consecutive points, at least that of a median.
    """
    num = len(residuals)
    block = BLOCK if num >= 2 * BLOCK else max(2, num // 2)
    sums = np.cumsum(np.clip(residuals, -CAP * noise, CAP * noise))
    means = (sums[block:] - sums[:-block]) / block
    slow = SLOW_WEIGHT * block * float(means @ means) / len(means) if len(means) else 0.0
    return max(MEDIAN_VARIANCE * noise**2, slow)


def size(left: Segment, right: Segment, variance: float, threshold: float) -> float:
    """At least 1 where the levels differ by enough errors, by enough at all, over enough points."""
    effect = abs(right.level - left.level)
    num_left, num_right = len(left.values), len(right.values)
    error = math.sqrt(variance * (1 / num_left + 1 / num_right))
    return min(
        effect / (threshold * error), effect / MIN_EFFECT, min(num_left, num_right) / MIN_POINTS
    )


def shape(left: Segment, right: Segment, noise: float, is_open: bool) -> float:
    """At least 1 where it is two lasting levels, no straight line and no outing of a few points.

    `is_open`: the right segment is the newest and may yet turn out to be an episode, so it needs
    up to three quarters more gain while it has few points.
    """
    both = np.array(left.values + right.values)
    num_left = len(left.values)
    before, after = both[:num_left] - left.level, both[num_left:] - right.level
    young = OPEN_WEIGHT * max(0.0, 1.0 - len(after) / OLD) if is_open else 0.0
    near = max(noise, NEAR_LEVEL * abs(right.level - left.level))
    gain = bounded_gain(both, before, after, near) / (MIN_GAIN * (1.0 + young))
    if gain < 1:
        return gain
    steps = squared_loss(np.concatenate([before, after]), noise)
    over_line = line_loss(both, noise) - steps
    return min(gain, over_line / LINE_MARGIN)


def bounded_gain(both: Floats, before: Floats, after: Floats, near: float) -> float:
    """What a split saves in Welsch loss 1 - exp(-u**2 / 2), in points.

    The scale is that of the unsplit stretch, at least `near`, so a new level has to last: a session
    of a few points cannot save more than a few points.
    """
    # The low median is a point: that of as many old as new ones would lie between the levels.
    off = both - median_low(both.tolist())
    scale = max(near, MAD_TO_SIGMA * median_low(np.abs(off).tolist()))
    units = np.concatenate([before, after, off])
    kept = np.exp((units * units) * (-0.5 / scale**2))
    num = len(off)
    return float(kept[:num].sum() - kept[num:].sum())


def squared_loss(residuals: Floats, noise: float) -> float:
    """Half the squared residuals in units of noise, each bounded at CAP noises."""
    return 0.5 * float(np.minimum((residuals / noise) ** 2, CAP * CAP).sum())


def line_loss(values: Floats, noise: float) -> float:
    """The same loss for a straight line, fitted twice: the second time without far points."""
    num = len(values)
    times = np.arange(num) - 0.5 * (num - 1)
    off = values - values.sum() / num
    off -= (times @ off) * 12.0 / (num * (num * num - 1.0)) * times
    near = np.flatnonzero(np.abs(off) < CAP * noise)
    if 4 <= len(near) < num:
        centred, kept = times[near], off[near]
        middle, level = centred.sum() / len(near), kept.sum() / len(near)
        centred = centred - middle
        slope = float(centred @ kept) / max(float(centred @ centred), 1e-9)
        off -= level + slope * (times - middle)
    return squared_loss(off, noise)
