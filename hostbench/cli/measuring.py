"""A plan measured into journals: one code, or two interleaved with a run of each kept."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from msgspec import structs

from hostbench import facts
from hostbench.cli.output import warn
from hostbench.cli.results import check_writable
from hostbench.cli.run_setup import Setup, header_of
from hostbench.core.case import Case
from hostbench.core.clock import now
from hostbench.core.errors import DeviceLost, Interrupted
from hostbench.core.records import CaseRecord
from hostbench.runner import places, session
from hostbench.runner.journal import JournalWriter, read
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import Plan, fitting
from hostbench.runner.progress import Bar
from hostbench.store import adopt
from hostbench.vcs.side import Side

End = Literal["complete", "interrupted", "stopped", "device lost"]
"""How a run ended: walked to its end, cut off, after the time that it was given, or with a device
that does not start any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two archived runs whose launches were interleaved."""

    run_ids: tuple[str, str]
    records: tuple[list[CaseRecord], list[CaseRecord]]
    end: End


def walk(
    setup: Setup,
    plan: Plan,
    journals: Sequence[JournalWriter],
    sides: Sequence[Side] = (),
    most: int | None = None,
) -> tuple[End, tuple[list[CaseRecord], ...]]:
    """Measure the plan with the code of this process into one journal, or with those of two sides,
    interleaved, into two; with `most`, as many launches up to that as the time of the setup allows.
    An interrupt ends it early and keeps the rest. Finishing the journals is left to the caller.

    Raises BrokenError where no more can be written, and DeviceLost where there was nothing to keep.
    """
    bar = Bar()
    records: tuple[list[CaseRecord], ...] = tuple([] for _ in journals)

    def tell(when: str, found: Mapping[str, Any]) -> None:
        for journal in journals:
            journal.facts(when, found)

    setup.tell_before(tell)
    end: End = "complete"
    late_s = time.monotonic() + setup.budget_s
    if math.isfinite(late_s):
        bar.until(late_s)
    try:
        with ExitStack() as stack:
            stack.enter_context(bar)
            stack.enter_context(
                facts.Watch(setup.watched(tell), setup.device, setup.facts, pid=setup.launcher)
            )
            for index, record in _records(setup, plan, sides, bar, stack, most):
                journals[index].case(record)
                records[index].append(record)
                if time.monotonic() > late_s and all(records):
                    end = "stopped"
                    break
    except KeyboardInterrupt:
        end = "interrupted"
    except DeviceLost as error:
        if not all(records):
            for journal in journals:
                journal.path.unlink(missing_ok=True)
            raise
        warn(str(error))
        end = "device lost"
    tell("after", facts.to_json(setup.collect()))
    return end, records


def _records(
    setup: Setup,
    plan: Plan,
    sides: Sequence[Side],
    bar: Bar,
    stack: ExitStack,
    most: int | None,
) -> Iterator[tuple[int, CaseRecord]]:
    """(index of the journal, record)."""
    if not sides:
        launcher = stack.enter_context(Launcher(bar.tick, bar.started))
        for record in session.records(plan, setup.workloads, launcher, bar):
            yield 0, record
        return
    first, second = (
        stack.enter_context(Launcher(bar.tick, bar.started, side.root, side.variables))
        for side in sides
    )

    def measured(part: Plan) -> Iterator[tuple[int, CaseRecord]]:
        for index, record in session.interleaved(part, setup.workloads, (first, second), bar):
            side = sides[index]
            reason = record.reason and record.reason.replace(side.folder, "")
            version = side.versions[str(record.case)]
            yield index, structs.replace(record, version=version, reason=reason)

    if most is None:
        yield from measured(plan)
        return
    began_s = last_s = time.monotonic()
    took_s: dict[Case, list[float]] = {case: [] for case in plan.cases}
    started = set()
    for index, record in measured(plan.first_launch()):
        if index in started:  # else it also started that side's server, which no later one does
            took_s.get(record.case, []).append(time.monotonic() - last_s)
        started.add(index)
        last_s = time.monotonic()
        if record.status != "ok":
            took_s.pop(record.case, None)
        yield index, record
    known = {case: len(sides) * fmean(each) for case, each in took_s.items() if each}
    usual = fmean(known.values()) if known else 0.0
    costs_s = {case: known.get(case, usual) for case in took_s}
    costs_s = dict(sorted(costs_s.items(), key=lambda item: (item[1], str(item[0]))))
    launches, cases = fitting(costs_s, setup.budget_s - (last_s - began_s), most)
    yield from measured(plan.later_launches(cases, launches))


def measure_pair(
    setup: Setup,
    sides: tuple[Side, Side],
    plan: Plan,
    scratch: str | None = None,
    most: int | None = None,
) -> Pair:
    """Measure the plan on both sides and archive a run of each; an interrupt keeps what there is.
    With `most` the first launch is timed, and as many launches up to that, of as many cases, follow
    as the setup's time allows.

    `scratch`: why neither run is ever judged in a history. To be called under
    `terminate_as_interrupt`. Raises Interrupted where the interrupt came before both sides had
    a record: then nothing is kept.
    """
    headers = [
        structs.replace(header, by="hostbench ab", scratch=header.scratch or scratch)
        for header in (header_of(plan, setup, side.code) for side in sides)
    ]
    run_ids = headers[0].run_id, headers[1].run_id
    check_writable(setup.results / setup.machine / "runs")
    paths = [places.journal_path(setup.results, run_id) for run_id in run_ids]
    with ExitStack() as stack:
        journals = []
        for path, header, other in zip(paths, headers, reversed(run_ids), strict=True):
            header = structs.replace(header, interleaved_with=other)
            journals.append(stack.enter_context(JournalWriter(path, header)))
        end, (first, second) = walk(setup, plan, journals, sides, most)
        for journal in journals:
            journal.finish("complete" if end == "complete" else "interrupted", now())
    if not (first and second):
        for path in paths:
            path.unlink()
        raise Interrupted("interrupted before both sides had a number: nothing to keep")
    for path in paths:
        adopt.archive_journal(setup.results, path, read(path), lambda: setup.machine)
    return Pair(run_ids=run_ids, records=(first, second), end=end)
