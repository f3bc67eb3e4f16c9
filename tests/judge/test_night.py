"""A night against the nights before it: what moved, and why."""

import random

import pytest

from hostbench.judge.compare import Comparison, Verdict
from hostbench.judge.night import LaunchesOf, cause, held_against, moved, to_measure_again

NAMES = [(f"made.up[n={number}]", "1") for number in range(20)]


def run(rng: random.Random, level: float = 1.0, spread: float = 0.01, num: int = 10) -> LaunchesOf:
    return {name: [level * rng.lognormvariate(0, spread) for _ in range(num)] for name in NAMES}


def with_one(found: LaunchesOf, level: float) -> LaunchesOf:
    return {**found, NAMES[3]: [level * one for one in found[NAMES[3]]]}


def test_what_moved_against_both_runs_before_is_found() -> None:
    rng = random.Random(1)
    before, last = run(rng), run(rng)
    found = moved(with_one(run(rng), 1.2), [last, before])
    assert list(found) == [NAMES[3]] and found[NAMES[3]].verdict == "slower"
    assert list(moved(with_one(run(rng), 0.8), [last])) == [NAMES[3]]
    assert not moved(run(rng), [last, before]) and not moved(run(rng), [])


def test_the_night_after_an_odd_one_has_not_moved() -> None:
    rng = random.Random(2)
    usual, odd = run(rng), run(rng, level=1.3)
    assert moved(odd, [usual]) and not moved(run(rng), [odd, usual])
    lacking = {name: own for name, own in run(rng).items() if name != NAMES[3]}
    assert NAMES[3] in moved(with_one(run(rng), 1.3), [lacking, usual])


def test_each_series_is_held_against_the_newest_runs_that_have_it() -> None:
    usual = run(random.Random(3))
    lacking = {name: own for name, own in usual.items() if name != NAMES[3]}
    held = held_against({**usual, ("made.new", "1"): [1.0] * 7}, [lacking, usual, usual])
    assert (held[NAMES[3]], held[NAMES[4]]) == ((1, 2), (0, 1)) and len(held) == len(NAMES)


def compared(effect: float, half: float) -> Comparison:
    verdict: Verdict = "slower" if effect > half else "faster" if effect < -half else "same"
    return Comparison(
        verdict=verdict, effect=effect, low=effect - half, high=effect + half, num=(10, 10), why=""
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
        (0.5, False, True, False, "undecided"),
        (1.0, True, True, False, "environment"),
        (1.0, True, False, True, "disturbed"),
        (1.0, True, False, False, "unexplained"),
        (0.0, True, True, True, "gone"),
        (None, True, True, True, "not measured again"),
    ],
)
def test_why_it_moved(
    effect: float,
    again: float | None,
    same_code: bool,
    lasting: bool,
    passing: bool,
    expected: str,
) -> None:
    """`again` is a share of what was seen first; the same of what became faster."""
    more = None if again is None else compared(again * effect, 0.02)
    facts = {"same_code": same_code, "lasting": lasting, "passing": passing}
    assert cause(compared(effect, 0.02), more, **facts) == expected


def test_those_that_moved_furthest_are_measured_again() -> None:
    found = {name: compared((-1) ** place * place / 100, 0.0) for place, name in enumerate(NAMES)}
    assert to_measure_again(found, 20) == tuple(reversed(NAMES[8:]))
    assert len(to_measure_again(found, 150)) == 15
    assert len(to_measure_again(found, 999)) == len(NAMES)
