"""The GPU's way through PCI, as sysfs tells it. The address itself is not a fact."""

import re
from pathlib import Path

from hostbench.facts.files import entries, read_fields, read_int, read_text
from hostbench.facts.record import Fact, Group, Value, known, unknown

NAMES = (
    "pci_numa_node",
    "pci_num_bridges",
    "pci_device_max_gt_per_s",
    "pci_device_max_width",
    "pci_path_max_gt_per_s",
    "pci_path_max_width",
    "pci_max_payload_bytes",
    "pci_max_read_request_bytes",
    "pci_aspm",
    "pci_iommu",
    "aer_correctable_total",
    "aer_nonfatal_total",
    "aer_fatal_total",
)
_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_STATUS, _FIRST_CAPABILITY, _PCI_EXPRESS, _HEADER_BYTES = 0x06, 0x34, 0x10, 64


def address_of(bus_id: str) -> str:
    """NVML's `00000000:18:00.0` as sysfs writes it."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def pci_facts(root: Path, address: str | Fact) -> Group:
    """Facts of one device; all unknown where its address is."""
    if isinstance(address, Fact):
        return dict.fromkeys(NAMES, address)
    device = root / "sys/bus/pci/devices" / address
    if not _ADDRESS.fullmatch(address) or not device.exists():
        return dict.fromkeys(NAMES, unknown("sysfs does not show the GPU's PCI device"))
    return {
        **_node(device),
        **_path(device),
        **_transfer_sizes(device),
        "pci_aspm": _aspm(device),
        "pci_iommu": _iommu(device),
        **{
            f"aer_{kind}_total": _aer(device, kind) for kind in ("correctable", "nonfatal", "fatal")
        },
    }


def near_cpus(root: Path, address: str) -> str | None:
    """The CPUs beside the device as the kernel lists them, `0-31`."""
    return read_text(root / "sys/bus/pci/devices" / address / "local_cpulist")


def _node(device: Path) -> Group:
    node = read_int(device / "numa_node")
    if node is None or node < 0:
        return {"pci_numa_node": unknown("the machine does not say: usual in a virtual machine")}
    return {"pci_numa_node": known(node)}


def _path(device: Path) -> Group:
    """Bridges between GPU and CPU; how fast and wide the GPU itself can be, and the slowest and
    narrowest that a part of the way can be."""
    real = device.resolve()
    chain = [part for part in (real, *real.parents) if _ADDRESS.fullmatch(part.name)]
    speeds = [speed for part in chain if (speed := _gt_per_s(part)) is not None]
    widths = [width for part in chain if (width := read_int(part / "max_link_width"))]
    hidden = "sysfs does not show the link"
    return {
        "pci_num_bridges": known(len(chain) - 1) if chain else unknown(hidden),
        "pci_device_max_gt_per_s": _fact(_gt_per_s(device), hidden),
        "pci_device_max_width": _fact(read_int(device / "max_link_width") or None, hidden),
        "pci_path_max_gt_per_s": _fact(min(speeds, default=None), hidden),
        "pci_path_max_width": _fact(min(widths, default=None), hidden),
    }


def _gt_per_s(device: Path) -> float | None:
    """`32.0 GT/s PCIe` as 32.0; `Unknown` as None."""
    found = re.match(r"([\d.]+) GT/s", read_text(device / "max_link_speed") or "")
    return float(found[1]) if found else None


def _transfer_sizes(device: Path) -> Group:
    """From the configuration space, of which only root may read more than the first 64 bytes."""
    names = ("pci_max_payload_bytes", "pci_max_read_request_bytes")
    try:
        with (device / "config").open("rb") as file:
            config = file.read(256)
    except OSError:
        return dict.fromkeys(names, unknown("the PCI configuration cannot be read"))
    control = _device_control(config)
    if control is None:
        why = "only root reads it" if len(config) <= _HEADER_BYTES else "no PCI Express capability"
        return dict.fromkeys(names, unknown(why))
    return {names[0]: known(128 << (control >> 5 & 7)), names[1]: known(128 << (control >> 12 & 7))}


def _device_control(config: bytes) -> int | None:
    """The Device Control register of the PCI Express capability, or None."""
    if len(config) <= _HEADER_BYTES or not config[_STATUS] & 0x10:
        return None
    at, seen = config[_FIRST_CAPABILITY] & 0xFC, set[int]()
    while at and at not in seen and at + 10 <= len(config):
        if config[at] == _PCI_EXPRESS:
            return int.from_bytes(config[at + 8 : at + 10], "little")
        seen.add(at)
        at = config[at + 1] & 0xFC
    return None


def _aspm(device: Path) -> Fact:
    """The link's power saving states that are on, or "none"."""
    states = {path.name.removesuffix("_aspm"): path for path in entries(device / "link", "*_aspm")}
    if not states:
        return unknown("the kernel does not show it for this link")
    return known(",".join(name for name, path in states.items() if read_int(path)) or "none")


def _iommu(device: Path) -> Fact:
    """`off`, else how addresses are translated: `identity` is passthrough, `DMA` every access."""
    group = device / "iommu_group"
    if not group.exists():
        return known("off")
    return known(read_text(group / "type") or "on")


def _aer(device: Path, kind: str) -> Fact:
    """All errors of a kind since the machine started."""
    counts = read_fields(device / f"aer_dev_{kind}", " ")
    total = next((text for name, text in counts.items() if name.startswith("TOTAL_ERR")), "")
    return known(int(total)) if total.isdigit() else unknown("no AER counters: usual in a VM")


def _fact(value: Value, why: str) -> Fact:
    return unknown(why) if value is None else known(value)
