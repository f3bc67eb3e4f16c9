"""Statistics against numpy's, Python's and the exact law."""

import math
import statistics
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench.core.samples import median, median_interval, quantile

values_of = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(values_of, st.integers(0, 16))
def test_quantile_is_numpys_and_median_pythons(values: list[float], sixteenths: int) -> None:
    share = sixteenths / 16
    expected = float(np.quantile(values, share))
    assert quantile(values, share) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert median(values) == pytest.approx(statistics.median(values), rel=1e-12, abs=1e-12)


def coverage(n: int, rank: int) -> Fraction:
    """Exact: that a continuous law's median lies between order statistics rank and n + 1 - rank."""
    return Fraction(sum(math.comb(n, k) for k in range(rank, n - rank + 1)), 2**n)


def narrowest(n: int, confidence: float) -> tuple[float, float]:
    wanted = Fraction(str(confidence))
    ranks = [rank for rank in range(1, n // 2 + 1) if coverage(n, rank) >= wanted]
    return (max(ranks), n + 1 - max(ranks)) if ranks else (-math.inf, math.inf)


def test_the_interval_is_the_narrowest_that_covers() -> None:
    for confidence in (0.5, 0.9, 0.95, 0.99):
        for n in (*range(1, 41), 100, 301):
            interval = median_interval(list(range(1, n + 1)), confidence)
            assert interval == narrowest(n, confidence), (n, confidence)
    low, high = median_interval(list(range(2000)))
    assert low == 1999 - high
    assert 935 < low < 950  # 1000 - 2.576 * sqrt(2000) / 2 = 942
