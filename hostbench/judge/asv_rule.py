"""What `asv compare` says of the same two points, and why (asv 0.6.6: compare.py and _stats.py).

asv marks a row where the ratio of the medians is beyond its factor and the samples differ: by the
Mann-Whitney test at p < 0.002 where both sides have enough recorded samples for that, else where
the two 99 % intervals are apart. A side of one sample, or without an interval, is judged by the
factor alone.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hostbench.judge.rank_test import least_p_value, share_up_to

FACTOR = 1.1
P_VALUE = 0.002
EXACT_UP_TO = 20
"""Samples up to this size are judged by the exact distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvRow:
    """A row of asv's file: what it holds of one series at one commit."""

    seconds: float
    low: float
    high: float
    """99 % interval; NaN where asv stored none."""
    samples: Sequence[float]
    """Recorded samples; empty where there are none."""
    repeat: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvMark:
    says: Literal["slower", "faster", "unmarked"]
    why: str


def mark(first: AsvRow, second: AsvRow) -> AsvMark:
    """asv compare's mark (`+`, `-` or none) of the second against the first."""
    slower = first.seconds < second.seconds / FACTOR
    if not slower and not second.seconds < first.seconds / FACTOR:
        return AsvMark(says="unmarked", why=f"within its factor of {FACTOR}")
    differs, why = _is_different(first, second)
    if not differs:
        return AsvMark(says="unmarked", why=why)
    return AsvMark(says="slower" if slower else "faster", why=why)


def _is_different(first: AsvRow, second: AsvRow) -> tuple[bool, str]:
    if 1 in (first.repeat, second.repeat):
        return True, f"by its factor of {FACTOR} alone, for one side is a single sample"
    if any(one.repeat is None and math.isnan(one.low) for one in (first, second)):
        return True, f"by its factor of {FACTOR} alone, for one side has no interval"
    if first.samples and second.samples:
        num = len(first.samples), len(second.samples)
        if least_p_value(*num) / 2 < P_VALUE:
            p_value = _p_value(first.samples, second.samples)
            said = f"the row alone has p = {p_value:.2g}, where its limit is {P_VALUE}"
            return p_value < P_VALUE, said
    bounds = (first.low, first.high, second.low, second.high)
    if any(math.isnan(bound) for bound in bounds):
        return False, "too few samples for its test"
    apart = first.high < second.low or second.high < first.low
    return apart, f"its 99 % intervals {'are apart' if apart else 'overlap'}"


def _p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Ties are broken the least significant way."""
    pairs, half = len(first) * len(second), len(first) * len(second) // 2
    above = sum(b > a for a in first for b in second)
    with_ties = above + sum(b == a for a in first for b in second)
    ends = above, half if above <= half <= with_ties else with_ties
    off = max(min(end, pairs - end) for end in ends)
    if max(len(first), len(second)) <= EXACT_UP_TO:
        return min(1.0, 2 * share_up_to(len(first), len(second), off))
    spread = math.sqrt(pairs * (len(first) + len(second) + 1) / 12)
    return math.erfc((pairs / 2 - off) / spread / math.sqrt(2))
