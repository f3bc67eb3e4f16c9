"""The first stage of the detector: piecewise constant levels under a bounded loss, in batches.

Of all paths through a grid of levels the cheapest is found exactly (Viterbi): every point costs
min(u, CAP)**2 / 2, where u is its distance from the level in units of the series' noise, and every
change of level costs a penalty. The bounded loss is what keeps outliers from becoming changes
(Fearnhead and Rigaill, JASA 2019, "biweight loss"); the grid is what makes it quick: the
cost is linear in the number of points, and numpy works on all series of a batch at once.

Rows are series, already on the logarithm; a row is padded with NaN at its end.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hostbench.core.arrays import Floats

Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

CAP = 3.0
PENALTY = 9.0
"""What a change of level costs, in units of squared noise over two."""
SWITCH, STAY = 2.0, 0.2
"""What entering or leaving a second state costs, and each point in it."""
NUM_LEVELS = 32
SMOOTHING = 5
MIN_NOISE = 1e-3
"""0.1 %: under it a series counts as exactly constant, and the clock's resolution as noise."""
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    """The cheapest path of every row."""

    level: Integers
    """Number of the level at each point, shape (num_series, num_points)."""
    away: Bools
    """Where the row is in its second state, `gap` above the level; all False without a gap."""
    cost: Floats
    """What the path costs, shape (num_series,)."""


def noise_of(rows: Floats) -> Floats:
    """Standard deviation of each row's noise from the median of its absolute differences."""
    steps = np.abs(np.diff(rows, axis=1, append=np.nan))
    steps[np.isnan(steps).all(axis=1), :1] = 0.0
    sigma = np.nanmedian(steps, axis=1) * (MAD_TO_SIGMA / np.sqrt(2.0))
    at_least: Floats = np.maximum(sigma, MIN_NOISE)
    return at_least


def grid_of(rows: Floats) -> Floats:
    """Candidate levels of each row: quantiles of its running medians, shape (num_series, 32)."""
    half = SMOOTHING // 2
    padded = np.pad(rows, ((0, 0), (half, half)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, SMOOTHING, axis=1)
    smooth = np.sort(windows, axis=2)[:, :, half]
    smooth.sort(axis=1)  # NaN last
    last = np.maximum((~np.isnan(smooth)).sum(axis=1) - 1, 0)
    places = np.rint(np.linspace(0.0, 1.0, NUM_LEVELS)[None, :] * last[:, None]).astype(np.int64)
    return np.nan_to_num(np.take_along_axis(smooth, places, axis=1))


def cheapest(rows: Floats, sigma: Floats, gap: Floats | None = None) -> Path:
    """The cheapest path of each row; with `gap`, through two states per level.

    The second state lies `gap` above its level (below, where negative). SWITCH and STAY make it
    explain recurrent short visits but not a lasting change.
    """
    points, grid = rows / sigma[:, None], grid_of(rows) / sigma[:, None]
    if gap is not None:
        grid = np.concatenate([grid, grid + (gap / sigma)[:, None]], axis=1)
    valid = ~np.isnan(points)
    centred = np.where(valid, points, 0.0).astype(np.float32)
    half = grid.shape[1] // 2 if gap is not None else grid.shape[1]
    moves, origin, total = _forward(centred, valid, grid.astype(np.float32), half)
    states = _backward(moves, origin, total.argmin(axis=1), half)
    return Path(level=states % half, away=states >= half, cost=total.min(axis=1))


def _forward(
    points: npt.NDArray[np.float32], valid: Bools, grid: npt.NDArray[np.float32], half: int
) -> tuple[npt.NDArray[np.int8], Integers, Floats]:
    """Per point: how each state was reached (0 stayed, 1 switched, 2 changed level), and from where
    a change of level came. The last is the cost of each final state."""
    num_series, num_points = points.shape
    num_states = grid.shape[1]
    moves = np.zeros((num_points, num_series, num_states), np.int8)
    origin = np.zeros((num_points, num_series), np.int64)
    total = np.zeros((num_series, num_states), np.float32)
    for t in range(num_points):
        if t:
            best = total.argmin(axis=1)
            origin[t] = best
            changed = np.take_along_axis(total, best[:, None], axis=1) + np.float32(PENALTY)
            if half < num_states:
                other = np.roll(total, half, axis=1) + np.float32(SWITCH)
                np.copyto(moves[t], 1, where=other < total)
                np.minimum(total, other, out=total)
            np.copyto(moves[t], 2, where=changed < total)
            np.minimum(total, changed, out=total)
        cost = grid - points[:, t, None]
        np.clip(cost, -CAP, CAP, out=cost)
        cost *= cost
        cost *= 0.5
        cost[:, half:] += np.float32(STAY)
        cost *= valid[:, t, None]
        total += cost
    return moves, origin, total.astype(np.float64)


def _backward(moves: npt.NDArray[np.int8], origin: Integers, end: Integers, half: int) -> Integers:
    num_points, num_series, num_states = moves.shape
    rows = np.arange(num_series)
    states = np.empty((num_series, num_points), np.int64)
    state = end
    for t in range(num_points - 1, -1, -1):
        states[:, t] = state
        move = moves[t, rows, state]
        switched = np.where(move == 1, (state + half) % num_states, state)
        state = np.where(move == 2, origin[t], switched)
    return states
