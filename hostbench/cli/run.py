"""`hostbench run`: measure in the foreground, keep everything, then have asv record the commit."""

import math
import random
import signal
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hostbench import __version__, facts
from hostbench.case import parse_selector
from hostbench.cli import asv_record
from hostbench.cli.places import results_folder
from hostbench.cli.program import program
from hostbench.clock import now
from hostbench.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    HostbenchError,
    NothingMeasured,
    UsageError,
)
from hostbench.journal import JournalWriter, RunHeader, read
from hostbench.processes import become_subreaper
from hostbench.report.page import page
from hostbench.runner import places
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import (
    MIN_LAUNCHES_FOR_VERDICT,
    QUICK,
    STANDARD,
    Plan,
    Profile,
    choose,
    default_device,
    with_launches,
)
from hostbench.runner.progress import Bar
from hostbench.runner.repo import Checkout, checkout
from hostbench.runner.session import records
from hostbench.store import adopt, frame, runs
from hostbench.store.runs import WholeRun
from hostbench.workload import Workload
from hostbench.workloads import FAMILIES, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """All that is decided before the first case."""

    root: Path | None
    results: Path
    machine: str
    facts: facts.Facts
    collect: Callable[[], Any]
    """The facts once more, as they were asked for."""
    checkout: Checkout
    device: str
    workloads: dict[str, Workload]


def execute(args: Namespace) -> int:
    """Measure, archive, record, answer. Exit code 4 if a case failed, 3 if none has a number."""
    setup = _setup(args)
    own_name = facts.machine_name(None, setup.facts)  # --machine names this run, not an older one
    for old in adopt.adopt_orphans(setup.results, lambda: own_name, _warn):
        _warn(f"archived run {old.header.run_id}, which had been left in its journal")
    header, plan = _resumed(args, setup) if args.resume else _fresh(args, setup)
    path = places.journal_path(setup.results, header.run_id)
    _check_writable(setup.results / setup.machine / "runs")
    recorded = True
    with _terminate_as_interrupt():
        with JournalWriter(path, header) as journal:
            finished, scratch = _measure(setup, journal, plan)
            if finished and header.scratch is None and scratch is None and not args.no_asv:
                whole = _whole(setup.results, header.resumes or header.run_id)
                recorded = _record_with_asv(whole, setup)
        if not read(path).records:
            path.unlink()
            raise NothingMeasured("interrupted before the first case was measured: nothing to keep")
        part = adopt.archive_journal(setup.results, path, lambda: setup.machine)
    code = _answer(setup.results, part.root_id, finished)
    return code if recorded else EXIT_FAILED


