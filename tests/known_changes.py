"""Series with known changes, and families of noise: what run-to-run noise of benchmarks looks like.

All numbers are on the logarithm of seconds, one value per commit (the median of a run), so that
0.05 is 5 %.

The families of noise, each with a standard deviation `sigma`:

gauss    independent normal noise
heavy    Student t with 3 degrees of freedom, of standard deviation sigma, and on 2 % of the points
         an outlier of +20 to +100 %
drift    normal noise, an AR(1) of coefficient 0.9, and a straight drift of 3 % over the series
bimodal  normal noise and a throttled state, +8 %, entered and left at random (a Markov chain)
session  normal noise and a bias that is drawn anew about every 15 commits
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from hostbench.core.arrays import Floats
from hostbench.judge.changepoint.change import Judgement
from hostbench.judge.two_sides import TwoSides, compare

FAMILIES = ("gauss", "heavy", "drift", "bimodal", "session")
OUTLIER_SHARE, OUTLIER_LOW, OUTLIER_HIGH = 0.02, 0.20, 1.00
DRIFT, AR_COEFFICIENT, AR_SHARE = 0.03, 0.9, 0.3
THROTTLE, THROTTLE_ENTER, THROTTLE_LEAVE = 0.08, 0.08, 0.3
SESSION_COMMITS, SESSION_SHARE = 15, 0.65
SIGMAS = (0.005, 0.02, 0.05)
STEPS = (0.02, 0.05, 0.10, 0.20)
BASE_S = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A known change: from point `index` on, the logarithm of seconds moves by `log_effect`."""

    index: int
    log_effect: float


@dataclass(frozen=True, slots=True)
class Series:
    """A simulated series. `seconds` has shape (num_points,)."""

    seconds: Floats
    steps: tuple[Step, ...]


def with_steps(noise_log: Floats, steps: tuple[Step, ...]) -> Series:
    """A series with this noise and these changes."""
    log = noise_log.copy()
    for step in steps:
        log[step.index :] += step.log_effect
    return Series(BASE_S * np.exp(log), steps)


def synthetic(seed: int, per_cell: int, num: int = 200, edge: int = 20) -> Iterator[Series]:
    """The reference's suite: every family, noise and step, `per_cell` times with and without it.

    A step is up or down, anywhere but within `edge` points of an end.
    """
    rng = np.random.default_rng(seed)
    for family, sigma, size in itertools.product(FAMILIES, SIGMAS, STEPS):
        for i in range(2 * per_cell):
            log = noise(family, num, sigma, rng)
            index = int(rng.integers(edge, num - edge))
            step = Step(index=index, log_effect=float(np.log1p(rng.choice([-1.0, 1.0]) * size)))
            yield with_steps(log, (step,)[i % 2 :])


def shared(seed: int, num_suites: int) -> Iterator[tuple[list[Series], Step]]:
    """Suites of one machine, each of 16 series with the step that its driver made.

    All series share sessions (1.5 %), throttling (+8 %) and a driver change (+4 %); noise is
    1 %. Two series of each suite have a change of their own, +5 %.
    """
    rng, num = np.random.default_rng(seed), 200
    for _ in range(num_suites):
        driver = Step(index=int(rng.integers(40, num - 40)), log_effect=np.log1p(0.04))
        common = sessions(num, 0.015, rng) + np.log1p(THROTTLE) * throttled(num, rng)
        common[driver.index :] += driver.log_effect
        rows = []
        for i in range(16):
            own = Step(index=int(rng.integers(20, num - 20)), log_effect=np.log1p(0.05))
            log = common + rng.normal(0.0, 0.01, num)
            rows.append(with_steps(log, (own,) if i < 2 else ()))
        yield rows, driver


def as_text(judgement: Judgement) -> str:
    """To two digits."""
    texts = [
        f"{one.index}{f' to {one.until}' if one.until else ''} {one.kind} {one.state} "
        f"{one.effect:+.2f}"
        for one in judgement.changes
    ]
    finest = judgement.detectable
    seen = "not judged" if finest is None else f"{finest:.2g} would be seen"
    return f"{'; '.join(texts) or 'no change'} ({seen})"


def drifting(
    rng: np.random.Generator,
    num_before: int,
    drift: float,
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats],
) -> Floats:
    """Runs of a machine made one after the other, shape (270, num_before + 1): logarithms of the
    medians of 10 launches that differ by 1 %. From run to run each series differs by a `drift` of
    its own, log-normal around that with 0.5; `draw` gives it in units of its standard deviation.
    In the newest run the first 27 are slower by 10 %."""
    scale = drift * np.exp(rng.normal(0.0, 0.5, (270, 1)))
    shape = (270, num_before + 1)
    logs = scale * draw(rng, shape) + rng.normal(0.0, 0.01 * math.sqrt(math.pi / 2 / 10), shape)
    logs[:27, -1] += math.log(1.1)
    return logs


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    return rng.normal(0.0, 1.0, shape)


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Student's t with 4 degrees of freedom, of standard deviation 1."""
    return rng.standard_t(4, shape) / math.sqrt(2)


def verdicts_of_newest(logs: Floats) -> list[str]:
    """What the rule says of the newest run of each row against those before."""
    seconds = BASE_S * np.exp(logs)
    table = {
        row: TwoSides(second=own[-1:].tolist(), before=own[:-1].tolist())
        for row, own in enumerate(seconds)
    }
    return [one.verdict for one in compare(table).values()]


# Noise


def noise(family: str, num: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Noise of one family on the logarithm, shape (num,)."""
    white = rng.normal(0.0, sigma, num)
    if family == "gauss":
        return white
    if family == "heavy":
        tails = rng.standard_t(3, num) * sigma / np.sqrt(3.0)
        outlier = np.log1p(rng.uniform(OUTLIER_LOW, OUTLIER_HIGH, num))
        far: Floats = np.where(rng.random(num) < OUTLIER_SHARE, tails + outlier, tails)
        return far
    if family == "drift":
        line = np.linspace(0.0, DRIFT * float(rng.choice([-1.0, 1.0])), num)
        return white + line + _ar1(num, AR_SHARE * sigma, rng)
    if family == "bimodal":
        return white + math.log1p(THROTTLE) * throttled(num, rng)
    if family == "session":
        return white + sessions(num, SESSION_SHARE * sigma, rng)
    raise ValueError(f"no noise family {family!r}; there are {', '.join(FAMILIES)}")


def _ar1(num: int, sigma: float, rng: np.random.Generator) -> Floats:
    """A stationary AR(1) of standard deviation `sigma`."""
    shocks = rng.normal(0.0, sigma * np.sqrt(1 - AR_COEFFICIENT**2), num)
    values = np.empty(num)
    last = rng.normal(0.0, sigma)
    for i in range(num):
        last = AR_COEFFICIENT * last + shocks[i]
        values[i] = last
    return values


def throttled(num: int, rng: np.random.Generator) -> Floats:
    """1.0 where a two-state Markov chain is in its second state, shape (num,)."""
    draws = rng.random(num)
    states = np.zeros(num)
    state = False
    for i in range(num):
        state = draws[i] >= THROTTLE_LEAVE if state else draws[i] < THROTTLE_ENTER
        states[i] = state
    return states


def sessions(num: int, sigma: float, rng: np.random.Generator) -> Floats:
    """A bias that is constant within a session; sessions end at random, about every 15 commits."""
    number = np.cumsum(rng.random(num) < 1.0 / SESSION_COMMITS)
    return rng.normal(0.0, sigma, int(number[-1]) + 1)[number]
