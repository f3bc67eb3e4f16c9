"""Ceilings: the formulas against published arithmetic, and which link each case is held against."""

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.core.units import KIB, MIB
from hostbench.facts.record import Facts, Group, known, unknown
from hostbench.families import declared
from hostbench.limits import links
from hostbench.limits.ceiling import Ceiling
from hostbench.limits.ceiling import ceiling as of_link

GPU: dict[str, str | float | bool] = {
    "name": "NVIDIA H200",
    "pcie_generation": 1,
    "pcie_width": 16,
    "pcie_max_generation": 5,
    "pcie_max_width": 16,
}
PACKETS = 63.015384615384619 * 256 / 280


def facts(host: Group | None = None, **gpu: str | float | bool) -> Facts:
    return {"host": host or {}, "gpu0": {name: known(v) for name, v in {**GPU, **gpu}.items()}}


def case(name: str, device: str = "cuda", **axes: AxisValue) -> Case:
    """A case with these axes, and the workload's first choice on the others."""
    work = declared(name if "." in name else f"transfer.{name}")
    assert work is not None
    first = {axis: choices[0] for axis, choices in work.axes.items()}
    return Case.of(work.name, {**first, "device": device, **axes})


def ceiling(one: Case, device: str, about: Facts, loaded: Facts | None = None) -> Ceiling | str:
    """As its workload declares."""
    work = declared(one.workload)
    options = work.options(one) if work else None
    if options is None or options.link is None:
        return "no link"
    nbytes = float(one.values.get("nbytes", 0))
    return of_link(options.link, options.share_of_link, device, about, loaded or {}, nbytes)


def found(one: Case, about: Facts, loaded: Facts | None = None, device: str = "cuda") -> Ceiling:
    made = ceiling(one, device, about, loaded)
    assert isinstance(made, Ceiling), made
    return made


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
    assert links.encoded(links.pcie(generation, 16)) == pytest.approx(encoded, abs=5e-4)


def test_pcie_scales_with_the_lanes_and_refuses_what_is_none() -> None:
    assert links.pcie(5, 8) == links.pcie(5, 16) / 2
    with pytest.raises(ValueError, match="generation 7 is not one of"):
        links.pcie(7, 16)
    with pytest.raises(ValueError, match="width 3 is not one of"):
        links.pcie(5, 3)


@pytest.mark.parametrize(
    ("clock_mhz", "bits", "gb_per_s"), [(1215, 5120, 1555.2), (10501, 384, 1008.096)]
)
def test_device_memory(clock_mhz: float, bits: int, gb_per_s: float) -> None:
    assert links.memory(clock_mhz, bits) == pytest.approx(gb_per_s)


def test_nvlink_takes_the_line_code_off() -> None:
    assert links.nvlink(18 * 26562, 18) == 450
    assert links.nvlink(18 * 53125, 18) == 900
    assert links.nvlink(12 * 25781, 12) == 300
    assert links.nvlink(12 * 20000, 12) == 240
    assert links.nvlink(450_000) == 450


def test_a_host_copy_under_load() -> None:
    made = found(case("host_to_device"), facts(), facts(pcie_generation=4))
    assert made.text == "PCIe Gen4 x16, 256-byte packets"
    assert made.gb_per_s == pytest.approx(PACKETS / 2)
    assert made.encoded_gb_per_s == pytest.approx(63.015384615384619 / 2)


def test_nobody_looked_under_load_so_the_maximum_counts() -> None:
    made = found(case("to_host"), facts())
    assert made.text == "PCIe Gen5 x16, 256-byte packets (its maximum: not read under load)"
    assert made.gb_per_s == pytest.approx(PACKETS)


def test_a_link_without_a_maximum_is_taken_as_read_and_marked() -> None:
    about = facts()
    about["gpu0"]["pcie_max_generation"] = unknown("not supported")
    made = found(case("to_device"), about)
    assert made.text == "PCIe Gen1 x16, 256-byte packets (read at rest: it may have been asleep)"
    assert made.gb_per_s == pytest.approx(4 * 256 / 280)


