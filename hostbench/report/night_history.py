"""What a night is held against: the machine's runs before, what earlier nights concluded, the other
machines."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

from hostbench.core.case import as_typed
from hostbench.core.clock import epoch_s, today
from hostbench.core.errors import Warn
from hostbench.core.records import RunHeader
from hostbench.core.units import number_of
from hostbench.facts import causes as possible_causes
from hostbench.facts import spec
from hostbench.judge.causes import in_words
from hostbench.judge.compare import half
from hostbench.judge.events import DetectedEvent
from hostbench.judge.night import CONFIRMED
from hostbench.report.judged import ExplainedEvent, Explainer, judge_history
from hostbench.store import nights
from hostbench.store.history import History
from hostbench.store.nights import NightChange, StoredNight
from hostbench.store.runs import AboutRun, WholeRun, facts_of
from hostbench.store.triage import Entry, EventName, entry_for
from hostbench.vcs import repo

MOST_RUNS = 8
"""Runs before tonight that are read: a series may be missing from the newest of them."""
SILENT_AFTER = 1.5
"""Times a machine's usual pause between two runs after which it counts as silent."""
STAYS_AFTER = 2
"""Disturbed nights in a row after which a fact that passes is taken for one that lasts."""
RETIRED_AFTER_S = 30 * 86400.0
"""A machine that was silent for longer is named no more."""
MOST_OF_SUBJECT = 72
"""Letters of a commit's first line."""
_NOT_NIGHTS = ("hostbench ab",)
"""Who made a run of some cases alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StillSlower:
    """What one night confirmed as slower, of one cause."""

    since: str
    """YYYY-MM-DD."""
    changes: tuple[NightChange, ...]
    """The worst first."""
    cause: str

    def __str__(self) -> str:
        worst = self.changes[0]
        most = ", most of all" if len(self.changes) > 1 else ","
        return (
            f"{self.since}: {number_of(len(self.changes), 'series', 'series')} slower{most} "
            f"{as_typed(worst.case)} {worst.effect:+.1%} that night ({self.cause})"
        )


def runs_before(
    history: History, header: RunHeader, known: Sequence[StoredNight]
) -> list[WholeRun]:
    """The runs of that machine and device before this one that nights have concluded, the newest
    first, without disturbed ones; from before the first night any run. One that nobody judged
    would hide what moved in it: cut off, by hand, or measured once more."""
    concluded = {night.run_id for night in known if not night.disturbed}
    first_s = min((epoch_s(night.started_at) for night in known), default=math.inf)
    found: list[WholeRun] = []
    for about in reversed(history.runs()):
        same = (about.machine, about.device) == (header.machine, header.device)
        if not same or about.by in _NOT_NIGHTS or about.run_id == header.run_id:
            continue
        at_s = epoch_s(about.started_at)
        if at_s > epoch_s(header.started_at):
            continue
        if about.run_id not in concluded and at_s >= first_s:
            continue
        whole = history.whole(about)
        if whole.header.scratch is None:
            found.append(whole)
        if len(found) == MOST_RUNS:
            break
    return found


def passed_over(known: Sequence[StoredNight], compared: Sequence[str]) -> tuple[str, ...]:
    """run_ids of disturbed nights since the oldest of the runs that a night was `compared` with."""
    began = {night.run_id: epoch_s(night.started_at) for night in known}
    oldest = min((began[run_id] for run_id in compared if run_id in began), default=math.inf)
    return tuple(
        night.run_id for night in known if night.disturbed and began[night.run_id] > oldest
    )


def confirmed_at(known: Sequence[StoredNight]) -> dict[tuple[str, str], float]:
    """(case, version) -> when a night last confirmed a change of it, in seconds since the epoch:
    runs from before say nothing of its level."""
    return {
        (change.case, change.version): epoch_s(night.started_at)
        for night in known
        for change in night.changes
        if change.cause in CONFIRMED
    }


def launch_s(run: WholeRun) -> float:
    """Seconds from one record to the next: what a launch of a case takes, with its share of
    starting processes. 0 where that cannot be told."""
    part = max(run.parts, key=lambda part: len(part.records))
    times = [epoch_s(record.started_at) for record in part.records]
    return (max(times) - min(times)) / (len(times) - 1) if len(times) > 1 else 0.0


def measured_at(runs: Sequence[WholeRun]) -> dict[str, float]:
    """Case -> when it last had a number; `runs`: the newest first."""
    found: dict[str, float] = {}
    for run in runs:
        at = epoch_s(run.header.started_at)
        for result in run.results():
            if result.status == "ok":
                found.setdefault(str(result.case), at)
    return found


def facts_moved(before: WholeRun, tonight: WholeRun) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(facts that last, facts that pass) that differ and may be causes, in words, the likeliest
    first."""
    first, second = (
        {when: facts_of(facts) for when, facts in run.parts[0].facts.items()}
        for run in (before, tonight)
    )
    lasting: list[str] = []
    passing: list[str] = []
    for one in possible_causes.possible(first, second):
        row = spec.row(one.name)
        (passing if row is not None and row.volatile else lasting).append(in_words(one))
    return tuple(lasting), tuple(passing)


