"""A family measured inside asv: every launch, for the cache that its classes read."""

import itertools
import os
import random
import sys
from pathlib import Path
from typing import Any

from hostbench import __version__
from hostbench.core.clock import now
from hostbench.core.errors import DeviceLost, UsageError
from hostbench.core.processes import become_subreaper, die_with_parent
from hostbench.core.records import CaseRecord, RunHeader
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.facts import (
    Watch,
    collect,
    nvidia_hardware,
    probe_torch,
    to_json,
    with_memory_copy,
)
from hostbench.families import load, names
from hostbench.measure.asv_class import Cache, case_key, summarize
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import STANDARD, Plan, choose, default_device
from hostbench.runner.progress import Bar
from hostbench.runner.session import records
from hostbench.vcs import user_side
from hostbench.vcs.repo import committed_at

LAUNCHES = "HOSTBENCH_LAUNCHES"
"""Launches of a plain `asv run`; 10 unless set."""

_NO_MEASUREMENT = {
    "profile": "profile",
    "--dry-run": "--dry-run",
    "-n": "--dry-run",
    "--quick": "--quick",
    "-q": "--quick",
}
"""What asv is asked for when its numbers are not meant to be kept -> how a run says so."""


def measure(family: str, file: Path) -> Cache:
    """As `suite.measure`; `file` called it. Raises UsageError where it is no file of the family."""
    if file.stem != family:
        raise UsageError(f"{file} asks for suite.measure({family!r}): give it {file.stem!r}")
    die_with_parent()  # killing asv must not leave a benchmark behind
    become_subreaper()
    # asv tells its own environments where the project is, and an `existing` one nothing.
    project = places.project_root(file)
    os.environ.setdefault("ASV_CONF_DIR", str(project or Path.cwd()))
    if family not in names():
        return {"records": {}, "unknown": f"there is no family {family!r} at this commit"}
    measured, left = _measure(family)
    return {"records": summarize(measured) | left}


def _measure(family: str) -> tuple[list[CaseRecord], dict[str, dict[str, Any]]]:
    """What was measured, and an entry of each case that was not reached: failed, as its device does
    not start."""
    workloads = load((family,))
    device = default_device(nvidia_hardware())
    torch_state = probe_torch() if device == "cuda" else None
    profile = STANDARD.of(_launches())
    plan = Plan(
        profile=profile, cases=choose(workloads, device), seed=random.SystemRandom().getrandbits(32)
    )
    bar = Bar(sys.stdout)
    found: list[CaseRecord] = []
    lost = ""
    with bar, Launcher(bar.tick, bar.started) as launcher, _journal(plan, device) as journal:
        before = with_memory_copy(collect(torch_state=torch_state))
        journal.facts("before", to_json(before))
        with Watch(journal.facts, device, before):
            try:
                for record in records(plan, workloads, launcher, bar):
                    journal.case(record)
                    found.append(record)
            except DeviceLost as error:
                lost = str(error)
        journal.facts("after", to_json(collect(torch_state=torch_state)))
        journal.finish("interrupted" if lost else "complete", now())
    reached = {record.case for record in found}
    left = [case for case in plan.cases if lost and case not in reached]
    entries = {
        case_key(case): {
            "status": "failed",
            "reason": lost,
            "version": workloads[case.workload].version,
            "samples": [],
        }
        for case in left
    }
    return found, entries


def _asv_command() -> list[str]:
    """The words of the asv above us, which itself tells its benchmarks nothing."""
    try:
        return Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    except OSError:
        return []


def _asv_machine() -> str | None:
    """The `--machine` that it was given."""
    for word, following in itertools.pairwise(_asv_command()):
        if word in ("--machine", "-m") and following != "asv":
            return following
        if word.startswith("--machine="):
            return word.partition("=")[2]
    return None


def _scratch(root: Path, launches: int, commit: str | None) -> str | None:
    """Why what a plain asv measures is never judged."""
    if commit is None:
        return "asv names no commit"
    if launches < MIN_LAUNCHES:
        return few_launches(launches)
    if why := user_side.scratch(root):
        return why
    words = _asv_command()
    return next((f"asv {why}" for word, why in _NO_MEASUREMENT.items() if word in words), None)


def _launches() -> int:
    text = os.environ.get(LAUNCHES) or str(STANDARD.launches)
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"{LAUNCHES}={text!r} is no number of launches; 10 is usual, 7 the least")
    return int(text)


def _journal(plan: Plan, device: str) -> JournalWriter:
    commit = os.environ.get("ASV_COMMIT")
    root = Path(os.environ["ASV_CONF_DIR"])
    header = RunHeader(
        run_id=places.run_id(commit),
        machine=_asv_machine(),
        commit=commit,
        committed_at=committed_at(root, commit),
        scratch=_scratch(root, plan.profile.launches, commit),
        profile=plan.profile.name,
        launches=plan.profile.launches,
        device=device,
        seed=plan.seed,
        started_at=now(),
        hostbench=__version__,
        planned=tuple(map(str, plan.cases)),
        by="asv",
    )
    return JournalWriter(places.journal_path(places.asv_results(root), header.run_id), header)
