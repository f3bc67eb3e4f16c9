"""A family measured inside asv: every launch, for the cache that its classes read."""

import os
import random
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from hostbench.core.asv_config import asv_results, project_root
from hostbench.core.case import Case, asv_name
from hostbench.core.errors import UsageError
from hostbench.core.processes import become_subreaper, die_with_parent
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.facts import collect, machine_name, machine_of_asv, nvidia_hardware, probe_torch
from hostbench.families import known, load
from hostbench.measure.workload import Cache, Workload, case_key, summarize
from hostbench.runner import session
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import STANDARD, Plan, choose, default_device
from hostbench.runner.progress import Bar
from hostbench.vcs import side
from hostbench.vcs.repo import committed_at

LAUNCHES = "HOSTBENCH_LAUNCHES"
"""Launches of a plain `asv run`; 12 unless set."""


def measure(family: str, file: Path) -> Cache:
    """As `suite.measure`; `file` called it. Raises UsageError where it is no file of the family."""
    if file.stem != family:
        raise UsageError(f"{file} asks for suite.measure({family!r}): give it {file.stem!r}")
    die_with_parent()  # killing asv must not leave a benchmark behind
    become_subreaper()
    # asv tells its own environments where the project is, and an `existing` one nothing.
    project = project_root(file)
    os.environ.setdefault("ASV_CONF_DIR", str(project or Path.cwd()))
    if family not in known():
        return {"records": {}, "unknown": f"there is no family {family!r} at this commit"}
    return {"records": _measure(load((family,)))}


def _measure(workloads: Mapping[str, Workload]) -> dict[str, dict[str, Any]]:
    """An entry of each case; failed, where its device did not start."""
    launches = os.environ.get(LAUNCHES) or str(STANDARD.launches)
    if not launches.isdecimal() or int(launches) < 1:
        raise UsageError(
            f"{LAUNCHES}={launches!r} is not a number of launches; 12 is usual, 7 the least"
        )
    root, asked = Path(os.environ["ASV_CONF_DIR"]), dict[str, Any]()
    # the options of the asv above us, which itself tells its benchmarks nothing
    with suppress(ImportError, OSError):
        from hostbench.asv_env import options_of

        command = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        asked = options_of(command.split("\0")[:-1])
    device = default_device(nvidia_hardware())
    torch_state = probe_torch() if device == "cuda" else None
    plan = Plan(
        profile=STANDARD.of(int(launches)),
        cases=_chosen(choose(workloads, device), workloads, asked.get("bench")),
        seed=random.SystemRandom().getrandbits(32),
    )
    commit = os.environ.get("ASV_COMMIT")
    host_facts = collect(torch_state=torch_state)
    header = session.new_header(
        plan,
        device=device,
        machine=machine_of_asv(asked["machine"]) if asked else machine_name(None, host_facts),
        commit=commit,
        committed_at=committed_at(root, commit),
        scratch=_scratch(root, plan.profile.launches, commit, asked),
        by="asv",
    )
    bar = Bar(sys.stdout)
    with bar, Launcher(bar.tick) as launcher:
        (run,), end, why = session.record(
            asv_results(root),
            [header],
            session.records(plan, [launcher], bar, observes=True),
            session.Host(before=host_facts, collect=partial(collect, torch_state=torch_state)),
            plan.num_gpus(),
        )
    if end == "interrupted":
        raise KeyboardInterrupt
    entries = summarize(run.records)
    for case in plan.cases if why else ():  # asv would take one without an entry for a skip
        version = workloads[case.workload].version
        lost = {"status": "failed", "reason": why, "version": version, "samples": []}
        entries.setdefault(case_key(case), lost)
    return entries


def _chosen(
    cases: tuple[Case, ...], workloads: Mapping[str, Workload], patterns: list[str] | None
) -> tuple[Case, ...]:
    """Those that `asv run --bench` names, as asv reads it; all where HEAD calls them otherwise than
    this commit."""

    def name(case: Case) -> str:
        values = (repr(case.values[axis]) for axis in workloads[case.workload].axes)
        return f"{asv_name(case.workload)}({', '.join(values)})"

    chosen = (case for case in cases if any(re.search(p, name(case)) for p in patterns or ()))
    return tuple(chosen) or cases


def _scratch(root: Path, launches: int, commit: str | None, asked: Mapping[str, Any]) -> str | None:
    """Why what a plain asv measures is never judged."""
    if commit is None:
        return "asv names no commit"
    if launches < MIN_LAUNCHES:
        return few_launches(launches)
    if why := side.scratch(root):
        return why
    if asked.get("command") == "profile":
        return "asv profile"
    given = [name for name in ("dry_run", "quick") if asked.get(name)]
    return f"asv --{given[0].replace('_', '-')}" if given else None
