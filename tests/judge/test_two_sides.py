"""The rule for two sides: its tests against known tables, verdicts, false alarms."""

import itertools
import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from hostbench.judge import moderated
from hostbench.judge.rank_test import _rank_sums, shift
from hostbench.judge.two_sides import Comparison, TwoSides, compare
from tests import known_changes
from tests.conftest import SOAK, SoakSeeds

TEN = [1.0 + 0.001 * n for n in range(10)]


def by_hand(first: list[float], second: list[float]) -> float:
    """The share of all ways to deal out that are as far from the middle."""
    pooled = [*first, *second]
    middle = len(first) * len(second) / 2

    def off(dealt: tuple[int, ...]) -> float:
        rest = [pooled[n] for n in range(len(pooled)) if n not in dealt]
        signs = [(b > pooled[n]) + 0.5 * (b == pooled[n]) for n in dealt for b in rest]
        return abs(sum(signs) - middle)

    every = [off(c) for c in itertools.combinations(range(len(pooled)), len(first))]
    return sum(value >= off(tuple(range(len(first)))) for value in every) / len(every)


@pytest.mark.parametrize("digits", [0, 9])
@pytest.mark.parametrize("seed", range(6))
def test_the_exact_test_counts_every_order_of_ties_too(seed: int, digits: int) -> None:
    rng = random.Random(seed)
    first = [round(rng.gauss(0, 2), digits) for _ in range(rng.randint(2, 6))]
    second = [round(rng.gauss(1.6, 2), digits) for _ in range(rng.randint(2, 6))]
    assert shift(first, second)[-1] == pytest.approx(by_hand(first, second), rel=1e-12)


def test_the_interval_covers_as_often_as_it_says() -> None:
    """For 10 against 10 the 99 % interval is the 16th of 100 differences: its true cover is
    99.07 %."""
    estimate, *interval, p_value = shift(TEN, [x + 0.5 for x in TEN])
    assert p_value == pytest.approx(2 / math.comb(20, 10))
    assert estimate == pytest.approx(0.5)
    differences = sorted(b + 0.5 - a for a in TEN for b in TEN)
    assert interval == [differences[15], differences[-16]]
    assert shift([1.0, 2.0], [3.0, 4.0])[1:3] == (-math.inf, math.inf)


