"""The tidy frame: one row per point, from archives, journals and any asv results tree.

Columns (the axes of the workloads follow, one column each):

machine, hardware        the folder's name; the GPU's or the CPU's model
device                   first axis: cuda, cpu
commit, committed_at     40 hex digits; UTC
run_id, started_at       the run; UTC
torch, driver            versions at the time of the run
family, workload, metric `transfer`, `transfer.host_to_device`, `seconds`
case, version            the case in its text form; the workload's declared version
status, reason           ok, skipped, failed, not measured; why
seconds                  median of the launch medians, seconds per step (also of a failed case)
ci_low_s, ci_high_s      99 % order-statistic interval of that median; NaN below 8 launches
q25_s, q75_s             quartiles of the launch medians
call_s, device_s         the two other clocks, medians
asynchronous             what the delay probe found: True, False, None where it could not tell
findings, proofs         what the case turned out to do; name -> passed, failed: or unavailable: why
peak_memory_bytes        the most that the device's allocator held in a launch
num_samples              launches
launches                 {launch: median seconds} of the run; None where asv kept none
nbytes, gb_per_s         bytes per step and 10**9 bytes per second, derived on reading
ceiling_gb_per_s         what gb_per_s can be at most (of all_reduce: the bus bandwidth), else NaN
encoded_gb_per_s         the same without packet overhead, where the limit is PCIe, else NaN
ceiling                  what the limit is; where there is none, why
link                     what is wrong with the link of the GPU that ran, `fine`, or None: untold
published_low_gb_per_s, published_high_gb_per_s   what others measured on this GPU
published, published_kind   that in words, with who; measured, or floor: an operator's demand
value, unit              another project's number that is not in seconds
source                   archive, journal, asv, or nvbandwidth: a peer's point, no run of ours
scratch                  why the run is never judged; None when it may be
flags                    surprises and shortfalls, separated by "; "
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from hostbench import units
from hostbench.case import Case
from hostbench.ceilings import published
from hostbench.clock import iso
from hostbench.errors import UsageError
from hostbench.journal import DAMAGE
from hostbench.samples import median, median_interval, quantile
from hostbench.store import asv_tree, peers
from hostbench.store.archive import path_of
from hostbench.store.limits import gpu_name, limits
from hostbench.store.runs import CaseResult, Warn, WholeRun, load
from hostbench.suite import asv_name
from hostbench.workload import Workload
from hostbench.workloads import load as load_workloads

COLUMNS = tuple(
    (
        "machine hardware device commit committed_at run_id started_at torch driver family "
        "workload metric case version status reason seconds ci_low_s ci_high_s q25_s q75_s "
        "call_s device_s asynchronous findings proofs peak_memory_bytes num_samples launches "
        "nbytes gb_per_s ceiling_gb_per_s encoded_gb_per_s ceiling link published_low_gb_per_s "
        "published_high_gb_per_s published published_kind value unit source scratch flags"
    ).split()
)
_TIMES = ("committed_at", "started_at")
_NUMBERS = tuple(c for c in COLUMNS if c.endswith("_s") or c in ("seconds", "value", "num_samples"))

Row = dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Tree:
    """A results folder as read."""

    frame: pd.DataFrame
    runs: list[WholeRun]
    warnings: list[str] = field(default_factory=list)


def read(results: Path) -> Tree:
    """Read a results folder, whole. Raises UsageError when there is no such folder."""
    if not results.is_dir():
        raise UsageError(f"there is no results folder {results}; name one with --results")
    warnings: list[str] = []
    runs, rows = _runs(results, warnings.append)
    rows += peers.rows(results, warnings.append)
    claimed = {
        (part.header.machine, part.header.commit, *row)
        for run in runs
        for part in run.parts
        for row in part.asv_rows
    }
    rows += _rows_of_asv(results, claimed, warnings.append)
    return Tree(frame=_frame(rows), runs=runs, warnings=warnings)


def _runs(results: Path, warn: Warn) -> tuple[list[WholeRun], list[Row]]:
    """The runs that can be shown, and their rows; another one is a warning that names its file."""
    runs: list[WholeRun] = []
    rows: list[Row] = []
    figures = published.load(results, warn)
    for run in load(results, warn):
        try:
            rows += list(_rows_of_run(run, figures))
            runs.append(run)
        except DAMAGE as error:
            names = ", ".join(
                str(path_of(results, part)) if part.archived else f"journal {part.header.run_id}"
                for part in run.parts
            )
            warn(f"{names} cannot be shown ({type(error).__name__}: {error}); left out")
    return runs, rows


def _frame(rows: list[Row]) -> pd.DataFrame:
    axes = list(dict.fromkeys(key for row in rows for key in row if key not in COLUMNS))
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *axes])
    for column in _TIMES:
        frame[column] = pd.to_datetime(frame[column], utc=True, format="ISO8601", errors="coerce")
    for column in _NUMBERS:
        frame[column] = pd.to_numeric(frame[column])
    return frame.sort_values("started_at", kind="stable", ignore_index=True)


def _rows_of_run(run: WholeRun, figures: tuple[published.Figure, ...]) -> Iterator[Row]:
    known = limits(run, figures)
    shared = _about_run(run, gpu_name(known.before))
    stand_in = {"device": "simulated"} if run.header.device == "simulated" else {}
    for result in run.results():
        row = {**shared, **_about_result(result), **stand_in}
        yield row | known.columns(result.case, str(row.get("device")))
    for text in run.not_measured():
        yield {
            **shared,
            **stand_in,
            "case": text,
            "workload": text.partition("[")[0],
            "family": text.partition(".")[0],
            "metric": "seconds",
            "status": "not measured",
            "reason": "the run ended before it came to this case",
        }


def _about_run(run: WholeRun, gpu: str | None) -> Row:
    header, facts = run.header, run.facts
    return {
        "machine": header.machine,
        "hardware": gpu or _plain(facts.get("host", {}).get("cpu_model")),
        "commit": header.commit,
        "committed_at": header.committed_at,
        "run_id": run.run_id,
        "started_at": header.started_at,
        "torch": _plain(facts.get("software", {}).get("torch")),
        "driver": _plain(facts.get("nvml", {}).get("driver")),
        "source": "archive" if all(part.archived for part in run.parts) else "journal",
        "scratch": header.scratch,
    }


def _plain(fact: Any) -> str | None:
    """A stored fact's value; None for one that is unknown."""
    return None if fact is None or isinstance(fact, dict) else str(fact)


