"""What else moved where something did, and what did not: what causes are weighed by."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hostbench.facts.causes import Difference
from hostbench.judge.changepoint.prune import TEMPORARY_POINTS
from hostbench.judge.events import Event, Judged

Differing = tuple[Difference, ...] | None
"""Possible causes, the likeliest first; None where a side has no facts."""
Stretch = tuple[int, int]
"""From one commit date to another, in microseconds."""

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


class Everything:
    """Everything that was judged on one axis: each other's evidence."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self._of = {id(one.grid): _Indexed(one) for one in judged}

    def look(
        self, event: Event, own: Judged, facts: Callable[[Event], Differing] = lambda _: None
    ) -> Surroundings:
        """What else moved, and what did not, around an event of `own`, which is one of those that
        were judged; `facts` are those that differ across an event."""
        here = self._of[id(own.grid)]
        machine, others, against = here.beside(event)
        if not event.case:
            machine, others, against = False, event.moved or (0, 0), 0
        moved, passed = self._other_machines(event, here)
        shared = facts(event) if moved else None
        rolled_out = {other.group for other in moved if _share(shared, facts(other))}
        return Surroundings(
            machine=machine,
            others=others,
            against=against,
            elsewhere=tuple(one.group for one in moved if one.group not in rolled_out),
            same_facts=tuple(one.group for one in moved if one.group in rolled_out),
            passed=passed,
            again=here.again(event),
            is_over=event.status in ("temporary", "recovered"),
        )

    def _other_machines(self, event: Event, own: "_Indexed") -> tuple[list[Event], tuple[str, ...]]:
        """(where the same moved at the same commits, groups that passed them)."""
        moved, passed, stretch = list[Event](), list[str](), own.stretch(event)
        for other in self._of.values():
            if other.grid.machine == own.grid.machine or event.case not in other.rows:
                continue
            there = [e for e in other.events[event.case] if _overlap(other.stretch(e), stretch)]
            same = [e for e in there if e.kind == event.kind and e.effect * event.effect > 0]
            moved += same[:1]
            by_machine = other.events[""] if event.case else []
            if not (there or any(_overlap(other.stretch(e), stretch) for e in by_machine)):
                if other.could_show(event, stretch):
                    passed.append(other.grid.group)
        return moved, tuple(passed)


class _Indexed:
    """One judged grid: its events by series and as arrays, its dates as numbers."""

    def __init__(self, judged: Judged) -> None:
        self.judged, self.grid = judged, judged.grid
        self.rows = {"": -1} | {case: row for row, case in enumerate(self.grid.cases)}
        """Of the grid; the machine itself has none."""
        self.events = defaultdict[str, list[Event]](list)
        for event in judged.events:
            self.events[event.case].append(event)
        steps = [event for event in judged.events if not event.is_reset]
        self._bounds = np.array([e.bounds for e in steps], dtype=np.int64).reshape(-1, 2)
        self._series = np.array([self.rows[e.case] for e in steps], dtype=np.int64)
        self._ways = np.sign([e.effect for e in steps])
        dates = (column.committed_at.timestamp() for column in self.grid.columns)
        self._dates = np.array([round(at * 1e6) for at in dates], dtype=np.int64)
        self._valid = np.isfinite(self.grid.logs)
        number = np.where(self._valid, np.arange(len(self.grid.columns)), -1)
        self._last = number.max(axis=1, initial=-1)
        self._first = np.where(self._valid.any(axis=1), self._valid.argmax(axis=1), -1)

    def beside(self, event: Event) -> tuple[bool, tuple[int, int], int]:
        """Whether the machine has an event that can have begun at the same place; the other series
        that moved the same way, of how many with points; those that only moved the other way."""
        start, end = event.bounds
        there = (self._bounds[:, 0] < end) & (self._bounds[:, 1] > start)
        series, ways = self._series[there], self._ways[there] * np.sign(event.effect)
        others = (series >= 0) & (series != self.rows[event.case])
        alike, against = (set(series[others & (ways == way)].tolist()) for way in (1, -1))
        num = int(((self._first < event.index) & (self._last >= event.index)).sum())
        has_machine = bool((series < 0).any())
        return has_machine, (len(alike), num - (event.case != "")), len(against - alike)

    def stretch(self, event: Event) -> Stretch:
        """Commit dates; a temporary event lasts until it is over."""
        dates = [round(point.committed_at.timestamp() * 1e6) for point in event.around]
        until = event.until_index
        return min(dates), max(dates) if until is None else int(self._dates[until])

    def could_show(self, event: Event, stretch: Stretch) -> bool:
        """Whether a step of that size would have been seen here."""
        row, machine = self.rows[event.case], self.judged.machine
        judgement = machine.common if row < 0 else machine.own[row]
        if judgement is None or judgement.detectable is None:
            return False
        if judgement.detectable > abs(event.effect):
            return False
        valid = self._valid.any(axis=0) if row < 0 else self._valid[row]
        dates, (start, end) = self._dates[valid], stretch
        each_side = np.count_nonzero(dates <= start), np.count_nonzero(dates >= end)
        within = np.count_nonzero((start < dates) & (dates < end))
        is_measured = event.until_index is None or within >= SHORTEST
        return bool(is_measured and min(each_side) >= EACH_SIDE)

    def again(self, event: Event) -> tuple[int, int]:
        """Of points of commits from before the step, measured again after it: moved, stayed."""
        row, newest = self.rows[event.case], event.around[0].committed_at
        since = max(point.started_at for point in event.around)
        old = {p.commit for p in self.grid.columns if p.committed_at <= newest}
        ratios = [
            rerun.ratio
            for rerun in self.grid.reruns
            if row in (-1, rerun.series) and rerun.commit in old and rerun.started_at >= since
        ]
        moved = sum(ratio / event.height >= HALF for ratio in ratios)
        return moved, len(ratios) - moved


def _share(here: Differing, there: Differing) -> bool:
    """Whether a fact changed to the same across both."""
    values = [{(one.name, one.after) for one in facts or ()} for facts in (here, there)]
    return not values[0].isdisjoint(values[1])


def _overlap(one: Stretch, other: Stretch) -> bool:
    """At commits as near as both places are sure."""
    (start, end), (first, last) = one, other
    return start < last and first < end
