"""A stretch of traces as lanes: the host's threads, and the streams of each device."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hostbench.core.errors import UsageError
from hostbench.core.lanes import HOST, Lane, Span, SpanKind
from hostbench.core.noise import Floats
from hostbench.idle.host import host_of
from hostbench.idle.intervals import union
from hostbench.idle.summary import COLLECTIVE
from hostbench.idle.trace import COPY, INSIDE, NONE, Trace

_WAYS: tuple[tuple[str, SpanKind], ...] = (("HtoD", "H2D"), ("DtoH", "D2H"))


MAX_SPANS = 200_000
"""Of a stretch: more is no picture any more, and no small file."""


def whole_s(traces: Sequence[Trace]) -> float:
    """From the first event of all to the end of the last."""
    return max(
        later_s + float(rows[1].max())
        for trace, later_s in zip(traces, _later_s(traces), strict=True)
        for rows in _timed(trace)
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


def stretch(traces: Sequence[Trace]) -> tuple[float, float]:
    """The step in the middle of the first trace, or all of it where no steps are marked: seconds
    from the first event of all."""
    first, later_s = traces[0], _later_s(traces)[0]
    steps = first.steps[:, np.argsort(first.steps[0])]
    if steps.shape[1]:
        start_s, end_s = steps[:2, steps.shape[1] // 2].tolist()
        return start_s + later_s, end_s + later_s
    return 0.0, later_s + max(float(rows[1].max()) for rows in _timed(first))


def lanes(traces: Sequence[Trace], start_s: float, end_s: float) -> list[Lane]:
    """What has a part in these seconds, cut to them. Traces are beside each other by the clocks
    that they have. Raises UsageError where nothing has, and where that is too much."""
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
    found = [
        lane
        for trace, later_s in each
        for lane in _of_trace(trace, start_s - later_s, end_s - later_s, len(traces) > 1)
    ]
    if not found:
        raise UsageError(f"nothing ran from {start_s:g} s to {end_s:g} s of the trace")
    return found


def _later_s(traces: Sequence[Trace]) -> list[float]:
    """What is added to the times of each, so that all count from the first event of all."""
    firsts_us = [
        trace.start_us + 1e6 * min(float(rows[0].min()) for rows in _timed(trace))
        for trace in traces
    ]
    return [(trace.start_us - min(firsts_us)) / 1e6 for trace in traces]


def _timed(trace: Trace) -> list[Floats]:
    """Raises UsageError where there is nothing to draw."""
    found = [rows for rows in (trace.work, trace.calls, trace.steps) if rows.shape[1]]
    if not found:
        raise UsageError(f"{trace.file} has nothing to draw: no work of a GPU, no calls of CUDA")
    return found


def _of_trace(trace: Trace, start_s: float, end_s: float, is_one_of_many: bool) -> Iterator[Lane]:
    rank = "" if trace.rank is None else f"rank {trace.rank}"
    own = f"{rank or trace.file} " if is_one_of_many else ""
    calls = _within(trace.calls, start_s, end_s)
    waits = host_of(trace).waits
    waiting, _ = union(
        np.array([wait.start_s for wait in waits]), np.array([wait.end_s for wait in waits])
    )
    host = _host(trace)
    for thread in _by_count(calls[3], host):
        rows = calls[:, calls[3] == thread]
        waited_s = waiting.within(rows[0], rows[1])
        kinds: list[SpanKind] = ["wait" if seconds > 0 else "call" for seconds in waited_s]
        own_name = trace.threads.texts[int(thread)].rpartition("/")[2]
        name = HOST if thread == host else f"thread {own_name}"
        yield _lane(trace, name, own.strip(), rows, rows[2], kinds, (start_s, end_s))
    work = _within(trace.work, start_s, end_s)
    collectives = trace.names.matching(COLLECTIVE)
    streams = np.unique(work[4:6], axis=1).T.tolist()
    for device, stream in sorted(streams, key=lambda pair: _in_order(trace, *pair)):
        rows = work[:, (work[4] == device) & (work[5] == stream)]
        what = [_kind(trace, int(each), name, collectives) for each, name in rows[2:4].T]
        name, place = trace.threads.texts[int(stream)], f"{own}GPU {int(device)}"
        yield _lane(trace, name, place, rows, rows[3], what, (start_s, end_s))


def _within(rows: Floats, start_s: float, end_s: float) -> Floats:
    chosen = rows[:, _is_within(rows, start_s, end_s)]
    return chosen[:, np.argsort(chosen[0], kind="stable")]


def _is_within(rows: Floats, start_s: float, end_s: float) -> NDArray[np.bool_]:
    return np.asarray((rows[0] < end_s) & (rows[1] > start_s))


def _host(trace: Trace) -> float:
    """The process's first thread, which has its number; where that made no call the thread that
    made most."""
    threads = _by_count(trace.calls[3], NONE)
    texts = (trace.threads.texts[int(thread)].partition("/") for thread in threads)
    first = (thread for thread, (pid, _, tid) in zip(threads, texts, strict=True) if pid == tid)
    return next(first, threads[0] if threads else NONE)


def _by_count(threads: Floats, first: float) -> list[float]:
    """Those with the most calls first, after the one that is named."""
    found, counts = np.unique(threads, return_counts=True)
    order = np.lexsort((-counts, found != first))
    return [float(each) for each in found[order]]


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


def _lane(
    trace: Trace,
    name: str,
    place: str,
    rows: Floats,
    names: Floats,
    kinds: Sequence[SpanKind],
    window: tuple[float, float],
) -> Lane:
    sizes = rows[7] if len(rows) > 7 else np.zeros(rows.shape[1])
    spans = (
        Span(
            name=trace.names.texts[int(number)],
            kind=kind,
            start_s=max(start_s, window[0]) - window[0],
            end_s=min(end_s, window[1]) - window[0],
            nbytes=int(size),
        )
        for number, kind, start_s, end_s, size in zip(
            names, kinds, *rows[:2].tolist(), sizes.tolist(), strict=True
        )
    )
    return Lane(name=name, place=place, spans=tuple(spans))
