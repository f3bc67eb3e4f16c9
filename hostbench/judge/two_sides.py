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
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import numpy as np
from msgspec import Struct, structs

from hostbench.core.arrays import Floats
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.core.units import format_seconds, number_of
from hostbench.judge import moderated
from hostbench.judge.changepoint.detector import judge, log_seconds, relative
from hostbench.judge.changepoint.evidence import MEDIAN_VARIANCE
from hostbench.judge.rank_test import ALPHA, shift

Verdict = Literal["same", "faster", "slower", "undecided"]
CHANGED: tuple[Verdict, ...] = ("slower", "faster")
Lacking = Literal["failed", "skipped", "not measured", "other version", "new", "not judged"]
"""Why a series is not judged: on the second side it failed, was skipped, was not measured or has
another version; only that side has a number (`new`); or what is stored cannot be judged."""

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

KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSides:
    """One series on both sides: seconds, or bytes. What is not positive is left out."""

    first: Sequence[float] = ()
    second: Sequence[float] = ()
    """One number a run."""
    before: Sequence[float] = ()
    """Of up to SEARCHED_RUNS runs before the older side, the oldest first."""
    resets: Sequence[int] = ()
    """Indexes into `before`, above 0, where another level is known to begin."""
    older: Literal[0, 1] = 0
    """Which side that is. It may have no runs of its own: then the level of those before it is."""
    interleaved: tuple[Sequence[float], Sequence[float]] | None = None
    """The launches of each side, if interleaved with the other side's: then nothing else counts."""
    machine: str = ""
    """Its series say together how much runs differ. Empty where machines are compared."""
    in_bytes: bool = False


class Comparison(Struct, frozen=True, kw_only=True):
    """What became of one series."""

    verdict: Verdict | Lacking = "undecided"
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
    """Medians of the observations of each side; None on a side that has none."""
    spread: float | None = None
    """How far the observations of one side lie apart, of the side where they do more: 0.4 is a
    slowest one that took 40 % longer than the fastest. None without numbers."""
    in_bytes: bool = False
    why: str = ""
    """Why it is undecided or not judged; of a night its cause."""
    cause: str = ""
    """Of a series that moved in a night: what moved it, a NightCause (store.nights)."""

    @property
    def least(self) -> float:
        """The smallest relative change that may be called."""
        clock = 0.0 if self.in_bytes or not self.before else MIN_SECONDS / self.before
        return max(MIN_EFFECT, clock)

    @property
    def is_large(self) -> bool:
        """Whether the change is as large as one must be to be called."""
        return self.effect is not None and abs(self.effect) >= self.least


def compare(table: Mapping[KeyT, TwoSides]) -> dict[KeyT, Comparison]:
    """Judge all series of a table together."""
    logs = _logs_of(table)
    judged, of_machine = dict[KeyT, Comparison](), defaultdict[str, list[KeyT]](list)
    for key, sides in table.items():
        judged[key] = _observed(sides, logs[key])
        if sides.interleaved is None and not judged[key].why:
            of_machine[sides.machine].append(key)
    for keys in of_machine.values():
        for key, interval in zip(keys, _by_runs([logs[key] for key in keys]), strict=True):
            low, high, p_value = interval
            why = _contradiction(table[key], judged[key])
            judged[key] = structs.replace(judged[key], low=low, high=high, p_value=p_value, why=why)
    # What is too small to be called counts as 1, or the many sure ones among these would let in
    # others that are not.
    p_values = sorted(
        (one.p_value if one.is_large and not one.why else 1.0)
        for one in judged.values()
        if one.p_value is not None
    )
    limit = 0.0
    for rank, p_value in enumerate(p_values, start=1):  # Benjamini and Hochberg
        if p_value <= rank / len(p_values) * FALSE_DISCOVERY_RATE:
            limit = p_value
    return {key: _decided(judged[key], limit) for key in table}


_Logs = tuple[Floats, ...]
"""The observations of each side, then the runs of each earlier level; logarithms."""


def _logs_of(table: Mapping[KeyT, TwoSides]) -> dict[KeyT, _Logs]:
    """Where the older side has too few runs for a level those before it join them, from the last
    step on; the levels before that say only how much runs differ."""
    logs, wide = dict[KeyT, _Logs](), dict[KeyT, Floats]()
    for key, sides in table.items():
        logs[key] = tuple(map(_logs, sides.interleaved or (sides.first, sides.second)))
        older = logs[key][sides.older]
        if sides.interleaved is None and len(older) < LEAST_RUNS:
            wide[key] = np.concatenate([_logs(sides.before), older])
    resets = [table[key].resets for key in wide]
    for (key, runs), known, judgement in zip(
        wide.items(), resets, judge([*wide.values()], resets), strict=True
    ):
        steps = {index for step in judgement.changes for index in (step.index, step.until) if index}
        *earlier, level = np.split(runs, sorted(steps.union(known)))
        ends = [*logs[key]]
        ends[table[key].older] = level[-LEVEL_RUNS:]
        logs[key] = (*ends, *earlier)
    return logs


