"""The detector on series whose changes are known: exact small ones, and whole suites as they are
printed."""

import math
from collections.abc import Iterable, Iterator

import numpy as np
import pytest

from hostbench.judge.changepoint.change import Change
from hostbench.judge.changepoint.detector import judge, log_seconds
from tests import golden, known_changes
from tests.known_changes import as_text


def series(sigma: float, *stretches: tuple[int, float], seed: int = 0) -> list[float]:
    """Seconds at each level in turn: (points, level), with normal noise on the logarithm."""
    rng = np.random.default_rng(seed)
    logs = np.concatenate([np.full(num, math.log(level)) for num, level in stretches])
    return np.exp(logs + rng.normal(0, sigma, len(logs))).tolist()


def detect(values: list[float]) -> tuple[Change, ...]:
    return judge([log_seconds(values)])[0].changes


def places(changes: Iterable[Change]) -> list[tuple[int, str, str]]:
    return [(change.index, change.kind, change.state) for change in changes]


VISITS = [(20, 1.0), (7, 1.08), (15, 1.0), (9, 1.08), (25, 1.0), (6, 1.08), (30, 1.0)]
STEP = [(60, 1.0), (60, 1.1)]
HOLES = dict.fromkeys((0, 10, 11, 30, 61, 62, 90, 119), math.nan)


@pytest.mark.parametrize(
    ("stretches", "points", "expected"),
    [
        ([], {}, []),
        ([(100, math.nan)], {}, []),
        ([(100, 1.0)], {50: 3, 99: 3}, []),
        (STEP, {}, [(60, "step", "confirmed")]),
        (STEP, {57: 1.4, 58: 1.3, 62: 0.8}, [(60, "step", "confirmed")]),
        (STEP, HOLES, [(60, "step", "confirmed")]),
        (STEP, {**HOLES, 60: math.nan}, [(63, "step", "confirmed")]),  # the first point there is
        ([(60, 1.0), (50, 1.2), (60, 1.0)], {}, [(n, "step", "confirmed") for n in (60, 110)]),
        ([(60, 1.0), (8, 1.2), (60, 1.0)], {}, [(60, "temporary", "confirmed")]),
        (VISITS, {}, []),  # a state visited again and again is noise
        ([*VISITS, (60, 1.3)], {}, [(112, "step", "confirmed")]),
        *(([(80, 1.0), (n, 1.1)], {}, [(80, "step", "provisional")]) for n in (3, 4, 6)),
    ],
)
def test_changes_are_found_where_they_are(
    stretches: list[tuple[int, float]],
    points: dict[int, float],
    expected: list[tuple[int, str, str]],
) -> None:
    values = series(0.005, *stretches) if stretches else [0.25] * 50
    for place, value in points.items():
        values[place] = value
    assert places(detect(values)) == expected


@pytest.mark.parametrize("old", [18, 20, 80])  # also where as many points are new as old
def test_provisional_becomes_confirmed_and_never_both(old: int) -> None:
    values = series(0.01, (old, 1.0), (40, 1.1))
    states = []
    for num in range(old, old + 41):
        found = [c for c in detect(values[:num]) if abs(c.index - old) <= 3]
        assert len(found) <= 1, num
        states += [c.state for c in found]
    assert states[0] == "provisional" and states[-1] == "confirmed"
    assert states == sorted(states, reverse=True), "confirmed, and then not any more"
    assert states.count("confirmed") >= 20


@pytest.mark.parametrize(("num", "breaks", "judged"), [(14, [12], True), (14, [7], False)])
def test_judged_is_what_has_one_piece_that_is_long_enough(
    num: int, breaks: list[int], judged: bool
) -> None:
    (found,) = judge([log_seconds(series(0.005, (num, 1.0)))], [breaks])
    assert (found.judged, found.noise, found.detectable) == (judged, None, None)


def lines() -> Iterator[str]:
    """Of hand-made series, in seconds and in minutes, and of the reference's suite."""
    long = {
        num: series(0.005, (60, 1.0), (num, 1.15), (60, 1.0)) for num in (7, 12, 13, 24, 25, 40)
    }
    for num, values in long.items():
        for place in (30, -10, -20)[: 3 if num > 12 else 1]:
            values[place] *= 1.3  # a few spikes are no second state
    made = {
        **{f"{num} points of 1.15": values for num, values in long.items()},
        **{f"{n} points of {x:.2f}": series(0.005, (60, 1.0), (n, x), (60, 1.0))
           for n, x in ((60, 1.1), (60, 1 / 1.1), (8, 1.1), (8, 1 / 1.1))},
        **{f"5 points of 1.5, then {x}": series(0.005, (60, 1.0), (5, 1.5), (60, x))
           for x in (1.03, 0.97)},
        **{f"noise of {x:.1%}": series(x, (100, 1.0)) for x in (0.001, 0.02, 0.05, 0.1)},
        "nothing": [],
    }  # fmt: skip
    for name, values in made.items():
        yield f"{name}: {as_text(judge([log_seconds(values)])[0])}"
        assert places(detect([60 * value for value in values])) == places(detect(values))
    for breaks in ([50], [], [-3, 0, 150]):
        values = series(0.005, (50, 1.0), (50, 2.0), (50, 2.2))
        yield f"2, then 2.2, breaks {breaks}: {as_text(judge([log_seconds(values)], [breaks])[0])}"
    suite = [*known_changes.synthetic(7, per_cell=1)]
    judged = judge([np.log(own.seconds) for own in suite])
    for place, (own, judgement) in enumerate(zip(suite, judged, strict=True)):
        steps = [f"{step.index} {math.expm1(step.log_effect):+.2f}" for step in own.steps]
        yield f"synthetic {place}, {'; '.join(steps) or 'no step'}: {as_text(judgement)}"


def test_the_detector_is_frozen() -> None:
    golden.check("detector", lines())
