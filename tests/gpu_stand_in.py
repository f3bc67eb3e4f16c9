"""A CudaDevice on the stand-in for CUDA, and hostbench by a Python that is on such a machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest

from hostbench.core.units import MIB
from hostbench.device import cuda
from hostbench.device.cuda import CudaDevice
from tests.fakes.fake_cuda.bindings import installed
from tests.fakes.fake_cuda.costs import Costs, Refusals
from tests.fakes.fake_cuda.floor import Floor
from tests.fakes.fake_cuda.timeline import Machine
from tests.fakes.fake_nvml import FakeGpu, FakeNvml


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


__all__ = ["Costs", "Floor", "Machine", "Refusals", "cuda_machine"]
