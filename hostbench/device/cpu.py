"""The cpu device: host/device mechanics on a machine without an accelerator. All of it is real.

A stream is an ordered queue run by one worker thread. A transfer is a memory copy between two
distinct buffers in RAM. Compute is torch work with one intra-op thread. As on a GPU there is one
engine for each direction of copies and one for compute, each doing one piece of work at a time;
torch releases the GIL inside each operation, so that they overlap as far as there are cores and
memory bandwidth. There is no pinned memory and no caching allocator: those cases are refused, never
measured under two names. Every number is labelled `cpu` and is no statement about a GPU.
"""

import gc
import sys
import time
from collections.abc import Callable
from functools import cached_property, partial
from threading import Lock, current_thread
from typing import Any

import torch

from hostbench.core.samples import median
from hostbench.device.activity import COMPUTE, DEFAULT_STREAM, Activity
from hostbench.device.base import Buffer, Fill, Step, lacking
from hostbench.device.cpu_memory import peak_of
from hostbench.device.cpu_streams import CpuEvent, CpuStream, Waits
from hostbench.device.scheduling import ask_for_short_slices
from hostbench.device.torch_device import TorchDevice, fill_in_place
from hostbench.device.traps import Trap

_MATRIX = 128
_CALIBRATION_PRODUCTS = 100
_CALIBRATION_READINGS = 5
_SWITCH_INTERVAL_S = 1e-4  # a waiting stream gets the GIL sooner than in 5 ms


class CpuDevice(TorchDevice):
    """See the module's docstring. Sets torch to one intra-op thread, here and in its streams."""

    name = "cpu"
    lacks = lacking("cpu", 1)

    def __init__(self) -> None:
        _one_thread()
        ask_for_short_slices()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._waits = Waits()
        self.default = CpuStream(_one_thread, DEFAULT_STREAM, self._waits)
        self.current = self.default
        self._streams = [self.default]
        self._engines = {what: Lock() for what in ("H2D pageable", "D2H pageable", COMPUTE)}
        self._seen: list[Activity] | None = None

    def buffer(self, nbytes: int) -> Buffer:
        return _on_device(super().buffer(nbytes))

    def mark(self, marks: Buffer, index: int, buffer: Buffer) -> None:
        self.current.enqueue(partial(super().mark, marks, index, buffer))

    def copy(self, target: Buffer, source: Buffer, *, blocking: bool) -> None:
        stream = self.current
        stream.enqueue(self._task(lambda: _ignore(target.copy_(source)), _way(target), source))
        if blocking:
            stream.synchronize()

    def creator(self, fill: Fill, nbytes: int, *, on_host: bool) -> Callable[[], Buffer]:
        allocate = super().creator("empty", nbytes, on_host=True)
        if on_host:
            return super().creator(fill, nbytes, on_host=True)
        if fill == "empty":
            return lambda: _on_device(allocate())

        def create() -> Buffer:
            created = _on_device(allocate())
            self.current.enqueue(self._task(partial(fill_in_place, created, fill)))
            return created

        return create

    def move(self, source: Buffer, *, blocking: bool = True) -> Buffer:
        moved = _on_device(torch.empty_like(source))
        self.copy(moved, source, blocking=blocking)
        return moved

    def fetcher(self, source: Buffer, *, blocking: bool = True) -> Callable[[], Buffer]:
        def fetch() -> Buffer:
            fetched = torch.empty_like(source)
            self.copy(fetched, source, blocking=blocking)
            return fetched

        return fetch

    def keep_for(self, buffer: Buffer, stream: CpuStream) -> None:
        stream.enqueue(lambda: _ignore(buffer))

    def compute(self, seconds: float) -> Step:
        product = _product(max(1, round(seconds / self._matmul_s)))
        return lambda: self.current.enqueue(self._task(product))

    def training_step(self, num_examples: int) -> Step:
        step = super().training_step(num_examples)
        return lambda: self.current.enqueue(self._task(step))

    def memory_of(self, work: Step) -> dict[str, int]:
        """By what torch's CPU allocator reports to its profiler, which hears one thread alone: the
        work runs in this one."""
        self.synchronize()
        with self.on(_Here()):
            return {"peak_allocated": peak_of(work)}

    def delay(self, seconds: float) -> None:
        self.current.enqueue(lambda: time.sleep(seconds))

    def stream(self) -> CpuStream:
        made = CpuStream(_one_thread, f"stream {len(self._streams)}", self._waits)
        self._streams.append(made)
        return made

    def event(self, *, timing: bool = True, blocking: bool = False) -> CpuEvent:
        if blocking:
            self.require("events that put the host to sleep")
        return CpuEvent(lambda: self.current, self._waits)

    def synchronize(self) -> None:
        """Wait for all streams also when one failed: its error must not come up in a later case."""
        errors = []
        num_waits = self._waits.num
        for stream in self._streams:
            try:
                stream.synchronize()
            except Exception as error:
                errors.append(error)
        self._waits.num = num_waits + 1
        if errors:
            raise errors[0]

    def advance(self, counter: Buffer) -> None:
        self.current.enqueue(self._task(lambda: _ignore(counter.add_(1))))

    def trap(self, how: Trap, counter: Buffer) -> Callable[[], Any]:
        """After its stream is done: where the expression would wait on a GPU."""
        expression = super().trap(how, counter)
        if how in ("shape", "synchronize"):
            return expression

        def waits() -> Any:
            self.current.synchronize()
            return expression()

        return waits

    def count_syncs(self, work: Step) -> int:
        before = self._waits.num
        work()
        return self._waits.num - before

    def observe(self, work: Step, ready: Step = lambda: None) -> list[Activity]:
        ready()
        self.synchronize()
        seen: list[Activity] = []
        self._seen = seen
        try:
            work()
            self.synchronize()
        finally:
            self._seen = None
        return sorted(seen, key=lambda activity: activity.start_s)

    def trace(self, work: Step) -> list[dict[str, Any]]:
        from hostbench.device.kineto import cpu_events  # the profiler takes 0.3 s to import

        self.synchronize()
        return cpu_events(work)

    def reset(self) -> None:
        self._close_loaders()
        self.synchronize()
        for stream in self._streams[1:]:
            stream.close()
        self._streams = [self.default]
        self.current = self.default
        gc.collect()

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _task(self, task: Step, what: str = COMPUTE, source: Buffer | None = None) -> Step:
        """The task on its engine, once that is free; while observed between two readings of the
        clock."""
        seen, engine = self._seen, self._engines[what]
        nbytes = 0 if source is None else source.numel() * source.element_size()

        def run() -> None:
            with engine:
                if seen is None:
                    return task()
                start_s = time.perf_counter()
                task()
                end_s = time.perf_counter()
                stream = current_thread().name
                seen.append(
                    Activity(what=what, start_s=start_s, end_s=end_s, nbytes=nbytes, stream=stream)
                )

        return run

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


class _Here:
    """A stream that does its work at once, in the calling thread."""

    def enqueue(self, task: Step) -> None:
        task()

    def synchronize(self) -> None:
        """Nothing is left to wait for."""


def _on_device(buffer: Buffer) -> Buffer:
    """Note on the tensor's storage, which its views share, that it plays device memory."""
    buffer.untyped_storage().hostbench_on_device = True
    return buffer


def _way(target: Buffer) -> str:
    is_on_device = getattr(target.untyped_storage(), "hostbench_on_device", False)
    return "H2D pageable" if is_on_device else "D2H pageable"


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


def _one_thread() -> None:
    """The number belongs to the calling thread: in one that never copied, the products of matrices
    would take every core."""
    torch.set_num_threads(1)