def _check_writable(folder: Path) -> None:
    """Before hours of measuring, not after. Raises UsageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"cannot write results to {folder}: {error.strerror}; make it writable or name another "
            "folder with --results"
        ) from error


def _setup(args: Namespace) -> Setup:
    become_subreaper()
    families = tuple(args.families) or FAMILIES
    workloads = load(families)
    results = results_folder(args)
    root = places.project_root(Path.cwd())
    collect = partial(
        facts.collect, torch_state=facts.probe_torch(), identify=args.identify or None
    )
    found = facts.with_memory_copy(collect())
    hardware = facts.nvidia_hardware()
    if args.device == "cuda" and not hardware.visible:
        raise UsageError(f"--device cuda: no NVIDIA GPU is visible ({hardware.why})")
    return Setup(
        root=root,
        results=results,
        machine=facts.machine_name(args.machine, found),
        facts=found,
        collect=collect,
        checkout=checkout(root, results),
        device=args.device or default_device(hardware),
        workloads=workloads,
    )


def _fresh(args: Namespace, setup: Setup) -> tuple[RunHeader, Plan]:
    profile = _profile(args)
    cases = choose(
        setup.workloads,
        setup.device,
        selectors=[parse_selector(text) for text in args.case],
        quick=args.quick,
    )
    seed = args.seed if args.seed is not None else random.SystemRandom().getrandbits(32)
    plan = Plan(profile=profile, cases=cases, stand_in=_stand_in(setup.device), seed=seed)
    header = RunHeader(
        run_id=places.run_id(setup.checkout.commit),
        machine=setup.machine,
        commit=setup.checkout.commit,
        committed_at=setup.checkout.committed_at,
        scratch=_scratch(args, setup, profile),
        profile=profile.name,
        launches=profile.launches,
        device=setup.device,
        seed=seed,
        started_at=now(),
        hostbench=__version__,
        planned=tuple(map(str, cases)),
    )
    return header, plan


def _profile(args: Namespace) -> Profile:
    profile = with_launches(QUICK if args.quick else STANDARD, args.launches)
    return _with_deadline(profile, args.deadline)


def _with_deadline(profile: Profile, deadline_s: float | None) -> Profile:
    if deadline_s is None:
        return profile
    if not 0 < deadline_s < math.inf:
        raise UsageError(f"--deadline {deadline_s:g} must be positive seconds; 60 is usual")
    return replace(profile, deadline_s=deadline_s)


def _stand_in(device: str) -> str | None:
    return device if device == "simulated" else None


def _scratch(args: Namespace, setup: Setup, profile: Profile) -> str | None:
    """Why this run is never judged nor given to asv; None when it may be."""
    if setup.device == "simulated":
        return "simulated device"
    if args.quick:
        return "quick"
    if profile.launches < MIN_LAUNCHES_FOR_VERDICT:
        return f"{profile.launches} launches, under {MIN_LAUNCHES_FOR_VERDICT}"
    return setup.checkout.scratch


def _resumed(args: Namespace, setup: Setup) -> tuple[RunHeader, Plan]:
    """The newest partial run of this machine, commit and facts, less what it has measured."""
    others = (args.launches, args.device, args.seed)
    if args.families or args.case or args.quick or any(value is not None for value in others):
        raise UsageError("--resume takes the cases of the run it finishes: leave the others out")
    for run in reversed(runs.load(setup.results, _warn)):
        if _can_resume(run, setup):
            break
    else:
        raise UsageError(
            f"nothing to resume: no partial run of {setup.machine} at commit "
            f"{(setup.checkout.commit or 'none')[:8]} with the same facts and code; start one "
            "without --resume"
        )
    old = run.header
    known = {str(case): case for work in setup.workloads.values() for case in work.cases()}
    base = QUICK if old.profile == QUICK.name else STANDARD
    plan = Plan(
        profile=_with_deadline(with_launches(base, old.launches), args.deadline),
        cases=tuple(known[text] for text in old.planned if text in known),
        stand_in=_stand_in(old.device),
        seed=old.seed,
        done=run.done(),
    )
    run_id = places.run_id(setup.checkout.commit)
    header = replace(old, run_id=run_id, started_at=now(), resumes=run.run_id)
    return header, plan


def _can_resume(run: WholeRun, setup: Setup) -> bool:
    header = run.header
    same = (header.machine, header.commit) == (setup.machine, setup.checkout.commit)
    if not same or run.is_complete or header.by != "hostbench run":
        return False
    if header.scratch is None and setup.checkout.scratch is not None:
        return False  # the code is no longer the commit's
    return not facts.differences(facts.from_json(run.facts), setup.facts)


def _measure(setup: Setup, journal: JournalWriter, plan: Plan) -> tuple[bool, str | None]:
    """(whether the plan was walked to its end, why the run turned out to be scratch).

    An interrupt ends it early and keeps the rest. Workers run the code of the start, but which
    commit that was can no longer be said when the checkout has changed since.
    """
    bar = Bar()
    journal.facts("before", facts.to_json(setup.facts))
    finished = True
    try:
        watch = facts.Watch(journal.facts, off=facts.unwatched(setup.device))
        with watch, Launcher(bar.tick, bar.started) as launcher:
            for record in records(plan, setup.workloads, launcher, bar, watch.family):
                journal.case(record)
    except KeyboardInterrupt:
        bar.end()
        finished = False
    journal.facts("after", facts.to_json(setup.collect()))
    unchanged = checkout(setup.root, setup.results) == setup.checkout
    scratch = None if unchanged else "the checkout changed during the run"
    journal.finish("complete" if finished else "interrupted", now(), scratch)
    return finished, scratch


def _whole(results: Path, run_id: str) -> WholeRun:
    return next(run for run in runs.load(results, lambda _: None) if run.run_id == run_id)


def _record_with_asv(run: WholeRun, setup: Setup) -> bool:
    """Whether asv has the run now, or was not meant to have it. The archive has it either way."""
    if setup.root is None or places.asv_results(setup.root).resolve() != setup.results.resolve():
        _warn("asv is left out: --results is not the folder that asv.conf.json names")
        return True
    print("asv records the run", file=sys.stderr)
    try:
        facts.register_with_asv(facts.asv_machine_entry(setup.machine, setup.facts))
        wrong = asv_record.record(run, setup.root, setup.results)
    except HostbenchError as error:
        wrong = str(error)
    except KeyboardInterrupt:
        wrong = "interrupted while asv recorded the run"
    if wrong:
        _warn(f"{wrong}; the run is archived all the same")
    return wrong is None


def _answer(results: Path, run_id: str, finished: bool) -> int:
    tree = frame.read(results)
    run = next(run for run in tree.runs if run.run_id == run_id)
    print(page(tree.frame[tree.frame["run_id"] == run.run_id], run))
    print(f"kept in {results / str(run.header.machine) / 'runs'}; see it: {program()} dashboard")
    statuses = [result.status for result in run.results()]
    if not finished:
        _warn(f"interrupted; what was measured is kept, `{program()} run --resume` does the rest")
        return EXIT_FAILED
    if "failed" in statuses:
        return EXIT_FAILED
    return EXIT_OK if "ok" in statuses else EXIT_NOTHING_MEASURED


@contextmanager
def _terminate_as_interrupt() -> Iterator[None]:
    """A CI job that is cancelled sends SIGTERM: keep what was measured, as Ctrl-C does."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _warn(text: str) -> None:
    print(f"hostbench: {text}", file=sys.stderr)
