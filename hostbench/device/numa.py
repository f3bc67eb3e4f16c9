"""Binding the calling thread to the CPUs beside a PCI device, by sysfs. Linux only."""

import os
from pathlib import Path

from hostbench.facts.files import listed, read_text
from hostbench.facts.pci import DEVICES, numa_node

_DEVICES = Path("/") / DEVICES


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


def local_cpus(pci_address: str | None, devices: Path = _DEVICES) -> set[int]:
    """CPUs on the device's node; empty where the node is not known."""
    device = devices / str(pci_address)
    return set() if numa_node(device) is None else listed(read_text(device / "local_cpulist"))
