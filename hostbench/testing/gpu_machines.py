"""GPU machines that nobody here has, by name: what NVML answers there, and what CUDA does.

A process starts on one of them by `start(name)`; a Python that always does is made by
`hostbench.testing.stand_in`.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from hostbench.testing import fake_nvml
from hostbench.testing.fake_cuda.timeline import GIB, MIB, Machine, Refusals
from hostbench.testing.fake_nvml import MIG_UUID, FakeGpu, FakeNvml

_NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed "
    "a driver from http://www.nvidia.com/Download/index.aspx"
)
_TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version"
)
_UNKNOWN = (
    "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
    "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero."
)
"""torch's words (c10/cuda/CUDAFunctions.cpp)."""

STAND_IN = " (stand-in)"
"""In the name of each GPU: no figure from here can be taken for a GPU's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMachine:
    """One machine, as a process sees it."""

    nvml: Callable[[], FakeNvml]
    memory_bytes: int = 80 * GIB
    refusals: Refusals = field(default_factory=Refusals)
    uuids: tuple[str, ...] = ()
    """Of CUDA's devices, where they are not NVML's GPUs."""
    broken: str = ""
    """What CUDA says instead of starting."""

    def make(self) -> tuple[FakeNvml, Machine]:
        """NVML and CUDA of it; copies of the one count in the other. CUDA shows the GPUs that
        CUDA_VISIBLE_DEVICES names, by number or by UUID, up to the first that is none."""
        nvml = self.nvml()
        nvml.gpus = tuple(replace(gpu, name=gpu.name + STAND_IN) for gpu in nvml.gpus)
        owners = [gpu.uuid.removeprefix("GPU-") for gpu in nvml.gpus]
        uuids = self.uuids or tuple(owners)
        chosen = _visible(uuids)
        machine = Machine(
            num_gpus=len(chosen),
            name=nvml.gpus[0].name if nvml.gpus else "",
            memory_bytes=self.memory_bytes,
            uuids=tuple(uuids[index] for index in chosen),
            refusals=replace(self.refusals),
            broken=self.broken,
        )
        num_owners = len(owners)

        def moved(gpu: int, into: int, out_of: int) -> None:
            nvml.copy(into, out_of, gpu=min(chosen[gpu], num_owners - 1))

        machine.moved = moved
        return nvml, machine


def _visible(uuids: tuple[str, ...]) -> list[int]:
    said = os.environ.get("CUDA_VISIBLE_DEVICES")
    if said is None:
        return list(range(len(uuids)))
    found: list[int] = []
    for word in (each.strip() for each in said.split(",")):
        bare = word.removeprefix("GPU-").removeprefix("MIG-")
        index = uuids.index(bare) if bare in uuids else int(word) if word.isdecimal() else -1
        if not 0 <= index < len(uuids):
            break
        found.append(index)
    return found


def gpus(num: int) -> GpuMachine:
    """`num` H200 in full slots, NVLink between them."""
    each = tuple(FakeGpu(uuid=f"GPU-{n:08x}-1111-2222-3333-444444444444") for n in range(num))
    return GpuMachine(nvml=lambda: FakeNvml(gpus=each))


def _of(name: str, **cuda: object) -> GpuMachine:
    return GpuMachine(nvml=fake_nvml.MACHINES[name], **cuda)  # type: ignore[arg-type]


MACHINES: dict[str, GpuMachine] = {
    **{f"{num}_gpu{'s' * (num > 1)}": gpus(num) for num in (1, 2, 4, 8)},
    "library_missing": _of("library_missing", broken=_NO_DRIVER),
    "cut_off": _of("cut_off", broken=_UNKNOWN),
    "no_permission": _of("no_permission"),
    "old_driver": _of("old_driver", broken=_TOO_OLD),
    "vgpu": _of("vgpu", memory_bytes=48 * GIB, refusals=Refusals(profiler=True)),
    "mig_slice": _of(
        "mig_slice",
        memory_bytes=10 * GIB,
        uuids=(MIG_UUID.removeprefix("MIG-"),),
        refusals=Refusals(profiler=True),
    ),
    "wsl2": _of(
        "wsl2",
        memory_bytes=24 * GIB,
        refusals=Refusals(pinned_bytes=64 * MIB, registered=True, profiler=True),
    ),
    "jetson": _of("jetson", memory_bytes=8 * GIB, refusals=Refusals(registered=True)),
    "lost_midway": _of("lost_midway", refusals=Refusals(lost_after_s=2.0)),
    "needs_reset": _of("needs_reset", broken=_UNKNOWN),
    "one_lost": _of("one_lost", uuids=("1",)),
}
