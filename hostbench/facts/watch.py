"""Watching a run: NVML sampled while it goes on, and what the counters grew by in each family.

A thread reads a few cheap facts four times a second through an NVML that stays open. Without NVML
there is no thread. The counters are read on the caller's thread, where one family's launch ends and
the next begins: a call into NVML that hangs there holds the run up, unless the thread hung before.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from hostbench.facts.cpu_time import cpu_counters, cpu_shares
from hostbench.facts.cuda_order import cuda_indices
from hostbench.facts.gpu import FIELDS, gpu_counters, gpu_reads
from hostbench.facts.hardware import hidden_by_user
from hostbench.facts.nvml import Nvml, NvmlUnavailable, open_nvml
from hostbench.facts.record import (
    Fact,
    Facts,
    Group,
    counter_deltas,
    known,
    summed,
    to_json,
    unknown,
)
from hostbench.facts.under_load import BYTES, WATCHED, LoadReadings

INTERVAL_S = 0.25
PATIENCE_S = 10.0
"""A reading that takes longer hangs: NVML is not asked again."""
VARIABLE = "HOSTBENCH_WATCH"
"""`0` leaves the sampling out, to see that it changes nothing."""
_BYTES = {name: FIELDS[name] for name in BYTES}

P = ParamSpec("P")
T = TypeVar("T")
Write = Callable[[str, Mapping[str, Any]], None]
"""Takes `during` or `after <family>`, and the facts as JSON: `JournalWriter.facts`."""


def unwatched(device: str) -> str | None:
    """Why a run on this device watches no GPU; None where it does."""
    return None if device == "cuda" else f"a run on {device} uses no GPU"


class Watch:
    """Use as a context manager around the launches of a run; call `family` before each launch.

    Writes `after <family>` whenever a launch of it has ended: the state of now, and the growth of
    the counters summed over its launches so far (so the last one written is the whole). Writes
    `during` at the end.
    """

    def __init__(
        self,
        write: Write,
        library: Any = None,
        *,
        off: str | None = None,
        interval_s: float = INTERVAL_S,
        patience_s: float = PATIENCE_S,
        root: Path = Path("/"),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`off`: why no GPU is to be watched, as when the run uses none."""
        environ = os.environ if environ is None else environ
        self._write, self._library, self._interval_s, self._root = write, library, interval_s, root
        self._patience_s = patience_s
        self._why = off or hidden_by_user(environ)
        if environ.get(VARIABLE) == "0":
            self._why = f"{VARIABLE}=0"
        self._nvml: Nvml | None = None
        self._environ = environ
        self._seen: dict[int, LoadReadings] = {}
        self._spent_s: list[float] = []
        self._failure: str | None = None
        self._reading_since_s: float | None = None
        self._family: str | None = None
        self._launches: dict[str, int] = {}
        self._deltas: dict[str, Facts] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> "Watch":
        if self._why is None:
            try:
                self._nvml = open_nvml(self._library)
            except NvmlUnavailable as error:
                self._why = str(error)
        if self._nvml is not None:
            used = self._guarded(_used, self._nvml, self._environ) or []
            self._seen = {index: LoadReadings() for index in used}
        self._began = self._since = self._guarded(self._counters) or {}
        if self._seen:
            self._thread = threading.Thread(target=self._run, name="hostbench-watch", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join(self._patience_s)
        ended = self._guarded(self._counters) or {}
        self._guarded(self._end_family, ended)
        self._guarded(lambda: self._write("during", to_json(self._during(ended))))
        if self._nvml is not None and not self._hangs():
            self._guarded(self._nvml.close)

    def family(self, name: str) -> None:
        """A launch of this family begins now; the launch before it has ended."""
        read = self._guarded(self._counters) or {}
        self._guarded(self._end_family, read)
        self._family, self._since = name, read

    def sample(self) -> None:
        """One reading of every GPU."""
        nvml = self._nvml
        if nvml is None:
            return
        began_s = time.perf_counter()
        for index, seen in self._seen.items():
            seen.add(self._reading(nvml, index))
        self._spent_s.append(time.perf_counter() - began_s)

    def _run(self) -> None:
        self._guarded(self._sample_until_stopped)

    def _sample_until_stopped(self) -> None:
        while not self._stop.is_set():
            self._reading_since_s = time.perf_counter()
            self.sample()
            self._reading_since_s = None
            self._stop.wait(self._interval_s)

    def _guarded(self, do: Callable[P, T], *args: P.args, **options: P.kwargs) -> T | None:
        """None where it raises: facts never end a run."""
        try:
            return do(*args, **options)
        except Exception as error:
            self._failure = f"{type(error).__name__}: {error}"
            return None

    def _hangs(self) -> bool:
        """Whether the thread is stuck in a call into NVML; then nobody else calls it either."""
        since_s, thread = self._reading_since_s, self._thread
        if since_s is None or thread is None or not thread.is_alive():
            return False
        stuck = self._stop.is_set() or time.perf_counter() - since_s > self._patience_s
        if stuck:
            self._failure = f"a call into NVML did not return within {self._patience_s:g} s"
        return stuck

    def _reading(self, nvml: Nvml, index: int) -> Group:
        handle = nvml.handle(index)
        if isinstance(handle, Fact):
            return dict.fromkeys((*WATCHED, *BYTES), handle)
        return gpu_reads(nvml, index, [*WATCHED]) | nvml.fields(handle, _BYTES)

    def _counters(self) -> Facts:
        found: Facts = {"host": cpu_counters(self._root)}
        if self._nvml is not None and not self._hangs():
            for index in self._seen:
                found[f"gpu{index}"] = gpu_counters(self._nvml, index)
        return found

    def _end_family(self, ended: Facts) -> None:
        name = self._family
        if name is None:
            return
        self._family = None
        grown = counter_deltas(self._since, ended)
        self._deltas[name] = summed(self._deltas[name], grown) if name in self._deltas else grown
        self._launches[name] = self._launches.get(name, 0) + 1
        self._write(f"after {name}", to_json(self._after(name)))

    def _after(self, name: str) -> Facts:
        """State now under `gpu0`; growth of the counters under `host_deltas` and `gpu0_deltas`."""
        deltas, nvml = self._deltas[name], self._nvml
        launches = {"num_watched_launches": known(self._launches[name])}
        found: Facts = {"host": {**launches, **cpu_shares(deltas)}}
        if nvml is None:
            found["nvml"] = {"num_watch_samples": unknown(self._why or "not watched")}
        elif not self._hangs():
            found |= {f"gpu{index}": self._reading(nvml, index) for index in self._seen}
        return found | {f"{group}_deltas": members for group, members in deltas.items()}

    def _during(self, ended: Facts) -> Facts:
        found: Facts = {"host": cpu_shares(counter_deltas(self._began, ended))}
        failure = {"watch_failure": known(self._failure)} if self._failure else {}
        if self._nvml is None:
            unseen = {"num_watch_samples": unknown(self._why or "not watched")}
            return found | {"nvml": {**unseen, **failure}}
        num, spent_s = len(self._spent_s), sum(self._spent_s)
        none = unknown("the run ended before the first reading")
        found["nvml"] = {
            "num_watch_samples": known(num),
            "watch_interval_s": known(self._interval_s),
            "watch_sample_s": known(spent_s / num) if num else none,
            **failure,
        }
        return found | {f"gpu{index}": seen.facts() for index, seen in self._seen.items()}


def _used(nvml: Nvml, environ: Mapping[str, str]) -> list[int]:
    """The GPUs that CUDA shows to this process; all where that cannot be told."""
    order = cuda_indices(nvml, environ)
    shown = [index for index, fact in enumerate(order) if fact.value is not None]
    return shown or list(range(nvml.count()))
