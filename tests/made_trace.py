"""Traces as Kineto writes them, made by hand: microseconds, one device, the host's main thread."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hostbench.idle.report import idle_report
from hostbench.idle.trace import read_trace
from hostbench.idle.words import blocks
from hostbench.report.write import text

H2D, H2D_PAGEABLE = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"
D2H_PAGEABLE = "Memcpy DtoH (Device -> Pageable)"


class MadeTrace:
    """Each call adds events; `write` makes the file."""

    def __init__(self, rank: int | None = None) -> None:
        self.events: list[dict[str, Any]] = []
        self.facts: dict[str, Any] = {} if rank is None else {"distributedInfo": {"rank": rank}}
        self._correlation = 0

    def event(self, cat: str, name: str, span: tuple[float, float], **more: Any) -> None:
        start, end = span
        thread = {"pid": 1, "tid": 1}
        own = {"ph": "X", "cat": cat, "name": name, "ts": start, "dur": end - start}
        self.events.append(own | thread | more)

    def kernel(
        self,
        called: tuple[float, float] | None,
        ran: tuple[float, float],
        name: str = "gemm",
        cat: str = "kernel",
        call: str = "cudaLaunchKernel",
        **more: Any,
    ) -> None:
        """Work of a device, and the call that launched it; None: the trace lacks the call."""
        self._correlation += 1
        device = {"device": 0, "stream": 7, "correlation": self._correlation}
        self.event(cat, name, ran, args=device | more)
        if called is not None:
            self.event("cuda_runtime", call, called, args={"correlation": self._correlation})

    def copy(
        self, called: tuple[float, float], ran: tuple[float, float], name: str, nbytes: int = 8
    ) -> None:
        self.kernel(called, ran, name, "gpu_memcpy", "cudaMemcpyAsync", bytes=nbytes)

    def sync(self, span: tuple[float, float], name: str = "cudaStreamSynchronize") -> None:
        self._correlation += 1
        self.event("cuda_runtime", name, span, args={"correlation": self._correlation})

    def op(self, name: str, span: tuple[float, float], **args: Any) -> None:
        self.event("cpu_op", name, span, args=args)

    def note(self, name: str, span: tuple[float, float]) -> None:
        self.event("user_annotation", name, span)

    def write(self, path: Path) -> Path:
        path.write_text(json.dumps({**self.facts, "traceEvents": self.events}))
        return path


def answer(*paths: Path) -> tuple[Any, str]:
    """What `hostbench idle` says of these traces: its JSON, with attributes, and its text."""
    report = idle_report([read_trace(path) for path in paths])
    words = json.dumps(report.document())
    return json.loads(words, object_hook=lambda row: SimpleNamespace(**row)), text(blocks(report))
