"""The round trip against one and two copy engines: exact on made-up launches."""

from functools import partial

import pytest

from hostbench.core.efficiency import Launches, by_launch, overlap
from hostbench.core.round_trip import beats, engines, ideal_round_trip_s

PART = dict.fromkeys(range(10), 8.0)
SERIAL = dict.fromkeys(range(10), 24.0)


def bounds(outs: Launches = PART, compute: Launches = PART) -> list[Launches]:
    """For one engine and for two, of 8 batches."""
    formulas = (partial(ideal_round_trip_s, num_batches=8, num_copy_engines=num) for num in (1, 2))
    return [by_launch(formula, PART, outs, compute) for formula in formulas]


@pytest.mark.parametrize(
    ("loop_s", "share_of_one", "share_of_two", "said"),
    [
        (10.0, 1.75, 1.0, "as with two copy engines: 38% faster"),
        (16.0, 1.0, 4 / 7, "nothing shows a second"),
        (15.9, 1.0125, 0.5786, "nothing shows a second"),
        (24.0, 0.0, 0.0, "nothing shows a second"),
    ],
)
def test_both_bounds(loop_s: float, share_of_one: float, share_of_two: float, said: str) -> None:
    """8 s each way and of compute: one engine needs 16 s, two need 1 + 8 + 1."""
    loop = dict.fromkeys(range(10), loop_s)
    one, two = (overlap(SERIAL, loop, bound) for bound in bounds())
    assert (one.ideal_s, two.ideal_s) == (16.0, 10.0)
    assert one.share == pytest.approx(share_of_one)
    assert two.share == pytest.approx(share_of_two, abs=1e-4)
    assert said in engines(loop, *bounds())
    assert beats(loop, bounds()[0]) is (loop_s == 10.0)


def test_launches_that_differ_leave_it_undecided() -> None:
    loop = {n: 10.0 if n % 3 else 16.5 for n in range(10)}
    assert "undecided" in engines(loop, *bounds())
    assert "undecided" in engines({0: 10.0}, *bounds())  # one launch tells nothing
    assert "undecided" in engines({0: 17.0}, *bounds())
    assert "as with two" in engines({0: 10.0, 1: 10.0, 2: 10.0}, *bounds())


def test_nothing_is_said_without_whole_launches_or_apart_bounds() -> None:
    loop = dict.fromkeys(range(10), 10.0)
    one, two = bounds(outs={})
    assert not beats(loop, one)
    assert "no launch holds all parts" in engines(loop, one, two)
    assert str(overlap(SERIAL, loop, two).undecided).startswith("0 launch")
    slow = dict.fromkeys(range(10), 80.0)
    assert "nearly the same" in engines(dict.fromkeys(range(10), 82.0), *bounds(compute=slow))
