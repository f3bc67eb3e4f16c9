"""Facts: what is true of hardware and software while something is measured.

Importing this imports none of torch, numpy and pynvml.
"""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hostbench.facts.files import read_int, read_text
from hostbench.facts.gpu import no_driver_facts, nvml_facts, unread_gpu_facts
from hostbench.facts.hardware import hidden_by_user, nvidia_hardware
from hostbench.facts.machine import asv_machine_entry, machine_name, register_with_asv
from hostbench.facts.memory import with_memory_copy
from hostbench.facts.nvml import NvmlUnavailable, within_patience
from hostbench.facts.record import (
    Fact,
    Facts,
    Group,
    Value,
    from_json,
    known,
    to_json,
    unknown,
)
from hostbench.facts.software import software_facts
from hostbench.facts.spec import Spec, rows_of
from hostbench.facts.torch_probe import TorchState, probe_torch
from hostbench.facts.watch import Watch

__all__ = [
    "Facts",
    "TorchState",
    "Watch",
    "asv_machine_entry",
    "collect",
    "from_json",
    "hidden_by_user",
    "machine_name",
    "nvidia_hardware",
    "probe_torch",
    "register_with_asv",
    "to_json",
    "with_memory_copy",
]


def collect(
    root: Path = Path("/"),
    nvml: Any = None,
    *,
    environ: Mapping[str, str] | None = None,
    torch_state: TorchState | None = None,
) -> Facts:
    """All facts of now. GPUs that the user hid are left out, with the reason under `nvml`."""
    environ = os.environ if environ is None else environ
    hashes = torch_state.uuid_hashes if torch_state else ()
    hidden = hidden_by_user(environ)
    if hidden:
        read = {"nvml": no_driver_facts(hidden)}
    else:
        read = _read_nvml(partial(nvml_facts, nvml, root=root, uuid_hashes=hashes))
    if not hidden and "gpu0" not in read:
        read.update(_gpus_without_nvml(root, nvml, environ))
    return {"host": host_facts(root), "software": software_facts(environ, torch_state), **read}


def _read_nvml(read: Callable[[], Facts]) -> Facts:
    try:
        return within_patience(read)
    except NvmlUnavailable as error:
        return {"nvml": no_driver_facts(str(error))}


def host_facts(root: Path = Path("/")) -> Group:
    """Everything that is known of the host by itself; `root` stands in for / in tests."""
    return {row.name: _of_host(row, root) for row in rows_of("host") if row.read}


def _of_host(row: Spec, root: Path) -> Fact:
    (read,) = row.read
    value = _content(root / read) if isinstance(read, str) else read(root)
    return unknown(row.why) if value is None else known(value)


def _content(path: Path) -> Value:
    """The number that a file holds, or its text."""
    number = read_int(path)
    return read_text(path) if number is None else number


def _gpus_without_nvml(root: Path, nvml: Any, environ: Mapping[str, str] | None) -> Facts:
    """GPUs that the driver shows though NVML does not answer: the machine keeps its name."""
    hardware = nvidia_hardware(root, nvml, environ)
    return {
        f"gpu{index}": unread_gpu_facts(known(name), hardware.why or "NVML does not answer")
        for index, name in enumerate(hardware.names)
    }
