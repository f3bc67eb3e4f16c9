"""One GPU of the fake NVML: what it is told to be, and what it then answers."""

import ctypes
from dataclasses import dataclass, field
from typing import Any

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 3, 4, 9, 12
FUNCTION_NOT_FOUND, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH = 13, 15, 18
INVALID_ARGUMENT, NOT_FOUND = 2, 6

NEWER_CALLS = (
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetNumGpuCores",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetPcieSpeed",
    "nvmlDeviceGetPcieLinkMaxSpeed",
    "nvmlDeviceGetGspFirmwareMode",
    "nvmlDeviceGetGspFirmwareVersion",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetC2cModeInfoV",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlGpmQueryDeviceSupport",
    "nvmlSystemGetNvlinkBwMode",
    "nvmlSystemGetConfComputeState",
    "nvmlSystemGetConfComputeSettings",
)
"""What a driver from before CUDA 12 lacks."""

UNVERSIONED = ("nvmlDeviceGetComputeRunningProcesses",)
"""pynvml calls the newest version of these, and says so in its own way where there is none."""

VGPU_REFUSES = (
    "nvmlDeviceGetSerial",
    "nvmlDeviceGetBoardPartNumber",
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetPcieThroughput",
    "nvmlDeviceGetPcieReplayCounter",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetTopologyCommonAncestor",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetFieldValues",
)
"""What a vGPU in a VM commonly does not answer."""

Field = int | tuple[int, int]
_TX, _RX = 197, 198


class NVMLError(Exception):
    """`value` is NVML's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML return code {value}")
        self.value = value


class NVMLLibraryMismatchError(Exception):
    """What pynvml raises for FUNCTION_NOT_FOUND in the calls of UNVERSIONED: no NVMLError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeGpu:
    """One GPU: an idle H200 in a full slot, unless told otherwise."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-00000000-1111-2222-3333-444444444444"
    mig_uuids: tuple[str, ...] = ()
    serial: str = "1654000000000"
    bus_id: str = "00000000:18:00.0"
    architecture: int = 9
    capability: tuple[int, int] = (9, 0)
    memory_bytes: int = 150_754_820_096
    link: tuple[int, int] = (5, 16)
    """Generation and width now, or under load where `sleeping_link` says that it sleeps."""
    sleeping_link: tuple[int, int] | None = None
    max_link: tuple[int, int] = (5, 16)
    gpu_max_generation: int = 5
    nvlinks: int = 18
    nvlinks_up: int = 18
    nvlink_mb_per_s: int = 26_562
    c2c_mb_per_s: tuple[int, ...] = ()
    """Of each C2C link."""
    nodes_mask: int = 0b1
    cpus_mask: int = 0xFFFF
    ecc: bool = True
    ecc_uncorrected: int = 0
    mig: bool = False
    virtualization: int = 0
    clocks_mhz: tuple[int, int] = (345, 3201)
    """SM and memory, now."""
    busy_clocks_mhz: tuple[int, int] = (1755, 3201)
    max_clocks_mhz: tuple[int, int] = (1980, 3201)
    power_mw: int = 76_000
    busy_power_mw: int = 180_000
    power_limit_mw: int = 700_000
    temperature_c: int = 31
    busy_temperature_c: int = 44
    throttle_bits: int = 0x1
    energy_mj: int = 1_000_000
    counter_bits: int = 64
    """Width of the byte counters: they wrap there."""
    field_values: dict[Any, int] = field(default_factory=dict)
    """By field id, or by field id and scope; a field that is not named is derived, or 0."""
    field_errors: dict[Any, int] = field(default_factory=dict)
    """Return code by field id."""
    unknown_fields: tuple[int, ...] = ()
    """The driver refuses a whole call that names one of these."""
    pids: tuple[int, ...] = ()
    """Compute processes on it."""
    errors: dict[str, int] = field(default_factory=dict)
    """Return code by function name."""
    lost: bool = False

    def field(self, wanted: Field, busy: bool, copied_bytes: int) -> "Record":
        """The answer for one field, with its own return code."""
        number = wanted if isinstance(wanted, int) else wanted[0]
        code = self.field_errors.get(wanted, self.field_errors.get(number, 0))
        value = self.field_values.get(wanted, self.field_values.get(number))
        if value is None:
            value = self._derived(wanted, busy)
        if number == _RX:
            value = (value + copied_bytes) % (1 << self.counter_bits)
        return Record(nvmlReturn=code, value=Union(ullVal=value))

    def _derived(self, wanted: Field, busy: bool) -> int:
        number, scope = wanted if isinstance(wanted, tuple) else (wanted, 0)
        is_link = scope < len(self.c2c_mb_per_s)
        return {
            82: self.temperature_c + 5,
            91: self.nvlinks,
            164: self.nvlink_mb_per_s,
            170: len(self.c2c_mb_per_s),
            171: int(is_link),
            172: self.c2c_mb_per_s[scope] if is_link else 0,
            185: self.busy_power_mw if busy else self.power_mw,
            186: self.busy_power_mw if busy else self.power_mw,
        }.get(number, 0)


@dataclass(frozen=True, slots=True)
class Record:
    """Stands in for any of NVML's structures."""

    total: int = 0
    reserved: int = 0
    bar1Total: int = 0
    pid: int = 0
    busId: str = ""
    gpu: int = 0
    memory: int = 0
    isC2cEnabled: int = 0
    isSupportedDevice: int = 1
    environment: int = 0
    ccFeature: int = 0
    devToolsMode: int = 0
    nvmlReturn: int = 0
    valueType: int = 3
    value: Any = None


class Union(ctypes.Union):
    """c_nvmlValue_t."""

    _fields_ = (
        ("dVal", ctypes.c_double),
        ("uiVal", ctypes.c_uint),
        ("ulVal", ctypes.c_ulong),
        ("ullVal", ctypes.c_ulonglong),
        ("sllVal", ctypes.c_longlong),
        ("siVal", ctypes.c_int),
        ("usVal", ctypes.c_ushort),
    )


class FabricInfo(ctypes.Structure):
    """c_nvmlGpuFabricInfoV_t, as far as it is read."""

    _fields_ = (("state", ctypes.c_ubyte),)


class ConfidentialSettings(ctypes.Structure):
    """c_nvmlSystemConfComputeSettings_v1_t, as far as it is read."""

    _fields_ = (("multiGpuMode", ctypes.c_uint),)
