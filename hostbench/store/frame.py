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
source                   archive, journal or asv
scratch                  why the run is never judged; None when it may be
interleaved_with         run_id of the run whose launches were interleaved with this one's, or None
flags                    unexpected findings and shortfalls, separated by "; "
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from hostbench.core import units
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE
from hostbench.core.records import DAMAGE
from hostbench.core.samples import median, median_interval, quantile
from hostbench.limits import published
from hostbench.store.archive import path_of
from hostbench.store.columns import COLUMNS, NUMBERS, TIMES, FrameRow, axes_of
from hostbench.store.limits import gpu_name, limits
from hostbench.store.runs import CaseResult, WholeRun


def rows_of_run(
    results: Path, run: WholeRun, figures: tuple[published.PublishedFigure, ...], warn: Warn
) -> list[FrameRow] | None:
    """None, and a warning that names its files, for a run that cannot be shown."""
    try:
        return list(_rows_of_run(run, figures))
    except DAMAGE as error:
        name = path_of(results, run.run) if run.run.archived else f"journal {run.run_id}"
        warn(f"{name} cannot be shown ({type(error).__name__}: {error}); {REPLACE}")
        return None


def of_run(results: Path, run: WholeRun, warn: Warn) -> pd.DataFrame:
    """The tidy frame of one run that was read already; empty, and a warning, where it is odd."""
    figures = published.load(results, warn)
    return tidy(rows_of_run(results, run, figures, warn) or [])


def tidy(rows: list[FrameRow]) -> pd.DataFrame:
    """Rows as a frame with every column, its times and numbers typed, the oldest first."""
    axes = list(dict.fromkeys(key for row in rows for key in row if key not in COLUMNS))
    frame = pd.DataFrame(rows, columns=[*COLUMNS, *axes])
    for column in TIMES:
        frame[column] = pd.to_datetime(frame[column], utc=True, format="ISO8601", errors="coerce")
    for column in NUMBERS:
        frame[column] = pd.to_numeric(frame[column])
    return frame.sort_values("started_at", kind="stable", ignore_index=True)


def _rows_of_run(
    run: WholeRun, figures: tuple[published.PublishedFigure, ...]
) -> Iterator[FrameRow]:
    known = limits(run, figures)
    shared = _about_run(run, gpu_name(known.before))
    simulated = {"device": "simulated"} if run.header.device == "simulated" else {}
    for result in run.results():
        row = {**shared, **_about_result(result), **simulated}
        yield row | known.columns(result.case, str(row.get("device")))
    for text in run.not_measured():
        yield {
            **shared,
            **simulated,
            "case": text,
            "workload": text.partition("[")[0],
            "family": text.partition(".")[0],
            "metric": "seconds",
            "status": "not measured",
            "reason": "the run ended before it came to this case",
        }


def _about_run(run: WholeRun, gpu: str | None) -> FrameRow:
    header, facts = run.header, run.facts
    hardware = gpu or _plain(facts.get("host", {}).get("cpu_model"))
    if header.device == "simulated" and not str(hardware).startswith("Simulated"):
        hardware = "Simulated" if hardware is None else f"Simulated, on {hardware}"
    return {
        "machine": header.machine,
        "hardware": hardware,
        "commit": header.commit,
        "committed_at": header.committed_at,
        "run_id": run.run_id,
        "started_at": header.started_at,
        "torch": _plain(facts.get("software", {}).get("torch")),
        "driver": _plain(facts.get("nvml", {}).get("driver")),
        "source": "archive" if run.run.archived else "journal",
        "scratch": header.scratch,
        "interleaved_with": header.interleaved_with,
    }


def _plain(fact: Any) -> str | None:
    """A stored fact's value; None for one that is unknown."""
    return None if fact is None or isinstance(fact, dict) else str(fact)


def _about_result(result: CaseResult) -> FrameRow:
    row: FrameRow = {
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
        **axes_of(result.case),
    }
    if result.seconds:
        row |= _numbers(result.seconds, result.nbytes)
        row["launches"] = dict(zip(result.launches, result.seconds, strict=True))
        row["call_s"] = median(result.call_s) if result.call_s else math.nan
        row["device_s"] = median(result.device_s) if result.device_s else math.nan
    return row


def _numbers(seconds: tuple[float, ...], nbytes: int | None) -> FrameRow:
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
    for name, value in result.unexpected.items():
        yield f"unexpected: {name} is {value}"
    if result.status == "ok" and len(result.seconds) < result.planned_launches:
        yield f"{len(result.seconds)} of {result.planned_launches} launches"
