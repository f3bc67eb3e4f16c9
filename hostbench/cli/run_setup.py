"""What is decided before the first case of a run: its cases, device, code, machine and folder."""

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from hostbench import facts
from hostbench.cli.output import warn
from hostbench.cli.results import results_folder
from hostbench.core.case import Case, as_typed, parse_selector, typed_value
from hostbench.core.errors import BrokenError, UsageError
from hostbench.device.simulated_file import MARK, VARIABLE, Simulation, declared
from hostbench.facts.machine import checked_name
from hostbench.families import check_selects, load, names, source, user_families
from hostbench.measure.workload import Workload
from hostbench.report.doctor import without_cuda, without_torch
from hostbench.runner import places
from hostbench.runner.plan import QUICK, STANDARD, Plan, choose, default_device
from hostbench.vcs.repo import Checkout, checkout
from hostbench.vcs.user_side import another_installed


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
    facts: facts.Facts
    collect: Callable[[], Any]
    """The facts once more, as they were asked for."""
    checkout: Checkout
    look: Callable[[], Checkout]
    """The checkout once more."""
    device: str
    workloads: dict[str, Workload]
    plan: Plan
    """Its cases, in an order of its own."""
    simulation: Simulation | None = None
    other_hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """`host 2`, ... -> facts of the hosts beside this one on which its ranks run."""
    launcher: int | None = None
    """The process that started the ranks of this host, where this one did not."""

    def with_cases(self, cases: tuple[Case, ...]) -> "Setup":
        return replace(self, plan=replace(self.plan, cases=cases))

    def only_case(self, text: str) -> Case:
        """The one case that `text` selects. Raises UsageError, which says what tells several
        apart."""
        cases = self.plan.cases
        if len(cases) == 1:
            return cases[0]
        workloads = list(dict.fromkeys(case.workload for case in cases))
        if len(workloads) > 1:
            few = f"{', '.join(workloads[:10])}{' ...' * (len(workloads) > 10)}"
            raise UsageError(f"{text!r} selects {len(cases)} cases: name one of {few}")
        values: dict[str, dict[str, None]] = {}
        for case in cases:
            for axis, value in case.axes:
                values.setdefault(axis, {})[typed_value(axis, value)] = None
        choices = [f"{axis} is {', '.join(own)}" for axis, own in values.items() if len(own) > 1]
        raise UsageError(
            f"{text!r} selects {len(cases)} cases: name one, as '{as_typed(str(cases[0]))}'; "
            f"{'; '.join(choices)}"
        )


def set_up(options: Measuring, *, measures: bool = True, keeps: bool = True) -> Setup:
    """Look at the machine and the checkout; without torch where nothing is measured by this setup,
    or on the simulated device alone. `keeps`: a run, in the results folder. Raises UsageError for
    what cannot be run, before torch is asked, which takes seconds; BrokenError without torch, or
    where it cannot use the GPUs."""
    workloads, cases, device = chosen_cases(options)
    results, root = results_folder(options.results), places.project_root(Path.cwd())
    simulation = _simulation_of(device, root if keeps else None, results)
    sources = {family: source(family) for family in dict.fromkeys(case.family for case in cases)}
    look_again = partial(look, root, results, sources)
    if simulation is None:
        host_facts, collect = _facts(device, measures)
    else:
        host_facts = simulation.all_facts()
        collect = partial(dict, host_facts)
    plan = Plan(
        profile=(QUICK if options.quick else STANDARD).of(options.launches, options.deadline),
        cases=cases,
        device_override=MARK if device == MARK else None,
        seed=random.SystemRandom().getrandbits(32),
    )
    return Setup(
        root=root,
        results=results,
        machine=_machine(options.machine, device, host_facts),
        facts=host_facts,
        collect=collect,
        checkout=look_again(),
        look=look_again,
        device=device,
        workloads=workloads,
        plan=plan,
        simulation=simulation,
    )


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


def chosen_cases(options: Measuring) -> tuple[dict[str, Workload], tuple[Case, ...], str]:
    """(the workloads of the families, the cases of them that are measured, the device). Raises
    BrokenError where a GPU was asked for and is not there, UsageError where a setting hides it and
    for what selects nothing."""
    # What of the user's project cannot be imported is an error, as if it were named.
    own = () if options.case else user_families()
    workloads = load(options.families or own or names())
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


def _facts(device: str, measures: bool) -> tuple[facts.Facts, Callable[[], facts.Facts]]:
    """Of this host, and how they are read once more. Raises BrokenError where torch is needed and
    cannot be used."""
    if not measures or device == MARK:
        host_facts = facts.collect(torch_state=None)
        return (facts.with_memory_copy(host_facts) if measures else host_facts), facts.collect
    torch = facts.probe_torch(device)
    wrong = without_torch(torch)
    collect = partial(facts.collect, torch_state=torch)
    host_facts = collect() if wrong is None else {}
    if wrong is None and device == "cuda" and not torch.cuda_works:
        wrong = without_cuda(host_facts, facts.nvidia_hardware(), torch)
    if wrong is not None:
        raise BrokenError(f"{wrong.text}; {wrong.remedy}")
    return facts.with_memory_copy(host_facts), collect


def look(root: Path | None, results: Path, sources: Mapping[str, Path]) -> Checkout:
    """The checkout under the measurement."""
    code = checkout(root, results, sources)
    if root is not None and code.commit is not None and code.scratch is None:
        return replace(code, scratch=another_installed(root))
    return code


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
    if root is not None and places.asv_results(root).resolve() == results.resolve():
        raise UsageError(
            f"{VARIABLE} is set, and {results} is the folder of measured results that "
            "asv.conf.json names: name another with --results"
        )
    simulation = declared()
    works = load()
    for selector, _ in simulation.slower() if simulation else ():
        check_selects(selector, works, f"{os.environ[VARIABLE]}: slowdown: ")
    return simulation
