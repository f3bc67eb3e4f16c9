"""The fake CUDA: operations give what they give, and the host waits where CUDA's host does."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.fakes.fake_cuda import Costs, Machine, cuda_machine

_cuda: Any = torch.cuda
COSTS = Costs()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with cuda_machine(2) as made:
        yield made


def test_operations_give_what_they_give_on_the_cpu(machine: Machine) -> None:
    here = torch.arange(12.0).view(3, 4)
    there = here.to("cuda")
    assert there.device == torch.device("cuda", 0) and there.is_cuda and not here.is_cuda
    for work in (
        lambda x: (x * 2 + 1).sum(),
        lambda x: x.t().contiguous()[1:, ::2],
        lambda x: torch.mm(x, x.t()).relu_(),
        lambda x: x[x > 3],
        lambda x: x.view(-1)[3:7].clone().zero_(),
        lambda x: x.half().float(),
    ):
        assert torch.equal(work(there).cpu(), work(here))
    there[0].fill_(7)
    assert there.tolist()[0] == [7.0] * 4 and f"{there.sum():.1f}" == "88.0"
    weight = torch.ones(4, device="cuda", requires_grad=True)
    torch.mv(there, weight).sum().backward()
    assert weight.grad is not None and torch.equal(weight.grad.cpu(), there.sum(0).cpu())


def test_the_debug_mode_warns_of_what_waits_for_a_stream(machine: Machine) -> None:
    there = torch.ones(4, device="cuda")
    with pytest.warns(UserWarning, match="prototype"):
        _cuda.set_sync_debug_mode("warn")
    for wait in (lambda: there.sum().item(), there.cpu, lambda: there.nonzero()):
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            wait()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _cuda.synchronize()
        there.to("cpu", non_blocking=True)


def test_everything_is_as_it_was_afterwards() -> None:
    watched = (torch.Tensor.to, torch.cuda.Stream.__bases__, torch.cuda._initialized)
    with cuda_machine():
        assert torch.cuda.is_available()
        torch.ones(1, device="cuda")
    assert (torch.Tensor.to, torch.cuda.Stream.__bases__, torch.cuda._initialized) == watched
    assert torch.ones(1).device.type == "cpu"
