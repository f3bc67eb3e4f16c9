"""Why a number moved: one label and the evidence for it, the weightiest first.

Code and environment both change all the time, so that a step by itself says little. What decides
is what else moved, or did not: the same series on other machines, the other series of this machine,
and the same commit measured again. No files: the facts of runs are asked for.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache

import numpy as np
from msgspec import structs

from hostbench.facts.differences import Difference, RunFacts, possible
from hostbench.judge.changepoint.machine import MIN_SERIES
from hostbench.judge.changepoint.prune import TEMPORARY_POINTS
from hostbench.judge.events import MOVED_SHARE, Commit, Event, Evidence, JudgedGrid, Label
from hostbench.judge.grid import RunPoint
from hostbench.store.runs import StoredFile

MANY, FEW = 0.5, 0.1
"""Share of the machine's other series that move with the environment; at most, with one change."""
STRONG, UNCHANGED, PLAIN, SLIGHT = 4, 3, 2, 1
EACH_SIDE = 8
"""Points that a series on another machine needs on both sides to have passed a commit."""
CERTAIN = 1
"""Points by which the place of a step may be off, at most, to be taken for the right one."""

FactsOf = Callable[[StoredFile], RunFacts]
"""Empty where none are stored."""
Differences = Sequence[Difference] | None
"""Facts that differ between two runs, the likeliest first; None where both have none to compare."""


class Explainer:
    """Causes of events. All that was judged is each other's evidence."""

    def __init__(
        self, judged: Sequence[JudgedGrid], runs: Mapping[str, StoredFile], facts_of: FactsOf
    ) -> None:
        self._judged = judged
        self._facts = cache(lambda run_id: facts_of(runs[run_id]) if run_id in runs else {})

    def explain(self, event: Event, judged: JudgedGrid) -> Event:
        """An event of `judged`, which is one of those that were judged, with its cause."""
        if event.reset:
            label: Label = "measurement changed" if event.reset.is_version else "environment"
            why = (Evidence("reset", event.reset.text),)
            return structs.replace(event, cause=label, evidence=why)
        differ, commits = self._across(event)
        evidence, of_same_facts = [Evidence("same commit")], 0
        if commits:
            evidence = [*self._elsewhere(event, judged, differ), *_measured_again(event, judged)]
            evidence += _beside(event, judged)
            is_own = event.case and "machine moved" not in {piece.kind for piece in evidence}
            of_same_facts = UNCHANGED if is_own else 0
        evidence += (Evidence("fact", str(fact)) for fact in differ or ())
        if differ is None:
            evidence.append(Evidence("no facts"))
        elif not differ:
            evidence.append(Evidence("same facts", weight=of_same_facts))
        label = _weighed(event, evidence, differ) if commits else "environment"
        evidence.sort(key=lambda piece: (-abs(piece.weight), -piece.weight))  # first for the code
        return structs.replace(event, cause=label, evidence=tuple(evidence), commits=commits)

    def _across(self, event: Event) -> tuple[Differences, tuple[Commit, ...]]:
        """What differs across an event, and the commits that landed: between the two points beside
        a step whose place is known to a point, where they are of one commit and something differs;
        else between those that it lies among."""
        last, first = event.last, event.first
        if last is not None and event.slack <= CERTAIN and last.commit == first.commit:
            differ = self._differences(last, first)
            if differ:
                return differ, ()
        return self._differences(event.around[0], event.around[-1]), commits_of(event)

    def _differences(self, old: RunPoint, new: RunPoint) -> Differences:
        first, second = self._facts(old.run_id), self._facts(new.run_id)
        return possible(first, second) if first.get("before") and second.get("before") else None

    def _elsewhere(
        self, event: Event, judged: JudgedGrid, differ: Differences
    ) -> Iterator[Evidence]:
        """Other machines: those where the same series moved the same way at the same commits; those
        of them to which the same fact came, which is no evidence for the code; and those whose same
        series passed these commits and could have shown such a step."""
        start, end = _span(event, judged)
        changed = {(fact.name, fact.after) for fact in differ or ()}
        moved, shared, passed = list[str](), list[str](), list[str]()
        for other in self._judged:
            if other.grid.machine == event.machine or event.case not in other.row_of:
                continue
            spans = [(e, _span(e, other)) for case in {event.case, ""} for e in other.of_case[case]]
            near = [e for e, (first, last) in spans if start < last and first < end]
            same = [
                not e.is_reset
                and (e.case, e.until_index is None) == (event.case, event.until_index is None)
                and e.effect * event.effect > 0
                for e in near
            ]
            if any(same):
                facts = self._across(near[same.index(True)])[0] if changed else ()
                is_shared = any((fact.name, fact.after) in changed for fact in facts or ())
                (shared if is_shared else moved).append(other.grid.group)
            elif not near and _could_show(event, other, start, end):
                passed.append(other.grid.group)
        if moved:
            yield Evidence("elsewhere", ", ".join(moved), STRONG)
        if shared:
            yield Evidence("same fact elsewhere", ", ".join(shared), -SLIGHT)
        if passed and not moved:
            yield Evidence("passed", ", ".join(passed), -PLAIN)
            if event.status in ("temporary", "recovered") and not shared:
                yield Evidence("gone again", weight=-UNCHANGED)


