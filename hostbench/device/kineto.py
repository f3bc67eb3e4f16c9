"""What the CUDA device did, from torch's profiler (Kineto, CUPTI): kinds, bytes and intervals."""

import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch.profiler
from torch._C._profiler import _ExperimentalConfig

from hostbench.core.errors import Unavailable
from hostbench.device.activity import COMPUTE, Activity
from hostbench.device.base import Step

_MEMCPY = re.compile(
    r"Memcpy (?P<way>HtoD|DtoH|DtoD|PtoP)(?: \((?P<source>\w+) -> (?P<target>\w+)\))?"
)
_WAYS = {"HtoD": "H2D", "DtoH": "D2H", "DtoD": "D2D", "PtoP": "P2P"}

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

    def observe(self, work: Step) -> list[Activity]:
        """Run `work` and a synchronize under the profiler, between two short waits.

        The profiler leaves out what it stamps before its beginning or after its end, and its stamps
        of a GPU that has idled may be early (pytorch#192021). So work counts as seen where both
        waits are, and is run again after a longer delay where they are not. Raises Unavailable
        where that does not help, or nothing is seen: CUPTI is missing or not permitted. Work that
        the profiler does not list (copies between GPUs) is just not there.
        """
        return sorted(activities(self._seen(work)), key=lambda activity: activity.start_s)

    def trace(self, work: Step) -> list[dict[str, Any]]:
        """The same as the events of the Chrome trace that the profiler writes: operations of torch,
        calls of CUDA's runtime, the work of each stream. Raises Unavailable so, too."""
        events: list[dict[str, Any]] = self._seen(work)["traceEvents"]
        return events

    def _seen(self, work: Step) -> Any:
        """The whole trace of `work`; see `observe`."""
        seen: list[Mapping[str, Any]] = []
        if not self._agree(self._refused is None):
            raise Unavailable(
                self._refused or "the profiler of another rank saw no work of its GPU"
            )
        for head_s in _HEADS_S:
            trace = self._trace(work, head_s)
            seen = [event for event in trace["traceEvents"] if event.get("cat") in _DEVICE_WORK]
            if self._agree(sum(map(_is_short_wait, seen)) == 2):
                return trace
        if seen:
            raise Unavailable("the profiler lost part of what the GPU did")
        self._refused = "the profiler saw no work of the GPU: CUPTI is missing or not permitted"
        raise Unavailable(self._refused)

    def _trace(self, work: Step, head_s: float) -> Any:
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
    events: list[dict[str, Any]] = _exported(profile)["traceEvents"]
    return events


def _exported(profile: Any) -> Any:
    """The Chrome trace that a profile writes."""
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return json.loads(path.read_text())


def activities(trace: Mapping[str, Any]) -> Iterator[Activity]:
    """Device work in a Chrome trace as Kineto writes it, but for kernels that only wait; times
    there are microseconds."""
    for event in trace.get("traceEvents", []):
        category = event.get("cat")
        if event.get("ph") != "X" or category not in _DEVICE_WORK or _is_wait(event):
            continue
        start_s = float(event["ts"]) / 1e6
        what = _what(str(event["name"])) if category == "gpu_memcpy" else COMPUTE
        args = event.get("args", {})
        yield Activity(
            what=what,
            start_s=start_s,
            end_s=start_s + float(event["dur"]) / 1e6,
            nbytes=int(args.get("bytes", 0)) if category == "gpu_memcpy" else 0,
            stream=f"stream {args.get('stream', '?')}",
            place=f"GPU {args.get('device', '?')}",
            name=str(event["name"]) if what == COMPUTE else "",
        )


def _is_wait(event: Mapping[str, Any]) -> bool:
    return event.get("cat") == "kernel" and _SPIN in str(event["name"])


def _is_short_wait(event: Mapping[str, Any]) -> bool:
    return _is_wait(event) and float(event["dur"]) / 1e6 < _HEADS_S[0] / 2


def _what(name: str) -> str:
    """`Memcpy HtoD (Pinned -> Device)` is `H2D pinned`; what is not known keeps its name."""
    match = _MEMCPY.match(name)
    if match is None:
        return name
    way = _WAYS[match["way"]]
    host = {"H2D": match["source"], "D2H": match["target"]}.get(way)
    return f"{way} {host.lower()}" if host else way
