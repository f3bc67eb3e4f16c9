"""Facts about NVIDIA GPUs and their driver, read through an opened NVML by the rows of `spec`.

What needs more than one call (NVLink, C2C, other GPUs, the way through PCI) is read here. Bus id,
serial number and UUID are no facts: they name the machine.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hostbench.facts.files import read_int
from hostbench.facts.nvml import Nvml, NvmlUnavailable, bare, field_value, open_nvml
from hostbench.facts.record import Fact, Facts, Group, known, unknown
from hostbench.facts.spec import LINK_BYTES, Spec, rows_of
from hostbench.facts.words import switch

ORDER_UNKNOWN = "several GPUs, and torch did not tell which of them is which CUDA device"

_NVML, _GPU = rows_of("nvml"), rows_of("gpu")
_STORED = {row.name: row for row in _GPU if row.read}
_READ = _STORED | {row.name: row for row in LINK_BYTES}

MAX_NVLINKS = 36
_NVLINK_COUNT, _NVLINK_SPEED = 91, 164
_C2C_COUNT, _C2C_STATUS, _C2C_MAX = 170, 171, 172
_NODE_SCOPE, _MASK_WORDS = 0, 128
"""Room for 8,192 NUMA nodes in words of 64 bits."""


def nvml_facts(
    library: Any = None,
    *,
    root: Path = Path("/"),
    uuid_hashes: Sequence[str] = (),
) -> Facts:
    """The group `nvml` and one group per GPU. Opens NVML and closes it; never raises.

    `uuid_hashes` are those of the CUDA devices in order, as the torch probe tells them.
    """
    try:
        nvml = open_nvml(library)
    except NvmlUnavailable as error:
        return {"nvml": no_driver_facts(str(error))}
    try:
        facts = {"nvml": {row.name: nvml.read(*_bound(nvml, row)) for row in _NVML}}
        for index, cuda_index in enumerate(cuda_indices(nvml, uuid_hashes)):
            facts[f"gpu{index}"] = gpu_facts(nvml, index, root) | {"cuda_index": cuda_index}
        return facts
    finally:
        nvml.close()


def cuda_indices(nvml: Nvml, uuid_hashes: Sequence[str]) -> list[Fact]:
    """For each of NVML's GPUs the number of its first CUDA device, or why it has none.

    CUDA numbers devices in its own way; `uuid_hashes` are the torch probe's, in CUDA's order. No
    CUDA context is made to tell.
    """
    num = nvml.count()
    if not uuid_hashes:
        return [known(0)] if num == 1 else [unknown(ORDER_UNKNOWN)] * num
    by_hash = {hash_bare(uuid): index for uuid, index in nvml.owners().items()}
    order = [by_hash.get(uuid_hash) for uuid_hash in uuid_hashes]
    missing = "CUDA does not show this GPU to the process"
    if None in order:
        missing = "NVML does not know torch's device"
    return [known(order.index(i)) if i in order else unknown(missing) for i in range(num)]


def hash_bare(uuid: str) -> str:
    """What the torch probe tells of a device's UUID; the probe has the same line."""
    return hashlib.sha256(bare(uuid).encode()).hexdigest()[:16]


def gpu_facts(nvml: Nvml, index: int, root: Path = Path("/")) -> Group:
    """Everything about one GPU, but its CUDA index."""
    handle = nvml.handle(index)
    if isinstance(handle, Fact):
        return _unread(handle)
    read = {name: _read(nvml, row, handle) for name, row in _STORED.items()}
    read |= _nvlink(nvml, handle) | _c2c(nvml, handle) | _way_to_the_cpu(nvml, handle, root)
    read["num_mig_devices"] = nvml.num_mig_devices(handle)
    read["num_other_processes"] = _others(nvml, handle)
    read["cuda_index"] = unknown("not asked")
    return {row.name: read[row.name] for row in _GPU}


def gpu_reads(nvml: Nvml, index: int, names: Sequence[str]) -> Group:
    """Only these facts, each with a reader of its own, or LINK_BYTES."""
    handle = nvml.handle(index)
    if isinstance(handle, Fact):
        return dict.fromkeys(names, handle)
    return {name: _read(nvml, _READ[name], handle) for name in names}


def no_driver_facts(why: str) -> Group:
    return {row.name: unknown(why) for row in _NVML}


def unread_gpu_facts(name: Fact, why: str) -> Group:
    """A GPU that is there but that NVML does not answer for."""
    return _unread(unknown(why)) | {"name": name}


def _unread(fact: Fact) -> Group:
    return {row.name: fact for row in _GPU}


def _read(nvml: Nvml, row: Spec, handle: Any) -> Fact:
    return nvml.read(*_bound(nvml, row, handle))


