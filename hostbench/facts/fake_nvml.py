"""A pynvml that answers what it is told: for tests, and to see how hostbench treats a GPU.

It has the names and the habits of the real module: errors carry `.value`, each field its own return
code, an unknown GPU is an error, and NVML_P2P_CAPS_INDEX_READ is the tuple that it really is.
"""

import ctypes
from dataclasses import dataclass, field
from typing import Any

NOT_SUPPORTED, NO_PERMISSION, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND = 3, 4, 9, 12
FUNCTION_NOT_FOUND, GPU_IS_LOST, LIB_RM_VERSION_MISMATCH = 13, 15, 18

NEWER_CALLS = (
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlSystemGetConfComputeState",
)
"""What a driver from before CUDA 12 lacks."""

VGPU_REFUSES = (
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetFieldValues",
)
"""What a vGPU in a VM commonly does not answer."""


class NVMLError(Exception):
    """`value` is NVML's return code."""

    def __init__(self, value: int) -> None:
        super().__init__(f"NVML return code {value}")
        self.value = value


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeGpu:
    """One GPU: an idle H200 in a full slot, unless told otherwise."""

    name: str = "NVIDIA H200"
    uuid: str = "GPU-00000000-1111-2222-3333-444444444444"
    memory_bytes: int = 150_754_820_096
    link: tuple[int, int] = (5, 16)
    """Generation and width now."""
    max_link: tuple[int, int] = (5, 16)
    gpu_max_generation: int = 5
    ecc: bool = True
    ecc_uncorrected: int = 0
    mig: bool = False
    virtualization: int = 0
    clocks_mhz: tuple[int, int] = (345, 3201)
    """SM and memory, now."""
    max_clocks_mhz: tuple[int, int] = (1980, 3201)
    power_limit_mw: int = 700_000
    temperature_c: int = 31
    throttle_bits: int = 0x1
    energy_mj: int = 1_000_000
    field_values: dict[int, int] = field(default_factory=dict)
    """By field id; a field that is not named is 0."""
    field_errors: dict[int, int] = field(default_factory=dict)
    """Return code by field id."""
    pids: tuple[int, ...] = ()
    """Compute processes on it."""
    errors: dict[str, int] = field(default_factory=dict)
    """Return code by function name."""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class _Record:
    """Stands in for any of NVML's structures."""

    total: int = 0
    pid: int = 0
    ccFeature: int = 0
    nvmlReturn: int = 0
    valueType: int = 3
    value: Any = None


