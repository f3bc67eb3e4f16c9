"""Changes of a grid as events: since when, from what to what, and whether it is over.

Pure functions of grids and judgements.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hostbench.core.arrays import Floats
from hostbench.judge.changepoint.change import Change, Judgement
from hostbench.judge.changepoint.detector import SETTLED, relative
from hostbench.judge.changepoint.evidence import MEDIAN_VARIANCE
from hostbench.judge.changepoint.machine import JudgedMachine, judge_machine
from hostbench.judge.grid import Grid, GridColumn
from hostbench.store.triage import EventName

Places: TypeAlias = NDArray[np.intp]
EventStatus = Literal["provisional", "confirmed", "recovered", "ended", "temporary", "break"]
"""recovered: a later level is back. ended: a baseline reset followed, so nobody can tell now."""

MACHINE = "machine:"
"""What the ids of the machines' own events begin with."""
MOVED_POINTS = 8
"""Points on each side of a machine's step that tell whether a series moved with it."""
MOVED_SHARE = 0.5
"""Share of the step that it went if it did."""
RECOVERED = 0.4
"""Share of the step that may be left for the level to be called back."""
FURTHEST = 8
"""Points that a step may have been misplaced by, at most."""
MISPLACED = 8.0
"""Times the squared noise over the squared step: points within which nearly every step is found."""
INTERVAL_SIGMAS = 2.576
"""99 % of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectedEvent:
    """One change, over the archive."""

    event: EventName
    change: Change
    status: EventStatus
    grid: Grid
    series: int | None
    """Row of the grid; None for the machine itself."""
    points: Places = field(compare=False, repr=False)
    """Columns that the series has points in; all events of a series share it."""
    place: int
    """Which of `points` is the first at the new level."""
    slack: int
    """Points by which `place` may be off."""
    bounds: tuple[int, int]
    """The columns that `around` begins and ends with."""
    before_s: float | None
    after_s: float | None
    """Medians of up to 20 points on either side, as measured; None for the machine."""
    low: float | None
    high: float | None
    """99 % interval of the effect, from the noise between points."""
    detectable: float | None
    moved: tuple[int, int] | None = None
    """Of a machine's event: how many of how many series went along; None where these points
    do not show it."""
    why: str = ""
    """Of a baseline reset: what changed."""

    @property
    def first(self) -> GridColumn:
        """The first point at the new level."""
        return self.grid.columns[int(self.points[self.place])]

    @property
    def last(self) -> GridColumn:
        """The last point at the old level."""
        return self.grid.columns[int(self.points[self.place - 1])]

    def around(self) -> list[GridColumn]:
        """The points that the step lies among for sure: the last certain old one comes first."""
        return [self.grid.columns[i] for i in self.places_around()]

    def places_around(self) -> list[int]:
        """Their columns in the grid."""
        first, last = self.bounds
        start, end = np.searchsorted(self.points, [first, last + 1])
        found: list[int] = self.points[start:end].tolist()
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One grid, judged."""

    grid: Grid
    machine: JudgedMachine
    found: tuple[DetectedEvent, ...]
    """Of every series, and of the machine; in the order of their place."""


def judge_grid(grid: Grid) -> Judged:
    """Every event of a grid."""
    if not grid.cases:
        return events_of(grid, JudgedMachine(own=(), common=None))
    return events_of(grid, judge_machine(list(grid.logs), grid.resets))


def events_of(grid: Grid, machine: JudgedMachine) -> Judged:
    """The events of a grid that the detector has judged."""
    found = [event for i, own in enumerate(machine.own) for event in _events(grid, own, i)]
    if machine.common is not None:
        found += _events(grid, machine.common, None)
    return Judged(
        grid=grid,
        machine=machine,
        found=tuple(sorted(found, key=lambda event: event.change.index)),
    )


def _events(grid: Grid, judgement: Judgement, series: int | None) -> Iterator[DetectedEvent]:
    """Of one series, or of the machine."""
    is_machine, logs = series is None, grid.logs if series is None else grid.logs[[series]]
    points = np.flatnonzero(~np.isnan(logs).all(axis=0))
    id = f"{MACHINE}{grid.group}" if series is None else grid.id(series)
    for number, change in enumerate(judgement.changes):
        place = int(np.searchsorted(points, change.index))
        slack = _slack(change, judgement.noise)
        edges = _edges(judgement.changes, number, points)
        before, after = (None, None) if is_machine else _levels(logs[0, points], place, edges)
        low, high = _interval(change, judgement, edges, place)
        yield DetectedEvent(
            event=_event(grid, id, change, points, place, slack),
            change=change,
            status=_status(judgement.changes, number),
            grid=grid,
            series=series,
            points=points,
            place=place,
            slack=slack,
            bounds=(
                int(points[max(0, place - 1 - slack)]),
                int(points[min(len(points) - 1, place + slack)]),
            ),
            before_s=before,
            after_s=after,
            low=low,
            high=high,
            detectable=judgement.detectable,
            moved=_moved(logs, change) if is_machine else None,
            why="" if series is None else grid.why_reset.get((series, change.index), ""),
        )


