"""The series of one machine: what most of them do together, its common mode, is the machine's own
event, told from each one's changes.

Rows are series on the logarithm, columns the same commits; NaN is missing.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostbench.core.arrays import Floats
from hostbench.judge.changepoint.change import OF_A_SERIES, Judgement, Strictness
from hostbench.judge.changepoint.detector import judge, stretches
from hostbench.judge.changepoint.evidence import MEDIAN_VARIANCE
from hostbench.judge.changepoint.levels import MIN_NOISE, Bools, noise_of

MIN_SERIES = 6
"""With fewer series of a machine its common mode is not told from their own changes."""
SIGNAL = 2.5
"""Standard errors under which a point of the common mode counts as chance."""
SMALLEST_SIGNAL = 0.003
MOST_GAIN = 2.0
ROUNDS = 2
WINDOW = 8
PRIOR = 25.0
"""Squared noises of movement that the mode must make before a series' own gain is believed."""
OF_THE_MODE = Strictness(threshold=0.7 * OF_A_SERIES.threshold, left_by_second_state=1.0)
"""The mode of many series has little noise of its own: what it does, the machine did. Sessions may
change its level as often as they like beside a second state."""
AROUND_STEP = 8
"""Points on each side of a step of the mode that tell whether a series had less of it."""
LESS = 4.0
"""Standard errors by which it must lack some of the step."""
KNOWN, FOLLOWS = 0.8, 0.75
"""Share of its gain that a series tells itself, and the gain, from which it follows the machine:
what it lacks of a step is then a change of its own."""
NOTHING = 2.0
"""Standard errors within which such a series did not take part in a step."""
OPPOSITE = 0.25
"""Share of the step that it may go the other way; more is a change of its own."""
NEAR = 3.0
"""Noises from the middle of the densest half within which a series counts as one of most."""
ALIKE = 1.2
"""Times the shortest half's width up to which another, nearer to zero, is taken for the shortest:
half of the series make no machine."""
LOOSE = 4.0
"""Noises of a usual series beyond which the shortest half of them is no place."""
PLAIN_SHARE = 0.15
"""Of points beyond chance, above which the machine is taken to wander all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedMachine:
    """One machine's series, judged."""

    own: tuple[Judgement, ...]
    """Of each series, with the common mode taken out."""
    common: Judgement | None
    """Of the machine itself; None with too few series to tell."""


def judge_machine(
    series: Sequence[Floats], resets: Sequence[Sequence[int]] | None = None
) -> JudgedMachine:
    """Judge the series of one machine: its own events, and each series' without them.

    Series are matched by place: the first points of all are the same commit. With fewer than
    MIN_SERIES series nothing is taken out, for then one series' own change would be taken for the
    machine's; at a place where fewer have a point the machine is as it was before.
    """
    if len(series) < MIN_SERIES or not any(len(one) for one in series):
        return JudgedMachine(own=tuple(judge(series, resets)), common=None)
    rows, owners = _rows(series, resets)
    few = np.isfinite(rows).sum(axis=0) < MIN_SERIES
    told = np.where(few, np.nan, rows)
    shared, mode = common_mode(told)
    if not np.any(mode):
        return JudgedMachine(own=tuple(judge(series, resets)), common=Judgement())  # it never moves
    # what few series have a point of is as the last place was where enough have one, else the first
    places = np.where(few, int(np.argmin(few)), np.arange(len(few)))
    shared = shared[:, np.maximum.accumulate(places)]
    own = [np.array(logs) for logs in series]
    for row, owner, taken in zip(rows, owners, shared, strict=True):
        places = np.flatnonzero(~np.isnan(row))
        own[owner][places] -= taken[places]
    (common,) = judge([seen(told, mode)], strictness=OF_THE_MODE)
    return JudgedMachine(own=tuple(judge(own, resets)), common=common)


def _rows(
    series: Sequence[Floats], resets: Sequence[Sequence[int]] | None
) -> tuple[Floats, list[int]]:
    """A row for each stretch between baseline resets, and whose it is: here too the levels on the
    two sides of one are not compared."""
    length, rows, owners = max(len(s) for s in series), [], []
    for owner, logs in enumerate(series):
        for start, end in stretches(len(logs), resets[owner] if resets else ()):
            row = np.full(length, np.nan)
            row[start:end] = logs[start:end]
            rows.append(row)
            owners.append(owner)
    return np.array(rows), owners


