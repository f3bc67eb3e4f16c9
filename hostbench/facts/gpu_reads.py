"""Which fact of a GPU is which NVML call: flat tables, each newest call first.

Several calls for one fact are tried in turn where one of them is refused.
"""

import ctypes
from collections.abc import Callable
from typing import Any

from hostbench.facts import words
from hostbench.facts.environment import hash_uuid
from hostbench.facts.nvml import Field, field_value
from hostbench.facts.record import Value
from hostbench.facts.words import switch, throttle_words, word

Read = Callable[[Any, Any], Value]
"""library and handle in, value out."""
Reads = dict[str, tuple[Read, ...]]

COUNTERS: dict[str, Field] = {
    "throttle_power_cap_total_ns": 74,
    "throttle_sync_boost_total_ns": 76,
    "throttle_software_thermal_total_ns": 269,
    "throttle_hardware_thermal_total_ns": 270,
    "throttle_power_brake_total_ns": 271,
    "pcie_replay_total": 94,
    "pcie_tx_total_bytes": 197,
    "pcie_rx_total_bytes": 198,
    "pcie_replay_rollover_total": 95,
    "pcie_l0_to_recovery_total": 169,
    "pcie_correctable_total": 173,
    "pcie_naks_received_total": 174,
    "pcie_receiver_error_total": 175,
    "pcie_bad_tlp_total": 176,
    "pcie_naks_sent_total": 177,
    "pcie_bad_dllp_total": 178,
    "pcie_non_fatal_total": 179,
    "pcie_fatal_total": 180,
    "pcie_unsupported_request_total": 181,
    "pcie_lcrc_error_total": 182,
    "pcie_lane_error_total": 183,
    "nvlink_crc_total": 38,
    "nvlink_replay_total": 52,
    "nvlink_recovery_total": 59,
    "nvlink_tx_total_kib": (138, 0xFFFFFFFF),
    "nvlink_rx_total_kib": (139, 0xFFFFFFFF),
}
"""NVML field ids. rx is into the GPU. The byte counters may wrap. Scope 2^32-1 is all links."""

_GRAPHICS, _SM, _MEMORY = 0, 1, 2
_CORRECTED, _UNCORRECTED, _SINCE_BOOT, _LIFETIME = 0, 1, 0, 1
_SLOWDOWN, _TX, _RX = 1, 0, 1
_MEMORY_TEMPERATURE, _POWER_AVERAGE, _POWER_INSTANT = 82, 185, 186

IDENTITY: Reads = {
    "serial": (lambda n, h: n.nvmlDeviceGetSerial(h),),
    "pci_bus_id": (lambda n, h: n.nvmlDeviceGetPciInfo(h).busId,),
    "uuid": (lambda n, h: n.nvmlDeviceGetUUID(h),),
}
"""Stored only if asked for."""

PRODUCT: Reads = {
    "name": (lambda n, h: n.nvmlDeviceGetName(h),),
    "uuid_sha256": (lambda n, h: _hashed(n.nvmlDeviceGetUUID(h)),),
    "architecture": (lambda n, h: word(words.ARCHITECTURE, n.nvmlDeviceGetArchitecture(h)),),
    "compute_capability": (lambda n, h: "{}.{}".format(*n.nvmlDeviceGetCudaComputeCapability(h)),),
    "num_cores": (lambda n, h: n.nvmlDeviceGetNumGpuCores(h),),
    "board_part_number": (lambda n, h: n.nvmlDeviceGetBoardPartNumber(h),),
    "vbios": (lambda n, h: n.nvmlDeviceGetVbiosVersion(h),),
    "memory_bytes": (
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h).total,
        lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).total,
    ),
    "memory_reserved_bytes": (lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).reserved,),
    "memory_bus_width_bits": (lambda n, h: n.nvmlDeviceGetMemoryBusWidth(h),),
    "bar1_bytes": (lambda n, h: n.nvmlDeviceGetBAR1MemoryInfo(h).bar1Total,),
    "gpm_supported": (lambda n, h: bool(n.nvmlGpmQueryDeviceSupport(h).isSupportedDevice),),
}

LINK: Reads = {
    "pcie_generation": (lambda n, h: n.nvmlDeviceGetCurrPcieLinkGeneration(h),),
    "pcie_width": (lambda n, h: n.nvmlDeviceGetCurrPcieLinkWidth(h),),
    "pcie_max_generation": (lambda n, h: n.nvmlDeviceGetMaxPcieLinkGeneration(h),),
    "pcie_max_width": (lambda n, h: n.nvmlDeviceGetMaxPcieLinkWidth(h),),
    "pcie_gpu_max_generation": (lambda n, h: n.nvmlDeviceGetGpuMaxPcieLinkGeneration(h),),
    "pcie_speed_mbps_per_lane": (lambda n, h: n.nvmlDeviceGetPcieSpeed(h),),
    "pcie_max_speed_mbps_per_lane": (
        lambda n, h: words.PCIE_SPEED_MBPS.get(n.nvmlDeviceGetPcieLinkMaxSpeed(h)),
    ),
    "pcie_tx_kb_per_s": (lambda n, h: n.nvmlDeviceGetPcieThroughput(h, _TX),),
    "pcie_rx_kb_per_s": (lambda n, h: n.nvmlDeviceGetPcieThroughput(h, _RX),),
    "fabric_state": (lambda n, h: _fabric(n, h),),
}
"""Both rates are over 20 ms, and reading one takes that long."""

