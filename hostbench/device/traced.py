"""A device whose calls by the host are noted while it is traced, for the trace of one reading.

What is built on a watched device calls through it for good, which takes time: nothing that was
built on one is ever timed for a result.
"""

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hostbench.core.lanes import HOST, NEXT_BATCH, Lane, Span, SpanKind
from hostbench.device.base import Step
from hostbench.device.loading import Loader

_NO_CALLS = frozenset(
    "now enter require refusal lacks marks marked mark typed every_second on".split()
)
"""Of a device: what asks it nothing that takes time, and the switch of the current stream."""
_KINDS: dict[str, SpanKind] = {
    "synchronize": "wait",
    "spin": "wait",
    "trap": "wait",
    "barrier": "wait",
}
"""Of a call, where it does not go by whether it blocks."""


class CallLog:
    """The calls of the thread that it was made in, while it is on; of calls within calls the
    outermost. `now` is the clock of whatever is traced."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._thread = now, threading.get_ident()
        self._spans: list[Span] | None = None
        self._is_inside = False

    @contextmanager
    def on(self) -> Iterator[list[Span]]:
        """Calls made within are in the list."""
        spans: list[Span] = []
        self._spans = spans
        try:
            yield spans
        finally:
            self._spans = None

    def call(self, name: str, kind: SpanKind, work: Callable[[], Any]) -> Any:
        """What `work` returns."""
        spans = self._spans
        if spans is None or self._is_inside or threading.get_ident() != self._thread:
            return work()
        self._is_inside = True
        start_s = self._now()
        try:
            return work()
        finally:
            end_s, self._is_inside = self._now(), False
            if end_s > start_s:
                spans.append(Span(name=name, kind=kind, start_s=start_s, end_s=end_s))


class Traced:
    """Stands in front of a device, a stream, an event or a process group, and of what these make
    that can be called or waited for."""

    def __init__(self, target: Any, log: CallLog, prefix: str = "") -> None:
        self._target, self._log, self._prefix = target, log, prefix

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if name.startswith("_") or not callable(value):
            return value
        if name in _NO_CALLS:
            return lambda *args, **kwargs: value(*map(_plain, args), **kwargs)
        if name == "loader":
            return lambda loading: TracedLoader(value(loading), self._log)
        return self._logged(value, f"{self._prefix} {name}".strip(), _KINDS.get(name))

    def trace(self, work: Step) -> list[Lane]:
        """The target's, with the host's calls before them unless it has these itself."""
        with self._log.on() as spans:
            lanes: list[Lane] = self._target.trace(work)
        if any(lane.name == HOST for lane in lanes):
            return lanes
        return [Lane(name=HOST, spans=tuple(spans)), *lanes]

    def _logged(
        self, value: Callable[..., Any], name: str, kind: SpanKind | None = None
    ) -> Callable[..., Any]:
        blocking = inspect.signature(value).parameters.get("blocking")

        def call(*args: Any, **kwargs: Any) -> Any:
            blocks = blocking is not None and kwargs.get("blocking", blocking.default) is True
            label = f"{name} {args[0]}" if name == "trap" and args else name.replace("_", " ")
            result = self._log.call(
                f"{label}, blocking" if blocks else label,
                kind or ("wait" if blocks else "call"),
                lambda: value(*map(_plain, args), **kwargs),
            )
            if hasattr(result, "synchronize"):
                return Traced(result, self._log, name)
            return self._logged(result, label, kind) if callable(result) else result

        return call


class TracedLoader:
    """Stands in front of a device's DataLoader: each wait for its next batch is noted."""

    def __init__(self, target: Loader, log: CallLog) -> None:
        self._target, self._log = target, log

    def __iter__(self) -> Iterator[Any]:
        return self._batches(
            self._log.call("start of an epoch", "call", lambda: iter(self._target))
        )

    def _batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        end = object()
        while (batch := self._log.call(NEXT_BATCH, "load", lambda: next(batches, end))) is not end:
            yield batch

    def expected(self, batch: int) -> Any:
        return self._target.expected(batch)

    def close(self) -> None:
        self._target.close()


def _plain(value: Any) -> Any:
    return value._target if isinstance(value, Traced) else value