def _event(
    grid: Grid, id: str, change: Change, points: Places, place: int, slack: int
) -> EventName:
    first = grid.columns[int(points[place])]
    is_rerun = place > 0 and grid.columns[int(points[place - 1])].commit == first.commit
    near = [grid.columns[i] for i in points[max(0, place - slack) : place + slack + 1]]
    names = {column.run_id for column in near} | {column.commit for column in near}
    return EventName(
        id=id,
        commit=first.run_id if is_rerun else first.commit,
        direction="slower" if change.effect > 0 else "faster",
        effect=change.effect,
        near=frozenset(names),
    )


def _slack(change: Change, noise: float | None) -> int:
    """How far the place of a step may be off: what the detector says of it, and no less than 1, nor
    than an error that goes with the squared noise over the squared step (Hinkley, Biometrika
    1970)."""
    if change.kind == "break" or not change.effect:
        return 0
    ratio = 0.0 if noise is None else noise / change.height
    return min(FURTHEST, max(1, change.slack, int(MISPLACED * ratio**2 + 0.5)))


def _edges(changes: Sequence[Change], number: int, points: Places) -> tuple[int, int]:
    """Places of the event before this one and of the one after it, among the points."""
    before = changes[number - 1] if number else None
    start = 0 if before is None else before.until or before.index
    end = changes[number].until
    if end is None:
        later = changes[number + 1 :]
        end = later[0].index if later else int(points[-1]) + 1
    return int(np.searchsorted(points, start)), int(np.searchsorted(points, end))


def _levels(logs: Floats, place: int, edges: tuple[int, int]) -> tuple[float | None, float | None]:
    start, end = max(edges[0], place - SETTLED), min(edges[1], place + SETTLED)
    before, after = logs[start:place], logs[place:end]
    return (
        float(np.exp(np.median(before))) if len(before) else None,
        float(np.exp(np.median(after))) if len(after) else None,
    )


def _interval(
    change: Change, judgement: Judgement, edges: tuple[int, int], place: int
) -> tuple[float | None, float | None]:
    """Of the difference of two medians, with the noise from point to point alone."""
    before, after = place - edges[0], edges[1] - place
    if judgement.noise is None or before <= 0 or after <= 0:
        return None, None
    error = judgement.noise * math.sqrt(MEDIAN_VARIANCE * (1 / before + 1 / after))
    half = INTERVAL_SIGMAS * error
    return relative(change.height - half), relative(change.height + half)


def _status(changes: Sequence[Change], number: int) -> EventStatus:
    change = changes[number]
    if change.kind != "step":
        return change.kind
    height = level = change.height
    for later in changes[number + 1 :]:
        if later.kind == "break":
            return "ended"
        if later.kind == "step" and later.state == "confirmed":
            level += later.height
            if level / height <= RECOVERED:
                return "recovered"
    return change.state


def _moved(logs: Floats, change: Change) -> tuple[int, int] | None:
    """Series that go at least half of the machine's way, of those with points on both sides. Both
    ways are over the same points, so that a little that the machine does besides cancels out; None
    where that is so much that these points do not show the step at all."""
    steps = _ways(logs, change)
    steps = steps[np.isfinite(steps)]
    way = float(np.median(steps))
    if way / change.height < MOVED_SHARE:
        return None
    return int((steps / way >= MOVED_SHARE).sum()), len(steps)


def _ways(logs: Floats, change: Change) -> Floats:
    """How far each series goes at a step; NaN without points on both sides."""
    before = logs[:, max(0, change.index - MOVED_POINTS) : change.index]
    after = logs[:, change.index : change.index + MOVED_POINTS]
    both = np.isfinite(before).any(axis=1) & np.isfinite(after).any(axis=1)
    ways = np.full(len(logs), np.nan)
    ways[both] = np.nanmedian(after[both], axis=1) - np.nanmedian(before[both], axis=1)
    return ways


def changes_of(judged: Judged, series: int) -> list[Change]:
    """The changes of a series, and the steps of its machine that it took part in."""
    logs, common = judged.grid.logs[[series]], judged.machine.common
    steps = [one for one in common.changes if one.kind == "step"] if common else []
    along = [one for one in steps if _ways(logs, one)[0] / one.height >= MOVED_SHARE]
    return sorted([*judged.machine.own[series].changes, *along], key=lambda one: one.index)
