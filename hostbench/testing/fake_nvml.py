"""A pynvml that answers what it is told: for tests, and to see how hostbench treats a GPU.

It has the names and the habits of the real module: errors carry `.value`, each field its own return
code, an unknown GPU is an error, and NVML_P2P_CAPS_INDEX_READ is the tuple that it really is.
"""

import ctypes
from dataclasses import dataclass, field, replace
from typing import Any

from hostbench.testing.fake_calls import MoreCalls
from hostbench.testing.fake_gpu import (
    DRIVER_NOT_LOADED,
    FUNCTION_NOT_FOUND,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    LIB_RM_VERSION_MISMATCH,
    LIBRARY_NOT_FOUND,
    NEWER_CALLS,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    UNVERSIONED,
    VGPU_REFUSES,
    ConfidentialSettings,
    FabricInfo,
    FakeGpu,
    Field,
    NVMLError,
    NVMLLibraryMismatchError,
    Record,
    Union,
)

__all__ = [
    "DRIVER_NOT_LOADED",
    "FUNCTION_NOT_FOUND",
    "GPU_IS_LOST",
    "INVALID_ARGUMENT",
    "LIBRARY_NOT_FOUND",
    "LIB_RM_VERSION_MISMATCH",
    "NEWER_CALLS",
    "NOT_FOUND",
    "NOT_SUPPORTED",
    "NO_PERMISSION",
    "VGPU_REFUSES",
    "FakeGpu",
    "FakeNvml",
    "NVMLError",
    "Record",
    "Union",
    "library_missing",
    "old_driver",
    "vgpu",
]


