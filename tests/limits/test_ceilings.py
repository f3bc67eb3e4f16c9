"""Ceilings: the formulas against published arithmetic, and which link each case is held against."""

from typing import Any

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.core.units import KIB, MIB
from hostbench.device.simulated_file import Link, Simulation
from hostbench.facts.record import Facts, Group, known, unknown
from hostbench.families import declared
from hostbench.limits import links
from hostbench.limits.ceiling import Ceiling
from hostbench.limits.ceiling import ceiling as of_link

GEN5 = {"pcie_max_generation": 5, "pcie_max_width": 16}
ENCODED = 63.015384615384619
PACKETS = ENCODED * 256 / 280
MAXIMUM = " (its maximum: not read under load)"
NVLINK = {"nvlink_mb_per_s": 18 * 26562, "nvlink_links": 18}
C2C = {"c2c_enabled": "on", "c2c_max_mb_per_s": 450_000}
MEMORY = {"memory_clock_max_mhz": 3201, "memory_bus_width_bits": 6144}


def gpu(**values: Any) -> Group:
    """A GPU in a Gen5 slot whose link sleeps."""
    asleep = {"pcie_generation": 1, "pcie_width": 16}
    return {name: known(value) for name, value in {**asleep, **GEN5, **values}.items()}


def one(**values: Any) -> Facts:
    return {"gpu0": gpu(**values)}


def two(second: dict[str, Any], **first: Any) -> Facts:
    """Two GPUs, which CUDA counts the other way round."""
    return {"gpu0": gpu(cuda_index=1, **second), "gpu1": gpu(cuda_index=0, **first)}


def ceiling(
    name: str, facts: Facts, loaded: Facts | None = None, device: str = "cuda", **axes: AxisValue
) -> Ceiling | str:
    """Of the case with these axes and the first choice on the others, as its workload declares."""
    work = declared(name if "." in name else f"transfer.{name}")
    assert work is not None
    first = {axis: choices[0] for axis, choices in work.axes.items()}
    case = Case.of(work.name, {**first, "device": "cuda", **axes})
    options = work.options(case)
    if options.link is None:
        return "no link"
    nbytes = float(case.values.get("nbytes", 0))
    return of_link(options.link, options.share_of_link, device, facts, loaded or {}, nbytes)


def rate(name: str, facts: Facts, **axes: Any) -> float:
    limit = ceiling(name, facts, **axes)
    assert isinstance(limit, Ceiling), limit
    return limit.gb_per_s


@pytest.mark.parametrize(
    ("generation", "encoded", "packets"),
    [
        (1, 4.0, 3.657),
        (2, 8.0, 7.314),
        (3, 15.754, 14.404),
        (4, 31.508, 28.807),
        (5, 63.015, 57.614),
        (6, 121.0, 110.629),
    ],
)
def test_pcie_x16(generation: int, encoded: float, packets: float) -> None:
    assert links.pcie(generation, 16) == pytest.approx(packets, abs=5e-4)
    assert links.pcie(generation, 8) == links.pcie(generation, 16) / 2
    assert links.encoded(links.pcie(generation, 16)) == pytest.approx(encoded, abs=5e-4)


def test_what_pcie_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="generation 7 is not one of"):
        links.pcie(7, 16)
    with pytest.raises(ValueError, match="width 3 is not one of"):
        links.pcie(5, 3)


def test_device_memory_and_nvlink() -> None:
    assert links.memory(1215, 5120) == pytest.approx(1555.2)
    assert links.memory(10501, 384) == pytest.approx(1008.096)
    for mb_per_s, num, gb_per_s in ((26562, 18, 450), (53125, 18, 900), (25781, 12, 300)):
        assert links.nvlink(num * mb_per_s, num) == gb_per_s  # the line code is taken off
    assert links.nvlink(12 * 20000, 12) == 240
    assert links.nvlink(450_000) == 450


