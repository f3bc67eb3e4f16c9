"""Which GPU of NVML's is which CUDA device of this process. No CUDA context is made to tell.

The torch probe's answer is believed; without one, CUDA_VISIBLE_DEVICES is read as CUDA reads it.
"""

import hashlib
from collections.abc import Mapping, Sequence

from hostbench.facts.nvml import Nvml, bare
from hostbench.facts.record import Fact, known, unknown

ORDER_UNKNOWN = (
    "torch was not asked, and CUDA puts the fastest GPU first: set CUDA_DEVICE_ORDER=PCI_BUS_ID"
)
_HIDDEN = "CUDA does not show this GPU to the process"


def hash_bare(uuid: str) -> str:
    """What the torch probe tells of a device's UUID; the probe has the same line."""
    return hashlib.sha256(bare(uuid).encode()).hexdigest()[:16]


def cuda_indices(
    nvml: Nvml, environ: Mapping[str, str], uuid_hashes: Sequence[str] | None = None
) -> list[Fact]:
    """For each of NVML's GPUs the number of its first CUDA device, or why it has none."""
    owners = nvml.owners()
    if uuid_hashes:
        by_hash = {hash_bare(uuid): index for uuid, index in owners.items()}
        order = [by_hash.get(each) for each in uuid_hashes]
        missing = _HIDDEN if None not in order else "NVML does not know torch's device"
    else:
        told = _from_environment(nvml.count(), owners, environ)
        if isinstance(told, str):
            return [unknown(told)] * nvml.count()
        order, missing = [*told], _HIDDEN
    return [
        known(order.index(index)) if index in order else unknown(missing)
        for index in range(nvml.count())
    ]


def _from_environment(
    num: int, owners: Mapping[str, int], environ: Mapping[str, str]
) -> list[int] | str:
    """NVML's indices in CUDA's order, or why that cannot be told. CUDA stops at a bad entry."""
    in_order = num == 1 or environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    listed = environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return list(range(num)) if in_order else ORDER_UNKNOWN
    order: list[int] = []
    for entry in (each.strip() for each in listed.split(",")):
        if entry.lstrip("+-").isdigit():
            if not in_order:
                return ORDER_UNKNOWN
            found = int(entry) if 0 <= int(entry) < num else None
        else:
            found = _named(entry, owners)
        if found is None:
            break
        order.append(found)
    return order


def _named(entry: str, owners: Mapping[str, int]) -> int | None:
    """`GPU-<start of a UUID>`, `MIG-<UUID>`, or the older `MIG-GPU-<UUID>/<number>/<number>`."""
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    start = bare(entry.removeprefix("MIG-").partition("/")[0])
    found = {index for uuid, index in owners.items() if start and uuid.startswith(start)}
    return found.pop() if len(found) == 1 else None
