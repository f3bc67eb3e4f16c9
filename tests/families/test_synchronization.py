"""A synchronization in each step of a loop: how often each device waits, and what was read."""

from typing import Any

import pytest

from benchmarks.synchronization import DEPTHS, FREE, TRAPS, counted_steps
from hostbench.core.records import FindingValue
from hostbench.core.samples import median
from hostbench.device.base import Device
from hostbench.device.cpu import CpuDevice
from hostbench.device.cuda import CudaDevice
from hostbench.device.simulated import SimulatedDevice
from hostbench.device.simulated_file import Link, Simulation
from hostbench.families import load
from hostbench.measure import evidence
from hostbench.measure.measure import BRIEF, findings_of, measure
from hostbench.measure.workload import Workload, prepare
from tests.fakes.builders import declared_case
from tests.fakes.fake_cuda import Machine

WORKS = load(("synchronization",))
LOOP = WORKS["synchronization.loop"]
SYNCS: dict[str, float] = dict.fromkeys(TRAPS, 1.0) | dict.fromkeys(FREE, 0.0)
SYNCS["item_every_10"] = 0.1


def findings(on: Device, /, work: Workload = LOOP, **axes: object) -> dict[str, FindingValue]:
    return evidence.gather(on, prepare(work, on, declared_case(work, **axes))).findings


def test_a_graph_costs_one_launch_a_step() -> None:
    """The floor of a loop whose launches take longer than its kernels: two of them, or one."""

    def step_s(trap: str) -> float:
        device = SimulatedDevice(Simulation(link=slow))
        prepared = prepare(LOOP, device, declared_case(LOOP, trap=trap))
        return median(measure(device, prepared, BRIEF).end_to_end_s)

    slow = Link(launch_s=30e-6)
    per_loop_s = (slow.wait_s + 10e-6) / DEPTHS[10]
    assert step_s("none") == pytest.approx(60e-6 + slow.wait_s / DEPTHS[10], rel=1e-9)
    assert step_s("graph") == pytest.approx(30e-6 + per_loop_s, rel=1e-9)


# ---- what was read ------------------------------------------------------------------------------


@pytest.mark.parametrize("trap", ["item", "mask", "bool", "nonzero"])
def test_a_trap_that_reads_too_early_fails_the_proof(
    trap: Any, cpu: CpuDevice, floor: Machine
) -> None:
    """It would be the cheapest of all."""
    for device in (SimulatedDevice(), cpu, CudaDevice()):
        stale = device.host_read(trap, device.counter())()  # of a step that was none
        real = device.host_read
        device.host_read = lambda how, counter, stale=stale: lambda: stale  # type: ignore[method-assign]
        wrong = counted_steps(device, 1_000, trap)
        for _ in range(3):
            wrong.step()
        device.host_read = real  # type: ignore[method-assign]
        assert wrong.verify is not None
        assert f"after step 3 {trap} read" in str(wrong.verify())


def test_how_long_a_compute_took_is_kept(floor: Machine) -> None:
    """Beside what its case is called after."""
    kept = findings_of(prepare(LOOP, CudaDevice(), declared_case(LOOP, step_us=100, trap="item")))
    assert kept == {"compute_s": pytest.approx(100e-6, rel=0.1)}


def test_a_step_that_did_not_run_fails_the_proof() -> None:
    device = SimulatedDevice()
    prepared = counted_steps(device, 10, "none")
    prepared.step()
    device.advance = lambda counter: None  # type: ignore[method-assign]
    prepared.step()
    assert prepared.verify is not None
    assert prepared.verify() == "the steps counted to 1, not to 2"


@pytest.mark.parametrize("way", ["device", "stream", "event", "event_query"])
def test_a_wait_that_does_not_wait_fails_the_proof(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, wait = SimulatedDevice(), WORKS["synchronization.wait"]
    prepared = prepare(wait, device, declared_case(wait, way=way))
    assert prepared.verify is not None and prepared.verify() is None
    for name in ("wait_until", "spin"):
        monkeypatch.setattr(device, name, lambda *_: None)
    broken = prepare(wait, device, declared_case(wait, way=way))
    assert broken.verify is not None
    assert broken.verify() == "it was back before the work was done"


# ---- the other devices --------------------------------------------------------------------------


@pytest.mark.parametrize("trap", TRAPS)
def test_each_device_waits_as_often_as_the_trap_says(
    cpu: CpuDevice, floor: Machine, trap: str
) -> None:
    """And is asynchronous without one. On cuda printing one number reads it eight times over: torch
    looks for its range and its width."""
    found = findings(CudaDevice(), step_us=1_000, trap=trap)
    assert found["syncs_per_step"] == {**SYNCS, "print": 8.0}[trap]
    if trap != "graph":
        found = findings(cpu, device="cpu", step_us=1_000, trap=trap)
        assert found["syncs_per_step"] == SYNCS[trap]
        assert 0 < float(found["busy_s"] or 0)
