"""A run's loop: launches over families, one record per case and launch, as they come."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from msgspec.structs import replace

from hostbench.core.case import Case
from hostbench.core.clock import iso
from hostbench.core.records import CaseRecord, Launch, Measurement, Outcome
from hostbench.measure.workload import ASYNCHRONOUS, Workload
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import Plan
from hostbench.runner.progress import Bar

MAX_LOST = 3
"""Observing passes that may break before the rest of them is left out."""


def records(
    plan: Plan,
    workloads: Mapping[str, Workload],
    launcher: Launcher,
    progress: Bar,
) -> Iterator[CaseRecord]:
    """Measure the plan, then observe each case once in a pass of its own.

    A case that was skipped or failed is not tried in later launches.
    """
    observed = _observed(plan, workloads)
    progress.begin(plan.total() + len(observed), len(plan.cases))
    out: set[Case] = set()
    for _, record in _timed(plan, workloads, (launcher,), progress, out):
        yield record
    yield from _observe(plan, workloads, launcher, progress, observed - out)
    progress.dropped(len(observed & out))


def interleaved(
    plan: Plan,
    workloads: Mapping[str, Workload],
    launchers: tuple[Launcher, Launcher],
    progress: Bar,
) -> Iterator[tuple[int, CaseRecord]]:
    """Measure the plan on two sides, launch by launch: (side, record).

    The two launches of a family follow each other, in the order of `Plan.turns`, and walk the same
    cases in the same order. A case without a number on one side is left out on both from the next
    launch on. Nothing is observed.
    """
    progress.begin(len(launchers) * plan.total(), len(launchers) * len(plan.cases))
    yield from _timed(plan, workloads, launchers, progress, set())


def _timed(
    plan: Plan,
    workloads: Mapping[str, Workload],
    launchers: tuple[Launcher, ...],
    progress: Bar,
    out: set[Case],
) -> Iterator[tuple[int, CaseRecord]]:
    """Every launch on one or two sides; cases without a number join `out` and are left out. Of two
    sides each family has its own worker: a side may be a commit whose workers know one alone."""
    for launch in plan.launches():
        for families, variables, ordered in plan.workers(launch, apart=len(launchers) > 1):
            cases = tuple(case for case in ordered if case not in out)
            progress.dropped((len(ordered) - len(cases)) * len(launchers))
            if not cases:
                continue
            asked = launch_of(plan, launch, cases, variables=variables)
            for side in plan.turns(families[0], launch) if len(launchers) > 1 else (0,):
                progress.walk(f"launch {launch + 1} of {plan.profile.launches}", families)
                for outcome in launchers[side].run(asked):
                    record = _record(workloads[outcome.case.workload], launch, outcome)
                    if record.status != "ok":
                        out.add(record.case)
                    progress.case(record)
                    yield side, record


def _observed(plan: Plan, workloads: Mapping[str, Workload]) -> set[Case]:
    """Cases to observe: those that enqueue anything, if they are over ranks by a backend whose
    collectives are work of the device."""
    pairs = ((case, workloads[case.workload].options(case)) for case in plan.cases)
    return {
        case
        for case, options in pairs
        if not options.host_only and (not options.ranks or options.backend in ASYNCHRONOUS)
    }


def _observe(
    plan: Plan,
    workloads: Mapping[str, Workload],
    launcher: Launcher,
    progress: Bar,
    wanted: set[Case],
) -> Iterator[CaseRecord]:
    """The observing pass: a launch beyond the last, without times. A pass that breaks says nothing
    against the times: that is a proof which is unavailable. A profiler that breaks it again and
    again is left alone."""
    number, left, broken = plan.profile.launches, set(wanted), []
    for families, variables, ordered in plan.workers(number):
        cases = tuple(case for case in ordered if case in wanted)
        if not cases:
            continue
        progress.walk("observing", families)
        asked = launch_of(plan, number, cases, observe=True, variables=variables)
        for outcome in launcher.run(asked):
            if outcome.status == "failed" and not outcome.measurement.proofs:
                broken.append(outcome)
                outcome = _unavailable(outcome, f"the observing pass failed: {outcome.reason}")
            left.discard(outcome.case)
            record = _record(workloads[outcome.case.workload], number, outcome)
            progress.case(record)
            yield record
            if len(broken) >= MAX_LOST:
                break
        if len(broken) >= MAX_LOST:
            break
    for case in sorted(left, key=str):
        why = f"left out after {MAX_LOST} broken observing passes, the last: {broken[-1].reason}"
        record = _record(
            workloads[case.workload], number, _unavailable(replace(broken[-1], case=case), why)
        )
        progress.case(record)
        yield record


def _unavailable(outcome: Outcome, why: str) -> Outcome:
    measurement = Measurement(proofs={"copies": f"unavailable: {why}"})
    return replace(outcome, status="ok", reason=None, traceback=None, measurement=measurement)


def launch_of(plan: Plan, launch: int, cases: tuple[Case, ...], **more: Any) -> Launch:
    """What a worker is asked for: these cases, as the plan measures them."""
    return Launch(
        family=cases[0].family,
        number=launch,
        cases=cases,
        settings=asdict(plan.profile.settings),
        device=plan.device_override,
        deadline_s=plan.profile.deadline_s,
        **more,
    )


def _record(work: Workload, launch: int, outcome: Outcome) -> CaseRecord:
    return CaseRecord(
        case=outcome.case,
        version=work.version,
        launch=launch,
        position=outcome.position,
        status=outcome.status,
        reason=outcome.reason,
        started_at=iso(outcome.started_at),
        seconds=outcome.seconds,
        nbytes=work.options(outcome.case).moves,
        measurement=replace(outcome.measurement, traceback=outcome.traceback),
        expected=work.options(outcome.case).expects,
    )
