"""The report of one or several traces: devices, causes, waits by line, copies, and advice."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.errors import UsageError
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
    device_times,
)
from hostbench.idle.host import host_of
from hostbench.idle.intervals import Intervals, spanned, union
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
_NO_CALLS = "record with torch.profiler, ProfilerActivity.CPU and CUDA: the calls tell the causes"
_BEFORE = "it was launched before the trace began, or the writer left it out: record more steps"
_ALONE = "collectives ran and nothing else did: overlap them with backward (buckets, async_op)"

_Costly = tuple[float, str, str]
"""Seconds that something costs, what it is, and what helps."""


class _Process:
    """One trace, looked through."""

    def __init__(self, trace: Trace) -> None:
        self.trace, self.steps = trace, trace.steps
        self.host = host_of(trace)
        self.times = device_times(trace, self.host)

    def covered_s(self) -> float:
        """Of the spans of the devices, what the steps take, up to when devices were done with what
        was launched in each."""
        done_s = self.steps.ends.copy()
        for time in self.times:
            work = time.work[time.work["call"] != NONE]
            called_s = self.trace.calls["start_s"].to_numpy()[work["call"]]
            inside = self.steps.have(called_s)
            step = np.searchsorted(self.steps.starts, called_s[inside], side="right") - 1
            np.maximum.at(done_s, step, work["end_s"].to_numpy()[inside])
        covered, _ = union(self.steps.starts, done_s)
        spans = np.array([[time.start_s, time.start_s + time.span_s] for time in self.times])
        return float(covered.within(*spans.T).sum())

    def waits(self) -> pd.DataFrame:
        """The host's, with the seconds, what devices idled for each, and whether in a step."""
        waits = self.host.waits
        return waits.assign(
            seconds=waits["end_s"] - waits["start_s"],
            idle_s=sum((time.wait_idle_s for time in self.times), np.zeros(len(waits))),
            in_step=self.steps.have(waits["start_s"].to_numpy()),
        )

    def copies(self) -> Iterator[pd.DataFrame]:
        for time in self.times:
            rows = time.work[time.work["kind"] == COPY]
            seconds = rows["end_s"] - rows["start_s"]
            hidden_s = time.computing.within(rows["start_s"].to_numpy(), rows["end_s"].to_numpy())
            yield rows.assign(seconds=seconds, not_hidden_s=seconds - hidden_s)

    def late_in_s(self, spans: Intervals) -> float:
        """Of the time in which a device waited for a late host, what these cover."""
        return sum(float(spans.within(*time.late).sum()) for time in self.times)

    def not_hidden_s(self, kind: str) -> float:
        """In which work of this kind ran, and nothing was computed."""
        total_s = 0.0
        for time in self.times:
            spans = spanned(time.work[time.work["kind"] == kind])
            total_s += spans.length - float(time.computing.within(*spans).sum())
        return total_s


def idle_report(paths: Sequence[Path]) -> IdleReport:
    """Of one trace or of several ranks'. Raises UsageError, DataError."""
    return summary([read_trace(path) for path in paths])


def summary(traces: Sequence[Trace]) -> IdleReport:
    if not traces:
        raise UsageError("no trace is given")
    return _Summary([_Process(trace) for trace in traces]).report()


