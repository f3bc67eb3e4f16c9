"""The workloads of transfer on the simulated device: exact seconds, clocks, findings, proofs."""

from collections.abc import Iterator

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.core.records import Measurement
from hostbench.core.samples import median
from hostbench.core.units import GB, KIB, MIB
from hostbench.device.cpu import CpuDevice
from hostbench.device.simulated import Link, SimulatedDevice
from hostbench.families import load
from hostbench.measure import evidence
from hostbench.measure.measure import Settings, measure
from hostbench.measure.workload import Workload, prepare, registry

load(("transfer",))
LINK = Link()
SYNC_S = LINK.launch_s + LINK.wait_s


def cases(name: str, **axes: AxisValue) -> Iterator[tuple[Workload, Case]]:
    work = registry()[f"transfer.{name}"]
    for case in work.cases():
        if all(case.values[axis] == value for axis, value in axes.items()):
            yield work, case


def measured(name: str, link: Link = LINK, /, **axes: AxisValue) -> Measurement:
    ((work, case),) = cases(name, device="cuda", **axes)
    device = SimulatedDevice(link)
    found = measure(device, prepare(work, device, case), Settings())
    assert found.proofs == {"data": "passed"}
    return found


def seconds(name: str, /, **axes: AxisValue) -> float:
    return median(measured(name, **axes).end_to_end_s)


def pinned_s(nbytes: float, rate: float = 50 * GB) -> float:
    return LINK.latency_s + nbytes / rate


@pytest.mark.parametrize("memory", ["pinned", "registered"])
def test_a_plain_copy_is_latency_and_bytes_over_rate(memory: str) -> None:
    for name in ("host_to_device", "device_to_host"):
        found = seconds(name, nbytes=MIB, memory=memory, blocking=False)
        assert found == pytest.approx(SYNC_S + pinned_s(MIB), rel=1e-9)


def test_an_async_copy_from_pinned_memory_leaves_the_host_free_and_one_from_pageable_does_not() -> (
    None
):
    fast = measured("host_to_device", nbytes=256 * MIB, memory="pinned", blocking=False)
    slow = measured("host_to_device", nbytes=256 * MIB, memory="pageable", blocking=False)
    assert (fast.findings["asynchronous"], slow.findings["asynchronous"]) == (True, False)
    shares = [1 - m.call_s[0] / m.end_to_end_s[0] for m in (fast, slow)]
    assert shares[0] > 0.999 and shares[1] < 0.001


@pytest.mark.parametrize(("num_engines", "together"), [(1, 2), (2, 1)])
def test_both_ways_take_turns_on_one_engine(num_engines: int, together: int) -> None:
    link = Link(num_copy_engines=num_engines, launch_s=0.0, wait_s=0.0)
    found = measured("both_ways", link, nbytes=64 * MIB, memory="pinned")
    one_way = link.latency_s + 64 * MIB / (50 * GB)
    assert median(found.end_to_end_s) == pytest.approx(together * one_way, rel=1e-9)
    ((work, case),) = cases("both_ways", device="cuda", nbytes=64 * MIB, memory="pinned")
    device = SimulatedDevice(link)
    seen = evidence.gather(device, prepare(work, device, case))
    assert seen.findings["both_ways_share"] == pytest.approx(2 - together)
    assert seen.findings["both_at_once"] is (num_engines == 2)


@pytest.mark.parametrize("nbytes", [64 * KIB, 64 * MIB])
def test_pinning_on_the_fly_costs_the_locking_when_cold_and_a_copy_always(nbytes: int) -> None:
    warm, cold = (
        seconds("pin_and_copy", nbytes=nbytes, cache=cache, blocking=True)
        for cache in ("warm", "cold")
    )
    staged = LINK.alloc_s + nbytes / LINK.host_bytes_per_s
    assert warm == pytest.approx(staged + SYNC_S + LINK.wait_s + pinned_s(nbytes), rel=1e-9)
    assert cold - warm == pytest.approx(nbytes / LINK.pin_bytes_per_s, rel=1e-9)


def test_to_device_allocates_and_only_cold_pays_for_it() -> None:
    axes: dict[str, AxisValue] = {"nbytes": 16 * MIB, "memory": "pinned", "blocking": False}
    plain = seconds("host_to_device", **axes)
    warm, cold = (seconds("to_device", cache=cache, **axes) for cache in ("warm", "cold"))
    assert warm - plain == pytest.approx(LINK.alloc_s, rel=1e-6)
    assert cold - warm == pytest.approx(LINK.malloc_s, rel=1e-9)


def test_to_host_without_blocking_pins_its_output() -> None:
    found = {
        (cache, blocking): seconds("to_host", nbytes=MIB, cache=cache, blocking=blocking)
        for cache, blocking in (("warm", True), ("warm", False), ("cold", False))
    }
    slow = found["warm", True] - found["warm", False]
    assert slow == pytest.approx(MIB / (10 * GB) - MIB / (50 * GB) + LINK.wait_s, rel=1e-9)
    assert found["cold", False] - found["warm", False] == pytest.approx(MIB / (2 * GB), rel=1e-9)
    assert not list(cases("to_host", cache="cold", blocking=True))


def test_a_thousand_tensors_pay_a_thousand_latencies() -> None:
    axes: dict[str, AxisValue] = {"nbytes": 4096000, "memory": "pinned"}
    one, many = (
        seconds("many_tensors", num_tensors=num, blocking=False, **axes) for num in (1, 1000)
    )
    assert many - one == pytest.approx(999 * LINK.latency_s, rel=1e-6)
    waiting = seconds("many_tensors", num_tensors=1000, blocking=True, **axes)
    each = LINK.launch_s + LINK.latency_s + 4096 / (50 * GB) + LINK.wait_s
    assert waiting == pytest.approx(1000 * each + LINK.wait_s, rel=1e-9)


def test_copies_on_and_between_devices() -> None:
    for nbytes in (64 * MIB, 512 * MIB):
        assert seconds("on_device", nbytes=nbytes) == pytest.approx(SYNC_S + nbytes / 2e12)
    assert not list(cases("on_device", device="cpu", nbytes=512 * MIB))
    peer = seconds("between_devices", nbytes=64 * MIB, route="peer")
    assert peer == pytest.approx(SYNC_S + LINK.wait_s + pinned_s(64 * MIB, 400 * GB))
    through = seconds("between_devices", nbytes=64 * MIB, route="through_host")
    assert through == pytest.approx(2 * (SYNC_S + pinned_s(64 * MIB)) + LINK.wait_s)


@pytest.mark.parametrize("name", ["strided", "cast", "both_ways", "to_device", "to_host"])
def test_the_cpu_device_copies_what_it_says(name: str) -> None:
    device = CpuDevice()
    try:
        for work, case in cases(name, device="cpu"):
            if case.values["nbytes"] != MIB or case.values.get("cache") == "cold":
                continue
            if case.values.get("memory") == "pinned":
                continue
            prepared = prepare(work, device, case)
            seen = evidence.gather(device, prepared)
            assert prepared.verify is not None and prepared.verify() is None
            assert "failed" not in str(seen.proofs), (case, seen)
            assert "pageable" in str(seen.findings["copies"])
            device.reset()
    finally:
        device.close()
