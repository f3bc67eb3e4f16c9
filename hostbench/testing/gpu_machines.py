"""GPU machines that nobody here has, by name: what NVML answers there, what CUDA does, and what the
kernel shows.

A process starts on one of them by `make`; a Python that always does is made by
`hostbench.testing.stand_in`.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hostbench.core.units import GIB, MIB
from hostbench.testing import nvml_machines
from hostbench.testing.fake_cuda.costs import Costs, Refusals
from hostbench.testing.fake_cuda.timeline import Machine
from hostbench.testing.fake_nvml import FakeGpu, FakeNvml
from hostbench.testing.nvml_machines import MIG_UUID

NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed "
    "a driver from http://www.nvidia.com/Download/index.aspx"
)
TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU "
    "driver by downloading and installing a new version from the URL: "
    "http://www.nvidia.com/Download/index.aspx Alternatively, go to: https://pytorch.org to "
    "install a PyTorch version that has been compiled with your version of the CUDA driver."
)
UNKNOWN = (
    "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env "
    "variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero."
)
"""torch's words (c10/cuda/CUDAFunctions.cpp)."""

STAND_IN = " (stand-in)"
"""In the name of each GPU: no figure from here can be taken for a GPU's."""
LOST = "lost"
"""A file in the folder of a machine whose GPUs have fallen off the bus: for every process of it,
until it is removed, as a reset would do."""
_COPIES = "copies-{}"
"""A file there, by the GPU's number: touched by each process that copies over its link."""
_AWAKE_S = 1.0
"""So long after a copy the link of its GPU is awake, and its clocks are up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMachine:
    """One machine, as a process sees it."""

    nvml: Callable[[], FakeNvml]
    memory_bytes: int = 80 * GIB
    costs: Costs = field(default_factory=Costs)
    refusals: Refusals = field(default_factory=Refusals)
    uuids: tuple[str, ...] = ()
    """Of CUDA's devices, where they are not NVML's GPUs."""
    broken: str = ""
    """What CUDA says instead of starting."""
    files: Mapping[str, str] = field(default_factory=dict)
    """What the kernel shows besides, below /."""

    def make(self, folder: Path | None = None) -> tuple[FakeNvml, Machine]:
        """NVML and CUDA of it; what CUDA copies counts in NVML. CUDA shows the GPUs that
        CUDA_VISIBLE_DEVICES names, by number or by UUID, up to the first that is none. `folder` is
        what the machine's processes share: a GPU that one of them loses is lost to all, and one to
        which it copies is busy to all."""
        nvml = self.nvml()
        nvml.gpus = tuple(
            replace(gpu, name=gpu.name + STAND_IN, memory_bytes=self.memory_bytes)
            for gpu in nvml.gpus
        )
        owners = [gpu.uuid.removeprefix("GPU-") for gpu in nvml.gpus]
        uuids = self.uuids or tuple(owners)
        visible = _visible(uuids)
        machine = Machine(
            num_gpus=len(visible),
            name=nvml.gpus[0].name if nvml.gpus else "",
            memory_bytes=self.memory_bytes,
            uuids=tuple(uuids[index] for index in visible),
            costs=self.costs,
            refusals=replace(self.refusals),
            broken=self.broken,
        )
        in_nvml = [owners.index(each) if each in owners else 0 for each in machine.uuids]

        def moved(gpu: int, into: int, out_of: int) -> None:
            nvml.copy(into, out_of, gpu=in_nvml[gpu])
            if folder is not None:
                (folder / _COPIES.format(in_nvml[gpu])).touch()

        machine.moved = moved
        if folder is not None:
            mark = folder / LOST
            nvml.are_lost = machine.are_lost = mark.exists
            machine.lost = mark.touch
            nvml.copies_elsewhere = lambda gpu: _is_fresh(folder / _COPIES.format(gpu))
        return nvml, machine


def _is_fresh(mark: Path) -> bool:
    """Whether it was touched a moment ago."""
    return mark.exists() and time.time() - mark.stat().st_mtime < _AWAKE_S


def _visible(uuids: tuple[str, ...]) -> list[int]:
    listed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return list(range(len(uuids)))
    visible: list[int] = []
    for word in (each.strip() for each in listed.split(",")):
        bare = word.removeprefix("GPU-").removeprefix("MIG-")
        index = uuids.index(bare) if bare in uuids else int(word) if word.isdecimal() else -1
        if not 0 <= index < len(uuids):
            break
        visible.append(index)
    return visible


def gpus(num: int) -> GpuMachine:
    """`num` H200 in full slots, NVLink between them."""
    each = tuple(FakeGpu(uuid=f"GPU-{n:08x}-1111-2222-3333-444444444444") for n in range(num))
    return GpuMachine(nvml=lambda: FakeNvml(gpus=each))


def _of(name: str, **more: object) -> GpuMachine:
    return GpuMachine(nvml=nvml_machines.MACHINES[name], **more)  # type: ignore[arg-type]


_GEN4 = Costs(link_bytes_per_s=25e9)
"""What a PCIe Gen4 slot carries."""

MACHINES: dict[str, GpuMachine] = {
    **{f"{num}_gpu{'s' * (num > 1)}": gpus(num) for num in (1, 2, 4, 8)},
    "library_missing": _of("library_missing", broken=NO_DRIVER, files={"dev/nvidia0": ""}),
    "cut_off": _of("cut_off", broken=UNKNOWN, files={"dev/nvidia0": ""}),
    "no_permission": _of("no_permission"),
    "old_driver": _of("old_driver", broken=TOO_OLD),
    "vgpu": _of("vgpu", costs=_GEN4, memory_bytes=48 * GIB, refusals=Refusals(profiler=True)),
    "mig_slice": _of(
        "mig_slice",
        costs=_GEN4,
        memory_bytes=10 * GIB,
        uuids=(MIG_UUID.removeprefix("MIG-"),),
    ),
    "wsl2": _of(
        "wsl2",
        costs=_GEN4,
        memory_bytes=24 * GIB,
        refusals=Refusals(pinned_bytes=512 * MIB),
        files={
            "proc/sys/kernel/osrelease": "5.15.153.1-microsoft-standard-WSL2",
            "dev/dxg": "",
        },
    ),
    "jetson": _of("jetson", memory_bytes=8 * GIB, refusals=Refusals(nccl=True)),
    "lost_midway": GpuMachine(nvml=FakeNvml, refusals=Refusals(lost_after_s=0.15)),
    "needs_reset": _of("needs_reset", broken=UNKNOWN),
    "one_lost": _of("one_lost", uuids=("1",)),
}
"""The fakes of the same name in `nvml_machines`, and what CUDA does there:

- vgpu: CUPTI traces nothing unless the VM's vGPU was made with profiling on.
- mig_slice: CUPTI traces it like a GPU of its own, also where other slices share memory with it
  (https://docs.nvidia.com/cupti/special-configurations/special-configurations.html).
- wsl2: about 512 MiB of pinned memory, registered memory included; more is "out of memory"
  (https://github.com/microsoft/WSL/issues/14078, https://github.com/microsoft/WSL/issues/8447).
- jetson: Orin registers memory, as it is I/O coherent; NVIDIA's torch for it has no nccl
  (https://github.com/NVIDIA/nccl/issues/1561).
- lost_midway: the calls of the process fail, one that starts later finds no GPU.
"""
