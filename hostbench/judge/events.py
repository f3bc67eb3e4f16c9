"""A change of a series as one record, `Event`: from the detector to the page and into files.

`judge_grid` finds the events of a grid: since when, from what to what, and whether it is over.
Causes (judge.causes) and what people have said (`assess`) are fields that are filled in later.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from msgspec import Struct, structs

from hostbench.core.arrays import Floats
from hostbench.judge.changepoint.change import Change, Judgement
from hostbench.judge.changepoint.detector import SETTLED, relative
from hostbench.judge.changepoint.evidence import MEDIAN_VARIANCE
from hostbench.judge.changepoint.levels import Bools, Integers
from hostbench.judge.changepoint.machine import JudgedMachine, judge_machine
from hostbench.judge.grid import Grid, Reset, RunPoint
from hostbench.store.triage import Entry

EventStatus = Literal["confirmed", "provisional", "recovered", "ended", "temporary", "break"]
"""recovered: a later level is back. ended: a baseline reset followed, so nobody can tell now."""
Label = Literal["code", "environment", "machine-wide", "measurement changed", "unknown"]

MACHINE = "machine:"
"""What the ids of the machines' own events begin with."""
RECENT = 50
"""Runs of a machine after which a regression that stayed no longer fails."""
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
FAILS, PROVISIONAL, IN_TRIAGE = "fails now", "provisional", "in triage"
OLD, FASTER = "older", "faster"
RESET = "baseline reset"
STATES = (FAILS, PROVISIONAL, IN_TRIAGE, OLD, FASTER, "recovered", "ended", "temporary", RESET)
"""What an event is; what has to be looked at comes first."""


class Evidence(Struct, frozen=True):
    """One thing that speaks for a cause, or says what it may be; report.changes words it."""

    kind: str
    """One of report.changes.WORDS."""
    text: str = ""
    """Names or a number, as the kind has it: machines, `3`, `9 of 9`, `driver: 580.1 -> 590.2`."""
    weight: int = 0
    """More than 0 for the code, less for the environment."""


class Commit(Struct, frozen=True):
    """One that an event may have begun with."""

    commit: str
    subject: str | None
    """The first line of its message; None where git was not at hand."""
    is_likely: bool
    """It landed between the two points beside the event."""


