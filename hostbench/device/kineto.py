"""What the CUDA device did, from torch's profiler (Kineto, CUPTI): kinds, bytes and intervals."""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch.profiler
from torch._C._profiler import _ExperimentalConfig

from hostbench.core.errors import Unavailable
from hostbench.device.activity import COLLECTIVE, COMPUTE, Activity
from hostbench.device.base import Step
from hostbench.device.chrome import EventArgs, TraceEvent, copy_way, decode, is_collective

_DEVICE_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
_SPIN = "spin_kernel"
"""In the name of the kernel behind `torch.cuda._sleep` (aten/src/ATen/cuda/Sleep.cu)."""

_SHORT_S = 1e-6
_HEADS_S = (0.002, 0.05, 0.5)
"""How long the GPU is kept busy before the first short wait, try by try."""

_profiler: Any = torch.profiler


class Profiler:
    """Observes one device. That it sees nothing is remembered: each try takes time."""

    def __init__(
        self,
        delay: Callable[[float], None],
        synchronize: Step,
        agree: Callable[[bool], bool] = bool,
    ) -> None:
        """`delay` enqueues a kernel that only waits so many seconds; `agree` is the device's."""
        self._delay, self._synchronize, self._agree = delay, synchronize, agree
        self._refused: str | None = None

    def observe(self, work: Step, ready: Step = lambda: None) -> list[Activity]:
        """Run `work` and a synchronize under the profiler, between two short waits.

        The profiler leaves out what it stamps before its beginning or after its end, and its stamps
        of a GPU that has idled may be early (pytorch#192021). So work counts as seen where both
        waits are, and is run again after a longer delay where they are not. Raises Unavailable
        where that does not help, or nothing is seen: CUPTI is missing or not permitted. Work that
        the profiler does not list (copies between GPUs) is just not there.
        """
        seen = activities(decode(self._seen(work, ready)).events)
        return sorted(seen, key=lambda activity: activity.start_s)

    def trace(self, work: Step) -> list[dict[str, Any]]:
        """The same as the events of the Chrome trace that the profiler writes: operations of torch,
        calls of CUDA's runtime, the work of each stream. Raises Unavailable so, too."""
        return _all_events(self._seen(work, lambda: None))

    def _seen(self, work: Step, ready: Step) -> bytes:
        """The whole trace of `work`; see `observe`."""
        seen: list[TraceEvent] = []
        if not self._agree(self._refused is None):
            raise Unavailable(
                self._refused or "the profiler of another rank saw no work of its GPU"
            )
        for head_s in _HEADS_S:
            ready()
            self._synchronize()
            trace = self._trace(work, head_s)
            seen = [event for event in decode(trace).events if event.cat in _DEVICE_WORK]
            if self._agree(sum(map(_is_short_wait, seen)) == 2):
                return trace
        if seen:
            raise Unavailable("the profiler lost part of what the GPU did")
        self._refused = "the profiler saw no work of the GPU: CUPTI is missing or not permitted"
        raise Unavailable(self._refused)

    def _trace(self, work: Step, head_s: float) -> bytes:
        kinds = [_profiler.ProfilerActivity.CPU, _profiler.ProfilerActivity.CUDA]
        with _profiler.profile(activities=kinds) as profile:
            self._delay(head_s)
            self._delay(_SHORT_S)
            self._synchronize()
            work()
            self._synchronize()
            self._delay(_SHORT_S)
            self._synchronize()
        return _exported(profile)


def cpu_events(work: Step) -> list[dict[str, Any]]:
    """The events of a Chrome trace: what torch did in each thread while `work` ran."""
    try:
        all_threads = _ExperimentalConfig(profile_all_threads=True)
    except TypeError:  # an older torch sees the thread that calls, alone
        all_threads = None
    kinds = [_profiler.ProfilerActivity.CPU]
    with _profiler.profile(activities=kinds, experimental_config=all_threads) as profile:
        work()
    return _all_events(_exported(profile))


def _exported(profile: Any) -> bytes:
    """The Chrome trace that a profile writes."""
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return path.read_bytes()


def _all_events(trace: bytes) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(trace)["traceEvents"]
    return events


def activities(events: Iterable[TraceEvent]) -> Iterator[Activity]:
    """Device work in a Chrome trace, but for kernels that only wait."""
    for event in events:
        if event.ph != "X" or event.cat not in _DEVICE_WORK or _is_wait(event):
            continue
        name, args = str(event.name), event.args or EventArgs()
        start_s = (event.ts or 0.0) / 1e6
        is_copy = event.cat == "gpu_memcpy"
        kernel = COLLECTIVE if is_collective(name) else COMPUTE
        yield Activity(
            what=copy_way(name) if is_copy else kernel,
            start_s=start_s,
            end_s=start_s + (event.dur or 0.0) / 1e6,
            nbytes=args.nbytes or 0 if is_copy else 0,
            stream=f"stream {'?' if args.stream is None else args.stream}",
            place=f"GPU {'?' if args.device is None else args.device}",
            name="" if is_copy else name,
        )


def _is_wait(event: TraceEvent) -> bool:
    return event.cat == "kernel" and _SPIN in str(event.name)


def _is_short_wait(event: TraceEvent) -> bool:
    return _is_wait(event) and (event.dur or 0.0) / 1e6 < _HEADS_S[0] / 2
