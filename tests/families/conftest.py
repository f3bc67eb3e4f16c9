"""The devices on which the families are tested."""

from collections.abc import Iterator

import pytest

from hostbench.core.units import MIB
from hostbench.device import torch_device
from hostbench.device.cpu import CpuDevice
from tests.fakes.fake_cuda import Machine, cuda_machine


@pytest.fixture(autouse=True)
def small_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each device that loads would fill 256 MiB: a third of a second."""
    monkeypatch.setattr(torch_device, "PATTERN_BYTES", 16 * MIB)


@pytest.fixture
def cpu() -> Iterator[CpuDevice]:
    device = CpuDevice()
    yield device
    device.reset()
    device.close()


@pytest.fixture
def floor() -> Iterator[Machine]:
    """Of one fake GPU."""
    with cuda_machine() as machine:
        yield machine
