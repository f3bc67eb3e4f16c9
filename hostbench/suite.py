"""Workloads as asv classes. `Suite`'s interface is frozen: benchmarks/ of any later commit uses it.

asv calls `setup_cache` once per family, which measures every launch there, and then reads the cases
one by one with `track_seconds`.
"""

import hashlib
import itertools
import os
import random
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from hostbench import __version__
from hostbench.core.case import AxisValue, Case
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
from hostbench.families import FOLDERS, load, names
from hostbench.runner import places
from hostbench.runner.journal import JournalWriter
from hostbench.runner.launcher import Launcher
from hostbench.runner.plan import STANDARD, Plan, choose, default_device
from hostbench.runner.progress import Bar
from hostbench.runner.session import records
from hostbench.vcs import own
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

Cache = dict[str, Any]


def measure(family: str) -> Cache:
    """Body of a family's `setup_cache`: the cases' launch medians, by case.

    A family that this commit lacks gives an empty cache, whose every case is then skipped.
    """
    die_with_parent()  # killing asv must not leave a benchmark behind
    become_subreaper()
    # asv tells its own environments where the project is, and an `existing` one nothing.
    project = places.project_root(Path(sys._getframe(1).f_code.co_filename).resolve().parent)
    os.environ.setdefault("ASV_CONF_DIR", str(project or Path.cwd()))
    if family not in names():
        where = f"a folder that [tool.hostbench] workloads in pyproject.toml or {FOLDERS} names"
        return {"records": {}, "unknown": f"no family {family!r} in this hostbench, nor in {where}"}
    measured, left = _measure(family)
    return {"records": summarize(measured) | left}


def summarize(found: Iterable[CaseRecord]) -> dict[str, dict[str, Any]]:
    """Records of many launches as one entry per case: status, reason, version, launch medians."""
    entries: dict[str, dict[str, Any]] = {}
    for record in found:
        entry = entries.setdefault(
            _key(record.case),
            {"status": "ok", "reason": None, "version": record.version, "samples": []},
        )
        if record.status != "ok":
            entry["status"], entry["reason"] = record.status, record.reason
        elif record.seconds is not None:
            entry["samples"].append(record.seconds)
    return entries


class Suite:
    """Base of every asv class. A subclass states workload, version, param_names and params."""

    workload: str
    version: str
    param_names: Sequence[str]
    params: Sequence[Sequence[AxisValue]]
    unit = "seconds"
    timeout = 600.0

    def setup(self, cache: Cache, *values: AxisValue) -> None:
        """Skip what the installed commit lacks or this machine cannot do."""
        entry = self._entry(cache, values)
        if entry["status"] == "skipped":
            raise NotImplementedError(entry["reason"])

    def track_seconds(self, cache: Cache, *values: AxisValue) -> dict[str, Any]:
        """The launch medians in seconds per step; none when this cache was read before."""
        entry = self._entry(cache, values)
        if entry["status"] == "failed":
            raise RuntimeError(entry["reason"])
        return {"samples": entry["samples"] if self._first_read(values) else [], "number": 1}

    track_seconds.rounds = 2  # type: ignore[attr-defined]

    def _entry(self, cache: Cache, values: Sequence[AxisValue]) -> dict[str, Any]:
        case = Case.of(self.workload, dict(zip(self.param_names, values, strict=True)))
        entry: dict[str, Any] | None = cache["records"].get(_key(case))
        if entry is None:
            raise NotImplementedError(
                cache.get("unknown")
                or f"{case} is not known at this commit, or this machine is measured as another "
                "device"
            )
        if entry["version"] != self.version:
            raise NotImplementedError(
                f"{self.workload} has version {entry['version']} at this commit, not {self.version}"
            )
        return entry

    def _first_read(self, values: Sequence[AxisValue]) -> bool:
        """asv reads a cache once per round; its folder is the working directory of each read."""
        text = f"{self.workload}{values!r}"
        mark = Path(f"read-{hashlib.sha256(text.encode()).hexdigest()[:16]}")
        try:
            mark.touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


def _key(case: Case) -> str:
    """The case without the order of its axes, which may differ between commits."""
    return str(Case(case.workload, dict(sorted(case.axes))))


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
        _key(case): {
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
    if own.is_own(root) and (why := own.scratch(root)):
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
