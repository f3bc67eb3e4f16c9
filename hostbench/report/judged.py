"""What `hostbench changes` finds in a results folder: each event, its cause, whether it counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path

import pandas as pd

from hostbench.core.clock import today
from hostbench.facts import causes as possible_causes
from hostbench.facts.causes import Difference
from hostbench.facts.record import Facts
from hostbench.judge.causes import Cause, Commit, Differences, cause
from hostbench.judge.events import DetectedEvent, Judged, judge_grid
from hostbench.judge.grid import NEEDED, Along, GridColumn, grids
from hostbench.judge.surroundings import Everything
from hostbench.store import triage as stored
from hostbench.store.results import Results
from hostbench.store.runs import AboutRun
from hostbench.store.triage import Entry, Triage, entry_for
from hostbench.vcs.repo import landed

RECENT = 50
"""Runs of a machine after which a regression that stayed no longer fails, unless asked for."""
CERTAIN = 1
"""Points by which the place of a step may be off, at most, to be taken for the right one."""
MEASURING = ("launches", "profile", "device", "by")
"""What a run's header says of how it was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedEvent:
    """One event, explained."""

    found: DetectedEvent
    cause: Cause
    triage: Entry | None
    """What somebody has said of it, if that has lapsed meanwhile, too."""
    lapsed: str
    """Why that counts no more: `expired` or `outgrown`; empty where it does and it cannot fail."""
    recent: bool
    """Not older than what was asked for."""
    fails: bool


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


class Explainer:
    """Causes of what was judged, read as they are asked for: facts from archives, commits from git
    at `root`; and what people have said of it, as of today.

    `since` is the date from which on an event is recent; None for the newest RECENT runs.
    """

    def __init__(
        self,
        history: Results,
        judged: Sequence[Judged],
        root: Path,
        axis: Along,
        since: pd.Timestamp | None = None,
    ) -> None:
        self.axis = axis
        self.triage = stored.read(history.folder) if history.folder else Triage()
        """What people have said."""
        self._history, self._judged, self._since = history, judged, since
        self._landed, self._today = cache(partial(landed, root)), today()
        self._facts: dict[str, dict[str, Facts] | None] = {}

    def tell(self, found: DetectedEvent, own: Judged) -> ExplainedEvent:
        """With its cause."""
        entry, lapsed = self._said(found)
        return ExplainedEvent(
            found=found,
            cause=self.cause(found, own),
            triage=entry,
            lapsed=lapsed,
            recent=self.is_recent(found),
            fails=self.fails(found),
        )

    def cause(self, found: DetectedEvent, own: Judged) -> Cause:
        seen = self._everything.look(found, own, lambda one: self._differing(self._compared(one)))
        return cause(found, seen, self._differences(found))

    def fails(self, found: DetectedEvent) -> bool:
        """A confirmed step to slower that stayed, that is recent and that is not in triage."""
        stayed = found.status == "confirmed" and found.change.effect > 0
        if not stayed or not self.is_recent(found):
            return False
        entry, lapsed = self._said(found)
        return entry is None or lapsed != ""

    def _said(self, found: DetectedEvent) -> tuple[Entry | None, str]:
        """What somebody has said of an event, and why that counts no more."""
        entry = entry_for(self.triage.entries.values(), found.event, self._today)
        return entry, "" if entry is None else entry.lapsed(found.event, self._today)

    def is_recent(self, found: DetectedEvent) -> bool:
        if self._since is None:
            return found.change.index >= len(found.grid.columns) - RECENT
        first = found.first
        at = first.committed_at if self.axis == "commit" else first.started_at
        return bool(at >= self._since)

    def _differences(self, found: DetectedEvent) -> Differences:
        columns = self._compared(found)
        commits = list(dict.fromkeys(column.commit for column in reversed(columns)))
        return Differences(
            commits=self._between(columns[0].commit, commits, found),
            facts=self._differing(columns),
            measuring=self._measuring(columns),
        )

    def _compared(self, found: DetectedEvent) -> Sequence[GridColumn]:
        """The two points beside a step whose place is known to a point, where they are of one
        commit and something differs; else those that it lies among."""
        beside = found.last, found.first
        if found.last.commit == found.first.commit and found.slack <= CERTAIN:
            if self._differing(beside) or self._measuring(beside):
                return beside
        return found.around()

    def _differing(self, columns: Sequence[GridColumn]) -> tuple[Difference, ...] | None:
        """Facts, between the first and the last of these; None where a side has none."""
        before, after = self._ends(columns)
        if before is None or after is None:
            return None
        first, second = self._facts_of(before), self._facts_of(after)
        if first is None or second is None:
            return None
        return tuple(possible_causes.possible(first, second))

    def _measuring(self, columns: Sequence[GridColumn]) -> tuple[str, ...]:
        """hostbench's own parameters that differ between the first and the last of these."""
        before, after = self._ends(columns)
        if before is None or after is None:
            return ()
        pairs = ((name, getattr(before, name), getattr(after, name)) for name in MEASURING)
        return tuple(f"{name} {old} -> {new}" for name, old, new in pairs if old != new)

    def _ends(self, columns: Sequence[GridColumn]) -> tuple[AboutRun | None, AboutRun | None]:
        return self._about.get(columns[0].run_id), self._about.get(columns[-1].run_id)

    def _between(
        self, old: str, commits: Sequence[str], found: DetectedEvent
    ) -> tuple[Commit, ...]:
        """What landed, from git; the commits that were measured where git cannot tell. First what
        lies between the two points beside the step."""
        measured = [commit for commit in commits if commit != old]
        if not measured:
            return ()
        unknown: list[tuple[str, str | None]] = [(commit, None) for commit in measured]
        landed = self._landed(old, measured[0]) or unknown
        order = [commit for commit, _ in landed]
        newest, oldest = (
            order.index(column.commit) if column.commit in order else end
            for column, end in ((found.first, 0), (found.last, len(order)))
        )
        told = (
            Commit(commit=commit, subject=subject, is_likely=newest <= i < oldest)
            for i, (commit, subject) in enumerate(landed)
        )
        return tuple(sorted(told, key=lambda one: not one.is_likely))

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
