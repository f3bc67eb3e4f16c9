"""What the series of one machine do together is the machine's event, not theirs."""

import math

import numpy as np
import pytest

from hostbench.judge.changepoint.machine import common_mode, judge_machine
from tests import known_changes as noise


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


def test_a_quiet_machine_is_left_alone() -> None:
    shared, _ = common_mode(rows(16, seed=3))
    assert np.abs(shared).max() < 0.01
    found = judge_machine(list(rows(16, seed=3)))
    assert found.common is not None and found.common.changes == ()
    assert not any(j.changes for j in found.own)


def test_too_few_series_make_no_machine() -> None:
    logs = rows(3)
    logs[:, 70:] += math.log(1.1)
    found = judge_machine(list(logs))
    assert found.common is None
    assert [[c.index for c in j.changes] for j in found.own] == [[70]] * 3


def test_a_series_that_moves_more_with_the_machine_or_not_at_all() -> None:
    logs = rows(12, sigma=0.005)
    gains = np.ones(12)
    gains[0], gains[1] = 1.8, 0.0
    logs[:, 60:] += gains[:, None] * math.log(1.10)
    found = judge_machine(list(logs))
    assert found.common is not None and [c.index for c in found.common.changes] == [60]
    assert not any(j.changes for j in found.own[2:])


def test_own_changes_under_shared_noise() -> None:
    """The reference's shared causes: sessions, throttling and a driver; 2 of 16 changed."""
    hits = wrong = 0
    for suite, _ in noise.shared(2000, 8):
        judged = judge_machine([np.log(s.seconds) for s in suite])
        for s, judgement in zip(suite, judged.own, strict=True):
            near = [c for c in judgement.changes for t in s.steps if abs(c.index - t.index) <= 3]
            hits += bool(near)
            wrong += len(judgement.changes) - len(near)
    assert (hits, wrong) == (16, 0)


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


@pytest.mark.parametrize(
    ("num", "moves", "sigma", "place"),
    [
        (8, [(1, 1.0)], 0.01, 60),
        (24, [(10, -0.10)], 0.01, 60),
        (24, [(8, -0.10)], 0.02, 60),
        (24, [(10, -0.10)], 0.01, 90),
        (24, [(11, 0.10)], 0.01, 60),
        (24, [(9, 0.10), (5, -0.10)], 0.01, 60),
        (9, [(3, 0.10), (3, -0.10)], 0.01, 60),
        (6, [(2, 0.10), (2, -0.10)], 0.01, 60),
    ],
)
def test_what_fewer_than_half_do_alike_is_not_the_machines(
    num: int, moves: list[tuple[int, float]], sigma: float, place: int
) -> None:
    """A commit that makes 8 or 10 of 24 series faster makes no other slower."""
    effects = [effect for count, effect in moves for _ in range(count)]
    for seed in range(4):
        logs = rows(num, seed=seed, sigma=sigma)
        logs[: len(effects), place:] += np.log1p(effects)[:, None]
        found = judge_machine(list(logs))
        assert found.common is not None and found.common.changes == ()
        own = [[c.effect for c in j.changes if c.state == "confirmed"] for j in found.own]
        assert [len(changes) for changes in own] == [1] * len(effects) + [0] * (num - len(effects))
        assert np.concatenate(own) == pytest.approx(effects, abs=0.025)


@pytest.mark.parametrize(("num", "changed"), [(24, 13), (15, 8)])
def test_what_most_do_is_the_machines(num: int, changed: int) -> None:
    logs = rows(num, seed=6)
    logs[:changed, 60:] += math.log(1.10)
    found = judge_machine(list(logs))
    assert found.common is not None
    assert [round(c.effect, 1) for c in found.common.changes] == [0.1]
    assert not any(j.changes for j in found.own)


def test_a_change_against_the_machines_step_of_the_same_night() -> None:
    """What a series lacks of a step is its own change where it follows the machine elsewhere."""
    rng = np.random.default_rng(7)
    common = np.where(rng.random(120) < 0.3, math.log(1.08), 0.0)
    common[60:] -= math.log(1.07)
    logs = rows(16, seed=7) + common
    logs[0, 60:] += math.log(1.05)
    logs[1, 60:] += math.log(1.07)  # takes no part in it
    found = judge_machine(list(logs))
    (step,) = found.own[0].changes
    assert abs(step.index - 60) <= 1 and step.effect == pytest.approx(0.05, abs=0.01)
    assert [j.changes for j in found.own[1:]] == [()] * 15
