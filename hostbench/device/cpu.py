"""The cpu device: host/device mechanics on a machine without an accelerator. All of it is real.

A stream is an ordered queue run by one worker thread. A transfer is a memory copy between two
distinct buffers in RAM. Compute is torch work with one intra-op thread. torch releases the GIL
inside each operation, so streams overlap as far as there are cores and memory bandwidth. There is
no pinned memory and no caching allocator: those cases are refused, never measured under two names.
Every number is labelled `cpu` and is no statement about a GPU.
"""

import gc
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

import torch

from hostbench.device import ends
from hostbench.device.protocol import Buffer, Fill, Step
from hostbench.errors import Unavailable
from hostbench.samples import median
from hostbench.units import MIB

_MATRIX = 128
_CALIBRATION_PRODUCTS = 100
_CALIBRATION_READINGS = 5
_SWITCH_INTERVAL_S = 1e-4
_SPIN_S = 2e-3
_PATTERN_BYTES = MIB - 3  # the largest prime under 1 MiB: a misplaced block does not match


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

    def spin(self) -> None:
        """Poll for a while before sleeping, as CUDA does: an idle virtual core may wake late."""
        end_s = time.perf_counter() + _SPIN_S
        while self._lock.locked():
            if time.perf_counter() > end_s:
                return self.wait()
            time.sleep(0)  # gives the GIL away


class CpuEvent:
    """A mark that the stream's worker thread stamps with the host clock when it gets there."""

    def __init__(self, device: "CpuDevice") -> None:
        self._device = device
        self._reached = _OneShot()
        self._reached.set()  # as in CUDA, an event that was never recorded is complete
        self._stamp_s = 0.0

    def record(self, stream: "CpuStream | None" = None) -> None:
        self._reached = reached = _OneShot()

        def mark() -> None:
            self._stamp_s = time.perf_counter()
            reached.set()

        (stream or self._device.current).enqueue(mark)

    def synchronize(self) -> None:
        self._reached.wait()

    def query(self) -> bool:
        return self._reached.is_set()

    def seconds_since(self, earlier: "CpuEvent") -> float:
        return self._stamp_s - earlier._stamp_s

    def waiter(self) -> Step:
        """A task that waits for the mark as it is recorded now."""
        reached = self._reached
        return reached.spin


class CpuStream:
    """An ordered queue of callables, run by one daemon thread."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[Step | _OneShot | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._num_enqueued = 0  # written by the host's thread alone
        self._num_finished = 0  # written by the stream's thread alone
        self._thread = threading.Thread(target=self._work, name="hostbench-stream", daemon=True)
        self._thread.start()

    def enqueue(self, task: Step) -> None:
        self._num_enqueued += 1
        self._tasks.put(task)

    def wait(self, event: CpuEvent) -> None:
        self.enqueue(event.waiter())

    def synchronize(self) -> None:
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


class CpuDevice:
    """See the module's docstring. Sets torch to one intra-op thread for the whole process."""

    name = "cpu"

    def __init__(self) -> None:
        torch.set_num_threads(1)
        sys.setswitchinterval(
            _SWITCH_INTERVAL_S
        )  # a waiting stream gets the GIL sooner than in 5 ms
        self.default = CpuStream()
        self.current = self.default
        self._streams = [self.default]

    def now(self) -> float:
        return time.perf_counter()

    def settle(self) -> None:
        """Nothing to bind or to wake: the first warm-up of a case is enough."""

    def host_buffer(self, nbytes: int, *, pinned: bool) -> Buffer:
        if pinned:
            raise Unavailable("the cpu device has no pinned memory; it needs a GPU")
        return torch.zeros(nbytes, dtype=torch.uint8).fill_(0)

    def buffer(self, nbytes: int) -> Buffer:
        return self.host_buffer(nbytes, pinned=False)

    def fill_pattern(self, buffer: Buffer, seed: int) -> None:
        head = buffer[:_PATTERN_BYTES].random_(
            0, 256, generator=torch.Generator().manual_seed(seed)
        )
        for part in buffer[_PATTERN_BYTES:].split(_PATTERN_BYTES):
            part.copy_(head[: part.numel()])

    def same_bytes(self, left: Buffer, right: Buffer) -> bool:
        return torch.equal(left.view(torch.uint8), right.view(torch.uint8))

    def marks(self, num: int) -> Buffer:
        return torch.zeros((num, *ends.SHAPE), dtype=torch.uint8)

    def mark(self, marks: Buffer, place: int, buffer: Buffer) -> None:
        self.current.enqueue(lambda: _ignore(marks[place].copy_(ends.of(buffer))))

    def marked(self, marks: Buffer, place: int, source: Buffer) -> bool:
        return torch.equal(marks[place], ends.of(source))

    def copy(self, target: Buffer, source: Buffer, *, blocking: bool) -> None:
        self._enqueue(lambda: _ignore(target.copy_(source)), blocking=blocking)

    def create(self, fill: Fill, nbytes: int, *, on_host: bool) -> Buffer:
        num = nbytes // 4
        if on_host:
            if fill == "randn":
                return torch.randn(num)
            return torch.zeros(num) if fill == "zeros" else torch.empty(num)
        made = torch.empty(num)
        if fill == "zeros":
            self.current.enqueue(lambda: _ignore(made.zero_()))
        elif fill == "randn":
            self.current.enqueue(lambda: _ignore(made.normal_()))
        return made

    def move(self, source: Buffer) -> Buffer:
        moved = torch.empty_like(source)
        self.copy(moved, source, blocking=True)
        return moved

    def compute(self, seconds: float) -> Step:
        product = _product(max(1, round(seconds / self._matmul_s)))
        return lambda: self.current.enqueue(product)

    def delay(self, seconds: float) -> None:
        self.current.enqueue(lambda: time.sleep(seconds))

    def stream(self) -> CpuStream:
        made = CpuStream()
        self._streams.append(made)
        return made

    @contextmanager
    def on(self, stream: CpuStream) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def event(self, *, timing: bool = True) -> CpuEvent:
        return CpuEvent(self)

    def synchronize(self) -> None:
        """Wait for all streams also when one failed: its error must not come up in a later case."""
        errors = []
        for stream in self._streams:
            try:
                stream.synchronize()
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def memory_stats(self) -> dict[str, int]:
        return {}

    def reset(self) -> None:
        self.synchronize()
        for stream in self._streams[1:]:
            stream.close()
        self._streams = [self.default]
        self.current = self.default
        gc.collect()

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _enqueue(self, task: Step, *, blocking: bool) -> None:
        stream = self.current
        stream.enqueue(task)
        if blocking:
            stream.synchronize()

    @cached_property
    def _matmul_s(self) -> float:
        """Seconds of one matrix product on one thread: the unit of `compute`."""
        product = _product(_CALIBRATION_PRODUCTS)

        def once() -> float:
            start = time.perf_counter()
            product()
            return (time.perf_counter() - start) / _CALIBRATION_PRODUCTS

        once()
        return median([once() for _ in range(_CALIBRATION_READINGS)])


def _product(num: int) -> Step:
    """`num` products of one pair of matrices in a single torch operation.

    One operation, because each one gives the GIL away and has to get it back: a loop of small ones
    keeps the threads of other streams waiting for milliseconds at a time.
    """
    left, right = (torch.ones(_MATRIX, _MATRIX).expand(num, -1, -1) for _ in range(2))
    out = torch.empty(num, _MATRIX, _MATRIX)
    return lambda: _ignore(torch.bmm(left, right, out=out))


def _ignore(_: object) -> None:
    """A task returns nothing, so that the queue keeps no tensor alive."""
