"""NVIDIA GPUs and their driver: whether any is visible, and their facts, by the rows of `spec`.

Asked of NVML, and where that does not answer of the kernel; torch is not needed. Bus id, serial
number and UUID are no facts: they name the machine.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hostbench.facts.host import read_fields, read_text
from hostbench.facts.nvml import Nvml, NvmlUnavailable, asking, hash_uuid
from hostbench.facts.record import Fact, Facts, Group, Unknown
from hostbench.facts.spec import Spec, rows_of

NO_CUDA_INDEX = "torch did not say that this GPU is a CUDA device of the process"
UNNAMED = "NVIDIA GPU"
_NVML, _GPU = rows_of("nvml"), rows_of("gpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The NVIDIA GPUs that this process may expect to use."""

    num_gpus: int
    seen_by: str | None = None
    """`nvml`, `proc` or `pci`; None where none is visible."""
    names: tuple[str, ...] = ()
    """Model names where the source tells them."""
    why: str | None = None
    """Why none is visible, or why NVML could not be asked."""

    @property
    def visible(self) -> bool:
        return self.num_gpus > 0


def hidden_by_user() -> str | None:
    """The reason when CUDA_VISIBLE_DEVICES, which CUDA reads up to the first entry that is no
    device, hides every GPU; else None."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None or value.split(",")[0].strip() not in ("", "-1"):
        return None
    return f"CUDA_VISIBLE_DEVICES={value.strip()!r} hides the GPUs: unset it to use them"


def nvidia_hardware(root: Path = Path("/"), library: Any = None) -> Hardware:
    """Whether NVIDIA hardware is visible. NVML is believed, also when it counts none; of several
    GPUs those that it cannot open, as a lost one, are left out."""
    if hidden := hidden_by_user():
        return Hardware(num_gpus=0, why=hidden)

    def names_of(nvml: Nvml) -> tuple[str, ...]:
        gpus = nvml.handles()
        names = [nvml.ask("nvmlDeviceGetName", gpu) for gpu in gpus if not isinstance(gpu, Unknown)]
        return tuple(map(str, names)) or (UNNAMED,) * len(gpus)

    try:
        names = asking(names_of, library)()
    except NvmlUnavailable as error:
        return _shown_by_kernel(root, str(error))
    if not names:
        return Hardware(num_gpus=0, why="the NVIDIA driver shows no GPU")
    return Hardware(num_gpus=len(names), seen_by="nvml", names=names)


def _shown_by_kernel(root: Path, why: str) -> Hardware:
    drivers = sorted((root / "proc/driver/nvidia/gpus").glob("*"))
    names = [read_fields(folder / "information").get("Model") or UNNAMED for folder in drivers]
    if names:
        return Hardware(num_gpus=len(names), seen_by="proc", names=tuple(names), why=why)
    num_pci = sum(
        read_text(device / "vendor") == "0x10de"
        and (read_text(device / "class") or "").startswith("0x03")  # a display or 3D controller
        and (device / "driver").resolve().name != "vfio-pci"  # handed to a virtual machine
        for device in (root / "sys/bus/pci/devices").glob("*")
    )
    if num_pci:
        return Hardware(num_gpus=num_pci, seen_by="pci", why=why)
    return Hardware(num_gpus=0, why="no NVIDIA GPU on the PCI bus, and no NVIDIA driver")


def nvml_facts(
    library: Any = None,
    *,
    root: Path = Path("/"),
    uuid_hashes: Sequence[str] = (),
    hidden: str | None = None,
) -> Facts:
    """The group `nvml` and one group per GPU; never raises. GPUs that are `hidden`, for that
    reason, have none; where NVML does not answer those that the kernel names have their names.
    `uuid_hashes` are those of the CUDA devices in order, as the torch probe tells them."""

    def read(nvml: Nvml) -> Facts:
        order = cuda_indices(nvml, uuid_hashes)
        facts = {"nvml": read_rows(nvml, _NVML)}
        for index, handle in enumerate(nvml.handles()):
            facts[f"gpu{index}"] = read_rows(nvml, _GPU, handle) | {"cuda_index": order[index]}
        return facts

    why, names = hidden or "", tuple[str, ...]()
    if hidden is None:
        try:
            return asking(read, library)()
        except NvmlUnavailable as error:
            why = str(error)
            names = _shown_by_kernel(root, why).names
    facts: Facts = {"nvml": {row.name: Unknown(why) for row in _NVML}}
    unread: Group = {row.name: Unknown(why) for row in _GPU}
    for index, name in enumerate(names):
        facts[f"gpu{index}"] = {**unread, "name": name}
    return facts


def cuda_indices(nvml: Nvml, uuid_hashes: Sequence[str]) -> list[Fact]:
    """For each of NVML's GPUs the number of its first CUDA device, or why it has none: CUDA numbers
    devices in its own way, that of `uuid_hashes`. No CUDA context is made to tell."""
    num = len(nvml.handles())
    if num == 1 and not uuid_hashes:
        return [0]
    by_hash = {hash_uuid(uuid): index for uuid, index in nvml.index_by_uuid().items()}
    order = [by_hash.get(uuid_hash) for uuid_hash in uuid_hashes]
    return [order.index(i) if i in order else Unknown(NO_CUDA_INDEX) for i in range(num)]


def read_rows(nvml: Nvml, rows: Sequence[Spec], *handle: Any) -> Group:
    """These facts of the driver, or of a GPU, whose handle may be why it has none."""
    lost = next((own for own in handle if isinstance(own, Unknown)), None)
    return {row.name: lost or nvml.ask(row.read, *handle) for row in rows if row.read}
