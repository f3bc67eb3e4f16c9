"""The tidy frame: one row per point, from archives and any asv results tree.

Columns (the axes of the workloads follow, one column each):

machine, hardware        the folder's name; the GPU's or the CPU's model
device                   first axis: cuda, cpu
commit, committed_at     40 hex digits; UTC
run_id, started_at       the run; UTC
torch, driver            versions at the time of the run
family, workload         `transfer`, `transfer.host_to_device`
case, version            the case in its text form; the workload's declared version
status, reason           ok, skipped, failed, not measured; why
seconds                  median of the launch medians, seconds per step (also of a failed case)
ci_low_s, ci_high_s      99 % order-statistic interval of that median; NaN below 8 launches
q25_s, q75_s             quartiles of the launch medians
call_s, device_s         the two other clocks, medians
findings, proofs         what the case turned out to do; name -> passed, failed: or unavailable: why
peak_memory_bytes        the most that the device's allocator held in a launch
num_samples              launches
launches                 {launch: median seconds} of the run; None where asv kept none
nbytes, gb_per_s         bytes per step and 10**9 bytes per second
value, unit              another project's number that is not in seconds
source                   archive or asv
scratch                  why the run is never judged; None when it may be
interleaved_with         run_id of the run whose launches were interleaved with this one's, or None
flags                    unexpected findings and shortfalls, separated by "; "
"""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from hostbench.core.case import AxisValue, Case
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE
from hostbench.core.records import DAMAGE, PROOF_FAILED, CaseRecord, Run
from hostbench.core.samples import median, median_interval, quantile
from hostbench.core.units import GB
from hostbench.facts.record import Facts, cuda_group, gpu_groups, text_of
from hostbench.store.archive import path_of
from hostbench.store.runs import facts_of

COLUMNS = tuple(
    (
        "machine hardware device commit committed_at run_id started_at torch driver family "
        "workload case version status reason seconds ci_low_s ci_high_s q25_s q75_s "
        "call_s device_s findings proofs peak_memory_bytes num_samples launches "
        "nbytes gb_per_s value unit source scratch interleaved_with flags"
    ).split()
)
STATUSES = ("ok", "skipped", "failed", "not measured")
TIMES = ("committed_at", "started_at")
NUMBERS = tuple(c for c in COLUMNS if c.endswith("_s") or c in ("seconds", "value", "num_samples"))
FrameRow = dict[str, Any]
MAX_REASON = 4000
"""Characters of a reason that are shown."""


def rows_of_run(results: Path, run: Run, warn: Warn) -> list[FrameRow] | None:
    """None, and a warning that names its files, for a run that cannot be shown."""
    try:
        return list(_rows_of_run(run))
    except DAMAGE as error:
        why = f"{type(error).__name__}: {error}"
        warn(f"{path_of(results, run)} cannot be shown ({why}); {REPLACE}")
        return None


def axes_of(case: Case) -> dict[str, AxisValue]:
    """Axis columns; an axis of another project that is named like a column gets an underscore, but
    for a device and a size as ours are."""

    def is_ours(name: str, value: AxisValue) -> bool:
        if name == "nbytes":
            return type(value) is int and 0 <= value < 1 << 63
        return name == "device" and isinstance(value, str)

    return {
        f"{name}_" if name in COLUMNS and not is_ours(name, value) else name: value
        for name, value in case.values.items()
    }


def _rows_of_run(run: Run) -> Iterator[FrameRow]:
    header, facts = run.header, facts_of(run.facts_before)
    is_simulated = header.device == "simulated"
    hardware = gpu_name(facts) or text_of(facts, "host", "cpu_model")
    if is_simulated and not str(hardware).startswith("Simulated"):
        hardware = "Simulated" if hardware is None else f"Simulated, on {hardware}"
    committed = header.committed_at
    shared = {
        "machine": header.machine,
        "hardware": hardware,
        "commit": header.commit,
        "committed_at": committed and datetime.fromisoformat(committed),
        "run_id": run.run_id,
        "started_at": datetime.fromisoformat(header.started_at),
        "torch": text_of(facts, "software", "torch"),
        "driver": text_of(facts, "nvml", "driver"),
        "source": "archive",
        "scratch": header.scratch,
        "interleaved_with": header.interleaved_with,
    }
    simulated = {"device": "simulated"} if is_simulated else {}
    for row in case_rows(run):
        yield {**shared, **row, **simulated}
    for text in run.not_measured():
        yield {
            **shared,
            **simulated,
            "case": text,
            "workload": text.partition("[")[0],
            "family": text.partition(".")[0],
            "status": "not measured",
            "reason": "the run ended before it came to this case",
        }


