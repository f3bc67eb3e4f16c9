"""What a night is held against: the machine's runs before, and what earlier nights concluded."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hostbench.core.case import as_typed
from hostbench.core.clock import epoch_s, today
from hostbench.core.records import RunHeader
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.core.units import format_change
from hostbench.facts import causes as possible_causes
from hostbench.facts import spec
from hostbench.judge.causes import fact_in_words
from hostbench.judge.events import Event
from hostbench.judge.night import CONFIRMED, LaunchesOf, LevelsOf, SeriesName
from hostbench.judge.two_sides import LEVEL_RUNS, half
from hostbench.report.judged import Explainer, judge_history
from hostbench.runner.plan import Plan, fitting
from hostbench.store.nights import NightChange, StoredNight
from hostbench.store.results import Results
from hostbench.store.runs import WholeRun, facts_of
from hostbench.store.triage import Entry, EventName, entry_for
from hostbench.vcs import repo

_LONGEST_SUBJECT = 72
"""Letters of a commit's first line."""


def runs_before(
    history: Results, header: RunHeader, known: Sequence[StoredNight]
) -> list[WholeRun]:
    """The runs of that machine and device before this one that nights have concluded, the newest
    first, without disturbed ones; from before the first night any run. One that nobody judged
    would hide what moved in it: cut off, by hand, or measured once more."""
    concluded = {night.run_id for night in known if not night.disturbed}
    first_s = min((epoch_s(night.started_at) for night in known), default=math.inf)
    runs: list[WholeRun] = []
    for about in reversed(history.runs()):
        same = (about.machine, about.device) == (header.machine, header.device)
        if not same or about.by == "hostbench ab" or about.run_id == header.run_id:
            continue
        at_s = epoch_s(about.started_at)
        if at_s > epoch_s(header.started_at):
            continue
        if about.run_id not in concluded and at_s >= first_s:
            continue
        whole = history.run(about)
        if whole.header.scratch is None:
            runs.append(whole)
        if len(runs) == LEVEL_RUNS:
            break
    return runs


def confirmed_at(known: Sequence[StoredNight]) -> dict[tuple[str, str], list[float]]:
    """(case, version) -> when nights confirmed a change of it, in seconds since the epoch, the
    oldest first: runs from before the last say nothing of its level."""
    times: dict[tuple[str, str], list[float]] = {}
    for night in known:
        for change in night.changes:
            if change.cause in CONFIRMED:
                own = times.setdefault((change.case, change.version), [])
                own.append(epoch_s(night.started_at))
    return times


def launches_of(run: WholeRun) -> LaunchesOf:
    """Of each series that has enough launches for a verdict, without the observing pass."""
    launches: dict[SeriesName, list[float]] = {}
    for record in run.winners().values():
        if record.status == "ok" and record.seconds is not None:
            launches.setdefault((str(record.case), record.version), []).append(record.seconds)
    return {name: own for name, own in launches.items() if len(own) >= MIN_LAUNCHES}


def by_level(
    earlier: Sequence[WholeRun], changed_at: Mapping[SeriesName, Sequence[float]]
) -> tuple[list[LaunchesOf], LevelsOf]:
    """(of each run the series that have not changed since, of each series the seconds of the runs
    before, those between two changes together)."""
    since: list[LaunchesOf] = []
    apart: dict[SeriesName, list[list[float]]] = {
        name: [[] for _ in times] for name, times in changed_at.items()
    }
    for run in earlier:
        launches, at_s = launches_of(run), epoch_s(run.header.started_at)
        num = {name: bisect_right(changed_at.get(name, ()), at_s) for name in launches}
        since.append({n: own for n, own in launches.items() if num[n] == len(apart.get(n, ()))})
        for name in launches.keys() - since[-1].keys():
            apart[name][num[name]].append(median(launches[name]))
    return since, apart


def that_fits(plan: Plan, earlier: Sequence[WholeRun], seconds: float) -> Plan:
    """As many launches of as many cases as there is time for, going by the last run, those first
    that were measured longest ago; all where there was none. `earlier`: the newest first."""
    if not earlier:
        return plan
    measured_at: dict[str, float] = {}
    for run in earlier:
        for result in run.results():
            if result.status == "ok":
                measured_at.setdefault(str(result.case), epoch_s(run.header.started_at))
    oldest_first = sorted(plan.cases, key=lambda case: measured_at.get(str(case), 0.0))
    costs_s = dict.fromkeys(oldest_first, _launch_s(earlier[0]))
    launches, fit = fitting(costs_s, seconds, plan.profile.launches)
    cases = tuple(case for case in plan.cases if case in (fit or oldest_first[:1]))
    return replace(plan, cases=cases, profile=plan.profile.of(launches))