def test_a_host_copy_under_load_at_rest_and_unread() -> None:
    loaded = ceiling("host_to_device", one(), one(pcie_generation=4))
    assert isinstance(loaded, Ceiling)
    assert loaded.text == "PCIe Gen4 x16, 256-byte packets"
    assert loaded.gb_per_s == pytest.approx(PACKETS / 2)
    assert loaded.encoded_gb_per_s == pytest.approx(ENCODED / 2)
    most = ceiling("to_host", one())
    assert isinstance(most, Ceiling)
    assert most.text == f"PCIe Gen5 x16, 256-byte packets{MAXIMUM}"
    assert most.gb_per_s == pytest.approx(PACKETS)
    asleep = ceiling("to_device", {"gpu0": gpu() | {"pcie_max_generation": unknown("too old")}})
    assert isinstance(asleep, Ceiling)
    assert asleep.text == "PCIe Gen1 x16, 256-byte packets (read at rest: it may have been asleep)"
    assert asleep.gb_per_s == pytest.approx(4 * 256 / 280)
    assert rate("host_to_device", one(**C2C)) == 450  # comes before PCIe


C2C_REFUSED: Facts = {"gpu0": gpu(c2c_enabled="on") | {"c2c_max_mb_per_s": unknown("too old")}}
VGPU: Facts = {"gpu0": {"pcie_max_generation": unknown("a vGPU does not tell")}}


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (VGPU, "the link cannot be read: a vGPU does not tell"),
        ({}, "the link cannot be read"),
        (one(pcie_max_generation=9), "PCIe generation 9 is not one of (1, 2, 3, 4, 5, 6)"),
        (C2C_REFUSED, "the rate of NVLink-C2C is unknown: too old"),
        ({"gpu0": gpu(), "gpu1": gpu()}, "cannot be told which GPU ran"),
    ],
)
def test_a_link_that_cannot_be_read_has_a_reason(facts: Facts, why: str) -> None:
    assert ceiling("host_to_device", facts) == why


def test_the_gpu_that_ran_is_meant() -> None:
    facts = two({"pcie_max_generation": 3}, **MEMORY)
    for name in ("host_to_device", "both_ways", "on_device"):
        alone = ceiling(name, one(**MEMORY), nbytes=64 * MIB)
        assert ceiling(name, facts, nbytes=64 * MIB) == alone


def test_both_ways_and_casts() -> None:
    both = ceiling("both_ways", one(), memory="pinned")
    assert isinstance(both, Ceiling)
    assert both.gb_per_s == pytest.approx(2 * PACKETS)
    assert both.encoded_gb_per_s == pytest.approx(2 * ENCODED)
    assert both.text.endswith(", both directions")
    for way, blocking, times in (
        ("h2d", True, 2),
        ("h2d", False, 1),
        ("d2h", True, 1),
        ("d2h", False, 2),
    ):
        axes = {"direction": way, "blocking": blocking}
        assert rate("cast", one(), **axes) == pytest.approx(times * PACKETS), axes
        assert rate("strided", one(), **axes) == pytest.approx(PACKETS)


def test_on_one_device() -> None:
    limit = ceiling("on_device", one(**MEMORY), nbytes=64 * MIB)
    text = "the GPU's memory rate (6144 bits at 3201 MHz), the bytes cross it twice"
    assert isinstance(limit, Ceiling)
    assert limit.gb_per_s == pytest.approx(3201e6 * 6144 / 8 / 1e9)
    assert limit.text == text
    for small in (KIB, 16 * MIB):
        why = ceiling("on_device", one(**MEMORY), nbytes=small)
        assert why == "none: both buffers may stay in the GPU's cache"
    unread = ceiling("on_device", one(memory_clock_max_mhz=3201), nbytes=64 * MIB)
    assert unread == "the rate of the GPU's memory is unknown"


