"""What a bisection asks: where the newest step is, and on which side of it a commit lies. Pure."""

import math
from collections.abc import Iterable
from typing import Literal

import pandas as pd

from hostbench.judge.compare import Comparison
from hostbench.judge.events import DetectedEvent, Judged


def newest_step(
    judged: Iterable[Judged], machine: str, case: str
) -> tuple[DetectedEvent, Judged] | None:
    """The newest step to slower of a series that stayed, a confirmed one if there is; its machine's
    where it has none of its own. `machine` may be a group of it."""
    steps = [
        (found, own)
        for own in judged
        if machine in (own.grid.machine, own.grid.group) and case in own.grid.cases
        for found in own.found
        if found.series in (own.grid.cases.index(case), None)
        and found.status in ("confirmed", "provisional")
        and found.change.effect > 0
    ]

    def place(pair: tuple[DetectedEvent, Judged]) -> tuple[bool, bool, pd.Timestamp]:
        found = pair[0]
        return found.series is not None, found.status == "confirmed", found.first.committed_at

    return max(steps, key=place, default=None)


def half(effect: float) -> float:
    """Half of a step, on the logarithm: a commit beyond it is bad."""
    return math.expm1(math.log1p(effect) / 2)


def side_of(found: Comparison, threshold: float) -> Literal["good", "bad", "undecided"]:
    """Where a commit lies that was compared with the good one, by the 99 % interval of its effect.

    `threshold` is relative: from 0.05 on it is bad, or below -0.05 where faster is what is sought.
    """
    if found.low is None or found.high is None:
        return "undecided"
    low, high = found.low / threshold, found.high / threshold
    if min(low, high) > 1:
        return "bad"
    return "good" if max(low, high) < 1 else "undecided"
