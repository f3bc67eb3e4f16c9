"""The second stage: segments of one series, and what comes and goes folded into the level around.

A series is a list of logarithms without missing points.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LONGEST_FOLD = 24
"""Points: a stretch that returns sooner is an episode of its surroundings, not a level."""
SAME_LEVEL = 0.4
"""Share of the episode's height by which the levels around it may differ."""
GAP_NOISES = 2.5
MIN_GAP = 0.01
FEWEST_VISITS = 2
STEP_NOISES = 4.0
FEWEST_VISITS_OF_STEP = 3


@dataclass(slots=True, kw_only=True)
class Segment:
    """A stretch of one level; `values` are its points without the folded ones."""

    start: int
    end: int
    level: float
    values: list[float]
    slack: int = 0
    """Points by which `start` may be off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Points [start, end) that left the level around them by `height` and came back."""

    start: int
    end: int
    height: float


def split(series: list[float], bounds: Sequence[int]) -> list[Segment]:
    edges = [0, *bounds, len(series)]
    return [
        Segment(start=a, end=b, level=median(series[a:b]), values=series[a:b])
        for a, b in itertools.pairwise(edges)
    ]


def merged(left: Segment, right: Segment) -> Segment:
    values = left.values + right.values
    return Segment(start=left.start, end=right.end, level=median(values), values=values)


def fold(segments: list[Segment]) -> list[Episode]:
    """Fold, shortest first, each stretch whose two neighbours agree; says which they were.

    Neighbours within MIN_GAP become one segment. Others stay two, with a boundary across the fold:
    beside a high episode a small step would be lost.
    """
    episodes = []
    while foldable := [
        (len(segments[i].values), i)
        for i in range(1, len(segments) - 1)
        if _returns(segments[i - 1], segments[i], segments[i + 1])
    ]:
        _, i = min(foldable)
        before, middle, after = segments[i - 1 : i + 2]
        around = merged(before, after)
        height = middle.level - around.level
        episodes.append(Episode(start=middle.start, end=middle.end, height=height))
        apart = abs(before.level - after.level) > MIN_GAP
        segments[i - 1 : i + 2] = [before, after] if apart else [around]
    return sorted(episodes, key=lambda episode: episode.start)


def _returns(before: Segment, middle: Segment, after: Segment) -> bool:
    num = len(middle.values)
    if before.end != middle.start or middle.end != after.start:
        return False
    if num > LONGEST_FOLD or len(before.values) + len(after.values) < num:
        return False
    up, down = middle.level - before.level, middle.level - after.level
    small = min(abs(up), abs(down))
    return up * down > 0 and abs(before.level - after.level) <= SAME_LEVEL * small


def folded(num_points: int, episodes: Sequence[Episode]) -> list[bool]:
    """Which points belong to an episode."""
    inside = [False] * num_points
    for episode in episodes:
        inside[episode.start : episode.end] = [True] * (episode.end - episode.start)
    return inside


def runs_off(
    series: list[float], inside: list[bool], segment: Segment, band: tuple[float, float]
) -> int:
    """Runs of two points or more whose distance above the segment's level is in `band`."""
    low, high = segment.level + band[0], segment.level + band[1]
    points = series[segment.start : segment.end]
    if max(points) <= low or min(points) >= high:
        return 0
    runs = found = 0
    for i in range(segment.start, segment.end):
        found = found + 1 if low < series[i] < high and not inside[i] else 0
        runs += found == 2
    return runs


def band(height: float, low: float, high: float) -> tuple[float, float]:
    """`low` to `high` times a height of either sign, in order."""
    return (low * height, high * height) if height > 0 else (high * height, low * height)


def recurrent_gap(
    series: list[float], segments: list[Segment], episodes: list[Episode], noise: float
) -> float | None:
    """The height of a second state that the series visits again and again, else None.

    A machine that throttles has one. At least two visits are needed: episodes of like height, or
    shorter runs of two points near it. Without such episodes, a step as high as three runs of two
    points before or after it is the machine's staying there.
    """
    inside = folded(len(series), episodes)
    best, most = None, 0.0
    for episode in episodes:
        height = episode.height
        if abs(height) < max(GAP_NOISES * noise, MIN_GAP):
            continue
        alike = [other.height for other in episodes if 0.6 < other.height / height < 1.5]
        near = band(height, 0.5, 1.6)
        visits = len(alike) + sum(runs_off(series, inside, s, near) for s in segments)
        if visits >= FEWEST_VISITS and visits * height**2 > most:
            best, most = median(alike), visits * height**2
    return best or _visited_step(series, segments, inside, noise)


def _visited_step(
    series: list[float], segments: list[Segment], inside: list[bool], noise: float
) -> float | None:
    """The height of the highest step whose other level is visited from either side of it."""
    heights = []
    for left, right in itertools.pairwise(segments):
        height = right.level - left.level
        if abs(height) < max(STEP_NOISES * noise, MIN_GAP):
            continue
        for segment, away in ((left, height), (right, -height)):
            near = band(away, 0.7, 1.4)
            if runs_off(series, inside, segment, near) >= FEWEST_VISITS_OF_STEP:
                heights.append(abs(height))
    return max(heights, default=None)
