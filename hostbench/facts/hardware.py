"""Is NVIDIA hardware visible? Asked of the kernel and of NVML; torch is not needed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hostbench.facts.files import entries, read_fields, read_text
from hostbench.facts.nvml import NvmlUnavailable, open_nvml, within_patience
from hostbench.facts.record import Fact

_NVIDIA, _DISPLAY_CLASS = "0x10de", "0x03"
UNNAMED = "NVIDIA GPU"


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
    root: Path = Path("/"), nvml: Any = None, environ: Mapping[str, str] | None = None
) -> Hardware:
    """Whether NVIDIA hardware is visible. NVML is believed, also when it counts none; of several
    GPUs those that it cannot open, as a lost one, are left out."""
    hidden = hidden_by_user(environ)
    if hidden:
        return Hardware(num_gpus=0, why=hidden)
    try:
        names = within_patience(partial(_nvml_names, nvml))
    except NvmlUnavailable as error:
        return _from_kernel(root, str(error))
    if not names:
        return Hardware(num_gpus=0, why="the NVIDIA driver shows no GPU")
    return Hardware(num_gpus=len(names), seen_by="nvml", names=names)


def _nvml_names(library: Any) -> tuple[str, ...]:
    nvml = open_nvml(library)
    try:
        count = nvml.num_gpus()
        if not isinstance(count.value, int):
            raise NvmlUnavailable(count.why)
        handles = [nvml.handle(index) for index in range(count.value)]
        opened = [handle for handle in handles if not isinstance(handle, Fact)]
        names = [nvml.read(partial(nvml.library.nvmlDeviceGetName, handle)) for handle in opened]
        return tuple(str(fact.value or UNNAMED) for fact in names) or (UNNAMED,) * len(handles)
    finally:
        nvml.close()


def _from_kernel(root: Path, why: str) -> Hardware:
    folders = entries(root / "proc/driver/nvidia/gpus", "*")
    if folders:
        models = [read_fields(folder / "information").get("Model") for folder in folders]
        names = tuple(model or UNNAMED for model in models)
        return Hardware(num_gpus=len(names), seen_by="proc", names=names, why=why)
    nodes = entries(root / "dev", "nvidia[0-9]*")
    if nodes:
        names = (UNNAMED,) * len(nodes)
        return Hardware(num_gpus=len(nodes), seen_by="dev", names=names, why=why)
    num_pci = sum(_is_ours(device) for device in entries(root / "sys/bus/pci/devices", "*"))
    if num_pci:
        return Hardware(num_gpus=num_pci, seen_by="pci", why=why)
    return Hardware(num_gpus=0, why="no NVIDIA GPU on the PCI bus, and no NVIDIA driver")


def _is_ours(device: Path) -> bool:
    """An NVIDIA display or 3D controller that is not handed to a virtual machine."""
    vendor, kind = read_text(device / "vendor"), read_text(device / "class") or ""
    if vendor != _NVIDIA or not kind.startswith(_DISPLAY_CLASS):
        return False
    return (device / "driver").resolve().name != "vfio-pci"
