"""A small results folder for the dashboard's tests: every kind of point, and hostile text."""

import functools
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from hostbench.core.case import Case
from hostbench.core.records import CaseRecord, Finish, Measurement, Run
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload
from hostbench.store import archive
from tests.fakes import builders, histories

HOSTILE = "<script>alert(1)</script>"
MARKUP = "[click](javascript:alert(1)) **bold** $x$ :red[x] <img src=x onerror=alert(1)>"
GPU_MACHINE, CPU_MACHINE, FOREIGN = "toy-gpu", "toy-cpu", "other-project"
OFTEN = ("transfer.host_to_device", "allocation.create")
OFTEN_BYTES = (1 << 20, 16 << 20)
"""Workloads and sizes of every run; the newest and the only one of the CPU have all of these
families."""
ALL_FAMILIES = (
    "transfer",
    "allocation",
    "synchronization",
    "overlap",
    "loading",
    "collectives",
)
FACTS: dict[str, Any] = {
    "host": {"cpu_model": "A Toy CPU"},
    "software": {"torch": "2.13.0"},
    "nvml": {"driver": "580.1"},
    "gpu0": {"name": "A Toy GPU", "pcie_generation": 5, "pcie_width": 16},
}
CPU_FACTS = {name: FACTS[name] for name in ("host", "software")}
TREND = "transfer.host_to_device[device=cuda,nbytes=16777216,memory=pinned,blocking=False]"
STRUCK = "transfer.host_to_device[device=cuda,nbytes=1048576,memory=pageable,blocking=True]"
LOST = "overlap.pipeline[device=cuda,batch_bytes=33554432,memory=pinned,schedule=streams_4]"
STRUCK_LOOP = LOST.replace("streams_4", "streams_2").replace(str(32 << 20), str(4 << 20))
STRUCK_RANKS = "collectives.all_reduce[device=cuda,num_ranks=4,nbytes=4096]"
LARGE = 32 << 20
LARGEST = 256 << 20
PUBLISHED = "".join(
    f"""
[[figure]]
hardware = "Toy"
words = ["toy"]
link = "PCIe Gen5 x16"
direction = "{way}"
low_gb_per_s = 44.0
high_gb_per_s = 47.5
kind = "measured"
source = "https://example.org/{HOSTILE}"
"""
    for way in ("host_to_device", "device_to_host")
)
START = datetime(2026, 11, 1, 3, 0, tzinfo=UTC)
CHANGED_MACHINE = "simulated-a"
SLOWER = "transfer.host_to_device"


def _num_series() -> int:
    """As few as hold two copies to the device and one back, whatever families there are: a story
    takes its series from all cases, evenly."""
    for num in range(8, 40):
        names = [work.name for work, _ in histories.cases_of(num)]
        if (names.count(SLOWER), names.count("transfer.device_to_host")) == (2, 1):
            return num
    raise ValueError("no number of series does")


NUM_SERIES = _num_series()
NEW_VERSION = next(
    work.name for work, _ in reversed(histories.cases_of(NUM_SERIES)) if work.version == "1"
)
QUIET: dict[str, Any] = {
    "seed": 3,
    "commits": 90,
    "series": NUM_SERIES,
    "machine": [{"name": CHANGED_MACHINE, "sigma": 0.004}],
}
CHANGES: dict[str, Any] = {
    **QUIET,
    "event": [
        {
            "kind": "environment",
            "machine": CHANGED_MACHINE,
            "at": 25,
            "fact": "nvml.driver",
            "value": "590.7",
            "effect": 0.05,
        },
        {"kind": "code", "at": 60, "effect": 0.10, "series": SLOWER},
        {"kind": "code", "at": 65, "effect": -0.10, "series": "transfer.device_to_host"},
        {"kind": "version", "at": 77, "series": NEW_VERSION},
    ],
}
"""A driver that slows the machine, a commit that slows two series, one that makes one faster, and a
new version of another."""


def write(results: Path) -> Path:
    """Nine runs of a toy GPU, one of a CPU, another project's asv tree."""
    for day in range(9):
        archive.write(results, gpu_run(day))
    archive.write(results, cpu_run())
    _foreign(results)
    (results / "published.toml").write_text(PUBLISHED)
    return results


def write_changes(folder: Path) -> Path:
    """The results folder of CHANGES; its commits are in no git."""
    return histories.write(folder, CHANGES)


