"""Student's t whose variances are shrunk towards each other: for many series with few runs each.

Five runs tell the variance of a series badly. The other series of the machine tell what variances
it has: log-normal around s0, of which d0 degrees of freedom may be taken (Smyth, Statistical
Applications in Genetics and Molecular Biology 2004, section 6.2; limma's `fitFDist` and `eBayes`).
Pure functions of arrays.
"""

import numpy as np

from hostbench.core.arrays import Floats

TINY = 1e-300
MOST_DEGREES = 1000.0
"""More make no difference to Student's distribution that shows, and cost time."""


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
    """Two-sided, of Student's distribution: the regularized incomplete beta function of
    degrees / (degrees + t**2) (NIST DLMF 8.17)."""
    x = degrees / (degrees + t**2)
    a, b = degrees / 2, np.full_like(x, 0.5)
    swap = x > (a + 1) / (a + b + 2)
    x, a, b = np.where(swap, 1 - x, x), np.where(swap, b, a), np.where(swap, a, b)
    x = np.clip(x, TINY, 1.0)
    front = a * np.log(x) + b * np.log1p(-np.minimum(x, 1 - 1e-16)) - _log_beta(a, b)
    share = np.exp(front) / a / _fraction(x, a, b)
    result: Floats = np.clip(np.where(swap, 1 - share, share), 0.0, 1.0)
    return result


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


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """The continued fraction of DLMF 8.17.22, from its end."""
    num = 40 + int(3 * np.sqrt(max(a.max(initial=1.0), b.max(initial=1.0))))
    value = np.ones_like(x)
    for k in range(num, 0, -1):
        m = k // 2
        if k % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        value = 1 + term / value
    return value


def _log_beta(a: Floats, b: Floats) -> Floats:
    return _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)


def _raised(x: Floats) -> tuple[Floats, Floats]:
    """x + n for a whole n that makes it 8 or more, and the steps from x to there, 0 after them."""
    x = np.asarray(x, dtype=float)
    steps = x[..., None] + np.arange(8.0)
    return x + 8, steps


def _log_gamma(x: Floats) -> Floats:
    """Stirling's series (DLMF 5.11.1) 8 above x."""
    y, steps = _raised(x)
    series = 1 / (12 * y) - 1 / (360 * y**3) + 1 / (1260 * y**5)
    value = (y - 0.5) * np.log(y) - y + 0.5 * np.log(2 * np.pi) + series
    result: Floats = value - np.log(steps).sum(axis=-1)
    return result


def _digamma(x: Floats) -> Floats:
    """DLMF 5.11.2."""
    y, steps = _raised(x)
    value = np.log(y) - 1 / (2 * y) - 1 / (12 * y**2) + 1 / (120 * y**4)
    result: Floats = value - (1 / steps).sum(axis=-1)
    return result


def _trigamma(x: Floats) -> Floats:
    """The derivative of `_digamma`."""
    y, steps = _raised(x)
    value = 1 / y + 1 / (2 * y**2) + 1 / (6 * y**3) - 1 / (30 * y**5)
    result: Floats = value + (1 / steps**2).sum(axis=-1)
    return result


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
