"""What torch saw of a device and of the host: its profiler (Kineto, on cuda by CUPTI)."""

import json
import tempfile
from pathlib import Path
from typing import Any

import torch.profiler
from torch._C._profiler import _ExperimentalConfig

from hostbench.core.errors import Unavailable
from hostbench.device import chrome
from hostbench.device.activity import Observation
from hostbench.device.base import Device, Step

_WORK = "hostbench work"
"""The annotation around what is observed."""
_SHORT_S = 1e-6
_HEADS_S = (0.002, 0.05, 0.5)
"""How long the GPU is kept busy before the first short wait, try by try."""

_profiler: Any = torch.profiler


class Profiler:
    """Observes one device. That it sees nothing is remembered: each try takes time."""

    def __init__(self, device: Device) -> None:
        """Of a device whose `delay` is a kernel that only waits."""
        self._device = device
        self._refused: str | None = None

    def observe(
        self, work: Step, ready: Step = lambda: None, *, traced: bool = False
    ) -> Observation:
        """What the device did in `work` and a synchronize, between two short waits. Work that the
        profiler does not list (copies between GPUs) is just not there. A trace has operations of
        torch, calls of CUDA's runtime and the work of each stream.

        The profiler leaves out what it stamps before its beginning or after its end, and its stamps
        of a GPU that has idled may be early (pytorch#192021). So work counts as seen where both
        waits are, and is run again after a longer delay where they are not. Raises Unavailable
        where that does not help, or nothing is seen: CUPTI is missing or not permitted.
        """
        agree = self._device.agree
        if not agree(self._refused is None):
            raise Unavailable(
                self._refused or "the profiler of another rank saw no work of its GPU"
            )
        is_anything_seen = False
        for head_s in _HEADS_S:
            ready()
            self._device.synchronize()
            trace = self._trace(work, head_s)
            events = chrome.decode(trace).events
            is_anything_seen = any(event.cat in chrome.DEVICE_WORK for event in events)
            waits = [event for event in events if chrome.is_delay(event)]
            num_short = sum(wait.end_s - wait.start_s < 100 * _SHORT_S for wait in waits)
            if agree(num_short == 2):
                return Observation(
                    activities=sorted(chrome.activities(events), key=lambda seen: seen.start_s),
                    num_waits=chrome.count_waits(events, _WORK),
                    trace=json.loads(trace)["traceEvents"] if traced else (),
                )
        if is_anything_seen:
            raise Unavailable("the profiler lost part of what the GPU did")
        self._refused = "the profiler saw no work of the GPU: CUPTI is missing or not permitted"
        raise Unavailable(self._refused)

    def _trace(self, work: Step, head_s: float) -> bytes:
        kinds = [_profiler.ProfilerActivity.CPU, _profiler.ProfilerActivity.CUDA]
        device = self._device
        with _profiler.profile(activities=kinds) as profile:
            device.delay(head_s)
            device.delay(_SHORT_S)
            device.synchronize()
            with _profiler.record_function(_WORK):
                work()
            device.synchronize()
            device.delay(_SHORT_S)
            device.synchronize()
        return _exported(profile)


def cpu_events(work: Step) -> Any:
    """The events of a Chrome trace: what torch did in each thread while `work` ran."""
    try:
        all_threads = _ExperimentalConfig(profile_all_threads=True)
    except TypeError:  # an older torch sees the thread that calls, alone
        all_threads = None
    kinds = [_profiler.ProfilerActivity.CPU]
    with _profiler.profile(activities=kinds, experimental_config=all_threads) as profile:
        work()
    return json.loads(_exported(profile))["traceEvents"]


def _exported(profile: Any) -> bytes:
    """The Chrome trace that a profile writes."""
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return path.read_bytes()