MODE: Reads = {
    "virtualization": (
        lambda n, h: word(words.VIRTUALIZATION, n.nvmlDeviceGetVirtualizationMode(h)),
    ),
    "mig": (lambda n, h: switch(n.nvmlDeviceGetMigMode(h)[0]),),
    "mig_pending": (lambda n, h: switch(n.nvmlDeviceGetMigMode(h)[1]),),
    "persistence": (lambda n, h: switch(n.nvmlDeviceGetPersistenceMode(h)),),
    "compute_mode": (lambda n, h: word(words.COMPUTE_MODE, n.nvmlDeviceGetComputeMode(h)),),
    "gsp_firmware": (lambda n, h: switch(n.nvmlDeviceGetGspFirmwareMode(h)[0]),),
    "gsp_firmware_version": (lambda n, h: n.nvmlDeviceGetGspFirmwareVersion(h),),
    "addressing_mode": (lambda n, h: word(words.ADDRESSING, n.nvmlDeviceGetAddressingMode(h)),),
}

HEALTH: Reads = {
    "ecc": (lambda n, h: switch(n.nvmlDeviceGetEccMode(h)[0]),),
    "ecc_pending": (lambda n, h: switch(n.nvmlDeviceGetEccMode(h)[1]),),
    "ecc_corrected_since_boot_total": (lambda n, h: _ecc(n, h, _CORRECTED, _SINCE_BOOT),),
    "ecc_corrected_lifetime_total": (lambda n, h: _ecc(n, h, _CORRECTED, _LIFETIME),),
    "ecc_uncorrected_since_boot_total": (lambda n, h: _ecc(n, h, _UNCORRECTED, _SINCE_BOOT),),
    "ecc_uncorrected_lifetime_total": (lambda n, h: _ecc(n, h, _UNCORRECTED, _LIFETIME),),
    "remapped_rows_corrected_total": (lambda n, h: n.nvmlDeviceGetRemappedRows(h)[0],),
    "remapped_rows_uncorrected_total": (lambda n, h: n.nvmlDeviceGetRemappedRows(h)[1],),
    "remapped_rows_pending": (lambda n, h: bool(n.nvmlDeviceGetRemappedRows(h)[2]),),
    "remapped_rows_failure": (lambda n, h: bool(n.nvmlDeviceGetRemappedRows(h)[3]),),
}

STATE: Reads = {
    "sm_clock_mhz": (lambda n, h: n.nvmlDeviceGetClockInfo(h, _SM),),
    "sm_clock_max_mhz": (lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _SM),),
    "memory_clock_mhz": (lambda n, h: n.nvmlDeviceGetClockInfo(h, _MEMORY),),
    "memory_clock_max_mhz": (lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _MEMORY),),
    "graphics_clock_mhz": (lambda n, h: n.nvmlDeviceGetClockInfo(h, _GRAPHICS),),
    "graphics_clock_max_mhz": (lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, _GRAPHICS),),
    "performance_state": (lambda n, h: _pstate(n.nvmlDeviceGetPerformanceState(h)),),
    "power_w": (
        lambda n, h: _watts(field_value(n, h, _POWER_INSTANT)),
        lambda n, h: _watts(n.nvmlDeviceGetPowerUsage(h)),
    ),
    "power_average_w": (lambda n, h: _watts(field_value(n, h, _POWER_AVERAGE)),),
    "power_limit_w": (lambda n, h: _watts(n.nvmlDeviceGetEnforcedPowerLimit(h)),),
    "power_default_limit_w": (lambda n, h: _watts(n.nvmlDeviceGetPowerManagementDefaultLimit(h)),),
    "temperature_c": (
        lambda n, h: n.nvmlDeviceGetTemperatureV(h, 0),
        lambda n, h: n.nvmlDeviceGetTemperature(h, 0),
    ),
    "memory_temperature_c": (lambda n, h: field_value(n, h, _MEMORY_TEMPERATURE),),
    "slowdown_margin_c": (
        lambda n, h: n.nvmlDeviceGetMarginTemperature(h),
        lambda n, h: (
            n.nvmlDeviceGetTemperatureThreshold(h, _SLOWDOWN) - n.nvmlDeviceGetTemperature(h, 0)
        ),
    ),
    "throttle_reasons": (
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksEventReasons(h)),
        lambda n, h: throttle_words(n.nvmlDeviceGetCurrentClocksThrottleReasons(h)),
    ),
    "gpu_utilization_percent": (lambda n, h: n.nvmlDeviceGetUtilizationRates(h).gpu,),
    "memory_utilization_percent": (lambda n, h: n.nvmlDeviceGetUtilizationRates(h).memory,),
    "energy_total_mj": (lambda n, h: n.nvmlDeviceGetTotalEnergyConsumption(h),),
}

READS: Reads = {**PRODUCT, **LINK, **MODE, **HEALTH, **STATE}


def _hashed(uuid: str) -> str | None:
    return hash_uuid(uuid) if uuid else None


def _ecc(library: Any, handle: Any, kind: int, since: int) -> int:
    return int(library.nvmlDeviceGetTotalEccErrors(handle, kind, since))


def _watts(milliwatts: Any) -> float:
    return float(milliwatts) / 1000


def _pstate(number: int) -> str | None:
    """P0 is fastest; 32 is NVML's word for unknown."""
    return f"P{number}" if 0 <= number < 32 else None


def _fabric(library: Any, handle: Any) -> str:
    info = library.c_nvmlGpuFabricInfoV_t()
    library.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
    return word(words.FABRIC, info.state)
