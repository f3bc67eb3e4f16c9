"""Facts: what is true of hardware and software while something is measured.

Importing this imports none of torch, numpy and pynvml.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hostbench.facts.affinity import near_cuda_device
from hostbench.facts.cuda_order import shown_order
from hostbench.facts.gpu import Asking, no_driver_facts, nvml_facts, unread_gpu_facts
from hostbench.facts.hardware import Hardware, hidden_by_user, nvidia_hardware
from hostbench.facts.host import host_facts
from hostbench.facts.identity import host_identity, is_asked
from hostbench.facts.machine import asv_machine_entry, machine_name, register_with_asv
from hostbench.facts.memory import with_memory_copy
from hostbench.facts.record import (
    Fact,
    Facts,
    counter_deltas,
    differences,
    from_json,
    gpu_groups,
    known,
    to_json,
    unknown,
)
from hostbench.facts.software import software_facts
from hostbench.facts.torch_probe import TorchState, probe_torch
from hostbench.facts.watch import Watch, unwatched

__all__ = [
    "Fact",
    "Facts",
    "Hardware",
    "TorchState",
    "Watch",
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
    "unwatched",
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
    identify: bool | None = None,
) -> Facts:
    """All facts of now. GPUs that the user hid are left out, with the reason under `nvml`.

    What names the machine is stored only with `identify`, which HOSTBENCH_IDENTIFY=1 stands in for.
    """
    environ = os.environ if environ is None else environ
    asked = is_asked(identify, environ)
    asking = Asking(
        own_pids=own_pids,
        root=root,
        identify=asked,
        environ=environ,
        uuid_hashes=torch_state.uuid_hashes if torch_state else None,
    )
    host = {**host_facts(root), **host_identity(asked)}
    hidden = hidden_by_user(environ)
    read = {"nvml": no_driver_facts(hidden)} if hidden else nvml_facts(nvml, asking)
    if not hidden and "gpu0" not in read:
        read.update(_gpus_without_nvml(root, nvml, environ))
    gpus = {name: read[name] for name in gpu_groups(read)}
    why = str(read["nvml"]["num_gpus"].why or "there is no GPU")
    indices = {name: group["cuda_index"] for name, group in gpus.items()}
    return {
        "host": {**host, "numa_nodes_near_gpu": near_cuda_device(gpus.values())},
        "software": {
            **software_facts(with_torch, environ, torch_state),
            "cuda_device_order": shown_order(indices, why),
        },
        **read,
    }


def _gpus_without_nvml(root: Path, nvml: Any, environ: Mapping[str, str] | None) -> Facts:
    """GPUs that the driver shows though NVML does not answer: the machine keeps its name."""
    hardware = nvidia_hardware(root, nvml, environ)
    return {
        f"gpu{index}": unread_gpu_facts(known(name), hardware.why or "NVML does not answer")
        for index, name in enumerate(hardware.names)
    }
