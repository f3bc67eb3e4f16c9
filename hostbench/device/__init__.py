"""Devices behind one base class; `open_device` is the one place that imports an implementation."""

import os

from hostbench.device.base import Device
from hostbench.facts.host import usable_cores


def open_device(name: str, index: int = 0, *, launch: int = 0) -> Device:
    """Open a device by name: `cuda`, `cpu` or `simulated`; `index` says which of several GPUs,
    `launch` the number of the launch, whose noise a simulated device has.

    Raises UsageError for a bad HOSTBENCH_SIMULATION, BrokenError where the device does not work.
    """
    if name == "cuda":
        from hostbench.device.cuda import CudaDevice

        return CudaDevice(index)
    if name == "cpu":
        from hostbench.device.cpu import CpuDevice

        return CpuDevice()
    from hostbench.device.simulated import SimulatedDevice
    from hostbench.device.simulated_file import declared

    return SimulatedDevice(declared(), launch=launch)


def num_devices(name: str) -> int:
    """How many processes can have a device to themselves: GPUs for cuda, usable cores for cpu."""
    if name == "cuda":
        import torch

        return torch.cuda.device_count()
    return usable_cores(len(os.sched_getaffinity(0)))
