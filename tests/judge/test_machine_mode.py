"""What the series of one machine do together is the machine's event, not theirs."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from hostbench.judge.changepoint.machine import judge_machine
from tests import golden, known_changes
from tests.known_changes import as_text


def rows(num_series: int, seed: int = 0, sigma: float = 0.01, num: int = 120) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sigma, (num_series, num)) + math.log(1e-3)


def test_series_of_other_lengths_and_with_holes() -> None:
    logs = rows(10)
    logs[:, 70:] += math.log(1.05)
    logs[2, 20:60] = np.nan
    logs[5, :] = np.nan
    found = judge_machine([row[: 120 - i] for i, row in enumerate(logs)])
    assert found.common is not None
    assert [c.index for c in found.common.changes] == [70]
    assert not any(j.changes for j in found.own)


@pytest.mark.parametrize(("machine", "own"), [(0.04, 0.03), (0.04, 0.1), (0.08, 0.05)])
def test_a_regression_in_the_night_of_a_machines_step_is_seen_whole(
    machine: float, own: float
) -> None:
    logs = np.random.default_rng(1).normal(0, 0.01, (24, 90))
    logs[:, 45:] += math.log1p(machine)
    logs[0, 45:] += math.log1p(own)
    logs[1, 45:] -= math.log1p(machine)  # not touched by what slowed the machine
    judged = judge_machine(list(logs))
    assert judged.common is not None
    (common,) = judged.common.changes
    assert (common.index, round(common.effect, 2)) == (45, machine)
    (step,) = judged.own[0].changes
    assert abs(step.index - 45) <= 1 and abs(step.effect - own) < 0.01
    assert [one.changes for one in judged.own[1:]] == [()] * 23


def moved(num: int, *moves: tuple[int, float], at: int = 60, sigma: float = 0.01) -> np.ndarray:
    """So many series after each other move by so much."""
    effects = [effect for count, effect in moves for _ in range(count)]
    logs = rows(num, seed=6, sigma=sigma)
    logs[: len(effects), at:] += np.log1p(effects)[:, None]
    return logs


def against_the_machine() -> np.ndarray:
    """What series 0 lacks of a step is its own change, as it follows the machine elsewhere; series
    1 takes no part in the step."""
    rng = np.random.default_rng(7)
    common = np.where(rng.random(120) < 0.3, math.log(1.08), 0.0)
    common[60:] -= math.log(1.07)
    logs = rows(16, seed=7) + common
    logs[0, 60:] += math.log(1.05)
    logs[1, 60:] += math.log(1.07)
    return logs


def lines() -> Iterator[str]:
    """What fewer than half do alike is not the machine's, and what most do is."""
    gains = [1.8, 0.0, *[1.0] * 10]
    made = {
        "a quiet machine": rows(16, seed=3),
        "3 series make no machine": moved(3, (3, 0.1), at=70),
        "one moves more, and one not": rows(12, sigma=0.005) + np.outer(gains, STEP),
        "a change against the machine's step of that night": against_the_machine(),
        "13 of 24 move": moved(24, (13, 0.1)),
        "8 of 15 move": moved(15, (8, 0.1)),
        "1 of 8 is twice as slow": moved(8, (1, 1.0)),
        "10 of 24 are faster": moved(24, (10, -0.1)),
        "8 of 24 are faster, with more noise": moved(24, (8, -0.1), sigma=0.02),
        "10 of 24 are faster from point 90 on": moved(24, (10, -0.1), at=90),
        "11 of 24 are slower": moved(24, (11, 0.1)),
        "9 of 24 are slower and 5 faster": moved(24, (9, 0.1), (5, -0.1)),
        "3 of 9 are slower and 3 faster": moved(9, (3, 0.1), (3, -0.1)),
        "2 of 6 are slower and 2 faster": moved(6, (2, 0.1), (2, -0.1)),
    }
    for number, (suite, driver) in enumerate(known_changes.shared(2000, 2)):
        own = [f"{one.steps[0].index}" for one in suite if one.steps]
        name = f"shared {number}: a driver at {driver.index}, 5 % at {' and '.join(own)}"
        made[name] = np.log([one.seconds for one in suite])
    for name, logs in made.items():
        yield name
        found = judge_machine([*logs])
        if found.common:
            yield f"    the machine: {as_text(found.common)}"
        yield from (f"    {n}: {as_text(own)}" for n, own in enumerate(found.own) if own.changes)


STEP = np.repeat([0.0, math.log(1.10)], 60)


def test_the_machines_part_is_frozen() -> None:
    golden.check("machine", lines())
