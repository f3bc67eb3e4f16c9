"""The cpu device: real threads, real copies. Order is held by gates, never by sleeping."""

import threading
from collections.abc import Iterator
from unittest.mock import Mock

import pytest
import torch

from hostbench.core.errors import Unavailable
from hostbench.core.units import KIB, MIB
from hostbench.device.cpu import CpuDevice, CpuStream
from hostbench.measure.measure import BRIEF, Prepared, measure

WAIT_S = 20.0
"""Until a test that hangs gives up."""


@pytest.fixture
def device() -> Iterator[CpuDevice]:
    before = torch.get_num_threads()
    made = CpuDevice()
    yield made
    made.close()
    torch.set_num_threads(before)


def gate(stream: CpuStream) -> threading.Event:
    """Hold the stream until the gate is opened."""
    opened = threading.Event()
    stream.enqueue(lambda: None if opened.wait(WAIT_S) else pytest.fail("nobody opened the gate"))
    return opened


@pytest.mark.parametrize("block", [64 * KIB, MIB, 2 * MIB])
def test_patterns_differ_by_position(device: CpuDevice, block: int) -> None:
    """A block that lands in another block's place is seen."""
    buffer = device.buffer(8 * MIB)
    device.fill_pattern(buffer, 1)
    blocks = {bytes(part.numpy()) for part in buffer.split(block)}
    assert len(blocks) == 8 * MIB // block


def test_work_goes_to_the_current_stream(device: CpuDevice) -> None:
    source, target, before = device.buffer(KIB), device.buffer(KIB), device.current
    device.fill_pattern(source, 1)
    opened = gate(before)
    with device.on(device.stream()) as nothing:
        device.copy(target, source, blocking=True)
    assert nothing is None
    assert device.same_values(source, target)
    assert device.current is before
    opened.set()


def test_what_torch_does_at_once_is_not_taken_for_asynchronous(device: CpuDevice) -> None:
    source = device.buffer(KIB)
    result = measure(device, Prepared(step=source.clone), BRIEF)
    assert (result.device_s, result.findings["asynchronous"]) == ((), None)


def test_events(device: CpuDevice) -> None:
    event = device.event()
    assert event.query()
    event.synchronize()
    opened = gate(device.current)
    event.record()
    assert not event.query()
    opened.set()
    event.synchronize()
    assert event.query()
    later = device.event()
    later.record()
    later.synchronize()
    assert device.seconds_between(event, later) > 0
    assert device.seconds_between(later, event) == -device.seconds_between(event, later)


def test_a_wait_takes_the_mark_as_it_is_now(device: CpuDevice) -> None:
    """As in CUDA: recorded again behind a closed gate, it holds up nobody who waited before."""
    stream, event = device.stream(), device.event()
    event.record()
    stream.wait_event(event)
    opened = gate(device.current)
    event.record()
    stream.synchronize()
    assert not event.query()
    opened.set()


def test_synchronize_waits_for_all_streams_also_when_one_failed(device: CpuDevice) -> None:
    """Else work of a failed case would still run, and its error come up, in the next case."""
    wrong = Mock(side_effect=ValueError("put in on purpose"))
    other, last, seen = device.stream(), device.stream(), list[str]()
    device.current.enqueue(wrong)
    other.enqueue(wrong)
    last.enqueue(lambda: seen.append("done"))
    with pytest.raises(ValueError, match="on purpose"):
        device.synchronize()
    assert seen == ["done"]
    device.synchronize()


def test_reset_ends_the_other_streams(device: CpuDevice) -> None:
    extra, seen = device.stream(), list[str]()
    extra.enqueue(lambda: seen.append("done"))
    device.reset()
    assert seen == ["done"]
    assert sum("stream" in thread.name for thread in threading.enumerate()) == 1
    device.copy(device.buffer(KIB), device.buffer(KIB), blocking=True)


def test_delay_and_compute_are_enqueued(device: CpuDevice) -> None:
    compute = device.compute(1e-3)
    opened = gate(device.current)
    compute()
    device.delay(0.0)
    after = device.event()
    after.record()
    assert not after.query()
    opened.set()
    device.synchronize()
    assert after.query()


def test_compute_scales_with_the_seconds_asked_for(
    device: CpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: by what a product took when it was calibrated, however slow it is now."""
    done = list[int]()
    monkeypatch.setattr(torch, "bmm", lambda left, _, out: done.append(len(left)))
    device.__dict__["_product_s"] = 2e-4, 1e-4
    for seconds, num in ((0.0011, 10), (0.00014, 1)):
        device.compute(seconds)()
        device.synchronize()
        assert done == [num]
        done.clear()
    with pytest.raises(Unavailable, match=r"a compute of 0 ns takes .* here: none is that short"):
        device.compute(0.0)


def test_every_stream_computes_with_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's number of intra-op threads belongs to the thread that sets it."""
    told: dict[int, int] = {}
    monkeypatch.setattr(
        torch, "set_num_threads", lambda num: told.update({threading.get_ident(): num})
    )
    device = CpuDevice()
    try:
        threads: list[int] = []
        for stream in (device.current, device.stream()):
            stream.enqueue(lambda: threads.append(threading.get_ident()))
            stream.synchronize()
        assert told == dict.fromkeys([threading.get_ident(), *threads], 1) and len(told) == 3
    finally:
        device.close()
