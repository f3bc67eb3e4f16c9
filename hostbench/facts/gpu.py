"""NVIDIA GPUs and their driver: whether any is visible, and their facts, by the rows of `spec`.

Asked of NVML, and where that does not answer of the kernel; torch is not needed. Bus id, serial
number and UUID are no facts: they name the machine.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostbench.facts.host import entries, read_fields, read_int, read_text
from hostbench.facts.nvml import Nvml, NvmlUnavailable, ask_nvml, hash_uuid
from hostbench.facts.record import Fact, Facts, Group, known, unknown
from hostbench.facts.spec import LINK_BYTES, rows_of

ORDER_UNKNOWN = "several GPUs, and torch did not tell which of them is which CUDA device"
UNNAMED = "NVIDIA GPU"

_NVML, _GPU = rows_of("nvml"), rows_of("gpu")
_READ = {row.name: row for row in (*_GPU, *LINK_BYTES) if row.read}
_NVIDIA, _DISPLAY_CLASS = "0x10de", "0x03"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The NVIDIA GPUs that this process may expect to use."""

    num_gpus: int
    seen_by: str | None = None
    """`nvml`, `proc`, `dev` or `pci`; None where none is visible."""
    names: tuple[str, ...] = ()
    """Model names where the source tells them."""
    why: str | None = None
    """Why none is visible, or why NVML could not be asked."""

    @property
    def visible(self) -> bool:
        return self.num_gpus > 0


def hidden_by_user(environ: Mapping[str, str] | None = None) -> str | None:
    """The reason when CUDA_VISIBLE_DEVICES hides every GPU, else None.

    CUDA reads the list up to the first entry that is no device.
    """
    value = (os.environ if environ is None else environ).get("CUDA_VISIBLE_DEVICES")
    if value is None or value.split(",")[0].strip() not in ("", "-1"):
        return None
    return f"CUDA_VISIBLE_DEVICES={value.strip()!r} hides the GPUs: unset it to use them"


def nvidia_hardware(
    root: Path = Path("/"), library: Any = None, environ: Mapping[str, str] | None = None
) -> Hardware:
    """Whether NVIDIA hardware is visible. NVML is believed, also when it counts none; of several
    GPUs those that it cannot open, as a lost one, are left out."""
    hidden = hidden_by_user(environ)
    if hidden:
        return Hardware(num_gpus=0, why=hidden)

    def names_of(nvml: Nvml) -> tuple[str, ...]:
        handles = nvml.handles()
        names = [
            str(nvml.read(["nvmlDeviceGetName"], handle).value or UNNAMED)
            for handle in handles
            if not isinstance(handle, Fact)
        ]
        return tuple(names) or (UNNAMED,) * len(handles)

    try:
        names = ask_nvml(names_of, library)
    except NvmlUnavailable as error:
        return _shown_by_kernel(root, str(error))
    if not names:
        return Hardware(num_gpus=0, why="the NVIDIA driver shows no GPU")
    return Hardware(num_gpus=len(names), seen_by="nvml", names=names)


def _shown_by_kernel(root: Path, why: str) -> Hardware:
    if folders := entries(root / "proc/driver/nvidia/gpus", "*"):
        models = (read_fields(folder / "information").get("Model") for folder in folders)
        names = tuple(model or UNNAMED for model in models)
        return Hardware(num_gpus=len(names), seen_by="proc", names=names, why=why)
    if nodes := entries(root / "dev", "nvidia[0-9]*"):
        names = (UNNAMED,) * len(nodes)
        return Hardware(num_gpus=len(nodes), seen_by="dev", names=names, why=why)
    num_pci = sum(map(_is_ours, entries(root / "sys/bus/pci/devices", "*")))
    if num_pci:
        return Hardware(num_gpus=num_pci, seen_by="pci", why=why)
    return Hardware(num_gpus=0, why="no NVIDIA GPU on the PCI bus, and no NVIDIA driver")


def _is_ours(device: Path) -> bool:
    """An NVIDIA display or 3D controller that is not handed to a virtual machine."""
    vendor, kind = read_text(device / "vendor"), read_text(device / "class") or ""
    if vendor != _NVIDIA or not kind.startswith(_DISPLAY_CLASS):
        return False
    return (device / "driver").resolve().name != "vfio-pci"


