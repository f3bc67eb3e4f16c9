"""Binding the calling thread to the CPUs beside a PCI device, by sysfs. Linux only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hostbench.core.errors import Unavailable
from hostbench.facts.host import listed, read_int, read_text

_DEVICES = Path("/sys/bus/pci/devices")
_ONLINE = Path("/sys/devices/system/cpu/online")
_STATUS = Path("/proc/self/status")
LEAST_CPUS = 2
LEAST_SHARE = 1 / 8
"""Of the allowed CPUs: two sockets of an EPYC in four nodes each have an eighth on every node."""


def bind_near(pci_address: str | None) -> set[int]:
    """Keep of the thread's CPUs those on the device's NUMA node; return the CPUs it runs on now.

    Changes nothing where the node is unknown (virtual machines say -1), where the device has no
    entry, or where the thread may use few of the node's CPUs: a container that was given 16 cores,
    1 of them beside the GPU, runs better on all of them. Threads started later inherit it.
    """
    allowed = os.sched_getaffinity(0)
    near = allowed & local_cpus(pci_address)
    if len(near) < LEAST_CPUS or len(near) < LEAST_SHARE * len(allowed):
        return allowed
    if near != allowed:
        os.sched_setaffinity(0, near)
    return near


@contextmanager
def far_from(pci_address: str | None) -> Iterator[None]:
    """Run the calling thread on the CPUs of other NUMA nodes than the device's, where it may have
    memory, too. Raises Unavailable where there are none, or it may not."""
    node = read_int(_DEVICES / str(pci_address) / "numa_node")
    local = local_cpus(pci_address)
    far = listed(read_text(_ONLINE)) - local if local else set()
    _, _, nodes = (read_text(_STATUS) or "").partition("Mems_allowed_list:")
    if not far or not listed(nodes.partition("\n")[0]) - {node}:
        raise Unavailable("needs memory of a second NUMA node, and to know which is the GPU's")
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, far)
    except OSError as error:
        raise Unavailable("this process may not run on the other NUMA nodes") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def local_cpus(pci_address: str | None) -> set[int]:
    """CPUs on the device's node; empty where the node is not known."""
    device = _DEVICES / str(pci_address)
    node = read_int(device / "numa_node")
    return set() if node is None or node < 0 else listed(read_text(device / "local_cpulist"))
