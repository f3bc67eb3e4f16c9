"""The report of one or several traces: devices, causes, waits by line, copies, and advice."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.units import about_bytes, format_seconds, number_of
from hostbench.idle.causes import (
    COPY_NOT_HIDDEN,
    HOST_LATE,
    IDLE_CAUSES,
    LAUNCH_BOUND,
    LAUNCH_S,
    OTHER,
    QUEUED,
    SLOW_LAUNCH,
    DeviceTime,
)
from hostbench.idle.host import host_of
from hostbench.idle.intervals import Intervals, union
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
from hostbench.idle.trace import COLLECTIVE, COPY, KERNEL, NONE, Trace, read_trace

MOSTLY = 0.9
"""Of the time: if the steps take less, what a step costs is not told."""
_TINY_S = 5e-6
"""A kernel shorter than the launch of the next cannot keep a device busy."""

_SPOKEN = dict.fromkeys(("aten::item", "aten::_local_scalar_dense"), ".item()")
"""Operations by what a program calls."""
_REMEDIES = (
    (
        r"item|_local_scalar_dense|is_nonzero|equal|allclose|tolist|\(t\)",
        "keep the value on the device; read it every so many steps, or one step later",
    ),
    (
        r"nonzero|unique|masked|index|repeat_interleave|argwhere",
        "the size of its result depends on the data: torch.where or a fixed size needs no wait",
    ),
    (
        r"aten::(_?to|copy|cpu|_to_copy|pin)|Memcpy|^\.(to|cpu)",
        "copy from or to pinned memory with non_blocking=True, and wait where the data is needed",
    ),
    (
        r"Free|Unregister",
        "memory is freed only once the device is done: keep buffers, no empty_cache() in the loop",
    ),
    (
        r"Synchronize",
        "leave it out; where streams must wait for each other, stream.wait_event holds no host up",
    ),
    ("", "find out whether the host needs to wait here"),
)
_PIN = "pin the source (pin_memory=True of the DataLoader): from pageable memory it is not async"
_LOADER = "the next batch was not there: more workers, prefetch_factor, less work for each item"
_ALLOCATION = "memory was allocated or freed: keep buffers, and shapes, from step to step"
_LATE = "the host did something else: move it to a thread, or enqueue the next step before it"
_LAUNCHES = "fewer and larger kernels: a CUDA graph, torch.compile(mode='reduce-overhead'), batch"
_SLOW_LAUNCH = "the first use of a kernel loads its code: warm up; or another thread is in CUDA"
_QUEUED = "the device takes some time from one kernel to the next: fewer and larger kernels"
_HELD_UP = "a stream waits for another's event, the device starts up, or the trace lacks work"
_OVERLAP = "copy the next batch on a side stream, from pinned memory, while this one is computed"
_READ_LATER = "read results into pinned memory on a side stream, or one step later"
_NO_LAUNCH = "record more steps, with ProfilerActivity.CPU and CUDA: the calls tell the causes"
_ALONE = "collectives ran and nothing else did: overlap them with backward (buckets, async_op)"

_Costly = tuple[float, str, str]
"""Seconds that something costs, what it is, and what helps."""


class _Process:
    """One trace, looked through."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.steps = trace, trace.steps
        self.host = host_of(trace)
        by_device = trace.work.groupby("device")
        self.devices = [DeviceTime(trace, self.host, work) for _, work in by_device]

    def covered_s(self) -> float:
        """Of the spans of the devices, what the steps take, up to when devices were done with what
        was launched in each."""
        done_s = self.steps.ends.copy()
        for device in self.devices:
            work = device.work[device.work["call"] != NONE]
            called_s = self.trace.calls["start_s"].to_numpy()[work["call"]]
            inside = self.steps.have(called_s)
            step = np.searchsorted(self.steps.starts, called_s[inside], side="right") - 1
            np.maximum.at(done_s, step, work["end_s"].to_numpy()[inside])
        covered, _ = union(self.steps.starts, done_s)
        starts = np.array([device.start_s for device in self.devices])
        spans = np.array([device.span_s for device in self.devices])
        return float(covered.within(starts, starts + spans).sum())

    def waits(self) -> pd.DataFrame:
        """The host's, with the seconds, what devices idled for each, and whether in a step."""
        waits = self.host.waits
        return waits.assign(
            seconds=waits["end_s"] - waits["start_s"],
            idle_s=sum(device.wait_idle_s for device in self.devices),
            in_step=self.steps.have(waits["start_s"].to_numpy()),
        )

    def late_in_s(self, spans: Intervals) -> float:
        return sum(device.late_in_s(spans) for device in self.devices)


