"""A CudaDevice on the stand-in for CUDA, and hostbench by a Python that is on such a machine."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hostbench.core.units import MIB
from hostbench.device import cuda
from hostbench.device.cuda import CudaDevice
from hostbench.testing.fake_cuda.bindings import installed
from hostbench.testing.fake_cuda.costs import Costs, Refusals
from hostbench.testing.fake_cuda.floor import Floor
from hostbench.testing.fake_cuda.timeline import Machine
from hostbench.testing.fake_nvml import FakeGpu, FakeNvml
from hostbench.testing.gpu_machines import MACHINES


@contextmanager
def cuda_machine(num_gpus: int = 1, nvml: FakeNvml | None = None, **more: Any) -> Iterator[Floor]:
    """`torch.cuda`, NVML and the device's clock of such a machine; `more` is of Machine."""
    machine = Machine(num_gpus=num_gpus, **more)
    uuids = [gpu.uuid for gpu in machine.gpus]
    nvml = nvml or FakeNvml(gpus=tuple(FakeGpu(uuid=f"GPU-{uuid}") for uuid in uuids))
    machine.moved = lambda gpu, into, out_of: nvml.copy(into, out_of, gpu)
    with _here(machine, nvml) as floor:
        yield floor


@contextmanager
def on_machine(name: str) -> Iterator[Floor]:
    """This process on one of `gpu_machines.MACHINES`, but for what its kernel shows."""
    nvml, machine = MACHINES[name].make()
    with _here(machine, nvml) as floor:
        yield floor


@contextmanager
def _here(machine: Machine, nvml: FakeNvml) -> Iterator[Floor]:
    with (
        installed(machine) as floor,
        pytest.MonkeyPatch.context() as patch,
        mock.patch.object(CudaDevice, "now", lambda self: machine.now_s),
        mock.patch.object(cuda, "_SETTLE_BYTES", MIB),
        mock.patch.object(cuda, "_SETTLE_LEAST_S", 0.02),
    ):
        # This one alone: mock.patch.dict would forget what is imported meanwhile, hundreds of
        # torch's modules, for the next machine to import again.
        patch.setitem(sys.modules, "pynvml", nvml)
        yield floor


def hostbench(python: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The program in this checkout; this machine's memory is not measured for it."""
    return subprocess.run(
        [str(python), "-m", "hostbench", *args],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "HOSTBENCH_MEMORY_COPY": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


__all__ = ["Costs", "Floor", "Machine", "Refusals", "cuda_machine", "hostbench", "on_machine"]
