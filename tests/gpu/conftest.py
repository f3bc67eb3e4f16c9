"""A CudaDevice for every test here; without a GPU each test is skipped with the reason."""

from collections.abc import Generator, Iterator

import pytest
import torch

from hostbench.core.errors import BrokenError, Unavailable
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


@pytest.fixture
def gpu() -> None:
    """For a test whose work on the GPU is another process's, which has it to itself, as in life."""
    if not torch.cuda.is_available():
        pytest.skip("torch.cuda.is_available() is false")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """What this machine cannot do is a skip with the reason."""
    try:
        yield
    except Unavailable as reason:
        pytest.skip(str(reason))
