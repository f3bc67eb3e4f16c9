"""What the host did: which call launched which work, where it waited, and in whose line."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hostbench.core.arrays import Floats
from hostbench.idle.intervals import Intervals, Ints, spanned, union
from hostbench.idle.lines import CodeLine
from hostbench.idle.trace import COPY, KERNEL, NONE, Events, Trace, is_installed

_SYNC = re.compile(
    r"^(cuda|hip|cu)((Device|Stream|Event|Ctx)Synchronize|Memcpy(?!.*(Async|Peer|DtoD)))"
)
_DEVICE_SYNC = re.compile(r"DeviceSynchronize")
_STREAM_SYNC = re.compile(r"StreamSynchronize")
_QUERY = re.compile(r"Query|IsCapturing|GetCapture|LastError|GetDevice")
"""Calls that neither enqueue nor wait."""
_ASKS = re.compile(r"(Event|Stream)Query")
_SPIN = 10
"""So many in a row, outside the operations of torch, are a loop that waits. Inside, it is the
allocator, which asks for each block that it may have back."""
_FREE = re.compile(r"^(cuda|hip|cuMem)(Free(Host|Array)?|HostUnregister)(_v2)?$")
"""They wait for the device, and do not say so."""
_ALLOCATION = re.compile(r"(Malloc|Free|HostAlloc|HostRegister|MemCreate|MemMap)")
_PAGEABLE = re.compile("Pageable")
_INTO_DEVICE = re.compile(r"HtoD")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWait:
    """The host stood still in a call until a device had done something."""

    thread: float
    start_s: float
    end_s: float
    call: str
    """The operation of torch, else the call of CUDA."""
    line: CodeLine | None
    nbytes: int
    """Of a copy to the device from pageable memory that was called with non_blocking: it waits all
    the same. 0: any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host's side of one trace."""

    launch: Ints
    """For each row of `trace.work` the row of `trace.calls` that enqueued it; NONE: not known."""
    launches: Ints
    """The calls that enqueued work from threads that launch kernels, in the order of time."""
    waits: tuple[HostWait, ...]
    """Of those threads, in the order of their ends."""
    allocating: Intervals
    """In which calls allocated or freed memory."""


def host_of(trace: Trace) -> Host:
    launch = _launching(trace)
    is_kernel = trace.work["what"] == KERNEL
    known = launch != NONE
    of_kernels = launch[known & is_kernel] if (known & is_kernel).any() else launch[known]
    threads = np.unique(trace.calls["thread"][of_kernels])
    launches = np.unique(launch[known])
    launches = launches[np.isin(trace.calls["thread"][launches], threads)]
    launches = launches[np.argsort(trace.calls["start_s"][launches], kind="stable")]
    last = _profilers_own(trace, launches)
    devices = np.unique(trace.work["device"])
    busy = [spanned(trace.work[trace.work["device"] == device]) for device in devices]
    waits = [wait for thread in threads for wait in _waits(trace, launch, thread, last, busy)]
    allocates = np.isin(trace.calls["name"], trace.names.matching(_ALLOCATION))
    return Host(
        launch=launch,
        launches=launches,
        waits=tuple(sorted(waits, key=lambda wait: wait.end_s)),
        allocating=spanned(trace.calls[allocates]),
    )


def _launching(trace: Trace) -> Ints:
    order = np.argsort(trace.calls["correlation"], kind="stable")
    correlations = trace.calls["correlation"][order]
    indices = np.searchsorted(correlations, trace.work["correlation"])
    inside = indices < len(correlations)
    rows = np.full(len(indices), NONE)
    rows[inside] = order[indices[inside]]
    matches = inside & (trace.work["correlation"] > 0)
    matches[inside] &= correlations[indices[inside]] == trace.work["correlation"][inside]
    return np.where(matches, rows, NONE)


def _profilers_own(trace: Trace, launches: Ints) -> int:
    """The call in which the profiler waits for the device at its end: the last of its kind, behind
    all launches and steps. NONE: there is none."""
    syncs = np.flatnonzero(np.isin(trace.calls["name"], trace.names.matching(_DEVICE_SYNC)))
    if not len(syncs):
        return NONE
    last = syncs[np.argmax(trace.calls["start_s"][syncs])]
    before = [*trace.calls["start_s"][launches[-1:]], *trace.steps["end_s"]]
    return int(last) if trace.calls["start_s"][last] >= max(before, default=-np.inf) else NONE


