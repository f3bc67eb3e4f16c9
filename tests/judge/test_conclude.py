"""The one rule for conclusions within a run: what launches say of two cases."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostbench.core.samples import MIN_LAUNCHES, Launches
from hostbench.judge.conclude import ALPHA, MIN_EFFECT, Conclusion, conclude
from hostbench.judge.two_sides import SAME_WITHIN
from tests.conftest import SoakSeeds

OPPOSITE = {"faster": "slower", "slower": "faster", "same": "same", "undecided": "undecided"}
NOISES = {
    "normal": lambda rng, num: rng.normal(0, 0.02, num),
    "heavy": lambda rng, num: 0.02 * rng.standard_t(2, num),
    "outliers": lambda rng, num: np.where(
        rng.random(num) < 0.2, 0.5 * rng.random(num), rng.normal(0, 0.01, num)
    ),
}
"""Of the logarithm of seconds."""


def launches(*seconds: float) -> dict[int, float]:
    return dict(enumerate(seconds))


def drawn(rng: np.random.Generator, noise: str, num: int, seconds: float = 1.0) -> Launches:
    return launches(*(seconds * math.exp(one) for one in NOISES[noise](rng, num)))


@pytest.mark.parametrize("noise", NOISES)
def test_the_same_case_twice_seldom_differs(noise: str, soak_seeds: SoakSeeds) -> None:
    wrong = num_pairs = 0
    for seed in soak_seeds(1, 100):
        rng = np.random.default_rng(seed)
        pairs = [(drawn(rng, noise, 10), drawn(rng, noise, 10)) for _ in range(200)]
        wrong += sum(conclude(*pair).is_different for pair in pairs)
        num_pairs += len(pairs)
    # Four standard deviations are no chance.
    allowed = ALPHA * num_pairs
    assert wrong <= allowed + 4 * math.sqrt(allowed)


def test_what_differs_by_far_more_than_the_noise_is_decided(soak_seeds: SoakSeeds) -> None:
    for seed in soak_seeds(10, 500):
        rng = np.random.default_rng(seed)
        this = drawn(rng, "normal", 10, 0.1)
        other = {n: s * 1.1 * math.exp(rng.normal(0, 0.002)) for n, s in this.items()}
        found = conclude(this, other)
        assert found.verdict == "faster", seed
        assert found.factor == pytest.approx(1.1, rel=0.01)
        assert found.low is not None and found.high is not None
        assert found.low <= found.factor <= found.high


@pytest.mark.parametrize(
    ("this", "other"),
    [
        (launches(1.0), launches(9.0)),
        (launches(*[1.0] * 6), launches(*[9.0] * 10)),
        (launches(*[1.0] * 6, math.nan, math.inf), launches(*[9.0] * 8)),
    ],
)
def test_few_launches_decide_nothing(this: Launches, other: Launches) -> None:
    found = conclude(this, other)
    assert (found.verdict, found.factor) == ("undecided", 9.0)
    assert (found.low, found.high) == (None, None)


@pytest.mark.parametrize("odd", [{}, {0: 0.0}, {0: math.nan}])
def test_a_side_without_a_time_is_refused(odd: Launches) -> None:
    for pair in ((odd, launches(1.0)), (launches(1.0), odd)):
        with pytest.raises(ValueError, match="positive time"):
            conclude(*pair)


def test_a_difference_below_the_least_effect_is_none_however_sure() -> None:
    for num in (MIN_LAUNCHES, 30):
        this = launches(*[1.0] * num)
        assert conclude(this, launches(*[1 + 0.9 * MIN_EFFECT] * num)).verdict != "faster"
        assert conclude(this, launches(*[1 + 1.1 * MIN_EFFECT] * num)).verdict == "faster"
        alike = Conclusion(verdict="same", factor=1.0, low=1.0, high=1.0)
        assert conclude(this, this) == alike


TIMES = st.dictionaries(st.integers(0, 12), st.floats(1e-9, 1e3), min_size=1, max_size=13)
NEAR = st.dictionaries(
    st.integers(0, 12), st.sampled_from([1.0, 1.005, 1.02, 1.1, 2.0]), min_size=1, max_size=13
)


@given(TIMES | NEAR, TIMES | NEAR)
def test_swapped_sides_give_the_opposite(this: Launches, other: Launches) -> None:
    found, swapped = conclude(this, other), conclude(other, this)
    assert swapped.verdict == OPPOSITE[found.verdict]
    assert swapped.factor == pytest.approx(1 / found.factor)
    if found.low is not None and found.high is not None and found.low > 0:
        assert swapped.high == pytest.approx(1 / found.low)


@given(TIMES | NEAR, TIMES | NEAR)
def test_the_verdict_never_contradicts_figure_or_interval(this: Launches, other: Launches) -> None:
    found = conclude(this, other)
    low, high = found.low, math.inf if found.high is None else found.high
    if found.verdict == "faster":
        assert found.factor > 1 and low is not None and low > 1
    if found.verdict == "slower":
        assert found.factor < 1 and high < 1
    if found.verdict == "same":
        assert low is not None and low >= 1 / (1 + SAME_WITHIN) - 1e-9
        assert high <= 1 + SAME_WITHIN + 1e-9
    if low is not None:
        assert low <= high


def test_what_disturbs_both_cases_of_a_launch_hides_no_difference() -> None:
    """Launches are pairs; one that disturbed a case alone decides nothing either."""
    disturbed = [1.0, 3.0, 1.1, 2.0, 1.7, 1.0, 5.0, 1.3]
    this = launches(*disturbed)
    other = launches(*(1.2 * seconds * (1 + 0.01 * (n % 3)) for n, seconds in enumerate(disturbed)))
    assert conclude(this, other).verdict == "faster"
    assert conclude(this, {**other, 3: 9.0}).verdict == "faster"
    reverse = dict(zip(other, reversed(other.values()), strict=True))
    assert conclude(this, reverse).verdict == "undecided"
