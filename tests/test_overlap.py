"""The overlapped loops on the simulated device: exact seconds, and data that has to be right."""

import pytest

from hostbench.device.simulated import Link, SimulatedDevice
from hostbench.efficiency import ideal_s
from hostbench.measure import Settings, measure
from hostbench.samples import median
from hostbench.units import GB, MIB
from hostbench.workload import find, prepare
from hostbench.workloads import load
from hostbench.workloads.loops import NUM_BATCHES
from hostbench.workloads.loops import Loop as _Loop
from hostbench.workloads.overlap import SCHEDULES

SIZE = 4 * MIB
FREE = {"latency_s": 0.0, "launch_s": 0.0, "wait_s": 0.0}
"""A machine whose host costs nothing: what is left is copies and computes alone."""


def seconds(schedule: str, memory: str = "pinned", **link: float) -> float:
    load(("overlap",))
    device = SimulatedDevice(Link(**{**FREE, **link}))  # type: ignore[arg-type]
    work = find("overlap.pipeline")
    case = next(
        case
        for case in work.cases()
        if case.values["batch_bytes"] == SIZE
        and case.values["memory"] == memory
        and case.values["schedule"] == schedule
    )
    found = measure(device, prepare(work, device, case), Settings())
    assert found.proofs in ({"data": "passed"}, {})
    return median(found.samples.end_to_end_s)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_each_schedule_takes_exactly_what_the_clock_says(schedule: str) -> None:
    copy_s = SIZE / (50 * GB)
    ideal = ideal_s(NUM_BATCHES * copy_s, NUM_BATCHES * copy_s, NUM_BATCHES)
    expected = {
        "copy_only": NUM_BATCHES * copy_s,
        "compute_only": NUM_BATCHES * copy_s,
        "serial": 2 * NUM_BATCHES * copy_s,
        "default_stream": 2 * NUM_BATCHES * copy_s,
    }.get(schedule, ideal)
    assert seconds(schedule) == pytest.approx(expected, rel=1e-9)


def test_pageable_copies_hold_the_host_but_still_overlap_the_device() -> None:
    copy_s = SIZE / (10 * GB)
    ideal = ideal_s(NUM_BATCHES * copy_s, NUM_BATCHES * copy_s, NUM_BATCHES)
    assert seconds("copy_stream", "pageable") == pytest.approx(ideal, rel=1e-9)


def test_a_missing_event_fails_the_data_proof() -> None:
    """Compute that does not wait for its copy sees the batch that was there before."""
    device = SimulatedDevice()
    loop = _Loop(device, SIZE, pinned=True)
    copies, computes = device.stream(), device.stream()

    def broken() -> None:
        for batch in range(NUM_BATCHES):
            with device.on(copies):
                target = loop.copy(batch, 2)
            with device.on(computes):
                loop.use(batch, target)

    broken()
    device.synchronize()
    assert "computed on other data" in str(loop.verify())
    loop.copy_stream()
    device.synchronize()
    assert loop.verify() is None


def test_a_buffer_overwritten_too_early_fails_the_data_proof() -> None:
    """Copies that do not wait for the compute before them overwrite what it still has to read."""
    device = SimulatedDevice()
    loop = _Loop(device, SIZE, pinned=True)
    copies, computes = device.stream(), device.stream()
    for batch in range(NUM_BATCHES):
        with device.on(copies):
            target = loop.copy(batch, 2)
            arrived = device.event()
            arrived.record(copies)
        with device.on(computes):
            computes.wait(arrived)
            loop.use(batch, target)
    device.synchronize()
    assert "computed on other data" in str(loop.verify())


def test_every_case_of_a_launch_computes_equally() -> None:
    device = SimulatedDevice()
    first, second = (_Loop(device, SIZE, pinned=True) for _ in range(2))
    spent = []
    for loop in (first, second):
        start_s = device.now()
        loop.compute()
        device.synchronize()
        spent.append(device.now() - start_s)
    assert spent[0] == pytest.approx(spent[1], rel=1e-9)
