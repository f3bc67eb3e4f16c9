"""What the host did: which call launched which work, where it waited, and in whose line."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hostbench.core.noise import Floats
from hostbench.idle.intervals import Ints, union
from hostbench.idle.marks import CodeLine
from hostbench.idle.trace import COPY, KERNEL, NONE, Trace

_SYNC = re.compile(
    r"^(cuda|hip|cu)(Device|Stream|Event|Ctx)Synchronize|^(cuda|hip)Memcpy(2D|3D)?$|^hipMemcpyWithStream"
)
_DEVICE_SYNC = re.compile(r"DeviceSynchronize")
_STREAM_SYNC = re.compile(r"StreamSynchronize")
_QUERY = re.compile(r"Query|IsCapturing|GetCapture|LastError|GetDevice")
"""Calls that neither enqueue nor wait."""
_ALLOCATION = re.compile(r"(Malloc|Free|HostAlloc|HostRegister|MemCreate|MemMap)")
_PAGEABLE = re.compile("Pageable")
_INTO_DEVICE = re.compile(r"HtoD")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostWait:
    """The host stood still in a call until a device had done something."""

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
    allocating: Floats
    """starts, ends of calls that allocate or free memory."""


def host_of(trace: Trace) -> Host:
    launch = _launching(trace)
    is_kernel = trace.work[2] == KERNEL
    known = launch != NONE
    of_kernels = launch[known & is_kernel] if (known & is_kernel).any() else launch[known]
    threads = np.unique(trace.calls[3, of_kernels])
    launches = np.unique(launch[known])
    launches = launches[np.isin(trace.calls[3, launches], threads)]
    launches = launches[np.argsort(trace.calls[0, launches], kind="stable")]
    last = _profilers_own(trace, launches)
    waits = [wait for each in threads for wait in _waits(trace, launch, each, last)]
    allocates = np.isin(trace.calls[2], trace.names.matching(_ALLOCATION))
    return Host(
        launch=launch,
        launches=launches,
        waits=tuple(sorted(waits, key=lambda wait: wait.end_s)),
        allocating=trace.calls[:2, allocates],
    )


def _launching(trace: Trace) -> Ints:
    order = np.argsort(trace.calls[4], kind="stable")
    correlations = trace.calls[4, order]
    places = np.searchsorted(correlations, trace.work[6])
    inside = places < len(correlations)
    found = np.full(len(places), NONE)
    found[inside] = order[places[inside]]
    matches = inside & (trace.work[6] > 0)
    matches[inside] &= correlations[places[inside]] == trace.work[6, inside]
    return np.where(matches, found, NONE)


def _profilers_own(trace: Trace, launches: Ints) -> int:
    """The call in which the profiler waits for the device at its end: the last of its kind, behind
    all launches and steps. NONE: there is none."""
    syncs = np.flatnonzero(np.isin(trace.calls[2], trace.names.matching(_DEVICE_SYNC)))
    if not len(syncs):
        return NONE
    last = syncs[np.argmax(trace.calls[0, syncs])]
    before = [*trace.calls[0, launches[-1:]], *trace.steps[1]]
    return int(last) if trace.calls[0, last] >= max(before, default=-np.inf) else NONE


def _waits(trace: Trace, launch: Ints, thread: float, last: int) -> Iterator[HostWait]:
    """Of one thread, but for `last`, if it has no mark. A copy that blocks is one wait with the
    synchronize of its stream that stands right behind it in the same operation."""
    is_query = np.isin(trace.calls[2], trace.names.matching(_QUERY))
    own = np.flatnonzero((trace.calls[3] == thread) & ~is_query)
    own = own[np.argsort(trace.calls[0, own], kind="stable")]
    is_sync = np.isin(trace.calls[2, own], trace.names.matching(_SYNC))
    is_of_stream = np.isin(trace.calls[2, own], trace.names.matching(_STREAM_SYNC))
    pageable = _pageable_copies(trace, launch)
    finder = _Lines(trace, thread, trace.calls[0, own])
    is_part = False
    for place in np.flatnonzero(is_sync | np.isin(own, [*pageable])).tolist():
        if is_part:
            is_part = False
            continue
        call, until = own[place], own[place]
        if call in pageable and place + 1 < len(own) and is_of_stream[place + 1]:
            is_part = finder.op_of(call) == finder.op_of(own[place + 1])
            until = own[place + int(is_part)]
        is_blocking = is_part or is_sync[place]
        nbytes = 0 if is_blocking else pageable[call]
        wait = finder.wait(trace.calls[0, call], trace.calls[1, until], call, nbytes)
        if call != last or (wait.line is not None and wait.line.is_exact):
            yield wait


def _pageable_copies(trace: Trace, launch: Ints) -> dict[int, int]:
    """The calls that copy from or to pageable memory, with the bytes of those to the device."""
    is_pageable = np.isin(trace.work[3], trace.names.matching(_PAGEABLE))
    rows = np.flatnonzero((trace.work[2] == COPY) & is_pageable & (launch != NONE))
    into = np.isin(trace.work[3, rows], trace.names.matching(_INTO_DEVICE))
    nbytes = np.where(into, trace.work[7, rows], 0).astype(int)
    return dict(zip(launch[rows].tolist(), nbytes.tolist(), strict=True))


class _Lines:
    """Finds the operation and the line of a wait of one thread."""

    def __init__(self, trace: Trace, thread: float, call_starts: Floats) -> None:
        self._trace, self._call_starts = trace, call_starts
        ops = trace.ops[:, trace.ops[3] == thread]
        outer, firsts = union(ops[0], ops[1], joins=False)
        self._ops, self._outer = ops[:, firsts], outer
        marks = trace.marks[:, trace.marks[1] == thread]
        self._marks = marks[:, np.argsort(marks[0], kind="stable")]
        frames = trace.frames[:, trace.frames[2] == thread]
        self._frames = frames[:, np.argsort(frames[0], kind="stable")]
        self._parents = _parents(self._frames)

    def wait(self, start_s: float, end_s: float, call: int, nbytes: int) -> HostWait:
        op = self._op(start_s, end_s)
        line = self._marked(end_s, end_s if op is None else max(end_s, self._outer.ends[op]))
        if line is None and op is not None and self._ops[4, op] != NONE:
            line = self._trace.lines[int(self._ops[4, op])]
        name = self._trace.calls[2, call] if op is None else self._ops[2, op]
        return HostWait(
            start_s=float(start_s),
            end_s=float(end_s),
            call=self._trace.names.texts[int(name)],
            line=line or self._framed(start_s),
            nbytes=nbytes,
        )

    def op_of(self, call: int) -> int | None:
        """The outermost operation that the call is in."""
        return self._op(*self._trace.calls[:2, call])

    def _op(self, start_s: float, end_s: float) -> int | None:
        place = int(np.searchsorted(self._outer.starts, start_s, side="right")) - 1
        return place if place >= 0 and end_s <= self._outer.ends[place] else None

    def _marked(self, waited_s: float, end_s: float) -> CodeLine | None:
        """The mark comes when the operation is done, before CUDA is called again."""
        place = int(np.searchsorted(self._marks[0], waited_s))
        if place == self._marks.shape[1]:
            return None
        later = self._call_starts[np.searchsorted(self._call_starts, end_s) :]
        if len(later) and self._marks[0, place] > later[0]:
            return None
        return self._trace.lines[int(self._marks[2, place])]

    def _framed(self, moment_s: float) -> CodeLine | None:
        place = int(np.searchsorted(self._frames[0], moment_s, side="right")) - 1
        while place >= 0 and self._frames[1, place] < moment_s:
            place = self._parents[place]
        return self._trace.lines[int(self._frames[3, place])] if place >= 0 else None


def _parents(frames: Floats) -> list[int]:
    """For each frame, in the order of starts, the one that it runs in; NONE: none."""
    parents, stack = [], list[int]()
    ends = frames[1].tolist()
    for number, start_s in enumerate(frames[0].tolist()):
        while stack and ends[stack[-1]] <= start_s:
            stack.pop()
        parents.append(stack[-1] if stack else NONE)
        stack.append(number)
    return parents