@dataclass(slots=True, kw_only=True)
class FakeNvml:
    """Pass it where pynvml is expected."""

    gpus: tuple[FakeGpu, ...] = (FakeGpu(),)
    driver: str = "580.95.05"
    cuda_driver: int = 13000
    confidential: bool = False
    init_error: int | None = None
    errors: dict[str, int] = field(default_factory=dict)
    """Return code by function name, for all GPUs."""
    lacks: tuple[str, ...] = ()
    """Functions that this older nvidia-ml-py does not have."""
    is_open: bool = False
    NVMLError: type[NVMLError] = NVMLError
    NVML_P2P_CAPS_INDEX_READ: tuple[int] = (0,)

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self._enter("nvmlShutdown")
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        self._enter("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlSystemGetDriverVersion(self) -> str:
        self._enter("nvmlSystemGetDriverVersion")
        return self.driver

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        self._enter("nvmlSystemGetCudaDriverVersion_v2")
        return self.cuda_driver

    def nvmlSystemGetConfComputeState(self) -> _Record:
        self._enter("nvmlSystemGetConfComputeState")
        return _Record(ccFeature=int(self.confidential))

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._enter("nvmlDeviceGetHandleByIndex")
        self._gpu(index, "nvmlDeviceGetHandleByIndex")
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self._gpu(handle, "nvmlDeviceGetName").name

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return self._gpu(handle, "nvmlDeviceGetUUID").uuid

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> _Record:
        return _Record(total=self._gpu(handle, "nvmlDeviceGetMemoryInfo").memory_bytes)

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetCurrPcieLinkGeneration").link[0]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetCurrPcieLinkWidth").link[1]

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetMaxPcieLinkGeneration").max_link[0]

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetMaxPcieLinkWidth").max_link[1]

    def nvmlDeviceGetGpuMaxPcieLinkGeneration(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetGpuMaxPcieLinkGeneration").gpu_max_generation

    def nvmlDeviceGetVirtualizationMode(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetVirtualizationMode").virtualization

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        return [int(self._gpu(handle, "nvmlDeviceGetMigMode").mig)] * 2

    def nvmlDeviceGetPersistenceMode(self, handle: int) -> int:
        self._gpu(handle, "nvmlDeviceGetPersistenceMode")
        return 1

    def nvmlDeviceGetEccMode(self, handle: int) -> list[int]:
        return [int(self._gpu(handle, "nvmlDeviceGetEccMode").ecc)] * 2

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetTotalEccErrors").ecc_uncorrected

    def nvmlDeviceGetClockInfo(self, handle: int, clock: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetClockInfo").clocks_mhz[clock - 1]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetMaxClockInfo").max_clocks_mhz[clock - 1]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetEnforcedPowerLimit").power_limit_mw

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetTemperatureV").temperature_c

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetTemperature").temperature_c

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetCurrentClocksEventReasons").throttle_bits

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetCurrentClocksThrottleReasons").throttle_bits

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetTotalEnergyConsumption").energy_mj

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[_Record]:
        pids = self._gpu(handle, "nvmlDeviceGetComputeRunningProcesses").pids
        return [_Record(pid=pid) for pid in pids]

    def nvmlDeviceGetFieldValues(self, handle: int, ids: list[int]) -> list[_Record]:
        gpu = self._gpu(handle, "nvmlDeviceGetFieldValues")
        answers = []
        for each in ids:
            value = _Union(ullVal=gpu.field_values.get(each, 0))
            answers.append(_Record(nvmlReturn=gpu.field_errors.get(each, 0), value=value))
        return answers

    def nvmlDeviceGetP2PStatus(self, a: int, b: int, capability: int) -> int:
        if not isinstance(capability, int):
            raise ctypes.ArgumentError(f"argument 3: wrong type {type(capability).__name__}")
        self._gpu(a, "nvmlDeviceGetP2PStatus")
        self._gpu(b, "nvmlDeviceGetP2PStatus")
        return 0

    def _gpu(self, handle: int, function: str) -> FakeGpu:
        self._enter(function)
        if not 0 <= handle < len(self.gpus):
            raise NVMLError(6)
        gpu = self.gpus[handle]
        if gpu.lost:
            raise NVMLError(GPU_IS_LOST)
        if function in gpu.errors:
            raise NVMLError(gpu.errors[function])
        return gpu

    def _enter(self, function: str) -> None:
        if function in self.lacks:
            raise AttributeError(f"module 'pynvml' has no attribute {function!r}")
        if not self.is_open:
            raise NVMLError(1)
        if function in self.errors:
            raise NVMLError(self.errors[function])


class _Union(ctypes.Union):
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


def library_missing() -> FakeNvml:
    """No libnvidia-ml.so.1: no driver, or a container without GPUs."""
    return FakeNvml(gpus=(), init_error=LIBRARY_NOT_FOUND)


def old_driver(gpu: FakeGpu | None = None) -> FakeNvml:
    """A driver from before CUDA 12: newer calls answer FUNCTION_NOT_FOUND."""
    errors = dict.fromkeys(NEWER_CALLS, FUNCTION_NOT_FOUND)
    return FakeNvml(gpus=(gpu or FakeGpu(),), driver="470.256.02", cuda_driver=11040, errors=errors)


def vgpu() -> FakeNvml:
    """A virtual GPU in a VM, which refuses link, limits and counters."""
    errors = dict.fromkeys(VGPU_REFUSES, NOT_SUPPORTED)
    return FakeNvml(gpus=(FakeGpu(name="NVIDIA A40-48Q", virtualization=2, errors=errors),))
