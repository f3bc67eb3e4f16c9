"""Checks of what NVML tells while copies run: the link's state, and GPM."""

import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hostbench.core.errors import Unavailable
from hostbench.device import open_device
from hostbench.device.base import Device
from hostbench.facts.nvml import Nvml
from hostbench.gpu_check.nvml import BLOCK, handle_of_device, opened
from hostbench.gpu_check.record import Answer, answered

_GPM = {2: "sm_util_percent", 20: "pcie_tx_mib_per_s", 21: "pcie_rx_mib_per_s"}


def link(folder: Path) -> Answer:
    nvml = opened()
    # Before CUDA wakes the device; only where NVML's device 0 must be torch's.
    before = read_link(nvml, nvml.handle(0)) if nvml.count() == 1 else "more than one GPU"
    device = open_device("cuda")
    return ask_link(device, nvml, handle_of_device(nvml), before)


def ask_link(device: Device, nvml: Nvml, handle: Any, before: str, load_s: float = 2.0) -> Answer:
    idle = read_link(nvml, handle)
    loaded = _while_copying(device, lambda: read_link(nvml, handle), load_s)
    data: dict[str, Any] = {
        "before_cuda": before,
        "idle": idle,
        "under_load": sorted(set(loaded)),
        "num_readings": len(loaded),
        "maximum": read_link(nvml, handle, "Max"),
    }
    return answered(", ".join(f"{name} {value}" for name, value in data.items()), **data)


def read_link(nvml: Nvml, handle: Any, which: str = "Curr") -> str:
    """`gen 5 x16`, or in the place of a number why it is not known."""
    functions = (f"nvmlDeviceGet{which}PcieLink{name}" for name in ("Generation", "Width"))
    generation, width = (nvml.read(partial(_call, nvml, name, handle)) for name in functions)
    return f"gen {generation} x{width}"


def _call(nvml: Nvml, function: str, *arguments: Any) -> Any:
    return getattr(nvml.library, function)(*arguments)


def _while_copying(device: Device, read: Callable[[], str], seconds: float) -> list[str]:
    """What `read` says, in a thread of its own, while this one copies to the device."""
    readings: list[str] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(0.02):
            readings.append(read())

    watcher = threading.Thread(target=watch, daemon=True)
    _copy_for(device, seconds / 10)
    watcher.start()
    _copy_for(device, seconds)
    stop.set()
    watcher.join()
    return readings


def _copy_for(device: Device, seconds: float) -> None:
    target = device.buffer(BLOCK)
    source = device.host_buffer(BLOCK, pinned=True)
    end_s = device.now() + seconds
    while device.now() < end_s:
        for _ in range(4):
            device.copy(target, source, blocking=False)
        device.synchronize()


def gpm(folder: Path) -> Answer:
    device, nvml = open_device("cuda"), opened()
    handle = handle_of_device(nvml)
    raw = nvml.library
    if not raw.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
        raise Unavailable("this device has no GPM; it came with Hopper")
    request = raw.c_nvmlGpmMetricsGet_t()
    request.version, request.numMetrics = raw.NVML_GPM_METRICS_GET_VERSION, len(_GPM)
    for place, number in enumerate(_GPM):
        request.metrics[place].metricId = number
    request.sample1 = raw.nvmlGpmSampleGet(handle, raw.nvmlGpmSampleAlloc())
    _copy_for(device, 0.5)
    request.sample2 = raw.nvmlGpmSampleGet(handle, raw.nvmlGpmSampleAlloc())
    raw.nvmlGpmMetricsGet(request)
    metrics = list(request.metrics[: len(_GPM)])
    values = {_GPM[metric.metricId]: metric.value for metric in metrics if metric.nvmlReturn == 0}
    listed = ", ".join(f"{name} {value:.1f}" for name, value in values.items())
    return answered(f"uid {os.geteuid()}, during H2D copies: {listed or 'no metric'}", **values)