class _Summary:
    """Adds up what each trace has."""

    def __init__(self, processes: Sequence[_Process]) -> None:
        self._all = processes
        self._parts = [part for part in processes if part.times]
        self._times = [time for part in self._parts for time in part.times]
        self._span_s = sum(time.span_s for time in self._times)
        has_steps = all(len(part.steps.starts) for part in self._parts)
        marked = self._parts if has_steps else []
        self._num_steps = sum(len(part.steps.starts) for part in marked)
        self._num_device_steps = sum(len(part.steps.starts) * len(part.times) for part in marked)
        self._steps_share = self._share(sum(part.covered_s() for part in marked))
        sums = {name: sum(time.idle_s[name] for time in self._times) for name in IDLE_CAUSES}
        self._seconds = sums | {COPY_NOT_HIDDEN: self._not_hidden_s(COPY)}

    def report(self) -> IdleReport:
        waits, copies = list(self._waits()), list(self._copies())
        advice = [
            *map(self._about_wait, waits),
            *map(_about_copy, copies),
            *self._about_host(),
            *self._about_kernels(),
            *self._about_the_trace(),
        ]
        return IdleReport(
            devices=tuple(self._devices()),
            num_steps=self._num_device_steps,
            step_s=self._step_s(),
            steps_share=self._steps_share if self._num_steps else None,
            causes=tuple(self._causes()),
            waits=tuple(waits),
            copies=tuple(copies),
            advice=tuple(
                Advice(what=what, remedy=remedy, **self._cost(cost_s))
                for cost_s, what, remedy in sorted(advice, key=lambda row: -row[0])
                if cost_s > 0
            ),
            likely_waits=() if self._times else tuple(self._likely_waits()),
            warnings=tuple(text for part in self._all for text in part.trace.warnings),
        )

    def _devices(self) -> Iterator[IdleDevice]:
        for part in self._parts:
            for time in part.times:
                idle_s = time.span_s - time.busy.length
                yield IdleDevice(
                    device=time.device,
                    rank=part.trace.rank,
                    file=part.trace.file,
                    span_s=time.span_s,
                    busy_s=time.busy.length,
                    idle_fraction=max(0.0, idle_s / time.span_s) if time.span_s else 0.0,
                )

    def _step_s(self) -> float | None:
        if not self._num_steps:
            return None
        return sum(part.steps.length for part in self._parts) / self._num_steps

    def _cost(self, seconds: float) -> dict[str, Any]:
        per_step = self._num_steps and self._steps_share >= MOSTLY
        ms_per_step = seconds * 1e3 / self._num_device_steps if per_step else None
        return {"seconds": seconds, "ms_per_step": ms_per_step, "share": self._share(seconds)}

    def _share(self, seconds: float) -> float:
        return seconds / self._span_s if self._span_s else 0.0

    def _not_hidden_s(self, kind: str) -> float:
        return sum(part.not_hidden_s(kind) for part in self._parts)

    def _causes(self) -> Iterator[IdleCause]:
        for name, seconds in sorted(self._seconds.items(), key=lambda pair: -pair[1]):
            yield IdleCause(cause=name, is_idle=name in IDLE_CAUSES, **self._cost(seconds))

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
        for row in _records(sums.reset_index()):
            line = row.pop("line")
            line = line if isinstance(line, CodeLine) else None
            yield WaitingLine(
                file=line.file if line else None,
                line=line.line if line else None,
                function=line.function if line else None,
                **row,
            )

    def _copies(self) -> Iterator[CopyWay]:
        copies = [rows for part in self._parts for rows in part.copies()]
        if copies:
            ways = pd.concat(copies).groupby("name", sort=False)
            sums = ways.agg(
                count=("seconds", "size"),
                nbytes=("nbytes", "sum"),
                seconds=("seconds", "sum"),
                not_hidden_s=("not_hidden_s", "sum"),
            )
            for row in _records(sums.rename_axis("way").reset_index()):
                yield CopyWay(**row)

    def _likely_waits(self) -> Iterator[LikelyWait]:
        """In the steps, where some are marked."""
        counts = Counter[tuple[CodeLine, str]]()
        num_steps = sum(len(part.steps.starts) for part in self._all)
        for part in self._all:
            marks = part.trace.marks
            marks = marks[marks["name"] != ""]  # the others are of waits for a GPU
            if num_steps:
                marks = marks[part.steps.have(marks["start_s"].to_numpy())]
            lines = [part.trace.lines[number] for number in marks["line"]]
            counts.update(zip(lines, marks["name"], strict=True))
        for (line, call), count in counts.most_common():
            yield LikelyWait(
                file=line.file,
                line=line.line,
                function=line.function,
                call=call,
                count=count,
                per_step=count / num_steps if num_steps else None,
                remedy=_remedy(call),
            )

    def _about_wait(self, line: WaitingLine) -> _Costly:
        where = f"{line.file}:{line.line}" if line.file else "a line that the trace lacks"
        where += f" ({line.function})" if line.function else ""
        call, times = _SPOKEN.get(line.call, line.call), self._times_of(line)
        if line.nbytes:
            size = about_bytes(line.nbytes / line.count)
            what = f"{where}: {call}, non_blocking from pageable memory, {size}, {times}"
            return line.idle_s, what, _PIN
        what = f"{where}: {call} waits for the device, {times}"
        return line.idle_s, what, _remedy(line.call)

    def _times_of(self, line: WaitingLine) -> str:
        if not self._num_steps:
            return number_of(line.count, "time", "times")
        inside, outside = line.num_in_steps, line.count - line.num_in_steps
        counts = [f"{inside / self._num_steps:.3g} a step"] if inside else []
        counts += [f"{number_of(outside, 'time', 'times')} outside the steps"] if outside else []
        return " and ".join(counts)

    def _about_host(self) -> Iterator[_Costly]:
        late_s = self._seconds[HOST_LATE]
        loader_s = sum(part.late_in_s(part.trace.loads) for part in self._parts)
        loader_s = min(loader_s, late_s)
        allocation_s = sum(part.late_in_s(part.host.allocating) for part in self._parts)
        allocation_s = min(allocation_s, late_s - loader_s)
        yield loader_s, "host late: waiting for the DataLoader", _LOADER
        yield allocation_s, "host late: allocating memory", _ALLOCATION
        rest_s = late_s - loader_s - allocation_s
        yield rest_s, "host late: the launch came after the queue was empty", _LATE

    def _about_kernels(self) -> Iterator[_Costly]:
        kernels = [time.work[time.work["kind"] == KERNEL] for time in self._times]
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
        held_s = sum(time.long_queued_s for time in self._times)
        what = f"queued {long}: the launch had returned, and the work did not begin"
        yield held_s, what, _HELD_UP
        queued_s = self._seconds[QUEUED] - held_s
        yield queued_s, f"between kernels that were queued; {size}", _QUEUED
        yield self._not_hidden_s(COLLECTIVE), "collectives not hidden", _ALONE

    def _about_the_trace(self) -> Iterator[_Costly]:
        lacks_s = {True: 0.0, False: 0.0}
        for part in self._parts:
            has_calls = bool((part.trace.work["call"] != NONE).any())
            lacks_s[has_calls] += sum(time.idle_s[OTHER] for time in part.times)
        yield lacks_s[False], "other: the trace lacks the calls of CUDA's runtime", _NO_CALLS
        yield lacks_s[True], "other: the trace lacks the launch of some work", _BEFORE


def _about_copy(copy: CopyWay) -> _Costly:
    size = f"{about_bytes(copy.nbytes / copy.count)} on average"
    of_size = size if copy.nbytes else "a size that the trace lacks"
    what = f"copies not hidden: {copy.way}, {copy.count:,} of {of_size}"
    return copy.not_hidden_s, what, _READ_LATER if copy.way.startswith("D2H") else _OVERLAP


def _remedy(call: str) -> str:
    return next(remedy for pattern, remedy in _REMEDIES if re.search(pattern, call))


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(key): row[key] for key in row} for row in table.to_dict("records")]
