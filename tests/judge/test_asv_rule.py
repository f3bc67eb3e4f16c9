"""asv compare's own rule: what we say that it says is what it says."""

import math
import random
from dataclasses import replace

from asv.commands import compare

from hostbench.core.samples import median, median_interval
from hostbench.judge.asv_rule import FACTOR, AsvMark, AsvRow, mark


def bare(point: AsvRow) -> AsvRow:
    """As asv stores a number that a benchmark tells itself, without statistics."""
    return replace(point, low=math.nan, high=math.nan, samples=[], repeat=None)


def point(samples: list[float], *, recorded: bool = True) -> AsvRow:
    low, high = median_interval(samples)
    return AsvRow(
        seconds=median(samples),
        low=low,
        high=high,
        samples=samples if recorded else [],
        repeat=len(samples),
    )


def asv_says(first: AsvRow, second: AsvRow) -> str:
    sides = [
        (
            {"ci_99_a": one.low, "ci_99_b": one.high, "repeat": one.repeat} if one.repeat else {},
            list(one.samples) or None,
        )
        for one in (first, second)
    ]
    worse = compare._is_result_better(first.seconds, second.seconds, *sides, FACTOR)
    better = compare._is_result_better(second.seconds, first.seconds, *sides[::-1], FACTOR)
    return "slower" if worse else "faster" if better else "unmarked"


def test_the_same_as_asv() -> None:
    rng = random.Random(4)
    seen = set()
    for _ in range(600):
        num, spread = rng.choice((1, 4, 6, 10, 24)), rng.choice((0.01, 0.2))
        digits = rng.choice((1, 9))  # of one digit there are ties
        ratio = rng.choice((0.8, 1.0, 1.05, 1.15, 1.5))
        recorded = rng.random() < 0.5
        first, second = (
            point(
                [round(by * math.exp(rng.gauss(0, spread)), digits) for _ in range(num)],
                recorded=recorded,
            )
            for by in (1.0, ratio)
        )
        if rng.random() < 0.1:
            first = bare(first)
        found = mark(first, second)
        assert found.says == asv_says(first, second)
        seen.add((found.says, found.why.split(" ")[0]))
    assert len(seen) >= 7  # every branch was taken


def test_why() -> None:
    ten = [1 + 0.001 * n for n in range(10)]
    assert mark(point(ten), point([1.05 * x for x in ten])) == AsvMark(
        says="unmarked", why="within its factor of 1.1"
    )
    told = mark(point(ten), point([2 * x for x in ten])).why
    assert told == "the row alone has p = 1.1e-05, where its limit is 0.002"
    unrecorded = [point(side, recorded=False) for side in (ten, [1.2 * x for x in ten])]
    assert mark(*unrecorded).why == "its 99 % intervals are apart"
    assert mark(point([1.0]), point([2.0])).says == "slower"
