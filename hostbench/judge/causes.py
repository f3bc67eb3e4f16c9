"""Why a number moved: one label and the evidence for it, the weightiest first.

Code and environment both change all the time, so that a step by itself says little. What decides
is what else moved, or did not: the same series on other machines, the other series of this machine,
and the same commit measured again. No files: the facts of runs are asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from msgspec import structs

from hostbench.facts.differences import Difference, RunFacts, possible
from hostbench.judge.changepoint.prune import TEMPORARY_POINTS
from hostbench.judge.events import Commit, Event, Evidence, EvidenceKind, JudgedGrid, Label
from hostbench.judge.grid import RunPoint
from hostbench.store.runs import StoredFile

FEWEST_SERIES = 6
"""Other series that must have points before their standing still says anything."""
MANY, FEW = 0.5, 0.1
"""Share of the machine's other series that move along when the environment does, and at most when
it is plainly one thing that was touched."""
STRONG, UNCHANGED, PLAIN, SLIGHT = 4, 3, 2, 1
HALF = 0.5
"""Of the step: what a point measured again must show of it to have moved as well."""
EACH_SIDE = 8
"""Points that a series on another machine needs on both sides to have passed a commit."""
SHORTEST = TEMPORARY_POINTS[0]
"""Points that it needs within a temporary event to have passed that."""
CERTAIN = 1
"""Points by which the place of a step may be off, at most, to be taken for the right one."""
MEASURING = ("launches", "profile", "device", "by")
"""What a run's header says of how it was measured."""

FactsOf = Callable[[StoredFile], RunFacts]
"""Empty where none are stored."""
Clue = tuple[int, Evidence]
"""With its weight: more than 0 for the code, less for the environment."""
Dates = tuple[float, float]
"""From one commit's date to another's, in seconds since the epoch."""


class _Differences(NamedTuple):
    """What differs between two runs: possible causes, the likeliest first; hostbench's own
    parameters, as `launches 10 -> 20`; and whether both sides have facts."""

    facts: Sequence[Difference] = ()
    measuring: Sequence[str] = ()
    are_known: bool = False

    @property
    def any(self) -> bool:
        return bool(self.facts or self.measuring)

    @property
    def label(self) -> Label:
        """Of what was not the code."""
        return "measurement changed" if self.measuring and not self.facts else "environment"


