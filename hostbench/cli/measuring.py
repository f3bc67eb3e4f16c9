"""What every command that measures does: choose the cases, look at the machine and the code,
measure into a journal, archive it. Of this process's code, or of two codes, interleaved."""

import math
import os
import random
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean

from msgspec import structs

from hostbench import facts
from hostbench.cli.output import warn
from hostbench.cli.results import open_history, results_folder
from hostbench.core.asv_config import asv_results, project_root, without_plugin
from hostbench.core.case import Case, as_typed, parse_selector
from hostbench.core.clock import now
from hostbench.core.errors import BrokenError, DeviceLost, HostbenchError, Interrupted, UsageError
from hostbench.core.processes import terminate_as_interrupt
from hostbench.core.records import CaseRecord, Run, RunHeader
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.device.simulated_file import GROUP, MARK, VARIABLE, Simulation, declared
from hostbench.facts.machine import checked_name
from hostbench.families import check_selects, known, load, user_families
from hostbench.measure.workload import Workload
from hostbench.report.comparison import Compared, compared
from hostbench.report.doctor import untested_torch, without_cuda, without_torch
from hostbench.report.sides import of_runs
from hostbench.runner import session
from hostbench.runner.journal import run_id
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import QUICK, STANDARD, Plan, choose, default_device, fitting
from hostbench.runner.progress import Bar
from hostbench.runner.session import End, Host
from hostbench.store import archive, asv_files
from hostbench.vcs.repo import Checkout, checkout, git
from hostbench.vcs.side import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Options of every command that measures, as `hostbench run --help` explains them."""

    families: tuple[str, ...] = ()
    """Without a name the project's own where it has some, else all."""
    case: tuple[str, ...] = ()
    quick: bool = False
    device: str | None = None
    launches: int | None = None
    deadline: float | None = None
    """Seconds, as each time."""
    machine: str | None = None
    results: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that is decided before the first case."""

    root: Path | None
    results: Path
    machine: str
    host: Host
    checkout: Checkout
    look: Callable[[], Checkout]
    """The checkout once more."""
    device: str
    workloads: dict[str, Workload]
    plan: Plan
    """Its cases, in an order of its own."""

    def with_cases(self, cases: tuple[Case, ...]) -> "Setup":
        return replace(self, plan=replace(self.plan, cases=cases))

    def only_case(self, text: str) -> Case:
        """The one case that `text` selects. Raises UsageError."""
        first, *others = self.plan.cases
        if others:
            raise UsageError(
                f"{text!r} selects {len(self.plan.cases)} cases: name one, as "
                f"'{as_typed(str(first))}'; `hostbench list {first.family} --cases` names them all"
            )
        return first


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What was archived: a run, or one for each of two sides."""

    runs: tuple[Run, ...]
    end: End
    asv_error: str = ""
    """Why asv's file lacks the run, though it was meant to be there."""
    sides: tuple[Side, ...] = ()
    notes: Sequence[str] = ()
    """What of two sides could not be compared, and why."""

    def compared(self, results: str | None) -> Compared:
        """The two runs, as `hostbench compare` has them."""
        history = open_history(results)
        runs = history.sides()
        ends = (of_runs(runs, run.header.machine, [run.run_id]) for run in self.runs)
        return compared(history, *ends)


# ---- before the first case ----------------------------------------------------------------------


def set_up(options: Measuring, *, keeps: bool = True) -> Setup:
    """Look at the machine and the checkout. `keeps`: a run, in the results folder. Raises
    UsageError for what cannot be run, before torch is asked, which takes seconds; BrokenError
    without torch, or where it cannot use the GPUs."""
    workloads, cases, device = chosen_cases(options)
    results, root = results_folder(options.results), project_root(Path.cwd())
    simulation = declared() if device == MARK else None
    if simulation is not None:
        for selector, _ in simulation.slower():
            check_selects(selector, load(), f"{os.environ[VARIABLE]}: slowdown: ")
        if keeps and root is not None and _is_same(asv_results(root), results):
            raise UsageError(
                f"{VARIABLE} is set, and {results} is the folder of measured results that "
                "asv.conf.json names: name another with --results"
            )
    sources = {family: known()[family].path for family in sorted({case.family for case in cases})}
    look = partial(checkout, root, results, sources)
    host_facts, collect = _facts(device, simulation)
    machine = _machine(options.machine, device, host_facts)
    if keeps:
        _check_clock(results, machine)
    plan = Plan(
        profile=(QUICK if options.quick else STANDARD).of(options.launches, options.deadline),
        cases=cases,
        device_override=MARK if device == MARK else None,
        seed=random.SystemRandom().getrandbits(32),
    )
    return Setup(
        root=root,
        results=results,
        machine=machine,
        host=Host(before=host_facts, collect=collect, is_made_up=simulation is not None),
        checkout=look(),
        look=look,
        device=device,
        workloads=workloads,
        plan=plan,
    )


