"""A stretch of a trace as lanes: the threads that called CUDA, and each device's streams."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hostbench.core.errors import DataError, UsageError
from hostbench.core.lanes import HOST, Lane, Span, SpanKind, moved
from hostbench.core.noise import Floats
from hostbench.idle.trace import COPY, KERNEL, Trace

MAX_SPANS = 200_000
"""Of a stretch: more is no picture any more, and no small file."""
_COLLECTIVE = re.compile("^(nccl|rccl)", re.IGNORECASE)
_WAITS = re.compile("Synchronize|^(cuda|hip)Memcpy$")
"""Functions in which the host waits for a device."""
_WAYS: dict[str, SpanKind] = {"HtoD": "H2D", "DtoH": "D2H"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """What ran in a part of a trace; seconds since its first activity."""

    lanes: tuple[Lane, ...]
    from_s: float
    to_s: float
    whole_s: float
    """How long the whole trace is."""


def stretch(
    trace: Trace, from_s: float | None = None, to_s: float | None = None, step: int | None = None
) -> Stretch:
    """All of it, from there, up to there, or the step of that number. Raises UsageError where there
    is no such part, or too much in it, and DataError for a trace of no activity."""
    starts = [rows[0].min() for rows in (trace.calls, trace.work) if rows.size]
    if not starts:
        raise DataError(
            f"{trace.file} has no call of CUDA and no work of a GPU: record it with "
            "ProfilerActivity.CPU and ProfilerActivity.CUDA, where a GPU is"
        )
    zero_s = float(min(starts))
    whole_s = float(max(rows[1].max() for rows in (trace.calls, trace.work) if rows.size)) - zero_s
    if step is not None:
        start_s, end_s = (at_s - zero_s for at_s in _step(trace, step))
    else:
        start_s = 0.0 if from_s is None else from_s
        end_s = whole_s if to_s is None else to_s
    if not start_s < end_s or start_s > whole_s:
        raise UsageError(
            f"--from {start_s:g} --to {end_s:g} is no part of {trace.file}, which has "
            f"{whole_s:g} s: give seconds since its first activity"
        )
    lanes = _lanes(trace, start_s + zero_s, end_s + zero_s)
    return Stretch(lanes=moved(lanes, -zero_s), from_s=start_s, to_s=end_s, whole_s=whole_s)


def _step(trace: Trace, number: int) -> tuple[float, float]:
    for start_s, end_s, found in trace.steps.T:
        if found == number:
            return float(start_s), float(end_s)
    known = sorted({int(found) for found in trace.steps[2]})
    said = f"{known[0]} to {known[-1]}" if known else "none: call profile.step() after each"
    raise UsageError(f"--step {number}: {trace.file} has no such step; there are: {said}")


def _lanes(trace: Trace, start_s: float, end_s: float) -> tuple[Lane, ...]:
    calls, work = (_cut(rows, start_s, end_s) for rows in (trace.calls, trace.work))
    if (num := calls.shape[1] + work.shape[1]) > MAX_SPANS:
        raise UsageError(
            f"this part of {trace.file} has {num:,} calls and pieces of work, more than "
            f"{MAX_SPANS:,}: name a shorter one with --from and --to, or --step"
        )
    return (*_threads(trace, calls), *_streams(trace, work))


def _cut(rows: Floats, start_s: float, end_s: float) -> Floats:
    """The columns of what runs in the stretch, cut at its ends, in the order of their starts."""
    inside = rows[:, (rows[0] < end_s) & (rows[1] > start_s)].copy()
    inside[0] = np.maximum(inside[0], start_s)
    inside[1] = np.minimum(inside[1], end_s)
    return np.asarray(inside[:, np.argsort(inside[0], kind="stable")], float)


def _threads(trace: Trace, calls: Floats) -> Iterator[Lane]:
    """Those with the most calls in the whole trace first, which is the host."""
    threads, nums = np.unique(trace.calls[3], return_counts=True)
    for place, thread in enumerate(threads[np.argsort(-nums, kind="stable")]):
        name = trace.threads.texts[int(thread)].rpartition("/")[2]
        own = calls[:, calls[3] == thread]
        spans = tuple(_call(trace.names.texts[int(one[2])], one) for one in own.T)
        if spans:
            yield Lane(name=f"thread {name}" if place else HOST, spans=spans)


def _call(name: str, row: Floats) -> Span:
    kind: SpanKind = "wait" if _WAITS.search(name) else "call"
    return Span(name=name, kind=kind, start_s=float(row[0]), end_s=float(row[1]))


def _streams(trace: Trace, work: Floats) -> Iterator[Lane]:
    devices = sorted({int(device) for device in work[4]})
    for device in devices:
        own = work[:, work[4] == device]
        names = {trace.threads.texts[int(stream)]: stream for stream in np.unique(own[5])}
        for name in sorted(names, key=_in_order):
            rows = own[:, own[5] == names[name]]
            spans = (_work(trace.names.texts[int(one[3])], one) for one in rows.T)
            place = f"GPU {device}" if len(devices) > 1 else ""
            yield Lane(name=name, place=place, spans=tuple(spans))


def _in_order(name: str) -> tuple[int, str]:
    number = re.search(r"\d+", name)
    return int(number[0]) if number else -1, name


def _work(name: str, row: Floats) -> Span:
    return Span(
        name=name,
        kind=_kind(name, int(row[2])),
        start_s=float(row[0]),
        end_s=float(row[1]),
        nbytes=max(0, int(row[7])),
    )


def _kind(name: str, what: int) -> SpanKind:
    if what == KERNEL:
        return "collective" if _COLLECTIVE.match(name) else "compute"
    if what == COPY:
        return next((kind for way, kind in _WAYS.items() if way in name), "copy")
    return "copy" if "DtoD" in name else "other"