class Explainer:
    """Causes of events. All that was judged is each other's evidence."""

    def __init__(
        self, judged: Sequence[JudgedGrid], runs: Mapping[str, StoredFile], facts_of: FactsOf
    ) -> None:
        self._judged, self._runs = judged, runs
        self._facts = cache(lambda run_id: facts_of(runs[run_id]))

    def explain(self, event: Event, own: JudgedGrid) -> Event:
        """An event of `own`, which is one of those that were judged, with its cause."""
        if event.is_reset:
            is_version = event.why.startswith("version ")
            label: Label = "measurement changed" if is_version else "environment"
            reset = Evidence(kind="reset", text=event.why)
            return structs.replace(event, cause=label, evidence=(reset,))
        differ, commits = self._across(event)
        if commits:
            clues = self._clues(event, own, differ)
            label = _weighed(event, clues, differ)
            evidence = [fact for _, fact in sorted(clues, key=lambda clue: -abs(clue[0]))]
        else:
            label, evidence = differ.label, [Evidence(kind="same commit")]
        evidence += (Evidence(kind="fact", text=str(fact)) for fact in differ.facts)
        evidence += (Evidence(kind="measuring", text=text) for text in differ.measuring)
        if not differ.are_known:
            evidence.append(Evidence(kind="no facts"))
        elif not (differ.any or commits):
            evidence.append(Evidence(kind="same facts"))
        return structs.replace(event, cause=label, evidence=tuple(evidence), commits=commits)

    def _across(self, event: Event) -> tuple[_Differences, tuple[Commit, ...]]:
        """What differs across an event, and the commits that landed: between the two points beside
        a step whose place is known to a point, where they are of one commit and something differs;
        else between those that it lies among."""
        last, first = event.last, event.first
        if last is not None and event.slack <= CERTAIN and last.commit == first.commit:
            differ = self._differences(last, first)
            if differ.any:
                return differ, ()
        return self._differences(event.around[0], event.around[-1]), commits_of(event)

    def _differences(self, old: RunPoint, new: RunPoint) -> _Differences:
        if not {old.run_id, new.run_id} <= self._runs.keys():
            return _Differences()
        before, after = self._runs[old.run_id], self._runs[new.run_id]
        pairs = ((name, getattr(before, name), getattr(after, name)) for name in MEASURING)
        measuring = [f"{name} {was} -> {now}" for name, was, now in pairs if was != now]
        first, second = self._facts(old.run_id), self._facts(new.run_id)
        if not (first.get("before") and second.get("before")):
            return _Differences(measuring=measuring)
        return _Differences(facts=possible(first, second), measuring=measuring, are_known=True)

    def _clues(self, event: Event, own: JudgedGrid, differ: _Differences) -> list[Clue]:
        """What speaks for the code, then what speaks for the environment."""
        along, against, num, machine_moved = _beside(event, own)
        again, stayed = _measured_again(event, own)
        elsewhere, shared, passed = self._elsewhere(event, own, differ)
        unchanged = UNCHANGED if event.case and not machine_moved else 0
        touched, is_over = along + against, event.status in ("temporary", "recovered")
        few = PLAIN if touched <= FEW * num else SLIGHT
        have_stayed = num >= FEWEST_SERIES and touched < MANY * num
        alone = bool(passed) and not elsewhere
        have_moved = along > 0 and along >= MANY * num
        is_same = differ.are_known and not differ.any
        clues: list[tuple[bool, int, EvidenceKind, object]] = [
            (bool(elsewhere), STRONG, "elsewhere", ", ".join(elsewhere)),
            (stayed > again, STRONG, "again stayed", stayed),
            (have_stayed, few, "others stayed", f"{num - touched} of {num}"),
            (have_stayed and against > 0, 0, "others against", against),
            (is_same, unchanged, "same facts", ""),
            (machine_moved, -PLAIN, "machine moved", ""),
            (again > stayed, -STRONG, "again moved", again),
            (bool(shared), -SLIGHT, "same fact elsewhere", ", ".join(shared)),
            (alone, -PLAIN, "passed", ", ".join(passed)),
            (alone and is_over and not shared, -UNCHANGED, "gone again", ""),
            (have_moved, -PLAIN, "others moved", f"{along} of {num}"),
        ]
        return [
            (weight, Evidence(kind=kind, text=str(text)))
            for speaks, weight, kind, text in clues
            if speaks
        ]

    def _elsewhere(
        self, event: Event, own: JudgedGrid, differ: _Differences
    ) -> tuple[list[str], list[str], list[str]]:
        """Other machines: those where the same series moved the same way at the same commits; those
        of them to which the same fact came, which is no evidence for the code; and those whose same
        series passed these commits and could have shown such a step."""
        moved, shared, passed = list[str](), list[str](), list[str]()
        span = _span(event, own)
        changed = {(fact.name, fact.after) for fact in differ.facts}
        for other in self._judged:
            if other.grid.group.machine == event.machine or event.case not in other.row_of:
                continue
            beside = [e for e in other.of_case[event.case] if _overlap(_span(e, other), span)]
            same = [e for e in beside if e.kind == event.kind and e.effect * event.effect > 0]
            if same:
                facts = self._across(same[0])[0].facts if changed else ()
                is_shared = any((fact.name, fact.after) in changed for fact in facts)
                (shared if is_shared else moved).append(other.grid.group.name)
            if event.case:
                beside += [e for e in other.of_case[""] if _overlap(_span(e, other), span)]
            if not beside and _could_show(event, other, span):
                passed.append(other.grid.group.name)
        return moved, shared, passed


