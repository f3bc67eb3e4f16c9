"""A CudaDevice for every test here; without a GPU each test is skipped with the reason."""

from collections.abc import Iterator

import pytest

from hostbench.core.errors import BrokenError
from hostbench.device.cuda import CudaDevice


@pytest.fixture(scope="session")
def opened() -> CudaDevice | str:
    """The device, or why there is none."""
    try:
        device = CudaDevice()
    except BrokenError as error:
        return str(error)
    device.settle()
    return device


@pytest.fixture
def cuda(opened: CudaDevice | str) -> Iterator[CudaDevice]:
    if isinstance(opened, str):
        pytest.skip(opened)
    opened.reset()
    yield opened
    opened.synchronize()