def gpu_run(day: int) -> Run:
    """The same commit on days 4 to 6, with a slower driver from day 6 on; day 7 is scratch.

    Only the newest run has more than two sizes of two workloads: it keeps the tests quick.
    """
    cases = [
        (work, case)
        for work, case in _cases(*ALL_FAMILIES)
        if day == 8 or (work.name in OFTEN and case.values["nbytes"] in OFTEN_BYTES)
    ]
    fields = _fields(
        day,
        machine=GPU_MACHINE,
        commit=f"{min(day, 4) if day < 7 else day:x}" * 40,
        scratch="quick" if day == 7 else None,
        profile="quick" if day == 7 else "standard",
        launches=3 if day == 7 else 8,
        device="cuda",
    )
    records = [_odd(one, day) for one in _records(fields, 1.0 if day < 6 else 1.25, day, cases)]
    lost = {LOST} if day == 8 else set()  # the newest run never came to it
    kept = [one for one in records if str(one.case) not in lost]
    facts = {**FACTS, "nvml": {"driver": "580.1" if day < 6 else "590.7"}}
    planned = tuple(dict.fromkeys(str(one.case) for one in records))
    return builders.run(kept, facts=facts, planned=planned, **fields)


def one_gpu_run() -> Run:
    """All-reduce where more than one rank finds no GPU."""
    fields = _fields(0, machine=GPU_MACHINE, commit="1" * 40, launches=3, device="cuda")
    reason = "needs more GPUs, this machine has 1"
    records = [
        one if one.case.values["num_ranks"] == 1 else _skipped(one, reason)
        for one in _records(fields, 1.0, 1, _cases("collectives"))
    ]
    return builders.run(records, facts=FACTS, **fields)


def cpu_run() -> Run:
    fields = _fields(0, machine=CPU_MACHINE, commit="c" * 40, launches=3, device="cpu")
    records = [
        _skipped(one, f"{HOSTILE} {MARKUP}") if one.case.values.get("memory") == "pinned" else one
        for one in _records(fields, 3.0, 99, _cases(*ALL_FAMILIES))
    ]
    return builders.run(records, facts=CPU_FACTS, **fields)


def _fields(day: int, **changes: Any) -> dict[str, Any]:
    """Of a run's header, and when it ended."""
    at = START + timedelta(days=day)
    started_at = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "run_id": f"{at:%Y%m%dT%H%M%SZ}-{changes['commit'][:8]}-{day:04d}",
        "committed_at": (START + timedelta(days=min(day, 4), hours=-5)).isoformat(),
        "started_at": started_at,
        "finish": Finish(at=started_at, status="complete"),
        "seed": 1,
        **changes,
    }


@functools.cache
def _cases(*families: str) -> list[tuple[Workload, Case]]:
    works = load_workloads(families).values()
    return [(work, case) for work in works for case in work.cases()]


def _records(
    fields: dict[str, Any], slower: float, seed: int, cases: list[tuple[Workload, Case]]
) -> Iterator[CaseRecord]:
    noise = random.Random(seed)
    for work, case in cases:
        if case.values["device"] == fields["device"]:
            whole = _seconds(case) * slower
            call_s = whole * (0.05 if _is_asynchronous(work, case) else 0.95)
            for launch in range(fields["launches"]):
                seconds = whole * noise.uniform(0.98, 1.02) * _drift(case, launch)
                yield CaseRecord(
                    case=case,
                    version=work.version,
                    launch=launch,
                    position=0,
                    status="ok",
                    reason=None,
                    started_at=fields["started_at"],
                    seconds=seconds,
                    nbytes=work.nbytes(case),
                    measurement=Measurement(
                        end_to_end_s=(seconds,),
                        call_s=(call_s,),
                        findings=_findings(work, case),
                        memory=_memory(case),
                    ),
                    expected=work.expected(case),
                )


def _findings(work: Workload, case: Case) -> dict[str, Any]:
    axes = case.values
    if "num_ranks" in axes:
        return {"oversubscribed": axes["device"] == "cpu" and int(axes["num_ranks"]) > 2}
    if case.family == "synchronization":
        waits = 0.0 if work.expected(case).get("asynchronous") else 1.0
        return {**work.expected(case), "syncs_per_step": waits, "idle_share": 0.3 * waits}
    if "direction" in axes:
        way = str(axes["direction"]).upper()
        return {**work.expected(case), "copies": f"1 x {way} pageable, {HOSTILE} in all"}
    found: dict[str, Any] = dict(work.expected(case))
    if case.workload == "transfer.both_ways":
        found["both_at_once"] = axes["memory"] == "pinned"
        found["both_ways_share"] = 0.97 if found["both_at_once"] else 0.0
    return found


