"""Ceilings: the formulas against published arithmetic, and which link each case is held against."""

from collections.abc import Iterator
from typing import Any

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.core.units import KIB, MIB
from hostbench.device.simulated_file import Link, Simulation
from hostbench.facts.record import Facts, Group, Unknown
from hostbench.families import declared
from hostbench.limits import links
from hostbench.limits.ceiling import Ceiling
from hostbench.limits.ceiling import ceiling as of_link
from tests import golden

GEN5 = {"pcie_max_generation": 5, "pcie_max_width": 16}
NVLINK = {"nvlink_mb_per_s": 18 * 26562, "nvlink_links": 18}
C2C = {"c2c_enabled": "on", "c2c_max_mb_per_s": 450_000}
MEMORY = {"memory_clock_max_mhz": 3201, "memory_bus_width_bits": 6144}


def gpu(**values: Any) -> Group:
    """A GPU in a Gen5 slot whose link sleeps."""
    asleep = {"pcie_generation": 1, "pcie_width": 16}
    return {name: value for name, value in {**asleep, **GEN5, **values}.items()}


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
    case = Case(work.name, {**first, "device": "cuda", **axes})
    options = work.options(case)
    if options.link is None:
        return "no link"
    nbytes = float(case.values.get("nbytes", 0))
    return of_link(options.link, options.share_of_link, device, facts, loaded or {}, nbytes)


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


def test_device_memory_and_nvlink() -> None:
    assert links.memory(1215, 5120) == pytest.approx(1555.2)
    assert links.memory(10501, 384) == pytest.approx(1008.096)
    for mb_per_s, num, gb_per_s in ((26562, 18, 450), (53125, 18, 900), (25781, 12, 300)):
        assert links.nvlink(num * mb_per_s, num) == gb_per_s  # the line code is taken off
    assert links.nvlink(12 * 20000, 12) == 240
    assert links.nvlink(450_000) == 450


C2C_REFUSED: Facts = {"gpu0": gpu(c2c_enabled="on") | {"c2c_max_mb_per_s": Unknown("too old")}}
VGPU: Facts = {"gpu0": {"pcie_max_generation": Unknown("a vGPU does not tell")}}
TWELVE = {"nvlink_mb_per_s": 12 * 26562, "nvlink_links": 12}
NARROW = two({"pcie_max_width": 8})
MACHINES: dict[str, tuple[Facts, Facts]] = {
    "one GPU, asleep": (one(), {}),
    "at Gen4 under load": (one(), one(pcie_generation=4)),
    "its maximum is not known": ({"gpu0": gpu() | {"pcie_max_generation": Unknown("too old")}}, {}),
    "a vGPU": (VGPU, {}),
    "no facts": ({}, {}),
    "a generation that there is not": (one(pcie_max_generation=9), {}),
    "its memory is known": (one(**MEMORY), {}),
    "its memory is known in part": (one(memory_clock_max_mhz=3201), {}),
    "C2C": (one(**C2C), {}),
    "C2C whose rate is refused": (C2C_REFUSED, {}),
    "NVLink": (one(**NVLINK), {}),
    "two GPUs, of which nobody says which ran": ({"gpu0": gpu(), "gpu1": gpu()}, {}),
    "the second one is of Gen3": (two({"pcie_max_generation": 3}, **MEMORY), {}),
    "the second one is x8, and sleeps while the first is loaded": (
        NARROW, {"gpu0": gpu(pcie_generation=1), "gpu1": gpu(pcie_generation=5)},
    ),
    "the first one is x8": (two({}, pcie_max_width=8), {}),
    "the second one has C2C": (two(C2C), {}),
    "the second one cannot be read": (
        {**two({}), "gpu0": {**VGPU["gpu0"], "cuda_index": 1}}, {},
    ),
    "18 links of NVLink, and 12": (two(TWELVE, **NVLINK), {}),
    "the first one alone has NVLink": (two({}, **NVLINK), {}),
}  # fmt: skip
SIMULATED = {
    "the simulated device": Simulation().all_facts(),
    "to the host at half the rate": Simulation(
        link=Link(device_to_host_bytes_per_s=25e9)
    ).all_facts(),
    "no facts of it": {},
}
CASES: list[tuple[str, dict[str, Any]]] = [
    ("host_to_device", {}),
    ("to_host", {}),
    ("to_device", {}),
    ("both_ways", {"memory": "pinned"}),
    *(
        (name, {"direction": way, "blocking": blocking})
        for name in ("cast", "strided")
        for way in ("h2d", "d2h")
        for blocking in (True, False)
    ),
    *(("on_device", {"nbytes": nbytes}) for nbytes in (KIB, 16 * MIB, 64 * MIB)),
    *(("between_devices", {"route": route}) for route in ("through_host", "peer")),
    *(("collectives.all_reduce", {"num_ranks": num}) for num in (1, 2, 8)),
]


def lines() -> Iterator[str]:
    """On each machine every limit, its rate without packets where it is PCIe's, and whose it is."""
    runs = [(name, "cuda", *facts) for name, facts in MACHINES.items()]
    runs += [(name, "simulated", facts, {}) for name, facts in SIMULATED.items()]
    for machine, device, facts, loaded in [*runs, ("cpu", "cpu", {}, {})]:
        held = dict[str, list[str]]()
        for name, axes in CASES:
            limit = ceiling(name, facts, loaded, device, **axes)
            if isinstance(limit, Ceiling):
                encoded = limit.encoded_gb_per_s and f", encoded {limit.encoded_gb_per_s:.4g}"
                limit = f"{limit.gb_per_s:.4g}{encoded or ''} GB/s, {limit.text}"
            held.setdefault(limit, []).append(" ".join([name, *map(str, axes.values())]))
        yield machine
        yield from (f"    {limit}: {', '.join(names)}" for limit, names in held.items())


def test_what_each_case_is_held_against() -> None:
    golden.check("ceilings", lines())
