"""Facts: what is true of hardware and software while something is measured.

Importing this imports none of torch, numpy and pynvml.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostbench.facts.gpu import no_driver_facts, nvml_facts, unread_gpu_facts
from hostbench.facts.hardware import Hardware, hidden_by_user, nvidia_hardware
from hostbench.facts.host import host_facts
from hostbench.facts.machine import asv_machine_entry, machine_name, register_with_asv
from hostbench.facts.memory import with_memory_copy
from hostbench.facts.record import (
    Fact,
    Facts,
    counter_deltas,
    differences,
    from_json,
    known,
    to_json,
    unknown,
)
from hostbench.facts.software import software_facts
from hostbench.facts.torch_probe import TorchState, probe_torch

__all__ = [
    "Fact",
    "Facts",
    "Hardware",
    "TorchState",
    "asv_machine_entry",
    "collect",
    "counter_deltas",
    "differences",
    "from_json",
    "hidden_by_user",
    "host_facts",
    "known",
    "machine_name",
    "nvidia_hardware",
    "nvml_facts",
    "probe_torch",
    "register_with_asv",
    "software_facts",
    "to_json",
    "unknown",
    "with_memory_copy",
]


def collect(
    with_torch: bool = False,
    root: Path = Path("/"),
    nvml: Any = None,
    *,
    environ: Mapping[str, str] | None = None,
    torch_state: TorchState | None = None,
    own_pids: frozenset[int] = frozenset(),
) -> Facts:
    """All facts of now. GPUs that the user hid are left out, with the reason under `nvml`."""
    facts = {
        "host": host_facts(root),
        "software": software_facts(with_torch, environ, torch_state),
    }
    hidden = hidden_by_user(environ)
    if hidden:
        return {**facts, "nvml": no_driver_facts(hidden)}
    read = nvml_facts(nvml, own_pids)
    if "gpu0" not in read:
        read.update(_gpus_without_nvml(root, nvml, environ))
    return {**facts, **read}


def _gpus_without_nvml(root: Path, nvml: Any, environ: Mapping[str, str] | None) -> Facts:
    """GPUs that the driver shows though NVML does not answer: the machine keeps its name."""
    hardware = nvidia_hardware(root, nvml, environ)
    return {
        f"gpu{index}": unread_gpu_facts(known(name), hardware.why or "NVML does not answer")
        for index, name in enumerate(hardware.names)
    }
