"""What `hostbench run` decides before its first case: a new run, or the rest of an older one."""

import math
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import structs

from hostbench import __version__, facts
from hostbench.cli.output import warn
from hostbench.cli.results import results_folder
from hostbench.core.case import Case, parse_selector
from hostbench.core.clock import now
from hostbench.core.errors import BrokenError, UsageError
from hostbench.core.records import Run, RunHeader
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.device.simulated_file import MARK, VARIABLE, Simulation, declared
from hostbench.facts.machine import checked_name
from hostbench.facts.torch_probe import TorchState
from hostbench.families import check_selects, load, names, source, user_families
from hostbench.measure.workload import Workload
from hostbench.report.doctor import without_cuda, without_torch
from hostbench.runner import places
from hostbench.runner.plan import QUICK, STANDARD, Plan, choose, default_device
from hostbench.store import adopt, runs
from hostbench.store.runs import WholeRun
from hostbench.vcs.repo import Checkout, checkout
from hostbench.vcs.user_side import another_installed


@dataclass(frozen=True, slots=True, kw_only=True)
class Measuring:
    """Which cases, how, and where they are kept: options that `run`, `ab` and `bisect` share."""

    families: tuple[str, ...] = ()
    """Without a name the project's own where it has some, else all."""
    case: tuple[str, ...] = ()
    quick: bool = False
    resume: bool = False
    budget: float | None = None
    """Seconds, after which it stops."""
    device: str | None = None
    launches: int | None = None
    deadline: float | None = None
    """Seconds a case."""
    seed: int | None = None
    machine: str | None = None
    results: str | None = None


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
    look: Callable[[], Checkout]
    """The checkout once more."""
    device: str
    workloads: dict[str, Workload]
    budget_s: float = math.inf
    torch: TorchState | None = None
    """As it was asked; None where nothing needs it."""
    simulation: Simulation | None = None
    other_hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`host 2`, ... -> facts of the hosts beside this one on which its ranks run."""
    launcher: int | None = None
    """The process that started the ranks of this host, where this one did not."""

    def tell_before(self, write: Callable[[str, Mapping[str, Any]], None]) -> None:
        """The facts of every host."""
        write("before", facts.to_json(self.facts))
        for when, found in self.other_hosts.items():
            write(when, found)

    def watched(self, write: Callable[[str, Mapping[str, Any]], None]) -> Callable[..., None]:
        """Where the facts go that are read meanwhile. A simulation tells its own: what this host
        did is none of them."""
        return write if self.simulation is None else lambda when, found: None


def set_up(options: Measuring, *, measures: bool = True, keeps: bool = True) -> Setup:
    """Look at the machine and the checkout; without torch where nothing is measured by this setup,
    or on the simulated device alone. `keeps`: a run, in the results folder. Raises UsageError for
    what cannot be run, before torch is asked, which takes seconds; BrokenError without torch, or
    where it cannot use the GPUs."""
    if options.resume:
        _check_alone(options)
    workloads = load(_families(options))
    results = results_folder(options.results)
    root = places.project_root(Path.cwd())
    device = _device(options)
    simulation = _simulation_of(device, root if keeps else None, results)
    measured = {case.family for case in _cases(options, workloads, device)}
    code = partial(look, root, results, {name: source(name) for name in measured})
    collect: Callable[[], facts.Facts]
    torch_state: TorchState | None = None
    if simulation is None:
        needs_torch = measures and device != MARK
        torch_state = _working(facts.probe_torch(device)) if needs_torch else None
        collect = partial(facts.collect, torch_state=torch_state)
        found = collect()
        if torch_state is not None and device == "cuda" and not torch_state.cuda_works:
            wrong = without_cuda(found, facts.nvidia_hardware(), torch_state)
            raise BrokenError(f"{wrong.text}; {wrong.remedy}")
        found = facts.with_memory_copy(found) if measures else found
    else:
        found = simulation.all_facts()
        collect = partial(dict, found)
    return Setup(
        root=root,
        results=results,
        machine=_named(facts.machine_name(options.machine, found), device),
        facts=found,
        collect=collect,
        checkout=code(),
        look=code,
        device=device,
        workloads=workloads,
        budget_s=options.budget or math.inf,
        torch=torch_state,
        simulation=simulation,
    )


def _families(options: Measuring) -> tuple[str, ...]:
    """Without a name those of the project at hand, where it has some; what it cannot import is an
    error, as if it were named."""
    families = () if options.case else user_families()
    return options.families or families or names()


def _working(torch: facts.TorchState) -> facts.TorchState:
    if (lacking := without_torch(torch)) is not None:
        raise BrokenError(f"{lacking.text}; {lacking.remedy}")
    return torch


def _device(options: Measuring) -> str:
    """The device that was asked for, or the usual one; a simulation is resumed as one. Raises
    BrokenError where a GPU was asked for and is not there, UsageError where a setting hides it."""
    hardware = facts.nvidia_hardware()
    if options.device == "cuda" and not hardware.visible:
        text = f"--device cuda: no NVIDIA GPU is visible ({hardware.why})"
        if facts.hidden_by_user():
            raise UsageError(text)
        raise BrokenError(
            f"{text}: mend the driver, give the container its GPUs (--gpus all), or name --device "
            "cpu; `nvidia-smi` and `hostbench doctor` tell more"
        )
    if options.resume and os.environ.get(VARIABLE):
        return MARK
    return str(options.device or default_device(hardware))


def look(root: Path | None, results: Path, sources: Mapping[str, Path]) -> Checkout:
    """The checkout under the measurement."""
    found = checkout(root, results, sources)
    if root is not None and found.commit is not None and found.scratch is None:
        return replace(found, scratch=another_installed(root))
    return found


def _simulation_of(device: str, root: Path | None, results: Path) -> Simulation | None:
    """The simulation of a run on this device; None where it has none.

    Raises UsageError for a bad file, for a slowdown of no case, and where the run would lie among
    measured ones.
    """
    if not os.environ.get(VARIABLE):
        return None
    if device != MARK:
        warn(f"{VARIABLE} is ignored: this run is on {device}, only --device {MARK} reads it")
        return None
    found = declared()
    if root is not None and places.asv_results(root).resolve() == results.resolve():
        raise UsageError(
            f"{VARIABLE} is set, and {results} is the folder of measured results that "
            "asv.conf.json names: name another with --results"
        )
    works = load()
    for selector, _ in found.slower() if found else ():
        check_selects(selector, works, f"{os.environ[VARIABLE]}: slowdown: ")
    return found


def _named(name: str, device: str) -> str:
    """The machine's name: with the word where the run is simulated, and only there.

    Raises UsageError where a measured run would be filed as a simulated one.
    """
    if device == MARK:
        return name if MARK in name else checked_name(f"{MARK}-{name}", "--machine")
    if MARK in name:
        raise UsageError(
            f"machine {name!r} is named {MARK}, and this run measures {device}: name it otherwise"
        )
    return name


def check_decides(options: Measuring) -> None:
    """Raises UsageError where two sides would have fewer launches than a verdict needs."""
    if options.launches is not None and options.launches < MIN_LAUNCHES:
        raise UsageError(
            f"--launches {options.launches}: a verdict needs {MIN_LAUNCHES} launches a side; name "
            f"so many, or leave it out for {STANDARD.launches}"
        )


def adopt_left_over(setup: Setup) -> None:
    """Archive the journals whose writers are gone; those of whole runs, as asv leaves them, are
    only counted."""
    own_name = facts.machine_name(None, setup.facts)  # --machine names this run, not an older one
    adopted = adopt.adopt_orphans(setup.results, lambda: own_name, warn)
    for old in adopted:
        if not old.is_complete:
            warn(f"archived run {old.header.run_id} as far as it got before it was killed")
    if num := sum(old.is_complete for old in adopted):
        warn(f"archived finished runs that waited in their journals: {num}")


def planned(options: Measuring, setup: Setup) -> Plan:
    """What a new run measures. Raises UsageError."""
    cases = _cases(options, setup.workloads, setup.device)
    seed = options.seed if options.seed is not None else random.SystemRandom().getrandbits(32)
    profile = (QUICK if options.quick else STANDARD).of(options.launches, options.deadline)
    return Plan(
        profile=profile, cases=cases, device_override=_device_override(setup.device), seed=seed
    )


def _cases(options: Measuring, workloads: Mapping[str, Workload], device: str) -> tuple[Case, ...]:
    selectors = [parse_selector(text) for text in options.case]
    return choose(workloads, device, selectors=selectors, quick=options.quick)


def planned_cases(options: Measuring) -> tuple[tuple[Case, ...], str]:
    """The cases that these options choose on this host, and the device. Raises as `set_up`."""
    device = _device(options)
    return _cases(options, load(_families(options)), device), device


def fresh(options: Measuring, setup: Setup) -> tuple[RunHeader, Plan, tuple[Run, ...]]:
    """A new run, which has no earlier parts."""
    plan = planned(options, setup)
    return header_of(plan, setup, setup.checkout), plan, ()


def header_of(plan: Plan, setup: Setup, code: Checkout) -> RunHeader:
    """Of a run that begins now and measures this code."""
    return RunHeader(
        run_id=places.run_id(code.commit, now()),
        machine=setup.machine,
        commit=code.commit,
        committed_at=code.committed_at,
        scratch=_scratch(plan, setup, code),
        profile=plan.profile.name,
        launches=plan.profile.launches,
        device=setup.device,
        seed=plan.seed,
        started_at=now(),
        hostbench=__version__,
        planned=tuple(map(str, plan.cases)),
    )


def _device_override(device: str) -> str | None:
    return device if device == MARK else None


def _scratch(plan: Plan, setup: Setup, code: Checkout) -> str | None:
    """Why this run is never judged nor given to asv; None when it may be."""
    if setup.device == MARK and setup.simulation is None:
        return "simulated device"
    if plan.profile.name == QUICK.name:
        return "quick"
    if plan.profile.launches < MIN_LAUNCHES:
        return few_launches(plan.profile.launches)
    return code.scratch


def resumed(options: Measuring, setup: Setup) -> tuple[RunHeader, Plan, tuple[Run, ...]]:
    """The newest partial run of this machine, commit and facts, less what it has measured, and its
    parts so far."""
    run = partial_run(setup)
    if run is None:
        raise UsageError(
            f"nothing to resume: no partial run of {setup.machine} at commit "
            f"{(setup.checkout.commit or 'none')[:8]} with the same facts and code; start one "
            "without --resume"
        )
    return rest_of(run, options, setup)


def partial_run(setup: Setup) -> WholeRun | None:
    """The newest of this machine, commit and facts."""
    commit = setup.checkout.commit
    found = (runs.of_commit(setup.results, name, commit, warn) for name in _own_names(setup))
    stored = sorted(chain.from_iterable(found), key=lambda run: run.header.started_at)
    return next((run for run in reversed(stored) if can_resume(run, setup)), None)


def rest_of(
    run: WholeRun, options: Measuring, setup: Setup
) -> tuple[RunHeader, Plan, tuple[Run, ...]]:
    """The same of a partial run that was found."""
    old = run.header
    known = {str(case): case for work in setup.workloads.values() for case in work.cases()}
    base = QUICK if old.profile == QUICK.name else STANDARD
    plan = Plan(
        profile=base.of(old.launches, options.deadline),
        cases=tuple(known[text] for text in old.planned if text in known),
        device_override=_device_override(old.device),
        seed=old.seed,
        done=run.done(),
    )
    run_id = places.run_id(setup.checkout.commit, now())
    header = structs.replace(old, run_id=run_id, started_at=now(), resumes=run.run_id)
    return header, plan, run.parts


def _check_alone(options: Measuring) -> None:
    others = (options.case, options.quick, options.device, options.launches)
    if any(others) or options.seed is not None:
        raise UsageError("--resume takes the cases of the run it finishes: leave the others out")


def _own_names(setup: Setup) -> tuple[str, ...]:
    """The machine's, and the one under which its simulated runs are filed that nothing declares."""
    simulated = f"{MARK}-{setup.machine}"
    return (setup.machine,) if MARK in setup.machine else (setup.machine, simulated)


def families_of(header: RunHeader) -> set[str]:
    return {text.partition(".")[0] for text in header.planned}


def can_resume(run: WholeRun, setup: Setup) -> bool:
    header = run.header
    same = header.machine in _own_names(setup) and header.commit == setup.checkout.commit
    if not same or run.is_complete or header.by != "hostbench run":
        return False
    if not families_of(header) <= {name.partition(".")[0] for name in setup.workloads}:
        return False
    if header.scratch is None and setup.checkout.scratch is not None:
        return False  # the code is no longer the commit's
    if header.device == MARK and setup.simulation is None:
        return True  # no fact of this machine is in its times, and torch was not asked
    return not facts.differences(facts.from_json(run.facts), setup.facts)
