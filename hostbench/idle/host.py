"""What the host did: which call launched which work, where it waited, and in whose line."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hostbench.idle.intervals import Intervals, Ints, spanned, union
from hostbench.idle.lines import CodeLine
from hostbench.idle.trace import COLLECTIVE, COPY, KERNEL, NONE, Trace

_SYNC = (
    r"^(?:cuda|hip|cu)(?:(?:Device|Stream|Event|Ctx)Synchronize|Memcpy(?!.*(?:Async|Peer|DtoD)))"
)
_QUERY = "Query|IsCapturing|GetCapture|LastError|GetDevice"
"""Calls that neither enqueue nor wait."""
_FREE = r"^(?:cuda|hip|cuMem)(?:Free(?:Host|Array)?|HostUnregister)(?:_v2)?$"
"""They wait for the device, and do not say so."""
_ALLOCATION = "Malloc|Free|HostAlloc|HostRegister|MemCreate|MemMap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The host's side of one trace."""

    launches: pd.DataFrame
    """The calls that enqueued work from threads that launch kernels, in the order of time."""
    waits: pd.DataFrame
    """Where these threads stood still until a device had done something, in the order of the ends:
    start_s, end_s; call, the operation of torch, else the call of CUDA; line, a CodeLine or None;
    nbytes, of a copy from pageable memory that was called with non_blocking, 0 of all others."""
    allocating: Intervals
    """In which calls allocated or freed memory."""


def host_of(trace: Trace) -> Host:
    calls, work = trace.calls, trace.work[trace.work["call"] != NONE]
    kernels = work[work["kind"].isin((KERNEL, COLLECTIVE))]
    threads = calls["thread"].iloc[(kernels if len(kernels) else work)["call"]].unique()
    launches = calls.iloc[np.unique(work["call"])]
    launches = launches[launches["thread"].isin(threads)].sort_values("start_s", kind="stable")
    busy = [spanned(rows) for _, rows in trace.work.groupby("device")]
    pageable = _pageable_copies(work)
    waits = [_Thread(trace, thread).waits(pageable, busy) for thread in threads]
    return Host(
        launches=launches,
        waits=_but_the_profilers(trace, launches, pd.concat([_NO_WAITS, *waits])),
        allocating=spanned(calls[calls["name"].str.contains(_ALLOCATION)]),
    )


def _pageable_copies(work: pd.DataFrame) -> pd.Series:
    """Bytes into the device by the call that copies, from or to pageable memory."""
    copies = work[(work["kind"] == COPY) & work["name"].str.contains("pageable")]
    nbytes = copies["nbytes"].where(copies["name"].str.startswith("H2D"), 0)
    return nbytes.groupby(copies["call"]).last()


def _but_the_profilers(trace: Trace, launches: pd.DataFrame, waits: pd.DataFrame) -> pd.DataFrame:
    """At its end the profiler waits for the device: the last of its kind, behind all launches and
    steps, is no wait of the script's, unless it has a mark."""
    syncs = trace.calls[trace.calls["name"].str.contains("DeviceSynchronize")]
    last = syncs.sort_values("start_s", kind="stable").tail(1)
    before_s = max([*launches["start_s"].tail(1), *trace.steps.ends], default=-np.inf)
    own = last.index[last["start_s"] >= before_s]
    waits = waits[~waits.index.isin(own) | waits["line"].notna()]
    return waits.sort_values("end_s", kind="stable")


