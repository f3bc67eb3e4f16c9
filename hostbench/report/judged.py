"""What `hostbench changes` finds in a results folder: each event with its cause, and whether it
counts."""

from collections.abc import Sequence
from datetime import date, datetime
from functools import cache, cached_property, partial
from pathlib import Path

from msgspec import structs

from hostbench.core.clock import today
from hostbench.facts import causes as possible_causes
from hostbench.facts.record import Facts
from hostbench.judge.causes import Differences, with_cause
from hostbench.judge.events import Event, Evidence, Judged, judge_grid
from hostbench.judge.grid import NEEDED, Along, RunPoint, grids
from hostbench.judge.surroundings import Differing, Everything
from hostbench.store import triage as stored
from hostbench.store.results import Results
from hostbench.store.runs import AboutRun
from hostbench.store.triage import Triage, entry_for
from hostbench.vcs.repo import known_commits, landed

RECENT = 50
"""Runs of a machine after which a regression that stayed no longer fails, unless asked for."""
CERTAIN = 1
"""Points by which the place of a step may be off, at most, to be taken for the right one."""
MEASURING = ("launches", "profile", "device", "by")
"""What a run's header says of how it was measured."""


def judge_history(history: Results, axis: Along) -> list[Judged]:
    """Every machine's series, judged, for they are each other's evidence; each machine's rows are
    read once."""
    hardware = hardware_of(history)
    return [
        judge_grid(grid)
        for name in history.machines()
        for grid in grids(history.points(name, NEEDED), name, axis, hardware)
    ]


def hardware_of(history: Results) -> dict[str, dict[str, str]]:
    """Run -> what makes it another machine, as judge.grid.grids wants it."""
    return {run.run_id: run.hardware for run in history.runs()}


def assessed(event: Event, triage: Triage, day: date, recent: bool | None = None) -> Event:
    """As of a day: what somebody has said of it, and whether it fails: a confirmed step to slower
    that stayed, that is recent (begun within the newest RECENT runs) and that is not in triage."""
    entry = entry_for(triage.entries.values(), event.name, day)
    lapsed = "" if entry is None else entry.lapsed(event.name, day)
    if recent is None:
        recent = event.index >= event.num_columns - RECENT
    stayed = event.status == "confirmed" and event.effect > 0
    fails = stayed and recent and (entry is None or lapsed != "")
    return structs.replace(event, triage=entry, lapsed=lapsed, recent=recent, fails=fails)


class Explainer:
    """Causes of what was judged, as they are asked for: facts of the runs, commits from git at
    `root`; and what people have said of it, as of today.

    `since` is the date from which on an event is recent; None for the newest RECENT runs.
    """

    def __init__(
        self,
        history: Results,
        judged: Sequence[Judged],
        root: Path,
        axis: Along,
        since: datetime | None = None,
    ) -> None:
        self.axis = axis
        self.triage = stored.read(history.folder) if history.folder else Triage()
        """What people have said."""
        self._history, self._judged, self._since = history, judged, since
        self._root, self._landed, self._today = root, cache(partial(landed, root)), today()
        self._facts: dict[str, dict[str, Facts] | None] = {}

    def tell(self, event: Event, own: Judged) -> Event:
        """With its cause, and whether it counts."""
        return self.assess(self.explain(event, own))

    def assess(self, event: Event) -> Event:
        """As of today."""
        recent = None
        if self._since is not None:
            at = event.first.committed_at if self.axis == "commit" else event.first.started_at
            recent = at >= self._since
        return assessed(event, self.triage, self._today, recent)

    def explain(self, event: Event, own: Judged) -> Event:
        """With its cause and the evidence."""
        facts = lambda other: self._differing(self._compared(other))  # noqa: E731
        seen = self._everything.look(event, own, facts)
        points = self._compared(event)
        commits = list(dict.fromkeys(point.commit for point in reversed(points)))
        differences = Differences(
            commits=self._between(points[0].commit, commits, event),
            facts=self._differing(points),
            measuring=self._measuring(points),
        )
        return with_cause(event, seen, differences)

    def _compared(self, event: Event) -> Sequence[RunPoint]:
        """The two points beside a step whose place is known to a point, where they are of one
        commit and something differs; else those that it lies among."""
        if event.last is not None and event.slack <= CERTAIN:
            beside = event.last, event.first
            if event.last.commit == event.first.commit and (
                self._differing(beside) or self._measuring(beside)
            ):
                return beside
        return event.around

    def _differing(self, points: Sequence[RunPoint]) -> Differing:
        """Facts, between the first and the last of these; None where a side has none."""
        before, after = self._ends(points)
        if before is None or after is None:
            return None
        first, second = self._facts_of(before), self._facts_of(after)
        if first is None or second is None:
            return None
        return tuple(possible_causes.possible(first, second))

    def _measuring(self, points: Sequence[RunPoint]) -> tuple[str, ...]:
        """hostbench's own parameters that differ between the first and the last of these."""
        before, after = self._ends(points)
        if before is None or after is None:
            return ()
        pairs = ((name, getattr(before, name), getattr(after, name)) for name in MEASURING)
        return tuple(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)

    def _ends(self, points: Sequence[RunPoint]) -> tuple[AboutRun | None, AboutRun | None]:
        return self._about.get(points[0].run_id), self._about.get(points[-1].run_id)

    def _between(self, old: str, commits: Sequence[str], event: Event) -> tuple[Evidence, ...]:
        """What landed, from git; the commits that were measured where git cannot tell. First what
        lies between the two points beside the step."""
        measured = [commit for commit in commits if commit != old]
        if not measured:
            return ()
        unknown: list[tuple[str, str | None]] = [(commit, None) for commit in measured]
        in_git = {old, measured[0]} <= self._in_git
        landed = (self._landed(old, measured[0]) if in_git else None) or unknown
        order = [commit for commit, _ in landed]
        newest, oldest = (
            order.index(point.commit) if point and point.commit in order else end
            for point, end in ((event.first, 0), (event.last, len(order)))
        )
        likely, beside = list[Evidence](), list[Evidence]()
        for index, (commit, subject) in enumerate(landed):
            if newest <= index < oldest:
                likely.append(Evidence(kind="likely commit", commit=commit, subject=subject))
            else:
                beside.append(Evidence(kind="commit beside", commit=commit, subject=subject))
        return (*likely, *beside)

    @cached_property
    def _in_git(self) -> set[str]:
        """The commits that were measured and that git knows: asked once for all of them."""
        commits = {point.commit for own in self._judged for point in own.grid.columns}
        return known_commits(self._root, commits)

    @cached_property
    def _everything(self) -> Everything:
        return Everything(self._judged)

    @cached_property
    def _about(self) -> dict[str, AboutRun]:
        return {run.run_id: run for run in self._history.runs()}

    def _facts_of(self, run: AboutRun) -> dict[str, Facts] | None:
        """None for a run whose facts were not stored, or cannot be read."""
        if run.run_id not in self._facts:
            facts = self._history.facts(run)
            self._facts[run.run_id] = facts if facts.get("before") else None
        return self._facts[run.run_id]
