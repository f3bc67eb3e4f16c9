"""Latency and bandwidth, crossover and break-even: exact on made-up times and a simulated link."""

import math

import pytest

from hostbench.core.case import Case
from hostbench.core.latency import Times, crossover, fit
from hostbench.core.samples import median
from hostbench.core.units import GB, GIB, KIB, MIB
from hostbench.device.simulated import Link, SimulatedDevice
from hostbench.families import load
from hostbench.measure.measure import Settings, measure
from hostbench.measure.workload import prepare, registry

SIZES = tuple(KIB * 4**power for power in range(10))
LINK = Link(
    host_to_device_bytes_per_s=40 * GB, pageable_bytes_per_s=8 * GB, latency_s=7e-6, alloc_s=0.0
)


def line(latency_s: float, rate: float) -> dict[int, float]:
    return {size: latency_s + size / rate for size in SIZES}


def simulated(workload: str, sizes: tuple[int, ...], **axes: str | bool) -> Times:
    load(("transfer",))
    work, found = registry()[f"transfer.{workload}"], {}
    for nbytes in sizes:
        case = Case.of(work.name, {"device": "cuda", "nbytes": nbytes, **axes})
        device = SimulatedDevice(LINK)
        samples = measure(device, prepare(work, device, case), Settings())
        found[nbytes] = median(samples.end_to_end_s)
    return found


def test_a_line_is_found_again() -> None:
    found = fit(line(12e-6, 55 * GB))
    assert found.refused is None
    assert found.latency_s == pytest.approx(12e-6)
    assert found.bytes_per_s == pytest.approx(55 * GB)
    assert found.half_rate_bytes == pytest.approx(660_000)
    assert found.seconds(660_000) == pytest.approx(24e-6)
    assert found.error == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("blocking", [True, False])
def test_the_fit_gives_the_simulated_link(blocking: bool) -> None:
    """A call's launch and a wait are in the latency; a blocking copy waits twice."""
    times = simulated("host_to_device", SIZES, memory="pinned", blocking=blocking)
    found = fit(times)
    waits = 2 if blocking else 1
    latency_s = LINK.latency_s + LINK.launch_s + waits * LINK.wait_s
    assert found.latency_s == pytest.approx(latency_s, rel=1e-6)
    assert found.bytes_per_s == pytest.approx(40 * GB, rel=1e-6)


def test_a_disturbed_size_moves_the_line_little_and_is_named() -> None:
    times = {**line(10e-6, 50 * GB), MIB: 1.2 * (10e-6 + MIB / (50 * GB))}
    found = fit(times)
    assert found.refused is None and found.worst_at == MIB
    assert found.worst == pytest.approx(1 - 1 / 1.2, abs=0.03)
    assert found.bytes_per_s == pytest.approx(50 * GB, rel=0.05)


@pytest.mark.parametrize(
    ("times", "why"),
    [
        ({}, "0 sizes have a time; 4 are needed"),
        ({KIB: 1.0, MIB: 2.0, GIB: math.nan, 4 * KIB: -1.0}, "2 sizes have a time"),
        ({size: 1.0 for size in (4, 5, 6, 7)}, "less than a factor of 64"),
        ({size: 1.0 / size for size in SIZES}, "do not take longer"),
        ({size: 1e-12 * size**1.5 for size in SIZES}, "no straight line"),
        ({size: 1e-9 * size**1.02 for size in SIZES[-5:]}, "latency below zero"),
    ],
)
def test_no_line_where_there_is_none(times: Times, why: str) -> None:
    found = fit(times)
    assert why in str(found.refused)
    assert math.isnan(found.latency_s) and math.isnan(found.half_rate_bytes)


def test_the_crossover_is_interpolated_in_the_logarithms() -> None:
    """1.02 times faster is the same; 1/1.02 below and 1.02**3 above cross half-way between."""
    slow = {KIB: 1.0, 16 * KIB: 1.02**3, MIB: 3.0}
    found = crossover(slow, {KIB: 1.02, 16 * KIB: 1.0, MIB: 1.0})
    assert found.always is None and found.nbytes == pytest.approx(4 * KIB)
    assert crossover(slow, dict.fromkeys(slow, 1.0)).nbytes == pytest.approx(KIB * 16 ** (1 / 3))


def test_one_that_is_faster_only_for_small_copies_says_up_to_where() -> None:
    found = crossover({KIB: 2.0, 64 * KIB: 1.0}, {KIB: 1.0, 64 * KIB: 2.0})
    assert found.refused is None and found.only_below and 7 <= found.nbytes / 1024 < 8
    as_fast = crossover({KIB: 2.0, MIB: 1.0, GIB: 1.0}, dict.fromkeys((KIB, MIB, GIB), 1.0))
    assert as_fast.only_below and KIB < as_fast.nbytes < MIB


def test_one_may_be_faster_everywhere() -> None:
    half, whole = dict.fromkeys(SIZES, 1.0), dict.fromkeys(SIZES, 2.0)
    assert crossover(whole, half).always is True
    assert crossover(half, whole).always is False
    assert crossover(half, half).always is False


@pytest.mark.parametrize(
    ("slow", "why"),
    [
        ({KIB: 2.0, MIB: 1.0, GIB: 2.0}, "more than once"),
        ({KIB: 2.0, MIB: math.nan, GIB: 0.0}, "1 size has both times"),
    ],
)
def test_a_crossover_that_cannot_be_said(slow: Times, why: str) -> None:
    found = crossover(slow, {KIB: 1.0, MIB: 1.0, GIB: 1.0})
    assert why in str(found.refused) and math.isnan(found.nbytes)
