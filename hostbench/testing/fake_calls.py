"""The fake's device functions beside those of link and identity: one line each."""

import ctypes
from typing import Any

from hostbench.testing.fake_gpu import INVALID_ARGUMENT, NOT_FOUND, FakeGpu, NVMLError, Record


class MoreCalls:
    """A part of FakeNvml, in a file of its own for its length."""

    nvmlMemory_v2 = 0x02000028

    def nvmlDeviceGetArchitecture(self, device: int) -> int:
        return self._gpu(device, "nvmlDeviceGetArchitecture").architecture

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:
        return self._gpu(handle, "nvmlDeviceGetCudaComputeCapability").capability

    def nvmlDeviceGetNumGpuCores(self, device: int) -> int:
        self._gpu(device, "nvmlDeviceGetNumGpuCores")
        return 16_896

    def nvmlDeviceGetBoardPartNumber(self, handle: int) -> str:
        self._gpu(handle, "nvmlDeviceGetBoardPartNumber")
        return "900-21010-0040-000"

    def nvmlDeviceGetVbiosVersion(self, handle: int) -> str:
        self._gpu(handle, "nvmlDeviceGetVbiosVersion")
        return "96.00.A5.00.01"

    def nvmlDeviceGetSerial(self, handle: int) -> str:
        return self._gpu(handle, "nvmlDeviceGetSerial").serial

    def nvmlDeviceGetPciInfo(self, handle: int) -> Record:
        return Record(busId=self._gpu(handle, "nvmlDeviceGetPciInfo").bus_id)

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Record:
        """The newer version is a function of its own in the driver."""
        name = "nvmlDeviceGetMemoryInfo" + ("_v2" if version else "")
        gpu = self._gpu(handle, name)
        return Record(total=gpu.memory_bytes, reserved=600 << 20 if version else 0)

    def nvmlDeviceGetBAR1MemoryInfo(self, handle: int) -> Record:
        self._gpu(handle, "nvmlDeviceGetBAR1MemoryInfo")
        return Record(bar1Total=256 << 30)

    def nvmlDeviceGetMemoryBusWidth(self, device: int) -> int:
        self._gpu(device, "nvmlDeviceGetMemoryBusWidth")
        return 6144

    def nvmlGpmQueryDeviceSupport(self, device: int) -> Record:
        self._gpu(device, "nvmlGpmQueryDeviceSupport")
        return Record()

    def nvmlDeviceGetPcieSpeed(self, device: int) -> int:
        self._gpu(device, "nvmlDeviceGetPcieSpeed")
        return (0, 2500, 5000, 8000, 16000, 32000, 64000)[self._link(device)[0]]

    def nvmlDeviceGetPcieLinkMaxSpeed(self, device: int) -> int:
        return self._gpu(device, "nvmlDeviceGetPcieLinkMaxSpeed").max_link[0]

    def nvmlDeviceGetPcieThroughput(self, device: int, counter: int) -> int:
        self._gpu(device, "nvmlDeviceGetPcieThroughput")
        return 0

    def nvmlDeviceGetPcieReplayCounter(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetPcieReplayCounter").field_values.get(94, 0)

    def nvmlDeviceGetComputeMode(self, handle: int) -> int:
        self._gpu(handle, "nvmlDeviceGetComputeMode")
        return 0

    def nvmlDeviceGetGspFirmwareMode(self, handle: int) -> list[int]:
        self._gpu(handle, "nvmlDeviceGetGspFirmwareMode")
        return [1, 1]

    def nvmlDeviceGetGspFirmwareVersion(self, handle: int) -> bytes:
        self._gpu(handle, "nvmlDeviceGetGspFirmwareVersion")
        return b"580.95.05"

    def nvmlDeviceGetAddressingMode(self, device: int) -> int:
        self._gpu(device, "nvmlDeviceGetAddressingMode")
        return 1

    def nvmlDeviceGetGpuFabricInfoV(self, device: int, gpuFabricInfo: Any) -> int:
        """Wants a reference, as the real one does."""
        self._gpu(device, "nvmlDeviceGetGpuFabricInfoV")
        gpuFabricInfo._obj.state = 3
        return 0

    def nvmlDeviceGetRemappedRows(self, device: int) -> tuple[int, int, int, int]:
        self._gpu(device, "nvmlDeviceGetRemappedRows")
        return (0, 0, 0, 0)

    def nvmlDeviceGetPerformanceState(self, handle: int) -> int:
        self._gpu(handle, "nvmlDeviceGetPerformanceState")
        return 0

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetPowerUsage").power_mw

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: int) -> int:
        return self._gpu(handle, "nvmlDeviceGetPowerManagementDefaultLimit").power_limit_mw

    def nvmlDeviceGetMarginTemperature(self, handle: int) -> int:
        return 87 - self._gpu(handle, "nvmlDeviceGetMarginTemperature").temperature_c

    def nvmlDeviceGetTemperatureThreshold(self, handle: int, threshold: int) -> int:
        self._gpu(handle, "nvmlDeviceGetTemperatureThreshold")
        return 90

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Record:
        self._gpu(handle, "nvmlDeviceGetUtilizationRates")
        return Record()

    def nvmlDeviceGetC2cModeInfoV(self, handle: int) -> Record:
        gpu = self._gpu(handle, "nvmlDeviceGetC2cModeInfoV")
        return Record(isC2cEnabled=int(bool(gpu.c2c_mb_per_s)))

    def nvmlDeviceGetNvLinkState(self, device: int, link: int) -> int:
        gpu = self._gpu(device, "nvmlDeviceGetNvLinkState")
        if link >= gpu.nvlinks:
            raise NVMLError(INVALID_ARGUMENT)
        return int(link < gpu.nvlinks_up)

    def nvmlDeviceGetNvLinkVersion(self, device: int, link: int) -> int:
        self._gpu(device, "nvmlDeviceGetNvLinkVersion")
        return 6

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        self._gpu(handle, "nvmlDeviceGetNvLinkRemoteDeviceType")
        return 2

    def nvmlDeviceGetTopologyCommonAncestor(self, device1: int, device2: int) -> int:
        self._gpu(device1, "nvmlDeviceGetTopologyCommonAncestor")
        self._gpu(device2, "nvmlDeviceGetTopologyCommonAncestor")
        return 50

    def nvmlDeviceGetMemoryAffinity(self, handle: int, nodeSetSize: int, scope: int) -> Any:
        mask = self._gpu(handle, "nvmlDeviceGetMemoryAffinity").nodes_mask
        return (ctypes.c_ulonglong * nodeSetSize)(mask)

    def nvmlDeviceGetCpuAffinity(self, handle: int, cpuSetSize: int) -> Any:
        mask = self._gpu(handle, "nvmlDeviceGetCpuAffinity").cpus_mask
        return (ctypes.c_ulonglong * cpuSetSize)(mask)

    def nvmlDeviceGetMaxMigDeviceCount(self, device: int) -> int:
        return 7 if self._gpu(device, "nvmlDeviceGetMaxMigDeviceCount").mig else 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, device: int, index: int) -> str:
        """A MIG device's handle is its UUID here."""
        gpu = self._gpu(device, "nvmlDeviceGetMigDeviceHandleByIndex")
        if index >= len(gpu.mig_uuids):
            raise NVMLError(NOT_FOUND)
        return gpu.mig_uuids[index]

    def _gpu(self, handle: Any, function: str) -> FakeGpu:
        raise NotImplementedError

    def _link(self, handle: int) -> tuple[int, int]:
        raise NotImplementedError
