"""The simulated device, to the last digit: every rule of its docstring is an equality here.

All times are binary fractions, so that sums of them are exact.
"""

from hostbench.device.simulated import Link, SimulatedBuffer, SimulatedDevice

LAUNCH, WAIT, LATENCY, ALLOC = 2.0**-10, 2.0**-9, 2.0**-8, 2.0**-11
N = 1 << 20
H2D, D2H, PAGEABLE = N / 2.0**-3, N / 2.0**-2, N / 2.0**-1
PINNED_S, BACK_S, PAGEABLE_S = LATENCY + 2.0**-3, LATENCY + 2.0**-2, LATENCY + 2.0**-1


def link(num_copy_engines: int = 2) -> Link:
    return Link(
        host_to_device_bytes_per_s=H2D,
        device_to_host_bytes_per_s=D2H,
        pageable_bytes_per_s=PAGEABLE,
        latency_s=LATENCY,
        launch_s=LAUNCH,
        wait_s=WAIT,
        alloc_s=ALLOC,
        malloc_s=0.0,
        num_copy_engines=num_copy_engines,
        host_bytes_per_s=float(N),
        device_bytes_per_s=N * 16.0,
        host_randn_bytes_per_s=N / 8.0,
        device_randn_bytes_per_s=N * 4.0,
    )


def device(num_copy_engines: int = 2) -> SimulatedDevice:
    return SimulatedDevice(link(num_copy_engines))


def buffers(
    dev: SimulatedDevice, *, pinned: bool = True
) -> tuple[SimulatedBuffer, SimulatedBuffer]:
    """(host, device) buffers of N bytes with patterns 1 and 2; the clock is set back to 0."""
    host, there = dev.host_buffer(N, pinned=pinned), dev.buffer(N)
    dev.fill_pattern(host, 1)
    dev.fill_pattern(there, 2)
    for buffer in (host, there):
        buffer.contents.writes = [(0.0, 0.0, token) for _, _, token in buffer.contents.writes]
    dev.host_s = 0.0
    return host, there


def test_a_pageable_copy_waits_for_its_stream_and_a_pinned_one_does_not() -> None:
    for pinned, called_s in ((True, 2 * LAUNCH), (False, LAUNCH + 4.0 + PAGEABLE_S)):
        dev = device()
        host, there = buffers(dev, pinned=pinned)
        dev.delay(4.0)
        dev.copy(there, host, blocking=False)
        assert dev.now() == called_s


def test_a_wait_takes_the_mark_as_it_is_now() -> None:
    """As in CUDA, recording the event again later moves nothing that already waits."""
    dev = device()
    busy, waiting = dev.stream(), dev.stream()
    mark = dev.event()
    waiting.wait(mark)
    with dev.on(busy):
        dev.delay(8.0)
        mark.record()
    waiting.synchronize()
    assert dev.now() == LAUNCH + WAIT


def test_waits_are_counted_once_each() -> None:
    """Asking is none, and who spins is back at once, with nothing to pay."""
    dev = device()
    event, pageable = dev.event(), dev.host_buffer(4, pinned=False)
    there = dev.buffer(4)

    def work() -> None:
        start_s = dev.now()
        dev.delay(1.0)
        event.record()
        event.query()
        dev.spin(event)
        assert dev.now() == start_s + LAUNCH + 1.0
        event.synchronize()
        dev.this_stream().synchronize()
        dev.synchronize()
        dev.copy(there, pageable, blocking=False)
        dev.copy(there, pageable, blocking=True)

    assert dev.observe(work).num_waits == 5
    assert dev.observe(lambda: None).num_waits == 0
