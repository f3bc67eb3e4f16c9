"""The report of one or several traces: devices, causes, waits by line, copies, and advice."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hostbench.core.arrays import Floats
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
    TINY_S,
    DeviceTime,
    device_times,
)
from hostbench.idle.host import Host, host_of
from hostbench.idle.intervals import Intervals, spanned, union
from hostbench.idle.lines import CodeLine
from hostbench.idle.report import (
    Advice,
    CopyWay,
    IdleCause,
    IdleDevice,
    IdleReport,
    TinyKernels,
    WaitingLine,
)
from hostbench.idle.trace import COPY, KERNEL, NONE, Trace, read_trace

_WAYS = re.compile(r"(HtoD|DtoH|PtoP)(?: \((\w+) -> (\w+)\))?")
_SHORT = {"HtoD": "H2D", "DtoH": "D2H", "PtoP": "P2P"}
MOSTLY = 0.9
"""Of the time: if the steps take less, what a step costs is not told."""
_COLLECTIVE = re.compile("^(nccl|rccl)", re.IGNORECASE)

_SPOKEN = dict.fromkeys(("aten::item", "aten::_local_scalar_dense"), ".item()")
"""Operations by what a program calls."""
_REMEDIES = (
    (
        r"item|_local_scalar_dense|is_nonzero|equal|allclose",
        "keep the value on the device; read it every so many steps, or one step later",
    ),
    (
        r"nonzero|unique|masked|index|repeat_interleave|argwhere",
        "the size of its result depends on the data: torch.where or a fixed size needs no wait",
    ),
    (
        r"aten::(_?to|copy|cpu|_to_copy|pin)|Memcpy",
        "copy from or to pinned memory with non_blocking=True, and wait where the data is needed",
    ),
    (
        r"Query",
        "a loop asks until the device is done: do other work meanwhile, or read it a step later",
    ),
    (
        r"Free|Unregister",
        "memory is freed only once the device is done: keep buffers, no empty_cache() in the loop",
    ),
    (
        r"Synchronize",
        "leave it out; where streams must wait for each other, stream.wait_event holds no host up",
    ),
)
_WAIT = "find out whether the host needs to wait here"
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


@dataclass(frozen=True, slots=True)
class _Process:
    """One trace, looked through. Its marked steps are in the order of time; what bears the same
    number is one step."""

    trace: Trace
    host: Host
    times: list[DeviceTime]
    steps: Intervals
    done_s: Floats
    """When devices were done with what was launched in each step; its end, where that is later."""

    @classmethod
    def of(cls, trace: Trace) -> "_Process":
        host = host_of(trace)
        numbers = np.unique(trace.steps["number"])
        rows = [trace.steps[trace.steps["number"] == number] for number in numbers]
        rows.sort(key=lambda row: float(row["start_s"].min()))
        starts = np.array([row["start_s"].min() for row in rows])
        steps = Intervals(starts, np.array([row["end_s"].max() for row in rows]))
        done_s = steps.ends.copy()
        known = np.flatnonzero(host.launch != NONE)
        called = trace.calls["start_s"][host.launch[known]]
        inside = steps.have(called)
        numbers = np.searchsorted(starts, called[inside], side="right") - 1
        np.maximum.at(done_s, numbers, trace.work["end_s"][known[inside]])
        return cls(trace, host, device_times(trace, host), steps, done_s)

    def covered_s(self) -> float:
        """Of the spans of the devices, what the steps take, up to when devices were done."""
        covered, _ = union(self.steps.starts, self.done_s)
        spans = np.array([[time.start_s, time.start_s + time.span_s] for time in self.times])
        return float(covered.within(*spans.T).sum())

    def before_first_work_s(self) -> tuple[float, float]:
        """From the first step to a device's first work, and of that in a DataLoader."""
        work_s = min(time.start_s for time in self.times)
        start_s = min(self.steps.starts.min(initial=np.inf), work_s)
        in_loader = spanned(self.trace.loads).within(np.array([start_s]), np.array([work_s]))
        return work_s - start_s, float(in_loader[0])


