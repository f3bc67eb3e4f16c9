"""A stretch of traces as lanes: the host's threads, and the streams of each device."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hostbench.core.errors import UsageError
from hostbench.core.lanes import HOST, NEXT_BATCH, Interval, Lane, Span, SpanKind
from hostbench.core.noise import Floats
from hostbench.idle.host import host_of
from hostbench.idle.intervals import union
from hostbench.idle.summary import COLLECTIVE
from hostbench.idle.trace import COPY, INSIDE, NONE, Trace

_WAYS: tuple[tuple[str, SpanKind], ...] = (("HtoD", "H2D"), ("DtoH", "D2H"))
_TORCH = "torch"
"""The lane of what the host's thread did in torch."""
MAX_SPANS = 200_000
"""Of a stretch: more is no picture any more, and no small file."""


def whole_s(traces: Sequence[Trace]) -> float:
    """From the first event of all to the end of the last."""
    return max(
        later_s + _last_s(trace) for trace, later_s in zip(traces, _later_s(traces), strict=True)
    )


def step_of(traces: Sequence[Trace], number: int) -> tuple[float, float]:
    """From the first start to the last end of the step of that number, as `stretch` counts. Raises
    UsageError where no trace has it."""
    found = [
        (start_s + later_s, end_s + later_s)
        for trace, later_s in zip(traces, _later_s(traces), strict=True)
        for start_s, end_s, step in trace.steps.T.tolist()
        if step == number
    ]
    if not found:
        known = sorted({int(step) for trace in traces for step in trace.steps[2]})
        said = f"{known[0]} to {known[-1]}" if known else "none: call profile.step() after each"
        raise UsageError(f"--step {number}: there is no such step in the trace; there are: {said}")
    return min(start_s for start_s, _ in found), max(end_s for _, end_s in found)


def together(traces: Sequence[Trace]) -> tuple[list[Trace], list[Trace]]:
    """The first with those that ran while it did, by their clocks; and the others."""
    times = [
        (later_s + _first_s(trace), later_s + _last_s(trace))
        for trace, later_s in zip(traces, _later_s(traces), strict=True)
    ]
    first_s, last_s = times[0]
    sides: tuple[list[Trace], list[Trace]] = [], []
    for trace, (start_s, end_s) in zip(traces, times, strict=True):
        sides[start_s > last_s or end_s < first_s].append(trace)
    return sides


def asked(traces: Sequence[Trace], start_s: float | None, end_s: float | None) -> Interval:
    """From `--from` to `--to`: what is not given is an end of the traces. Raises UsageError where
    that is no part of them."""
    last_s = whole_s(traces)
    if start_s is not None and start_s >= last_s:
        raise UsageError(
            f"--from {start_s:g} is behind the end of the trace, which has {last_s:g} s: give "
            "seconds from its first event"
        )
    start_s, end_s = start_s or 0.0, last_s if end_s is None else end_s
    if end_s <= start_s:
        raise UsageError(f"--to {end_s:g} is not after --from {start_s:g}")
    return start_s, end_s


