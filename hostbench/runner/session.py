"""A run's loop: launches over families, one record per case and launch, as they come."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Protocol

from hostbench.case import Case
from hostbench.clock import iso
from hostbench.journal import CaseRecord
from hostbench.runner.launcher import Launch, Launcher, Outcome
from hostbench.runner.plan import Plan
from hostbench.workload import Workload


class Progress(Protocol):
    """What the terminal is told."""

    def begin(self, total: int) -> None: ...
    def launch(self, number: int, of: int, family: str) -> None: ...
    def case(self, record: CaseRecord) -> None: ...
    def dropped(self, count: int) -> None:
        """So many case-launches will not run: their case was skipped or failed."""

    def tick(self) -> None:
        """About once a second, while a worker is busy."""

    def end(self) -> None: ...


def records(
    plan: Plan,
    workloads: Mapping[str, Workload],
    launcher: Launcher,
    progress: Progress,
    entering: Callable[[str], None] = lambda family: None,
) -> Iterator[CaseRecord]:
    """Measure the plan. A case that was skipped or failed is not tried in later launches.

    `entering` is told each family before a launch of it begins.
    """
    progress.begin(plan.total())
    out: set[Case] = set()
    for launch in range(plan.profile.launches):
        for family in plan.families():
            ordered = plan.order(family, launch)
            cases = tuple(case for case in ordered if case not in out)
            progress.dropped(len(ordered) - len(cases))
            if not cases:
                continue
            progress.launch(launch, plan.profile.launches, family)
            entering(family)
            for outcome in launcher.run(_launch(plan, family, launch, cases)):
                record = _record(workloads[outcome.case.workload], launch, outcome)
                if record.status != "ok":
                    out.add(record.case)
                progress.case(record)
                yield record
    progress.end()


def _launch(plan: Plan, family: str, launch: int, cases: tuple[Case, ...]) -> Launch:
    return Launch(
        family=family,
        number=launch,
        cases=cases,
        settings=asdict(plan.profile.settings),
        device=plan.stand_in,
        deadline_s=plan.profile.deadline_s,
    )


def _record(work: Workload, launch: int, outcome: Outcome) -> CaseRecord:
    measurement = dict(outcome.measurement)
    if outcome.traceback:
        measurement["traceback"] = outcome.traceback
    return CaseRecord(
        case=outcome.case,
        version=work.version,
        launch=launch,
        position=outcome.position,
        status=outcome.status,
        reason=outcome.reason,
        started_at=iso(outcome.started_at),
        seconds=outcome.seconds,
        nbytes=work.nbytes(outcome.case),
        measurement=measurement,
        expected=work.expected(outcome.case),
    )
