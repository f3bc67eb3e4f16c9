"""A small results folder for the dashboard's tests: every kind of point, and hostile text."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hostbench.case import Case
from hostbench.journal import CaseRecord, RunHeader
from hostbench.store import archive
from hostbench.workloads import load as load_workloads

HOSTILE = "<script>alert(1)</script>"
MARKUP = "[click](javascript:alert(1)) **bold** $x$ :red[x] <img src=x onerror=alert(1)>"
GPU_MACHINE, CPU_MACHINE, FOREIGN = "toy-gpu", "toy-cpu", "other-project"
FAMILIES = ("transfer", "allocation")
FACTS: dict[str, Any] = {
    "host": {"cpu_model": "A Toy CPU"},
    "software": {"torch": "2.13.0"},
    "nvml": {"driver": "580.1"},
    "gpu0": {"name": "A Toy GPU"},
}
CPU_FACTS = {name: FACTS[name] for name in ("host", "software")}
TREND = "transfer.host_to_device[device=cuda,nbytes=16777216,memory=pinned,blocking=False]"
STRUCK = "transfer.host_to_device[device=cuda,nbytes=1048576,memory=pageable,blocking=True]"
START = datetime(2026, 11, 1, 3, 0, tzinfo=UTC)


def write(results: Path) -> Path:
    """Nine runs of a toy GPU, one of a CPU, and another project's asv tree."""
    for day in range(9):
        archive.write(results, gpu_run(day))
    archive.write(results, cpu_run())
    _foreign(results)
    return results


def gpu_run(day: int) -> archive.Run:
    """The same commit on days 4 to 6, with a slower driver from day 6 on; day 7 is scratch."""
    driver = "580.1" if day < 6 else "590.7"
    slower = 1.0 if day < 6 else 1.25
    header = _header(
        day,
        machine=GPU_MACHINE,
        commit=f"{min(day, 4) if day < 7 else day:x}" * 40,
        scratch="quick" if day == 7 else None,
        profile="quick" if day == 7 else "standard",
        launches=3 if day == 7 else 10,
        device="cuda",
    )
    records = [_odd(one, day) for one in _records(header, "cuda", slower, day)]
    facts = {**FACTS, "nvml": {"driver": driver}}
    planned = tuple(dict.fromkeys(str(one.case) for one in records))
    lost = planned[:-1] if day == 8 else planned  # the newest run never came to its last case
    kept = tuple(one for one in records if str(one.case) in lost)
    return _run(replace(header, planned=planned), kept, facts)


def cpu_run() -> archive.Run:
    header = _header(0, machine=CPU_MACHINE, commit="c" * 40, launches=3, device="cpu")
    records = [
        replace(one, status="skipped", reason=f"{HOSTILE} {MARKUP}", seconds=None, measurement={})
        if one.case.values.get("memory") == "pinned"
        else one
        for one in _records(header, "cpu", 3.0, 99)
    ]
    return _run(
        replace(header, planned=tuple(dict.fromkeys(str(r.case) for r in records))),
        records,
        CPU_FACTS,
    )


def _header(day: int, **changes: Any) -> RunHeader:
    at = START + timedelta(days=day)
    fields: dict[str, Any] = {
        "run_id": f"{at:%Y%m%dT%H%M%SZ}-{changes['commit'][:8]}-{day:04d}",
        "committed_at": (START + timedelta(days=min(day, 4), hours=-5)).isoformat(),
        "started_at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "scratch": None,
        "profile": "standard",
        "seed": 1,
        "hostbench": "0.1.0",
    }
    return RunHeader(**{**fields, **changes})


def _run(header: RunHeader, records: Any, facts: dict[str, Any]) -> archive.Run:
    finish = {"at": header.started_at, "status": "complete"}
    return archive.Run(
        header=header, records=tuple(records), facts={"before": facts}, finish=finish
    )


def _records(header: RunHeader, device: str, slower: float, seed: int) -> Iterator[CaseRecord]:
    noise = random.Random(seed)
    works = load_workloads(FAMILIES).values()
    cases = [(work, case) for work in works for case in work.cases()]
    for work, case in cases:
        if case.values["device"] == device:
            whole = _seconds(case) * slower
            call_s = whole * (0.05 if work.expected(case).get("asynchronous") else 0.95)
            for launch in range(header.launches):
                seconds = whole * noise.uniform(0.98, 1.02)
                yield CaseRecord(
                    case=case,
                    version=work.version,
                    launch=launch,
                    position=0,
                    status="ok",
                    reason=None,
                    started_at=header.started_at,
                    seconds=seconds,
                    nbytes=work.nbytes(case),
                    measurement={"end_to_end_s": [seconds], "call_s": [call_s], "device_s": []},
                    expected=work.expected(case),
                )


def _seconds(case: Case) -> float:
    axes = case.values
    rate = 5e10 if axes.get("memory") == "pinned" or axes.get("place") == "direct" else 1.2e10
    return 1e-5 + int(axes["nbytes"]) / rate


def _odd(record: CaseRecord, day: int) -> CaseRecord:
    """Day 2 skips the trend's case, day 3 and the newest fail a proof, the newest surprises."""
    text = str(record.case)
    if text == TREND and day == 2:
        reason = f"{HOSTILE} another process uses the GPU"
        return replace(record, status="skipped", reason=reason, seconds=None, measurement={})
    if (text == TREND and day == 3) or (text == STRUCK and day == 8):
        return replace(record, status="failed", reason=f"target differs from source {HOSTILE}")
    if text == TREND and day == 8:
        found = {**record.measurement, "findings": {"asynchronous": False}}
        return replace(record, measurement=found)
    return record


def _foreign(results: Path) -> None:
    """Another project's tree whose benchmark, parameter, unit and machine are hostile."""
    name = f"transfer.{HOSTILE}.track_{MARKUP}"
    folder = results / FOREIGN
    folder.mkdir()
    machine = {"machine": FOREIGN, "cpu": f"{HOSTILE} CPU", "version": 1}
    (folder / "machine.json").write_text(json.dumps(machine))
    about = {"name": name, "unit": HOSTILE, "param_names": ["memory"], "type": "track"}
    (results / "benchmarks.json").write_text(json.dumps({name: about, "version": 2}))
    row = [[3.0, None, float("nan")], [["'a'", f"'{HOSTILE}'", "1"]], "v1", 1_793_500_000_000]
    stored = {
        "commit_hash": "f" * 40,
        "env_name": HOSTILE,
        "date": 1_793_400_000_000,
        "requirements": {},
        "result_columns": ["result", "params", "version", "started_at"],
        "results": {name: row},
        "version": 2,
    }
    (folder / "ffffffff-env.json").write_text(json.dumps(stored))