def stretch(traces: Sequence[Trace]) -> tuple[float, float]:
    """The step in the middle of the first trace, or all of it where no steps are marked: seconds
    from the first event of all."""
    first, later_s = traces[0], _later_s(traces)[0]
    steps = first.steps[:, np.argsort(first.steps[0])]
    if steps.shape[1]:
        start_s, end_s = steps[:2, steps.shape[1] // 2].tolist()
        return start_s + later_s, end_s + later_s
    return 0.0, later_s + _last_s(first)


def lanes(traces: Sequence[Trace], start_s: float, end_s: float) -> list[Lane]:
    """What has a part in these seconds, cut to them. Traces are beside each other by the clocks
    that they have. Raises UsageError where it is too much."""
    each = list(zip(traces, _later_s(traces), strict=True))
    num = sum(
        int(_is_within(rows, start_s - later_s, end_s - later_s).sum())
        for trace, later_s in each
        for rows in (trace.calls, trace.work)
    )
    if num > MAX_SPANS:
        raise UsageError(
            f"this stretch has {num:,} calls and pieces of work, more than {MAX_SPANS:,}: name a "
            "shorter one"
        )
    return [
        lane
        for trace, later_s in each
        for lane in _of_trace(trace, start_s - later_s, end_s - later_s, len(traces) > 1)
    ]


def _later_s(traces: Sequence[Trace]) -> list[float]:
    """What is added to the times of each, so that all count from the first event of all."""
    firsts_us = [trace.start_us + 1e6 * _first_s(trace) for trace in traces]
    return [(trace.start_us - min(firsts_us)) / 1e6 for trace in traces]


def _first_s(trace: Trace) -> float:
    return min(float(rows[0].min()) for rows in _timed(trace))


def _last_s(trace: Trace) -> float:
    return max(float(rows[1].max()) for rows in _timed(trace))


def _timed(trace: Trace) -> list[Floats]:
    """All that is drawn, and the steps. Raises UsageError where there is nothing of a GPU."""
    if not any(rows.shape[1] for rows in (trace.work, trace.calls, trace.steps)):
        raise UsageError(f"{trace.file} has nothing to draw: no work of a GPU, no calls of CUDA")
    every = (trace.work, trace.calls, trace.steps, trace.loads, trace.ops)
    return [rows for rows in every if rows.shape[1]]


def _of_trace(trace: Trace, start_s: float, end_s: float, is_one_of_many: bool) -> Iterator[Lane]:
    rank = "" if trace.rank is None else f"rank {trace.rank}"
    own = f"{rank or trace.file} " if is_one_of_many else ""
    yield from _of_host(trace, own.strip(), (start_s, end_s))
    yield from _of_devices(trace, own, (start_s, end_s))


def _of_host(trace: Trace, place: str, window: Interval) -> Iterator[Lane]:
    """The host's thread with its waits for data, what it did in torch, and the other threads that
    made calls."""
    waits = np.array([[wait.start_s, wait.end_s, wait.thread] for wait in host_of(trace).waits])
    waits = waits.reshape(-1, 3).T
    calls, loads = _within(trace.calls, *window), _within(trace.loads, *window)
    host = _host(trace)
    if host == NONE and not trace.loads.shape[1]:
        return
    for thread in dict.fromkeys((host, *_by_count(calls[3]))):
        rows = calls[:, calls[3] == thread]
        waiting, _ = union(*waits[:2, waits[2] == thread])
        waited_s = waiting.within(rows[0], rows[1])
        kinds: list[SpanKind] = ["wait" if seconds > 0 else "call" for seconds in waited_s]
        spans = _spans(rows, _texts(trace, rows[2]), kinds, window)
        if thread != host:
            name = f"thread {trace.threads.texts[int(thread)].rpartition('/')[2]}"
            yield Lane(name=name, place=place, spans=tuple(spans))
            continue
        spans += _spans(loads, [NEXT_BATCH] * loads.shape[1], ["load"] * loads.shape[1], window)
        yield Lane(name=HOST, place=place, spans=tuple(sorted(spans, key=lambda one: one.start_s)))
        ops = _ops(trace, host, window)
        spans = _spans(ops, _texts(trace, ops[2]), ["op"] * ops.shape[1], window)
        if spans:
            yield Lane(name=_TORCH, place=place, spans=tuple(spans))


def _ops(trace: Trace, thread: float, window: Interval) -> Floats:
    """A thread's operations, but for those within others and those that load data."""
    ops = _within(trace.ops[:, trace.ops[3] == thread], *window)
    ops = ops[:, union(ops[0], ops[1], joins=False)[1]]
    loading, _ = union(trace.loads[0], trace.loads[1])
    ends_next = np.searchsorted(loading.ends, ops[0], side="right")
    return ops[:, np.append(loading.starts, np.inf)[ends_next] > ops[0]]


def _of_devices(trace: Trace, own: str, window: Interval) -> Iterator[Lane]:
    """A lane for each stream that had something to do, and one for each device that had not."""
    work = _within(trace.work, *window)
    collectives = trace.names.matching(COLLECTIVE)
    streams = np.unique(work[4:6], axis=1).T.tolist()
    idle = [[device, NONE] for device in np.setdiff1d(trace.work[4], work[4]).tolist()]
    for device, stream in sorted(streams + idle, key=lambda pair: _in_order(trace, *pair)):
        rows = work[:, (work[4] == device) & (work[5] == stream)]
        kinds = [_kind(trace, int(each), name, collectives) for each, name in rows[2:4].T]
        name = "all streams" if stream == NONE else trace.threads.texts[int(stream)]
        spans = _spans(rows, _texts(trace, rows[3]), kinds, window)
        yield Lane(name=name, place=f"{own}GPU {int(device)}", spans=tuple(spans))


def _within(rows: Floats, start_s: float, end_s: float) -> Floats:
    chosen = rows[:, _is_within(rows, start_s, end_s)]
    return chosen[:, np.argsort(chosen[0], kind="stable")]


def _is_within(rows: Floats, start_s: float, end_s: float) -> NDArray[np.bool_]:
    return np.asarray((rows[0] < end_s) & (rows[1] > start_s))


def _host(trace: Trace) -> float:
    """The process's first thread, which has its number; where that made no call the thread that
    made most; of a trace without calls the one with the most operations."""
    threads = _by_count((trace.calls if trace.calls.shape[1] else trace.ops)[3])
    texts = (trace.threads.texts[int(thread)].partition("/") for thread in threads)
    first = (thread for thread, (pid, _, tid) in zip(threads, texts, strict=True) if pid == tid)
    return next(first, threads[0] if threads else NONE)


def _by_count(threads: Floats) -> list[float]:
    """Those with the most rows first."""
    found, counts = np.unique(threads, return_counts=True)
    return [float(each) for each in found[np.argsort(-counts, kind="stable")]]


def _in_order(trace: Trace, device: float, stream: float) -> tuple[float, int, str]:
    text = trace.threads.texts[int(stream)]
    number = text.rpartition(" ")[2]
    return device, int(number) if number.isdecimal() else -1, text


def _kind(trace: Trace, what: int, name: float, collectives: np.ndarray) -> SpanKind:
    if what == COPY:
        text = trace.names.texts[int(name)]
        return next((kind for way, kind in _WAYS if way in text), "copy")
    if what == INSIDE:
        return "copy"
    return "collective" if name in collectives else "compute"


def _texts(trace: Trace, names: Floats) -> list[str]:
    return [trace.names.texts[int(name)] for name in names]


def _spans(
    rows: Floats, names: Sequence[str], kinds: Sequence[SpanKind], window: Interval
) -> list[Span]:
    """Cut to the window, and counted from its start."""
    sizes = rows[7] if len(rows) > 7 else np.zeros(rows.shape[1])
    return [
        Span(
            name=name,
            kind=kind,
            start_s=max(start_s, window[0]) - window[0],
            end_s=min(end_s, window[1]) - window[0],
            nbytes=int(size),
        )
        for name, kind, start_s, end_s, size in zip(
            names, kinds, *rows[:2].tolist(), sizes.tolist(), strict=True
        )
    ]
