"""Records some steps of a script, in the script's own process, with torch's profiler.

A step is one of the optimizer that steps first. Where none steps, some seconds after CUDA was
started are recorded instead. Needs only torch: the script's environment may lack everything else.
"""

import _thread
import atexit
import importlib.abc
import importlib.machinery
import importlib.util
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
from types import ModuleType
from typing import Any, NamedTuple

from hostbench.idle.lines import BORDER, marked

VARIABLE = "HOSTBENCH_IDLE"
"""Holds the Settings, as JSON, for every process that `hostbench idle` starts."""
BEGUN, DONE = "begun", "done"
"""Files that a process writes into the folder: it records; it has recorded, or ended without."""

_SIGNAL = "SIGRTMAX"
_LOOK_EVERY_S = 0.1


class RecordSettings(NamedTuple):
    """What is recorded, and where to."""

    folder: str
    warmup: int
    """Steps that are left out first; 0: recording begins when torch is imported."""
    steps: int
    """At most so many are recorded."""
    seconds: float
    """And at most so long."""
    after_s: float = 20.0
    """Where nothing steps: how long after CUDA was started recording begins."""


def wait_for_torch() -> None:
    """Have torch start a recorder when it is imported, if the variable is set."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        settings = RecordSettings(**json.loads(given))
        sys.meta_path.insert(0, _TorchFinder(lambda: Recorder(settings).install()))


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Calls something once torch is imported."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load: Any = spec.loader
            run, then = load.exec_module, self._then

            def exec_module(module: ModuleType) -> None:
                run(module)
                then()

            load.exec_module = exec_module
        return spec


class Session:
    """The profiler between two moments. `step` marks where a step ends and the next begins."""

    def __init__(self) -> None:
        """Raises RuntimeError where a profiler runs already: two at once may crash torch."""
        import torch

        autograd: Any = torch.autograd
        if autograd._profiler_enabled():
            raise RuntimeError("one runs already, as the script has a profiler of its own")
        kinds = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            kinds.append(torch.profiler.ProfilerActivity.CUDA)
        with _quiet():
            self._profile = _profiler().profile(activities=kinds)
            self._profile.prepare_trace()
        self._stack = ExitStack()

    def start(self) -> None:
        with _quiet():
            self._profile.start_trace()
        self._stack.enter_context(marked())
        self.step()

    def step(self) -> None:
        with _profiler().record_function(BORDER):
            pass

    def stop(self) -> None:
        self._stack.close()
        with _quiet():
            self._profile.stop_trace()

    def write(self, path: Path) -> None:
        with _quiet():
            self._profile.export_chrome_trace(str(path))


@contextmanager
def _quiet() -> Iterator[None]:
    """What the profiler warns of is no error in a script that makes one of each warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _profiler() -> Any:
    import torch.profiler

    return torch.profiler


class Recorder:
    """Waits for the steps of this process, records some, and writes the trace."""

    def __init__(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._folder = Path(settings.folder)
        self._process = os.getpid()
        self._session: Session | None = None
        self._is_done, self._is_busy = False, False
        self._error: str | None = None
        self._optimizer: int | None = None
        self._times_s: list[float] = []
        """When each step ended."""
        self._recorded_from = 0
        """How many steps had ended then."""
        self._started_s = 0.0
        self._idle_since_s = time.perf_counter()
        """From when on CUDA was started, and nothing had stepped."""

    def install(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(lambda optimizer, *_: self._do(self._step, optimizer))
        atexit.register(self._do, self._finish)
        if threading.current_thread() is threading.main_thread():
            signal.signal(getattr(signal, _SIGNAL), lambda *_: self._do(self._look))
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
        """After each step of any optimizer; the first one's count."""
        if self._optimizer is None:
            self._optimizer = id(optimizer)
            if self._settings.warmup:
                self._drop()
        if id(optimizer) != self._optimizer:
            return
        self._times_s.append(time.perf_counter())
        if self._session is not None:
            self._session.step()
            if len(self._times_s) - self._recorded_from >= self._settings.steps:
                self._finish()
        elif len(self._times_s) >= self._settings.warmup:
            self._begin()

    def _begin(self) -> None:
        """What goes wrong is told, and is no business of the script's."""
        self._folder.joinpath(f"{self._process}.{BEGUN}").touch()
        try:
            session = Session()
            session.start()
        except Exception as error:  # as where the script has a profiler of its own
            self._error = f"torch's profiler does not start: {error}"
            self._finish()
            return
        self._session = session
        self._recorded_from, self._started_s = len(self._times_s), time.perf_counter()

    def _drop(self) -> None:
        """What was recorded because nothing seemed to step."""
        if self._session is not None:
            self._session.stop()
            self._session = None

    def _finish(self) -> None:
        """What goes wrong is told, as in `_begin`."""
        session, self._session, self._is_done = self._session, None, True
        try:
            if session is not None:
                session.stop()
            if session is not None and not _is_loader_worker():
                session.write(self._folder / f"{self._process}.json")
        except Exception as error:
            self._error = f"the trace was not written: {error}"
        with suppress(OSError):  # the folder is gone
            self._tell()

    def _tell(self) -> None:
        """What the parent cannot know; the file is there only once all of it is written."""
        path = self._folder / f"{self._process}.{DONE}"
        ends_s, at = self._times_s, self._recorded_from
        about = {
            "steps": len(ends_s),
            "error": self._error,
            "has_cuda": bool(_cuda().is_available()),
            "free_s": _median_step(ends_s[:at]),
            "recorded_s": _median_step(ends_s[max(0, at - 1) :]) if self._started_s else None,
        }
        half = path.with_suffix(".half")
        half.write_text(json.dumps(about))
        half.replace(path)

    def _watch(self) -> None:
        """Have the main thread look at the clock, for the profiler is that thread's."""
        while not self._is_done:
            time.sleep(_LOOK_EVERY_S)
            if self._is_due():
                _thread.interrupt_main(getattr(signal, _SIGNAL))

    def _is_due(self) -> bool:
        now_s = time.perf_counter()
        if self._session is not None:
            return _is_loader_worker() or now_s - self._started_s > self._settings.seconds
        if self._times_s or not _cuda().is_initialized():
            self._idle_since_s = now_s
        return now_s - self._idle_since_s > self._settings.after_s

    def _look(self) -> None:
        if self._is_due():
            (self._begin if self._session is None else self._finish)()


def _cuda() -> Any:
    import torch

    return torch.cuda


def _is_loader_worker() -> bool:
    """A process that loads batches for another, and uses no GPU."""
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _median_step(ends_s: Sequence[float]) -> float | None:
    """Seconds from the end of one step to the next; None for fewer than three."""
    steps_s = sorted(later - sooner for sooner, later in pairwise(ends_s))
    return steps_s[len(steps_s) // 2] if len(steps_s) > 2 else None
