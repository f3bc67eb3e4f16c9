"""From first segments to changes: fold, prune the weak boundaries, place the ones that are left."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from hostbench.judge.changepoint.evidence import long_run_variance, shape, size
from hostbench.judge.changepoint.levels import MAD_TO_SIGMA
from hostbench.judge.changepoint.segments import (
    Episode,
    Segment,
    band,
    fold,
    folded,
    merged,
    runs_off,
    split,
)

MOVE = 12
"""Points that a boundary may be moved from where the first stage put it."""
NEARNESS = np.array([1.0, 1.0, 1.0, 1.1, 1.0, 1.0, 1.0])
"""What a place counts of the probability of each place around it: nothing beyond 3 points."""
SURE = 0.99
TEMPORARY_THRESHOLD = 6.0
TEMPORARY_POINTS = (7, 24)
"""Shortest and longest temporary event that is reported."""
TEMPORARY_EFFECT = 0.02
"""The smallest temporary event that is reported, as a difference of logarithms."""
AROUND = 40
"""Points that the level around a temporary event is counted as known from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """What one series without missing points shows; indices are of its points."""

    segments: tuple[Segment, ...]
    """Between the confirmed changes."""
    temporary: tuple[Episode, ...]
    inside: tuple[bool, ...]
    """Which points belong to a folded episode, reported or not."""
    variance: float
    """n times the variance of the median of n points of one level."""


def analyse(series: list[float], bounds: Sequence[int], noise: float, threshold: float) -> Steps:
    """Confirmed segments and temporary events, from the boundaries of the first stage."""
    segments = split(series, bounds)
    episodes = fold(segments)
    inside = folded(len(series), episodes)
    variance = prune(segments, noise, threshold)
    place(series, inside, segments, noise)
    return Steps(
        segments=tuple(segments),
        temporary=tuple(_temporary(series, inside, segments, episodes, noise)),
        inside=tuple(inside),
        variance=variance,
    )


def prune(segments: list[Segment], noise: float, threshold: float) -> float:
    """Merge the weakest two neighbours until every boundary stands; the last long-run variance.

    Those that are too small go first, then those of the wrong shape.
    """
    while True:
        residuals = np.concatenate([np.array(s.values) - s.level for s in segments])
        variance = long_run_variance(residuals, noise)
        pairs = list(itertools.pairwise(segments))
        scores = [size(a, b, variance, threshold) for a, b in pairs]
        if scores and min(scores) >= 1:
            newest = segments[-1]
            scores = [shape(a, b, noise, b is newest) for a, b in pairs]
        if not scores or min(scores) >= 1:
            return variance
        i = scores.index(min(scores))
        segments[i : i + 2] = [merged(segments[i], segments[i + 1])]


def place(series: list[float], inside: list[bool], segments: list[Segment], noise: float) -> None:
    """Move each boundary to where it most probably is, give or take a few points.

    Every place within MOVE points has a probability: that of the points before it around the old
    level and of those after it around the new one, by Student's t with 2 degrees of freedom. The
    place that has most of it near (NEARNESS) is taken: it is within 3 points more often than the
    single most probable one.
    """
    off = [abs(value - segment.level) for segment in segments for value in segment.values]
    scale = max(noise, MAD_TO_SIGMA * median(off))
    for left, right in itertools.pairwise(segments):
        first = max(left.start + 2, right.start - MOVE)
        last = min(right.end - 2, right.start + MOVE)
        if first < last:
            points = np.array(series[first:last])
            to_left, to_right = (((points - s.level) / scale) ** 2 for s in (left, right))
            likelier = 1.5 * np.log((2.0 + to_right) / (2.0 + to_left))
            likelier[inside[first:last]] = 0.0
            total = np.concatenate([[0.0], np.cumsum(likelier)])
            chance = np.exp(total - total.max())
            best = int(np.convolve(chance, NEARNESS, "same").argmax())
            left.end = right.start = first + best
            right.slack = _slack(chance.tolist(), best)


def _slack(chance: list[float], best: int) -> int:
    """Places on either side of the best that hold SURE of the probability."""
    missing = SURE * sum(chance) - chance[best]
    for reach in range(1, len(chance)):
        if missing <= 0:
            return reach - 1
        sides = (best - reach, best + reach)
        missing -= sum(chance[place] for place in sides if 0 <= place < len(chance))
    return len(chance) - 1


def _temporary(
    series: list[float],
    inside: list[bool],
    segments: list[Segment],
    episodes: Sequence[Episode],
    noise: float,
) -> list[Episode]:
    """Episodes worth an event: long enough, plain enough, and the only visit of their kind."""
    shortest, longest = TEMPORARY_POINTS
    found = []
    for episode in episodes:
        num, height = episode.end - episode.start, abs(episode.height)
        error = noise * math.sqrt(math.pi / 2 * (1 / num + 1 / AROUND))
        if not shortest <= num <= longest or height < TEMPORARY_EFFECT:
            continue
        others = any(o is not episode and abs(o.height) > 0.5 * height for o in episodes)
        if height < TEMPORARY_THRESHOLD * error or others:
            continue
        if not _visited(series, inside, segments, episode, noise):
            found.append(episode)
    return found


def _visited(
    series: list[float], inside: list[bool], segments: list[Segment], episode: Episode, noise: float
) -> bool:
    """Whether points outside all episodes make it one visit of many: single ones that go as far, a
    fourth as many as it has, or runs of two that go half as far, an eighth as many."""
    num, height = episode.end - episode.start, abs(episode.height)
    far = max(0.7 * height, 4 * noise)
    spikes = runs = 0
    for segment in segments:
        points = range(segment.start, segment.end)
        spikes += sum(not inside[i] and abs(series[i] - segment.level) > far for i in points)
        for side in (height, -height):
            runs += runs_off(series, inside, segment, band(side, 0.5, math.inf))
    return 4 * spikes >= max(num, 8) or 8 * runs >= num
