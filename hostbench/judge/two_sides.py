"""The one rule for two sides: is a series slower, faster or the same, or can that not be told?

The logarithm of seconds is compared, so that effects are ratios.

- Launches decide only where they were interleaved: by the rank test (judge.rank_test).
- Runs made one after the other differ by what drifts from run to run, and their launches know
  nothing of it. There the run is the observation: it is held against the level of the older side,
  the median of its runs, with the runs before it where they are few, by Student's t with each
  variance shrunk towards those of the machine's other series (judge.moderated).

The share of false alarms in the whole table is held down (Benjamini and Hochberg 1995), and nothing
under MIN_EFFECT or MIN_SECONDS is called. Pure functions of numbers.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

import numpy as np

from hostbench.core.arrays import Floats
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.core.units import format_seconds
from hostbench.judge import moderated
from hostbench.judge.changepoint.detector import judge, log_seconds, relative
from hostbench.judge.changepoint.evidence import MEDIAN_VARIANCE
from hostbench.judge.rank_test import ALPHA, shift

Verdict = Literal["same", "faster", "slower", "undecided"]

FALSE_DISCOVERY_RATE = 0.005
"""Of what is called in a table. The drift of real runs has heavier tails than Student's: with this
at most 1 % of the unchanged series are called there, too."""
LEAST_RUNS, LEVEL_RUNS = 5, 20
"""Runs that a level needs, and the newest of them that it is the median of."""
SEARCHED_RUNS = 60
"""Runs before a side in which its last step is looked for: its level begins there."""
MIN_EFFECT = 0.02
MIN_SECONDS = 50e-9
"""A smaller change is never called one, however sure: the order of code in memory makes such."""
SAME_WITHIN = 0.05
"""An interval inside plus and minus this is called the same where it holds 0, too, or does not
reach what may be called."""
LEAST_VARIANCE = 1e-6
"""Of the logarithm: runs that agree to 0.1 % say nothing of how exact the next will be."""
NO_NUMBER = "no number on one side"

KeyT = TypeVar("KeyT", bound=Hashable)
RunsOfLaunches = Sequence[Sequence[float]]
"""Runs, each the seconds of its launches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSides:
    """One series on both sides. Seconds that are not positive are left out."""

    first: RunsOfLaunches
    second: RunsOfLaunches
    before: Sequence[float] = ()
    """Seconds of the runs before the older side, the oldest first."""
    apart: RunsOfLaunches = ()
    """Seconds of still earlier runs, a list for each level that they had: they say how much runs
    differ, and nothing of the level now."""
    older: Literal[0, 1] = 0
    """Which side that is. It may have no runs of its own: then the level of those before it is."""
    interleaved: tuple[RunsOfLaunches, RunsOfLaunches] | None = None
    """Of the same runs those whose launches were interleaved with the other side's."""
    machine: str = ""
    """Its series say together how much runs differ."""
    in_bytes: bool = False
    is_confounded: bool = False
    """The sides differ in more than what is compared."""


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
    is_provisional: bool = False
    """The sides differ in more than what is compared."""
    spread: float | None = None
    """How far the observations of one side lie apart, of the side where they do more: 0.4 is a
    slowest one that took 40 % longer than the fastest. None without numbers."""
    why: str
    """Why undecided; empty otherwise."""

    lacks_runs: int = 0
    """Runs that must be added for a verdict."""

    @property
    def has_few(self) -> bool:
        """Fewer launches than a verdict needs, or fewer runs."""
        few_launches = self.unit == "launch" and min(self.num) < MIN_LAUNCHES
        return few_launches or self.lacks_runs > 0

    @property
    def detectable(self) -> float | None:
        """Half of the interval: about the smallest change that these observations show."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


def compare(table: Mapping[KeyT, TwoSides]) -> dict[KeyT, Comparison]:
    """Judge all series of a table together."""
    results = _by_runs({key: both for key, both in table.items() if both.interleaved is None})
    for key, both in table.items():
        if both.interleaved is not None:
            results[key] = _by_launches(*both.interleaved)
    large = {key: is_large(one, table[key].in_bytes) for key, one in results.items()}
    known = {key: one.p_value for key, one in results.items() if one.p_value is not None}
    limit = _limit(p_value if large[key] else 1.0 for key, p_value in known.items())
    return {
        key: replace(
            _decided(results[key], large[key] and known.get(key, 1.0) <= limit, both.in_bytes),
            is_provisional=both.is_confounded,
        )
        for key, both in table.items()
    }


def _by_launches(first: RunsOfLaunches, second: RunsOfLaunches) -> Comparison:
    """Everything but the verdict, which depends on the table."""
    left, right = (_logs(s for run in side for s in run).tolist() for side in (first, second))
    num = len(left), len(right)
    if min(num) == 0:
        return Comparison(num=num, why=NO_NUMBER)
    estimated = shift(left, right, ALPHA)
    is_few, has_interval = min(num) < MIN_LAUNCHES, math.isfinite(estimated.low)
    return Comparison(
        effect=relative(estimated.estimate),
        low=relative(estimated.low) if has_interval else None,
        high=relative(estimated.high) if has_interval else None,
        p_value=None if is_few else estimated.p_value,
        num=num,
        before=math.exp(median(left)),
        after=math.exp(median(right)),
        spread=_spread(left, right),
        why=f"{num[0]} and {num[1]} launches: {MIN_LAUNCHES} a side are needed" if is_few else "",
    )


def _by_runs(table: Mapping[KeyT, TwoSides]) -> dict[KeyT, Comparison]:
    """Everything but the verdict."""
    sides = dict(zip(table, _levels([*table.values()]), strict=True))
    results, of_machine = dict[KeyT, Comparison](), defaultdict[str, list[KeyT]](list)
    for key, (first, second, *apart) in sides.items():
        num = len(first), len(second)
        if min(num) == 0:
            results[key] = Comparison(num=num, unit="run", why=NO_NUMBER)
            continue
        more = max(0, LEAST_RUNS - 1 - round(_degrees(first, second, *apart)))
        results[key] = Comparison(
            effect=relative(_height(first, second)),
            num=num,
            unit="run",
            before=math.exp(_middle(first)),
            after=math.exp(_middle(second)),
            spread=_spread(first, second),
            lacks_runs=more,
            why=f"made one after the other; `hostbench ab` or {more} more runs decide" * (more > 0),
        )
        if not more:
            of_machine[table[key].machine].append(key)
    for keys in of_machine.values():
        judged = _of_machine([sides[key] for key in keys])
        for key, (low, high, p_value) in zip(keys, judged, strict=True):
            results[key] = replace(results[key], low=low, high=high, p_value=p_value)
            if _contradicts(table[key], results[key]):
                why = "the older side's own runs do not lie at the level of those before"
                results[key] = replace(results[key], p_value=1.0, why=why)
    return results


_RunLogs = tuple[Floats, ...]
"""The runs of each side, and of each level apart; one logarithm a run."""


def _levels(table: Sequence[TwoSides]) -> Iterator[_RunLogs]:
    """Where the older side has too few runs for a level those before it join them, from the last
    step on; what is before that step is apart."""
    own = [tuple(_logs(map(_median, side)) for side in (both.first, both.second)) for both in table]
    wide = [
        np.concatenate([_logs(both.before)[-SEARCHED_RUNS:], runs[both.older]])
        for both, runs in zip(table, own, strict=True)
    ]
    for both, (first, second), runs, judgement in zip(table, own, wide, judge(wide), strict=True):
        apart = [_logs(level)[-LEVEL_RUNS:] for level in both.apart]
        if len((first, second)[both.older]) >= LEAST_RUNS:
            yield first, second, *apart
            continue
        steps = [index for one in judgement.changes for index in (one.index, one.until) if index]
        *before, level = np.split(runs, sorted(steps))
        level, apart = level[-LEVEL_RUNS:], [*apart, *before]
        yield (first, level, *apart) if both.older else (level, second, *apart)


def _degrees(*groups: Floats) -> float:
    """Degrees of freedom of the variance around the mean of each group."""
    return float(sum(max(0, len(runs) - 1) for runs in groups))


def _of_machine(series: Sequence[_RunLogs]) -> Iterator[tuple[float, float, float]]:
    """(end of the interval, the other end, p-value) of each series of a machine."""
    degrees = np.array([_degrees(*groups) for groups in series])
    squares = np.array([sum(len(g) * float(g.var()) for g in own if len(g)) for own in series])
    variance, freedom = moderated.shrunk(np.maximum(squares / degrees, LEAST_VARIANCE), degrees)
    num = np.array([(len(first), len(second)) for first, second, *_ in series], dtype=float)
    of_median = np.where(num < 3, 1.0, MEDIAN_VARIANCE) / num
    error = np.sqrt(variance * of_median.sum(axis=1))
    height = np.array([_height(first, second) for first, second, *_ in series])
    p_values = moderated.p_value(height / error, freedom).tolist()
    half = moderated.quantile(ALPHA, freedom) * error
    for low, high, p_value in zip(height - half, height + half, p_values, strict=True):
        yield relative(float(low)), relative(float(high)), p_value


def _contradicts(both: TwoSides, level: Comparison) -> bool:
    """Whether the sides' own runs do not show half of what differs from the level: then the older
    side had left it already."""
    first, second = (_logs(map(_median, side)) for side in (both.first, both.second))
    if not len(first) or not len(second) or not is_large(level, both.in_bytes):
        return False
    assert level.effect is not None
    return _height(first, second) / math.log1p(level.effect) < 0.5


def _median(run: Sequence[float]) -> float:
    seconds = [s for s in run if s > 0 and math.isfinite(s)]
    return median(seconds) if seconds else math.nan


def _logs(seconds: Iterable[float]) -> Floats:
    logs = log_seconds([*seconds])
    return logs[np.isfinite(logs)]


def _middle(logs: Floats) -> float:
    return median(logs.tolist())


def _height(first: Floats, second: Floats) -> float:
    return _middle(second) - _middle(first)


def _spread(first: Sequence[float] | Floats, second: Sequence[float] | Floats) -> float:
    return max(relative(float(max(side) - min(side))) for side in (first, second))


def _limit(p_values: Iterable[float]) -> float:
    """The largest p-value that still counts (Benjamini and Hochberg); 0 where none does. What is
    too small to be called counts as 1, or the many sure ones among these would let in others that
    are not."""
    ordered = sorted(p_values)
    ranked = enumerate(ordered, start=1)
    return max(
        (p for rank, p in ranked if p <= rank / len(ordered) * FALSE_DISCOVERY_RATE), default=0.0
    )


def is_large(one: Comparison, in_bytes: bool = False) -> bool:
    """Whether a change is as large as one must be to be called."""
    return one.effect is not None and abs(one.effect) >= _least(one, in_bytes)


def _least(one: Comparison, in_bytes: bool) -> float:
    """The smallest relative change that may be called."""
    if in_bytes or not one.before:
        return MIN_EFFECT
    return max(MIN_EFFECT, MIN_SECONDS / one.before)


def _decided(one: Comparison, is_called: bool, in_bytes: bool) -> Comparison:
    if one.why or one.effect is None:
        return one
    if is_called:
        return replace(one, verdict="slower" if one.effect > 0 else "faster")
    if one.low is None or one.high is None:
        return replace(one, why="too few for an interval")
    within = SAME_WITHIN
    if not one.low <= 0 <= one.high:
        within = min(within, _least(one, in_bytes))
    if max(-one.low, one.high) <= within:
        return replace(one, verdict="same")
    if MIN_EFFECT <= abs(one.effect) < _least(one, in_bytes):
        return replace(one, why=f"less than {format_seconds(MIN_SECONDS)} is never called")
    which = "launches" if one.unit == "launch" else "runs"
    return replace(one, why=f"{which} differ by {one.spread:.0%}")


def half(effect: float) -> float:
    """Half of a step, on the logarithm: what lies beyond it has the step."""
    return math.expm1(math.log1p(effect) / 2)


def side_of(comparison: Comparison, threshold: float) -> Literal["good", "bad", "undecided"]:
    """Where a code lies that was compared with a good one, by the 99 % interval of its effect.

    `threshold` is relative: from 0.05 on it is bad, or below -0.05 where faster is what is sought.
    """
    if comparison.low is None or comparison.high is None:
        return "undecided"
    low, high = comparison.low / threshold, comparison.high / threshold
    if min(low, high) > 1:
        return "bad"
    return "good" if max(low, high) < 1 else "undecided"