def idle_report(paths: Iterable[Path]) -> IdleReport:
    """Of one trace or of several ranks'. Raises UsageError, DataError."""
    return summary([read_trace(path) for path in paths])


def summary(traces: Sequence[Trace]) -> IdleReport:
    if not traces:
        raise UsageError("no trace is given")
    return _Summary([_Process.of(trace) for trace in traces]).report()


class _Summary:
    """Adds up what was found in each trace."""

    def __init__(self, parts: Sequence[_Process]) -> None:
        self._parts = [part for part in parts if part.times]
        self._all = parts
        self._times = [time for part in self._parts for time in part.times]
        self._span_s = sum(time.span_s for time in self._times)
        marked = self._parts if all(len(part.steps.starts) for part in self._parts) else ()
        self._num_steps = sum(len(part.steps.starts) for part in marked)
        self._num_device_steps = sum(len(part.steps.starts) * len(part.times) for part in marked)
        self._steps_share = self._share(sum(part.covered_s() for part in marked))

    def report(self) -> IdleReport:
        causes = tuple(self._causes())
        lines = self._waits()
        copies = tuple(self._copies())
        tiny = self._tiny()
        loader_s = self._late_in(lambda part: spanned(part.trace.loads))
        allocation_s = self._late_in(lambda part: part.host.allocating)
        alone_s = self._alone_s()
        before = (part.before_first_work_s() for part in self._parts)
        before_s, loading_s = max(before, default=(0.0, 0.0))
        seconds = {each.cause: each.seconds for each in causes}
        advice = [
            *map(self._about_wait, lines),
            *map(_about_copy, copies),
            *_about_host(seconds[HOST_LATE], loader_s, allocation_s),
            *self._about_kernels(seconds, tiny),
            (alone_s, "collectives not hidden", _ALONE),
            *self._about_the_trace(),
        ]
        return IdleReport(
            devices=tuple(self._devices()),
            num_steps=self._num_device_steps,
            step_s=self._step_s(),
            steps_share=self._steps_share if self._num_steps else None,
            before_first_work_s=before_s,
            before_first_work_in_loader_s=loading_s,
            causes=causes,
            syncs=tuple(line for line in lines if not line.nbytes),
            pageable_non_blocking=tuple(line for line in lines if line.nbytes),
            copies=copies,
            tiny_kernels=tiny,
            host_late_in_loader_s=loader_s,
            host_late_in_allocation_s=allocation_s,
            collectives_alone_s=alone_s,
            advice=tuple(
                Advice(
                    what=what,
                    remedy=remedy,
                    seconds=cost_s,
                    ms_per_step=self._ms_per_step(cost_s),
                    share=self._share(cost_s),
                )
                for cost_s, what, remedy in sorted(advice, key=lambda each: -each[0])
                if cost_s > 0
            ),
            num_host_operations=sum(len(part.trace.ops) for part in self._all),
            warnings=tuple(text for part in self._all for text in part.trace.warnings),
        )

    def _devices(self) -> Iterator[IdleDevice]:
        for trace, time in self._each_device():
            idle_s = time.span_s - time.busy.length
            yield IdleDevice(
                device=time.device,
                rank=trace.rank,
                file=trace.file,
                span_s=time.span_s,
                busy_s=time.busy.length,
                idle_fraction=max(0.0, idle_s / time.span_s) if time.span_s else 0.0,
            )

    def _step_s(self) -> float | None:
        if not self._num_steps:
            return None
        return sum(part.steps.length for part in self._parts) / self._num_steps

    def _ms_per_step(self, seconds: float) -> float | None:
        """On a device; None where the steps are only a part of the time."""
        if not self._num_steps or self._steps_share < MOSTLY:
            return None
        return seconds * 1e3 / self._num_device_steps

    def _share(self, seconds: float) -> float:
        return seconds / self._span_s if self._span_s else 0.0

    def _causes(self) -> Iterator[IdleCause]:
        sums = {name: sum(time.idle_s[name] for time in self._times) for name in IDLE_CAUSES}
        sums[COPY_NOT_HIDDEN] = sum(
            time.busy.length - time.computing.length for time in self._times
        )
        for name, seconds in sorted(sums.items(), key=lambda pair: -pair[1]):
            yield IdleCause(
                cause=name,
                is_idle=name in IDLE_CAUSES,
                seconds=seconds,
                share=self._share(seconds),
                ms_per_step=self._ms_per_step(seconds),
            )

    def _waits(self) -> list[WaitingLine]:
        """By line and call, the costliest first."""
        sums: dict[tuple[CodeLine | None, str, bool], Floats] = {}
        for part in self._parts:
            in_step = part.steps.have(np.array([wait.start_s for wait in part.host.waits]))
            for number, wait in enumerate(part.host.waits):
                idle_s = sum(time.wait_idle_s.get(number, 0.0) for time in part.times)
                long_s = wait.end_s - wait.start_s
                key = (wait.line, wait.call, wait.nbytes > 0)
                sums.setdefault(key, np.zeros(5))
                sums[key] += (1, in_step[number], long_s, idle_s, wait.nbytes)
        lines = []
        for (line, call, _), row in sums.items():
            count, num_in_steps, seconds, idle_s, nbytes = row.tolist()
            lines.append(
                WaitingLine(
                    file=line.file if line else None,
                    line=line.line if line else None,
                    function=line.function if line else None,
                    line_of=("call" if line.is_exact else "function") if line else None,
                    call=call,
                    count=int(count),
                    num_in_steps=int(num_in_steps),
                    seconds=seconds,
                    idle_s=idle_s,
                    nbytes=int(nbytes),
                )
            )
        return sorted(lines, key=lambda line: (-line.idle_s, -line.seconds))

    def _copies(self) -> Iterator[CopyWay]:
        sums: dict[str, Floats] = {}
        for trace, time in self._each_device():
            rows = trace.work[time.work]
            rows = rows[rows["what"] == COPY]
            long_s = rows["end_s"] - rows["start_s"]
            bare_s = long_s - time.computing.within(rows["start_s"], rows["end_s"])
            for name in dict.fromkeys(rows["name"].tolist()):
                of_name = rows["name"] == name
                way = sums.setdefault(_way(trace.names.texts[int(name)]), np.zeros(4))
                way += [
                    column[of_name].sum() for column in (of_name, rows["nbytes"], long_s, bare_s)
                ]
        for name_of_way, row in sums.items():
            count, nbytes, seconds, not_hidden_s = row.tolist()
            yield CopyWay(
                way=name_of_way,
                count=int(count),
                nbytes=int(nbytes),
                seconds=seconds,
                not_hidden_s=not_hidden_s,
            )

    def _each_device(self) -> Iterator[tuple[Trace, DeviceTime]]:
        return ((part.trace, time) for part in self._parts for time in part.times)

    def _tiny(self) -> TinyKernels:
        kernels = [part.trace.work[part.trace.work["what"] == KERNEL] for part in self._parts]
        long_s = np.concatenate([[], *(rows["end_s"] - rows["start_s"] for rows in kernels)])
        return TinyKernels(
            shorter_than_s=TINY_S,
            count=int((long_s < TINY_S).sum()),
            num_kernels=len(long_s),
            median_s=float(np.median(long_s)) if len(long_s) else None,
        )

    def _late_in(self, spans: Callable[[_Process], Intervals]) -> float:
        """How much of the time in which a device waited for a late host these spans cover."""
        total_s = 0.0
        for part in self._parts:
            covered = spans(part)
            for time in part.times:
                total_s += float(covered.within(time.late.starts, time.late.ends).sum())
        return total_s

    def _alone_s(self) -> float:
        """In which collectives ran and no other kernel did."""
        total_s = 0.0
        for trace, time in self._each_device():
            rows = trace.work[time.work]
            collective = np.isin(rows["name"], trace.names.matching(_COLLECTIVE))
            talking = spanned(rows[collective])
            computing = spanned(rows[~collective & (rows["what"] == KERNEL)])
            total_s += talking.length
            total_s -= float(computing.within(talking.starts, talking.ends).sum())
        return total_s

    def _about_wait(self, line: WaitingLine) -> _Costly:
        where = f"{line.file}:{line.line}" if line.file else "a line that the trace lacks"
        where += f" ({line.function})" if line.function else ""
        call = _SPOKEN.get(line.call, line.call)
        times = self._times_of(line)
        if line.nbytes:
            size = about_bytes(line.nbytes / line.count)
            what = f"{where}: {call}, non_blocking from pageable memory, {size}, {times}"
            return line.idle_s, what, _PIN
        remedies = (text for pattern, text in _REMEDIES if re.search(pattern, line.call))
        return line.idle_s, f"{where}: {call} waits for the device, {times}", next(remedies, _WAIT)

    def _times_of(self, line: WaitingLine) -> str:
        if not self._num_steps:
            return number_of(line.count, "time", "times")
        inside, outside = line.num_in_steps, line.count - line.num_in_steps
        counts = [f"{inside / self._num_steps:.3g} a step"] if inside else []
        counts += [f"{number_of(outside, 'time', 'times')} outside the steps"] if outside else []
        return " and ".join(counts)

    def _about_kernels(self, seconds: dict[str, float], tiny: TinyKernels) -> Iterator[_Costly]:
        size = f"median kernel {format_seconds(tiny.median_s)}" if tiny.median_s else "no kernels"
        share = f"{tiny.count / max(1, tiny.num_kernels):.0%} under {format_seconds(TINY_S)}"
        what = f"launch-bound: the device waits for each launch; {size}, {share}"
        yield seconds[LAUNCH_BOUND], what, _LAUNCHES
        long = f"longer than {format_seconds(LAUNCH_S)}"
        yield seconds[SLOW_LAUNCH], f"slow launch: launch calls of {long}", _SLOW_LAUNCH
        held_s = sum(time.long_queued_s for time in self._times)
        what = f"queued {long}: the launch had returned, and the work did not begin"
        yield held_s, what, _HELD_UP
        yield seconds[QUEUED] - held_s, f"between kernels that were queued; {size}", _QUEUED

    def _about_the_trace(self) -> Iterator[_Costly]:
        lacks_s = {True: 0.0, False: 0.0}
        for part in self._parts:
            has_calls = bool((part.host.launch != NONE).any())
            lacks_s[has_calls] += sum(time.idle_s[OTHER] for time in part.times)
        yield lacks_s[False], "other: the trace lacks the calls of CUDA's runtime", _NO_CALLS
        yield lacks_s[True], "other: the trace lacks the launch of some work", _BEFORE


