"""The overlapped loops on the simulated device: exact seconds, and data that has to be right."""

from typing import Any

import pytest

from benchmarks.overlap import RATIOS
from hostbench.core.samples import median
from hostbench.core.units import GB, MIB
from hostbench.device.cpu import CpuDevice
from hostbench.device.simulated import Link, SimulatedDevice
from hostbench.families import load
from hostbench.families.overlap.ideal import ideal_round_trip_s, ideal_s
from hostbench.families.overlap.loops import NUM_BATCHES, Loop, Way
from hostbench.measure.measure import Settings, measure
from hostbench.measure.workload import prepare

WORKS = load(("overlap",))
PIPELINE = WORKS["overlap.pipeline"]
SIZE = 4 * MIB
FREE = {"latency_s": 0.0, "launch_s": 0.0, "wait_s": 0.0, "alloc_s": 0.0, "malloc_s": 0.0}
"""A machine whose host costs nothing: what is left is copies and computes alone."""


def seconds(schedule: str, memory: str = "pinned", **link: float) -> float:
    device = SimulatedDevice(Link(**{**FREE, **link}))  # type: ignore[arg-type]
    case = next(
        case
        for case in PIPELINE.cases()
        if case.values["batch_bytes"] == SIZE
        and case.values["memory"] == memory
        and case.values["schedule"] == schedule
    )
    found = measure(device, prepare(PIPELINE, device, case), Settings())
    assert found.proofs == ({} if schedule == "compute_only" else {"data": "passed"})
    return median(found.end_to_end_s)


@pytest.mark.parametrize("schedule", PIPELINE.axes["schedule"])
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


def broken_by(loop: Loop, waits_for_copy: bool) -> Way:
    """copy_stream with one of its two events left out."""
    copies, computes = loop.device.stream(), loop.device.stream()

    def step() -> None:
        for batch in range(NUM_BATCHES):
            with loop.device.on(copies):
                target = loop.copy(batch, 2)
                arrived = loop.device.event()
                arrived.record(copies)
            with loop.device.on(computes):
                if waits_for_copy:
                    computes.wait(arrived)
                loop.use(batch, target)

    return Way(step)


@pytest.mark.parametrize("waits_for_copy", [False, True])
def test_a_missing_event_fails_the_data_proof(waits_for_copy: bool) -> None:
    """Compute that does not wait for its copy sees the batch that was there before; copies that do
    not wait for the compute overwrite what it still has to read."""
    device = SimulatedDevice()
    loop = Loop(device, SIZE, pinned=True)
    for way, wrong in (
        (broken_by(loop, waits_for_copy), True),
        (loop.ways()["copy_stream"], False),
    ):
        way.step()
        device.synchronize()
        assert ("computed on other data" in str(loop.check(way))) is wrong
    assert not loop.is_noting


@pytest.mark.parametrize("name", ["copy_only", "serial", "default_stream", "copy_stream"])
def test_a_copy_that_is_cut_short_fails_the_data_proof(name: str) -> None:
    """On real memory: the ends of a batch are right, its middle is not."""
    device = CpuDevice()
    try:
        loop = Loop(device, SIZE, pinned=False)
        way = loop.ways()[name]
        whole = device.copy

        def cut(target: Any, source: Any, *, blocking: bool) -> None:
            for part in (slice(0, 8), slice(-8, None)):
                whole(target[part], source[part], blocking=blocking)

        for target in loop.targets:
            device.fill_pattern(target, 99)
        device.copy = cut  # type: ignore[method-assign]
        way.step()
        device.synchronize()
        assert loop.check(way) == "batches [6, 7] did not arrive whole"
        device.copy = whole  # type: ignore[method-assign]
        way.step()
        device.synchronize()
        assert loop.check(way) is None
    finally:
        device.close()


def part_s(schedule: str, num_engines: int = 2, **axes: str) -> float:
    """Exact seconds of one of the other workloads, on a machine whose host costs nothing."""
    device = SimulatedDevice(Link(**{**FREE, "num_copy_engines": num_engines}))  # type: ignore[arg-type]
    for work in (WORKS["overlap.round_trip"], WORKS["overlap.ratio"], WORKS["overlap.ordered"]):
        for case in work.cases():
            chosen = {"schedule": schedule, "ordering": schedule, "device": "cuda", **axes}
            if all(chosen.get(k, v) == v for k, v in case.values.items()) and set(axes) <= set(
                case.values
            ):
                found = measure(device, prepare(work, device, case), Settings())
                assert set(found.proofs.values()) == ({"passed"} if found.proofs else set())
                return median(found.end_to_end_s)
    raise AssertionError(f"no case {schedule} {axes}")


@pytest.mark.parametrize("num_engines", [1, 2])
def test_the_round_trip_reaches_the_bound_of_its_engines(num_engines: int) -> None:
    copies = part_s("copy_in_only", num_engines)
    assert part_s("copy_out_only", num_engines) == pytest.approx(copies)
    assert part_s("default_stream", num_engines) == pytest.approx(3 * copies)
    ideal = ideal_round_trip_s(copies, copies, copies, NUM_BATCHES, num_engines)
    assert ideal == pytest.approx(copies * (10 if num_engines == 2 else 16) / 8)
    assert part_s("three_streams", num_engines) == pytest.approx(ideal, rel=1e-9)


@pytest.mark.parametrize("ratio", RATIOS)
def test_the_ratio_is_that_of_the_computes(ratio: str) -> None:
    copies = part_s("copy_only", compute_to_copy=ratio)
    computes = part_s("compute_only", compute_to_copy=ratio)
    assert computes / copies == pytest.approx(RATIOS[ratio])
    assert part_s("serial", compute_to_copy=ratio) == pytest.approx(copies + computes)
    ideal = ideal_s(copies, computes, NUM_BATCHES)
    assert part_s("copy_stream", compute_to_copy=ratio) == pytest.approx(ideal, rel=1e-9)


def test_every_ordering_hides_the_copies_when_waiting_is_free() -> None:
    copy_s = 32 * MIB / (50 * GB)
    for name in ("events", "record_stream", "stream_synchronize", "device_synchronize"):
        assert part_s(name) == pytest.approx(9 * copy_s, rel=1e-9), name
