"""What else moved where something did, and what did not: what causes are weighed by."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hostbench.core.arrays import Floats
from hostbench.facts.causes import Difference
from hostbench.judge.changepoint.levels import Bools, Integers
from hostbench.judge.changepoint.prune import TEMPORARY_POINTS
from hostbench.judge.events import DetectedEvent, Judged
from hostbench.judge.grid import Rerun

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


class Everything:
    """Everything that was judged on one axis, so that what else moved is found without a search
    through all of it."""

    def __init__(self, judged: Sequence[Judged]) -> None:
        self._grids = [_Indexed(one) for one in judged]

    def look(
        self,
        found: DetectedEvent,
        own: Judged,
        facts: Callable[[DetectedEvent], Differing] = lambda _: None,
    ) -> Surroundings:
        """What else moved, and what did not, around an event of `own`, which is one of those that
        were judged; `facts` are those that differ across an event."""
        (here,) = (one for one in self._grids if one.judged is own)
        with_machine, others, against = here.beside(found)
        if found.series is None:
            with_machine, others, against = False, found.moved or (0, 0), 0
        moved, passed = self._other_machines(found, here)
        shared, groups = facts(found) if moved else None, [one.grid.group for one in moved]
        rolled_out = {one.grid.group for one in moved if _share(shared, facts(one))}
        return Surroundings(
            machine=with_machine,
            others=others,
            against=against,
            elsewhere=tuple(group for group in groups if group not in rolled_out),
            same_facts=tuple(group for group in groups if group in rolled_out),
            passed=passed,
            again=here.again(found),
            is_over=found.status in ("temporary", "recovered"),
        )

    def _other_machines(
        self, found: DetectedEvent, own: "_Indexed"
    ) -> tuple[list[DetectedEvent], tuple[str, ...]]:
        """(where the same moved at the same commits, groups that passed them)."""
        stretch = own.stretch(found)
        case = None if found.series is None else found.grid.cases[found.series]
        moved, passed = [], []
        for other in self._grids:
            if other.machine == own.machine or not (case is None or case in other.rows):
                continue
            series = None if case is None else other.rows[case]
            there = [one for one in other.events[series] if _overlap(other.stretch(one), stretch)]
            same = [one for one in there if _is_same(one, found)]
            if same:
                moved.append(same[0])
                continue
            if series is not None:
                machines = other.events[None]
                there += [one for one in machines if _overlap(other.stretch(one), stretch)]
            if not there and other.could_show(found, stretch, series):
                passed.append(other.judged.grid.group)
        return moved, tuple(passed)


class _Indexed:
    """One judged grid: its events by series and by place, its cases, its dates as numbers."""

    def __init__(self, judged: Judged) -> None:
        grid, found = judged.grid, judged.found
        self.judged, self.machine = judged, grid.machine
        self.rows = {case: row for row, case in enumerate(grid.cases)}
        self.events: dict[int | None, list[DetectedEvent]] = defaultdict(list)
        for one in found:
            self.events[one.series].append(one)
        self._reruns: dict[int, list[Rerun]] = defaultdict(list)
        for rerun in grid.reruns:
            self._reruns[rerun.series].append(rerun)
        self._dates = np.array([one.committed_at.value for one in grid.columns], dtype=np.int64)
        rows, columns = np.nonzero(np.isfinite(grid.logs))
        ends = np.flatnonzero(np.diff(rows, prepend=-1, append=len(grid.cases)))
        self._first, self._last = np.sort(columns[ends[:-1]]), np.sort(columns[ends[1:] - 1])
        self._stretches: dict[int, _Stretch] = {}
        """By the id of the event, which `judged` keeps alive."""

    def beside(self, found: DetectedEvent) -> tuple[bool, tuple[int, int], int]:
        """Whether the machine has an event that can have begun at the same place; the other series
        that moved the same way, of how many with points; those that only moved the other way."""
        start, end = found.bounds
        first, last = np.searchsorted(self._starts, (start - self._longest, end))
        there = np.arange(first, last)[self._ends[first:last] > start]
        series, ways = self._series[there], self._ways[there] * np.sign(found.change.effect)
        others = (series != _MACHINE) & (series != found.series)
        alike, against = (set(series[others & (ways == way)].tolist()) for way in (1, -1))
        index = found.change.index
        num = np.searchsorted(self._first, index) - np.searchsorted(self._last, index)
        with_points = int(num) - (found.series is not None)
        return bool((series == _MACHINE).any()), (len(alike), with_points), len(against - alike)

    @cached_property
    def _by_place(self) -> list[DetectedEvent]:
        """Without baseline resets."""
        steps = [one for one in self.judged.found if one.change.kind != "break"]
        return sorted(steps, key=lambda one: one.bounds[0])

    @cached_property
    def _starts(self) -> Integers:
        return np.array([one.bounds[0] for one in self._by_place], dtype=np.int64)

    @cached_property
    def _ends(self) -> Integers:
        return np.array([one.bounds[1] for one in self._by_place], dtype=np.int64)

    @cached_property
    def _longest(self) -> int:
        return int((self._ends - self._starts).max(initial=0))

    @cached_property
    def _series(self) -> Integers:
        rows = (_MACHINE if one.series is None else one.series for one in self._by_place)
        return np.array([*rows], dtype=np.int64)

    @cached_property
    def _ways(self) -> Floats:
        return np.sign([one.change.effect for one in self._by_place])

    def stretch(self, one: DetectedEvent) -> "_Stretch":
        """Commit dates, in ns; a temporary event lasts until it is over."""
        known = self._stretches.get(id(one))
        if known is None:
            dates = self._dates[one.places_around()]
            over = one.change.until
            until = dates.max() if over is None else self._dates[over]
            known = self._stretches[id(one)] = int(dates.min()), int(until)
        return known

    def could_show(self, found: DetectedEvent, stretch: "_Stretch", series: int | None) -> bool:
        machine = self.judged.machine
        judgement = machine.common if series is None else machine.own[series]
        if judgement is None or judgement.detectable is None:
            return False
        if judgement.detectable > abs(found.change.effect):
            return False
        dates = self._dates[self._valid if series is None else self._valid_of(series)]
        start, end = stretch
        each_side = np.count_nonzero(dates <= start), np.count_nonzero(dates >= end)
        within = np.count_nonzero((start < dates) & (dates < end))
        is_measured = found.change.until is None or within >= SHORTEST
        return bool(is_measured and min(each_side) >= EACH_SIDE)

    @cached_property
    def _valid(self) -> Bools:
        return np.asarray(np.isfinite(self.judged.grid.logs).any(axis=0))

    def _valid_of(self, series: int) -> Bools:
        return np.asarray(np.isfinite(self.judged.grid.logs[series]))

    def again(self, found: DetectedEvent) -> tuple[int, int]:
        """Of points of commits from before the step, measured again after it: moved, stayed."""
        grid = found.grid
        own = grid.reruns if found.series is None else self._reruns.get(found.series, ())
        if not own:
            return 0, 0
        around = found.around()
        newest = around[0].committed_at
        old = {column.commit for column in grid.columns if column.committed_at <= newest}
        since = max(column.started_at for column in around)
        ratios = [one.ratio for one in own if one.commit in old and one.started_at >= since]
        moved = sum(ratio / found.change.height >= HALF for ratio in ratios)
        return moved, len(ratios) - moved


_Stretch = tuple[int, int]
_MACHINE = -1


def _share(here: Differing, there: Differing) -> bool:
    """Whether a fact changed to the same across both."""
    values = [{(one.name, one.after) for one in facts or ()} for facts in (here, there)]
    return not values[0].isdisjoint(values[1])


def _is_same(one: DetectedEvent, other: DetectedEvent) -> bool:
    """Whether two overlapping steps, or two temporary events, of one series on two machines are
    one: in the same direction."""
    alike = one.change.kind == other.change.kind
    return alike and one.change.effect * other.change.effect > 0


def _overlap(one: _Stretch, other: _Stretch) -> bool:
    """At commits as near as both places are sure."""
    (start, end), (first, last) = one, other
    return start < last and first < end
