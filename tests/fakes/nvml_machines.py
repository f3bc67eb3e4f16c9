"""Machines that nobody here has, by name: what NVML answers on them."""

from collections.abc import Callable

from hostbench.core.units import MIB
from tests.fakes.fake_nvml import (
    FUNCTION_NOT_FOUND,
    LIBRARY_NOT_FOUND,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RX,
    TX,
    FakeGpu,
    FakeNvml,
)

NEWER_CALLS = (
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetMemoryBusWidth",
    "nvmlDeviceGetGspFirmwareMode",
    "nvmlDeviceGetAddressingMode",
    "nvmlDeviceGetC2cModeInfoV",
    "nvmlSystemGetNvlinkBwMode",
    "nvmlSystemGetConfComputeState",
)
"""What a driver from before CUDA 12 lacks."""

VGPU_REFUSES = (
    "nvmlDeviceGetCurrPcieLinkGeneration",
    "nvmlDeviceGetCurrPcieLinkWidth",
    "nvmlDeviceGetMaxPcieLinkGeneration",
    "nvmlDeviceGetMaxPcieLinkWidth",
    "nvmlDeviceGetGpuMaxPcieLinkGeneration",
    "nvmlDeviceGetNvLinkState",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetFieldValues",
)
"""What a vGPU in a VM commonly does not answer."""

MIG_UUID = "MIG-aaaaaaaa-1111-2222-3333-444444444444"

MIG_FORBIDS = (
    "nvmlDeviceGetMemoryInfo",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetComputeRunningProcesses_v2",
)
"""Of the whole GPU, to a container with a slice."""


def library_missing() -> FakeNvml:
    """No libnvidia-ml.so.1: no driver, or a container without GPUs."""
    return FakeNvml(gpus=(), init_error=LIBRARY_NOT_FOUND)


def no_permission() -> FakeNvml:
    """A container in which NVML starts and counts, and opens no GPU."""
    return FakeNvml(errors={"nvmlDeviceGetHandleByIndex": NO_PERMISSION})


def old_driver(gpu: FakeGpu | None = None) -> FakeNvml:
    """A driver from before CUDA 12: newer calls answer FUNCTION_NOT_FOUND."""
    errors = dict.fromkeys(NEWER_CALLS, FUNCTION_NOT_FOUND)
    return FakeNvml(gpus=(gpu or FakeGpu(),), driver="470.256.02", cuda_driver=11040, errors=errors)


def vgpu() -> FakeNvml:
    """A virtual GPU in a VM, which refuses link, limits and counters."""
    errors = dict.fromkeys(VGPU_REFUSES, NOT_SUPPORTED)
    return FakeNvml(gpus=(FakeGpu(name="NVIDIA A40-48Q", virtualization=2, errors=errors),))


def mig_slice() -> FakeNvml:
    """A container with one slice of a GPU: what concerns the whole GPU is forbidden.

    https://github.com/NVIDIA/nvidia-container-toolkit/issues/842
    """
    gpu = FakeGpu(
        name="NVIDIA A100-SXM4-80GB",
        mig=True,
        mig_uuids=(MIG_UUID,),
        link=(4, 16),
        max_link=(4, 16),
        own_generation=4,
        errors=dict.fromkeys(MIG_FORBIDS, NO_PERMISSION),
        field_errors=dict.fromkeys((TX, RX), NOT_SUPPORTED),
    )
    return FakeNvml(gpus=(gpu,))


def lost_midway() -> FakeNvml:
    """A GPU that falls off the bus once 1MiB was copied."""
    return FakeNvml(gpus=(FakeGpu(lost_after_bytes=MIB),))


def needs_reset() -> FakeNvml:
    """A GPU that met an error and answers nothing before it is reset."""
    return FakeNvml(gpus=(FakeGpu(needs_reset=True),))


def one_lost() -> FakeNvml:
    """Two GPUs, of which the first is lost."""
    return FakeNvml(gpus=(FakeGpu(uuid="GPU-0", lost=True), FakeGpu(uuid="GPU-1")))


MACHINES: dict[str, Callable[[], FakeNvml]] = {
    machine.__name__: machine
    for machine in (
        library_missing,
        no_permission,
        old_driver,
        vgpu,
        mig_slice,
        lost_midway,
        needs_reset,
        one_lost,
    )
}
