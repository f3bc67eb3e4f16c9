"""What is stored that a night is held against, and what has changed since."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hostbench.core.case import as_typed
from hostbench.core.clock import epoch_s
from hostbench.core.records import Run
from hostbench.facts import differences, spec
from hostbench.judge.events import Event
from hostbench.judge.night import confirmed
from hostbench.judge.two_sides import LEVEL_RUNS
from hostbench.report.history import history_of
from hostbench.runner.plan import Plan, fitting
from hostbench.store.nights import Night
from hostbench.store.results import Results
from hostbench.store.runs import case_results, facts_of
from hostbench.vcs import repo


def stored_runs(
    results: Results, machine: str, device: str, until: str, nights: Sequence[Night]
) -> list[Run]:
    """The runs of that machine and device until then (ISO 8601) that nights have concluded, the
    oldest first, without disturbed ones; from before the first night any run. One that nobody
    judged would hide what moved in it: cut off, by hand, or measured once more."""
    concluded = {night.run_id for night in nights if not night.is_disturbed}
    first_s = min((epoch_s(night.started_at) for night in nights), default=math.inf)
    runs: list[Run] = []
    for about in reversed(results.runs()):
        at_s = epoch_s(about.started_at)
        is_alike = (about.machine, about.device) == (machine, device) and about.by != "hostbench ab"
        is_judged = about.run_id in concluded or at_s < first_s
        if is_alike and is_judged and at_s < epoch_s(until) and len(runs) < LEVEL_RUNS:
            run = results.run(about)
            runs += [run] if run.header.scratch is None else []
    return runs[::-1]


def that_fits(plan: Plan, runs: Sequence[Run], seconds: float) -> Plan:
    """As many launches of as many cases as there is time for, going by the last run, those first
    that were measured longest ago; all where there was none. `runs`: the oldest first."""
    if not runs:
        return plan
    measured_at: dict[str, str] = {}
    for run in runs:
        own = (str(record.case) for record in run.records if record.status == "ok")
        measured_at |= dict.fromkeys(own, run.header.started_at)
    oldest_first = sorted(plan.cases, key=lambda case: measured_at.get(str(case), ""))
    times = [epoch_s(record.started_at) for record in runs[-1].records]
    # From one record to the next: a launch of a case, with its share of starting processes.
    launch_s = (max(times) - min(times)) / max(len(times) - 1, 1)
    costs_s = dict.fromkeys(oldest_first, launch_s)
    launches, fit = fitting(costs_s, seconds, plan.profile.launches)
    cases = tuple(case for case in plan.cases if case in (fit or oldest_first[:1]))
    return replace(plan, cases=cases, profile=plan.profile.of(launches))


def facts_moved(before: Run, tonight: Run) -> tuple[list[str], list[str]]:
    """(facts that last, facts that pass) that differ and may be causes, in words, the likeliest
    first."""
    first, second = (
        {when: facts_of(facts) for when, facts in run.facts.items()} for run in (before, tonight)
    )
    lasting, passing = list[str](), list[str]()
    for difference in differences.possible(first, second):
        row = spec.row(difference.name)
        (passing if row is not None and row.volatile else lasting).append(str(difference))
    return lasting, passing


def landed(root: Path, before: str | None, tonight: str | None) -> list[str]:
    """The commits between two runs, the newest first: `1a2b3c4d its first line`."""
    if not before or not tonight or before == tonight:
        return []
    commits = repo.landed(root, before, tonight)
    return [f"{commit[:8]} {subject}" for commit, subject in commits or ()] or [
        f"{before[:8]} -> {tonight[:8]}"
    ]


def with_status(status: str, tonight: Run, earlier: Sequence[Run] = ()) -> list[str]:
    """`case: reason` of the cases with that status, `failed` or `skipped`; with `earlier` runs,
    those that had a number in one of them."""
    had_number = {r.case for run in earlier for r in run.records if r.status == "ok"}
    return [
        f"{as_typed(str(result.case))}: {result.reason}"
        for result in case_results(tonight)
        if result.status == status and (not earlier or result.case in had_number)
    ]


def slower_by_history(
    results: Results, machine: str, nights: Sequence[Night]
) -> tuple[list[Event], list[Event]]:
    """The steps to slower on this machine that stayed, are recent and not in triage: (those that
    `hostbench changes` confirms and no night before has named, those that one has)."""
    new, still = list[Event](), list[Event]()
    for event in history_of(results).events:
        is_open = event.recent and (event.triage is None or event.lapsed != "")
        stayed = event.effect > 0 and event.status in ("confirmed", "provisional")
        if event.machine != machine or not (is_open and stayed):
            continue
        if _is_known(event, nights):
            still.append(event)
        elif event.fails:
            new.append(event)
    return new, still


def _is_known(event: Event, nights: Sequence[Night]) -> bool:
    near = {event.commit, *event.near}
    named = {name for night in nights for name in night.events}
    return not named.isdisjoint(f"{event.id} {commit}" for commit in near) or any(
        not near.isdisjoint({night.commit, night.run_id}) and event.case in ("", change.case)
        for night, change in confirmed(nights)
    )
