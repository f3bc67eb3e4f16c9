"""A plan measured and archived: with the code of this process, or with two codes, interleaved."""

import math
import random
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import fmean
from typing import Any, Literal

from msgspec import structs

from hostbench import __version__, facts
from hostbench.cli.output import warn
from hostbench.cli.run_setup import Setup
from hostbench.core.asv_config import without_plugin
from hostbench.core.case import Case
from hostbench.core.clock import now
from hostbench.core.errors import DeviceLost, HostbenchError, Interrupted
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.records import CaseRecord, Run, RunHeader
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.device.simulated_file import MARK
from hostbench.runner import places, session
from hostbench.runner.journal import JournalWriter, read
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import QUICK, Plan, fitting
from hostbench.runner.progress import Bar
from hostbench.store import adopt, asv_files
from hostbench.vcs.repo import Checkout, git
from hostbench.vcs.side import Side

End = Literal["complete", "interrupted", "stopped", "device lost"]
"""How a run ended: measured to its end, cut off, after the time that it was given, or with a device
that does not start any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was archived: a run, or one for each of two sides."""

    runs: tuple[Run, ...]
    end: End
    asv_error: str = ""
    """Why asv's file lacks the run, though it was meant to be there."""


def measure(
    setup: Setup,
    sides: Sequence[Side] = (),
    *,
    scratch: str | None = None,
    budget_s: float = math.inf,
    most: int | None = None,
    tells_asv: bool = False,
) -> Measured:
    """Measure the plan and archive it: one run, or with two sides one of each, their launches
    interleaved. An interrupt ends it early and keeps what there is.

    `scratch`: why a run is never judged in a history. `most`: the first launch is timed, and as
    many launches up to that, of as many cases, follow as `budget_s` allows: of two sides the
    cheapest, of a run any, so that in time each has its turn. `tells_asv`: a run that may be judged
    is written into asv's files too.

    Raises Interrupted where the interrupt came before every side had a record, DeviceLost where the
    device did: then nothing is kept. BrokenError where no more can be written.
    """
    archive_orphans(setup)
    headers = _headers(setup, sides, scratch)
    paths = [places.journal_path(setup.results, header.run_id) for header in headers]
    asv_error = ""
    with terminate_as_interrupt():
        with ExitStack() as stack:
            journals = [
                stack.enter_context(JournalWriter(path, header))
                for path, header in zip(paths, headers, strict=True)
            ]
            end = _measure_into(journals, setup, sides, budget_s, most)
            # Workers run the code of the start, but which commit that was can no longer be said.
            is_changed = not sides and setup.look() != setup.checkout
            why = "the checkout changed during the run" if is_changed else None
            for journal in journals:
                journal.finish("complete" if end == "complete" else "interrupted", now(), why)
            runs = [read(path) for path in paths]
            if tells_asv and setup.device != MARK:
                is_judged = end == "complete" and runs[0].header.scratch is None
                asv_error = _tell_asv(setup, runs[0], is_judged)
        if not all(run.records for run in runs):
            for path in paths:
                path.unlink(missing_ok=True)
            if end == "device lost":
                raise DeviceLost("the device was lost before anything was measured")
            raise Interrupted("interrupted before anything was measured: nothing to keep")
        archived = [
            adopt.archive_journal(setup.results, path, run, lambda: setup.machine)
            for path, run in zip(paths, runs, strict=True)
        ]
    return Measured(runs=tuple(archived), end=end, asv_error=asv_error)


def archive_orphans(setup: Setup) -> None:
    """Archive the journals whose writers are gone; those of whole runs, as asv leaves them, are
    only counted."""
    own_name = facts.machine_name(None, setup.facts)  # --machine names this run, not an older one
    num = 0
    for old in adopt.adopt_orphans(setup.results, lambda: own_name, warn):
        num += old.is_complete
        if not old.is_complete:
            warn(f"archived run {old.header.run_id} as far as it got before it was killed")
    if num:
        warn(f"archived finished runs that waited in their journals: {num}")


def _headers(setup: Setup, sides: Sequence[Side], scratch: str | None) -> list[RunHeader]:
    """Of runs that begin now: of this checkout, or of each side."""
    plan = setup.plan
    codes = [side.code for side in sides] or [setup.checkout]
    ids = [places.run_id(code.commit, now()) for code in codes]
    return [
        RunHeader(
            run_id=run_id,
            machine=setup.machine,
            commit=code.commit,
            committed_at=code.committed_at,
            scratch=_scratch(setup, code) or scratch,
            profile=plan.profile.name,
            launches=plan.profile.launches,
            device=setup.device,
            seed=plan.seed,
            started_at=now(),
            hostbench=__version__,
            planned=tuple(map(str, plan.cases)),
            interleaved_with=other if sides else None,
            **({"by": "hostbench ab"} if sides else {}),
        )
        for code, run_id, other in zip(codes, ids, reversed(ids), strict=True)
    ]


