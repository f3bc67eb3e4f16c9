"""The cpu device: host/device mechanics on a machine without an accelerator. All of it is real.

A stream is an ordered queue run by one worker thread. A transfer is a memory copy between two
buffers in RAM. Compute is torch work with one intra-op thread. As on a GPU there is one engine for
each direction of copies and one for compute, each doing one piece of work at a time; torch releases
the GIL inside each operation, so that they overlap as far as there are cores and memory bandwidth.
Handing over to a stream's thread takes about 50 us there and back; so a copy that is waited for
cannot take less (docs/method.md).
"""

import ctypes
import gc
import json
import os
import platform
import queue
import struct
import sys
import threading
import time
from _thread import LockType
from collections.abc import Callable
from functools import cached_property, partial
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import torch

from hostbench.device.activity import COMPUTE, DEFAULT_STREAM, Activity, Observation
from hostbench.device.base import Buffer, Fill, HostRead, Step, lacking
from hostbench.device.loading import Loading
from hostbench.device.torch_device import TorchDevice, TorchLoader, chrome_trace

_MATRIX = 32
"""Rows of the matrices that a compute multiplies: a product of them takes some 1 us."""
_MORE_PRODUCTS = 200
_USUAL_SWITCH_INTERVAL_S = sys.getswitchinterval()
_SWITCH_INTERVAL_S = 1e-4  # a waiting stream gets the GIL sooner than in 5 ms
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274}
_SCHED_ATTR = struct.Struct("=IIQiIQQQII")
_SLICE_NS = 100_000  # the shortest that the kernel takes


class CpuEvent:
    """A mark that the stream's thread stamps with the host clock when it gets there."""

    def __init__(self, device: "CpuDevice") -> None:
        self._device = device
        self._reached = threading.Lock()  # locked until it is; one never recorded is, as in CUDA
        self._stamp_s = 0.0

    def record(self, stream: "CpuStream | None" = None) -> None:
        self._reached = reached = _locked()

        def mark() -> None:
            self._stamp_s = time.perf_counter()
            reached.release()

        (stream or self._device.current).enqueue(mark)

    def synchronize(self) -> None:
        self._device._num_waits += 1
        _wait(self._reached)

    def query(self) -> bool:
        return not self._reached.locked()


class CpuStream:
    """An ordered queue of callables, run by one daemon thread of that name."""

    def __init__(self, device: "CpuDevice", name: str) -> None:
        self._device = device
        self._tasks: queue.SimpleQueue[Step | LockType | None] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._num_enqueued = 0  # written by the host's thread alone
        self._num_finished = 0  # written by the stream's thread alone
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def enqueue(self, task: Step) -> None:
        self._num_enqueued += 1
        self._tasks.put(task)

    def wait_event(self, event: CpuEvent) -> None:
        self.enqueue(partial(_wait, event._reached))  # of the mark as it is recorded now

    def synchronize(self) -> None:
        self._device._num_waits += 1
        if self._num_finished != self._num_enqueued:  # an idle stream costs nothing, as in CUDA
            done = _locked()
            self._tasks.put(done)
            _wait(done)
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        _prepare_thread()
        while (task := self._tasks.get()) is not None:
            if isinstance(task, LockType):
                task.release()
                continue
            try:
                task()
            except BaseException as error:
                self._error = self._error or error
            self._num_finished += 1
            del task  # a queued copy holds its buffers only until it ran