def commits_of(
    event: Event, landed: Sequence[tuple[str, str | None]] | None = None
) -> tuple[Commit, ...]:
    """The commits that an event may have begun with: what `landed`, with its subjects, the newest
    first, else those that were measured. First those between the two points beside it."""
    measured = dict.fromkeys(point.commit for point in reversed(event.around))
    measured.pop(event.around[0].commit)
    listed = landed or [(commit, None) for commit in measured]
    order = [commit for commit, _ in listed]
    newest, oldest = (
        order.index(point.commit) if point and point.commit in order else end
        for point, end in ((event.first, 0), (event.last, len(order)))
    )
    commits = [Commit(*known, newest <= index < oldest) for index, known in enumerate(listed)]
    return tuple(sorted(commits, key=lambda commit: not commit.is_likely))


def _weighed(event: Event, evidence: Sequence[Evidence], differ: Differences) -> Label:
    """Commits landed: was it them, or the environment? Without facts slight evidence alone says
    nothing."""
    kinds, weights = {piece.kind for piece in evidence}, [piece.weight for piece in evidence]
    is_machine, balance = not event.case, sum(weights)
    if is_machine and not differ:
        return "code" if "elsewhere" in kinds else "machine-wide"
    if "machine moved" in kinds:
        return "code" if balance > 0 else "machine-wide"
    if not balance or (differ is None and max(map(abs, weights)) < PLAIN):
        return "machine-wide" if is_machine else "unknown"
    return "code" if balance > 0 else "environment"


# ---- what else moved, and what did not ----------------------------------------------------------


def _beside(event: Event, judged: JudgedGrid) -> Iterator[Evidence]:
    """The machine's other series that moved the same way, or only the other way, of those with
    points on both sides; and whether it has an event of its own that can have begun there."""
    along, num = event.moved or (0, 0)
    touched = along
    if event.case:
        near = (judged.bounds[:, 0] < event.bounds[1]) & (judged.bounds[:, 1] > event.bounds[0])
        steps = [e for e in map(judged.events.__getitem__, np.flatnonzero(near)) if not e.is_reset]
        if any(not e.case for e in steps):
            yield Evidence("machine moved", weight=-PLAIN)
        others = [e for e in steps if e.case not in ("", event.case)]
        along = len({e.case for e in others if e.effect * event.effect > 0})
        touched = len({e.case for e in others})
        first, last = judged.ends
        num = int(((first < event.index) & (last >= event.index)).sum()) - 1
    if num >= MIN_SERIES and touched < MANY * num:
        weight = PLAIN if touched <= FEW * num else SLIGHT
        yield Evidence("others stayed", f"{num - touched} of {num}", weight)
    if along > 0 and along >= MANY * num:
        yield Evidence("others moved", f"{along} of {num}", -PLAIN)


def _measured_again(event: Event, judged: JudgedGrid) -> Iterator[Evidence]:
    """Whether points of commits from before the step, measured again after it, have moved, too."""
    newest = event.around[0].committed_at
    since = max(point.started_at for point in event.around)
    columns = [
        run.committed_at <= newest and run.started_at >= since for run in judged.grid.columns
    ]
    rows = [judged.row_of[event.case]] if event.case else slice(None)
    reruns = judged.grid.reruns[rows][:, columns]
    moved = int((reruns / event.height >= MOVED_SHARE).sum())
    stayed = int(np.isfinite(reruns).sum()) - moved
    if stayed > moved:
        yield Evidence("again stayed", str(stayed), STRONG)
    elif moved > stayed:
        yield Evidence("again moved", str(moved), -STRONG)


def _span(event: Event, judged: JudgedGrid) -> tuple[float, float]:
    """The dates of the commits that it lies among; a temporary event lasts until it is over."""
    start, end = event.bounds
    return judged.dates[start], judged.dates[event.until_index or end]


def _could_show(event: Event, other: JudgedGrid, start: float, end: float) -> bool:
    """Whether a step of that size would have been seen on another machine."""
    row = other.row_of[event.case]
    judgement = other.machine.own[row] if event.case else other.machine.common
    if judgement is None or (judgement.detectable or math.inf) > abs(event.effect):
        return False
    dates = other.dates[other.valid[row] if event.case else other.valid.any(axis=0)]
    before, after = np.count_nonzero(dates <= start), np.count_nonzero(dates >= end)
    is_measured = event.until_index is None or len(dates) - before - after >= TEMPORARY_POINTS[0]
    return bool(is_measured and min(before, after) >= EACH_SIDE)
