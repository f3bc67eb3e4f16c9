"""Looking more than once: what the looks may cost together, and which series go on."""

import random
from math import inf, sqrt

import pytest

from hostbench.core.records import MAX_LOOKS
from hostbench.judge.compare import WHOLE, Comparison, Shares, compare
from hostbench.judge.rank_test import shift
from hostbench.judge.sequential import (
    LOOKS,
    could_decide,
    expected_half_width,
    fitting,
    half_width,
    last_look,
    looks,
    next_look,
    wanted,
    within_reach,
)
from tests.conftest import SoakSeeds

FIRST, SECOND, THIRD = looks()[:3]


@pytest.mark.parametrize("schedule", [LOOKS, tuple(range(7, 7 + MAX_LOOKS)), (7,), ()])
def test_all_looks_together_take_no_more_than_the_whole(schedule: tuple[int, ...]) -> None:
    shares = [look.shares for look in looks(schedule)]
    for of_all in ([one.test for one in shares], [one.interval for one in shares]):
        assert sum(of_all) <= 1 and all(share > 0 for share in of_all)


def test_between_two_looks_the_last_one_counts() -> None:
    assert [look and look.launches for look in map(last_look, (6, 7, 9, 10, 13, 1000))] == [
        *(None, 7, 7, 10, 10, 160)
    ]
    assert last_look(9, (8, 9)) == looks((8, 9))[1] and last_look(9, (10,)) is None
    assert [next_look(num) for num in (0, 7, 13, 160)] == [7, 10, 14, None]


def launches(rng: random.Random, num: int, level: float = 1.0, spread: float = 0.02) -> list[float]:
    return [level * (1 + rng.gauss(0, spread)) for _ in range(num)]


def test_a_look_pays_by_its_share() -> None:
    rng = random.Random(1)
    first, second = launches(rng, 10), launches(rng, 10, 1.02)
    both = {"": ([first], [second])}
    at_once = compare(both, both)[""]
    looked = compare(both, both, shares={"": Shares(test=0.5, interval=0.1)})[""]
    assert at_once.p_value and looked.p_value == pytest.approx(2 * at_once.p_value)
    assert looked.low and at_once.low and looked.high and at_once.high
    assert looked.low < at_once.low < at_once.high < looked.high
    assert shift(first, second, 0.001).low < shift(first, second).low
    apart = {"": ([[1.0, *first[1:]]], [[9.0] * 10])}
    never = compare(apart, apart, shares={"": Shares(test=1e-9)})[""]
    assert (never.verdict, never.p_value) == ("undecided", 1.0)


def test_only_interleaved_launches_were_looked_at() -> None:
    rng = random.Random(2)
    both = {"": ([launches(rng, 10)], [launches(rng, 10)])}
    shares = {"": Shares(test=0.1, interval=0.1)}
    assert compare(both, shares=shares) == compare(both)
    assert Shares(0.5, 0.25).times(Shares(0.5, 0.5)) == (0.25, 0.125)
    assert WHOLE.times(WHOLE) == WHOLE


def found(effect: float, low: float, high: float) -> Comparison:
    return Comparison(effect=effect, low=low, high=high, num=(7, 7), why="")


def test_an_interval_shrinks_with_the_root_and_grows_with_its_share() -> None:
    one = found(0.01, -0.05, 0.08)
    assert half_width(one) == pytest.approx(0.065)
    same_share = expected_half_width(one, FIRST, FIRST)
    assert same_share == pytest.approx(0.06), "the narrower side"
    later = expected_half_width(one, FIRST, THIRD)
    assert 0.06 * sqrt(7 / 14) < later < 0.06
    assert expected_half_width(Comparison(num=(7, 7), why=""), FIRST, SECOND) == inf


def test_what_decides_is_five_percent_or_the_effect() -> None:
    assert wanted(found(-0.01, -0.1, 0.1)) == 0.05 and wanted(found(-0.2, -0.3, 0.1)) == 0.2
    assert could_decide(found(0.0, -1, 1), 0.07) and not could_decide(found(0.0, -1, 1), 0.08)


def test_how_far_the_time_reaches() -> None:
    one = found(0.0, -0.1, 0.1)
    assert within_reach(one, FIRST, 1.0, 2.9) == (None, inf)
    reach, half = within_reach(one, FIRST, 1.0, 7.5)
    assert reach == THIRD and half == expected_half_width(one, FIRST, THIRD)


def test_the_first_in_the_order_have_the_time() -> None:
    costs = {"long": 5.0, "short": 1.0, "other": 1.0}
    assert fitting(costs, ("short", "long", "other"), 3, 7.0) == ["short", "other"]
    assert fitting(costs, ("long", "short"), 3, 15.0) == ["long"]


def test_looking_again_and_again_is_seldom_wrong(soak_seeds: SoakSeeds) -> None:
    """Without a change: a series counts where any of the looks up to 28 launches says otherwise."""
    rng, wrong, num = random.Random(5), 0, 0
    for _ in soak_seeds(500, 20_000):
        num += 1
        first, second = launches(rng, 28), launches(rng, 28)
        for look in looks()[:5]:
            both = {"": ([first[: look.launches]], [second[: look.launches]])}
            verdict = compare(both, both, shares={"": look.shares})[""].verdict
            if verdict in ("slower", "faster"):
                wrong += 1
                break
    assert wrong <= max(2, 0.005 * num), f"{wrong} of {num}"
