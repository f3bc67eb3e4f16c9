"""A run's loop: launches over families, one record per case and launch, as they come."""

import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any, Literal

from msgspec.structs import replace

from hostbench import __version__, facts
from hostbench.core.case import Case
from hostbench.core.clock import now
from hostbench.core.errors import DeviceLost
from hostbench.core.records import CaseRecord, Launch, Measurement, RunHeader
from hostbench.measure.workload import ASYNCHRONOUS, Workload
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import Plan
from hostbench.runner.progress import Bar

End = Literal["complete", "interrupted", "stopped", "device lost"]
"""How a run ended: measured to its end, cut off, after the time that it was given, or with a device
that does not start any more."""
MAX_LOST = 3
"""Observing passes that may break before the rest of them is left out."""


def new_header(plan: Plan, *, commit: str | None, **more: Any) -> RunHeader:
    """Of a run that begins now; `more` are fields that no plan knows."""
    return RunHeader(
        run_id=places.run_id(commit),
        commit=commit,
        profile=plan.profile.name,
        launches=plan.profile.launches,
        seed=plan.seed,
        started_at=now(),
        hostbench=__version__,
        planned=tuple(map(str, plan.cases)),
        **more,
    )


def keep(
    records: Generator[tuple[int, CaseRecord]],
    journals: Sequence[JournalWriter],
    device: str,
    before: facts.Facts,
    collect: Callable[[], facts.Facts],
    *,
    others: Mapping[str, Mapping[str, Any]] | None = None,
    end_s: float = math.inf,
    pid: int | None = None,
    is_made_up: bool = False,
) -> tuple[End, str]:
    """Write each record into the journal of its side as it comes, with the facts `before`,
    meanwhile, and after as they are then collected; `others` are those of other hosts. After
    `end_s` (of time.monotonic) it stops, once every side has a record. `pid` as in `facts.Watch`;
    of what is made up this host says nothing.

    Returns how the run ended, and why where the device was lost.
    """

    def write(when: str, of_host: Mapping[str, Any]) -> None:
        for journal in journals:
            journal.facts(when, of_host)

    for when, of_host in {"before": facts.to_json(before), **(others or {})}.items():
        write(when, of_host)
    without_record = set(range(len(journals)))
    end: End = "complete"
    why = ""
    meanwhile = (lambda *_: None) if is_made_up else write
    try:
        with facts.Watch(meanwhile, device, before, pid=pid), closing(records):
            for side, record in records:
                journals[side].case(record)
                without_record.discard(side)
                if time.monotonic() > end_s and not without_record:
                    end = "stopped"
                    break
    except KeyboardInterrupt:
        end = "interrupted"
    except DeviceLost as error:
        end, why = "device lost", str(error)
    write("after", facts.to_json(collect()))
    return end, why


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
    timed: dict[Case, CaseRecord] = {}
    for _, record in _timed(plan, (launcher,), progress, out):
        timed[record.case] = record
        yield record
    progress.dropped(len(observed & out))
    wanted = {case: timed[case] for case in sorted(observed - out, key=str)}
    yield from _observe(plan, launcher, progress, wanted)


def timed_launches(
    plan: Plan, launchers: Sequence[Launcher], progress: Bar
) -> Iterator[tuple[int, CaseRecord]]:
    """Measure the plan on one or two sides, launch by launch: (side, record).

    The two launches of a family follow each other, in the order of `Plan.turns`, and walk the same
    cases in the same order. A case without a number on one side is left out on both from the next
    launch on. Nothing is observed.
    """
    progress.begin(len(launchers) * plan.total(), len(launchers) * len(plan.cases))
    yield from _timed(plan, launchers, progress, set())


def _timed(
    plan: Plan, launchers: Sequence[Launcher], progress: Bar, out: set[Case]
) -> Iterator[tuple[int, CaseRecord]]:
    """Every launch on one or two sides; cases without a number join `out` and are left out. Of two
    sides each family has its own worker."""
    for launch in plan.launches():
        for families, variables, ordered in plan.workers(launch, apart=len(launchers) > 1):
            cases = tuple(case for case in ordered if case not in out)
            progress.dropped((len(ordered) - len(cases)) * len(launchers))
            if not cases:
                continue
            asked = launch_of(plan, launch, cases, variables=variables)
            for side in plan.turns(families[0], launch) if len(launchers) > 1 else (0,):
                progress.walk(f"launch {launch + 1} of {plan.profile.launches}", families)
                for record in launchers[side].run(asked):
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
    plan: Plan, launcher: Launcher, progress: Bar, left: dict[Case, CaseRecord]
) -> Iterator[CaseRecord]:
    """The observing pass: a launch beyond the last, without times. `left`: a timed record of each
    case. A pass that breaks says nothing against the times: that is a proof which is unavailable. A
    profiler that breaks it again and again is left alone."""
    number, num_broken = plan.profile.launches, 0

    def unavailable(record: CaseRecord, why: str) -> CaseRecord:
        measurement = Measurement(proofs={"copies": f"unavailable: {why}"})
        more = {"launch": number, "seconds": None, "measurement": measurement}
        return replace(record, status="ok", reason=None, **more)

    for families, variables, ordered in plan.workers(number):
        cases = tuple(case for case in ordered if case in left)
        if not cases:
            continue
        progress.walk("observing", families)
        asked = launch_of(plan, number, cases, observe=True, variables=variables)
        for record in launcher.run(asked):
            left.pop(record.case)
            why = record.reason
            if record.status == "failed" and not record.measurement.proofs:
                num_broken += 1
                record = unavailable(record, f"the observing pass failed: {why}")
            progress.case(record)
            yield record
            if num_broken == MAX_LOST:
                last = f"left out after {MAX_LOST} broken observing passes, the last: {why}"
                for timed in left.values():
                    record = unavailable(timed, last)
                    progress.case(record)
                    yield record
                return


def launch_of(plan: Plan, launch: int, cases: tuple[Case, ...], **more: Any) -> Launch:
    """What a worker is asked for: these cases, as the plan measures them."""
    return Launch(
        number=launch,
        cases=cases,
        settings=asdict(plan.profile.settings),
        device=plan.device_override,
        deadline_s=plan.profile.deadline_s,
        **more,
    )