def test_a_link_that_cannot_be_read_has_a_reason() -> None:
    about: Facts = {"gpu0": {"pcie_max_generation": unknown("a vGPU does not tell")}}
    one = case("host_to_device")
    assert ceiling(one, "cuda", about) == "the link cannot be read: a vGPU does not tell"
    assert ceiling(one, "cuda", {}) == "the link cannot be read"
    odd = facts(pcie_max_generation=9)
    assert str(ceiling(one, "cuda", odd)).startswith("PCIe generation 9 is not one of")


def test_c2c_comes_before_pcie() -> None:
    about = facts(c2c_enabled="on", c2c_max_mb_per_s=450_000)
    assert found(case("host_to_device"), about) == Ceiling(gb_per_s=450.0, text="NVLink-C2C")
    about["gpu0"]["c2c_max_mb_per_s"] = unknown("too old")
    why = ceiling(case("host_to_device"), "cuda", about)
    assert why == "the rate of NVLink-C2C is unknown: too old"


def test_the_gpu_that_ran_is_meant() -> None:
    slow, memory = facts(pcie_max_generation=3)["gpu0"], {"memory_clock_max_mhz": known(1000)}
    fast = {**facts()["gpu0"], **memory, "memory_bus_width_bits": known(6144)}
    about: Facts = {"gpu0": slow, "gpu1": {**fast, "cuda_index": known(0)}}
    for name in ("host_to_device", "both_ways", "on_device", "between_devices"):
        one = case(name, nbytes=64 * MIB)
        assert found(one, about) == found(one, {"gpu0": fast}), name
    del about["gpu1"]["cuda_index"]
    for one in (case("to_host"), case("collectives.all_reduce", num_ranks=2)):
        assert ceiling(one, "cuda", about) == "cannot be told which GPU ran"


def test_both_ways_and_casts() -> None:
    about = facts()
    both = found(case("both_ways", memory="pinned"), about)
    assert both.gb_per_s == pytest.approx(2 * PACKETS)
    assert both.encoded_gb_per_s == pytest.approx(2 * 63.015384615384619)
    assert both.text.endswith(", both directions")
    for way, blocking, times in (
        ("h2d", True, 2),
        ("h2d", False, 1),
        ("d2h", True, 1),
        ("d2h", False, 2),
    ):
        made = found(case("cast", direction=way, blocking=blocking), about)
        assert made.gb_per_s == pytest.approx(times * PACKETS), (way, blocking)
        strided = found(case("strided", direction=way, blocking=blocking), about)
        assert strided.gb_per_s == pytest.approx(PACKETS)


def test_on_one_device() -> None:
    about = facts(memory_clock_max_mhz=3201, memory_bus_width_bits=6144)
    made = found(case("on_device", nbytes=64 * MIB), about)
    assert made.gb_per_s == pytest.approx(3201e6 * 2 * 6144 / 8 / 2 / 1e9)
    for small in (KIB, 16 * MIB):
        why = ceiling(case("on_device", nbytes=small), "cuda", about)
        assert why == "none: both buffers may stay in the GPU's cache"
    text = "the GPU's memory rate (6144 bits at 3201 MHz), the bytes cross it twice"
    assert made.text == text
    del about["gpu0"]["memory_bus_width_bits"]
    large = case("on_device", nbytes=64 * MIB)
    assert ceiling(large, "cuda", about) == "the rate of the GPU's memory is unknown"


def test_between_devices_and_collectives() -> None:
    about = facts(nvlink_mb_per_s=18 * 26562, nvlink_links=18)
    peer = found(case("between_devices", route="peer"), about)
    assert peer == Ceiling(
        gb_per_s=450.0, text=f"NVLink, 18 links together ({links.NVLINK_REACHED})"
    )
    through = found(case("between_devices", route="through_host"), about)
    assert through.gb_per_s == pytest.approx(PACKETS / 2)
    assert through.encoded_gb_per_s == pytest.approx(63.015384615384619 / 2)
    assert through.text.endswith(", the bytes cross it twice")
    reduce = case("collectives.all_reduce", num_ranks=2)
    assert found(reduce, about).text == peer.text
    assert found(reduce, facts()).gb_per_s == pytest.approx(PACKETS)
    eight = case("collectives.all_reduce", num_ranks=8)
    assert found(eight, about).gb_per_s == pytest.approx(450 * 8 / 14)
    alone = case("collectives.all_reduce", num_ranks=1)
    assert ceiling(alone, "cuda", about) == "no link"
    assert isinstance(ceiling(reduce, "cpu", about), str)