def test_of_two_unlike_gpus_both_links_count() -> None:
    """Through the host the bytes cross one after the other; directly the slower one is the limit.
    The second GPU's link may sleep while the first is loaded."""
    narrow = two({"pcie_max_width": 8})
    loaded: Facts = {"gpu0": gpu(pcie_generation=1), "gpu1": gpu(pcie_generation=5)}
    through = ceiling("between_devices", narrow, loaded, route="through_host")
    assert isinstance(through, Ceiling)
    assert through.gb_per_s == pytest.approx(PACKETS / 3)
    assert through.encoded_gb_per_s == pytest.approx(ENCODED / 3)
    assert through.text == (
        f"PCIe Gen5 x16, 256-byte packets, then PCIe Gen5 x8, 256-byte packets{MAXIMUM}"
    )
    for facts in (narrow, two({}, pcie_max_width=8)):
        assert rate("between_devices", facts, route="peer") == pytest.approx(PACKETS / 2)
    mixed = ceiling("between_devices", two(C2C), route="through_host")
    assert isinstance(mixed, Ceiling)
    assert mixed.gb_per_s == pytest.approx(1 / (1 / 450 + 1 / PACKETS))
    assert mixed.encoded_gb_per_s is None
    unread: Facts = {**two({}), "gpu0": {**VGPU["gpu0"], "cuda_index": known(1)}}
    for route in ("through_host", "peer"):
        why = ceiling("between_devices", unread, route=route)
        assert why == "of the second GPU: the link cannot be read: a vGPU does not tell"


def test_nvlink_between_peers_needs_both() -> None:
    alone = ceiling("between_devices", one(**NVLINK), route="peer")
    text = f"NVLink, 18 links together ({links.NVLINK_REACHED})"
    assert alone == Ceiling(gb_per_s=450.0, text=text)
    through = ceiling("between_devices", one(**NVLINK), route="through_host")
    assert isinstance(through, Ceiling)
    assert through.gb_per_s == pytest.approx(PACKETS / 2)
    assert through.text.endswith(", the bytes cross it twice")
    twelve = {"nvlink_mb_per_s": 12 * 26562, "nvlink_links": 12}
    assert rate("between_devices", two(twelve, **NVLINK), route="peer") == 300
    assert rate("between_devices", two({}, **NVLINK), route="peer") == pytest.approx(PACKETS)


def test_collectives_cross_what_peers_cross() -> None:
    reduce = "collectives.all_reduce"
    assert rate(reduce, one(**NVLINK), num_ranks=2) == 450
    assert rate(reduce, one(), num_ranks=2) == pytest.approx(PACKETS)
    assert rate(reduce, one(**NVLINK), num_ranks=8) == pytest.approx(450 * 8 / 14)
    assert ceiling(reduce, one(**NVLINK), num_ranks=1) == "no link"


@pytest.mark.parametrize("name", ["device_to_host", "both_ways", "cast", "on_device"])
def test_the_cpu_device_has_no_limit(name: str) -> None:
    assert ceiling(name, {}, device="cpu") == "none on the cpu device"


def test_the_simulated_link() -> None:
    usual = Simulation().all_facts()
    for name, gb_per_s in (("host_to_device", 50.0), ("to_host", 50.0), ("both_ways", 100.0)):
        assert rate(name, usual, device="simulated") == gb_per_s
    through = {"device": "simulated", "route": "through_host"}
    twice = Ceiling(gb_per_s=25.0, text="the simulated link, the bytes cross it twice")
    assert ceiling("between_devices", usual, None, **through) == twice
    uneven = Simulation(link=Link(device_to_host_bytes_per_s=25e9)).all_facts()
    assert rate("between_devices", uneven, **through) == pytest.approx(50 / 3)
    assert ceiling("on_device", usual, device="simulated") == "there is no such simulated link"
    why = ceiling("to_host", {}, device="simulated")
    assert why == "the facts do not tell the simulated link"
