"""Starting CUDA, with the remedy where it does not start."""

import os
from collections.abc import Callable
from typing import Any

import torch

from hostbench.core.errors import BrokenError
from hostbench.core.units import number_of

_init: Callable[[], None] = torch.cuda.init


def require_cuda(index: int) -> None:
    """Start CUDA and run one kernel. Raises BrokenError with the remedy when either fails."""
    if torch.version.cuda is None:
        raise BrokenError(
            f"device cuda: torch {torch.__version__} is built without CUDA; install a CUDA build "
            "(pip install torch --index-url https://download.pytorch.org/whl/cu126, "
            "or make bench TORCH_INDEX=...) or choose --device cpu"
        )
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        raise BrokenError(
            "device cuda: CUDA_LAUNCH_BLOCKING is set: the host waits for each kernel, so that no "
            "answer about waiting would be true; unset it"
        )
    try:
        _init()
        num = torch.cuda.device_count()
        if index < num:
            torch.ones(1, device=torch.device("cuda", index)).add_(1).item()
    except (RuntimeError, AssertionError, torch.cuda.DeferredCudaCallError) as error:
        text = str(error).strip().partition("\n")[0]
        raise BrokenError(f"device cuda: {text}; {_remedy(text)}") from error
    if index >= num:
        raise BrokenError(
            f"device cuda: index {index} asked for, torch sees {number_of(num, 'device')}; "
            "check CUDA_VISIBLE_DEVICES"
        )


def _remedy(text: str) -> str:
    remedies = {
        "too old": "update the NVIDIA driver, or install a torch build for an older CUDA",
        "no NVIDIA driver": "install the driver, start the container with --gpus all, or choose "
        "--device cpu",
        "No CUDA GPUs": "check nvidia-smi and CUDA_VISIBLE_DEVICES, or choose --device cpu",
        "no kernel image": f"torch {torch.__version__} has no code for this GPU; install a build "
        "for its architecture",
        "busy or unavailable": "another process holds the GPU; check nvidia-smi",
        "out of memory": "another process holds the GPU's memory; check nvidia-smi",
    }
    known = (remedy for part, remedy in remedies.items() if part in text)
    return next(known, "check nvidia-smi and that torch's CUDA matches the driver")


def pci_address(device: torch.device) -> str | None:
    """`0000:18:00.0` as sysfs writes it; None where this torch does not tell (before 2.8)."""
    facts: Any = torch.cuda.get_device_properties(device)
    if not hasattr(facts, "pci_bus_id"):
        return None
    return f"{facts.pci_domain_id:04x}:{facts.pci_bus_id:02x}:{facts.pci_device_id:02x}.0"


def uuid_of(device: torch.device) -> str:
    """The CUDA device's UUID, by which NVML knows it too; the two count devices differently."""
    facts: Any = torch.cuda.get_device_properties(device)
    return str(facts.uuid)
