"""What the series of one machine do together: the common mode, told from each series' own changes.

Rows are series of one machine on the logarithm, columns the same commits; NaN is missing.
"""

import itertools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hostbench.judge.change import Judgement, Options
from hostbench.judge.detector import judge
from hostbench.judge.evidence import MEDIAN_VARIANCE
from hostbench.judge.levels import Floats, noise_of

SIGNAL = 2.5
"""Standard errors under which a point of the common mode counts as chance."""
SMALLEST_SIGNAL = 0.003
MOST_GAIN = 2.0
ROUNDS = 2
WINDOW = 8
PRIOR = 25.0
"""Squared noises of movement that the mode must make before a series' own gain is believed."""
MACHINE_THRESHOLD = 0.7
AROUND_STEP = 8
"""Points on each side of a step of the mode that tell whether a series had less of it."""
LESS = 4.0
"""Standard errors by which it must lack some of the step."""
OPPOSITE = 0.25
"""Share of the step that it may go the other way; more is a change of its own."""
PLAIN_SHARE = 0.15
"""Of points beyond chance, above which the machine is taken to wander all the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine's series, judged."""

    own: tuple[Judgement, ...]
    """Of each series, with the common mode taken out."""
    common: Judgement | None
    """Of the machine itself; None with too few series to tell."""


def judge_machine(
    series: Sequence[Floats],
    options: Options,
    breaks: Sequence[Sequence[int]] | None = None,
) -> Machine:
    """Judge the series of one machine: its own events, and each series' without them.

    Series are matched by place: the first points of all are the same commit. With fewer than
    `min_series_of_machine` series nothing is taken out, for then one series' own change would be
    taken for the machine's; at a place where fewer have a point the machine is as it was before.
    """
    if len(series) < options.min_series_of_machine:
        return Machine(own=tuple(judge(series, options, breaks)), common=None)
    rows, owners = _rows(series, breaks)
    few = np.isfinite(rows).sum(axis=0) < options.min_series_of_machine
    told = np.where(few, np.nan, rows)
    shared, mode = common_mode(told, options)
    if not np.any(mode):
        return Machine(own=tuple(judge(series, options, breaks)), common=_nothing())
    shared = shared[:, _last_told(few)]
    own = [np.array(logs) for logs in series]
    for row, owner, taken in zip(rows, owners, shared, strict=True):
        places = np.flatnonzero(~np.isnan(row))
        own[owner][places] -= taken[places]
    (common,) = judge([_seen(told, mode)], of_machine(options))
    return Machine(own=tuple(judge(own, options, breaks)), common=common)


def _rows(
    series: Sequence[Floats], breaks: Sequence[Sequence[int]] | None
) -> tuple[Floats, list[int]]:
    """A row for each stretch between breaks, and whose it is: here too the levels on the two sides
    of a break are not held against each other."""
    length, rows, owners = max(len(s) for s in series), [], []
    for owner, logs in enumerate(series):
        own = breaks[owner] if breaks else ()
        edges = sorted({0, len(logs), *(b for b in own if 0 < b < len(logs))})
        for start, end in itertools.pairwise(edges):
            row = np.full(length, np.nan)
            row[start:end] = logs[start:end]
            rows.append(row)
            owners.append(owner)
    return np.array(rows), owners