def test_large_samples_take_the_normal_approximation(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    first, second = ([round(rng.gauss(level, 1), 1) for _ in range(31)] for level in (0.0, 0.6))
    _, *near, near_p = shift(first, second)
    monkeypatch.setattr("hostbench.judge.rank_test.EXACT_UP_TO", 31)
    monkeypatch.setattr("hostbench.judge.rank_test._rank_sums", _rank_sums.__wrapped__)
    _, *exact, exact_p = shift(first, second)
    assert near_p == pytest.approx(exact_p, rel=0.2)
    assert near == pytest.approx(exact, abs=0.11)


def one(first: Sequence[float], second: Sequence[float]) -> Comparison:
    return compare({"series": TwoSides(interleaved=(first, second))})["series"]


def by_runs(before: Sequence[float], *second: float, **more: Any) -> Comparison:
    return compare({"": TwoSides(second=second, before=before, **more)})[""]


def noisy(rng: random.Random, level: float, num: int = 10, spread: float = 0.01) -> list[float]:
    return [level * math.exp(rng.gauss(0, spread)) for _ in range(num)]


def test_interleaved_launches_decide() -> None:
    rng = random.Random(3)
    slower = one(noisy(rng, 1.0), noisy(rng, 1.2))
    assert (slower.verdict, slower.unit, slower.num) == ("slower", "launch", (10, 10))
    assert slower.effect == pytest.approx(0.2, abs=0.03)
    assert slower.low is not None and slower.high is not None and slower.effect is not None
    assert slower.low < slower.effect < slower.high
    assert one(noisy(rng, 1.0), noisy(rng, 0.8)).verdict == "faster"
    same = one(noisy(rng, 1.0, spread=0.002), noisy(rng, 1.0, spread=0.002))
    assert (same.verdict, same.why) == ("same", "")
    wide = one(noisy(rng, 1.0, spread=0.3), noisy(rng, 1.0, spread=0.3))
    assert wide.verdict == "undecided" and wide.spread is not None
    assert wide.why == f"launches differ by {wide.spread:.0%}" and 0.3 < wide.spread < 4


def test_runs_made_one_after_the_other_are_held_against_a_level() -> None:
    single = compare({"": TwoSides(first=[1.0], second=[1.5])})[""]
    assert (single.verdict, single.unit, single.num) == ("undecided", "run", (1, 1))
    assert single.why == "made one after the other; 4 more runs (not scratch) will decide"
    before = [1.0, 1.01, 0.99, 1.02]
    slower = compare({"": TwoSides(first=[1.0], second=[1.5], before=before)})[""]
    assert (slower.verdict, slower.num) == ("slower", (5, 1))
    assert slower.before == pytest.approx(1.0, abs=0.01)
    turned = TwoSides(first=[1.5], second=[1.0], before=before, older=1)
    assert compare({"": turned})[""].verdict == "faster"


@pytest.mark.parametrize("by", [by_runs, lambda before, *second: one(before, second)])
@pytest.mark.parametrize(
    ("scale", "change", "verdict"),
    [
        (1.0, 1.018, "same"),
        (1.0, 1.022, "slower"),
        (1.0, 0.978, "faster"),
        (1e-6, 1.045, "same"),
        (1e-6, 1.055, "slower"),
        (2e-7, 1.2, "undecided"),
        (2e-7, 1.3, "slower"),
    ],
)
def test_nothing_under_two_percent_or_fifty_nanoseconds_is_called(
    by: Any, scale: float, change: float, verdict: str
) -> None:
    before = [scale * (1 + 1e-6 * n) for n in range(10)]
    assert by(before, *[change * seconds for seconds in before]).verdict == verdict
    assert by_runs([1e-7] * 5, 1.1e-7, in_bytes=True).verdict == "slower", "bytes have no clock"


def test_the_level_begins_at_its_last_step() -> None:
    rng = random.Random(1)
    before = [*noisy(rng, 2.0, 30), *noisy(rng, 1.0, 9)]
    found = by_runs(before, 1.1)
    assert (found.verdict, found.num) == ("slower", (9, 1))
    assert by_runs(before, 1.0).verdict != "faster"


def test_where_the_older_side_had_left_its_level_nothing_is_called() -> None:
    both = TwoSides(first=[1.2], second=[1.2], before=[1.0] * 10)
    found = compare({"": both})[""]
    assert found.verdict == "undecided" and "own runs do not lie at the level" in found.why


def test_an_interval_that_leaves_zero_out_is_not_the_same() -> None:
    """Among 40 series without a change its p-value alone does not count."""
    rng = random.Random(8)
    pairs = [(noisy(rng, 1.0, spread=0.012), noisy(rng, 1.0, spread=0.012)) for _ in range(40)]
    pairs.append((pairs[0][0], [value * 1.023 for value in pairs[0][0]]))
    found = compare({n: TwoSides(interleaved=pair) for n, pair in enumerate(pairs)})[40]
    assert found.low is not None and found.high is not None and found.p_value is not None
    assert 0 < found.low and 0.01 < found.high < 0.05 and found.p_value > 0.01 / 41
    assert found.verdict == "undecided"


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ([], [1.0], "no number on one side"),
        ([0.0, -1.0, math.nan], TEN, "no number on one side"),
        (TEN[:3], [x + 1 for x in TEN[:3]], "3 and 3 launches: 7 a side are needed"),
    ],
)
def test_too_few_is_said(first: list[float], second: list[float], why: str) -> None:
    found = one(first, second)
    assert (found.verdict, found.why) == ("not judged", why)


DRIFTS = {"normal": known_changes.normal, "heavy": known_changes.heavy}


@pytest.mark.parametrize("kind", DRIFTS)
@pytest.mark.parametrize(
    ("drift", "num_before", "least"), [(0.01, 5, 0.8), (0.02, 20, 0.55), (0.03, 10, 0.0)]
)
def test_one_in_a_hundred_unchanged_series_is_called_at_most(
    kind: str, drift: float, num_before: int, least: float, soak_seeds: SoakSeeds
) -> None:
    """270 series, 27 of them slower by 10 %. Where tails are heavy, rates take longer to settle."""
    false, found = [], []
    for seed in soak_seeds(10 if kind == "heavy" else 5, 300):
        logs = known_changes.drifting(np.random.default_rng(seed), num_before, drift, DRIFTS[kind])
        verdicts = known_changes.verdicts_of_newest(logs)
        false += [verdict in ("slower", "faster") for verdict in verdicts[27:]]
        found += [verdict == "slower" for verdict in verdicts[:27]]
    assert np.mean(false) <= 0.01
    assert np.mean(found) >= least


