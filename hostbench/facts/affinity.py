"""Which NUMA nodes and CPUs are near a GPU: asked of NVML, then of sysfs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hostbench.facts import pci
from hostbench.facts.files import count_list
from hostbench.facts.nvml import Nvml
from hostbench.facts.record import Fact, Group, known, unknown

NAMES = ("numa_nodes", "num_near_cpus")
_NODE_SCOPE, _WORDS = 0, 128
"""Room for 8,192 CPUs or nodes in words of 64 bits."""


def affinity_facts(nvml: Nvml, handle: Any, root: Path, address: str | Fact) -> Group:
    """`numa_nodes` is a list such as `0` or `0,1`. A virtual machine often tells neither."""
    library = nvml.library
    nodes = nvml.read(
        lambda: _listed(library.nvmlDeviceGetMemoryAffinity(handle, _WORDS, _NODE_SCOPE))
    )
    cpus = nvml.read(lambda: _count(library.nvmlDeviceGetCpuAffinity(handle, _WORDS)))
    if isinstance(address, str):
        slot = pci.pci_facts(root, address)["pci_numa_node"]
        if nodes.value is None and slot.value is not None:
            nodes = known(str(slot.value))
        near = count_list(pci.near_cpus(root, address) or "")
        if cpus.value is None and near:
            cpus = known(near)
    return {"numa_nodes": nodes, "num_near_cpus": cpus}


def near_cuda_device(gpus: Iterable[Group]) -> Fact:
    """The NUMA nodes beside CUDA device 0, or beside the first GPU where the order is not known."""
    found = list(gpus)
    first = [each for each in found if each["cuda_index"].value == 0] or found
    return first[0]["numa_nodes"] if first else unknown("no GPU is read")


def _bits(mask: Iterable[int]) -> list[int]:
    return [
        at * 64 + bit for at, word in enumerate(mask) for bit in range(64) if int(word) >> bit & 1
    ]


def _listed(mask: Iterable[int]) -> str | None:
    return ",".join(map(str, _bits(mask))) or None


def _count(mask: Iterable[int]) -> int | None:
    return len(_bits(mask)) or None
