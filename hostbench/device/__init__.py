"""Devices behind one protocol; `open_device` is the one place that imports an implementation."""

from hostbench.device.protocol import Device
from hostbench.errors import UsageError

NAMES = ("cuda", "cpu", "simulated")


def open_device(name: str) -> Device:
    """Open a device by name: `cuda`, `cpu` or `simulated`.

    Raises UsageError for another name, Unavailable where the machine has no such device, and
    BrokenError where it has one that does not work.
    """
    if name == "cuda":
        from hostbench.device.cuda import CudaDevice

        return CudaDevice()
    if name == "cpu":
        from hostbench.device.cpu import CpuDevice

        return CpuDevice()
    if name == "simulated":
        from hostbench.device.simulated import SimulatedDevice

        return SimulatedDevice()
    raise UsageError(f"unknown device {name!r}; there are: {', '.join(NAMES)}")