def chosen_cases(options: Measuring) -> tuple[dict[str, Workload], tuple[Case, ...], str]:
    """(the workloads of the families, the cases of them that are measured, the device). Raises
    BrokenError where a GPU was asked for and is not there, UsageError where a setting hides it and
    for what selects nothing."""
    # What of the user's project cannot be imported is an error, as if it were named.
    own = () if options.case else user_families()
    workloads = load(options.families or own or tuple(known()))
    hardware = facts.nvidia_hardware()
    if options.device == "cuda" and not hardware.visible:
        text = f"--device cuda: no NVIDIA GPU is visible ({hardware.why})"
        if facts.hidden_by_user():
            raise UsageError(text)
        raise BrokenError(
            f"{text}: mend the driver, give the container its GPUs (--gpus all), or name --device "
            "cpu; `nvidia-smi` and `hostbench doctor` tell more"
        )
    device = options.device or default_device(hardware)
    selectors = [parse_selector(text) for text in options.case]
    cases = choose(workloads, device, selectors=selectors, quick=options.quick)
    return workloads, cases, device


def _machine(named: str | None, device: str, host_facts: facts.Facts) -> str:
    """Simulated runs lie apart. Raises UsageError for a name that says otherwise."""
    machine = facts.machine_name(named, host_facts)
    if device == MARK and MARK not in machine:
        return checked_name(f"{MARK}-{machine}", "--machine")
    if device != MARK and MARK in machine:
        raise UsageError(
            f"machine {machine!r} is named {MARK}, and this run measures {device}: name it "
            "otherwise"
        )
    return machine


def _check_clock(results: Path, machine: str) -> None:
    """Runs are ordered by when they began, and named so."""
    names = [path.name for path in (results / machine / "runs").glob(f"2*{archive.SUFFIX}")]
    newest = max(names, default="").removesuffix(archive.SUFFIX)
    if newest[:16] > run_id(None)[:16]:
        warn(
            f"run {newest} of this machine began later than now, {now()}: if the clock is wrong "
            "set it (`timedatectl`), else delete that run; until then their order is wrong"
        )


def _facts(
    device: str, simulation: Simulation | None
) -> tuple[facts.Facts, Callable[[], facts.Facts]]:
    """Of this host, and how they are read once more; the simulated device needs no torch. Raises
    BrokenError where torch cannot be used."""
    if simulation is not None:
        return simulation.all_facts(), simulation.all_facts
    if device == MARK:
        link = {GROUP: Simulation().all_facts()[GROUP]}
        return facts.collect() | link, lambda: facts.collect() | link
    torch = facts.probe_torch(device)
    wrong = without_torch(torch)
    if wrong is None and (untested := untested_torch(torch)) is not None:
        warn(f"{untested.text}; {untested.remedy}")
    collect = partial(facts.collect, torch_state=torch)
    host_facts = collect() if wrong is None else {}
    if wrong is None and device == "cuda" and not torch.cuda_works:
        wrong = without_cuda(host_facts, facts.nvidia_hardware(), torch)
    if wrong is not None:
        raise BrokenError(f"{wrong.text}; {wrong.remedy}")
    return host_facts, collect


