"""What costs time, in words, and what helps."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from hostbench.core.units import format_bytes, format_seconds, number_of
from hostbench.idle.causes import CAUSES, HOST_LATE, LAUNCH_BOUND, OTHER, QUEUED, SLOW_LAUNCH
from hostbench.idle.trace import KERNEL

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
_OVERLAP = "copy the next batch on a side stream, from pinned memory, while this one is computed"
_READ_LATER = "read results into pinned memory on a side stream, or one step later"
_ALONE = "collectives ran and nothing else did: overlap them with backward (buckets, async_op)"
_REMEDY_OF_CAUSE = {
    HOST_LATE: "the host did something else: move it to a thread, or enqueue the next step first",
    LAUNCH_BOUND: (
        "fewer and larger kernels: a CUDA graph, torch.compile(mode='reduce-overhead'), batch"
    ),
    SLOW_LAUNCH: "the first use of a kernel loads its code: warm up; or another thread is in CUDA",
    QUEUED: "short gaps: fewer and larger kernels; long ones: a stream waits for another's event",
    OTHER: "record more steps, with ProfilerActivity.CPU and CUDA: the calls tell the causes",
}

Costly = tuple[float, str, str]
"""Seconds that something costs, what it is, and what helps."""


def of_wait(wait: Mapping[str, Any], num_steps: int) -> Costly:
    """A line at which the host waits."""
    where = "unknown line"
    if wait["file"] is not None:
        where = f"{wait['file']}:{wait['line']} ({wait['function']})"
    call, count, num_in_steps = wait["call"], wait["count"], wait["num_in_steps"]
    times = number_of(count, "time", "times")
    if num_steps:
        times = f"{num_in_steps / num_steps:.3g} a step, {times} in all"
    what = f"{where}: {_SPOKEN.get(call, call)}"
    if wait["nbytes"]:
        size = format_bytes(wait["nbytes"] / count)
        return wait["idle_s"], f"{what}, non_blocking from pageable memory, {size}, {times}", _PIN
    return wait["idle_s"], f"{what} waits for the device, {times}", remedy_of(call)


def of_copies(copies: Sequence[Mapping[str, Any]], collective_s: float) -> Iterator[Costly]:
    """What ran while nothing was computed."""
    for copy in copies:
        mean = format_bytes(copy["nbytes"] / copy["count"])
        size = f"{mean} on average" if copy["nbytes"] else "unknown size"
        what = f"copies not hidden: {copy['way']}, {copy['count']:,} of {size}"
        remedy = _READ_LATER if copy["way"].startswith("D2H") else _OVERLAP
        yield copy["not_hidden_s"], what, remedy
    yield collective_s, "collectives not hidden", _ALONE


def of_idleness(idle: pd.DataFrame, work: pd.DataFrame) -> Iterator[Costly]:
    """The causes but for waits, of the pieces of all gaps."""
    seconds = idle.groupby("cause")["seconds"].sum()
    late_s = seconds.get(HOST_LATE, 0.0)
    loading_s = min(late_s, idle["loading_s"].sum())
    allocating_s = min(late_s - loading_s, idle["allocating_s"].sum())
    yield loading_s, "host late: waiting for the DataLoader", _LOADER
    yield allocating_s, "host late: allocating memory", _ALLOCATION
    seconds[HOST_LATE] = late_s - loading_s - allocating_s
    kernel_s = work.loc[work["kind"] == KERNEL, "seconds"]
    size = f"; median kernel {format_seconds(kernel_s.median())}" if len(kernel_s) else ""
    for cause, remedy in _REMEDY_OF_CAUSE.items():
        more = size if cause in (LAUNCH_BOUND, QUEUED) else ""
        yield seconds.get(cause, 0.0), CAUSES[cause] + more, remedy


def remedy_of(call: str) -> str:
    """What helps against a wait in this call."""
    return next(remedy for pattern, remedy in _REMEDIES if re.search(pattern, call))