def commits_of(
    event: Event, landed: Sequence[tuple[str, str | None]] | None = None
) -> tuple[Commit, ...]:
    """The commits that an event may have begun with: what `landed`, with its subjects, the newest
    first, else those that were measured. First those between the two points beside it."""
    old, new = ends_of(event)
    if new is None:
        return ()
    measured = dict.fromkeys(point.commit for point in reversed(event.around))
    listed = landed or [(commit, None) for commit in measured if commit != old]
    order = [commit for commit, _ in listed]
    newest, oldest = (
        order.index(point.commit) if point and point.commit in order else end
        for point, end in ((event.first, 0), (event.last, len(order)))
    )
    commits = [Commit(*own, newest <= index < oldest) for index, own in enumerate(listed)]
    return tuple(sorted(commits, key=lambda own: not own.is_likely))


def ends_of(event: Event) -> tuple[str, str | None]:
    """The commits that an event lies between; the second is None where they are one."""
    old = event.around[0].commit
    return old, next((p.commit for p in reversed(event.around) if p.commit != old), None)


def _weighed(event: Event, clues: Sequence[Clue], differ: _Differences) -> Label:
    """Commits landed: was it them, or the environment?"""
    kinds = {evidence.kind for _, evidence in clues}
    code = sum(weight for weight, _ in clues if weight > 0)
    environment = -sum(weight for weight, _ in clues if weight < 0)
    is_machine = not event.case
    if is_machine and not differ.any:
        return "code" if "elsewhere" in kinds else "machine-wide"
    if "machine moved" in kinds:
        return "code" if code > environment else "machine-wide"
    if code == environment or not (differ.are_known or max(code, environment) >= PLAIN):
        return "machine-wide" if is_machine else "unknown"
    return "code" if code > environment else differ.label


# ---- what else moved, and what did not ----------------------------------------------------------


def _beside(event: Event, own: JudgedGrid) -> tuple[int, int, int, bool]:
    """(series of the machine that moved the same way, that only moved the other way, that have
    points on both sides, whether the machine has an event of its own that can have begun there)."""
    if not event.case:
        along, num = event.moved or (0, 0)
        return along, 0, num, False
    near = (own.bounds[:, 0] < event.bounds[1]) & (own.bounds[:, 1] > event.bounds[0])
    steps = [e for e in map(own.events.__getitem__, np.flatnonzero(near)) if not e.is_reset]
    others = [e for e in steps if e.case not in ("", event.case)]
    alike = {e.case for e in others if e.effect * event.effect > 0}
    first, last = own.ends
    num = int(((first < event.index) & (last >= event.index)).sum()) - 1
    return len(alike), len({e.case for e in others} - alike), num, any(not e.case for e in steps)


def _span(event: Event, own: JudgedGrid) -> Dates:
    """Of the points that it lies among; a temporary event lasts until it is over."""
    dates = [point.committed_at for point in event.around]
    until = event.until_index
    end = max(dates) if until is None else own.grid.columns[until].committed_at
    return min(dates).timestamp(), end.timestamp()


def _overlap(one: Dates, other: Dates) -> bool:
    """At commits as near as both places are sure."""
    return one[0] < other[1] and other[0] < one[1]


def _could_show(event: Event, other: JudgedGrid, span: Dates) -> bool:
    """Whether a step of that size would have been seen on another machine."""
    row = other.row_of[event.case]
    judgement = other.machine.own[row] if event.case else other.machine.common
    if judgement is None or judgement.detectable is None:
        return False
    if judgement.detectable > abs(event.effect):
        return False
    valid = other.valid[row] if event.case else other.valid.any(axis=0)
    dates, (start, end) = other.dates[valid], span
    each_side = np.count_nonzero(dates <= start), np.count_nonzero(dates >= end)
    within = np.count_nonzero((start < dates) & (dates < end))
    is_measured = event.until_index is None or within >= SHORTEST
    return bool(is_measured and min(each_side) >= EACH_SIDE)


def _measured_again(event: Event, own: JudgedGrid) -> tuple[int, int]:
    """Of points of commits from before the step, measured again after it: moved, stayed."""
    newest = event.around[0].committed_at
    since = max(point.started_at for point in event.around)
    columns = [
        point.committed_at <= newest and point.started_at >= since for point in own.grid.columns
    ]
    rows = [own.row_of[event.case]] if event.case else slice(None)
    reruns = own.grid.reruns[rows][:, columns]
    moved = int((reruns / event.height >= HALF).sum())
    return moved, int(np.isfinite(reruns).sum()) - moved
