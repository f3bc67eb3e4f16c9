"""What several commands that measure do: choose the cases, look at the machine and the code;
measure two commits; say what was learnt."""

import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hostbench import facts
from hostbench.cli.output import program, short, show, terminal, typed_again, warn
from hostbench.cli.results import open_history, results_folder
from hostbench.core.asv_config import asv_results, project_root
from hostbench.core.case import Case, parse_selector
from hostbench.core.clock import now
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    BrokenError,
    DeviceLost,
    UsageError,
)
from hostbench.core.journal import run_id
from hostbench.core.processes import become_subreaper
from hostbench.device.simulated_file import GROUP, MARK, VARIABLE, Simulation, declared
from hostbench.facts.machine import checked_name
from hostbench.families import check_selects, known, load, user_families
from hostbench.judge.two_sides import Comparison
from hostbench.measure.workload import Workload
from hostbench.report.comparison import between
from hostbench.report.doctor import torch_trouble, without_cuda
from hostbench.report.screen import screen
from hostbench.runner.plan import QUICK, STANDARD, Plan, choose, default_device
from hostbench.runner.session import Host
from hostbench.store import archive
from hostbench.store.points import case_rows
from hostbench.store.results import frame_of_run
from hostbench.store.runs import facts_of
from hostbench.vcs.measure import Measured, Setup, interleave, repository
from hostbench.vcs.repo import checkout
from hostbench.vcs.side import known_commit


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


def set_up(options: Measuring, *, keeps: bool = True) -> Setup:
    """Look at the machine and the checkout. `keeps`: a run, in the results folder. Raises
    UsageError for what cannot be run, before torch is asked, which takes seconds; BrokenError
    without torch, or where it cannot use the GPUs."""
    become_subreaper()
    workloads, cases, device = chosen_cases(options)
    results, root = results_folder(options.results), project_root(Path.cwd())
    simulation = declared() if device == MARK else None
    for selector, _ in simulation.slower() if simulation else ():
        check_selects(selector, load(), f"{os.environ[VARIABLE]}: slowdown: ")
    if simulation and keeps and root and asv_results(root).resolve() == results.resolve():
        raise UsageError(
            f"{VARIABLE} is set, and {results} is the folder of measured results that "
            "asv.conf.json names: name another with --results"
        )
    sources = {family: known()[family].path for family in sorted({case.family for case in cases})}
    collect = _facts_of(device, simulation)
    host_facts = collect()
    machine = _machine(options.machine, device, host_facts)
    # runs are ordered by when they began, and named so
    runs = [path.name for path in (results / machine / "runs").glob(f"2*{archive.SUFFIX}")]
    newest = max(runs, default="").removesuffix(archive.SUFFIX)
    if keeps and newest[:16] > run_id(None)[:16]:
        warn(
            f"run {newest} of this machine began later than now, {now()}: if the clock is wrong "
            "set it (`timedatectl`), else delete that run; until then their order is wrong"
        )
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
        look=partial(checkout, root, results, sources),
        device=device,
        workloads=workloads,
        plan=plan,
        warn=warn,
    )


def chosen_cases(options: Measuring) -> tuple[dict[str, Workload], tuple[Case, ...], str]:
    """(the workloads of the families, the cases of them that are measured, the device). Raises
    BrokenError where a GPU was asked for and is not there, UsageError where a setting hides it and
    for what selects nothing."""
    # What of the user's project cannot be imported is an error, as if it were named.
    project_families = () if options.case else user_families()
    workloads = load(options.families or project_families or tuple(known()))
    hardware = facts.nvidia_hardware()
    if options.device == "cuda" and not hardware.visible:
        text = f"--device cuda: no NVIDIA GPU is visible ({hardware.why})"
        if facts.hidden_by_user():
            raise UsageError(text)
        raise BrokenError(
            f"{text}: fix the driver, give the container its GPUs (--gpus all), or name --device "
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


def _facts_of(device: str, simulation: Simulation | None) -> Callable[[], facts.Facts]:
    """How those of this host are read; the simulated device needs no torch. Raises BrokenError
    where torch cannot be used."""
    if simulation is not None:
        return simulation.all_facts
    if device == MARK:
        link = {GROUP: Simulation().all_facts()[GROUP]}
        return lambda: facts.collect() | link
    torch = facts.probe_torch(device)
    wrong = torch_trouble(torch)
    if wrong is not None and wrong.level == "warn":
        warn(f"{wrong.text}; {wrong.remedy}")
        wrong = None
    collect = partial(facts.collect, torch_state=torch)
    if wrong is None and device == "cuda" and not torch.cuda_works:
        wrong = without_cuda(collect(), facts.nvidia_hardware(), torch)
    if wrong is not None:
        raise BrokenError(f"{wrong.text}; {wrong.remedy}")
    return collect


# ---- two commits --------------------------------------------------------------------------------


def measure_sides(
    options: Measuring, a: str, b: str | None, budget_s: float, *, only_case: bool = False
) -> Measured:
    """As `interleave`, of the cases that the options choose; of one alone for a bisection."""
    root, _ = repository(results_folder(options.results))
    known_commit(root, a)  # refused before torch is asked, which takes seconds
    setup = set_up(options)
    if only_case:
        setup.only_case(" ".join(options.case))
    scratch = "bisect" if only_case else None
    return interleave(setup, a, b, options.launches, budget_s, scratch)


def measure_case(
    options: Measuring, a: str, b: str | None, budget_s: float = math.inf
) -> tuple[Measured, Comparison]:
    """Of one case. Raises KeyboardInterrupt or DeviceLost where it was cut off."""
    both = measure_sides(options, a, b, budget_s, only_case=True)
    if both.end == "interrupted":
        raise KeyboardInterrupt
    if both.end == "device lost":
        raise DeviceLost("the device is lost: no commit can be measured before it is back")
    (comparison,) = between(open_history(options.results), both).comparisons.values()
    return both, comparison


# ---- what was learnt ----------------------------------------------------------------------------


def answer(options: Measuring, setup: Setup, measured: Measured, command: str) -> int:
    """Print what was learnt, and what the whole `command` would tell. Returns the exit code."""
    (run,) = measured.runs
    where = typed_again(options, "results")
    own_name = facts.machine_name(None, facts_of(run.facts_before))  # which `report` shows unasked
    whose = "" if run.header.machine == own_name else typed_again(run.header, "machine")
    footer = [("stored", short(archive.path_of(setup.results, run)))]
    if any(record.measurement.traceback for record in run.winners().values()):
        shown = f"{program()} report --run {run.run_id} --tracebacks{where}"
        footer.append(("why it failed", shown))
    report, dashboard = f"{program()} report{whose}{where}", f"{program()} dashboard{where}"
    footer.append(("next", f"{report} (everything) · {dashboard} (pictures)"))
    rows = frame_of_run(setup.results, run, warn)
    show(screen(run, rows, footer, terminal(), command))
    statuses = [row["status"] for row in case_rows(run)]
    if measured.end != "complete":
        why = "out of time" if measured.end == "stopped" else measured.end
        warn(f"{why}; what was measured is stored")
    if measured.is_cut_off or "failed" in statuses or measured.asv_error:
        return EXIT_FAILED
    return EXIT_OK if "ok" in statuses else EXIT_NOTHING_MEASURED