def _last_told(few: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """For each place the last one, up to it, where enough series have a point; else the first."""
    places = np.where(few, int(np.argmin(few)), np.arange(len(few)))
    latest: npt.NDArray[np.int64] = np.maximum.accumulate(places)
    return latest


def of_machine(options: Options) -> Options:
    """The mode of many series has little noise of its own: what it does, the machine did.

    Sessions may change its level as often as they like beside a second state.
    """
    threshold = MACHINE_THRESHOLD * options.threshold
    return replace(options, threshold=threshold, left_by_second_state=1.0)


def common_mode(rows: Floats, options: Options) -> tuple[Floats, Floats]:
    """What each series shares with the others, shape of `rows`, and the machine's mode itself.

    The mode is the median over the series of their distance from their own level; where it is less
    than chance would make of that many series it is zero, so that nothing is taken out of a quiet
    machine. A series' own gain is fitted on differences from point to point, without the steps of
    the mode: a change of the series' own in the same night would pass for a larger gain. Of a step
    it has at most the whole. The mode held against a series is that of the other series.
    """
    noise = noise_of(_packed(rows))
    centred = rows - _median(rows, axis=1)[:, None]
    shared = np.zeros_like(rows)
    for _ in range(ROUNDS):
        centred = centred - _median(centred - shared, axis=1)[:, None]
        num = np.isfinite(centred).sum(axis=0)
        together = _significant(_median(centred, axis=0)[None], noise, num)[0]
        others = _seen(rows, _significant(_median_of_others(centred), noise, num - 1))
        bounds = _bounds(_seen(rows, together), options)
        levels = _levels(others, bounds)
        gains = _gains(centred - _levels(centred, bounds), others - levels, noise)
        shared = gains[:, None] * (others - levels) + _steps(
            centred - others, levels, bounds, noise
        )
    return shared, together


def _bounds(mode: Floats, options: Options) -> list[int]:
    """0, the places of the mode's steps, and the end."""
    (found,) = judge([mode], of_machine(options))
    steps = [one.index for one in found.changes if one.kind == "step" and one.state == "confirmed"]
    return [0, *steps, len(mode)]


def _levels(rows: Floats, bounds: Sequence[int]) -> Floats:
    """Each row's median between its bounds, at every place."""
    levels = np.zeros_like(rows)
    for start, end in itertools.pairwise(bounds):
        levels[:, start:end] = _median(rows[:, start:end], axis=1)[:, None]
    return levels


def _steps(rest: Floats, levels: Floats, bounds: Sequence[int], noise: Floats) -> Floats:
    """What each row has of the mode's steps: the whole, unless it plainly moved less.

    `rest` is what the mode leaves of the rows, `levels` the mode's own between its `bounds`.
    """
    taken = np.zeros_like(rest)
    for before, place, after in zip(bounds, bounds[1:], bounds[2:], strict=False):
        left = rest[:, max(before, place - AROUND_STEP) : place]
        right = rest[:, place : min(after, place + AROUND_STEP)]
        step = levels[:, place] - levels[:, place - 1]
        lacking = _median(right, axis=1) - _median(left, axis=1)
        num = [np.maximum(np.isfinite(side).sum(axis=1), 1) for side in (left, right)]
        error = noise * np.sqrt(MEDIAN_VARIANCE * (1 / num[0] + 1 / num[1]))
        share = 1 + np.divide(lacking, step, out=np.zeros_like(step), where=step != 0)
        less = (np.abs(lacking) > LESS * error) & (share > -OPPOSITE) & (share < 1.0)
        taken[:, place:] += (np.where(less, np.clip(share, 0.0, 1.0), 1.0) * step)[:, None]
    return taken


def _packed(rows: Floats) -> Floats:
    """Each row's points at its start: neighbours are the next point, not the next column."""
    order = np.argsort(np.isnan(rows), axis=1, kind="stable")
    packed: Floats = np.take_along_axis(rows, order, axis=1)
    return packed


def _median(values: Floats, axis: int) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any point
        found: Floats = np.nanmedian(values, axis=axis)
    return np.nan_to_num(found)


def _median_of_others(rows: Floats) -> Floats:
    """For each row the median over all other rows, column by column: by rank, without a loop."""
    num_valid = np.isfinite(rows).sum(axis=0)
    order = np.argsort(rows, axis=0, kind="stable")  # NaN last
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(len(rows))[:, None], axis=0)
    ordered = np.take_along_axis(rows, order, axis=0)
    left = np.where(np.isfinite(rows), num_valid - 1, num_valid)
    picks = []
    for middle in ((left - 1) // 2, left // 2):
        place = np.where(np.isfinite(rows) & (middle >= ranks), middle + 1, middle)
        picks.append(np.take_along_axis(ordered, np.clip(place, 0, len(rows) - 1), axis=0))
    # Of two middle values the one nearer to zero: half of the others do not make a machine.
    nearer = np.where(np.abs(picks[0]) < np.abs(picks[1]), picks[0], picks[1])
    return np.where(left > 0, np.nan_to_num(nearer), 0.0)


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


def _gains(rows: Floats, mode: Floats, noise: Floats) -> Floats:
    """Each series' answer to the mode, drawn to 1 where the mode says little.

    Fitted on the differences between the means of neighbouring WINDOWs of points, which a change
    of the series' own at another place hardly touches.
    """
    present = np.isfinite(rows)
    steps = _moves(np.where(present, rows, 0.0), present)
    moves = _moves(np.where(present, mode, 0.0), present)
    limit = 4 * noise[:, None] + np.abs(moves) * MOST_GAIN
    bounded = np.clip(steps, -limit, limit)
    prior = PRIOR * noise**2
    gains = ((bounded * moves).sum(axis=1) + prior) / ((moves**2).sum(axis=1) + prior)
    within: Floats = np.clip(gains, 0.0, MOST_GAIN)
    return within


def _moves(values: Floats, present: npt.NDArray[np.bool_]) -> Floats:
    """Mean of the next WINDOW points less that of the last; 0 where half of either is missing."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    counts = np.cumsum(np.pad(present.astype(float), ((0, 0), (1, 0))), axis=1)
    total, number = sums[:, WINDOW:] - sums[:, :-WINDOW], counts[:, WINDOW:] - counts[:, :-WINDOW]
    means = total / np.maximum(number, 1.0)
    enough = number >= WINDOW / 2
    both = enough[:, WINDOW:] & enough[:, :-WINDOW]
    return np.where(both, means[:, WINDOW:] - means[:, :-WINDOW], 0.0)


def _seen(rows: Floats, mode: Floats) -> Floats:
    """The mode where at least one series has a point, NaN elsewhere."""
    return np.where(np.isfinite(rows).any(axis=0), mode, np.nan)


def _nothing() -> Judgement:
    """Of a mode that never moves: there is nothing to judge."""
    return Judgement(changes=(), judged=False, noise=None, detectable=None)
