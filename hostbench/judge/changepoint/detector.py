"""The detector: seconds in, changes out. Pure; docs/judgement.md has the formulas.

`judge` takes many series at once, which is what makes it quick, and says how small a change each
could have shown. What is known to reset a baseline (a version bump, a known change of facts) is
passed in: levels across it are not judged, it is reported with its effect.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from hostbench.core.arrays import Floats
from hostbench.judge.changepoint import levels
from hostbench.judge.changepoint.change import OF_A_SERIES, Certainty, Change, Judgement, Strictness
from hostbench.judge.changepoint.evidence import MEDIAN_VARIANCE, MIN_EFFECT
from hostbench.judge.changepoint.prune import AROUND, Steps, analyse
from hostbench.judge.changepoint.segments import fold, recurrent_gap, split
from hostbench.judge.changepoint.tail import LEAST_HISTORY, tail_change

FEWEST_POINTS = LEAST_HISTORY + 3
"""A piece with fewer points is not judged."""
BATCH = 512
DRIFT_THRESHOLD = 4.0
LEAST_DRIFT = 0.01
SETTLED = 20
LARGEST_HEIGHT = 700.0


@dataclass(slots=True)
class _Piece:
    """Points of one series between two known resets, without the missing ones."""

    owner: int
    points: Floats
    places: npt.NDArray[np.int64]
    """Where each point stands in the series."""
    last: bool
    noise: float = 0.0
    found: Steps | None = None
    corrected: list[float] | None = None


def log_seconds(values: Sequence[float] | Floats) -> Floats:
    """Logarithms; what is missing, infinite or not positive becomes NaN."""
    seconds = np.array(values, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(seconds)
    return np.where(np.isfinite(logs), logs, np.nan)


def judge(
    series: Sequence[Floats],
    resets: Sequence[Sequence[int]] | None = None,
    strictness: Strictness = OF_A_SERIES,
) -> list[Judgement]:
    """The judgement of each series of logarithms of seconds, one value a commit, in order; NaN is a
    missing point. `resets`: of each the points from which on something else is measured."""
    pieces = [
        piece
        for owner, logs in enumerate(series)
        for piece in _pieces(owner, logs, resets[owner] if resets else ())
    ]
    long_enough = [piece for piece in pieces if len(piece.points) >= FEWEST_POINTS]
    long_enough.sort(key=lambda piece: len(piece.points))
    for start in range(0, len(long_enough), BATCH):
        _judge_batch(long_enough[start : start + BATCH], strictness)
    by_owner: list[list[_Piece]] = [[] for _ in series]
    for piece in pieces:
        by_owner[piece.owner].append(piece)
    return [_judgement(own, strictness.threshold) for own in by_owner]


def stretches(num: int, resets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(first point, end) between two known resets of a series of so many points."""
    return itertools.pairwise(sorted({0, num, *(b for b in resets if 0 < b < num)}))


def _pieces(owner: int, logs: Floats, resets: Sequence[int]) -> Iterator[_Piece]:
    for start, end in stretches(len(logs), resets):
        places = start + np.flatnonzero(~np.isnan(logs[start:end]))
        yield _Piece(owner, logs[places], places, last=end == len(logs))


def longest_piece(logs: Floats, resets: Sequence[int]) -> int:
    """Points of the longest stretch between two resets, without the missing ones."""
    return max((len(piece.points) for piece in _pieces(0, logs, resets)), default=0)


def _judge_batch(pieces: list[_Piece], strictness: Strictness) -> None:
    """First stage for all pieces at once, with what drifts or recurs taken out; then each alone."""
    rows = np.full((len(pieces), max(len(piece.points) for piece in pieces)), np.nan)
    for row, piece in zip(rows, pieces, strict=True):
        row[: len(piece.points)] = piece.points
    noise = levels.noise_of(rows)
    path = levels.cheapest(rows, noise)
    cost, bounds = path.cost, _bounds(path.level, rows)
    rows = _without_drift(rows, bounds, cost, noise)
    rows = _without_second_state(rows, bounds, cost, noise, strictness.left_by_second_state)
    for i, piece in enumerate(pieces):
        piece.noise = float(noise[i])
        piece.corrected = rows[i, : len(piece.points)].tolist()
        piece.found = analyse(piece.corrected, bounds[i], piece.noise, strictness.threshold)


def _bounds(level: npt.NDArray[np.int64], rows: Floats) -> list[list[int]]:
    """First points of the second and later segments of each row."""
    changed = np.diff(level, axis=1) != 0
    changed &= ~np.isnan(rows[:, 1:])
    return [(np.flatnonzero(row) + 1).tolist() for row in changed]


def _without_drift(rows: Floats, bounds: list[list[int]], cost: Floats, noise: Floats) -> Floats:
    """Rows with a straight drift inside their segments lose it; their `bounds` and `cost` are made
    anew, in place."""
    slopes = _slopes(rows, bounds, noise)
    drifting = np.flatnonzero(slopes)
    if not len(drifting):
        return rows
    rows, times = rows.copy(), np.arange(rows.shape[1], dtype=float)
    rows[drifting] -= slopes[drifting, None] * times
    path = levels.cheapest(rows[drifting], noise[drifting])
    cost[drifting] = path.cost
    for i, own in zip(drifting.tolist(), _bounds(path.level, rows[drifting]), strict=True):
        bounds[i] = own
    return rows