def idle_report(paths: Sequence[Path]) -> IdleReport:
    """Of one trace or of several ranks'. Raises UsageError, DataError."""
    return summary([read_trace(path) for path in paths])


def summary(traces: Sequence[Trace]) -> IdleReport:
    return _Summary([_Process(trace) for trace in traces]).report()


class _Summary:
    """Adds up what each trace has."""

    def __init__(self, processes: Sequence[_Process]) -> None:
        self._all = processes
        self._parts = [part for part in processes if part.devices]
        self._devices = [device for part in self._parts for device in part.devices]
        self._span_s = sum(device.span_s for device in self._devices)
        has_steps = all(len(part.steps.starts) for part in self._parts)
        marked = self._parts if has_steps else []
        self._num_steps = sum(len(part.steps.starts) for part in marked)
        self._num_device_steps = sum(len(part.steps.starts) * len(part.devices) for part in marked)
        self._steps_share = self._share(sum(part.covered_s() for part in marked))
        self._seconds = {
            name: sum(device.idle_s[name] for device in self._devices) for name in IDLE_CAUSES
        }

    def report(self) -> IdleReport:
        waits, copies = tuple(self._waits()), tuple(self._copies())
        costs = sorted(self._costs(waits, copies), key=lambda cost: -cost[0])
        causes = self._seconds | {COPY_NOT_HIDDEN: self._not_hidden_s(COPY)}
        length_s = sum(part.steps.length for part in self._parts)
        return IdleReport(
            devices=tuple(
                IdleDevice(
                    device=device.device,
                    rank=part.trace.rank,
                    file=part.trace.file,
                    span_s=device.span_s,
                    busy_s=device.busy.length,
                    idle_fraction=device.idle_fraction,
                )
                for part in self._parts
                for device in part.devices
            ),
            num_steps=self._num_device_steps,
            step_s=length_s / self._num_steps if self._num_steps else None,
            steps_share=self._steps_share if self._num_steps else None,
            causes=tuple(
                IdleCause(cause=name, is_idle=name in IDLE_CAUSES, **self._cost(seconds))
                for name, seconds in sorted(causes.items(), key=lambda pair: -pair[1])
            ),
            waits=waits,
            copies=copies,
            advice=tuple(
                Advice(what=what, remedy=remedy, **self._cost(seconds))
                for seconds, what, remedy in costs
                if seconds > 0
            ),
            likely_waits=() if self._devices else tuple(self._likely_waits()),
            warnings=tuple(text for part in self._all for text in part.trace.warnings),
        )

    def _cost(self, seconds: float) -> dict[str, Any]:
        per_step = self._num_steps and self._steps_share >= MOSTLY
        ms_per_step = seconds * 1e3 / self._num_device_steps if per_step else None
        return {"seconds": seconds, "ms_per_step": ms_per_step, "share": self._share(seconds)}

    def _share(self, seconds: float) -> float:
        return seconds / self._span_s if self._span_s else 0.0

    def _not_hidden_s(self, kind: str) -> float:
        return sum(device.not_hidden_s(kind) for device in self._devices)

    def _waits(self) -> Iterator[WaitingLine]:
        """By line and call, the costliest first."""
        if not self._parts:
            return
        waits = pd.concat([part.waits() for part in self._parts])
        waits["is_copy"] = waits["nbytes"] > 0
        sums = waits.groupby(["line", "call", "is_copy"], dropna=False, sort=False).agg(
            count=("seconds", "size"),
            num_in_steps=("in_step", "sum"),
            seconds=("seconds", "sum"),
            idle_s=("idle_s", "sum"),
            nbytes=("nbytes", "sum"),
        )
        sums = sums.sort_values(["idle_s", "seconds"], ascending=False).droplevel("is_copy")
        rows: Any = sums.reset_index().to_dict("records")
        for row in rows:
            line = row.pop("line")
            is_line = isinstance(line, CodeLine)
            where = line._asdict() if is_line else dict.fromkeys(CodeLine._fields)
            yield WaitingLine(**where, **row)

    def _copies(self) -> Iterator[CopyWay]:
        if not self._devices:
            return
        copies = pd.concat([device.copies() for device in self._devices])
        sums = copies.groupby("name", sort=False).agg(
            count=("seconds", "size"),
            nbytes=("nbytes", "sum"),
            seconds=("seconds", "sum"),
            not_hidden_s=("not_hidden_s", "sum"),
        )
        rows: Any = sums.rename_axis("way").reset_index().to_dict("records")
        yield from (CopyWay(**row) for row in rows)

    def _likely_waits(self) -> Iterator[LikelyWait]:
        """In the steps, where some are marked."""
        counts = Counter[tuple[CodeLine, str]]()
        num_steps = sum(len(part.steps.starts) for part in self._all)
        for part in self._all:
            marks = part.trace.marks
            marks = marks[marks["name"] != ""]  # the others are of waits for a GPU
            if num_steps:
                marks = marks[part.steps.have(marks["start_s"].to_numpy())]
            counts.update(zip(marks["line"], marks["name"], strict=True))
        for (line, call), count in counts.most_common():
            per_step = count / num_steps if num_steps else None
            yield LikelyWait(
                **line._asdict(), call=call, count=count, per_step=per_step, remedy=_remedy(call)
            )

    def _costs(self, waits: Sequence[WaitingLine], copies: Sequence[CopyWay]) -> Iterator[_Costly]:
        """All that costs time."""
        yield from map(self._of_wait, waits)
        for copy in copies:
            size = f"{about_bytes(copy.nbytes / copy.count)} on average"
            of_size = size if copy.nbytes else "a size that the trace lacks"
            what = f"copies not hidden: {copy.way}, {copy.count:,} of {of_size}"
            remedy = _READ_LATER if copy.way.startswith("D2H") else _OVERLAP
            yield copy.not_hidden_s, what, remedy
        yield self._not_hidden_s(COLLECTIVE), "collectives not hidden", _ALONE
        yield from self._of_host()
        yield from self._of_kernels()

    def _of_wait(self, wait: WaitingLine) -> _Costly:
        where = f"{wait.file}:{wait.line}" if wait.file else "a line that the trace lacks"
        where += f" ({wait.function})" if wait.function else ""
        call, outside = _SPOKEN.get(wait.call, wait.call), wait.count - wait.num_in_steps
        if self._num_steps:
            each = f"{wait.num_in_steps / self._num_steps:.3g} a step"
            rest = f"{number_of(outside, 'time', 'times')} outside the steps"
            times = " and ".join([each] * (wait.num_in_steps > 0) + [rest] * (outside > 0))
        else:
            times = number_of(wait.count, "time", "times")
        if wait.nbytes:
            size = about_bytes(wait.nbytes / wait.count)
            what = f"{where}: {call}, non_blocking from pageable memory, {size}, {times}"
            return wait.idle_s, what, _PIN
        return wait.idle_s, f"{where}: {call} waits for the device, {times}", _remedy(wait.call)

    def _of_host(self) -> Iterator[_Costly]:
        late_s = self._seconds[HOST_LATE]
        loader_s = min(late_s, sum(part.late_in_s(part.trace.loads) for part in self._parts))
        late_s -= loader_s
        allocation_s = sum(part.late_in_s(part.host.allocating) for part in self._parts)
        allocation_s = min(late_s, allocation_s)
        yield loader_s, "host late: waiting for the DataLoader", _LOADER
        yield allocation_s, "host late: allocating memory", _ALLOCATION
        yield late_s - allocation_s, IDLE_CAUSES[HOST_LATE], _LATE

    def _of_kernels(self) -> Iterator[_Costly]:
        kernels = [device.work[device.work["kind"] == KERNEL] for device in self._devices]
        long_s = np.concatenate([[], *(rows["end_s"] - rows["start_s"] for rows in kernels)])
        size, tiny = "no kernels", 0.0
        if len(long_s):
            size = f"median kernel {format_seconds(float(np.median(long_s)))}"
            tiny = float((long_s < _TINY_S).mean())
        what = (
            f"launch-bound: the device waits for each launch; {size}, {tiny:.0%} under "
            f"{format_seconds(_TINY_S)}"
        )
        yield self._seconds[LAUNCH_BOUND], what, _LAUNCHES
        long = f"longer than {format_seconds(LAUNCH_S)}"
        yield self._seconds[SLOW_LAUNCH], f"slow launch: launch calls of {long}", _SLOW_LAUNCH
        held_s = sum(device.long_queued_s for device in self._devices)
        what = f"queued {long}: the launch had returned, and the work did not begin"
        yield held_s, what, _HELD_UP
        queued_s = self._seconds[QUEUED] - held_s
        yield queued_s, f"between kernels that were queued; {size}", _QUEUED
        yield self._seconds[OTHER], "other: the trace lacks the launch of some work", _NO_LAUNCH


def _remedy(call: str) -> str:
    return next(remedy for pattern, remedy in _REMEDIES if re.search(pattern, call))
