"""What a night is held against: the machine's runs before, and what earlier nights concluded."""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from hostbench.core.case import as_typed
from hostbench.core.clock import epoch_s
from hostbench.core.samples import MIN_LAUNCHES, median
from hostbench.core.units import format_change
from hostbench.facts import causes as possible_causes
from hostbench.facts import spec
from hostbench.judge.causes import fact_in_words
from hostbench.judge.events import Event
from hostbench.judge.night import CONFIRMED, LaunchesOf, LevelsOf, SeriesName
from hostbench.judge.two_sides import LEVEL_RUNS
from hostbench.report.history import as_of_today, history_of
from hostbench.runner.plan import Plan, fitting
from hostbench.store.nights import NightChange, StoredNight
from hostbench.store.results import Results
from hostbench.store.runs import WholeRun, facts_of
from hostbench.vcs import repo

_LONGEST_SUBJECT = 72
"""Letters of a commit's first line."""


def runs_before(
    history: Results, machine: str, device: str, before: str, known: Sequence[StoredNight]
) -> list[WholeRun]:
    """The runs of that machine and device until then (ISO 8601) that nights have concluded, the
    newest first, without disturbed ones; from before the first night any run. One that nobody
    judged would hide what moved in it: cut off, by hand, or measured once more."""
    concluded = {night.run_id for night in known if not night.disturbed}
    first_s = min((epoch_s(night.started_at) for night in known), default=math.inf)
    runs: list[WholeRun] = []
    for about in reversed(history.runs()):
        at_s = epoch_s(about.started_at)
        is_alike = (about.machine, about.device) == (machine, device) and about.by != "hostbench ab"
        is_judged = about.run_id in concluded or at_s < first_s
        if is_alike and is_judged and at_s < epoch_s(before):
            run = history.run(about)
            runs += [run] if run.header.scratch is None else []
        if len(runs) == LEVEL_RUNS:
            break
    return runs


def launches_of(run: WholeRun) -> LaunchesOf:
    """Of each series that has enough launches for a verdict, without the observing pass."""
    launches: dict[SeriesName, list[float]] = {}
    for record in run.winners().values():
        if record.status == "ok" and record.seconds is not None:
            launches.setdefault((str(record.case), record.version), []).append(record.seconds)
    return {name: own for name, own in launches.items() if len(own) >= MIN_LAUNCHES}


def by_level(
    earlier: Sequence[WholeRun], known: Sequence[StoredNight]
) -> tuple[list[LaunchesOf], LevelsOf]:
    """(of each run the series of which no night has confirmed a change since, of each other series
    the seconds of the runs before, those between two changes together)."""
    changed_at: dict[SeriesName, list[float]] = {}
    for night, change in _confirmed(known):
        at = changed_at.setdefault((change.case, change.version), [])
        at.append(epoch_s(night.started_at))
    since: list[LaunchesOf] = []
    apart = {name: [list[float]() for _ in times] for name, times in changed_at.items()}
    for run in earlier:
        launches, at_s = launches_of(run), epoch_s(run.header.started_at)
        num = {name: bisect_right(changed_at.get(name, ()), at_s) for name in launches}
        since.append({n: own for n, own in launches.items() if num[n] == len(apart.get(n, ()))})
        for name in launches.keys() - since[-1].keys():
            apart[name][num[name]].append(median(launches[name]))
    return since, apart


def _confirmed(known: Sequence[StoredNight]) -> Iterator[tuple[StoredNight, NightChange]]:
    for night in known:
        for change in night.changes:
            if change.cause in CONFIRMED:
                yield night, change


def that_fits(plan: Plan, earlier: Sequence[WholeRun], seconds: float) -> Plan:
    """As many launches of as many cases as there is time for, going by the last run, those first
    that were measured longest ago; all where there was none. `earlier`: the newest first."""
    if not earlier:
        return plan
    measured_at: dict[str, float] = {}
    for run in earlier:
        for record in run.run.records:
            if record.status == "ok":
                measured_at.setdefault(str(record.case), epoch_s(run.header.started_at))
    oldest_first = sorted(plan.cases, key=lambda case: measured_at.get(str(case), 0.0))
    times = [epoch_s(record.started_at) for record in earlier[0].run.records]
    # From one record to the next: a launch of a case, with its share of starting processes.
    launch_s = (max(times) - min(times)) / max(len(times) - 1, 1)
    costs_s = dict.fromkeys(oldest_first, launch_s)
    launches, fit = fitting(costs_s, seconds, plan.profile.launches)
    cases = tuple(case for case in plan.cases if case in (fit or oldest_first[:1]))
    return replace(plan, cases=cases, profile=plan.profile.of(launches))


def facts_moved(before: WholeRun, tonight: WholeRun) -> tuple[list[str], list[str]]:
    """(facts that last, facts that pass) that differ and may be causes, in words, the likeliest
    first."""
    first, second = (
        {when: facts_of(facts) for when, facts in run.run.facts.items()}
        for run in (before, tonight)
    )
    lasting, passing = list[str](), list[str]()
    for difference in possible_causes.possible(first, second):
        row = spec.row(difference.name)
        (passing if row is not None and row.volatile else lasting).append(fact_in_words(difference))
    return lasting, passing


def landed(root: Path, before: str | None, tonight: str | None) -> list[str]:
    """The commits between two runs, the newest first: `1a2b3c4d its first line`."""
    if not before or not tonight or before == tonight:
        return []
    commits = repo.landed(root, before, tonight)
    if not commits:
        return [f"{before[:8]} -> {tonight[:8]}"]
    return [
        f"{commit[:8]} {subject[:_LONGEST_SUBJECT]}{'...' * (len(subject) > _LONGEST_SUBJECT)}"
        for commit, subject in commits
    ]


def with_status(status: str, tonight: WholeRun, earlier: Sequence[WholeRun] = ()) -> list[str]:
    """`case: reason` of the cases with that status, `failed` or `skipped`; with `earlier` runs,
    those that had a number in one of them."""
    had_number = {r.case for run in earlier for r in run.run.records if r.status == "ok"}
    return [
        f"{as_typed(str(result.case))}: {result.reason}"
        for result in tonight.results()
        if result.status == status and (not earlier or result.case in had_number)
    ]


def slower_by_history(
    history: Results, machine: str, known: Sequence[StoredNight]
) -> tuple[list[Event], list[Event]]:
    """The steps to slower on this machine that stayed, are recent and not in triage: (those that
    `hostbench changes` confirms and no night before has named, those that one has)."""
    new, still = list[Event](), list[Event]()
    for event in as_of_today(history_of(history), history).events:
        if event.machine != machine:
            continue
        is_open = event.recent and (event.triage is None or event.lapsed != "")
        if event.fails and not _is_known(event, known):
            new.append(event)
        elif is_open and event.effect > 0 and event.status in ("confirmed", "provisional"):
            still += [event] if _is_known(event, known) else []
    return new, still


def _is_known(event: Event, known: Sequence[StoredNight]) -> bool:
    near = {event.commit, *event.near}
    return any(f"{event.id} {commit}" in night.events for night in known for commit in near) or any(
        not near.isdisjoint({night.commit, night.run_id}) and event.case in ("", change.case)
        for night, change in _confirmed(known)
    )


def event_in_words(event: Event) -> str:
    since = f"{event.first.commit[:8]} {event.first.committed_at:%Y-%m-%d}"
    effect = format_change(event.effect)
    return f"{as_typed(event.id)} {effect} since {since} ({event.cause})"
