"""Series with known changes: the families of `hostbench.core.noise`, by seed.

All numbers are on the logarithm of seconds, one value per commit (the median of a run), so that
0.05 is 5 %.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hostbench.core.noise import THROTTLE, Floats, noise, sessions, throttled
from hostbench.core.noise_family import FAMILIES

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
            steps = (_random_step(size, int(rng.integers(edge, num - edge)), rng),)
            yield with_steps(log, steps[i % 2 :])


def several(seed: int, num_series: int, num: int = 200) -> Iterator[Series]:
    """Five changes in each series, two of them the ends of an episode of 8 commits."""
    rng = np.random.default_rng(seed)
    for i in range(num_series):
        sigma = (0.005, 0.02)[i % 2]
        shift = rng.integers(-6, 7, 4)
        places = np.array([30, 65, 100, 108, 150]) + shift[[0, 1, 2, 2, 3]]
        sizes = rng.choice([0.05, 0.10, 0.20], 5)
        steps = [_random_step(s, int(p), rng) for s, p in zip(sizes, places, strict=True)]
        steps[3] = Step(index=steps[3].index, log_effect=-steps[2].log_effect)
        yield with_steps(noise("gauss", num, sigma, rng), tuple(steps))


def shared(
    seed: int, num_suites: int, num_series: int = 16, num: int = 200
) -> Iterator[tuple[list[Series], Step]]:
    """Suites of one machine, each with the step that its driver made.

    All series share sessions (1.5 %), throttling (+8 %) and a driver change (+4 %); noise is
    1 %. Two series of each suite have a change of their own, +5 %.
    """
    rng = np.random.default_rng(seed)
    for _ in range(num_suites):
        driver = Step(index=int(rng.integers(40, num - 40)), log_effect=np.log1p(0.04))
        common = sessions(num, 0.015, rng) + np.log1p(THROTTLE) * throttled(num, rng)
        common[driver.index :] += driver.log_effect
        rows = []
        for i in range(num_series):
            own = Step(index=int(rng.integers(20, num - 20)), log_effect=np.log1p(0.05))
            log = common + rng.normal(0.0, 0.01, num)
            rows.append(with_steps(log, (own,) if i < 2 else ()))
        yield rows, driver


def _random_step(size: float, index: int, rng: np.random.Generator) -> Step:
    return Step(index=index, log_effect=float(np.log1p(rng.choice([-1.0, 1.0]) * size)))