def _about_copy(copy: CopyWay) -> _Costly:
    size = f"{about_bytes(copy.nbytes / copy.count)} on average"
    of_size = size if copy.nbytes else "a size that the trace lacks"
    what = f"copies not hidden: {copy.way}, {copy.count:,} of {of_size}"
    return copy.not_hidden_s, what, _READ_LATER if copy.way.startswith("D2H") else _OVERLAP


def _about_host(late_s: float, loader_s: float, allocation_s: float) -> Iterator[_Costly]:
    loader_s = min(loader_s, late_s)
    allocation_s = min(allocation_s, late_s - loader_s)
    yield loader_s, "host late: waiting for the DataLoader", _LOADER
    yield allocation_s, "host late: allocating memory", _ALLOCATION
    rest_s = late_s - loader_s - allocation_s
    yield rest_s, "host late: the launch came after the queue was empty", _LATE


def _way(name: str) -> str:
    """`Memcpy HtoD (Pageable -> Device)` is `H2D pageable`, and `H2D` where the trace does not tell
    the kind of memory; what is not known keeps its name."""
    match = _WAYS.search(name)
    if match is None:
        return name
    way = _SHORT[match[1]]
    host = {"H2D": match[2], "D2H": match[3]}.get(way)
    return f"{way} {host.lower()}" if host in ("Pageable", "Pinned") else way
