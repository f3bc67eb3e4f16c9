"""The frame's rows of asv's own files."""

import math
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hostbench.core import units
from hostbench.core.case import Case
from hostbench.core.clock import iso
from hostbench.core.records import DAMAGE
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload
from hostbench.store import asv_tree
from hostbench.store.asv_tree import AsvPoint, Params
from hostbench.store.columns import Row, axes_of
from hostbench.suite import asv_name

Warn = Callable[[str], None]
Claimed = set[tuple[Any, ...]]
"""(machine, commit, benchmark, started_at in ms) of the rows that an archive holds too."""

NO_REASON = "asv stores no reason"


def read(results: Path, claimed: Claimed, warn: Warn) -> list[Row]:
    """The rows of every file, without those that an archive holds."""
    entries = asv_tree.machines(results, lambda _: None)  # the points below warn
    rows = []
    damaged: dict[str, None] = {}
    for point in asv_tree.points(results, warn):
        row = shown(results, point, entries[point.machine], claimed, damaged)
        if row is not None:
            rows.append(row)
    for warning in damaged:
        warn(warning)
    return rows


def shown(
    results: Path,
    point: AsvPoint,
    entry: Mapping[str, Any],
    claimed: Claimed,
    damaged: dict[str, None],
) -> Row | None:
    """The point's row; None for one that an archive holds or that `damaged` then names."""
    if (point.machine, point.commit, point.benchmark, point.started_ms) in claimed:
        return None
    try:
        return row_of(point, hardware(entry))
    except DAMAGE as error:
        file = results / point.machine / f"{point.commit[:8]}-{point.env_name}.json"
        damaged[f"{file}: {point.benchmark} cannot be shown ({error}); left out"] = None
        return None


def row_of(point: AsvPoint, hardware: str | None) -> Row:
    """Raises one of DAMAGE for a point that cannot be shown."""
    about, nbytes = about_case(point.benchmark, point.params, point.unit)
    in_seconds = point.unit == "seconds"
    return {
        "machine": point.machine,
        "hardware": hardware,
        "commit": point.commit,
        "committed_at": _utc(point.committed_ms),
        "run_id": run_id(point.commit, point.env_name),
        "started_at": _utc(point.started_ms) or _utc(point.committed_ms),
        "torch": point.requirements.get("torch"),
        "version": point.version,
        "status": point.status,
        "reason": None if point.status == "ok" else NO_REASON,
        "value": point.value,
        "source": "asv",
        "flags": "",
        **about,
        **(_numbers(point, nbytes) if in_seconds and point.value is not None else {}),
    }


def about_case(benchmark: str, params: Params, unit: str) -> tuple[Row, int | None]:
    """What is the same in every file: the row's part that names the case, and its bytes a step."""
    work = _ours().get(benchmark)
    case = Case.of(work.name if work else benchmark, dict(params))
    for axis in ("nbytes", "batch_bytes", "num_ranks"):
        if work and not isinstance(case.values.get(axis, 0), int):
            raise ValueError(f"{axis} is {case.values[axis]!r:.40}, no number")
    known = work is not None and set(case.values) == set(work.axes)
    nbytes = work.nbytes(case) if work and known else None
    return {
        "family": case.family,
        "workload": case.workload,
        "metric": unit,
        "case": str(case),
        "unit": unit,
        "nbytes": nbytes,
        **axes_of(case),
    }, nbytes


def run_id(commit: str, env_name: str) -> str:
    return f"asv-{commit[:8]}-{env_name}"


def environment_of(run_id: str) -> str | None:
    """asv's environment in such a run_id; None for hostbench's own, whose points continue a run's
    series, and for the id of a run."""
    name = run_id[len("asv-") + 8 + 1 :] if run_id.startswith("asv-") else ""
    return None if not name or name.startswith("hostbench-") else name


def hardware(entry: Mapping[str, Any]) -> str | None:
    """What machine.json calls the GPU, else the CPU."""
    named = entry.get("gpu") or entry.get("cpu")
    return None if named is None else str(named)


@cache
def _ours() -> dict[str, Workload]:
    return {asv_name(name): work for name, work in load_workloads().items()}


def _numbers(point: AsvPoint, nbytes: int | None) -> Row:
    seconds = point.value
    assert seconds is not None
    return {
        "seconds": seconds,
        "ci_low_s": point.ci[0],
        "ci_high_s": point.ci[1],
        "q25_s": point.quartiles[0],
        "q75_s": point.quartiles[1],
        "num_samples": point.num_samples,
        "gb_per_s": units.gb_per_s(nbytes, seconds) if nbytes and seconds > 0 else math.nan,
    }


def _utc(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso(milliseconds / 1000)
