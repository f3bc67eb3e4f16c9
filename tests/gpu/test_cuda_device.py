"""The cuda device does all that a device is asked for. Runs only where torch.cuda works."""

import subprocess
import sys
from functools import partial

import pytest
import torch

from hostbench.core.errors import fatal_reason
from hostbench.core.samples import median
from hostbench.core.units import KIB, MIB, format_bytes, format_seconds
from hostbench.device.cuda import CudaDevice

pytestmark = pytest.mark.gpu

DELAY_S = 0.05
QUEUE_DELAY_S = 0.2
MOST_CALLS = 5000
LOOP_CALLS = 500
"""More than any loop of the family overlap enqueues."""


def test_from_which_size_on_a_copy_from_pageable_memory_waits(cuda: CudaDevice) -> None:
    """CUDA's documentation says that it may: an answer, not a failure."""
    cuda.delay(0.001)  # calibrates
    early = []
    for nbytes in [KIB * 4**power for power in range(9)]:
        host, there = cuda.host_buffer(nbytes, pinned=False), cuda.buffer(nbytes)
        cuda.copy(there, host, blocking=False)
        calls_s = []
        for _ in range(3):
            cuda.synchronize()
            cuda.delay(DELAY_S)
            start_s = cuda.now()
            cuda.copy(there, host, blocking=False)
            calls_s.append(cuda.now() - start_s)
        if median(calls_s) < DELAY_S / 4:
            early.append(format_bytes(nbytes))
    print(f"pageable to the GPU returns early at: {', '.join(early) or 'none'}")


def test_computes_and_delays_take_what_was_asked_for(cuda: CudaDevice) -> None:
    """Of computes the short ones least: a product has a least time. What two events say with
    nothing between them is the least that the device clock can tell."""
    nothing_s = median(cuda.device_times(lambda: None))
    lines = [f"two events, nothing between: {format_seconds(nothing_s)}"]
    for asked_s in (20e-6, 100e-6, 1e-3, 5e-3):
        steps = cuda.compute(asked_s), partial(cuda.delay, asked_s)
        found = [median(cuda.device_times(step)) for step in steps]
        compute, delay = map(format_seconds, found)
        lines.append(f"{format_seconds(asked_s)}: compute {compute}, delay {delay}")
        if asked_s >= 100e-6:
            assert all(asked_s / 2 < seconds < asked_s * 2 for seconds in found), lines
    print("\n".join(lines))
    assert nothing_s < 20e-6


def test_calls_that_fit_into_the_queue(cuda: CudaDevice) -> None:
    """Behind a delay, until a call waits for it: longer loops than that are not asynchronous."""
    host, there = cuda.host_buffer(KIB, pinned=True), cuda.buffer(KIB)
    cuda.copy(there, host, blocking=False)
    cuda.delay(0.001)
    cuda.synchronize()
    cuda.delay(QUEUE_DELAY_S)
    slowest_s, num = 0.0, 0
    while slowest_s < QUEUE_DELAY_S / 4 and num < MOST_CALLS:
        start_s = cuda.now()
        cuda.copy(there, host, blocking=False)
        slowest_s, num = max(slowest_s, cuda.now() - start_s), num + 1
    cuda.synchronize()
    waits = slowest_s >= QUEUE_DELAY_S / 4
    print(f"copy {num} of 1KiB waited" if waits else f"none of {num} copies of 1KiB waited")
    assert num > LOOP_CALLS


def test_memory_is_counted_and_reset_gives_it_back(cuda: CudaDevice) -> None:
    before, reserved = cuda.memory_stats()["peak_allocated"], torch.cuda.memory_reserved()
    kept = cuda.buffer(64 * MIB)
    assert cuda.memory_stats()["peak_allocated"] - before >= 64 * MIB
    del kept
    assert torch.cuda.memory_reserved() >= 64 * MIB
    cuda.reset()
    assert torch.cuda.memory_reserved() == reserved
    assert cuda.memory_stats()["peak_allocated"] == before


def test_reset_empties_the_pinned_cache(cuda: CudaDevice) -> None:
    if not hasattr(torch.cuda, "host_memory_stats"):
        pytest.skip(f"torch {torch.__version__} has no torch.cuda.host_memory_stats")
    kept = cuda.host_buffer(64 * MIB, pinned=True)
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] >= 64 * MIB
    del kept
    cuda.reset()
    assert torch.cuda.host_memory_stats()["allocated_bytes.current"] < 64 * MIB


def test_waits_that_torch_does_not_tell_of_are_counted(cuda: CudaDevice) -> None:
    blocking, spinning = cuda.event(blocking=True), cuda.event()

    def work() -> None:
        for event in (blocking, spinning):
            cuda.delay(1e-3)
            event.record()
        blocking.synchronize()
        cuda.spin(spinning)
        cuda.this_stream().synchronize()
        cuda.synchronize()

    assert cuda.observe(work).num_waits == 3


def test_out_of_memory_is_recognised(cuda: CudaDevice) -> None:
    with pytest.raises(RuntimeError) as caught:
        cuda.buffer(1 << 50)
    assert str(fatal_reason(caught.value)).startswith("out of memory")


STICKY = """
import torch
try:
    torch._assert_async(torch.zeros(1, device="cuda"))
    torch.cuda.synchronize()
except Exception as error:
    print("reason:", fatal_reason(error))
"""


def test_a_sticky_error_is_recognised(cuda: CudaDevice) -> None:
    done = subprocess.run([sys.executable, "-c", STICKY], capture_output=True, text=True)
    assert "reason: CUDA error" in done.stdout
