"""Checks of the machine itself: what it is, and where its GPU sits."""

import importlib.util
import os
import platform
from pathlib import Path
from typing import Any

import hostbench
from hostbench.core.errors import BrokenError, Unavailable
from hostbench.device import numa, open_device
from hostbench.facts.hardware import nvidia_hardware
from hostbench.gpu_check.nvml import handle_of_device, opened
from hostbench.gpu_check.record import Answer, answered


def machine(folder: Path) -> Answer:
    """Unavailable where no GPU is to be seen; one that is there but does not work is a failure."""
    hardware = nvidia_hardware()
    if not hardware.visible:
        raise Unavailable(f"no NVIDIA GPU here: {hardware.why}")
    if importlib.util.find_spec("torch") is None:
        raise BrokenError("torch is not installed: make gpu-check installs it")
    open_device("cuda")
    facts = _facts()
    return answered(", ".join(f"{name} {value}" for name, value in facts.items()), **facts)


def _facts() -> dict[str, Any]:
    import torch

    gpu: Any = torch.cuda.get_device_properties(0)
    facts = {
        "gpu": gpu.name,
        "num_gpus": torch.cuda.device_count(),
        "compute_capability": f"{gpu.major}.{gpu.minor}",
        "memory_bytes": gpu.total_memory,
        "num_cpus": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda_runtime": torch.version.cuda,
        "hostbench": hostbench.__version__,
    }
    try:
        nvml = opened()
    except Unavailable as error:
        return {**facts, "driver": f"unknown ({error})"}
    return {**facts, "driver": str(nvml.read(nvml.library.nvmlSystemGetDriverVersion))}


def numa_node(folder: Path) -> Answer:
    import torch

    from hostbench.device.cuda_open import pci_address

    open_device("cuda")
    address, source = pci_address(torch.device("cuda", 0)), "torch"
    if address is None:
        nvml = opened()
        long = str(nvml.library.nvmlDeviceGetPciInfo(handle_of_device(nvml)).busId)
        address, source = long[-12:].lower(), "NVML"
    node = numa.node(address)
    near, allowed = len(numa.local_cpus(address)), len(os.sched_getaffinity(0))
    text = (
        f"address {address} (from {source}), node {'not told' if node is None else node}, "
        f"{near} CPUs beside it, {allowed} CPUs allowed to this process"
    )
    return answered(text, address=address, node=node, num_near=near, num_allowed=allowed)