def _bound(nvml: Nvml, row: Spec, *handle: Any) -> list[Callable[[], Any]]:
    return [
        partial(_call, nvml.library, call, *handle)
        if isinstance(call, str)
        else partial(call, nvml.library, *handle)
        for call in row.read
    ]


def _call(library: Any, function: str, *handle: Any) -> Any:
    return getattr(library, function)(*handle)


def _way_to_the_cpu(nvml: Nvml, handle: Any, root: Path) -> Group:
    """`numa_nodes` is a list such as `0` or `0,1`, of NVML or else of sysfs; a virtual machine
    often tells neither."""
    library = nvml.library
    nodes = nvml.read(
        lambda: _bits(library.nvmlDeviceGetMemoryAffinity(handle, _MASK_WORDS, _NODE_SCOPE))
    )
    bus_id = nvml.read(lambda: library.nvmlDeviceGetPciInfo(handle).busId)
    slot = _slot(root, str(bus_id.value))
    width = None if slot is None else read_int(slot / "max_link_width")
    node = None if slot is None else read_int(slot / "numa_node")
    if nodes.value is None and node is not None and node >= 0:  # virtual machines have -1
        nodes = known(str(node))
    why = bus_id.why or "sysfs does not show the GPU's PCI link"
    return {"pci_device_max_width": known(width) if width else unknown(why), "numa_nodes": nodes}


def _slot(root: Path, bus_id: str) -> Path | None:
    """Where sysfs has a device, whose address NVML writes as `00000000:18:00.0`."""
    match = re.fullmatch(r"([0-9a-f]{4,}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", bus_id.lower())
    if match is None:
        return None
    return root / f"sys/bus/pci/devices/{int(match[1], 16):04x}:{match[2]}"


def _bits(mask: Iterable[int]) -> str | None:
    names = [
        at * 64 + bit for at, word in enumerate(mask) for bit in range(64) if int(word) >> bit & 1
    ]
    return ",".join(map(str, names)) or None


def _others(nvml: Nvml, handle: Any) -> Fact:
    """How many processes compute on it that are not ours."""
    library = nvml.library

    def count(processes: Any) -> int:
        return sum(process.pid != os.getpid() for process in processes)

    return nvml.read(
        lambda: count(library.nvmlDeviceGetComputeRunningProcesses(handle)),
        lambda: count(library.nvmlDeviceGetComputeRunningProcesses_v2(handle)),
    )


def _nvlink(nvml: Nvml, handle: Any) -> Group:
    """Active links, and their MB/s in one direction."""
    links = _active_nvlinks(nvml, handle)
    if isinstance(links, Fact):
        return dict.fromkeys(("nvlink_links", "nvlink_mb_per_s"), links)
    rate = unknown("no active NVLink")
    if links:
        rate = nvml.read(
            lambda: sum(_speed(nvml.library, handle, (_NVLINK_SPEED, link)) for link in links)
        )
    return {"nvlink_links": known(len(links)), "nvlink_mb_per_s": rate}


def _active_nvlinks(nvml: Nvml, handle: Any) -> list[int] | Fact:
    """Numbers of the links that are up, or why that cannot be told."""
    count = nvml.read(lambda: field_value(nvml.library, handle, _NVLINK_COUNT))
    known_count = count.value if isinstance(count.value, int) else None
    links = []
    for link in range(MAX_NVLINKS if known_count is None else min(known_count, MAX_NVLINKS)):
        state = nvml.read(partial(_call, nvml.library, "nvmlDeviceGetNvLinkState", handle, link))
        if state.value is None:
            if link == 0:
                return state
            break  # past the last link
        if state.value:
            links.append(link)
    return links


def _c2c(nvml: Nvml, handle: Any) -> Group:
    """Grace's link to the CPU: where it is, PCIe is not the way to the host."""
    library = nvml.library
    count = nvml.read(lambda: field_value(library, handle, _C2C_COUNT))
    links = range(count.value if isinstance(count.value, int) else 0)

    def maximum() -> float | None:
        up = [link for link in links if field_value(library, handle, (_C2C_STATUS, link))]
        return sum(_speed(library, handle, (_C2C_MAX, link)) for link in up) or None

    none = count if count.value is None else unknown("no C2C link")
    enabled = nvml.read(lambda: switch(library.nvmlDeviceGetC2cModeInfoV(handle).isC2cEnabled))
    return {"c2c_enabled": enabled, "c2c_max_mb_per_s": nvml.read(maximum) if links else none}


def _speed(library: Any, handle: Any, field: tuple[int, int]) -> float:
    """MB/s of one link."""
    value = field_value(library, handle, field)
    if not isinstance(value, int | float):
        raise ValueError(f"a link's speed is no {value!r}")
    return value