def _slopes(rows: Floats, bounds: list[list[int]], noise: Floats) -> Floats:
    """Slope within the segments of each row per point; 0 where not plain, or under 1 % in all."""
    starts = np.zeros(rows.shape, dtype=bool)
    starts[:, 0] = True
    for row, places in zip(starts, bounds, strict=True):
        row[places] = True
    valid = ~np.isnan(rows)
    starts |= valid != np.roll(valid, 1, axis=1)  # the padding is a segment of its own
    first = np.flatnonzero(starts)
    lengths = np.diff(np.append(first, starts.size))
    values = np.nan_to_num(rows).ravel()
    level = np.repeat(np.add.reduceat(values, first) / lengths, lengths).reshape(rows.shape)
    times = np.arange(starts.size) - np.repeat(first + 0.5 * (lengths - 1), lengths)
    times = np.where(valid, times.reshape(rows.shape), 0.0)
    limit = levels.CAP * noise[:, None]
    off = np.clip(np.nan_to_num(rows) - level, -limit, limit)
    square = (times**2).sum(axis=1)
    slopes = (times * off).sum(axis=1) / np.maximum(square, 1.0)
    plain = np.abs(slopes) * np.sqrt(square) > DRIFT_THRESHOLD * noise
    large = np.abs(slopes) * valid.sum(axis=1) > LEAST_DRIFT
    return np.where(plain & large, slopes, 0.0)


def _without_second_state(
    rows: Floats, bounds: list[list[int]], cost: Floats, noise: Floats, may_be_left: float
) -> Floats:
    """Rows that visit a second state again and again lose it, and get `bounds` anew, in place.

    It has to save two changes of level of the `cost`, and to leave few changes or one.
    """
    gaps = np.zeros(len(rows))
    for i, row in enumerate(rows):
        if bounds[i]:
            values = row[~np.isnan(row)].tolist()
            segments = split(values, bounds[i])
            gaps[i] = recurrent_gap(values, segments, fold(segments), float(noise[i])) or 0.0
    two = np.flatnonzero(gaps)
    if not len(two):
        return rows
    # Of two levels visited in turn either may be the second state: the cheaper path says which.
    up, down = (levels.cheapest(rows[two], noise[two], gap=gap) for gap in (gaps[two], -gaps[two]))
    is_up = (up.cost <= down.cost)[:, None]
    without = rows[two] - gaps[two, None] * np.where(is_up, up.away, -1.0 * down.away)
    left = _bounds(np.where(is_up, up.level, down.level), without)
    saved = cost[two] - np.minimum(up.cost, down.cost)
    before = np.array([len(bounds[i]) for i in two])
    few = np.maximum(1, may_be_left * before)
    explains = (saved > 2 * levels.PENALTY) & (np.array([len(b) for b in left]) <= few)
    rows = rows.copy()
    rows[two[explains]] = without[explains]
    for i, own in itertools.compress(zip(two.tolist(), left, strict=True), explains):
        bounds[i] = own
    return rows


def _judgement(pieces: list[_Piece], threshold: float) -> Judgement:
    changes: list[Change] = []
    for i, piece in enumerate(pieces):
        if i and len(piece.points) and len(pieces[i - 1].points):
            old, new = pieces[i - 1].points[-SETTLED:], piece.points[:SETTLED]
            height = median(new.tolist()) - median(old.tolist())
            changes.append(_change(piece, 0, height, "confirmed", kind="break"))
        changes.extend(_changes(piece))
    last, noise, detectable = pieces[-1] if pieces else None, None, None
    if last and last.found is not None:
        # what SETTLED points after a change would confirm, against the last level as known now
        known, noise = len(last.found.segments[-1].values), last.noise
        variance = max(last.found.variance, MEDIAN_VARIANCE * noise**2)
        error = math.sqrt(variance * (1 / known + 1 / SETTLED))
        detectable = relative(max(MIN_EFFECT, threshold * error))
    return Judgement(
        changes=tuple(sorted(changes, key=lambda change: change.index)),
        judged=any(piece.found is not None for piece in pieces),
        noise=noise,
        detectable=detectable,
    )


def _changes(piece: _Piece) -> Iterator[Change]:
    found = piece.found
    if found is None or piece.corrected is None:
        return
    for left, right in zip(found.segments, found.segments[1:], strict=False):
        height = right.level - left.level
        yield _change(piece, right.start, height, "confirmed", slack=right.slack)
    for episode in found.temporary:
        until = int(piece.places[episode.end])
        known = len(piece.points) - episode.end >= AROUND
        state: Certainty = "confirmed" if known else "provisional"
        yield _change(piece, episode.start, episode.height, state, kind="temporary", until=until)
    tail = tail_change(piece.corrected, found, piece.noise) if piece.last else None
    if tail is not None:
        yield _change(piece, *tail, "provisional")


def _change(piece: _Piece, point: int, height: float, state: Certainty, **more: Any) -> Change:
    index = int(piece.places[point])
    return Change(index=index, effect=relative(height), state=state, **more)


def relative(height: float) -> float:
    """A difference of logarithms as a relative change; a jump beyond all floats stays one."""
    return math.expm1(min(height, LARGEST_HEIGHT))
