"""Facts about NVIDIA GPUs and their driver, read through an opened NVML.

Which name is which call is in `gpu_reads`. Bus id, serial number and UUID stay out of stored facts
unless they are asked for.
"""

import ctypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hostbench.facts import affinity, links, pci, words
from hostbench.facts.cuda_order import cuda_indices
from hostbench.facts.gpu_reads import COUNTERS, IDENTITY, READS, Read
from hostbench.facts.identity import NOT_ASKED, gpu_identity
from hostbench.facts.nvml import Nvml, NvmlUnavailable, open_nvml
from hostbench.facts.record import Fact, Facts, Group, Value, is_counter, unknown
from hostbench.facts.words import switch, word

_NAMES = (
    *READS,
    *links.NAMES,
    *pci.NAMES,
    *affinity.NAMES,
    "num_mig_devices",
    "num_other_processes",
    "cuda_index",
    *COUNTERS,
)
_DRIVER = (
    "num_gpus",
    "driver",
    "nvml_version",
    "cuda_driver",
    "nvlink_bandwidth_mode",
    "confidential_computing",
    "confidential_environment",
    "confidential_devtools",
    "confidential_multi_gpu",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What facts of GPUs depend on beside NVML."""

    own_pids: frozenset[int] = frozenset()
    """Processes of ours that may hold a GPU, beside this one."""
    root: Path = Path("/")
    identify: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    uuid_hashes: Sequence[str] | None = None
    """Of the CUDA devices in order, as the torch probe tells them."""


def gpu_facts(nvml: Nvml, index: int, asking: Asking | None = None) -> Group:
    """Everything about one GPU, but its CUDA index."""
    asking = asking or Asking()
    handle = nvml.handle(index)
    if isinstance(handle, Fact):
        return _unread(handle, handle if asking.identify else NOT_ASKED)
    address = _address(nvml, handle)
    pids = asking.own_pids | {os.getpid()}
    group = {name: _read(nvml, calls, handle) for name, calls in READS.items()}
    group |= links.link_facts(nvml, index, handle)
    group |= pci.pci_facts(asking.root, address)
    group |= affinity.affinity_facts(nvml, handle, asking.root, address)
    group["num_mig_devices"] = nvml.read(lambda: nvml.num_mig_devices(handle))
    library = nvml.library
    group["num_other_processes"] = nvml.read(
        lambda: _others(library.nvmlDeviceGetComputeRunningProcesses(handle), pids),
        lambda: _others(library.nvmlDeviceGetComputeRunningProcesses_v2(handle), pids),
    )
    group["cuda_index"] = unknown("not asked")
    group |= _fields(nvml, handle)
    return group | gpu_identity(nvml, handle, asking.identify)


def gpu_counters(nvml: Nvml, index: int) -> Group:
    """Only what grows, for reading often."""
    handle = nvml.handle(index)
    names = [name for name in READS if is_counter(name)]
    if isinstance(handle, Fact):
        return dict.fromkeys((*names, *COUNTERS), handle)
    group = {name: _read(nvml, READS[name], handle) for name in names}
    return group | _fields(nvml, handle)


def gpu_reads(nvml: Nvml, index: int, names: Sequence[str]) -> Group:
    """Only these facts of READS."""
    handle = nvml.handle(index)
    if isinstance(handle, Fact):
        return dict.fromkeys(names, handle)
    return {name: _read(nvml, READS[name], handle) for name in names}


def driver_facts(nvml: Nvml) -> Group:
    """The driver, the CUDA version that it supports, and confidential computing."""
    library = nvml.library

    def state() -> Any:
        return library.nvmlSystemGetConfComputeState()

    calls = (
        lambda: library.nvmlDeviceGetCount(),
        lambda: library.nvmlSystemGetDriverVersion(),
        lambda: library.nvmlSystemGetNVMLVersion(),
        lambda: words.cuda_version(library.nvmlSystemGetCudaDriverVersion_v2()),
        lambda: word(words.NVLINK_BANDWIDTH, library.nvmlSystemGetNvlinkBwMode()),
        lambda: switch(state().ccFeature),
        lambda: word(words.CONFIDENTIAL_ENVIRONMENT, state().environment),
        lambda: switch(state().devToolsMode),
        lambda: _multi_gpu(library),
    )
    return {name: nvml.read(call) for name, call in zip(_DRIVER, calls, strict=True)}


def nvml_facts(library: Any = None, asking: Asking | None = None) -> Facts:
    """The group `nvml` and one group per GPU. Opens NVML and closes it; never raises."""
    asking = asking or Asking()
    try:
        nvml = open_nvml(library)
    except NvmlUnavailable as error:
        return {"nvml": no_driver_facts(str(error))}
    try:
        facts = {"nvml": driver_facts(nvml)}
        order = cuda_indices(nvml, asking.environ, asking.uuid_hashes)
        for index, place in enumerate(order):
            facts[f"gpu{index}"] = gpu_facts(nvml, index, asking) | {"cuda_index": place}
        return facts
    finally:
        nvml.close()


def no_driver_facts(why: str) -> Group:
    return dict.fromkeys(_DRIVER, unknown(why))


def unread_gpu_facts(name: Fact, why: str) -> Group:
    """A GPU that is there but that NVML does not answer for."""
    return _unread(unknown(why), NOT_ASKED) | {"name": name}


def _unread(fact: Fact, identity: Fact) -> Group:
    return dict.fromkeys(_NAMES, fact) | dict.fromkeys(IDENTITY, identity)


def _read(nvml: Nvml, calls: tuple[Read, ...], handle: Any) -> Fact:
    return nvml.read(*[partial(call, nvml.library, handle) for call in calls])


def _fields(nvml: Nvml, handle: Any) -> Group:
    """The counters that are fields; replays have an older call too."""
    group = nvml.fields(handle, COUNTERS)
    if group["pcie_replay_total"].value is None:
        older = nvml.read(lambda: nvml.library.nvmlDeviceGetPcieReplayCounter(handle))
        if older.value is not None:
            group["pcie_replay_total"] = older
    return group


def _address(nvml: Nvml, handle: Any) -> str | Fact:
    """Where sysfs has the GPU; used to read there, never stored."""
    fact = nvml.read(lambda: nvml.library.nvmlDeviceGetPciInfo(handle).busId)
    if not isinstance(fact.value, str):
        return fact
    try:
        return pci.address_of(fact.value)
    except ValueError:
        return unknown("NVML's PCI address cannot be read")


def _others(processes: Any, own_pids: frozenset[int]) -> int:
    return sum(process.pid not in own_pids for process in processes)


def _multi_gpu(library: Any) -> Value:
    """pynvml hands this structure on as it is, and does not look at the return code."""
    settings = library.c_nvmlSystemConfComputeSettings_v1_t()
    code = library.nvmlSystemGetConfComputeSettings(ctypes.byref(settings))
    if code:
        raise library.NVMLError(code)
    return word(words.CONFIDENTIAL_MULTI_GPU, settings.multiGpuMode)
