"""What pinned copies reach, and what the profiler and the link's counters say of a known copy."""

import time

import pytest

from hostbench.core import units
from hostbench.core.samples import median
from hostbench.core.units import GIB, MIB
from hostbench.device.base import Buffer
from hostbench.device.cuda import CudaDevice
from hostbench.facts import collect
from hostbench.facts.record import cuda_group, number_of, text_of
from hostbench.limits import links
from hostbench.measure.evidence import COUNTER_WAIT_S

pytestmark = pytest.mark.gpu

NBYTES = 256 * MIB
PUBLISHED_GB_PER_S = {"H2D": 55.43, "D2H": 55.06}
"""8x H200, PCIe Gen5: ml-engineering, network/README."""
IDLE_S = 3.0
_COPIES = 8


def ends(cuda: CudaDevice, way: str, memory: str, nbytes: int) -> tuple[Buffer, Buffer]:
    host, there = cuda.host_buffer(nbytes, pinned=memory == "pinned"), cuda.buffer(nbytes)
    return (there, host) if way == "H2D" else (host, there)


@pytest.mark.parametrize("way", ["H2D", "D2H"])
def test_no_pinned_copy_is_faster_than_its_link(cuda: CudaDevice, way: str) -> None:
    target, source = ends(cuda, way, "pinned", NBYTES)
    seconds = cuda.device_times(lambda: cuda.copy(target, source, blocking=False))
    rate = NBYTES / median(seconds) / units.GB
    print(
        f"pinned, 256MiB, by events: {way} {units.format_rate(rate)} "
        f"(published for an H200: {PUBLISHED_GB_PER_S[way]})"
    )
    facts = collect()
    group = cuda_group(facts) or "gpu0"
    if text_of(facts, group, "c2c_enabled") == "on":
        pytest.skip("the link is NVLink-C2C, which PCIe's generation and width say nothing about")
    generation, width = (
        number_of(facts, group, f"pcie_max_{name}") for name in ("generation", "width")
    )
    if generation is None or width is None:
        pytest.skip("NVML does not tell the link's maximum")
    limit = links.encoded(links.pcie(int(generation), int(width)))
    assert 0 < rate < limit


@pytest.mark.parametrize("memory", ["pageable", "pinned"])
@pytest.mark.parametrize("way", ["H2D", "D2H"])
def test_the_profiler_names_each_copy(cuda: CudaDevice, way: str, memory: str) -> None:
    target, source = ends(cuda, way, memory, MIB)
    seen = cuda.observe(lambda: cuda.copy(target, source, blocking=False)).activities
    print(", ".join(f"{one.what} of {one.nbytes} bytes" for one in seen))
    assert {one.what for one in seen} == {f"{way} {memory}"}
    assert sum(one.nbytes for one in seen) == MIB


def test_the_profiler_misses_nothing_after_an_idle_while(cuda: CudaDevice) -> None:
    """pytorch#192021: records at the beginning are left out, the more the longer the GPU idled."""
    target, source = ends(cuda, "H2D", "pinned", MIB)
    tries: list[int] = []

    def copies() -> None:
        tries.append(len(tries))
        for _ in range(_COPIES):
            cuda.copy(target, source, blocking=False)

    start_s = cuda.now()
    cuda.observe(copies)
    print(f"a first observing takes {cuda.now() - start_s:.1f} s")
    tries.clear()
    time.sleep(IDLE_S)
    seen = cuda.observe(copies).activities
    print(f"{len(seen)} of {_COPIES} copies after {IDLE_S:g} s, in try {len(tries)}")
    assert len(seen) == _COPIES


@pytest.mark.parametrize("way", ["H2D", "D2H"])
def test_the_link_counts_the_bytes_of_a_copy(cuda: CudaDevice, way: str) -> None:
    target, source = ends(cuda, way, "pinned", NBYTES)
    cuda.copy(target, source, blocking=True)
    before = cuda.bytes_counted()
    for _ in range(GIB // NBYTES):
        cuda.copy(target, source, blocking=False)
    cuda.synchronize()
    time.sleep(COUNTER_WAIT_S)
    into, out_of = (end - start for start, end in zip(before, cuda.bytes_counted(), strict=True))
    print(f"{way} of 1GiB: {into / GIB:.4f}GiB into the GPU, {out_of / GIB:.4f} out of it")
    if into == out_of == 0:
        pytest.skip("the counters stand still: they do not see this link")
    assert min(into, out_of) >= 0, "a counter fell: it wraps"
    assert (into if way == "H2D" else out_of) >= GIB