def _observed(sides: TwoSides, logs: _Logs) -> Comparison:
    """What there is to say of the observations, of launches also their interval, before the table
    is judged; `why` they cannot be."""
    first, second, *_ = logs
    observed = Comparison(
        num=(len(first), len(second)),
        unit="run" if sides.interleaved is None else "launch",
        in_bytes=sides.in_bytes,
    )
    if not all(observed.num):
        return structs.replace(observed, verdict="not judged", why="no number on one side")
    observed = structs.replace(
        observed,
        effect=relative(_height(first, second)),
        before=math.exp(median(first.tolist())),
        after=math.exp(median(second.tolist())),
        spread=max(relative(float(side.max() - side.min())) for side in (first, second)),
    )
    if sides.interleaved is None:
        lacks = max(0, LEAST_RUNS - 1 - _degrees(logs))
        more = f"{number_of(lacks, 'more run')} (not scratch)"
        more += f"{' or both interleaved' * bool(sides.machine)} will decide"
        return structs.replace(observed, why=f"made one after the other; {more}" if lacks else "")
    if min(observed.num) < MIN_LAUNCHES:
        why = f"{len(first)} and {len(second)} launches: {MIN_LAUNCHES} a side are needed"
        return structs.replace(observed, verdict="not judged", why=why)
    *heights, p_value = shift(first.tolist(), second.tolist())
    effect, low, high = map(relative, heights)
    return structs.replace(observed, effect=effect, low=low, high=high, p_value=p_value)


def _by_runs(series: Sequence[_Logs]) -> Iterator[tuple[float, float, float]]:
    """(end of the interval, the other end, p-value) of each series of a machine."""
    degrees = np.array([_degrees(logs) for logs in series], dtype=float)
    squares = np.array([sum(len(g) * float(g.var()) for g in logs if len(g)) for logs in series])
    variance, freedom = moderated.shrunk(np.maximum(squares / degrees, LEAST_VARIANCE), degrees)
    num = np.array([(len(first), len(second)) for first, second, *_ in series], dtype=float)
    of_median = np.where(num < 3, 1.0, MEDIAN_VARIANCE) / num
    error = np.sqrt(variance * of_median.sum(axis=1))
    height = np.array([_height(first, second) for first, second, *_ in series])
    p_values = moderated.p_value(height / error, freedom).tolist()
    half_width = moderated.quantile(ALPHA, freedom) * error
    for low, high, p_value in zip(height - half_width, height + half_width, p_values, strict=True):
        yield relative(float(low)), relative(float(high)), p_value


def _degrees(logs: _Logs) -> int:
    """Degrees of freedom of the variance around the mean of each group."""
    return sum(max(0, len(runs) - 1) for runs in logs)


def _contradiction(sides: TwoSides, comparison: Comparison) -> str:
    """Why a change is none: the sides' own runs do not show half of what differs from the level, so
    that the older side had left it already."""
    first, second = _logs(sides.first), _logs(sides.second)
    if comparison.is_large and len(first) and len(second):
        if _height(first, second) / math.log1p(comparison.effect or 0.0) < 0.5:
            return "the older side's own runs do not lie at the level of those before"
    return ""


def _logs(seconds: Sequence[float]) -> Floats:
    logs = log_seconds(seconds)
    return logs[np.isfinite(logs)]


def _height(first: Floats, second: Floats) -> float:
    return median(second.tolist()) - median(first.tolist())  # numpy is slow for so few


def _decided(comparison: Comparison, limit: float) -> Comparison:
    """With its verdict, or with why there is none."""
    effect, low, high = comparison.effect, comparison.low, comparison.high
    if comparison.why or effect is None or low is None or high is None:
        return comparison
    if comparison.is_large and comparison.p_value is not None and comparison.p_value <= limit:
        return structs.replace(comparison, verdict="slower" if effect > 0 else "faster")
    within = SAME_WITHIN if low <= 0 <= high else min(SAME_WITHIN, comparison.least)
    if max(-low, high) <= within:
        return structs.replace(comparison, verdict="same")
    if not low <= 0 <= high or MIN_EFFECT <= abs(effect) < comparison.least:
        few = f"less than {MIN_EFFECT:.0%} or {format_seconds(MIN_SECONDS)} is never called"
        sure = f"may be chance: false alarms are held to {FALSE_DISCOVERY_RATE:.1%}"
        return structs.replace(comparison, why=sure if comparison.is_large else few)
    observations = "launches" if comparison.unit == "launch" else "runs"
    return structs.replace(comparison, why=f"{observations} differ by {comparison.spread:.0%}")


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