def nvml_facts(
    library: Any = None,
    *,
    root: Path = Path("/"),
    uuid_hashes: Sequence[str] = (),
    hidden: str | None = None,
) -> Facts:
    """The group `nvml` and one group per GPU; never raises. GPUs that are `hidden`, for that
    reason, have none; where NVML does not answer those that the kernel names have their names.

    `uuid_hashes` are those of the CUDA devices in order, as the torch probe tells them.
    """

    def read(nvml: Nvml) -> Facts:
        order = cuda_indices(nvml, uuid_hashes)
        facts = {"nvml": {row.name: nvml.read(row.read, why=row.why) for row in _NVML}}
        for index, handle in enumerate(nvml.handles()):
            facts[f"gpu{index}"] = _gpu_facts(nvml, handle, root) | {"cuda_index": order[index]}
        return facts

    why, kernel = hidden or "", Hardware(num_gpus=0)
    if hidden is None:
        try:
            return ask_nvml(read, library)
        except NvmlUnavailable as error:
            why = str(error)
            kernel = _shown_by_kernel(root, why)
    facts = {"nvml": {row.name: unknown(why) for row in _NVML}}
    for index, name in enumerate(kernel.names):
        facts[f"gpu{index}"] = {row.name: unknown(why) for row in _GPU} | {"name": known(name)}
    return facts


def cuda_indices(nvml: Nvml, uuid_hashes: Sequence[str]) -> list[Fact]:
    """For each of NVML's GPUs the number of its first CUDA device, or why it has none.

    CUDA numbers devices in its own way; `uuid_hashes` are the torch probe's, in CUDA's order. No
    CUDA context is made to tell.
    """
    num = len(nvml.handles())
    if not uuid_hashes:
        return [known(0)] if num == 1 else [unknown(ORDER_UNKNOWN)] * num
    uuids = ((index, fact.value) for index, fact in nvml.uuids())
    by_hash = {hash_uuid(uuid): index for index, uuid in uuids if isinstance(uuid, str)}
    order = [by_hash.get(uuid_hash) for uuid_hash in uuid_hashes]
    missing = "CUDA does not show this GPU to the process"
    if None in order:
        missing = "NVML does not know torch's device"
    return [known(order.index(i)) if i in order else unknown(missing) for i in range(num)]


def gpu_reads(nvml: Nvml, handle: Any, names: Sequence[str]) -> Group:
    """Only these facts of one GPU, each with a reader of its own, or LINK_BYTES."""
    if isinstance(handle, Fact):
        return dict.fromkeys(names, handle)
    return {name: nvml.read(_READ[name].read, handle, why=_READ[name].why) for name in names}


def _gpu_facts(nvml: Nvml, handle: Any, root: Path) -> Group:
    """Everything about one GPU, in the order of the rows."""
    if isinstance(handle, Fact):
        return {row.name: handle for row in _GPU}
    read = gpu_reads(nvml, handle, [row.name for row in _GPU if row.read])
    read |= _slot(nvml, handle, root)
    return {row.name: read.get(row.name, unknown("not asked")) for row in _GPU}


def _slot(nvml: Nvml, handle: Any, root: Path) -> Group:
    """What sysfs says of the GPU's slot; a virtual machine has NUMA node -1. NVML writes the
    address as `00000000:18:00.0`."""
    bus_id = nvml.read([lambda n, h: n.nvmlDeviceGetPciInfo(h).busId], handle)
    match = re.fullmatch(r"([0-9a-f]{4,})(:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", str(bus_id).lower())
    width = node = None
    if match is not None:
        device = root / f"sys/bus/pci/devices/{int(match[1], 16):04x}{match[2]}"
        width, node = read_int(device / "max_link_width"), read_int(device / "numa_node")
    none = unknown(bus_id.why or "sysfs does not show the GPU's PCI link")
    return {
        "pci_device_max_width": known(width) if width else none,
        "numa_nodes": none if node is None or node < 0 else known(str(node)),
    }