def staying(known: Sequence[StoredNight], passing: Sequence[str]) -> tuple[str, ...]:
    """The passing facts, in words, that the last STAYS_AFTER nights have all been disturbed by:
    a GPU whose cooling is broken does not recover by itself."""
    before = [
        {_fact(text) for change in night.changes for text in change.why}
        for night in known[-STAYS_AFTER:]
        if night.disturbed
    ]
    if len(before) < STAYS_AFTER:
        return ()
    return tuple(text for text in passing if all(_fact(text) in names for names in before))


def _fact(text: str) -> str:
    """The name of a fact in words: `gpu0.throttle_reasons: none -> thermal`."""
    return text.partition(": ")[0]


def landed(root: Path, before: str | None, tonight: str | None) -> tuple[str, ...]:
    """The commits between two runs, the newest first: `1a2b3c4d its first line`."""
    if not before or not tonight or before == tonight:
        return ()
    found = repo.landed(root, before, tonight)
    if not found:
        return (f"{before[:8]} -> {tonight[:8]}",)
    return tuple(f"{commit[:8]} {_short(subject)}" for commit, subject in found)


def _short(subject: str) -> str:
    return subject if len(subject) <= MOST_OF_SUBJECT else f"{subject[: MOST_OF_SUBJECT - 3]}..."


def skipped(tonight: WholeRun, earlier: Sequence[WholeRun]) -> tuple[str, ...]:
    """`case: reason` of what is skipped and had a number in a run before."""
    had = _had(earlier)
    return tuple(
        f"{as_typed(str(one.case))}: {one.reason}"
        for one in tonight.results()
        if one.status == "skipped" and str(one.case) in had
    )


def _had(runs: Sequence[WholeRun]) -> set[str]:
    """The cases that had a number."""
    return {
        str(record.case)
        for run in runs
        for record in run.winners().values()
        if record.status == "ok"
    }


def failures(tonight: WholeRun, earlier: Sequence[WholeRun]) -> tuple[tuple[str, ...], int]:
    """`case: reason` of what failed, what had a number in a run before first; how many had."""
    had = _had(earlier)
    failed = [one for one in tonight.results() if one.status == "failed"]
    failed.sort(key=lambda one: str(one.case) not in had)
    said = tuple(f"{as_typed(str(one.case))}: {one.reason}" for one in failed)
    return said, sum(str(one.case) in had for one in failed)


