"""A CudaDevice for every test here; without a GPU each test is skipped with the reason."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
import torch

from hostbench.core.errors import BrokenError, Unavailable
from hostbench.device.cuda import CudaDevice

Record = Callable[..., None]


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


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """`record("55.4 GB/s", seconds=...)`: a figure for the report of `make gpu-check`. The text is
    for people; the data, plain JSON values, for programs."""

    def note(text: str, **data: Any) -> None:
        request.node.user_properties.append((text, data))

    return note


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """What this machine cannot do is a skip with the reason."""
    try:
        yield
    except Unavailable as reason:
        pytest.skip(str(reason))
