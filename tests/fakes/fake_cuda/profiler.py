"""The stand-in's side of `torch.profiler`: a trace as Kineto writes it, of what the GPUs did, which
functions of CUDA's runtime and operations of torch the host was in, and what the program named by
`record_function`."""

import json
import os
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.fake_cuda.gpu import GpuWork, Operation, RuntimeCall
from tests.fakes.fake_cuda.timeline import Machine

_COPIES = {
    "H2D pinned": "Memcpy HtoD (Pinned -> Device)",
    "H2D pageable": "Memcpy HtoD (Pageable -> Device)",
    "D2H pinned": "Memcpy DtoH (Device -> Pinned)",
    "D2H pageable": "Memcpy DtoH (Device -> Pageable)",
    "D2D": "Memcpy DtoD (Device -> Device)",
    "P2P": "Memcpy PtoP (Device -> Device)",
}
Fields = dict[str, Any]


@dataclass(slots=True)
class Annotated:
    """What a program named: from the host's clock, in the thread that did."""

    name: str
    start_s: float
    end_s: float
    thread: int


def of(machine: Machine) -> dict[str, type]:
    """`profile` and `record_function` of `torch.profiler` for that machine."""
    annotated: list[Annotated] = []
    return {
        "profile": _profile(machine, annotated),
        "record_function": _record_function(machine, annotated),
    }


def _record_function(machine: Machine, annotated: list[Annotated]) -> type:
    class RecordFunction:
        def __init__(self, name: str, args: str | None = None) -> None:
            self._name, self._start_s = name, 0.0

        def __enter__(self) -> "RecordFunction":
            self._start_s = machine.now_s
            return self

        def __exit__(self, *_: object) -> None:
            thread = threading.get_native_id()
            annotated.append(Annotated(self._name, self._start_s, machine.now_s, thread))

    return RecordFunction


class _Window:
    """`with profile(...)`, as torch's class has it."""

    def start_trace(self) -> None:
        raise NotImplementedError

    def stop_trace(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Any:
        self.start_trace()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop_trace()


def _profile(machine: Machine, annotated: list[Annotated]) -> type:
    class GpuProfile(_Window):
        def __init__(self, *, activities: Any = None, **_: Any) -> None:
            self._start_s, self._from = 0.0, list[int]()
            self._traced: list[GpuWork] = []
            self._calls: list[RuntimeCall] = []
            self._operations: list[Operation] = []
            self._named: list[Annotated] = []

        def prepare_trace(self) -> None:
            """As of a warm-up: it is quick here."""

        def start_trace(self) -> None:
            self._start_s = machine.now_s
            self._from = [len(gpu.log) for gpu in machine.gpus]
            machine.calls, machine.operations = self._calls, self._operations
            annotated.clear()

        def stop_trace(self) -> None:
            logs = zip(machine.gpus, self._from, strict=True)
            self._traced = [done for gpu, start in logs for done in gpu.log[start:]]
            machine.calls = machine.operations = None
            self._named = list(annotated)

        def export_chrome_trace(self, path: str) -> None:
            events = [] if machine.refusals.profiler else list(self._events())
            Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")

        def _events(self) -> Iterator[Fields]:
            yield from _of_gpus(machine, self._traced, self._start_s)
            yield from _of_calls(self._calls)
            for category, spans in (("cpu_op", self._operations), ("user_annotation", self._named)):
                yield from (_of_host(category, span, {}) for span in spans)

    return GpuProfile


def _of_calls(calls: Iterable[RuntimeCall]) -> Iterator[Fields]:
    for call in calls:
        yield _of_host("cuda_runtime", call, {"args": {"correlation": call.correlation}})


def _of_gpus(machine: Machine, traced: list[GpuWork], from_s: float) -> Iterator[Fields]:
    """But for what the profiler leaves out."""
    for done in traced:
        start_s = done.start_s - machine.refusals.profiler_early_s
        if start_s < from_s:
            continue
        if done.what != "P2P" or not machine.refusals.peer_copies_unlisted:
            yield _of_gpu(done, start_s)


def _of_gpu(done: GpuWork, start_s: float) -> Fields:
    is_copy = done.what in _COPIES
    args = {"device": done.gpu, "stream": done.queue, "correlation": done.correlation}
    return {
        "ph": "X",
        "cat": "gpu_memcpy" if is_copy else "kernel",
        "name": _COPIES.get(done.what, done.what.removeprefix("kernel ")),
        "pid": done.gpu,
        "tid": done.queue,
        **_times(start_s, start_s + done.end_s - done.start_s),
        "args": args | ({"bytes": done.nbytes} if is_copy else {}),
    }


def _of_host(category: str, seen: RuntimeCall | Operation | Annotated, more: Fields) -> Fields:
    return {
        "ph": "X",
        "cat": category,
        "name": seen.name,
        "pid": os.getpid(),
        "tid": seen.thread,
        **_times(seen.start_s, seen.end_s),
        **more,
    }


def _times(start_s: float, end_s: float) -> Fields:
    """Kineto's clock has nanoseconds; it writes microseconds."""
    start_ns, end_ns = round(start_s * 1e9), round(end_s * 1e9)
    return {"ts": start_ns / 1e3, "dur": (end_ns - start_ns) / 1e3}
