"""The GPU's slot, as sysfs tells it. The address itself is not a fact."""

import re
from pathlib import Path

from hostbench.facts.files import read_int, read_text
from hostbench.facts.record import Fact, Group, known, unknown

NAMES = ("pci_device_max_width", "pci_iommu")
DEVICES = Path("sys/bus/pci/devices")
"""Below the root of the file system."""
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def address_of(bus_id: str) -> str:
    """NVML's `00000000:18:00.0` as sysfs writes it."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def pci_facts(root: Path, address: str | Fact) -> Group:
    """Facts of one device; all unknown where its address is."""
    if isinstance(address, Fact):
        return dict.fromkeys(NAMES, address)
    device = root / DEVICES / address
    if not _ADDRESS.fullmatch(address) or not device.exists():
        return dict.fromkeys(NAMES, unknown("sysfs does not show the GPU's PCI device"))
    width = read_int(device / "max_link_width")
    return {
        "pci_device_max_width": known(width) if width else unknown("sysfs does not show the link"),
        "pci_iommu": _iommu(device),
    }


def numa_node(device: Path) -> int | None:
    """Of the device's slot; None where the machine does not say: virtual machines say -1."""
    node = read_int(device / "numa_node")
    return node if node is not None and node >= 0 else None


def _iommu(device: Path) -> Fact:
    """`off`, else how addresses are translated: `identity` is passthrough, `DMA` every access."""
    group = device / "iommu_group"
    if not group.exists():
        return known("off")
    return known(read_text(group / "type") or "on")
