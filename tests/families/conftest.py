"""The devices on which the families are tested."""

from collections.abc import Iterator

import pytest

from hostbench.device.cpu import CpuDevice
from tests.fakes.fake_cuda import Machine, cuda_machine


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
