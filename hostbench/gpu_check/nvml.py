"""Checks of what NVML tells this process: counters and virtualization.

Each check is two functions: one that opens device 0 and NVML, one that asks them (with a fake in
tests).
"""

import os
import time
from pathlib import Path
from typing import Any

from hostbench.core.errors import Unavailable
from hostbench.core.units import GIB, MIB
from hostbench.device import open_device
from hostbench.device.base import Device
from hostbench.facts.nvml import Nvml, NvmlUnavailable, open_nvml
from hostbench.facts.record import Fact
from hostbench.gpu_check.record import Answer, answered

_PCIE_BYTES = {"tx": 197, "rx": 198}
_THROTTLED_NS = {"sw_power_cap": 74, "sync_boost": 76, "sw_thermal": 269, "hw_thermal": 270} | {
    "hw_power_brake": 271
}
_VIRTUALIZATION = ("none", "passthrough", "vGPU", "host vGPU", "host vSGA")
BLOCK = 256 * MIB


def opened() -> Nvml:
    """NVML. Raises Unavailable with the reason where it cannot be opened."""
    try:
        return open_nvml()
    except NvmlUnavailable as error:
        raise Unavailable(str(error)) from error


def handle_of_device(nvml: Nvml) -> Any:
    """NVML's handle of torch's device 0, by UUID: the two do not count devices alike."""
    import torch

    facts: Any = torch.cuda.get_device_properties(0)
    index = nvml.index_of(str(facts.uuid))
    handle = None if index is None else nvml.handle(index)
    if handle is None or isinstance(handle, Fact):
        raise Unavailable(f"NVML shows no GPU with torch's UUID (MIG?): {handle}")
    return handle


def pcie_bytes(folder: Path) -> Answer:
    device, nvml = open_device("cuda"), opened()
    return ask_pcie_bytes(device, nvml, handle_of_device(nvml))


def ask_pcie_bytes(device: Device, nvml: Nvml, handle: Any, settle_s: float = 1.0) -> Answer:
    """Copy 1 GiB each way and read the counters before, at once, and `settle_s` later."""
    host, there = device.host_buffer(BLOCK, pinned=True), device.buffer(BLOCK)
    seen: dict[str, list[dict[str, float]]] = {}
    for way, target, source in (("H2D", there, host), ("D2H", host, there)):
        readings = [_numbers(nvml, handle)]
        for _ in range(GIB // BLOCK):
            device.copy(target, source, blocking=False)
        device.synchronize()
        readings.append(_numbers(nvml, handle))
        time.sleep(settle_s)
        readings.append(_numbers(nvml, handle))
        seen[way] = readings
    return answered("; ".join(_growth(way, readings) for way, readings in seen.items()), **seen)


def _numbers(nvml: Nvml, handle: Any) -> dict[str, float]:
    facts = nvml.fields(handle, _PCIE_BYTES)
    found = {name: fact.value for name, fact in facts.items() if isinstance(fact.value, int)}
    if len(found) < len(facts):
        reasons = ", ".join(f"{name}: {fact}" for name, fact in facts.items())
        raise Unavailable(f"fields 197/198 cannot be read ({reasons})")
    return {**found}


def _growth(way: str, readings: list[dict[str, float]]) -> str:
    """How the counters grew over 1 GiB, as shares of it: 1 is exact."""
    parts = []
    for name in _PCIE_BYTES:
        values = [reading[name] for reading in readings]
        at_once, later = ((value - values[0]) / GIB for value in values[1:])
        order = "monotonic" if values == sorted(values) else "NOT monotonic"
        parts.append(f"{name} {at_once:.4f} at once, {later:.4f} later, {order}")
    return f"{way} of 1 GiB: {', '.join(parts)}"


def throttle_times(folder: Path) -> Answer:
    open_device("cuda")
    nvml = opened()
    return ask_throttle_times(nvml, handle_of_device(nvml))


def ask_throttle_times(nvml: Nvml, handle: Any) -> Answer:
    facts = nvml.fields(handle, _THROTTLED_NS)
    shown = {name: str(fact) for name, fact in facts.items()}
    listed = ", ".join(f"{name} {text}" for name, text in shown.items())
    return answered(f"nanoseconds, read as uid {os.geteuid()}: {listed}", **shown)


def protection(folder: Path) -> Answer:
    open_device("cuda")
    nvml = opened()
    return ask_protection(nvml, handle_of_device(nvml))


def ask_protection(nvml: Nvml, handle: Any) -> Answer:
    raw = nvml.library

    def virtualization() -> str:
        mode = int(raw.nvmlDeviceGetVirtualizationMode(handle))
        return _VIRTUALIZATION[mode] if mode < len(_VIRTUALIZATION) else f"mode {mode}"

    data = {
        "confidential_computing": nvml.read(lambda: raw.nvmlSystemGetConfComputeState().ccFeature),
        "virtualization": nvml.read(virtualization),
        "mig": nvml.read(lambda: str(raw.nvmlDeviceGetMigMode(handle))),
    }
    shown = {name: str(fact) for name, fact in data.items()}
    return answered(", ".join(f"{name} {text}" for name, text in shown.items()), **shown)