def _scratch(setup: Setup, code: Checkout) -> str | None:
    """Why this run is never judged nor given to asv; None when it may be."""
    profile = setup.plan.profile
    if setup.device == MARK and setup.simulation is None:
        return "simulated device"
    if profile.name == QUICK.name:
        return "quick"
    return few_launches(profile.launches) if profile.launches < MIN_LAUNCHES else code.scratch


def _measure_into(
    journals: Sequence[JournalWriter],
    setup: Setup,
    sides: Sequence[Side],
    budget_s: float,
    most: int | None,
) -> End:
    """Every record as it comes, with the facts before, meanwhile and after."""

    def write_facts(when: str, of_host: Mapping[str, Any]) -> None:
        for journal in journals:
            journal.facts(when, of_host)

    for when, of_host in {"before": facts.to_json(setup.facts), **setup.other_hosts}.items():
        write_facts(when, of_host)
    # A simulation says its own: what this host did meanwhile is none of them.
    meanwhile = write_facts if setup.simulation is None else lambda when, of_host: None
    bar, end_s = Bar(), time.monotonic() + budget_s
    if math.isfinite(end_s):
        bar.until(end_s)
    without_record = set(journals)
    end: End = "complete"
    try:
        with (
            bar,
            facts.Watch(meanwhile, setup.device, setup.facts, pid=setup.launcher),
            closing(_records(setup, sides, bar, end_s, most)) as records,
        ):
            for index, record in records:
                journals[index].case(record)
                without_record.discard(journals[index])
                if time.monotonic() > end_s and not without_record:
                    end = "stopped"
                    break
    except KeyboardInterrupt:
        end = "interrupted"
    except DeviceLost as error:
        warn(str(error))
        end = "device lost"
    write_facts("after", facts.to_json(setup.collect()))
    return end


def _records(
    setup: Setup, sides: Sequence[Side], bar: Bar, end_s: float, most: int | None
) -> Generator[tuple[int, CaseRecord]]:
    """(index of the journal, record)."""
    with ExitStack() as stack:
        launchers = [
            stack.enter_context(Launcher(bar.tick, bar.started, side.root, side.variables))
            for side in sides
        ] or [stack.enter_context(Launcher(bar.tick, bar.started))]

        def walk(plan: Plan, is_last: bool = True) -> Iterator[tuple[int, CaseRecord]]:
            if sides or not is_last:
                return session.timed_launches(plan, launchers, bar)
            records = session.records(plan, setup.workloads, launchers[0], bar)
            return ((0, record) for record in records)

        plan = setup.plan
        every = walk(plan) if most is None else _that_fit(plan, walk, len(launchers), end_s, most)
        for index, record in every:
            if sides and record.reason:
                reason = record.reason.replace(sides[index].folder, "")
                record = structs.replace(record, reason=reason)
            yield index, record


def _that_fit(
    plan: Plan,
    walk: Callable[..., Iterator[tuple[int, CaseRecord]]],
    num_sides: int,
    end_s: float,
    most: int,
) -> Iterator[tuple[int, CaseRecord]]:
    """The first launch, timed; then as many launches of as many cases as fit."""
    took_s: dict[Case, list[float]] = {case: [] for case in plan.cases}
    last_s, started = time.monotonic(), set()
    for index, record in walk(plan.part(0, 1, plan.cases), is_last=False):
        if index in started:  # else it also started that side's server, which no later one does
            took_s.get(record.case, []).append(time.monotonic() - last_s)
        started.add(index)
        last_s = time.monotonic()
        if record.status != "ok":
            took_s.pop(record.case, None)
        yield index, record
    costs_s = {case: num_sides * fmean(times) for case, times in took_s.items() if times}
    usual_s = fmean(costs_s.values()) if costs_s else 0.0
    costs_s = {case: costs_s.get(case, usual_s) for case in took_s}
    ordered = sorted(costs_s, key=lambda case: (costs_s[case], str(case)))
    if num_sides == 1:
        random.Random(plan.seed).shuffle(ordered)
    launches, cases = fitting({case: costs_s[case] for case in ordered}, end_s - last_s, most)
    yield from walk(plan.part(1, launches, cases))


def _tell_asv(setup: Setup, run: Run, is_judged: bool) -> str:
    """Have asv, where it is installed, know the machine, and a run that may be judged: why its
    files lack that run now. The archive has it either way."""
    if setup.root is None or find_spec("asv") is None:
        return ""
    wrong = ""
    try:
        entry = facts.asv_machine_entry(setup.machine, setup.facts)
        if places.asv_results(setup.root).resolve() == setup.results.resolve():
            facts.register_with_asv(entry)
        if is_judged:
            wrong = without_plugin(setup.root) or ""
        if is_judged and not wrong:
            commit = str(run.header.commit)
            authored = git(setup.root, "show", "-s", "--format=%at", names=[commit])
            asv_files.record(setup.results, entry, run, setup.workloads, int(authored))
    except HostbenchError as error:
        wrong = str(error)
    if wrong:
        warn(f"{wrong}; the run is archived all the same")
    return wrong if is_judged else ""
