"""The fake CUDA: operations give what they give, and the host waits where CUDA's host does."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from hostbench.core.units import KIB, MIB
from tests.fakes.fake_cuda import Costs, Machine, cuda_machine

_cuda: Any = torch.cuda
COSTS = Costs()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with cuda_machine(2) as made:
        yield made


def waits(machine: Machine) -> int:
    counts = machine.gpus[0].counts
    return sum(counts[why] for why in ("device", "stream", "event", "implicit"))


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


def test_streams_run_side_by_side_and_events_order_them(machine: Machine) -> None:
    first, second = _cuda.Stream(), _cuda.Stream()
    start, end = (_cuda.Event(enable_timing=True) for _ in range(2))
    cycles = int(0.01 * COSTS.sm_hz)
    with torch.cuda.stream(first):
        start.record()
        _cuda._sleep(cycles)
        end.record()
    with torch.cuda.stream(second):
        _cuda._sleep(cycles)
    assert not end.query() and machine.now_s < 0.001
    _cuda.synchronize()
    assert machine.now_s == pytest.approx(0.01, rel=0.05)
    assert start.elapsed_time(end) == pytest.approx(10, rel=0.01)
    second.wait_event(end)
    with torch.cuda.stream(first):
        _cuda._sleep(cycles)
    second.wait_stream(first)
    second.synchronize()
    assert machine.now_s == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(
    ("pinned", "nbytes", "non_blocking", "num_waits", "is_early"),
    [
        (True, MIB, True, 0, True),
        (True, MIB, False, 1, False),
        (False, MIB, True, 1, False),
        (False, 4 * KIB, True, 0, True),
        (False, 4 * KIB, False, 1, False),
    ],
)
def test_which_copies_to_the_device_wait(
    machine: Machine, pinned: bool, nbytes: int, non_blocking: bool, num_waits: int, is_early: bool
) -> None:
    source = torch.ones(nbytes, dtype=torch.uint8, pin_memory=pinned)
    target = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
    _cuda.synchronize()
    assert source.is_pinned() is pinned
    _cuda._sleep(int(0.01 * COSTS.sm_hz))
    before, start_s = waits(machine), machine.now_s
    target.copy_(source, non_blocking=non_blocking)
    assert waits(machine) - before == num_waits
    assert (machine.now_s - start_s < 0.005) is is_early
    assert torch.equal(target.cpu(), source)


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


def test_a_graph_does_its_work_when_it_is_replayed(machine: Machine) -> None:
    counter, side, graph = torch.zeros(1, device="cuda"), _cuda.Stream(), _cuda.CUDAGraph()
    with _cuda.graph(graph, stream=side):
        counter.add_(1)
        doubled = counter * 2
    assert counter.item() == 0
    launches = machine.gpus[0].counts["launches"]
    graph.replay()
    graph.replay()
    _cuda.synchronize()
    assert (counter.item(), doubled.item()) == (2, 4)
    assert machine.gpus[0].counts["launches"] - launches == 4
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        with _cuda.graph(_cuda.CUDAGraph(), stream=side):
            counter.item()
    machine.capture = None


def test_memory_is_counted_and_cached(machine: Machine) -> None:
    kept = torch.empty(MIB, dtype=torch.uint8, device="cuda")
    view = kept[10:]
    del kept
    assert torch.cuda.memory_allocated() == MIB
    del view
    assert (torch.cuda.memory_allocated(), torch.cuda.memory_reserved()) == (0, MIB)
    assert torch.cuda.max_memory_allocated() == MIB
    spent = []
    for _ in range(2):
        start_s = machine.now_s
        torch.empty(MIB, dtype=torch.uint8, device="cuda")
        spent.append(machine.now_s - start_s)
        torch.cuda.empty_cache()
    assert spent[0] < COSTS.allocate_s < spent[1]
    torch.cuda.set_per_process_memory_fraction(1e-6)
    with pytest.raises(torch.OutOfMemoryError):
        torch.empty(MIB, dtype=torch.uint8, device="cuda")


def test_what_is_refused() -> None:
    with cuda_machine(2, most_pinned_bytes=MIB, refuses=("registered", "peers")) as made:
        assert not torch.cuda.can_device_access_peer(0, 1)
        with pytest.raises(made.error, match="out of memory"):
            torch.empty(2 * MIB, dtype=torch.uint8, pin_memory=True)
        here = torch.zeros(8, dtype=torch.uint8)
        assert _cuda.cudart().cudaHostRegister(here.data_ptr(), 8, 1) == 801
        with pytest.raises(made.error, match="not supported"):
            _cuda._sleep(1)  # CUDA's last error is the next launch's
        _cuda._sleep(1)
        made.sticky = "CUDA error: unspecified launch failure"
        with pytest.raises(made.error, match="unspecified launch failure"):
            torch.cuda.synchronize()


def test_everything_is_as_it_was_afterwards() -> None:
    watched = (torch.Tensor.to, torch.cuda.Stream.__bases__, torch.cuda._initialized)
    with cuda_machine():
        assert torch.cuda.is_available()
        torch.ones(1, device="cuda")
    assert (torch.Tensor.to, torch.cuda.Stream.__bases__, torch.cuda._initialized) == watched
    assert torch.ones(1).device.type == "cpu"
