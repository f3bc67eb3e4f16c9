"""Waits of the host are counted, also those that torch's debug mode overlooks."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from hostbench.device import cuda_syncs
from hostbench.device.cuda import CudaDevice
from tests.fakes.fake_cuda import Machine, cuda_machine

_cuda: Any = torch.cuda


@pytest.fixture
def floor() -> Iterator[Machine]:
    with cuda_machine() as made:
        yield made


def calls() -> Iterator[tuple[str, Callable[[], object], int]]:
    """Name, call, waits."""
    there, event = torch.ones(4, device="cuda"), _cuda.Event()
    pageable, pinned = torch.zeros(4), torch.zeros(4, pin_memory=True)
    yield "nothing", lambda: None, 0
    yield "a kernel", lambda: there.add_(1), 0
    yield "metadata", lambda: there.shape, 0
    yield "item", there[0].item, 1
    yield "tolist", there.tolist, 1
    yield "a mask", lambda: there[there > 0], 1
    yield "the device", lambda: _cuda.synchronize(), 1
    yield "an event", lambda: event.synchronize(), 1
    yield "a stream", lambda: _cuda.current_stream().synchronize(), 1
    yield "an event's query", event.query, 0
    yield "in from pinned memory", lambda: there.copy_(pinned, non_blocking=True), 0
    yield "in from pinned memory, blocking", lambda: there.copy_(pinned), 1
    yield "in from pageable memory", lambda: there.copy_(pageable, non_blocking=True), 1
    yield "in from pageable memory, blocking", lambda: there.copy_(pageable), 1
    yield "out to pageable memory", lambda: pageable.copy_(there, non_blocking=True), 1
    yield "to a new tensor", lambda: pageable.to("cuda", non_blocking=True), 1
    yield "to the host", lambda: there.to("cpu", non_blocking=True), 0
    yield "to the host, blocking", there.cpu, 1
    yield "on the host", lambda: pageable.copy_(torch.ones(4)), 0
    yield "on the device", lambda: there.copy_(torch.ones(4, device="cuda")), 0
    yield "twice", lambda: (there[0].item(), _cuda.synchronize()), 2


def test_every_wait_counts_once(floor: Machine) -> None:
    for name, call, waits in calls():
        assert cuda_syncs.count(call) == waits, name


def test_the_debug_mode_and_the_calls_are_put_back(floor: Machine) -> None:
    _cuda.init()
    watched = ((_cuda, "synchronize"), (_cuda.Event, "synchronize"), (torch.Tensor, "copy_"))
    before = [vars(owner).get(name) for owner, name in watched]

    def fails() -> None:
        raise ValueError

    with pytest.raises(ValueError):
        cuda_syncs.count(fails)
    assert [vars(owner).get(name) for owner, name in watched] == before
    assert _cuda.get_sync_debug_mode() == 0
    with pytest.warns(UserWarning):
        _cuda.set_sync_debug_mode("warn")
    assert cuda_syncs.count(lambda: _cuda.synchronize()) == 1
    assert _cuda.get_sync_debug_mode() == 1


def test_a_graph_waits_for_what_was_enqueued_before(floor: Machine) -> None:
    """Its warm-up runs on a stream of its own."""
    device = CudaDevice()
    counter = device.counter()
    device.advance(counter)
    replay = device.graph(lambda: device.advance(counter))
    before = counter.item()
    for _ in range(3):
        replay()
    assert counter.item() == before + 3