class Event(Struct, frozen=True, kw_only=True):
    """One change of a series, or of a machine."""

    machine: str
    group: str
    """The machine; machine/environment where it has series of both kinds."""
    case: str
    """Empty for the machine's own."""
    status: EventStatus
    effect: float
    """Relative change of the seconds: 0.05 is 5 % slower."""
    low: float | None
    high: float | None
    """99 % interval of the effect, from the noise between points."""
    before_s: float | None
    after_s: float | None
    """Medians of up to 20 points on either side, as measured; None for the machine."""
    detectable: float | None
    """The smallest change that 20 points would confirm."""
    slack: int
    """Points by which its place may be off."""
    index: int
    """Column of the first point at the new level."""
    until_index: int | None
    """Of a temporary event, the column of the first point back at the old level."""
    last: RunPoint | None
    """The last point at the old level; None at the beginning of a series."""
    first: RunPoint
    """The first point at the new level."""
    around: tuple[RunPoint, ...]
    """The points that it lies among for sure: the last certain old one comes first."""
    bounds: tuple[int, int]
    """The columns of the first and the last of those."""
    moved: tuple[int, int] | None = None
    """Of a machine's event: how many of how many series went along; None if not to be seen."""
    reset: Reset | None = None
    """Of a baseline reset: what changed."""
    cause: Label = "unknown"
    evidence: tuple[Evidence, ...] = ()
    """The weightiest first, then facts."""
    commits: tuple[Commit, ...] = ()
    """That landed, the likely ones first; none where its sides are of one commit."""
    triage: Entry | None = None
    """What somebody has said of it."""
    recent: bool = True
    """Begun within the newest RECENT runs of its machine."""

    @property
    def id(self) -> str:
        """`case@group`, or `machine:group` for the machine's own."""
        return f"{self.case}@{self.group}" if self.case else f"{MACHINE}{self.group}"

    @property
    def is_reset(self) -> bool:
        return self.status == "break"

    @property
    def commit(self) -> str:
        """For triage: the first commit at the new level; its run if that was measured before."""
        is_again = self.last is not None and self.last.commit == self.first.commit
        return self.first.run_id if is_again else self.first.commit

    @property
    def near(self) -> tuple[str, ...]:
        """Commits and runs that it may have begun with."""
        points = self.around[1:] or self.around
        return tuple(sorted({name for p in points for name in (p.commit, p.run_id)}))

    def is_named_by(self, entry: Entry) -> bool:
        """A step to slower, by any point that it may have begun with."""
        is_slower = self.effect > 0 and not self.is_reset
        return is_slower and entry.series == self.id and entry.since in self.near

    @property
    def has_stayed(self) -> bool:
        return self.status in ("confirmed", "provisional")

    @property
    def is_open(self) -> bool:
        """A step to slower that stayed, is recent, and has no entry."""
        return self.effect > 0 and self.has_stayed and self.recent and self.triage is None

    @property
    def fails(self) -> bool:
        return self.is_open and self.status == "confirmed"

    @property
    def state(self) -> str:
        """One of STATES. What is over is so whatever somebody has said of it."""
        if self.is_reset:
            return RESET
        if not self.has_stayed:
            return self.status
        if self.fails:
            return FAILS
        if self.triage is not None:
            return IN_TRIAGE
        if self.status == "provisional":
            return PROVISIONAL
        return FASTER if self.effect < 0 else OLD

    @property
    def height(self) -> float:
        """The effect as a difference of logarithms; a fall to nothing stays finite."""
        return math.log1p(max(self.effect, -1 + sys.float_info.epsilon))


def assess(event: Event, entries: Iterable[Entry]) -> Event:
    """With what somebody has said of it; an entry that names the very commit is taken first."""
    named = filter(event.is_named_by, entries)
    entry = max(named, key=lambda entry: entry.since == event.commit, default=None)
    return structs.replace(event, triage=entry)


@dataclass(frozen=True, kw_only=True)
class JudgedGrid:
    """One grid, judged; and what its events are looked up by."""

    grid: Grid
    machine: JudgedMachine
    events: tuple[Event, ...]
    """Of every series, and of the machine; in the order of their place."""

    @cached_property
    def row_of(self) -> dict[str, int]:
        """Case -> its row; the machine itself, which has none, is the case ""."""
        return {"": -1} | {case: row for row, case in enumerate(self.grid.cases)}

    @cached_property
    def of_case(self) -> dict[str, list[Event]]:
        events: dict[str, list[Event]] = defaultdict(list)
        for event in self.events:
            events[event.case].append(event)
        return events

    @cached_property
    def valid(self) -> Bools:
        return np.isfinite(self.grid.logs)

    @cached_property
    def ends(self) -> tuple[Integers, Integers]:
        """Of each series the columns of its first and of its last point."""
        last = len(self.grid.columns) - 1 - self.valid[:, ::-1].argmax(axis=1)
        return self.valid.argmax(axis=1), last

    @cached_property
    def bounds(self) -> Integers:
        """Of each event."""
        return np.array([event.bounds for event in self.events], dtype=np.int64).reshape(-1, 2)

    @cached_property
    def dates(self) -> Floats:
        """Of the columns' commits, in seconds since the epoch."""
        return np.array([column.committed_at.timestamp() for column in self.grid.columns])


def judge_grid(grid: Grid) -> JudgedGrid:
    """Every event of a grid."""
    machine = judge_machine(list(grid.logs), [sorted(columns) for columns in grid.resets])
    events = [
        event for row, judged in enumerate(machine.own) for event in _events(grid, judged, row)
    ]
    if machine.common is not None:
        events += _events(grid, machine.common, None)
    events.sort(key=lambda event: event.index)
    return JudgedGrid(grid=grid, machine=machine, events=tuple(events))


