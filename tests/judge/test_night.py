"""A night against the nights before it: what moved, and why."""

import random
from typing import Literal

import pytest

from hostbench.judge.night import (
    Comparisons,
    LaunchesOf,
    RunsBefore,
    cause,
    changes,
    has_moved,
    to_measure_again,
)
from hostbench.judge.two_sides import Comparison, Verdict

NAMES = [(f"made.up[n={number}]", "1") for number in range(20)]


def run(rng: random.Random, level: float = 1.0, spread: float = 0.01, num: int = 10) -> LaunchesOf:
    return {name: [level * rng.lognormvariate(0, spread) for _ in range(num)] for name in NAMES}


def with_one(found: LaunchesOf, level: float) -> LaunchesOf:
    return {**found, NAMES[3]: [level * one for one in found[NAMES[3]]]}


def suspects(tonight: LaunchesOf, *before: LaunchesOf) -> Comparisons:
    return RunsBefore(runs=list(enumerate(before))).suspects(tonight)


def test_the_rule_says_what_moved_against_the_level_of_the_runs_before() -> None:
    rng = random.Random(1)
    before = [run(rng, level=rng.lognormvariate(0, 0.005)) for _ in range(5)]
    found = suspects(with_one(run(rng), 1.2), *before)
    assert found[NAMES[3]].verdict == "slower" and has_moved(found[NAMES[3]])
    assert [name for name, one in found.items() if has_moved(one)] == [NAMES[3]]
    assert not suspects(run(rng))


def test_what_may_have_moved_is_measured_again() -> None:
    """Too little for the rule over the whole table, but seldom enough to be worth it."""
    rng = random.Random(4)
    num = sum(len(suspects(run(rng, spread=0.06), *_nights(rng))) for _ in range(40))
    assert 0 < num <= 0.02 * 40 * len(NAMES)
    before = _nights(rng)
    tonight = with_one(run(rng, spread=0.06), 1.12)
    assert NAMES[3] in suspects(tonight, *before)


def _nights(rng: random.Random) -> list[LaunchesOf]:
    return [run(rng, spread=0.06) for _ in range(8)]


def test_runs_from_before_a_confirmed_change_say_how_much_runs_differ() -> None:
    rng = random.Random(5)
    runs = [*(run(rng, level=3.0) for _ in range(6)), run(rng, level=2.0), run(rng)]
    before = RunsBefore(runs=list(enumerate(runs)), changed_at=dict.fromkeys(NAMES, (5.5, 6.5)))
    found = before.suspects(with_one(run(rng), 1.1))
    assert [name for name, one in found.items() if has_moved(one)] == [NAMES[3]]


def test_without_a_level_launches_say_what_to_measure_again_and_prove_nothing() -> None:
    rng = random.Random(1)
    before, last = run(rng), run(rng)
    found = suspects(with_one(run(rng), 1.2), before, last)
    assert list(found) == [NAMES[3]] and not has_moved(found[NAMES[3]])
    assert list(suspects(with_one(run(rng), 0.8), last)) == [NAMES[3]]
    assert not suspects(run(rng), last)


def test_a_series_is_held_against_the_newest_run_that_has_it() -> None:
    rng = random.Random(2)
    usual = run(rng)
    lacking = {name: own for name, own in run(rng).items() if name != NAMES[3]}
    assert NAMES[3] in suspects(with_one(run(rng), 1.3), usual, lacking)
    assert not suspects({("made.new", "1"): [1.0] * 7}, usual)


def compared(effect: float, half: float, unit: Literal["run", "launch"] = "run") -> Comparison:
    verdict: Verdict = "slower" if effect > half else "faster" if effect < -half else "same"
    low, high = effect - half, effect + half
    return Comparison(
        verdict=verdict, effect=effect, low=low, high=high, num=(10, 10), why="", unit=unit
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
    """`again` is a share of what was seen first; the same of what became faster. Launches that were
    not interleaved prove the code at most, when it is measured again."""
    more = None if again is None else compared(again * effect, 0.02)
    facts = {"same_code": same_code, "lasting": lasting, "passing": passing}
    assert cause(compared(effect, 0.02), more, **facts) == expected
    if not same_code:
        by_launches = compared(effect, 0.02, "launch")
        assert cause(by_launches, more, **facts) == (expected if expected == "code" else None)


def test_the_codes_change_is_shown_as_it_was_measured_again() -> None:
    moved = {NAMES[1]: compared(0.1, 0.02), NAMES[2]: compared(-0.3, 0.02)}
    again = {NAMES[1]: compared(0.12, 0.01)}
    furthest, code = changes(moved, again, same_code=False, lasting=False, passing=False)
    assert (code.case, code.cause, code.effect) == (NAMES[1][0], "code", 0.12)
    assert (furthest.cause, furthest.effect) == ("not measured again", -0.3)
    assert furthest.direction == "faster"


def test_those_that_moved_come_first_then_the_furthest() -> None:
    found = {name: compared((-1) ** place * place / 100, 0.0) for place, name in enumerate(NAMES)}
    assert to_measure_again(found, 20) == tuple(reversed(NAMES[8:]))
    assert len(to_measure_again(found, 150)) == 15
    assert len(to_measure_again(found, 999)) == len(NAMES)
    seeming = {NAMES[19]: compared(0.5, 0.0, "launch")}
    assert to_measure_again({**found, **seeming}, 20)[0] == NAMES[18]