def _waits(
    trace: Trace, launch: Ints, thread: float, last: int, busy: Sequence[Intervals]
) -> Iterator[HostWait]:
    """Of one thread, but for the call `last`, if it has no mark."""
    calls = np.flatnonzero(trace.calls["thread"] == thread)
    calls = calls[np.argsort(trace.calls["start_s"][calls], kind="stable")]
    is_query = np.isin(trace.calls["name"][calls], trace.names.matching(_QUERY))
    own = _outermost(trace, calls[~is_query])
    finder = _Lines(trace, thread, trace.calls["start_s"][own])
    for call, wait in _blocking(trace, launch, own, finder):
        if call != last or (wait.line is not None and wait.line.is_exact):
            yield wait
    yield from _frees(trace, own, finder, busy)
    yield from _spins(trace, calls, is_query, finder)


def _outermost(trace: Trace, calls: Ints) -> Ints:
    """A call of the driver inside one of the runtime is a part of that."""
    if not len(calls):
        return calls
    ends = trace.calls["end_s"][calls]
    latest = np.maximum.accumulate(ends)
    is_inside = np.append(False, ends[1:] < latest[:-1])
    return np.asarray(calls[~is_inside])


def _blocking(
    trace: Trace, launch: Ints, own: Ints, finder: "_Lines"
) -> Iterator[tuple[int, HostWait]]:
    """Synchronizes and copies, with the call. A copy that blocks is one wait with the synchronize
    of its stream that stands right behind it in the same operation."""
    is_sync = np.isin(trace.calls["name"][own], trace.names.matching(_SYNC))
    is_of_stream = np.isin(trace.calls["name"][own], trace.names.matching(_STREAM_SYNC))
    pageable = _pageable_copies(trace, launch)
    is_part = False
    for index in np.flatnonzero(is_sync | np.isin(own, [*pageable])).tolist():
        if is_part:
            is_part = False
            continue
        call, until = own[index], own[index]
        if call in pageable and index + 1 < len(own) and is_of_stream[index + 1]:
            is_part = finder.op_of(call) == finder.op_of(own[index + 1])
            until = own[index + int(is_part)]
        is_blocking = is_part or is_sync[index]
        nbytes = 0 if is_blocking else pageable[call]
        start_s, end_s = trace.calls["start_s"][call], trace.calls["end_s"][until]
        yield call, finder.wait(start_s, end_s, call, nbytes)


def _frees(
    trace: Trace, own: Ints, finder: "_Lines", busy: Sequence[Intervals]
) -> Iterator[HostWait]:
    """Memory that was freed while a device worked: the host waited until that ran dry, if it did
    so in the call and had nothing more to do before the call returned."""
    calls = own[np.isin(trace.calls["name"][own], trace.names.matching(_FREE))]
    starts, ends = trace.calls["start_s"][calls], trace.calls["end_s"][calls]
    dry = np.full(len(calls), -np.inf)
    for intervals in busy:
        index = np.searchsorted(intervals.ends, ends, side="right")
        ran_dry = np.append(-np.inf, intervals.ends)[index]
        goes_on = np.append(intervals.starts, np.inf)[index]
        dry = np.maximum(dry, np.where(goes_on >= ends, ran_dry, -np.inf))
    for call in np.flatnonzero(dry > starts).tolist():
        yield finder.wait(starts[call], dry[call], calls[call], 0, is_named=True)


def _spins(trace: Trace, calls: Ints, is_query: np.ndarray, finder: "_Lines") -> Iterator[HostWait]:
    """Loops that ask until an event or a stream is done: from the first query to the last."""
    asks = np.isin(trace.calls["name"][calls], trace.names.matching(_ASKS))
    asks &= ~finder.is_in_op(trace.calls["start_s"][calls])
    chosen = calls[asks]
    runs = np.cumsum(~is_query)[asks]
    _, firsts, counts = np.unique(runs, return_index=True, return_counts=True)
    for first, count in zip(firsts.tolist(), counts.tolist(), strict=True):
        if count >= _SPIN:
            start, end = chosen[first], chosen[first + count - 1]
            yield finder.wait(trace.calls["start_s"][start], trace.calls["end_s"][end], start, 0)