def _events(grid: Grid, judgement: Judgement, row: int | None) -> Iterator[Event]:
    """Of one series, or of the machine."""
    changes = judgement.changes
    if not changes:
        return
    logs = grid.logs if row is None else grid.logs[[row]]
    columns = np.flatnonzero(np.isfinite(logs).any(axis=0))
    starts = [0, *(change.until or change.index for change in changes)]
    ends = [*(change.index for change in changes[1:]), len(grid.columns)]
    for number, change in enumerate(changes):
        edges = starts[number], change.index, change.until or ends[number]
        start, place, end = np.searchsorted(columns, edges).tolist()
        old = columns[max(start, place - SETTLED) : place]
        new = columns[place : min(end, place + SETTLED)]
        slack = _slack(change, judgement.noise)
        around = columns[max(0, place - 1 - slack) : place + slack + 1]
        low, high = _interval(change, judgement.noise, place - start, end - place)
        yield Event(
            machine=grid.machine,
            group=grid.group,
            case="" if row is None else grid.cases[row],
            status=_status(change, changes[number + 1 :]),
            effect=change.effect,
            low=low,
            high=high,
            before_s=None if row is None else _level(logs[0, old]),
            after_s=None if row is None else _level(logs[0, new]),
            detectable=judgement.detectable,
            slack=slack,
            index=change.index,
            until_index=change.until,
            last=grid.columns[columns[place - 1]] if place else None,
            first=grid.columns[columns[place]],
            around=tuple(grid.columns[column] for column in around),
            bounds=(int(around[0]), int(around[-1])),
            moved=_moved(logs, change) if row is None else None,
            reset=None if row is None else grid.resets[row].get(change.index),
            recent=change.index >= len(grid.columns) - RECENT,
        )


def _slack(change: Change, noise: float | None) -> int:
    """How far the place of a step may be off: what the detector says of it, and no less than 1, nor
    than an error that goes with the squared noise over the squared step (Hinkley, Biometrika
    1970)."""
    if change.kind == "break" or not change.effect:
        return 0
    ratio = 0.0 if noise is None else noise / change.height
    return min(FURTHEST, max(1, change.slack, int(MISPLACED * ratio**2 + 0.5)))


def _level(logs: Floats) -> float | None:
    return float(np.exp(np.median(logs))) if len(logs) else None


def _interval(
    change: Change, noise: float | None, before: int, after: int
) -> tuple[float | None, float | None]:
    """Of the difference of the medians of so many points, with the noise from point to point
    alone."""
    if noise is None or before <= 0 or after <= 0:
        return None, None
    error = noise * math.sqrt(MEDIAN_VARIANCE * (1 / before + 1 / after))
    half = INTERVAL_SIGMAS * error
    return relative(change.height - half), relative(change.height + half)


def _status(change: Change, later: Sequence[Change]) -> EventStatus:
    if change.kind != "step":
        return change.kind
    level = change.height
    for other in later:
        if other.kind == "break":
            return "ended"
        if other.kind == "step" and other.state == "confirmed":
            level += other.height
            if level / change.height <= RECOVERED:
                return "recovered"
    return change.state


def _moved(logs: Floats, change: Change) -> tuple[int, int] | None:
    """Series that go at least half of the machine's way, of those with points on both sides. Both
    ways are over the same points, so that a little that the machine does besides cancels out; None
    where that is so much that these points do not show the step at all."""
    before = logs[:, max(0, change.index - MOVED_POINTS) : change.index]
    after = logs[:, change.index : change.index + MOVED_POINTS]
    both = np.isfinite(before).any(axis=1) & np.isfinite(after).any(axis=1)
    steps = np.nanmedian(after[both], axis=1) - np.nanmedian(before[both], axis=1)
    way = float(np.median(steps))
    if way / change.height < MOVED_SHARE:
        return None
    return int((steps / way >= MOVED_SHARE).sum()), len(steps)