@pytest.mark.parametrize("degrees", [1.0, 4.0, 7.3, 60.0, 1000.0])
def test_students_distribution(degrees: float) -> None:
    """The tail is the integral of the density."""
    t = np.linspace(0, 5, 5_001)
    log_front = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)
    log_front -= 0.5 * math.log(degrees * math.pi)
    density = np.exp(log_front - (degrees + 1) / 2 * np.log1p(t**2 / degrees))
    inner = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2) * 1e-3])
    for at in (0.0, 0.5, 2.0, 5.0):
        expected = 1 - 2 * inner[round(at * 1000)]
        (p_value,) = moderated.p_value(np.array([at]), np.array([degrees]))
        assert p_value == pytest.approx(expected, rel=1e-4, abs=1e-9)
        if 0 < at < 5:
            back = moderated.quantile(float(p_value), np.array([degrees]))
            assert back[0] == pytest.approx(at, rel=1e-6)


def test_variances_are_shrunk_as_far_as_they_are_alike() -> None:
    rng = np.random.default_rng(5)
    degrees = np.full(4000, 4.0)
    alike = 0.01 * rng.chisquare(4, 4000) / 4
    variance, freedom = moderated.shrunk(alike, degrees)
    assert variance == pytest.approx(np.full(4000, 0.01), rel=0.15) and freedom.min() > 100
    # Drawn as the model has it: d0 = 6 degrees of freedom around 0.01.
    own = 0.01 * 6 / rng.chisquare(6, 4000)
    variance, freedom = moderated.shrunk(own * rng.chisquare(4, 4000) / 4, degrees)
    assert freedom == pytest.approx(np.full(4000, 10.0), rel=0.1)
    assert moderated.shrunk(alike[:1], degrees[:1])[1] == 4.0


def test_halves_of_longer_runs_alarm_in_at_most_one_table_of_a_hundred() -> None:
    """Tables of each noise, 25 in `make soak`: 100 series a table, 10 and 10 launches of a run."""
    rng = random.Random(101)
    noises = {
        "normal": lambda: rng.gauss(0, 0.05),
        "outliers": lambda: rng.gauss(0, 0.02) + (rng.uniform(0.2, 1) if rng.random() < 0.1 else 0),
        "two modes": lambda: rng.gauss(0, 0.01) + rng.choice((0.0, 0.3)),
        "coarse": lambda: round(rng.gauss(0, 0.05), 2),
    }
    alarmed = 0
    for noise in [*noises.values()] * (25 if SOAK else 4):
        table = {}
        for key in range(100):
            launches = [math.exp(noise()) for _ in range(20)]
            table[key] = TwoSides(interleaved=(launches[:10], launches[10:]))
        verdicts = {found.verdict for found in compare(table).values()}
        alarmed += bool(verdicts & {"slower", "faster"})
    assert alarmed <= 1


def test_sure_changes_that_are_too_small_do_not_let_false_ones_in() -> None:
    """150 series at a sure 0.5 %, which is never reported, 150 noisy ones without a
    change, 2 that are 10 % slower."""
    rng, num = random.Random(0), 20 if SOAK else 4
    told = []
    for _ in range(num):
        table = {}
        for key in range(150):
            tiny = noisy(rng, 1.0, spread=0.001), noisy(rng, 1.005, spread=0.001)
            table[f"tiny {key}"] = TwoSides(interleaved=(tiny[0], tiny[1]))
            none = noisy(rng, 1.0, 10, 0.05), noisy(rng, 1.0, 10, 0.05)
            table[f"none {key}"] = TwoSides(interleaved=(none[0], none[1]))
        for key in range(2):
            real = noisy(rng, 1.0, 10, 0.02), noisy(rng, 1.1, 10, 0.02)
            table[f"real {key}"] = TwoSides(interleaved=(real[0], real[1]))
        found = compare(table)
        told += [key for key, one in found.items() if one.verdict in ("slower", "faster")]
    assert sum(key.startswith("real") for key in told) >= 1.75 * num
    assert not [key for key in told if not key.startswith("real")]