class _Thread:
    """One thread's waits, with the operation and the line that each is in."""

    def __init__(self, trace: Trace, thread: str) -> None:
        def own(table: pd.DataFrame) -> pd.DataFrame:
            return table[table["thread"] == thread].sort_values("start_s", kind="stable")

        self._marks = own(trace.marks)
        ops = own(trace.ops)
        self._outer, firsts = union(ops["start_s"], ops["end_s"], joins=False)
        self._ops = ops.iloc[firsts]
        calls = own(trace.calls)
        calls = calls[~calls["name"].str.contains(_QUERY)]
        # A call of the driver inside one of the runtime is a part of that.
        calls = calls[~(calls["end_s"] < calls["end_s"].cummax().shift())]
        self._calls = calls.assign(op=self._op_of(calls))

    def waits(self, pageable: pd.Series, busy: Sequence[Intervals]) -> pd.DataFrame:
        """Synchronizes, copies and frees. They bear the name of the operation; a free its own."""
        waits, frees = self._blocking(pageable), self._frees(busy)
        ops = np.append(self._ops["name"], "")[waits["op"]]
        waits = waits.assign(call=waits["name"].where(waits["op"] == NONE, ops))
        waits = pd.concat([waits, frees.assign(call=frees["name"], nbytes=0)])
        waits = waits.sort_values("start_s", kind="stable")
        lines = pd.Series(self._lines_of(waits), waits.index, object)
        return waits.assign(line=lines)[list(_NO_WAITS)]

    def _blocking(self, pageable: pd.Series) -> pd.DataFrame:
        """A copy that blocks is one wait with the synchronize of its stream that stands right
        behind it in the same operation."""
        calls = self._calls
        is_sync = calls["name"].str.contains(_SYNC)
        is_of_stream = calls["name"].str.contains("StreamSynchronize")
        is_copy = calls.index.to_series().isin(pageable.index)
        is_next = is_of_stream.shift(-1, fill_value=False) & (calls["op"] == calls["op"].shift(-1))
        blocks = is_copy & is_next
        nbytes = pageable.reindex(calls.index, fill_value=0)
        calls = calls.assign(
            end_s=calls["end_s"].where(~blocks, calls["end_s"].shift(-1)),
            nbytes=nbytes.where(~(blocks | is_sync), 0),
        )
        return calls[(is_sync | is_copy) & ~blocks.shift(1, fill_value=False)]

    def _frees(self, busy: Sequence[Intervals]) -> pd.DataFrame:
        """Memory that was freed while a device worked: the host waited until that ran dry, if it
        did so in the call and had nothing more to do before the call returned."""
        frees = self._calls[self._calls["name"].str.contains(_FREE)]
        ends = frees["end_s"].to_numpy()
        dry = np.full(len(frees), -np.inf)
        for intervals in busy:
            index = np.searchsorted(intervals.ends, ends, side="right")
            ran_dry = np.append(-np.inf, intervals.ends)[index]
            goes_on = np.append(intervals.starts, np.inf)[index]
            dry = np.maximum(dry, np.where(goes_on >= ends, ran_dry, -np.inf))
        return frees.assign(end_s=dry)[dry > frees["start_s"]]

    def _op_of(self, calls: pd.DataFrame) -> Ints:
        """The outermost operation that each is in; NONE: in none."""
        index = np.searchsorted(self._outer.starts, calls["start_s"], side="right") - 1
        is_inside = calls["end_s"] <= np.append(self._outer.ends, -np.inf)[index]
        return np.where(is_inside, index, NONE)

    def _lines_of(self, waits: pd.DataFrame) -> list[CodeLine | None]:
        """A mark comes when the operation is done, before CUDA is called again."""
        op = waits["op"].to_numpy()
        done_s = np.maximum(waits["end_s"], np.append(self._outer.ends, -np.inf)[op])
        called_s = np.append(self._calls["start_s"], np.inf)
        next_call_s = called_s[np.searchsorted(called_s, done_s)]
        at = np.searchsorted(self._marks["start_s"], waits["end_s"])
        marked_s = np.append(self._marks["start_s"], np.inf)[at]
        marked = [*self._marks["line"], None]
        is_its = marked_s <= next_call_s
        return [marked[index] if its else None for index, its in zip(at, is_its, strict=True)]


_NO_WAITS = pd.DataFrame(
    {"start_s": [0.0], "end_s": 0.0, "call": "", "line": None, "nbytes": 0}
).head(0)
