"""What torch saw of a device and of the host: its profiler (Kineto, on cuda by CUPTI)."""

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch.profiler
from torch._C._profiler import _ExperimentalConfig

from hostbench.device.base import Step

profiler: Any = torch.profiler


def chrome_trace(work: Step, *, on_cuda: bool) -> bytes:
    """The Chrome trace of what torch did while `work` ran: without CUDA in each thread; with it
    also calls of CUDA's runtime and the work of each stream."""
    kinds, more = [profiler.ProfilerActivity.CPU], dict[str, Any]()
    if on_cuda:
        kinds.append(profiler.ProfilerActivity.CUDA)
    else:
        with suppress(TypeError):  # an older torch sees the thread that calls, alone
            more["experimental_config"] = _ExperimentalConfig(profile_all_threads=True)
    with profiler.profile(activities=kinds, **more) as profile:
        work()
    with tempfile.TemporaryDirectory(prefix="hostbench-") as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        return path.read_bytes()
