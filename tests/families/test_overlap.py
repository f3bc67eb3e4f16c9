"""The overlapped loops: data that has to be right."""

from typing import Any

import pytest

from benchmarks.overlap import Loop
from hostbench.core.units import MIB
from hostbench.device.base import Device
from hostbench.device.simulated import SimulatedDevice, SimulatedStream
from hostbench.measure.measure import Prepared

SIZE = 4 * MIB


def verified(device: Device, prepared: Prepared) -> str | None:
    """What the proof says after one step."""
    prepared.step()
    device.synchronize()
    assert prepared.verify is not None
    return prepared.verify()


@pytest.mark.parametrize(
    ("schedule", "deaf"),
    [("copy_stream", 0), ("copy_stream", 1), ("graph", 0), ("graph", 1), ("three_streams", 1)],
)
def test_a_missing_event_fails_the_data_proof(
    schedule: str, deaf: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the streams for copies in and for compute one waits for nothing: compute sees the batch
    that was there before; copies overwrite what it still has to read."""
    device = SimulatedDevice()
    loop = Loop(device, SIZE, "pinned", returns=schedule == "three_streams")
    prepared, wait = loop.prepared(schedule), SimulatedStream.wait_event
    assert verified(device, prepared) is None
    monkeypatch.setattr(
        SimulatedStream, "wait_event", lambda s, event: s is loop.streams[deaf] or wait(s, event)
    )
    said = str(verified(device, prepared))
    assert "computed on other data" in said or "came back as other data" in said
    assert not loop.is_noting


@pytest.mark.parametrize("schedule", ["copy_only", "serial", "default_stream", "copy_stream"])
def test_a_copy_that_is_cut_short_fails_the_data_proof(schedule: str, cpu: Any) -> None:
    """On real memory: the ends of a batch are right, its middle is not."""
    loop, whole = Loop(cpu, SIZE, "pageable"), cpu.copy
    prepared = loop.prepared(schedule)

    def cut(target: Any, source: Any, *, blocking: bool) -> None:
        for part in (slice(0, 8), slice(-8, None)):
            whole(target[part], source[part], blocking=blocking)

    for target in loop.targets:
        cpu.fill_pattern(target, 99)
    cpu.copy = cut
    assert verified(cpu, prepared) == "batches [6, 7] did not arrive whole"
    cpu.copy = whole
    assert verified(cpu, prepared) is None
