"""The stand-in's side of `torch.profiler`: a trace as Kineto writes it, of what the GPUs did."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hostbench.testing.fake_cuda.timeline import GpuWork, Machine

_COPIES = {
    "H2D pinned": "Memcpy HtoD (Pinned -> Device)",
    "H2D pageable": "Memcpy HtoD (Pageable -> Device)",
    "D2H pinned": "Memcpy DtoH (Device -> Pinned)",
    "D2H pageable": "Memcpy DtoH (Device -> Pageable)",
    "D2D": "Memcpy DtoD (Device -> Device)",
    "P2P": "Memcpy PtoP (Device -> Device)",
}


def of(machine: Machine) -> type:
    """`torch.profiler.profile` for that machine."""

    class GpuProfile:
        def __init__(self, *, activities: Any = None, **_: Any) -> None:
            self._start_s, self._from = 0.0, list[int]()
            self._traced: list[GpuWork] = []

        def __enter__(self) -> "GpuProfile":
            self._start_s = machine.now_s
            self._from = [len(gpu.log) for gpu in machine.gpus]
            return self

        def __exit__(self, *_: object) -> None:
            logs = zip(machine.gpus, self._from, strict=True)
            self._traced = [done for gpu, start in logs for done in gpu.log[start:]]

        def export_chrome_trace(self, path: str) -> None:
            events = [] if machine.refusals.profiler else list(self._events())
            Path(path).write_text(json.dumps({"traceEvents": events}), encoding="utf-8")

        def _events(self) -> Iterator[dict[str, Any]]:
            for done in self._traced:
                start_s = done.start_s - machine.refusals.profiler_early_s
                if start_s < self._start_s:
                    continue
                if done.what == "P2P" and machine.refusals.peer_copies_unlisted:
                    continue
                is_copy = done.what in _COPIES
                args = {"device": done.gpu, "stream": done.queue}
                yield {
                    "ph": "X",
                    "cat": "gpu_memcpy" if is_copy else "kernel",
                    "name": _COPIES.get(done.what, done.what.removeprefix("kernel ")),
                    "ts": start_s * 1e6,
                    "dur": (done.end_s - done.start_s) * 1e6,
                    "args": args | ({"bytes": done.nbytes} if is_copy else {}),
                }

    return GpuProfile
