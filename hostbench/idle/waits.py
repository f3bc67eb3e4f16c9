"""Where the host stood still until a device had done something, and in whose line."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from hostbench.idle.intervals import Intervals, union
from hostbench.idle.trace import COPY, LINE, NONE, Trace

_SYNC = (
    r"^(?:cuda|hip|cu)(?:(?:Device|Stream|Event|Ctx)Synchronize|Memcpy(?!.*(?:Async|Peer|DtoD)))"
)
_QUERY = "Query|IsCapturing|GetCapture|LastError|GetDevice"
"""Calls that neither enqueue nor wait."""
_FREE = r"^(?:cuda|hip|cuMem)(?:Free(?:Host|Array)?|HostUnregister)(?:_v2)?$"
"""They wait for the device, and do not say so."""


def waits_of(trace: Trace, launches: pd.DataFrame, threads: Sequence[str]) -> pd.DataFrame:
    """The waits of these threads, in the order of their ends: start_s, end_s; call, the operation
    of torch, else the call of CUDA; file, line and function, where there is a mark; nbytes, of a
    copy from pageable memory that was called with non_blocking, 0 of all others."""
    table = pd.concat([_of_thread(trace, thread) for thread in threads or [""]])
    # At its end the profiler waits for the device: the last wait of its kind, behind all launches
    # and steps, is not the script's, unless it has a mark.
    is_of_device = trace.calls["name"].str.contains("DeviceSynchronize")
    last_s = trace.calls.loc[is_of_device, "start_s"].max()
    if last_s >= max([*launches["start_s"].tail(1), *trace.steps.ends], default=-np.inf):
        table = table[(table["start_s"] != last_s) | table["line"].notna()]
    return table.sort_values("end_s", kind="stable")


def _of_thread(trace: Trace, thread: str) -> pd.DataFrame:
    """Synchronizes, copies and frees. They bear the name of the outermost operation that they are
    in; a free its own."""
    calls, ops, marks = (
        table[table["thread"] == thread].sort_values("start_s", kind="stable")
        for table in (trace.calls, trace.ops, trace.marks)
    )
    outer, firsts = union(ops, joins=False)
    calls = calls[~calls["name"].str.contains(_QUERY)]
    # A call of the driver inside one of the runtime is a part of that.
    calls = calls[~(calls["end_s"] < calls["end_s"].cummax().shift())]
    op = outer.index_of(calls["start_s"])
    op_ends_s = np.append(outer.ends, -np.inf)[op]
    is_inside = op_ends_s >= calls["end_s"]
    op_names = np.append(ops["name"].to_numpy()[firsts], "")[op]
    calls = calls.assign(
        op=np.where(is_inside, op, NONE),
        op_ends_s=np.where(is_inside, op_ends_s, -np.inf),
        call=calls["name"].where(~is_inside, op_names),
    )
    waits = pd.concat([_blocking(calls, trace), _freeing(calls, trace)])
    waits = waits.sort_values("start_s", kind="stable")
    # A mark comes when the operation is done, before CUDA is called again.
    done_s = waits[["end_s", "op_ends_s"]].max(axis="columns")
    next_call_s = np.append(calls["start_s"], np.inf)[calls["start_s"].searchsorted(done_s)]
    index = marks["start_s"].searchsorted(waits["end_s"])
    is_its = np.append(marks["start_s"], np.inf)[index] <= next_call_s
    lines = marks[[*LINE]].reset_index(drop=True).reindex(np.where(is_its, index, NONE))
    waits = waits[["start_s", "end_s", "call", "nbytes"]]
    return waits.join(lines.set_axis(waits.index))


def _blocking(calls: pd.DataFrame, trace: Trace) -> pd.DataFrame:
    """Synchronizes, and copies from or to pageable memory. Such a copy that blocks is one wait with
    the synchronize of its stream that stands right behind it in the same operation."""
    copies = trace.work[(trace.work["kind"] == COPY) & trace.work["name"].str.contains("pageable")]
    pageable = copies["nbytes"].where(copies["name"].str.startswith("H2D"), 0)
    pageable = pageable.groupby(copies["call"]).last()
    is_sync = calls["name"].str.contains(_SYNC)
    is_of_stream = calls["name"].str.contains("StreamSynchronize")
    is_copy = calls.index.to_series().isin(pageable.index)
    is_next = is_of_stream.shift(-1, fill_value=False) & (calls["op"] == calls["op"].shift(-1))
    blocks = is_copy & is_next
    nbytes = pageable.reindex(calls.index, fill_value=0)
    waits = calls.assign(
        end_s=calls["end_s"].where(~blocks, calls["end_s"].shift(-1)),
        nbytes=nbytes.where(~(blocks | is_sync), 0),
    )
    return waits[(is_sync | is_copy) & ~blocks.shift(1, fill_value=False)]


def _freeing(calls: pd.DataFrame, trace: Trace) -> pd.DataFrame:
    """Memory that was freed while a device worked: the host waited until that ran dry, if it did so
    in the call and had nothing more to do before the call returned."""
    frees = calls[calls["name"].str.contains(_FREE)]
    ends = frees["end_s"].to_numpy()
    dry = np.full(len(frees), -np.inf)
    for _, work in trace.work.groupby("device"):
        busy: Intervals = union(work)[0]
        index = np.searchsorted(busy.ends, ends, side="right")
        ran_dry = np.append(-np.inf, busy.ends)[index]
        goes_on = np.append(busy.starts, np.inf)[index]
        dry = np.maximum(dry, np.where(goes_on >= ends, ran_dry, -np.inf))
    frees = frees.assign(end_s=dry, call=frees["name"], nbytes=0)
    return frees[dry > frees["start_s"]]
