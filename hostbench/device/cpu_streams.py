"""Streams and events of the cpu device: queues of callables, each run by a worker thread."""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from hostbench.device.base import Step
from hostbench.device.scheduling import ask_for_short_slices


class _OneShot:
    """Set once, by one thread; waited for by any. A bare lock: each wait costs one hand-over of the
    GIL, where threading.Event with its condition costs several."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        self._lock.release()

    def is_set(self) -> bool:
        return not self._lock.locked()

    def wait(self) -> None:
        self._lock.acquire()
        self._lock.release()  # for the next one who waits


@dataclass(slots=True)
class Waits:
    """How often the host has waited for any stream or event of one device."""

    num: int = 0


class CpuEvent:
    """A mark that the stream's worker thread stamps with the host clock when it gets there."""

    def __init__(self, current: Callable[[], "CpuStream"], waits: Waits) -> None:
        self._current = current
        self._waits = waits
        self._reached = _OneShot()
        self._reached.set()  # as in CUDA, an event that was never recorded is complete
        self._stamp_s = 0.0

    def record(self, stream: "CpuStream | None" = None) -> None:
        self._reached = reached = _OneShot()

        def mark() -> None:
            self._stamp_s = time.perf_counter()
            reached.set()

        (stream or self._current()).enqueue(mark)

    def synchronize(self) -> None:
        self._waits.num += 1
        self._reached.wait()

    def query(self) -> bool:
        return self._reached.is_set()

    def seconds_since(self, earlier: "CpuEvent") -> float:
        return self._stamp_s - earlier._stamp_s


class CpuStream:
    """An ordered queue of callables, run by one daemon thread of that name, which calls `prepare`
    first."""

    def __init__(self, prepare: Step, name: str, waits: Waits) -> None:
        self._prepare = prepare
        self._waits = waits
        self._tasks: queue.SimpleQueue[Step | _OneShot | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._num_enqueued = 0  # written by the host's thread alone
        self._num_finished = 0  # written by the stream's thread alone
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def enqueue(self, task: Step) -> None:
        self._num_enqueued += 1
        self._tasks.put(task)

    def wait(self, event: CpuEvent) -> None:
        self.enqueue(event._reached.wait)  # of the mark as it is recorded now

    def synchronize(self) -> None:
        self._waits.num += 1
        if self._num_finished != self._num_enqueued:  # an idle stream costs nothing, as in CUDA
            done = _OneShot()
            self._tasks.put(done)
            done.wait()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        ask_for_short_slices()
        self._prepare()
        while (task := self._tasks.get()) is not None:
            if isinstance(task, _OneShot):
                task.set()
                continue
            try:
                task()
            except BaseException as error:
                self._error = self._error or error
            self._num_finished += 1
            del task  # a queued copy holds its buffers only until it ran
