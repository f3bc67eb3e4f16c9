"""Records some steps of a script, in the script's own process, with torch's profiler.

A step is one of the optimizer that steps first. Where none steps, some seconds after CUDA was
started are recorded instead. Needs only torch: the script's environment may lack everything else.
"""

import _thread
import atexit
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

from hostbench.idle.lines import BORDER, marked

VARIABLE = "HOSTBENCH_IDLE"
"""Holds RecordSettings, as JSON, for every process that `hostbench idle` starts."""
_LOOK_EVERY_S = 0.1
_GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""One is there where a GPU is. To ask CUDA would start its driver, which no fork survives."""


class RecordSettings(NamedTuple):
    """What is recorded, and where to."""

    notes: str
    """A folder, in which each process keeps a note: RecordedProcess."""
    traces: str
    warmup: int
    """Steps that are left out first; 0: recording begins when torch is imported."""
    steps: int
    """At most so many are recorded."""
    seconds: float
    """And at most so long."""
    after_s: float = 20.0
    """Where nothing steps: how long after CUDA (without a GPU: torch) was started it begins."""


class RecordedProcess(NamedTuple):
    """What a process writes of itself, once nothing more is recorded."""

    trace: str | None = None
    """A file; None: it recorded nothing."""
    error: str | None = None
    """Why it did not, where something went wrong."""
    steps: int = 0
    free_s: float | None = None
    """Of a step before recording began, the median; None for fewer than three."""
    recorded_s: float | None = None
    """Of a step that was recorded."""


class Session:
    """The profiler, from now until `stop`. `step` marks where a step ends and the next begins."""

    def __init__(self) -> None:
        """Raises RuntimeError where a profiler runs already: two at once may crash torch."""
        import torch.profiler

        modules: Any = torch
        if modules.autograd._profiler_enabled():
            raise RuntimeError("one runs already, as the script has a profiler of its own")
        self._profiler = modules.profiler
        kinds = [self._profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(self._profiler.ProfilerActivity.CUDA)
        with _quiet():
            self._profile = self._profiler.profile(activities=kinds)
            self._profile.prepare_trace()
            self._profile.start_trace()
        self._stack = ExitStack()
        self._stack.enter_context(marked())
        self.step()

    def step(self) -> None:
        with self._profiler.record_function(BORDER):
            pass

    def stop(self, trace: Path | None) -> None:
        """Also writes the trace, if there is a file for it."""
        self._stack.close()
        with _quiet():
            self._profile.stop_trace()
            if trace is not None:
                self._profile.export_chrome_trace(str(trace))


@contextmanager
def _quiet() -> Iterator[None]:
    """What the profiler warns of is no error in a script that makes one of each warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Recorder:
    """Waits for the steps of this process, records some, and writes the trace."""

    def __init__(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._process = os.getpid()
        self._session: Session | None = None
        self._error: str | None = None
        self._is_busy = self._is_done = False
        self._stepper = 0
        """The id of the optimizer that steps first."""
        self._step_ends_s: list[float] = []
        self._recorded_from = 0
        """How many steps had ended when recording began, at `_started_s`."""
        self._started_s = 0.0
        self._idle_since_s = time.perf_counter()
        """From when on CUDA was started, and nothing had stepped."""

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(lambda optimizer, *_: self._do(self._step, optimizer))
        atexit.register(self._do, self._finish)
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGRTMAX, lambda *_: self._do(self._look))
            threading.Thread(target=self._watch, name="hostbench idle", daemon=True).start()
        if not self._settings.warmup:
            self._begin()

    def _do(self, work: Callable[..., None], *args: Any) -> None:
        """Unless it is done, or in the middle of something: a signal comes at any time."""
        if self._is_done or self._is_busy or os.getpid() != self._process:
            return
        self._is_busy = True
        try:
            work(*args)
        finally:
            self._is_busy = False

    def _step(self, optimizer: Any) -> None:
        self._stepper = self._stepper or id(optimizer)
        if self._stepper != id(optimizer):
            return
        if not self._step_ends_s and self._settings.warmup and self._session is not None:
            self._session.stop(None)  # it was begun because nothing seemed to step
            self._session = None
        self._step_ends_s.append(time.perf_counter())
        num_steps = len(self._step_ends_s)
        if self._session is not None:
            self._session.step()
            if num_steps - self._recorded_from >= self._settings.steps:
                self._finish()
        elif num_steps >= self._settings.warmup:
            self._begin()

    def _begin(self) -> None:
        """What goes wrong is told, and is no business of the script's."""
        try:
            self._session = Session()
        except Exception as error:  # as where the script has a profiler of its own
            self._error = f"torch's profiler does not start: {error}"
            self._finish()
            return
        self._recorded_from, self._started_s = len(self._step_ends_s), time.perf_counter()

    def _finish(self) -> None:
        """Write the trace, and a note of what the parent cannot know, errors included."""
        session, self._session, self._is_done = self._session, None, True
        file = Path(self._settings.traces, f"{self._process}.json")
        trace = None if session is None or _is_loader_worker() else file
        try:
            if session is not None:
                session.stop(trace)
        except Exception as error:
            trace, self._error = None, f"the trace was not written: {error}"
        ends_s, first = self._step_ends_s, self._recorded_from
        note = RecordedProcess(
            trace=None if trace is None else str(trace),
            error=self._error,
            steps=len(ends_s),
            free_s=_median_step(ends_s[:first]),
            recorded_s=_median_step(ends_s[max(0, first - 1) :]) if self._started_s else None,
        )
        path = Path(self._settings.notes, f"{self._process}.json")
        half = path.with_suffix(".half")  # the note is there only once all of it is written
        with suppress(OSError):  # the folder is gone
            half.write_text(json.dumps(note._asdict()))
            half.replace(path)

    def _watch(self) -> None:
        """Have the main thread look at the clock, for the profiler is that thread's."""
        while not self._is_done:
            time.sleep(_LOOK_EVERY_S)
            if self._is_due():
                _thread.interrupt_main(signal.SIGRTMAX)

    def _is_due(self) -> bool:
        import torch

        now_s, cuda = time.perf_counter(), cast(Any, torch.cuda)
        if self._session is not None:
            return _is_loader_worker() or now_s - self._started_s > self._settings.seconds
        has_gpu = any(map(os.path.exists, _GPU_FILES))
        if self._step_ends_s or (has_gpu and not cuda.is_initialized()):
            self._idle_since_s = now_s
        return now_s - self._idle_since_s > self._settings.after_s

    def _look(self) -> None:
        if self._is_due():
            (self._begin if self._session is None else self._finish)()


def install() -> None:
    """Start a recorder as the environment says."""
    Recorder(RecordSettings(**json.loads(os.environ[VARIABLE]))).install()


def _is_loader_worker() -> bool:
    """A process that loads batches for another, and uses no GPU."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _median_step(ends_s: Sequence[float]) -> float | None:
    """Seconds from the end of one step to the next; None for fewer than three."""
    steps_s = sorted(later - sooner for sooner, later in pairwise(ends_s))
    return steps_s[len(steps_s) // 2] if len(steps_s) > 2 else None