def _about_result(result: CaseResult) -> Row:
    row: Row = {
        "family": result.case.family,
        "workload": result.case.workload,
        "metric": "seconds",
        "case": str(result.case),
        "version": result.version,
        "status": result.status,
        "reason": result.reason,
        "unit": "seconds",
        "nbytes": result.nbytes,
        "asynchronous": result.findings.get("asynchronous"),
        "findings": result.findings,
        "proofs": result.proofs,
        "peak_memory_bytes": result.peak_memory_bytes,
        "flags": "; ".join(_flags(result)),
        **_axes(result.case),
    }
    if result.seconds:
        row |= _numbers(result.seconds, result.nbytes)
        row["launches"] = dict(zip(result.launches, result.seconds, strict=True))
        row["call_s"] = median(result.call_s) if result.call_s else math.nan
        row["device_s"] = median(result.device_s) if result.device_s else math.nan
    return row


def _axes(case: Case) -> Row:
    """Axis columns; an axis of another project that is named like a column gets an underscore."""
    taken = set(COLUMNS) - {"device", "nbytes"}
    return {f"{name}_" if name in taken else name: value for name, value in case.axes}


def _numbers(seconds: tuple[float, ...], nbytes: int | None) -> Row:
    middle = median(seconds)
    low, high = median_interval(seconds)
    return {
        "seconds": middle,
        "ci_low_s": low if math.isfinite(low) else math.nan,
        "ci_high_s": high if math.isfinite(high) else math.nan,
        "q25_s": quantile(seconds, 0.25),
        "q75_s": quantile(seconds, 0.75),
        "num_samples": len(seconds),
        "gb_per_s": units.gb_per_s(nbytes, middle) if nbytes and middle > 0 else math.nan,
    }


def _flags(result: CaseResult) -> Iterator[str]:
    if result.findings.get("oversubscribed") is True:
        yield "oversubscribed"
    for name, found in result.surprises.items():
        yield f"surprise: {name} is {found}"
    if result.status == "ok" and len(result.seconds) < result.planned_launches:
        yield f"{len(result.seconds)} of {result.planned_launches} launches"


def _rows_of_asv(results: Path, claimed: set[tuple[Any, ...]], warn: Warn) -> list[Row]:
    entries = asv_tree.machines(results, lambda _: None)  # the points below warn
    ours = {asv_name(name): work for name, work in load_workloads().items()}
    rows = []
    damaged: dict[str, None] = {}
    for point in asv_tree.points(results, warn):
        if (point.machine, point.commit, point.benchmark, point.started_ms) in claimed:
            continue
        try:
            hardware = _hardware(entries[point.machine])
            rows.append(_row_of_point(point, ours.get(point.benchmark), hardware))
        except DAMAGE as error:
            file = results / point.machine / f"{point.commit[:8]}-{point.env_name}.json"
            damaged[f"{file}: {point.benchmark} cannot be shown ({error}); left out"] = None
    for warning in damaged:
        warn(warning)
    return rows


def _row_of_point(point: asv_tree.Point, work: Workload | None, hardware: str | None) -> Row:
    case = Case.of(work.name if work else point.benchmark, dict(point.params))
    for axis in ("nbytes", "batch_bytes", "num_ranks"):
        if work and not isinstance(case.values.get(axis, 0), int):
            raise ValueError(f"{axis} is {case.values[axis]!r:.40}, no number")
    known = work is not None and set(case.values) == set(work.axes)
    nbytes = work.nbytes(case) if work and known else None
    in_seconds = point.unit == "seconds"
    return {
        "machine": point.machine,
        "hardware": hardware,
        "commit": point.commit,
        "committed_at": _utc(point.committed_ms),
        "run_id": f"asv-{point.commit[:8]}-{point.env_name}",
        "started_at": _utc(point.started_ms) or _utc(point.committed_ms),
        "torch": point.requirements.get("torch"),
        "family": case.family,
        "workload": case.workload,
        "metric": point.unit,
        "case": str(case),
        "version": point.version,
        "status": point.status,
        "reason": None if point.status == "ok" else "asv stores no reason",
        "unit": point.unit,
        "value": point.value,
        "source": "asv",
        "flags": "",
        "nbytes": nbytes,
        **_axes(case),
        **(_asv_numbers(point, nbytes) if in_seconds and point.value is not None else {}),
    }


def _asv_numbers(point: asv_tree.Point, nbytes: int | None) -> Row:
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


def _hardware(entry: dict[str, Any]) -> str | None:
    named = entry.get("gpu") or entry.get("cpu")
    return None if named is None else str(named)


def _utc(milliseconds: int | None) -> str | None:
    return None if milliseconds is None else iso(milliseconds / 1000)
