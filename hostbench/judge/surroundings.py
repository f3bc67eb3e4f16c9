"""What else moved where something did, and what did not: what causes are weighed by."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hostbench.facts.causes import Difference
from hostbench.judge.events import DetectedEvent, Judged
from hostbench.judge.prune import TEMPORARY_POINTS

Differing = tuple[Difference, ...] | None
"""Possible causes, the likeliest first; None where a side has no facts."""

HALF = 0.5
"""Of the step: what a point measured again must show of it to have moved as well."""
EACH_SIDE = 8
"""Points that a series on another machine needs on both sides to have passed a commit."""
SHORTEST = TEMPORARY_POINTS[0]
"""Points that it needs within a temporary event to have passed that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What else moved where a series or a machine did, and what did not."""

    machine: bool = False
    """Of a series: its machine has an event of its own there."""
    others: tuple[int, int] = (0, 0)
    """Other series of the machine that moved the same way, of those with points."""
    against: int = 0
    """Of these, how many moved the other way."""
    elsewhere: tuple[str, ...] = ()
    """Machines on which the same series moved the same way at these commits."""
    same_facts: tuple[str, ...] = ()
    """Machines on which it did where a fact that differs here changed to the same: no evidence for
    the code."""
    passed: tuple[str, ...] = ()
    """Machines whose same series passed these commits, and could have shown such a step."""
    again: tuple[int, int] = (0, 0)
    """Points of older commits measured again since: how many moved like the step, how many did not.
    """
    is_over: bool = False
    """The old level came back."""


def look(
    found: DetectedEvent,
    own: Judged,
    judged: Sequence[Judged],
    facts: Callable[[DetectedEvent], Differing] = lambda _: None,
) -> Surroundings:
    """What else moved, and what did not, among everything judged on the same axis; `facts` are
    those that differ across an event."""
    beside = [one for one in own.found if one is not found and _together(one, found)]
    alike, against = (
        {one.series for one in beside if one.change.effect * found.change.effect * way > 0}
        - {None, found.series}
        for way in (1, -1)
    )
    others = (len(alike), _with_points(found, own))
    if found.series is None:
        others = found.moved or (0, 0)
    moved, passed = _other_machines(found, own, judged)
    here, groups = facts(found) if moved else None, [one.grid.group for one in moved]
    rolled_out = {one.grid.group for one in moved if _share(here, facts(one))}
    return Surroundings(
        machine=found.series is not None and any(one.series is None for one in beside),
        others=others,
        against=0 if found.series is None else len(against - alike),
        elsewhere=tuple(group for group in groups if group not in rolled_out),
        same_facts=tuple(group for group in groups if group in rolled_out),
        passed=passed,
        again=_again(found),
        is_over=found.status in ("temporary", "recovered"),
    )


def _together(one: DetectedEvent, other: DetectedEvent) -> bool:
    """Whether two events of one grid can have begun at the same place."""
    (start, end), (first, last) = one.bounds, other.bounds
    return start < last and first < end and one.change.kind != "break"


def _with_points(found: DetectedEvent, own: Judged) -> int:
    valid, index = np.isfinite(own.grid.logs), found.change.index
    both = valid[:, :index].any(axis=1) & valid[:, index:].any(axis=1)
    return int(both.sum()) - (found.series is not None)


def _other_machines(
    found: DetectedEvent, own: Judged, judged: Sequence[Judged]
) -> tuple[list[DetectedEvent], tuple[str, ...]]:
    """(where the same moved at the same commits, groups that passed them)."""
    moved, passed = [], []
    for other in judged:
        series = _row_of(found, other)
        if other is own or other.grid.machine == own.grid.machine or series == -1:
            continue
        events = [one for one in other.found if one.series in (series, None)]
        same = [one for one in events if one.series == series and _is_same(one, found)]
        if same:
            moved.append(same[0])
        elif not any(_overlap(one, found) for one in events) and _could_show(found, other, series):
            passed.append(other.grid.group)
    return moved, tuple(passed)


def _share(here: Differing, there: Differing) -> bool:
    """Whether a fact changed to the same across both."""
    values = [{(one.name, one.after) for one in facts or ()} for facts in (here, there)]
    return not values[0].isdisjoint(values[1])


def _is_same(one: DetectedEvent, other: DetectedEvent) -> bool:
    """Whether two steps, or two temporary events, of one series on two machines are one: in the
    same direction, at commits as near as both places are sure."""
    alike = one.change.kind == other.change.kind
    return alike and one.change.effect * other.change.effect > 0 and _overlap(one, other)


def _overlap(one: DetectedEvent, other: DetectedEvent) -> bool:
    """A temporary event lasts until it is over."""
    (start, end), (first, last) = _stretch(one), _stretch(other)
    return start < last and first < end


def _stretch(one: DetectedEvent) -> tuple[pd.Timestamp, pd.Timestamp]:
    start, end = one.span
    over = one.change.until
    return start, end if over is None else one.grid.columns[over].committed_at


def _row_of(found: DetectedEvent, other: Judged) -> int | None:
    """The same series in another grid; None for the machine itself, -1 where there is none."""
    if found.series is None:
        return None
    case = found.grid.cases[found.series]
    return other.grid.cases.index(case) if case in other.grid.cases else -1


def _could_show(found: DetectedEvent, other: Judged, series: int | None) -> bool:
    judgement = other.machine.common if series is None else other.machine.own[series]
    if judgement is None or judgement.detectable is None:
        return False
    logs = other.grid.logs if series is None else other.grid.logs[[series]]
    start, end = _stretch(found)
    valid = np.flatnonzero(np.isfinite(logs).any(axis=0))
    dates = [other.grid.columns[i].committed_at for i in valid]
    each_side = sum(date <= start for date in dates), sum(date >= end for date in dates)
    within = sum(start < date < end for date in dates)
    is_measured = found.change.until is None or within >= SHORTEST
    enough = is_measured and min(each_side) >= EACH_SIDE
    return enough and judgement.detectable <= abs(found.change.effect)


def _again(found: DetectedEvent) -> tuple[int, int]:
    """Of points of commits from before the step, measured again after it: moved, stayed."""
    if found.series is None:
        own = list(found.grid.reruns)
    else:
        own = [one for one in found.grid.reruns if one.series == found.series]
    around = found.around()
    newest = around[0].committed_at
    old = {column.commit for column in found.grid.columns if column.committed_at <= newest}
    since = max(column.started_at for column in around)
    ratios = [one.ratio for one in own if one.commit in old and one.started_at >= since]
    moved = sum(ratio / found.change.height >= HALF for ratio in ratios)
    return moved, len(ratios) - moved
