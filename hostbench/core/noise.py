"""Families of noise, by seed: what run-to-run noise of benchmarks looks like.

All numbers are on the logarithm of seconds, so that 0.05 is 5 %. The families, each with a standard
deviation `sigma`:

gauss    independent normal noise
heavy    Student t with 3 degrees of freedom, of standard deviation sigma, and on 2 % of the points
         an outlier of +20 to +100 %
drift    normal noise, an AR(1) of coefficient 0.9, and a straight drift of 3 % over the series
bimodal  normal noise and a throttled state, +8 %, entered and left at random (a Markov chain)
session  normal noise and a bias that is drawn anew about every 15 commits
"""

import math

import numpy as np
import numpy.typing as npt

from hostbench.core.noise_family import FAMILIES

Floats = npt.NDArray[np.float64]

OUTLIER_SHARE, OUTLIER_LOW, OUTLIER_HIGH = 0.02, 0.20, 1.00
DRIFT, AR_COEFFICIENT, AR_SHARE = 0.03, 0.9, 0.3
THROTTLE, THROTTLE_ENTER, THROTTLE_LEAVE = 0.08, 0.08, 0.3
SESSION_COMMITS, SESSION_SHARE = 15, 0.65


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
        return white + _line(num, rng) + _ar1(num, AR_SHARE * sigma, rng)
    if family == "bimodal":
        return white + math.log1p(THROTTLE) * throttled(num, rng)
    if family == "session":
        return white + sessions(num, SESSION_SHARE * sigma, rng)
    raise ValueError(f"no noise family {family!r}; there are {', '.join(FAMILIES)}")


def _line(num: int, rng: np.random.Generator) -> Floats:
    return np.linspace(0.0, DRIFT * float(rng.choice([-1.0, 1.0])), num)


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