# ---- measuring ----------------------------------------------------------------------------------


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
    device was lost by then. BrokenError where no more can be written.
    """
    _archive_orphans(setup)

    def why_scratch() -> str | None:
        """Workers run the code of the start, but which commit that was can no longer be said."""
        is_changed = not sides and setup.look() != setup.checkout
        return "the checkout changed during the run" if is_changed else None

    end_s = time.monotonic() + budget_s
    with terminate_as_interrupt():
        with Bar(end_s=end_s) as bar:
            recorded = session.record(
                setup.results,
                _headers(setup, sides, scratch),
                _records(setup, sides, bar, end_s, most),
                setup.host,
                setup.plan.num_gpus(),
                end_s=end_s,
                why_scratch=why_scratch,
            )
        if recorded.why:
            warn(recorded.why)
        archived = [
            archive.archive_journal(setup.results, path, run)
            for path, run in zip(recorded.paths, recorded.runs, strict=True)
            if run.records
        ]
        if len(archived) < len(recorded.runs):
            for path in recorded.paths:
                path.unlink(missing_ok=True)
            before = "before both sides were measured" if sides else "before anything was measured"
            if recorded.end == "device lost":
                raise DeviceLost(f"the device was lost {before}")
            raise Interrupted(f"interrupted {before}")
        asv_error = ""
        if tells_asv and setup.device != MARK:
            is_judged = recorded.end == "complete" and recorded.runs[0].header.scratch is None
            asv_error = _tell_asv(setup, recorded.runs[0], is_judged)
    return Measured(runs=tuple(archived), end=recorded.end, asv_error=asv_error)


def _is_same(folder: Path, other: Path) -> bool:
    return folder.resolve() == other.resolve()


def _archive_orphans(setup: Setup) -> None:
    """Archive the journals whose writers are gone; those of whole runs, as asv leaves them, are
    only counted."""
    orphans = archive.adopt_orphans(setup.results, warn)
    for run in orphans:
        if not run.is_complete:
            warn(f"archived run {run.run_id} as far as it got before it was killed")
    if num := sum(run.is_complete for run in orphans):
        warn(f"archived finished runs that waited in their journals: {num}")


def _headers(setup: Setup, sides: Sequence[Side], scratch: str | None) -> list[RunHeader]:
    """Of runs that begin now: of this checkout, or of each side."""
    profile, why = setup.plan.profile, None
    if setup.device == MARK and not setup.host.is_made_up:
        why = "simulated device"
    elif profile.name == QUICK.name:
        why = "quick"
    elif profile.launches < MIN_LAUNCHES:
        why = few_launches(profile.launches)
    headers = [
        session.new_header(
            setup.plan,
            device=setup.device,
            machine=setup.machine,
            commit=code.commit,
            committed_at=code.committed_at,
            scratch=why or code.scratch or scratch,
            by="hostbench ab" if sides else "hostbench run",
        )
        for code in [side.code for side in sides] or [setup.checkout]
    ]
    if not sides:
        return headers
    return [
        structs.replace(header, interleaved_with=other.run_id)
        for header, other in zip(headers, reversed(headers), strict=True)
    ]


def _records(
    setup: Setup, sides: Sequence[Side], bar: Bar, end_s: float, most: int | None
) -> Generator[tuple[int, CaseRecord]]:
    """(index of the journal, record)."""
    with ExitStack() as stack:
        launchers = [
            stack.enter_context(Launcher(bar.tick, bar.started, side.root, side.variables))
            for side in sides
        ] or [stack.enter_context(Launcher(bar.tick, bar.started))]
        walk = partial(session.records, launchers=launchers, progress=bar)
        every = (
            walk(setup.plan, observes=not sides)
            if most is None
            else _that_fit(setup.plan, walk, len(launchers), end_s, most)
        )
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
    for index, record in walk(plan.part(0, 1, plan.cases)):
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
    yield from walk(plan.part(1, launches, cases), observes=num_sides == 1)


def _tell_asv(setup: Setup, run: Run, is_judged: bool) -> str:
    """Have asv, where it is installed, know the machine, and a run that may be judged: why its
    files lack that run now. The archive has it either way."""
    if setup.root is None or find_spec("asv") is None:
        return ""
    wrong = ""
    try:
        entry = facts.asv_machine_entry(setup.machine, setup.host.before)
        if _is_same(asv_results(setup.root), setup.results):
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