@dataclass(slots=True, kw_only=True)
class FakeNvml(MoreCalls):
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
    opened: int = 0
    """As often as it was initialised and not yet shut down."""
    busy: bool = False
    """Copies run: links are awake, clocks are up."""
    copied_bytes: int = 0
    NVMLError: type[NVMLError] = NVMLError
    NVMLLibraryMismatchError: type[NVMLLibraryMismatchError] = NVMLLibraryMismatchError
    NVML_P2P_CAPS_INDEX_READ: tuple[int] = (0,)

    c_nvmlGpuFabricInfoV_t: type[FabricInfo] = FabricInfo
    c_nvmlSystemConfComputeSettings_v1_t: type[ConfidentialSettings] = ConfidentialSettings

    @property
    def is_open(self) -> bool:
        return self.opened > 0

    def copy(self, nbytes: int) -> None:
        """As if copies to the GPU ran now, until `rest`."""
        self.busy, self.copied_bytes = True, self.copied_bytes + nbytes

    def rest(self) -> None:
        self.busy = False

    def nvmlInit(self) -> None:
        if self.init_error is not None:
            raise NVMLError(self.init_error)
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self._enter("nvmlShutdown")
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:
        self._enter("nvmlDeviceGetCount")
        return len(self.gpus)

    def nvmlSystemGetDriverVersion(self) -> str:
        self._enter("nvmlSystemGetDriverVersion")
        return self.driver

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        self._enter("nvmlSystemGetCudaDriverVersion_v2")
        return self.cuda_driver

    def nvmlSystemGetNVMLVersion(self) -> str:
        self._enter("nvmlSystemGetNVMLVersion")
        return f"13.{self.driver}"

    def nvmlSystemGetNvlinkBwMode(self) -> int:
        self._enter("nvmlSystemGetNvlinkBwMode")
        return 0

    def nvmlSystemGetConfComputeState(self) -> Record:
        self._enter("nvmlSystemGetConfComputeState")
        return Record(ccFeature=int(self.confidential), environment=2 * self.confidential)

    def nvmlSystemGetConfComputeSettings(self, settings: Any) -> int:
        """Wants a reference and answers with a return code, as the real one does."""
        try:
            self._enter("nvmlSystemGetConfComputeSettings")
        except NVMLError as error:
            return error.value
        settings._obj.multiGpuMode = int(self.confidential)
        return 0

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self._enter("nvmlDeviceGetHandleByIndex")
        self._gpu(index, "nvmlDeviceGetHandleByIndex")
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self._gpu(handle, "nvmlDeviceGetName").name

    def nvmlDeviceGetUUID(self, handle: int | str) -> str:
        if isinstance(handle, str):
            return handle  # of a MIG device
        return self._gpu(handle, "nvmlDeviceGetUUID").uuid

    def nvmlDeviceGetCurrPcieLinkGeneration(self, handle: int) -> int:
        self._gpu(handle, "nvmlDeviceGetCurrPcieLinkGeneration")
        return self._link(handle)[0]

    def nvmlDeviceGetCurrPcieLinkWidth(self, handle: int) -> int:
        self._gpu(handle, "nvmlDeviceGetCurrPcieLinkWidth")
        return self._link(handle)[1]

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
        gpu = self._gpu(handle, "nvmlDeviceGetClockInfo")
        return (gpu.busy_clocks_mhz if self.busy else gpu.clocks_mhz)[clock == 2]

    def nvmlDeviceGetMaxClockInfo(self, handle: int, clock: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetMaxClockInfo").max_clocks_mhz[clock == 2]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetEnforcedPowerLimit").power_limit_mw

    def nvmlDeviceGetTemperatureV(self, handle: int, sensor: int) -> int:
        gpu = self._gpu(handle, "nvmlDeviceGetTemperatureV")
        return gpu.busy_temperature_c if self.busy else gpu.temperature_c

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        gpu = self._gpu(handle, "nvmlDeviceGetTemperature")
        return gpu.busy_temperature_c if self.busy else gpu.temperature_c

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        bits = self._gpu(handle, "nvmlDeviceGetCurrentClocksEventReasons").throttle_bits
        return bits & ~0x1 if self.busy else bits

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        bits = self._gpu(handle, "nvmlDeviceGetCurrentClocksThrottleReasons").throttle_bits
        return bits & ~0x1 if self.busy else bits

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetTotalEnergyConsumption").energy_mj

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Record]:
        pids = self._gpu(handle, "nvmlDeviceGetComputeRunningProcesses").pids
        return [Record(pid=pid) for pid in pids]

    def nvmlDeviceGetComputeRunningProcesses_v2(self, handle: int) -> list[Record]:
        pids = self._gpu(handle, "nvmlDeviceGetComputeRunningProcesses_v2").pids
        return [Record(pid=pid) for pid in pids]

    def nvmlDeviceGetFieldValues(self, handle: int, fieldIds: list[Field]) -> list[Record]:
        gpu = self._gpu(handle, "nvmlDeviceGetFieldValues")
        if any(each in gpu.unknown_fields for each in fieldIds):
            raise NVMLError(INVALID_ARGUMENT)
        return [gpu.field(each, self.busy, self.copied_bytes) for each in fieldIds]

    def nvmlDeviceGetP2PStatus(self, a: int, b: int, capability: int) -> int:
        if not isinstance(capability, int):
            raise ctypes.ArgumentError(f"argument 3: wrong type {type(capability).__name__}")
        self._gpu(a, "nvmlDeviceGetP2PStatus")
        self._gpu(b, "nvmlDeviceGetP2PStatus")
        return 0

    def _link(self, handle: int) -> tuple[int, int]:
        gpu = self.gpus[handle]
        return gpu.link if self.busy or gpu.sleeping_link is None else gpu.sleeping_link

    def _gpu(self, handle: Any, function: str) -> FakeGpu:
        self._enter(function)
        if not 0 <= handle < len(self.gpus):
            raise NVMLError(6)
        gpu: FakeGpu = self.gpus[handle]
        if gpu.lost:
            raise NVMLError(GPU_IS_LOST)
        if function in gpu.errors:
            raise _error(function, gpu.errors[function])
        return gpu

    def _enter(self, function: str) -> None:
        if function in self.lacks:
            raise AttributeError(f"module 'pynvml' has no attribute {function!r}")
        if not self.opened:
            raise NVMLError(1)
        if function in self.errors:
            raise _error(function, self.errors[function])


def _error(function: str, code: int) -> Exception:
    if code == FUNCTION_NOT_FOUND and function in UNVERSIONED:
        return NVMLLibraryMismatchError(function)
    return NVMLError(code)


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
    gpu = FakeGpu(name="NVIDIA A40-48Q", architecture=7, capability=(8, 6), virtualization=2)
    return FakeNvml(gpus=(replace(gpu, errors=errors),))