def common_mode(rows: Floats) -> tuple[Floats, Floats]:
    """What each series shares with the others, shape of `rows`, and the machine's mode itself.

    The mode is where most of the series are (`_place_of_most`), each counted from its own level;
    where that is less than chance would make of that many series it is zero, so that nothing is
    taken out of a quiet machine. A series' own gain is fitted on differences from point to point,
    without the steps of the mode: a change of the series' own in the same night would pass for a
    larger gain. Of a step it has at most the whole. The mode held against a series is that of the
    other series.
    """
    # each row's points at its start: neighbours are the next point, not the next column
    order = np.argsort(np.isnan(rows), axis=1, kind="stable")
    noise = noise_of(np.take_along_axis(rows, order, axis=1))
    centred = rows - _median(rows, axis=1)[:, None]
    shared = np.zeros_like(rows)
    for _ in range(ROUNDS):
        centred = centred - _median(centred - shared, axis=1)[:, None]
        num = np.isfinite(centred).sum(axis=0)
        together, others = _place_of_most(centred, noise)
        together = _significant(together[None], noise, num)[0]
        others = seen(rows, _significant(others, noise, num - 1))
        (judged,) = judge([seen(rows, together)], strictness=OF_THE_MODE)
        steps = [c for c in judged.changes if c.kind == "step" and c.state == "confirmed"]
        bounds = [0, *(step.index for step in steps), len(together)]
        bounds = _believed(centred, together, others, bounds, noise)
        levels = _levels(others, bounds)
        gains, known = _gains(centred - _levels(centred, bounds), others - levels, noise)
        follows = (known > KNOWN) & (gains > FOLLOWS)
        of_steps = _steps(centred - others, levels, bounds, noise, follows)
        shared = gains[:, None] * (others - levels) + of_steps
    return shared, together


def _believed(
    rows: Floats, together: Floats, others: Floats, bounds: list[int], noise: Floats
) -> list[int]:
    """Correct the mode's steps, in place, to what most series make there; the bounds that stay.

    Where a third of the series change by themselves, where most are at each point is moved a
    little towards them, for the noise of one point is large beside the change. Between the medians
    of the points around the step most series tell plainly how much they moved.
    """
    stay = [0]
    for before, place, after in zip(bounds, bounds[1:], bounds[2:], strict=False):
        heights, error = _heights(rows - others, before, place, after, noise)
        most, without = _place_of_most(heights[:, None], error)
        step = _level(together[place:after]) - _level(together[before:place])
        chance = SIGNAL * float(np.median(error)) * math.sqrt(MEDIAN_VARIANCE / len(rows))
        if abs(most[0]) < chance:
            stay.append(place)
            continue
        if abs(step + most[0]) < max(chance, SMALLEST_SIGNAL):
            most[0], without[:, 0] = -step, -step
        else:
            stay.append(place)
        together[place:] += most[0]
        others[:, place:] += without
    return [*stay, bounds[-1]]


def _level(mode: Floats) -> float:
    return float(_median(mode[None], axis=1)[0])


def _levels(rows: Floats, bounds: Sequence[int]) -> Floats:
    """Each row's median between its bounds, at every place."""
    levels = np.zeros_like(rows)
    for start, end in itertools.pairwise(bounds):
        levels[:, start:end] = _median(rows[:, start:end], axis=1)[:, None]
    return levels


def _steps(
    rest: Floats, levels: Floats, bounds: Sequence[int], noise: Floats, follows: Bools
) -> Floats:
    """What each row has of the mode's steps: the whole, unless it plainly moved less. One that
    follows the machine elsewhere has the whole or nothing.

    `rest` is what the mode leaves of the rows, `levels` the mode's own between its `bounds`.
    """
    taken = np.zeros_like(rest)
    for before, place, after in zip(bounds, bounds[1:], bounds[2:], strict=False):
        step = levels[:, place] - levels[:, place - 1]
        lacking, error = _heights(rest, before, place, after, noise)
        share = 1 + np.divide(lacking, step, out=np.zeros_like(step), where=step != 0)
        less = (np.abs(lacking) > LESS * error) & (share > -OPPOSITE) & (share < 1.0)
        less &= ~follows | (np.abs(share * step) < NOTHING * error)
        taken[:, place:] += (np.where(less, np.clip(share, 0.0, 1.0), 1.0) * step)[:, None]
    return taken


def _heights(
    rows: Floats, before: int, place: int, after: int, noise: Floats
) -> tuple[Floats, Floats]:
    """How far each row moves at a place, by the medians of the points around it, and its standard
    error; shape (num_series,). NaN for a row without a point on one side."""
    left = rows[:, max(before, place - AROUND_STEP) : place]
    right = rows[:, place : min(after, place + AROUND_STEP)]
    num = [np.maximum(np.isfinite(side).sum(axis=1), 1) for side in (left, right)]
    error = noise * np.sqrt(MEDIAN_VARIANCE * (1 / num[0] + 1 / num[1]))
    heights = _median(right, axis=1) - _median(left, axis=1)
    told = np.isfinite(left).any(axis=1) & np.isfinite(right).any(axis=1)
    return np.where(told, heights, np.nan), error