def _memory(case: Case) -> dict[str, int]:
    """`record_stream` holds a buffer per batch, the others two."""
    if case.workload != "overlap.ordered":
        return {}
    num = 8 if case.values["ordering"] == "record_stream" else 2
    return {"peak_allocated": num * int(case.values["batch_bytes"])}


def _is_asynchronous(work: Workload, case: Case) -> bool:
    axes = case.values
    if case.family == "overlap":
        return axes["memory"] == "pinned" and axes.get("schedule") != "serial"
    return bool(work.expected(case).get("asynchronous"))


def _drift(case: Case, launch: int) -> float:
    """Serial loops over small pageable batches differ so much that no efficiency can be said."""
    axes = case.values
    odd = axes.get("memory") == "pageable" and axes.get("batch_bytes") == 4 << 20
    return (0.2, 2.5)[launch % 2] if odd and axes.get("schedule") == "serial" else 1.0


def _ratio_s(half: float, text: str, schedule: str) -> float:
    compute, copy = map(int, text.split(":"))
    part = compute / copy * half
    loop = half + 7 * max(half, part) + part
    parts = {"copy_only": 8 * half, "compute_only": 8 * part, "serial": 8 * (half + part)}
    return parts.get(schedule, 1.02 * loop)


def _loop_s(case: Case) -> float:
    """8 batches whose compute is as long as their copy; from pageable memory little is hidden."""
    axes = case.values
    memory, schedule = str(axes["memory"]), str(axes.get("schedule", "copy_stream"))
    half = int(axes["batch_bytes"]) / (5e10 if memory == "pinned" else 1.2e10)
    if "compute_to_copy" in axes:
        return _ratio_s(half, str(axes["compute_to_copy"]), schedule)
    if case.workload == "overlap.round_trip" and not schedule.endswith("_only"):
        return {"three_streams": 10.4}.get(schedule, 24.0) * half
    if case.workload == "overlap.ordered":
        return (12.0 if str(axes["ordering"]).endswith("synchronize") else 9.2) * half
    hidden = {"copy_stream": 7.0, "streams_2": 6.0, "streams_4": 6.5}
    share = 1.0 if memory == "pinned" else 0.04
    if schedule.endswith("_only"):
        return 8 * half
    return (16 - share * hidden.get(schedule, 0.1)) * half


def _all_reduce_s(num_ranks: int, nbytes: int) -> float:
    if num_ranks == 1:
        return 1.5e-5
    return 4e-5 * num_ranks + nbytes / 2e10 * 2 * (num_ranks - 1) / num_ranks * num_ranks**0.3


def _waiting_s(case: Case) -> float:
    """A wait costs 15 us, printing eight of them."""
    axes = case.values
    free = axes.get("trap") in ("none", "shape", "graph")
    often = 0.1 if axes.get("trap") == "item_every_10" else 1 / int(axes.get("num_queued", 1))
    waits = 0.0 if free else 8.0 if axes.get("trap") == "print" else often
    return int(axes.get("step_us", 100)) / 1e6 + 1.5e-5 * waits


def _seconds(case: Case) -> float:
    axes = case.values
    if case.family == "synchronization":
        return _waiting_s(case)
    if case.family == "overlap":
        return _loop_s(case)
    if case.family == "collectives":
        return _all_reduce_s(int(axes["num_ranks"]), int(axes["nbytes"]))
    rate = 5e10 if axes.get("memory") == "pinned" or axes.get("place") == "direct" else 1.2e10
    return 1e-5 + int(axes.get("nbytes", 1 << 20)) / rate


def _skipped(record: CaseRecord, reason: str) -> CaseRecord:
    none = Measurement()
    return replace(record, status="skipped", reason=reason, seconds=None, measurement=none)


def _odd(record: CaseRecord, day: int) -> CaseRecord:
    """Day 2 skips the trend's case, day 3 and the newest fail a proof, the newest surprises.

    Eight ranks need more GPUs than there are.
    """
    text = str(record.case)
    axes = record.case.values
    if axes.get("num_ranks") == 8:
        reason = "needs 8 GPUs, this machine has 4"
        return _skipped(record, reason)
    if text == TREND and day == 2:
        reason = f"{HOSTILE} another process uses the GPU"
        return _skipped(record, reason)
    if (text == TREND and day == 3) or (text in (STRUCK, STRUCK_LOOP, STRUCK_RANKS) and day == 8):
        return replace(record, status="failed", reason=f"target differs from source {HOSTILE}")
    if text == TREND and day == 8:
        found = {"asynchronous": False}
        return replace(record, measurement=replace(record.measurement, findings=found))
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
