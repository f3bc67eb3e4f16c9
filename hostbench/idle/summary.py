"""The report of one or several traces: devices, causes, waits by line, copies, and advice."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hostbench.idle import advice
from hostbench.idle.causes import COPY_NOT_HIDDEN, IDLE_CAUSES, ProcessTime, process_time
from hostbench.idle.intervals import union
from hostbench.idle.lines import CodeLine
from hostbench.idle.report import (
    Advice,
    CopyWay,
    IdleCause,
    IdleDevice,
    IdleReport,
    LikelyWait,
    WaitingLine,
)
from hostbench.idle.trace import COPY, NONE, Trace, read_trace

MOSTLY = 0.9
"""Of the time: if the steps take less, what a step costs is not told."""


def idle_report(paths: Sequence[Path]) -> IdleReport:
    """Of one trace or of several ranks'. Raises UsageError, DataError."""
    return summary([read_trace(path) for path in paths])


def summary(traces: Sequence[Trace]) -> IdleReport:
    """What the traces say together; without a device, which lines would wait for one."""
    warnings = tuple(text for trace in traces for text in trace.warnings)
    processes = [process_time(trace) for trace in traces if len(trace.work)]
    if processes:
        return _of_devices(processes, warnings)
    return IdleReport(likely_waits=tuple(_likely_waits(traces)), warnings=warnings)


def _of_devices(processes: Sequence[ProcessTime], warnings: tuple[str, ...]) -> IdleReport:
    devices = tuple(device for process in processes for device in _devices(process))
    span_s = sum(device.span_s for device in devices)
    num_steps = num_device_steps = 0
    step_s = steps_share = None
    if all(len(process.trace.steps.starts) for process in processes):
        num_steps = sum(len(process.trace.steps.starts) for process in processes)
        num_device_steps = sum(
            len(process.trace.steps.starts) * len(process.devices) for process in processes
        )
        step_s = sum(process.trace.steps.length for process in processes) / num_steps
        steps_share = sum(map(_covered_s, processes)) / span_s if span_s else 0.0

    def cost(seconds: float) -> dict[str, Any]:
        ms_per_step = None
        if steps_share is not None and steps_share >= MOSTLY:
            ms_per_step = seconds * 1e3 / num_device_steps
        share = seconds / span_s if span_s else 0.0
        return {"seconds": float(seconds), "ms_per_step": ms_per_step, "share": share}

    idle = pd.concat([process.idle for process in processes])
    work = pd.concat([process.work for process in processes])
    device_times = [device for process in processes for device in process.devices]
    causes = idle.groupby("cause")["seconds"].sum().reindex(list(IDLE_CAUSES), fill_value=0.0)
    causes[COPY_NOT_HIDDEN] = sum(device.copy_s for device in device_times)
    waits, copies = tuple(_waits(processes)), tuple(_copies(work[work["kind"] == COPY]))
    items = [
        *(advice.of_wait(wait, num_steps) for wait in waits),
        *advice.of_copies(copies, sum(device.collective_s for device in device_times)),
        *advice.of_idleness(idle, work),
    ]
    return IdleReport(
        devices=devices,
        num_steps=num_device_steps,
        step_s=step_s,
        steps_share=steps_share,
        causes=tuple(
            IdleCause(cause=str(name), is_idle=name in IDLE_CAUSES, **cost(seconds))
            for name, seconds in causes.sort_values(ascending=False, kind="stable").items()
        ),
        waits=waits,
        copies=copies,
        advice=tuple(
            Advice(what=what, remedy=remedy, **cost(seconds))
            for seconds, what, remedy in sorted(items, key=lambda item: -item[0])
            if seconds > 0
        ),
        warnings=warnings,
    )


def _devices(process: ProcessTime) -> Iterator[IdleDevice]:
    for device in process.devices:
        span_s = device.end_s - device.start_s
        yield IdleDevice(
            device=device.device,
            rank=process.trace.rank,
            file=process.trace.file,
            span_s=span_s,
            busy_s=device.busy_s,
            idle_fraction=max(0.0, 1 - device.busy_s / span_s) if span_s else 0.0,
        )


def _covered_s(process: ProcessTime) -> float:
    """Of the spans of the devices, what the steps take, up to when devices were done with what was
    launched in each."""
    steps, work = process.trace.steps, process.work[process.work["call"] != NONE]
    step = steps.index_of(process.trace.calls["start_s"].to_numpy()[work["call"]])
    done_s = steps.ends.copy()
    np.maximum.at(done_s, step[step >= 0], work["end_s"].to_numpy()[step >= 0])
    covered, _ = union(pd.DataFrame({"start_s": steps.starts, "end_s": done_s}))
    spans = np.array([(device.start_s, device.end_s) for device in process.devices]).T
    return float(covered.within(*spans).sum())


def _waits(processes: Sequence[ProcessTime]) -> Iterator[WaitingLine]:
    """By line and call, the costliest first."""
    waits = pd.concat([process.waits for process in processes])
    waits["is_copy"] = waits["nbytes"] > 0
    sums = waits.groupby(["line", "call", "is_copy"], dropna=False, sort=False).agg(
        count=("seconds", "size"),
        num_in_steps=("in_step", "sum"),
        seconds=("seconds", "sum"),
        idle_s=("idle_s", "sum"),
        nbytes=("nbytes", "sum"),
    )
    sums = sums.sort_values(["idle_s", "seconds"], ascending=False).droplevel("is_copy")
    rows: Any = sums.astype({"nbytes": int}).reset_index().to_dict("records")
    for row in rows:
        line = row.pop("line")
        is_line = isinstance(line, CodeLine)
        where = line._asdict() if is_line else dict.fromkeys(CodeLine._fields)
        yield WaitingLine(**where, **row)


def _copies(copies: pd.DataFrame) -> Iterator[CopyWay]:
    sums = copies.groupby("name", sort=False).agg(
        count=("seconds", "size"),
        nbytes=("nbytes", "sum"),
        seconds=("seconds", "sum"),
        not_hidden_s=("not_hidden_s", "sum"),
    )
    rows: Any = sums.rename_axis("way").reset_index().to_dict("records")
    yield from (CopyWay(**row) for row in rows)


def _likely_waits(traces: Sequence[Trace]) -> Iterator[LikelyWait]:
    """In the steps, where some are marked."""
    counts = Counter[tuple[CodeLine, str]]()
    num_steps = sum(len(trace.steps.starts) for trace in traces)
    for trace in traces:
        marks = trace.marks[trace.marks["name"] != ""]  # the others are of waits for a GPU
        if num_steps:
            marks = marks[trace.steps.index_of(marks["start_s"]) >= 0]
        counts.update(zip(marks["line"], marks["name"], strict=True))
    for (line, call), count in counts.most_common():
        per_step = count / num_steps if num_steps else None
        remedy = advice.remedy_of(call)
        yield LikelyWait(**line._asdict(), call=call, count=count, per_step=per_step, remedy=remedy)
