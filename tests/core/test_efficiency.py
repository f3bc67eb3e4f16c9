"""The share of the possible gain: exact on made-up launches, refused where it means nothing."""

from functools import partial

import pytest

from hostbench.core.efficiency import by_launch, ideal_s, overlap
from hostbench.core.round_trip import ideal_round_trip_s


@pytest.mark.parametrize(
    ("copy_s", "compute_s", "num_batches", "expected_s"),
    [
        (8.0, 8.0, 8, 9.0),  # 1 + 7 * 1 + 1
        (8.0, 16.0, 8, 17.0),  # 1 + 7 * 2 + 2
        (16.0, 8.0, 8, 17.0),
        (5.0, 3.0, 1, 8.0),  # one batch has nothing to hide behind
    ],
)
def test_ideal_is_the_longer_of_the_two_and_both_ends(
    copy_s: float, compute_s: float, num_batches: int, expected_s: float
) -> None:
    assert ideal_s(copy_s, compute_s, num_batches) == expected_s


def launches(value: float, count: int = 10) -> dict[int, float]:
    return dict.fromkeys(range(count), value)


def test_parts_of_one_launch_make_its_ideal() -> None:
    copy, compute = {0: 1.0, 1: 2.0, 2: 3.0}, {2: 10.0, 1: 20.0}
    assert by_launch(lambda a, b: a + b, copy, compute) == {1: 22.0, 2: 13.0}


def test_all_of_the_gain_is_one_and_none_of_it_is_zero() -> None:
    serial, ideal = launches(16.0), launches(9.0)
    assert overlap(serial, launches(9.0), ideal).share == 1.0
    assert overlap(serial, launches(16.0), ideal).share == 0.0
    half = overlap(serial, launches(12.5), ideal)
    assert (half.share, half.low, half.high, half.ideal_s) == (0.5, 0.5, 0.5, 9.0)


def test_numbers_of_one_launch_belong_together() -> None:
    """A launch that is slower in everything has the same efficiency."""
    scale = {n: 1.0 + n / 10 for n in range(10)}
    serial, half, ideal = ({n: part * scale[n] for n in scale} for part in (16.0, 12.5, 9.0))
    found = overlap(serial, half, ideal)
    assert found.share == pytest.approx(0.5)
    assert found.low == pytest.approx(0.5) and found.high == pytest.approx(0.5)


def test_the_share_follows_from_the_times_beside_it() -> None:
    """Of three launches of a loaded machine: the median of their own shares is below zero, and the
    medians say that the loop is the faster one."""
    serial, loop = {0: 60.0, 1: 65.0, 2: 66.0}, {0: 62.0, 1: 67.0, 2: 58.0}
    shares = [(serial[n] - loop[n]) / (serial[n] - 38.6) for n in serial]
    assert sorted(shares)[1] < 0 < 65.0 - 62.0
    found = overlap(serial, loop, launches(38.6, 3))
    assert found.share is None and "differ too much" in str(found.undecided)
    near = overlap({n: 65.0 + n / 100 for n in range(9)}, launches(60.0, 9), launches(38.6, 9))
    assert near.share == pytest.approx((65.04 - 60.0) / (65.04 - 38.6))
    assert near.share is not None and near.low is not None and near.high is not None
    assert near.low <= near.share <= near.high


def test_few_launches_say_a_share_only_where_they_agree() -> None:
    exact = overlap(launches(16.0, 7), launches(9.0, 7), launches(9.0, 7))
    assert (exact.share, exact.low, exact.high, exact.is_few) == (1.0, 1.0, 1.0, True)
    near = overlap(launches(16.0, 3), {0: 9.1, 1: 9.15, 2: 9.2}, launches(9.0, 3))
    assert near.share is not None and near.low is not None
    assert near.low < near.share - 0.05
    apart = overlap(launches(16.0, 3), {0: 9.0, 1: 10.0, 2: 12.0}, launches(9.0, 3))
    assert apart.share is None and "differ too much" in str(apart.undecided)


def test_medians_that_their_launches_do_not_bear_out_are_undecided() -> None:
    """The launches that hold all three say one share, the medians of all another."""
    serial = {0: 16.0, 1: 16.0, **dict.fromkeys(range(2, 9), 12.0)}
    found = overlap(serial, launches(9.0, 2), launches(9.0, 2))
    assert found.share == 1.0  # any serial loop does here, for the loop is the ideal
    found = overlap(serial, launches(11.0, 2), launches(9.0, 2))
    assert found.share is None and "medians" in str(found.undecided)


def test_undecided_where_the_gain_is_in_the_noise() -> None:
    noisy = {n: 9.0 + 4 * (n % 2) - 1.9 for n in range(10)}
    undecided = overlap(noisy, noisy, launches(9.0))
    assert undecided.share is None and "noise" in str(undecided.undecided)
    assert undecided.ideal_s == 9.0


def test_undecided_where_one_launch_leaves_no_gain() -> None:
    """Its ratio would be (16 - 9) / tiny, and the interval would reach from here to the moon."""
    ideal = {n: 9.0 if n else 15.9 for n in range(40)}
    found = overlap(launches(16.0, 40), launches(9.0, 40), ideal)
    assert found.share is None and str(found.undecided).startswith("in 1 of 40 launches")


def test_undecided_without_two_whole_launches() -> None:
    undecided = overlap({0: 16.0, 1: 16.0}, {1: 9.0}, {})
    assert undecided.share is None and str(undecided.undecided).startswith("0 launch")
    assert undecided.ideal_s is None


@pytest.mark.parametrize(
    ("loop_s", "of_one", "of_two"), [(10.0, 1.75, 1.0), (16.0, 1.0, 4 / 7), (24.0, 0.0, 0.0)]
)
def test_a_round_trip_with_one_and_two_engines(loop_s: float, of_one: float, of_two: float) -> None:
    """8 s each way and of compute: one engine needs 16 s, two need 1 + 8 + 1."""
    part = launches(8.0)
    for num, ideal_of, share in ((1, 16.0, of_one), (2, 10.0, of_two)):
        formula = partial(ideal_round_trip_s, num_batches=8, num_copy_engines=num)
        found = overlap(launches(24.0), launches(loop_s), by_launch(formula, part, part, part))
        assert found.ideal_s == ideal_of and found.share == pytest.approx(share, abs=1e-4)
