"""The overlapped loops: data that has to be right."""

from typing import Any

import pytest

from hostbench.core.units import MIB
from hostbench.device.cpu import CpuDevice
from hostbench.device.simulated import SimulatedDevice
from hostbench.families import load
from hostbench.families.overlap.loops import NUM_BATCHES, Loop, Way

WORKS = load(("overlap",))
PIPELINE = WORKS["overlap.pipeline"]
SIZE = 4 * MIB


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
