"""What the CUDA device did, from torch's profiler (Kineto, CUPTI): kinds, bytes and intervals."""

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch.profiler

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

_profiler: Any = torch.profiler


def observe(work: Step, synchronize: Step, spin: Step) -> list[Activity]:
    """Run `work` and a synchronize under the profiler, after `spin`, a kernel that only waits.

    Raises Unavailable where not even that kernel is seen: CUPTI is missing or not permitted. Work
    that the profiler does not list (copies between GPUs, on some) is just not there.
    """
    kinds = [_profiler.ProfilerActivity.CPU, _profiler.ProfilerActivity.CUDA]
    with _profiler.profile(activities=kinds) as profile:
        spin()
        work()
        synchronize()
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        trace = json.loads(path.read_text())
    if not any(event.get("cat") in _DEVICE_WORK for event in trace.get("traceEvents", [])):
        raise Unavailable("the profiler saw no work of the GPU: CUPTI is missing or not permitted")
    return sorted(activities(trace), key=lambda one: one.start_s)


def activities(trace: Mapping[str, Any]) -> Iterator[Activity]:
    """Device work in a Chrome trace as Kineto writes it, but for kernels that only wait; times
    there are microseconds."""
    for event in trace.get("traceEvents", []):
        category = event.get("cat")
        if event.get("ph") != "X" or category not in _DEVICE_WORK:
            continue
        if category == "kernel" and _SPIN in str(event["name"]):
            continue
        start_s = float(event["ts"]) / 1e6
        what = _what(str(event["name"])) if category == "gpu_memcpy" else COMPUTE
        yield Activity(
            what=what,
            start_s=start_s,
            end_s=start_s + float(event["dur"]) / 1e6,
            nbytes=int(event.get("args", {}).get("bytes", 0)) if category == "gpu_memcpy" else 0,
        )


def _what(name: str) -> str:
    """`Memcpy HtoD (Pinned -> Device)` is `H2D pinned`; what is not known keeps its name."""
    match = _MEMCPY.match(name)
    if match is None:
        return name
    way = _WAYS[match["way"]]
    host = {"H2D": match["source"], "D2H": match["target"]}.get(way)
    return f"{way} {host.lower()}" if host else way
