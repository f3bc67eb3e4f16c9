"""A night against the level before: what is measured again, what moved, and why."""

import random

import pytest

from hostbench.judge.night import cause, moved, suspects
from hostbench.judge.two_sides import Comparison, TwoSides, Verdict, compare

NUM = 20


def night(rng: random.Random, drift: float, changed: float) -> dict[int, Comparison]:
    """Of 20 series the last has changed, after 8 runs."""
    table = {}
    for number in range(NUM):
        *before, tonight = (rng.lognormvariate(0, drift) for _ in range(9))
        second = tonight * changed if number == NUM - 1 else tonight
        table[number] = TwoSides(second=[second], before=before)
    return compare(table)


def test_what_moved_and_what_may_have_is_measured_again() -> None:
    """Also what is too little for the rule over the whole table, but seldom enough."""
    rng = random.Random(4)
    assert [*suspects(night(rng, 0.005, 1.2))] == [NUM - 1]
    num = sum(len(suspects(night(rng, 0.02, 1.0))) for _ in range(60))
    assert 0 < num <= 0.02 * 60 * NUM
    many = [night(rng, 0.02, 1.07) for _ in range(20)]
    called = sum(own[NUM - 1].verdict == "slower" for own in many)
    assert called < sum(NUM - 1 in suspects(own) for own in many)


def compared(effect: float, half: float) -> Comparison:
    verdict: Verdict = "slower" if effect > half else "faster" if effect < -half else "same"
    low, high = effect - half, effect + half
    return Comparison(
        verdict=verdict, effect=effect, low=low, high=high, num=(10, 10), p_value=0.001, unit="run"
    )


@pytest.mark.parametrize("effect", [0.1, -0.1])
@pytest.mark.parametrize(
    ("again", "same_code", "lasting", "passing", "expected"),
    [
        (1.0, False, False, False, "code"),
        (1.0, False, True, True, "code"),
        (0.0, False, True, False, "environment"),
        (0.0, False, True, True, "disturbed"),
        (0.0, False, False, True, "disturbed"),
        (0.0, False, False, False, "unexplained"),
        (-1.0, False, False, False, "unexplained"),
        (0.5, False, True, False, "unexplained"),
        (1.0, True, True, False, "environment"),
        (1.0, True, False, True, "disturbed"),
        (1.0, True, False, False, "unexplained"),
        (0.0, True, True, True, None),
        (None, True, True, True, "not measured again"),
    ],
)
def test_why_it_moved(
    effect: float,
    again: float | None,
    same_code: bool,
    lasting: bool,
    passing: bool,
    expected: str | None,
) -> None:
    """`again` is a share of what was seen first; the same of what became faster. What only may have
    moved is the code's, when it is measured again, or nothing."""
    more = None if again is None else compared(again * effect, 0.02)
    facts = {"same_code": same_code, "lasting": lasting, "passing": passing}
    assert cause(compared(effect, 0.02), more, **facts) == expected
    if not same_code:
        undecided = compared(effect, 0.2)
        assert cause(undecided, more, **facts) == (expected if expected == "code" else None)


def test_the_codes_change_is_shown_as_it_was_measured_again() -> None:
    tonight = {1: compared(0.1, 0.02), 2: compared(-0.3, 0.02), 3: compared(0.1, 0.5)}
    again = {1: compared(0.12, 0.01)}
    rows = moved(tonight, again, same_code=False, lasting=False, passing=False)
    assert [(key, one.verdict, one.effect, one.why) for key, one in rows.items()] == [
        (2, "faster", -0.3, "not measured again"),
        (1, "slower", 0.12, "code"),
    ]


def test_those_that_moved_come_first_then_the_furthest() -> None:
    table = {number: compared((-1) ** number * number / 100, 0.0) for number in range(5, NUM)}
    table[99] = compared(0.5, 0.6)
    assert [*suspects(table)] == [*range(NUM - 1, 4, -1), 99]