def _median(values: Floats, axis: int) -> Floats:
    """The median of what is finite along an axis; 0 where nothing is."""
    ordered = np.sort(values, axis=axis)  # NaN last
    num = np.isfinite(values).sum(axis=axis, keepdims=True)
    middle = [
        np.take_along_axis(ordered, np.maximum(place, 0), axis=axis)
        for place in ((num - 1) // 2, num // 2)
    ]
    found: Floats = np.where(num > 0, 0.5 * (middle[0] + middle[1]), 0.0).squeeze(axis)
    return found


def _place_of_most(rows: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Where most rows are, column by column, and for each row where most of the others are.

    That is a place only where half of the rows are close together. Where they are not, as when one
    commit moves several groups of series each by its own amount, the place of a third of them
    counts or their median, whichever is nearer to zero: what they do not agree on is theirs.
    """
    found, others, width = _densest(rows, noise, 2)
    noisy = noise[noise > MIN_NOISE]
    loose = width > LOOSE * (float(np.median(noisy)) if len(noisy) else MIN_NOISE)
    if loose.any():
        third, without, _ = _densest(rows[:, loose], noise, 3)
        middle = _median(rows[:, loose], axis=0)
        is_nearer = np.abs(middle) < np.abs(third)
        found[loose] = np.where(is_nearer, middle, third)
        others[:, loose] = np.where(is_nearer, middle, without)
    return found, others


def _densest(rows: Floats, noise: Floats, part: int) -> tuple[Floats, Floats, Floats]:
    """The mean of the rows near the middle of the shortest half, or third, of each column; the same
    without each row; how long that half is (Rousseeuw, JASA 1984).

    A median would be moved by the noise of a whole row where two in five rows changed by
    themselves.
    """
    num = np.isfinite(rows).sum(axis=0)
    ordered = np.sort(rows, axis=0)  # NaN last
    starts = np.arange(len(rows) - len(rows) // part + 1)[:, None]
    ends = starts + (num + part - 1) // part - 1
    inside = ends < num
    lowest = ordered[np.minimum(starts[:, 0], len(rows) - 1)]
    highest = np.take_along_axis(ordered, np.where(inside, ends, 0), axis=0)
    middles, widths = 0.5 * (lowest + highest), highest - lowest
    widths = np.where(inside, widths, np.inf)
    short = widths <= ALIKE * widths.min(axis=0)
    best = np.where(short, np.abs(middles), np.inf).argmin(axis=0)[None]
    centre, width = (np.take_along_axis(values, best, axis=0) for values in (middles, widths))
    near = np.abs(rows - centre) <= np.maximum(NEAR * noise[:, None], width)
    kept = np.where(near, rows, 0.0)
    total, count = kept.sum(axis=0), near.sum(axis=0)
    others = (total - kept) / np.maximum(count - near, 1)
    return total / np.maximum(count, 1), others, np.where(num > 0, width[0], 0.0)


def _significant(mode: Floats, noise: Floats, num_series: npt.NDArray[np.int64]) -> Floats:
    """The mode, shrunk towards zero by how much chance alone would show (James and Stein)."""
    chance = np.sqrt(MEDIAN_VARIANCE / np.maximum(num_series, 1)) * float(np.median(noise))
    limit = np.maximum(SIGNAL * chance, SMALLEST_SIGNAL)
    with np.errstate(divide="ignore"):
        keep = np.maximum(0.0, 1.0 - (limit / np.abs(mode)) ** 2)
    kept = np.where(mode == 0.0, 0.0, mode * keep)
    # Where the machine wanders plainly all of it is taken, not the part above chance alone.
    wide = (kept != 0.0).mean(axis=1) > PLAIN_SHARE
    return np.where(wide[:, None], mode, kept)


def _gains(rows: Floats, mode: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Each series' answer to the mode, drawn to 1 where the mode says little, and how much of it
    the series tells itself, 0 to 1.

    Fitted on the differences between the means of neighbouring WINDOWs of points, which a change
    of the series' own at another place hardly touches.
    """
    present = np.isfinite(rows)
    steps = _moves(np.where(present, rows, 0.0), present)
    moves = _moves(np.where(present, mode, 0.0), present)
    limit = 4 * noise[:, None] + np.abs(moves) * MOST_GAIN
    bounded = np.clip(steps, -limit, limit)
    prior = PRIOR * noise**2
    told = (moves**2).sum(axis=1)
    gains = ((bounded * moves).sum(axis=1) + prior) / (told + prior)
    return np.clip(gains, 0.0, MOST_GAIN), told / (told + prior)


def _moves(values: Floats, present: Bools) -> Floats:
    """Mean of the next WINDOW points less that of the last; 0 where half of either is missing."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    counts = np.cumsum(np.pad(present.astype(float), ((0, 0), (1, 0))), axis=1)
    total, number = sums[:, WINDOW:] - sums[:, :-WINDOW], counts[:, WINDOW:] - counts[:, :-WINDOW]
    means = total / np.maximum(number, 1.0)
    enough = number >= WINDOW / 2
    both = enough[:, WINDOW:] & enough[:, :-WINDOW]
    return np.where(both, means[:, WINDOW:] - means[:, :-WINDOW], 0.0)


def seen(rows: Floats, mode: Floats) -> Floats:
    """The mode where at least one series has a point, NaN elsewhere."""
    return np.where(np.isfinite(rows).any(axis=0), mode, np.nan)
