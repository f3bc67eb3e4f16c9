"""Facts about NVIDIA GPUs and their driver, read through an opened NVML.

Which name is which call is one flat table. The bus id and the UUID stay out of stored facts.
"""

import os
from collections.abc import Callable
from functools import partial
from typing import Any

from hostbench.facts.nvml import Nvml, NvmlUnavailable, open_nvml
from hostbench.facts.record import Fact, Facts, Group, Value, unknown
from hostbench.facts.software import hash_uuid

THROTTLE_WORDS = {
    0x1: "idle",
    0x2: "application-clocks",
    0x4: "power-cap",
    0x8: "hardware-slowdown",
    0x10: "sync-boost",
    0x20: "software-thermal",
    0x40: "hardware-thermal",
    0x80: "power-brake",
    0x100: "display-clocks",
    0x200: "board-limit",
    0x400: "reliability",
}
"""NVML's reasons for clocks below the maximum; `idle` and `application-clocks` are harmless."""

COUNTERS = {
    "throttle_power_cap_total_ns": 74,
    "throttle_sync_boost_total_ns": 76,
    "throttle_software_thermal_total_ns": 269,
    "throttle_hardware_thermal_total_ns": 270,
    "throttle_power_brake_total_ns": 271,
    "pcie_replay_total": 94,
    "pcie_tx_total_bytes": 197,
    "pcie_rx_total_bytes": 198,
}
"""NVML field ids. rx is into the GPU. The byte counters may wrap."""

_VIRTUALIZATION = ("none", "passthrough", "vgpu", "host-vgpu", "host-vsga")
_SM, _MEMORY, _UNCORRECTED, _SINCE_BOOT, _LIFETIME = 1, 2, 1, 0, 1

Read = Callable[[Any, Any], Value]
"""library and handle in, value out."""

_READS: dict[str, tuple[Read, ...]] = {
    "name": (lambda n, h: n.nvmlDeviceGetName(h),),
    "uuid_sha256": (lambda n, h: hash_uuid(n.nvmlDeviceGetUUID(h)),),
    "memory_bytes": (lambda n, h: n.nvmlDeviceGetMemoryInfo(h).total,),
    "pcie_generation": (lambda n, h: n.nvmlDeviceGetCurrPcieLinkGeneration(h),),
    "pcie_width": (lambda n, h: n.nvmlDeviceGetCurrPcieLinkWidth(h),),
    "pcie_max_generation": (lambda n, h: n.nvmlDeviceGetMaxPcieLinkGeneration(h),),
    "pcie_max_width": (lambda n, h: n.nvmlDeviceGetMaxPcieLinkWidth(h),),
    "pcie_gpu_max_generation": (lambda n, h: n.nvmlDeviceGetGpuMaxPcieLinkGeneration(h),),
    "virtualization": (lambda n, h: _word(_VIRTUALIZATION, n.nvmlDeviceGetVirtualizationMode(h)),),
    "mig": (lambda n, h: _switch(n.nvmlDeviceGetMigMode(h)[0]),),
    "persistence": (lambda n, h: _switch(n.nvmlDeviceGetPersistenceMode(h)),),
    "ecc": (lambda n, h: _switch(n.nvmlDeviceGetEccMode(h)[0]),),
    "ecc_uncorrected_since_boot_total": (
        lambda n, h: n.nvmlDeviceGetTotalEccErrors(h, _UNCORRECTED, _SINCE_BOOT),
    ),
    "ecc_uncorrected_lifetime_total": (
        lambda n, h: n.nvmlDeviceGetTotalEccErrors(h, _UNCORRECTED, _LIFETIME),
    ),
    "sm_clock_mhz": (lambda n, h: n.nvmlDeviceGetClockInfo(h, _SM),),
    "sm_clock_max_mhz": (lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _SM),),
    "memory_clock_mhz": (lambda n, h: n.nvmlDeviceGetClockInfo(h, _MEMORY),),
    "memory_clock_max_mhz": (lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _MEMORY),),
    "power_limit_w": (lambda n, h: n.nvmlDeviceGetEnforcedPowerLimit(h) / 1000,),
    "temperature_c": (
        lambda n, h: n.nvmlDeviceGetTemperatureV(h, 0),
        lambda n, h: n.nvmlDeviceGetTemperature(h, 0),
    ),
    "throttle_reasons": (
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksEventReasons(h)),
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
    ),
    "energy_total_mj": (lambda n, h: n.nvmlDeviceGetTotalEnergyConsumption(h),),
}

_NAMES = (*_READS, "num_other_processes", *COUNTERS)


def throttle_words(bits: int) -> str:
    """The set bits in words, joined by commas; "none" for no bit."""
    words = [word for bit, word in THROTTLE_WORDS.items() if bits & bit]
    rest = bits & ~sum(THROTTLE_WORDS)
    return ",".join([*words, f"unknown-{rest:#x}"] if rest else words) or "none"


def gpu_facts(nvml: Nvml, index: int, own_pids: frozenset[int] = frozenset()) -> Group:
    """Everything about one GPU. `own_pids` are processes of ours that may hold it, beside this."""
    handle = nvml.handle(index)
    if isinstance(handle, Fact):
        return dict.fromkeys(_NAMES, handle)
    group = {name: _read(nvml, calls, handle) for name, calls in _READS.items()}
    pids = own_pids | {os.getpid()}
    group["num_other_processes"] = nvml.read(lambda: _others(nvml.library, handle, pids))
    return group | nvml.fields(handle, COUNTERS)


def driver_facts(nvml: Nvml) -> Group:
    """The driver, the CUDA version that it supports, and confidential computing."""
    library = nvml.library
    return {
        "num_gpus": nvml.read(lambda: library.nvmlDeviceGetCount()),
        "driver": nvml.read(lambda: library.nvmlSystemGetDriverVersion()),
        "cuda_driver": nvml.read(lambda: _cuda(library.nvmlSystemGetCudaDriverVersion_v2())),
        "confidential_computing": nvml.read(
            lambda: _switch(library.nvmlSystemGetConfComputeState().ccFeature)
        ),
    }


def nvml_facts(library: Any = None, own_pids: frozenset[int] = frozenset()) -> Facts:
    """The group `nvml` and one group per GPU. Opens NVML and closes it; never raises."""
    try:
        nvml = open_nvml(library)
    except NvmlUnavailable as error:
        return {"nvml": no_driver_facts(str(error))}
    try:
        facts = {"nvml": driver_facts(nvml)}
        for index in range(nvml.count()):
            facts[f"gpu{index}"] = gpu_facts(nvml, index, own_pids)
        return facts
    finally:
        nvml.close()


def no_driver_facts(why: str) -> Group:
    names = ("num_gpus", "driver", "cuda_driver", "confidential_computing")
    return {name: unknown(why) for name in names}


def unread_gpu_facts(name: Fact, why: str) -> Group:
    """A GPU that is there but that NVML does not answer for."""
    return {**dict.fromkeys(_NAMES, unknown(why)), "name": name}


def _read(nvml: Nvml, calls: tuple[Read, ...], handle: Any) -> Fact:
    return nvml.read(*[partial(call, nvml.library, handle) for call in calls])


def _others(library: Any, handle: Any, own_pids: frozenset[int]) -> int:
    processes = library.nvmlDeviceGetComputeRunningProcesses(handle)
    return sum(process.pid not in own_pids for process in processes)


def _cuda(version: int) -> str:
    """13020 is CUDA 13.2."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _switch(state: int) -> str:
    return "on" if state else "off"


def _word(words: tuple[str, ...], index: int) -> str:
    return words[index] if 0 <= index < len(words) else f"unknown-{index}"
