"""Same, faster, slower or undecided: two sides of many series, judged together.

The logarithm of seconds is compared, so that effects are ratios. What counts as one observation is
the run, where each side has at least MIN_RUNS of them. Fewer runs say nothing about how runs differ
from each other: then launches are compared, and the verdict is provisional, unless the launches of
the two sides were interleaved: what both sides of a block share can then only make the test too
careful. The share of false alarms in the whole table is held down (Benjamini and Hochberg 1995).
Pure functions of numbers.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal, TypeVar

from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.judge.rank_test import ALPHA, shift

Verdict = Literal["same", "faster", "slower", "undecided"]

MIN_RUNS = 6
"""Runs per side from which the run is the observation: 6 against 6 can reach p = 0.0022."""
FALSE_DISCOVERY_RATE = 0.01
INTERLEAVED_FALSE_DISCOVERY_RATE = 0.005
"""The same where launches were interleaved: ten a side still find 5 % at 2 % noise in 95 %."""
MIN_EFFECT = 0.01
"""A smaller change is never called one, however sure."""
SAME_WITHIN = 0.05
"""An interval inside plus and minus this is called the same where it holds 0, too, or does not
reach MIN_EFFECT."""

KeyT = TypeVar("KeyT", bound=Hashable)
RunsOfLaunches = Sequence[Sequence[float]]
"""Runs, each the seconds of its launches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What became of one series."""

    verdict: Verdict = "undecided"
    effect: float | None = None
    """Relative change of the second side: 0.1 is 10 % slower. None without numbers."""
    low: float | None = None
    high: float | None = None
    """99 % interval of the effect; None where there are too few observations for one."""
    p_value: float | None = None
    unit: Literal["run", "launch"] = "launch"
    num: tuple[int, int]
    """Observations on each side."""
    before: float | None = None
    after: float | None = None
    """Medians of the observations of each side."""
    is_provisional: bool = True
    """Launches of runs made one after the other: what drifts from run to run is not seen. Or sides
    that differ in more than what is compared."""
    spread: float | None = None
    """How far the observations of one side lie apart, of the side where they do more: 0.4 is a
    slowest one that took 40 % longer than the fastest. None without numbers."""
    why: str
    """Why undecided; empty otherwise."""

    @property
    def has_few(self) -> bool:
        """Fewer launches than a verdict needs."""
        return self.unit == "launch" and min(self.num) < MIN_LAUNCHES

    @property
    def detectable(self) -> float | None:
        """Half of the interval: about the smallest change that these observations show."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2

    @property
    def false_discovery_rate(self) -> float:
        """What the false alarms are held to among those that were judged like this one."""
        interleaved = self.unit == "launch" and not self.is_provisional
        return INTERLEAVED_FALSE_DISCOVERY_RATE if interleaved else FALSE_DISCOVERY_RATE


def compare(
    sides: Mapping[KeyT, tuple[RunsOfLaunches, RunsOfLaunches]],
    interleaved: Mapping[KeyT, tuple[RunsOfLaunches, RunsOfLaunches]] = MappingProxyType({}),
    confounded: Collection[KeyT] = (),
) -> dict[KeyT, Comparison]:
    """Judge all series together. Seconds that are not positive are left out.

    `interleaved`: of the same series, only the runs whose launches were interleaved with those of a
    run on the other side. Where there are too few runs, they alone are judged. `confounded`: series
    whose sides differ in more than what is compared; their verdicts are provisional.
    """
    found = {}
    for key, both in sides.items():
        by_run = min(len(_positive(side)) for side in both) >= MIN_RUNS
        were_interleaved = key in interleaved and not by_run
        first, second = map(_positive, interleaved[key] if were_interleaved else both)
        one = _one(first, second, by_run, were_interleaved)
        found[key] = replace(one, is_provisional=one.is_provisional or key in confounded)
    rates = {one.false_discovery_rate for one in found.values()}
    limits = {rate: _limit(found.values(), rate) for rate in rates}
    return {key: _decided(one, limits[one.false_discovery_rate]) for key, one in found.items()}


def _positive(side: RunsOfLaunches) -> list[list[float]]:
    runs = [[second for second in run if second > 0 and math.isfinite(second)] for run in side]
    return [run for run in runs if run]


def _one(
    first: RunsOfLaunches, second: RunsOfLaunches, by_run: bool, were_interleaved: bool
) -> Comparison:
    """Everything but the verdict, which depends on the table."""
    left, right = (
        [math.log(median(run)) for run in side]
        if by_run
        else [math.log(seconds) for run in side for seconds in run]
        for side in (first, second)
    )
    num = (len(left), len(right))
    why = _too_few(num, MIN_RUNS if by_run else MIN_LAUNCHES)
    if not left or not right:
        return Comparison(num=num, why=why)
    found = shift(left, right, ALPHA)
    known = math.isfinite(found.low)
    return Comparison(
        effect=math.expm1(found.estimate),
        low=math.expm1(found.low) if known else None,
        high=math.expm1(found.high) if known else None,
        p_value=None if why else found.p_value,
        unit="run" if by_run else "launch",
        num=num,
        before=math.exp(median(left)),
        after=math.exp(median(right)),
        is_provisional=not (by_run or were_interleaved),
        spread=max(math.expm1(max(side) - min(side)) for side in (left, right)),
        why=why,
    )


def _too_few(num: tuple[int, int], needed: int) -> str:
    if min(num) == 0:
        return "no number on one side"
    if min(num) < needed:
        return f"{num[0]} and {num[1]} launches: {needed} a side are needed"
    return ""


def _limit(found: Iterable[Comparison], rate: float) -> float:
    """The largest p-value that still counts among those of this rate (Benjamini and Hochberg); 0
    where none does. What is too small to be reported counts as 1, or the many sure ones among
    these would let in others that are not."""
    of_rate = [one for one in found if one.false_discovery_rate == rate]
    ordered = sorted(
        one.p_value if _is_large(one) else 1.0 for one in of_rate if one.p_value is not None
    )
    held = [p for rank, p in enumerate(ordered, start=1) if p <= rank / len(ordered) * rate]
    return held[-1] if held else 0.0


def _is_large(one: Comparison) -> bool:
    return one.effect is not None and abs(one.effect) >= MIN_EFFECT


def _decided(one: Comparison, limit: float) -> Comparison:
    if one.why or one.effect is None or one.p_value is None:
        return one
    if one.p_value <= limit and _is_large(one):
        return replace(one, verdict="slower" if one.effect > 0 else "faster")
    if one.low is not None and one.high is not None:
        far = max(-one.low, one.high)
        if far <= (SAME_WITHIN if one.low <= 0 <= one.high else MIN_EFFECT):
            return replace(one, verdict="same")
        which = "launches" if one.unit == "launch" else "runs"
        return replace(one, why=f"{which} differ by {one.spread:.0%}")
    return replace(one, why="too few for an interval")


def half(effect: float) -> float:
    """Half of a step, on the logarithm: what lies beyond it has the step."""
    return math.expm1(math.log1p(effect) / 2)


def side_of(found: Comparison, threshold: float) -> Literal["good", "bad", "undecided"]:
    """Where a code lies that was compared with a good one, by the 99 % interval of its effect.

    `threshold` is relative: from 0.05 on it is bad, or below -0.05 where faster is what is sought.
    """
    if found.low is None or found.high is None:
        return "undecided"
    low, high = found.low / threshold, found.high / threshold
    if min(low, high) > 1:
        return "bad"
    return "good" if max(low, high) < 1 else "undecided"