def _pageable_copies(trace: Trace, launch: Ints) -> dict[int, int]:
    """The calls that copy from or to pageable memory, with the bytes of those to the device."""
    is_pageable = np.isin(trace.work["name"], trace.names.matching(_PAGEABLE))
    rows = np.flatnonzero((trace.work["what"] == COPY) & is_pageable & (launch != NONE))
    into = np.isin(trace.work["name"][rows], trace.names.matching(_INTO_DEVICE))
    nbytes = np.where(into, trace.work["nbytes"][rows], 0).astype(int)
    return dict(zip(launch[rows].tolist(), nbytes.tolist(), strict=True))


class _Lines:
    """Finds the operation and the line of a wait of one thread."""

    def __init__(self, trace: Trace, thread: float, call_starts: Floats) -> None:
        self._trace, self._thread, self._call_starts = trace, thread, call_starts
        ops = trace.ops[trace.ops["thread"] == thread]
        outer, firsts = union(ops["start_s"], ops["end_s"], joins=False)
        self._ops, self._outer = ops[firsts], outer
        marks = trace.marks[trace.marks["thread"] == thread]
        self._marks = marks[np.argsort(marks["start_s"], kind="stable")]
        frames = trace.frames[trace.frames["thread"] == thread]
        self._frames = frames[np.argsort(frames["start_s"], kind="stable")]
        self._parents = _parents(self._frames)

    def wait(
        self, start_s: float, end_s: float, call: int, nbytes: int, *, is_named: bool = False
    ) -> HostWait:
        """It bears the name of the operation, or the call's, if that is to be named."""
        op = self._op(start_s, end_s)
        line = self._marked(end_s, end_s if op is None else max(end_s, self._outer.ends[op]))
        if line is None and op is not None and self._ops["line"][op] != NONE:
            line = self._trace.lines[int(self._ops["line"][op])]
        name = self._trace.calls["name"][call] if op is None or is_named else self._ops["name"][op]
        return HostWait(
            thread=self._thread,
            start_s=float(start_s),
            end_s=float(end_s),
            call=self._trace.names.texts[int(name)],
            line=line or self._framed(start_s),
            nbytes=nbytes,
        )

    def is_in_op(self, moments: Floats) -> np.ndarray:
        return self._outer.have(moments)

    def op_of(self, call: int) -> int | None:
        """The outermost operation that the call is in."""
        return self._op(self._trace.calls["start_s"][call], self._trace.calls["end_s"][call])

    def _op(self, start_s: float, end_s: float) -> int | None:
        index = int(np.searchsorted(self._outer.starts, start_s, side="right")) - 1
        return index if index >= 0 and end_s <= self._outer.ends[index] else None

    def _marked(self, waited_s: float, end_s: float) -> CodeLine | None:
        """The mark comes when the operation is done, before CUDA is called again."""
        index = int(np.searchsorted(self._marks["start_s"], waited_s))
        if index == len(self._marks):
            return None
        later = self._call_starts[np.searchsorted(self._call_starts, end_s) :]
        if len(later) and self._marks["start_s"][index] > later[0]:
            return None
        return self._trace.lines[int(self._marks["line"][index])]

    def _framed(self, moment_s: float) -> CodeLine | None:
        """The innermost of no installed package, if there is one."""
        of_a_package = None
        index = int(np.searchsorted(self._frames["start_s"], moment_s, side="right")) - 1
        while index >= 0:
            if self._frames["end_s"][index] >= moment_s:
                line = self._trace.lines[int(self._frames["line"][index])]
                if not is_installed(line):
                    return line
                of_a_package = of_a_package or line
            index = self._parents[index]
        return of_a_package


def _parents(frames: Events) -> list[int]:
    """For each frame, in the order of starts, the one that it runs in; NONE: none."""
    parents, stack = [], list[int]()
    ends = frames["end_s"].tolist()
    for number, start_s in enumerate(frames["start_s"].tolist()):
        while stack and ends[stack[-1]] <= start_s:
            stack.pop()
        parents.append(stack[-1] if stack else NONE)
        stack.append(number)
    return parents
