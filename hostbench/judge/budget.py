"""Which series get the time that is left: those whose smallest detectable change is the largest.
Pure functions of numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.judge.compare import Comparison, compare
from hostbench.judge.night import LaunchesOf, SeriesName, sides
from hostbench.judge.sequential import half_width

SPARE = 1.2
"""Times the seconds that a launch took before: what is planned for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bought:
    """What more launches of some series have changed."""

    num_series: int
    before: float
    after: float
    """The change from which on half of them tell it, relative."""


def smallest_change(one: Comparison) -> float:
    """A smaller change would not be told. Infinite without an interval."""
    half = half_width(one)
    return math.inf if half is None else half


def fitting(
    cases: Sequence[str],
    measured_at: Mapping[str, float],
    seconds: float,
    launch_s: float,
    most: int,
) -> tuple[int, tuple[str, ...]]:
    """(launches, cases) that fit into that time, where a launch of a case takes `launch_s`: all
    cases with up to `most` launches; where MIN_LAUNCHES of all are too many, the cases that were
    measured longest ago, or never (`measured_at`: seconds since the epoch)."""
    room = int(seconds / (launch_s * SPARE)) if launch_s > 0 else most * len(cases)
    launches = min(most, room // len(cases))
    if launches >= MIN_LAUNCHES:
        return launches, tuple(cases)
    num = max(1, room // MIN_LAUNCHES)
    oldest = set(sorted(cases, key=lambda case: measured_at.get(case, 0.0))[:num])
    return MIN_LAUNCHES, tuple(case for case in cases if case in oldest)


def worst(
    before: LaunchesOf, tonight: LaunchesOf, seconds: float, launch_s: float
) -> tuple[SeriesName, ...]:
    """The series whose smallest detectable change is the largest, the worst first: as many as
    MIN_LAUNCHES more of each fit into that time, where one took `launch_s`."""
    num = int(seconds / (launch_s * MIN_LAUNCHES * SPARE)) if launch_s > 0 else 0
    found = compare(sides(before, tonight))
    order = sorted(found, key=lambda name: (-smallest_change(found[name]), name))
    return tuple(order[:num])


def bought(before: LaunchesOf, tonight: LaunchesOf, more: LaunchesOf) -> Bought | None:
    """What `more` launches beside tonight's tell of the same series; None of none."""
    own = {name: tonight[name] for name in more if name in tonight and name in before}
    pooled = {name: [*tonight[name], *more[name]] for name in own}
    if not own:
        return None
    first, second = (compare(sides(before, one)) for one in (own, pooled))
    return Bought(
        num_series=len(own),
        before=median([smallest_change(one) for one in first.values()]),
        after=median([smallest_change(one) for one in second.values()]),
    )
