"""Student's t whose variances are shrunk towards each other: for many series with few runs each.

Five runs tell the variance of a series badly. The other series of the machine tell what variances
it has: log-normal around s0, of which d0 degrees of freedom may be taken (Smyth, Statistical
Applications in Genetics and Molecular Biology 2004, section 6.2; limma's `fitFDist` and `eBayes`).
Pure functions of arrays.
"""

from functools import lru_cache

import numpy as np

from hostbench.core.arrays import Floats

MOST_DEGREES = 1000.0
"""More make no difference to Student's distribution that shows, and cost precision."""
_NODES = 128
_gauss_legendre = lru_cache(np.polynomial.legendre.leggauss)


def shrunk(variances: Floats, degrees: Floats) -> tuple[Floats, Floats]:
    """Each series' variance, drawn towards that of the others as far as they are alike, and the
    degrees of freedom that it has then; shape (num_series,). `variances` are above 0."""
    if len(variances) < 2:
        return variances, degrees
    logs = np.log(variances) - _digamma(degrees / 2) + np.log(degrees / 2)
    middle = logs.mean()
    between = logs.var(ddof=1) - _trigamma(degrees / 2).mean()
    if between > 0:
        prior = 2 * _inverse_trigamma(between)
        center = np.exp(middle + _digamma(np.array(prior / 2)) - np.log(prior / 2))
    else:  # they differ by no more than chance would have it: one variance for all
        prior, center = degrees.sum(), np.exp(middle)
    total = np.minimum(degrees + prior, min(float(degrees.sum()), MOST_DEGREES))
    return (prior * center + degrees * variances) / (prior + degrees), total


def p_value(t: Floats, degrees: Floats) -> Floats:
    """Two-sided, of Student's distribution: with t = sqrt(degrees) tan(angle) its density is a
    power of the cosine, which is integrated from there on."""
    beyond = _tail(np.arctan(np.abs(t) / np.sqrt(degrees)), degrees)
    share: Floats = np.clip(beyond / _tail(np.zeros_like(degrees), degrees), 0.0, 1.0)
    return share


def quantile(alpha: float, degrees: Floats) -> Floats:
    """What Student's |t| exceeds with this probability, by bisection."""
    known, index = np.unique(degrees, return_inverse=True)
    low, high = np.zeros_like(known), np.full_like(known, 1000.0)
    for _ in range(36):
        middle = (low + high) / 2
        beyond = p_value(middle, known) > alpha
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    result: Floats = ((low + high) / 2)[index]
    return result


def _tail(angle: Floats, degrees: Floats) -> Floats:
    """The integral of cos(x) ** (degrees - 1) from the angle to a right one."""
    nodes, weights = _gauss_legendre(_NODES)  # where to ask between -1 and 1, what each weighs
    half = (np.pi / 2 - angle) / 2
    cosines = np.sin(half[:, None] * (1 - nodes))
    tail: Floats = half * (cosines ** (degrees[:, None] - 1) @ weights)
    return tail


def _digamma(x: Floats) -> Floats:
    """The asymptotic series (DLMF 5.11.2) 8 above x, and the steps from x to there."""
    y, steps = x + 8, x[..., None] + np.arange(8.0)
    series = 1 / (2 * y) + 1 / (12 * y**2) - 1 / (120 * y**4)
    value: Floats = np.log(y) - series - (1 / steps).sum(axis=-1)
    return value


def _trigamma(x: Floats) -> Floats:
    """The derivative of `_digamma`."""
    y, steps = x + 8, x[..., None] + np.arange(8.0)
    series = 1 / y + 1 / (2 * y**2) + 1 / (6 * y**3) - 1 / (30 * y**5)
    value: Floats = series + (1 / steps**2).sum(axis=-1)
    return value


def _inverse_trigamma(value: float) -> float:
    """By bisection on the logarithm: trigamma falls."""
    low, high = -20.0, 20.0
    for _ in range(80):
        middle = (low + high) / 2
        if float(_trigamma(np.exp(np.array(middle)))) > value:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))