def still_slower(
    known: Sequence[StoredNight], tonight: StoredNight, entries: Iterable[Entry]
) -> tuple[StillSlower, ...]:
    """Changes to slower that nights before this one confirmed, the newest first; without those
    that are in triage, and those of which later changes, also of tonight, took back half."""
    since: dict[tuple[str, str], list[tuple[NightChange, StoredNight]]] = {}
    for night in (*known, tonight):
        for change in night.changes:
            own = since.setdefault((change.case, change.version), [])
            if change.cause in CONFIRMED or (change.cause == "recovered" and own):
                own.append((change, night))
                if _is_taken_back([one.effect for one, _ in own]):
                    own.clear()
    said = list(entries)
    groups: dict[tuple[str, str, tuple[str, ...]], list[NightChange]] = {}
    for change, one in chain.from_iterable(since.values()):
        if change.verdict == "slower" and one is not tonight and not _in_triage(change, one, said):
            key = (one.started_at, change.cause, change.why)
            groups.setdefault(key, []).append(change)
    return tuple(
        StillSlower(
            since=at[:10],
            changes=tuple(sorted(own, key=lambda change: -change.effect)),
            cause=f"{cause}: {why[0]}" if why else cause,
        )
        for (at, cause, why), own in sorted(groups.items(), reverse=True)
    )


def _is_taken_back(effects: Sequence[float]) -> bool:
    """Whether all of these changes together come to less than half of the worst."""
    return math.prod(1 + effect for effect in effects) - 1 < half(max(effects))


def _in_triage(change: NightChange, night: StoredNight, entries: Sequence[Entry]) -> bool:
    event = EventName(
        id=f"{change.case}@{night.machine}",
        commit=str(night.commit),
        direction=change.verdict,
        effect=change.effect,
        near=frozenset({night.run_id}),
    )
    entry = entry_for(entries, event, today())
    return entry is not None and not entry.lapsed(event, today())


def silent_machines(
    history: History, results: Path, machine: str, now: str, warn: Warn
) -> tuple[str, ...]:
    """`nothing from box-3 since 2026-11-21 02:00`, of machines that ran more than once: what a
    night measured once more is the same time."""
    runs: dict[str, list[AboutRun]] = {}
    for about in history.runs():
        if about.machine and about.machine != machine and about.by not in _NOT_NIGHTS:
            runs.setdefault(about.machine, []).append(about)
    found = []
    for name, own in sorted(runs.items()):
        again = set(chain(*(night.again for night in nights.of_machine(results, name, warn))))
        began = [one.started_at for one in own if one.run_id not in again]
        pauses = [epoch_s(later) - epoch_s(earlier) for earlier, later in pairwise(began)]
        if pauses:
            age_s = epoch_s(now) - epoch_s(began[-1])
            if SILENT_AFTER * statistics.median(pauses) < age_s < RETIRED_AFTER_S:
                found.append(f"nothing from machine {name} since {began[-1][:16]}Z")
    return tuple(found)


def new_events(
    history: History, root: Path, machine: str, known: Sequence[StoredNight]
) -> tuple[ExplainedEvent, ...]:
    """The steps to slower that `hostbench changes` confirms on this machine and that no night
    before has named."""
    judged = judge_history(history, "commit")
    explainer = Explainer(history, judged, root, "commit")
    return tuple(
        explainer.tell(one, own)
        for own in judged
        if own.grid.machine == machine
        for one in own.found
        if explainer.fails(one) and not _is_known(one, own.grid.cases, known)
    )


def key_of(told: ExplainedEvent) -> str:
    """As a stored night names it."""
    return f"{told.found.event.id} {told.found.event.commit}"


def _is_known(one: DetectedEvent, cases: Sequence[str], known: Sequence[StoredNight]) -> bool:
    near = {one.event.commit, *one.event.near}
    case = None if one.series is None else cases[one.series]
    for night in known:
        if any(f"{one.event.id} {commit}" in night.events for commit in near):
            return True
        if not near.isdisjoint({night.commit, night.run_id}) and any(
            change.cause in CONFIRMED and case in (None, change.case) for change in night.changes
        ):
            return True
    return False