class CpuDevice(TorchDevice):
    """See the module's docstring. Sets torch to one intra-op thread, here and in its streams."""

    name = "cpu"
    lacks = lacking("cpu", 1)

    def __init__(self) -> None:
        _prepare_thread()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self._num_waits = 0  # of the host, for a stream or an event
        self.current = CpuStream(self, DEFAULT_STREAM)
        self._streams: list[CpuStream] = [self.current]
        kinds = ("H2D pageable", "D2H pageable", COMPUTE)
        self._engines = {what: threading.Lock() for what in kinds}
        self._seen: list[Activity] | None = None

    def buffer(self, nbytes: int) -> Buffer:
        return _on_device(super().buffer(nbytes))

    def copy(self, target: Buffer, source: Buffer, *, blocking: bool) -> None:
        is_on_device = getattr(target.untyped_storage(), "hostbench_on_device", False)
        way = "H2D pageable" if is_on_device else "D2H pageable"
        stream = self.current
        stream.enqueue(self._task(partial(target.copy_, source), way, source.nbytes))
        if blocking:
            stream.synchronize()

    def creator(self, fill: Fill, nbytes: int, *, on_host: bool) -> Callable[[], Buffer]:
        allocate = super().creator("empty", nbytes, on_host=True)
        if fill == "empty":  # nobody copies it
            return allocate
        if on_host:
            return super().creator(fill, nbytes, on_host=True)

        def create() -> Buffer:
            created = _on_device(allocate())
            self.current.enqueue(self._task(partial(self.fill, created, fill)))
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

    def loader(self, loading: Loading) -> TorchLoader:
        """Until `reset` with Python's own switch interval, as users have it: with the shorter one
        their loops were 17 to 22 % faster."""
        sys.setswitchinterval(_USUAL_SWITCH_INTERVAL_S)
        return super().loader(loading)

    def keep_for(self, buffer: Buffer, stream: CpuStream) -> None:
        stream.enqueue(lambda: buffer)

    def compute(self, seconds: float) -> Step:
        first_s, each_s = self._product_s
        self.refuse_shorter(seconds, first_s)
        product = self._task(_product(max(1, 1 + round((seconds - first_s) / each_s))))
        return lambda: self.current.enqueue(product)

    def training_step(self, num_examples: int) -> Step:
        step = super().training_step(num_examples)
        return lambda: self.current.enqueue(self._task(step))

    def memory_of(self, work: Step) -> dict[str, int]:
        """By what torch's CPU allocator reports to autograd's profiler (torch.profiler imports half
        of torch as it starts). It hears one thread alone: the work runs in this one."""
        self.synchronize()
        here = SimpleNamespace(enqueue=lambda task: task(), synchronize=lambda: None)
        profiler: Any = torch.autograd.profiler
        with self.on(here), profiler.profile(profile_memory=True) as profile:
            work()
        events = [e for e in profile.kineto_results.events() if e.name() == "[memory]"]
        changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
        return {"peak_allocated": max([0, *accumulate(changes)])}

    def delay(self, seconds: float) -> None:
        self.current.enqueue(partial(time.sleep, seconds))

    def stream(self) -> CpuStream:
        self._streams.append(CpuStream(self, f"stream {len(self._streams)}"))
        return self._streams[-1]

    def event(self, *, timing: bool = True, blocking: bool = False) -> CpuEvent:
        if blocking:
            self.require("events that put the host to sleep")
        return CpuEvent(self)

    def seconds_between(self, start: CpuEvent, end: CpuEvent) -> float:
        return end._stamp_s - start._stamp_s

    def synchronize(self) -> None:
        """Wait for all streams also when one failed: its error must not come up in a later case."""
        errors = []
        num_waits = self._num_waits
        for stream in self._streams:
            try:
                stream.synchronize()
            except Exception as error:
                errors.append(error)
        self._num_waits = num_waits + 1
        if errors:
            raise errors[0]

    def num_enqueued(self) -> int:
        return sum(stream._num_enqueued for stream in self._streams)

    def advance(self, counter: Buffer) -> None:
        self.current.enqueue(self._task(partial(counter.add_, 1)))

    def host_read(self, how: HostRead, counter: Buffer) -> Callable[[], Any]:
        """After its stream is done: where the expression would wait on a GPU."""
        expression = super().host_read(how, counter)
        if how in ("shape", "synchronize"):
            return expression

        def read() -> Any:
            self.current.synchronize()
            return expression()

        return read

    def observe(
        self, work: Step, ready: Step = lambda: None, *, traced: bool = False
    ) -> Observation:
        ready()
        self.synchronize()
        before, trace = self._num_waits, list[dict[str, Any]]()
        self._seen = seen = list[Activity]()

        def observed() -> None:
            work()
            self.synchronize()

        if traced:
            trace = json.loads(chrome_trace(observed, on_cuda=False))["traceEvents"]
        else:
            observed()
        self._seen = None
        seen.sort(key=lambda activity: activity.start_s)
        return Observation(activities=seen, num_waits=self._num_waits - before - 1, trace=trace)

    def reset(self) -> None:
        self._close_loader()
        self._seen = None  # what was observed may have failed
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        self.synchronize()
        for stream in self._streams[1:]:
            stream.close()
        del self._streams[1:]
        self.current = self._streams[0]
        gc.collect()

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def _task(self, task: Step, what: str = COMPUTE, nbytes: int = 0) -> Step:
        """The task on its engine, once that is free, and timed while observed."""
        engine = self._engines[what]

        def run() -> None:
            with engine:
                if self._seen is None:
                    task()
                    return
                start_s = time.perf_counter()
                task()
                end_s = time.perf_counter()
                self._seen.append(Activity(what=what, start_s=start_s, end_s=end_s, nbytes=nbytes))

        return run

    @cached_property
    def _product_s(self) -> tuple[float, float]:
        """Seconds of a compute of one product, and of each one more, on a stream."""
        steps = [partial(self.current.enqueue, _product(num)) for num in (1, 1 + _MORE_PRODUCTS)]
        short_s, long_s = (min(self.device_times(step)) for step in steps)
        return short_s, max((long_s - short_s) / _MORE_PRODUCTS, 1e-9)


def _locked() -> LockType:
    """What is waited for, until it is released: a wait costs one hand-over of the GIL, where
    threading.Event costs several."""
    lock = threading.Lock()
    lock.acquire()
    return lock


def _wait(lock: LockType) -> None:
    with lock:  # and leave it for the next one who waits
        pass


def _on_device(buffer: Buffer) -> Buffer:
    """Note on the tensor's storage, which its views share, that it plays device memory."""
    buffer.untyped_storage().hostbench_on_device = True
    return buffer


def _product(num: int) -> Step:
    """`num` products of one pair of matrices in one torch operation: a loop of small ones, each of
    which takes the GIL again, keeps other streams waiting for milliseconds."""
    left, right = (torch.ones(_MATRIX, _MATRIX).expand(num, -1, -1) for _ in range(2))
    return partial(torch.bmm, left, right, out=torch.empty(num, _MATRIX, _MATRIX))


def _prepare_thread() -> None:
    """Of a thread that works for a stream, or hands work to one. torch's number of intra-op threads
    belongs to the thread that sets it. And Linux (from 6.12) runs a thread that asked for a short
    slice soon after it has woken: else each hand-over waits 3 to 4 ms beside threads that compute.
    """
    torch.set_num_threads(1)
    number = _SCHED_SETATTR.get(platform.machine())
    if number is not None and os.sched_getscheduler(0) == os.SCHED_OTHER:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        attributes = (_SCHED_ATTR.size, os.SCHED_OTHER, 0, nice, 0, _SLICE_NS, 0, 0, 0, 0)
        packed = ctypes.c_char_p(_SCHED_ATTR.pack(*attributes))
        ctypes.CDLL(None).syscall(number, 0, packed, 0)
