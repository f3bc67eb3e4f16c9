"""A run's loop: launches over families, one record per case and launch, as they come."""

import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from msgspec.structs import replace

from hostbench import __version__, facts
from hostbench.core.case import Case
from hostbench.core.clock import iso, now
from hostbench.core.errors import DeviceLost
from hostbench.core.journal import JournalWriter, journal_path, read, run_id
from hostbench.core.records import CaseRecord, Measurement, Run, RunHeader
from hostbench.measure.workload import ASYNCHRONOUS, REGISTRY
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import Plan, fitting
from hostbench.runner.progress import Bar

End = Literal["complete", "interrupted", "stopped", "device lost"]
"""How a run ended: measured to its end, cut off, after the time that it was given, or with a device
that does not start any more."""
MAX_LOST = 3  # cases whose observing may break before the rest is left alone


def new_header(plan: Plan, *, commit: str | None, **more: Any) -> RunHeader:
    """Of a run that begins now; `more` are fields that no plan knows."""
    return RunHeader(
        run_id=run_id(commit),
        commit=commit,
        profile=plan.profile.name,
        launches=plan.profile.launches,
        started_at=now(),
        hostbench=__version__,
        planned=tuple(map(str, plan.cases)),
        **more,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What is known of the machine before a run, and how it is read again."""

    before: facts.Facts
    collect: Callable[[], facts.Facts]
    others: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`host 2`, ... -> facts of the hosts beside this one on which its ranks run."""
    launcher: int | None = None
    """The process that started the ranks of this host, where this one did not."""
    is_made_up: bool = False
    """A declared simulation: what happens here meanwhile says nothing of it."""


def record(
    results: Path,
    headers: Sequence[RunHeader],
    measured: Generator[tuple[int, CaseRecord]],
    host: Host,
    num_gpus: int,
    *,
    end_s: float = math.inf,
    why_scratch: Callable[[], str | None] = lambda: None,
) -> tuple[tuple[Run, ...], End, str]:
    """Write each record into the journal of its side as it comes, with the facts before, meanwhile
    and after: (what the journals hold, how it ended, why the device was lost, where it was). After
    `end_s` (of time.monotonic) it stops, once every side has a record; an interrupt ends it early,
    with what there is. `why_scratch` is asked once it is over."""
    paths = tuple(journal_path(results, header.run_id) for header in headers)
    end: End = "complete"
    why = ""
    began, began_s = time.time(), time.monotonic()
    with ExitStack() as stack:
        journals = [
            stack.enter_context(JournalWriter(path, header))
            for path, header in zip(paths, headers, strict=True)
        ]

        def write(when: str, of_host: Mapping[str, Any]) -> None:
            for journal in journals:
                journal.facts(when, of_host)

        for when, of_host in {"before": host.before, **host.others}.items():
            write(when, of_host)
        meanwhile = (lambda *_: None) if host.is_made_up else write
        try:
            watch = facts.watching(meanwhile, host.before, num_gpus, pid=host.launcher)
            with watch, closing(measured):
                for side, case_record in measured:
                    journals[side].case(case_record)
                    if time.monotonic() > end_s and all(j.holds_cases for j in journals):
                        end = "stopped"
                        break
        except KeyboardInterrupt:
            end = "interrupted"
        except DeviceLost as error:
            end, why = "device lost", str(error)
        write("after", host.collect())
        status, scratch = "complete" if end == "complete" else "interrupted", why_scratch()
        at = iso(began + time.monotonic() - began_s)  # the clock may have been set meanwhile
        for journal in journals:
            journal.finish(status, at, scratch)
        return tuple(map(read, paths)), end, why


def records(
    plan: Plan, launchers: Sequence[Launcher], progress: Bar, *, observes: bool = False
) -> Generator[tuple[int, CaseRecord]]:
    """Measure the plan on one or two sides, launch by launch: (side, record). One side `observes`
    each case once afterwards, in a launch of its own without times. Where there are too few for a
    verdict, a case without ranks is observed right after its timing in the last: nothing is built
    twice. A case without a number is left out, on both sides, from the next launch on.
    """
    observing, num_cases = plan.profile.launches, len(launchers) * len(plan.cases)
    left, timed = set(plan.cases), dict[Case, CaseRecord]()
    unobserved = {case for case in plan.cases if observes and _enqueues(case)}
    progress.begin(num_cases * len(plan.launches()) + len(unobserved), num_cases)
    for launch in plan.launches():
        after = observes and launch == observing - 1 and not plan.profile.is_judged
        for side, record in _walk(plan, launchers, progress, launch, left, observes_after=after):
            if record.launch == observing:
                record = _evidence(record, timed[record.case])
                unobserved.discard(record.case)
            else:
                timed[record.case] = record
                if record.status != "ok" and record.case in left:
                    left.remove(record.case)
                    num_dropped = len(launchers) * (observing - launch - 1)
                    progress.dropped(num_dropped + (record.case in unobserved))
            progress.case(record)
            yield side, record
    unobserved &= left
    num_broken = 0
    for side, record in _walk(plan, launchers, progress, observing, unobserved, observe=True):
        evidence = _evidence(record, timed[record.case])
        unobserved.discard(record.case)
        progress.case(evidence)
        yield side, evidence
        num_broken += evidence is not record
        if num_broken == MAX_LOST:
            why = f"left out after {MAX_LOST} broken observing passes, the last: {record.reason}"
            for case in sorted(unobserved, key=str):
                yield side, _unavailable(timed[case], observing, why)
            return


def _enqueues(case: Case) -> bool:
    """Whether a device can be seen at work: that of ranks, if their collectives are work of it."""
    options = REGISTRY[case.workload].options(case)
    return not options.host_only and (not options.ranks or options.backend in ASYNCHRONOUS)


def _walk(
    plan: Plan,
    launchers: Sequence[Launcher],
    progress: Bar,
    launch: int,
    cases: Set[Case],
    **more: bool,
) -> Iterator[tuple[int, CaseRecord]]:
    """One launch of these cases. Of two sides those of a family follow each other, in the order of
    `Plan.turns`, and walk the same cases in the same order. `more` are fields of Launch."""
    is_last = launch == plan.profile.launches
    what = "observing" if is_last else f"launch {launch + 1} of {plan.profile.launches}"
    for asked in plan.workers(launch, apart=len(launchers) > 1, **more):
        asked = replace(asked, cases=tuple(case for case in asked.cases if case in cases))
        if asked.cases:
            turns = plan.turns(asked.cases[0].family, launch) if len(launchers) > 1 else (0,)
            for side in turns:
                progress.walk(what, asked.cases)
                yield from ((side, record) for record in launchers[side].run(asked))


def _evidence(record: CaseRecord, timed: CaseRecord) -> CaseRecord:
    """The record of what was observed. Where observing broke, that says nothing against the times:
    it is a proof that is unavailable."""
    if record.status != "failed" or record.measurement.proofs:
        return record
    return _unavailable(timed, record.launch, f"the observing pass failed: {record.reason}")


def _unavailable(timed: CaseRecord, launch: int, why: str) -> CaseRecord:
    measurement = Measurement(proofs={"copies": f"unavailable: {why}"})
    return replace(timed, launch=launch, seconds=None, measurement=measurement)


def fitting_records(
    plan: Plan, launchers: Sequence[Launcher], progress: Bar, end_s: float, most: int
) -> Generator[tuple[int, CaseRecord]]:
    """As `records`, but as much as fits until `end_s` (of time.monotonic): the first launch is
    timed; then at most `most`, of as many cases as there is time for: of two sides the cheapest, of
    one any, drawn by the seed."""
    took_s: dict[Case, list[float]] = {case: [] for case in plan.cases}
    last_s, started = time.monotonic(), set()
    for side, record in records(plan.part(0, 1, plan.cases), launchers, progress):
        if side in started:  # else it also started that side's server, which no later one does
            took_s.get(record.case, []).append(time.monotonic() - last_s)
        started.add(side)
        last_s = time.monotonic()
        if record.status != "ok":
            took_s.pop(record.case, None)
        yield side, record
    usual_s = fmean([*chain(*took_s.values())] or [0.0])
    costs_s = {
        case: len(launchers) * fmean(took_s[case] or [usual_s])
        for case in random.Random(plan.seed).sample(list(took_s), len(took_s))
    }
    is_alone = len(launchers) == 1
    if not is_alone:
        costs_s = dict(sorted(costs_s.items(), key=itemgetter(1)))
    launches, cases = fitting(costs_s, end_s - last_s, most)
    yield from records(plan.part(1, launches, cases), launchers, progress, observes=is_alone)
