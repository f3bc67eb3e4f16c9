"""The family allocation on real memory and on the stand-in for CUDA, whose costs are exact."""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.units import MIB
from hostbench.device.base import Device, Fill
from hostbench.device.cpu import CpuDevice
from hostbench.device.cuda import CudaDevice
from hostbench.device.simulated import SimulatedDevice
from hostbench.families import load
from hostbench.measure.measure import Prepared
from hostbench.measure.workload import prepare
from tests.gpu_stand_in import Costs, Floor, cuda_machine

WORKS = load(("allocation",))
COSTS = Costs()
N = 16 * MIB


@pytest.fixture
def cpu() -> Iterator[Device]:
    opened = CpuDevice()
    yield opened
    opened.close()


@pytest.fixture
def floor() -> Iterator[Floor]:
    with cuda_machine() as made:
        yield made


def prepared(device: Device, name: str, **axes: Any) -> Prepared:
    work = WORKS[f"allocation.{name}"]
    wanted = {"device": "cuda", "nbytes": N, **axes}
    case = next(case for case in work.cases() if wanted.items() <= case.values.items())
    return prepare(work, device, Case(case.workload, case.values))


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


# ---- new memory ---------------------------------------------------------------------------------


def test_every_page_of_new_memory_is_there(cpu: Device) -> None:
    """Else its cost would show wherever it is first written."""
    before = resident_bytes()
    made = cpu.new_memory(64 * MIB, "pageable")
    assert resident_bytes() - before >= 60 * MIB
    before = resident_bytes()
    untouched = torch.empty(64 * MIB, dtype=torch.uint8)
    assert resident_bytes() - before < 10 * MIB, "what the system gives without a touch"
    del made, untouched


def test_the_cpu_device_has_neither_pinned_memory_nor_its_own(cpu: Device) -> None:
    for memory in ("pinned", "device"):
        with pytest.raises(Unavailable, match="the cpu device has no"):
            cpu.new_memory(N, memory)


@pytest.mark.parametrize(
    ("memory", "seconds"),
    [
        ("device", COSTS.allocate_s),
        ("pinned", COSTS.allocate_s + N * COSTS.pin_s_per_byte),
    ],
)
def test_cold_is_anew_every_time_and_warm_is_not(floor: Floor, memory: str, seconds: float) -> None:
    device = CudaDevice()
    spent: dict[str, list[float]] = {}
    for cache in ("cold", "warm"):
        asked = prepared(device, "memory", memory=memory, cache=cache)
        for _ in range(4):
            asked.get_ready(device)
            start_s = floor.machine.now_s
            asked.step()
            spent.setdefault(cache, []).append(floor.machine.now_s - start_s)
        device.reset()
    assert min(spent["cold"]) >= seconds
    # What replaces the last one needs a second block first: from then on two take turns.
    assert max(spent["warm"][2:]) < COSTS.allocate_s / 10


def test_a_cold_case_is_one_reading_each(floor: Floor) -> None:
    """Repeated inside a reading, only the first would be cold."""
    device = CudaDevice()
    assert not prepared(device, "memory", memory="device", cache="cold").host_only
    assert prepared(device, "memory", memory="device", cache="warm").host_only


# ---- the parts of creating on the CPU and moving ------------------------------------------------

FILLS: tuple[Fill, ...] = ("zeros", "randn", "full", "arange")


@pytest.mark.parametrize("fill", FILLS)
def test_a_fill_in_place_writes_what_create_does(cpu: Device, fill: Fill) -> None:
    buffer = cpu.typed(cpu.host_buffer(4 * 1000, pinned=False), "float32")
    buffer.fill_(-3.0)
    torch.default_generator.manual_seed(1)
    cpu.fill(buffer, fill)
    torch.default_generator.manual_seed(1)
    assert torch.equal(buffer, cpu.create(fill, 4 * 1000, on_host=True))
    torch.default_generator.manual_seed(1)
    there = cpu.create(fill, 4 * 1000, on_host=False)
    cpu.synchronize()
    assert torch.equal(buffer, there) or fill == "randn", "the thread of a stream draws its own"
    assert len(buffer.unique()) == {"randn": len(buffer.unique()), "arange": 1000}.get(fill, 1)


@pytest.mark.parametrize("fill", FILLS)
def test_create_makes_the_same_on_a_gpu(floor: Floor, fill: Fill) -> None:
    device = CudaDevice()
    there = device.create(fill, 4 * 1000, on_host=False)
    here = device.create(fill, 4 * 1000, on_host=True)
    device.synchronize()
    assert there.is_cuda and not here.is_cuda
    assert fill == "randn" or torch.equal(there.cpu(), here)


def test_a_part_alone_allocates_nothing(floor: Floor) -> None:
    device = CudaDevice()
    for part in (*FILLS, "copy"):
        asked = prepared(device, "part", part=part)
        asked.step()
        device.reset_peak()
        before = torch.cuda.max_memory_allocated()
        asked.step()
        device.synchronize()
        assert torch.cuda.max_memory_allocated() == before
        assert (asked.copies is not None) is (part == "copy") is not asked.host_only
        assert asked.verify is None or asked.verify() is None


def test_a_copy_that_never_ran_is_found() -> None:
    device = SimulatedDevice()
    asked = prepared(device, "part", part="copy")
    assert asked.verify is not None and asked.verify() == "target differs from source"
    asked.step()
    assert asked.verify() is None
