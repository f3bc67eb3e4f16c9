"""What a bisection asks: where the newest step is, and on which side of it a commit lies. Pure."""

import math
from collections.abc import Sequence
from typing import Literal

from hostbench.judge.change import Change
from hostbench.judge.compare import Comparison
from hostbench.judge.detector import detect


def newest_step(seconds: Sequence[float]) -> Change | None:
    """The newest step to slower that has not recovered: of which half is left in the end."""
    steps = [change for change in detect(seconds) if change.kind == "step"]
    left = 0.0
    for change in reversed(steps):
        height = math.log1p(change.effect)
        left += height
        if height > 0 and left > height / 2:
            return change
    return None


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