def _launch_s(run: WholeRun) -> float:
    """Seconds from one record to the next: what a launch of a case takes, with its share of
    starting processes. 0 where that cannot be told."""
    times = [epoch_s(record.started_at) for record in run.run.records]
    return (max(times) - min(times)) / (len(times) - 1) if len(times) > 1 else 0.0


def facts_moved(before: WholeRun, tonight: WholeRun) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(facts that last, facts that pass) that differ and may be causes, in words, the likeliest
    first."""
    first, second = (
        {when: facts_of(facts) for when, facts in run.run.facts.items()}
        for run in (before, tonight)
    )
    lasting: list[str] = []
    passing: list[str] = []
    for difference in possible_causes.possible(first, second):
        row = spec.row(difference.name)
        (passing if row is not None and row.volatile else lasting).append(fact_in_words(difference))
    return tuple(lasting), tuple(passing)


def landed(root: Path, before: str | None, tonight: str | None) -> tuple[str, ...]:
    """The commits between two runs, the newest first: `1a2b3c4d its first line`."""
    if not before or not tonight or before == tonight:
        return ()
    commits = repo.landed(root, before, tonight)
    if not commits:
        return (f"{before[:8]} -> {tonight[:8]}",)
    return tuple(
        f"{commit[:8]} {subject[:_LONGEST_SUBJECT]}{'...' * (len(subject) > _LONGEST_SUBJECT)}"
        for commit, subject in commits
    )


def with_status(
    status: str, tonight: WholeRun, earlier: Sequence[WholeRun] | None = None
) -> tuple[str, ...]:
    """`case: reason` of the cases with that status, `failed` or `skipped`; with `earlier` runs,
    those that had a number in one of them."""
    had_number = {
        record.case
        for run in earlier or ()
        for record in run.winners().values()
        if record.status == "ok"
    }
    return tuple(
        f"{as_typed(str(result.case))}: {result.reason}"
        for result in tonight.results()
        if result.status == status and (earlier is None or result.case in had_number)
    )


def still_slower(
    known: Sequence[StoredNight], tonight: StoredNight, entries: Sequence[Entry]
) -> tuple[str, ...]:
    """The series that nights before this one have confirmed as slower, the newest first: but for
    those that are in triage, and those of which a later change took back half."""
    slower: dict[tuple[str, str], tuple[StoredNight, NightChange]] = {}
    for night in (*known, tonight):
        for change in night.changes:
            name = change.case, change.version
            if change.cause in CONFIRMED and change.effect > 0:
                slower[name] = night, change
            elif change.cause in CONFIRMED and name in slower:
                effect = slower[name][1].effect
                if (1 + effect) * (1 + change.effect) - 1 < half(effect):
                    del slower[name]
    return tuple(
        f"{as_typed(change.case)} {format_change(change.effect)} since {night.started_at[:10]}"
        for night, change in reversed(slower.values())
        if night is not tonight and not _in_triage(change, night, entries)
    )


def _in_triage(change: NightChange, night: StoredNight, entries: Sequence[Entry]) -> bool:
    event = EventName(
        id=f"{change.case}@{night.machine}",
        commit=str(night.commit),
        direction="slower",
        effect=change.effect,
        near=frozenset({night.run_id}),
    )
    entry = entry_for(entries, event, today())
    return entry is not None and not entry.lapsed(event, today())


def new_events(
    history: Results, root: Path, machine: str, known: Sequence[StoredNight]
) -> tuple[Event, ...]:
    """The steps to slower that `hostbench changes` confirms on this machine and that no night
    before has named."""
    judged = judge_history(history, "commit")
    explainer = Explainer(history, judged, root, "commit")
    return tuple(
        explainer.tell(event, own)
        for own in judged
        if own.grid.machine == machine
        for event in own.events
        if explainer.assess(event).fails and not _is_known(event, known)
    )


def key_of(event: Event) -> str:
    """As a stored night names it."""
    return f"{event.id} {event.commit}"


def _is_known(event: Event, known: Sequence[StoredNight]) -> bool:
    near = {event.commit, *event.near}
    for night in known:
        if any(f"{event.id} {commit}" in night.events for commit in near):
            return True
        if not near.isdisjoint({night.commit, night.run_id}) and any(
            change.cause in CONFIRMED and event.case in ("", change.case)
            for change in night.changes
        ):
            return True
    return False