def two(second: dict[str, str | float | bool], **first: str | float | bool) -> Facts:
    """Two GPUs, which CUDA counts the other way round."""
    own = {**GPU, "cuda_index": 0, **first}
    other = {**GPU, "cuda_index": 1, **second}
    read = ({name: known(v) for name, v in each.items()} for each in (other, own))
    return dict(zip(("gpu0", "gpu1"), read, strict=True))


def test_of_two_unlike_gpus_both_links_count() -> None:
    """Through the host the bytes cross one after the other; directly the slower one is the limit.
    The second GPU's link may sleep while the first is loaded."""
    through, peer = (case("between_devices", route=route) for route in ("through_host", "peer"))
    narrow = two({"pcie_max_width": 8})
    asleep: Facts = {group: {**narrow[group]} for group in narrow}
    asleep["gpu1"]["pcie_generation"] = known(5)
    made = found(through, narrow, asleep)
    assert made.gb_per_s == pytest.approx(PACKETS / 3)
    assert made.encoded_gb_per_s == pytest.approx(63.015384615384619 / 3)
    maximum = "(its maximum: not read under load)"
    assert made.text == (
        f"PCIe Gen5 x16, 256-byte packets, then PCIe Gen5 x8, 256-byte packets {maximum}"
    )
    assert found(peer, narrow).gb_per_s == pytest.approx(PACKETS / 2)
    assert found(peer, two({}, pcie_max_width=8)).gb_per_s == pytest.approx(PACKETS / 2)


def test_nvlink_between_peers_needs_both() -> None:
    through, peer = (case("between_devices", route=route) for route in ("through_host", "peer"))
    eighteen = {"nvlink_mb_per_s": 18 * 26562, "nvlink_links": 18}
    twelve = {"nvlink_mb_per_s": 12 * 26562, "nvlink_links": 12}
    linked = two({**twelve}, **eighteen)
    assert found(peer, linked) == Ceiling(
        gb_per_s=300.0, text=f"NVLink, 12 links together ({links.NVLINK_REACHED})"
    )
    assert found(through, linked).gb_per_s == pytest.approx(PACKETS / 2)
    assert found(peer, two({}, **eighteen)).gb_per_s == pytest.approx(PACKETS)
    c2c: dict[str, str | float] = {"c2c_enabled": "on", "c2c_max_mb_per_s": 450_000}
    mixed = found(through, two({}, **c2c))
    assert mixed.gb_per_s == pytest.approx(1 / (1 / 450 + 1 / PACKETS))
    assert mixed.encoded_gb_per_s is None
    unread = two({})
    unread["gpu0"] = {"cuda_index": known(1), "pcie_max_generation": unknown("a vGPU")}
    why = "of the second GPU: the link cannot be read: a vGPU"
    assert ceiling(through, "cuda", unread) == ceiling(peer, "cuda", unread) == why


@pytest.mark.parametrize("name", ["device_to_host", "both_ways", "cast", "on_device"])
def test_the_cpu_device_has_no_limit(name: str) -> None:
    assert ceiling(case(name, "cpu"), "cpu", {}) == "none on the cpu device"


def test_the_simulated_link() -> None:
    for name, rate in (("host_to_device", 50.0), ("to_host", 50.0), ("both_ways", 100.0)):
        assert found(case(name, "cpu"), {}, device="simulated").gb_per_s == rate
    through = found(case("between_devices", route="through_host"), {}, device="simulated")
    assert (through.gb_per_s, through.text) == (
        25.0,
        "the simulated link, the bytes cross it twice",
    )
    one_way = {"simulation": {"device_to_host_bytes_per_s": known(25e9)}}
    uneven = found(case("between_devices", route="through_host"), one_way, device="simulated")
    assert uneven.gb_per_s == pytest.approx(50 / 3)
    assert isinstance(ceiling(case("on_device"), "simulated", {}), str)
