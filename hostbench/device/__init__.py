"""Devices behind one base class; `open_device` is the one place that imports an implementation."""

import os

from hostbench.core.errors import UsageError
from hostbench.device.base import Device
from hostbench.facts.host import usable_cores

NAMES = ("cuda", "cpu", "simulated")


def open_device(name: str, index: int = 0, *, launch: int = 0) -> Device:
    """Open a device by name: `cuda`, `cpu` or `simulated`; `index` says which of several GPUs,
    `launch` the number of the launch, whose noise a simulated device has.

    Raises UsageError for another name or a bad HOSTBENCH_SIMULATION, and BrokenError where the
    device does not work.
    """
    if name == "cuda":
        from hostbench.device.cuda import CudaDevice

        return CudaDevice(index)
    if name == "cpu":
        from hostbench.device.cpu import CpuDevice

        return CpuDevice()
    if name == "simulated":
        from hostbench.device.simulated import SimulatedDevice
        from hostbench.device.simulated_file import declared

        return SimulatedDevice(simulation=declared(), launch=launch)
    raise UsageError(f"unknown device {name!r}; there are: {', '.join(NAMES)}")


def num_devices(name: str) -> int:
    """How many processes can have a device to themselves: GPUs for cuda, usable cores for cpu."""
    if name == "cuda":
        import torch

        return torch.cuda.device_count()
    if name == "cpu":
        return usable_cores(len(os.sched_getaffinity(0))) or 1
    raise UsageError(f"device {name!r} cannot be counted")