def gpu_name(facts: Facts) -> str | None:
    """The model of the GPU that ran; `A or B` where that is one of several models."""
    ran = cuda_group(facts)
    names = {text_of(facts, group, "name") for group in ([ran] if ran else gpu_groups(facts))}
    return " or ".join(sorted(filter(None, names))) or None


def case_rows(run: Run) -> list[FrameRow]:
    """What is to be said of each measured case over all its launches, in the plan's order."""
    by_case: dict[str, list[CaseRecord]] = {text: [] for text in run.header.planned}
    for record in run.winners().values():
        by_case.setdefault(str(record.case), []).append(record)
    return [_case_row(records, run.header.launches) for records in by_case.values() if records]


def _case_row(records: list[CaseRecord], launches: int) -> FrameRow:
    """One failed or skipped launch decides; the times of a failed proof are kept, to be shown
    struck out."""
    records = sorted(records, key=lambda record: record.launch)
    rank = {"failed": 0, "skipped": 1}
    bad = min((r for r in records if r.status in rank), key=lambda r: rank[r.status], default=None)
    last = bad or records[-1]
    is_shown = bad is None or (bad.reason or "").startswith(PROOF_FAILED)
    times = {r.launch: r.seconds for r in records if r.seconds is not None and is_shown}
    findings = dict[str, list[Any]]()
    for record in records:
        for name, value in record.measurement.findings.items():
            findings.setdefault(name, []).append(value)
    agreed = {name: _together(values) for name, values in findings.items()}
    flags = ["oversubscribed"] if agreed.get("oversubscribed") is True else []
    flags += _unexpected(last, findings, agreed)
    if last.status == "ok" and len(times) < launches:
        flags.append(f"{len(times)} of {launches} launches")
    peaks = [record.measurement.memory.get("peak_allocated") for record in records]
    row: FrameRow = {
        "family": last.case.family,
        "workload": last.case.workload,
        "case": str(last.case),
        "version": last.version,
        "status": last.status,
        "reason": last.reason and last.reason[:MAX_REASON],
        "unit": "seconds",
        "nbytes": last.nbytes,
        "findings": agreed,
        "proofs": _worst_proofs(records),
        "peak_memory_bytes": max((peak for peak in peaks if peak is not None), default=None),
        "flags": "; ".join(flags),
        **axes_of(last.case),
    }
    return row | _times(records, times, last.nbytes) if times else row


def _times(records: list[CaseRecord], times: dict[int, float], nbytes: int | None) -> FrameRow:
    """Of the seconds of each launch; the two other clocks of the same launches."""
    seconds = [*times.values()]
    middle, (low, high) = median(seconds), median_interval(seconds)
    row: FrameRow = {
        "seconds": middle,
        "ci_low_s": low if math.isfinite(low) else None,
        "ci_high_s": high if math.isfinite(high) else None,
        "q25_s": quantile(seconds, 0.25),
        "q75_s": quantile(seconds, 0.75),
        "num_samples": len(seconds),
        "gb_per_s": nbytes / middle / GB if nbytes and middle > 0 else None,
        "launches": times,
    }
    for clock in ("call_s", "device_s"):
        samples = [getattr(r.measurement, clock) for r in records if r.launch in times]
        medians = [median(values) for values in samples if values]
        row[clock] = median(medians) if medians else None
    return row


def _worst_proofs(records: list[CaseRecord]) -> dict[str, str]:
    """A failure counts more than what could not be shown, and that more than a pass."""
    order, proofs = ("passed", "unavailable", "failed"), dict[str, str]()
    for record in records:
        for name, outcome in record.measurement.proofs.items():
            both = (proofs.get(name, outcome), outcome)
            proofs[name] = max(both, key=lambda text: order.index(text.partition(":")[0]))
    return proofs


def _unexpected(
    last: CaseRecord, findings: Mapping[str, list[Any]], agreed: Mapping[str, Any]
) -> Iterator[str]:
    """Findings that are not what the case declares."""
    for name, expected in last.expected.items():
        known = [value for value in findings.get(name, ()) if isinstance(value, bool)]
        if 0 < sum(known) < len(known):
            yield f"unexpected: {name} is True in {sum(known)} of {len(known)} launches"
        elif agreed.get(name) not in (None, expected):
            yield f"unexpected: {name} is {agreed[name]}"


def _together(values: list[Any]) -> Any:
    """What all launches agree on, or the median of numbers, else None."""
    if all(value == values[0] for value in values):
        return values[0]
    are_numbers = all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
    return median(values) if are_numbers else None
