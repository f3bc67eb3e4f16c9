"""Binding the calling thread to the CPUs beside a PCI device, by sysfs. Linux only."""

import os
from pathlib import Path

from hostbench.facts.files import listed, read_int, read_text

_DEVICES = Path("/sys/bus/pci/devices")


def bind_near(pci_address: str | None, devices: Path = _DEVICES) -> set[int]:
    """Keep of the thread's CPUs those on the device's NUMA node; return the CPUs it runs on now.

    Changes nothing where the node is unknown (virtual machines say -1), where the device has no
    entry, or where the thread may use none of the node's CPUs. Threads started later inherit it.
    """
    allowed = set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set()
    near = allowed & local_cpus(pci_address, devices)
    if near and near != allowed:
        os.sched_setaffinity(0, near)
    return near or allowed


def node(pci_address: str | None, devices: Path = _DEVICES) -> int | None:
    """The NUMA node of the device's slot; None where the machine does not say."""
    number = read_int(devices / str(pci_address) / "numa_node")
    return number if number is not None and number >= 0 else None


def local_cpus(pci_address: str | None, devices: Path = _DEVICES) -> set[int]:
    """CPUs on the device's node; empty where the node is not known."""
    if node(pci_address, devices) is None:
        return set()
    return listed(read_text(devices / str(pci_address) / "local_cpulist"))
