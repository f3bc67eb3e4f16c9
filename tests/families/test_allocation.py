"""The family allocation on real memory and on the fake CUDA, whose costs are exact."""

import mmap
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.allocation import demands, peak_bytes
from hostbench.core.case import Case
from hostbench.core.units import MIB
from hostbench.device import torch_device
from hostbench.device.base import Device, Fill
from hostbench.device.cuda import CudaDevice
from hostbench.device.simulated import SimulatedDevice
from hostbench.families import load
from hostbench.measure.measure import Prepared
from hostbench.measure.workload import prepare
from tests.fakes.builders import declared_case
from tests.fakes.fake_cuda import Costs, Machine

WORKS = load(("allocation",))
COSTS = Costs()
N = 16 * MIB


def prepared(device: Device, name: str, **axes: Any) -> Prepared:
    work = WORKS[f"allocation.{name}"]
    usual = {"nbytes": N} if "nbytes" in work.axes else {}
    case = declared_case(work, **{**usual, **axes})
    return prepare(work, device, Case(case.workload, case.values))


def told_by(asked: Prepared) -> dict[str, Any]:
    assert asked.findings is not None
    return dict(asked.findings())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE


@pytest.mark.parametrize(
    "make",
    [
        lambda device: device.creator("empty", N, on_host=False),
        lambda device: device.allocator(N, "device"),
        lambda device: device.fetcher(device.buffer(N), blocking=False),
    ],
)
def test_a_call_of_what_was_resolved_holds_no_code_of_ours(
    floor: Machine, make: Callable[[Device], Any]
) -> None:
    """So it costs what torch's costs: a wrapper was up to 1.4 us beside 0.4 us."""
    call = make(CudaDevice())
    assert isinstance(call, partial) and "hostbench" not in str(call.func.__module__)


def test_pages_that_nobody_has_written_are_not_moved() -> None:
    """They are all the same one: that would be neither a tensor's cost nor memory's."""
    cases = [case.values for case in WORKS["allocation.create"].cases()]
    assert {case["place"] for case in cases if case["fill"] == "empty"} == {"direct"}


# ---- new memory ---------------------------------------------------------------------------------


def test_every_page_of_new_memory_is_there(cpu: Device) -> None:
    """Else its cost would show wherever it is first written."""
    before = resident_bytes()
    made = cpu.allocator(64 * MIB, "pageable")()
    assert resident_bytes() - before >= 60 * MIB
    before = resident_bytes()
    untouched = torch.empty(64 * MIB, dtype=torch.uint8)
    assert resident_bytes() - before < 10 * MIB, "what the system gives without a touch"
    del made, untouched


@pytest.mark.parametrize(
    ("memory", "seconds"),
    [("device", COSTS.allocate_s), ("pinned", COSTS.allocate_s + N * COSTS.pin_s_per_byte)],
)
def test_cold_is_anew_every_time_and_warm_is_not(
    floor: Machine, memory: str, seconds: float
) -> None:
    device = CudaDevice()
    spent: dict[str, list[float]] = {}
    for cache in ("cold", "warm"):
        asked = prepared(device, "memory", memory=memory, cache=cache)
        for _ in range(4):
            asked.get_ready(device)
            start_s = floor.now_s
            asked.step()
            spent.setdefault(cache, []).append(floor.now_s - start_s)
        device.reset()
    assert min(spent["cold"]) >= seconds * (1 - 1e-9)
    # What replaces the last one needs a second block first: from then on two take turns.
    assert max(spent["warm"][2:]) < COSTS.allocate_s / 10


# ---- the parts of creating on the CPU and moving ------------------------------------------------

FILLS: tuple[Fill, ...] = ("zeros", "randn", "full", "arange")


@pytest.mark.parametrize("fill", FILLS)
def test_a_fill_in_place_and_each_device_write_the_same(
    cpu: Device, floor: Machine, fill: Fill
) -> None:
    def seeded(write: Callable[[], Any]) -> Any:
        torch.default_generator.manual_seed(1)
        return write()

    gpu = CudaDevice()
    buffer = cpu.creator("empty", 4 * 1000, on_host=True)()
    buffer.fill_(-3.0)
    seeded(partial(cpu.fill, buffer, fill))
    assert torch.equal(buffer, seeded(cpu.creator(fill, 4 * 1000, on_host=True)))
    there, on_gpu = (seeded(device.creator(fill, 4 * 1000, on_host=False)) for device in (cpu, gpu))
    cpu.synchronize()
    assert on_gpu.is_cuda
    if fill == "randn":
        return  # the thread of a stream draws its own, as a GPU does
    assert torch.equal(buffer, there) and torch.equal(buffer, on_gpu.cpu())
    assert len(buffer.unique()) == (1000 if fill == "arange" else 1)


def test_a_part_alone_allocates_nothing(floor: Machine) -> None:
    device = CudaDevice()
    for part in (*FILLS, "copy", "host_memory"):
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


# ---- fragmentation ------------------------------------------------------------------------------


def test_the_sequence_is_the_same_in_every_run_and_leaves_nothing() -> None:
    held: dict[int, int] = {}
    for number, nbytes in demands():
        if nbytes > 0:
            assert number not in held
            held[number] = nbytes
        else:
            assert held.pop(number) == -nbytes
    assert not held
    allocated = [(number, max(0, nbytes)) for number, nbytes in demands()]
    digest = zlib.crc32(repr(allocated).encode())
    assert (len(demands()), peak_bytes(), digest) == (1040, 461896128, 322286350)


def test_what_is_pinned_is_rounded_up_to_a_power_of_two(floor: Machine) -> None:
    """As torch's own statistics tell; nothing is, where an older torch has none."""
    told = prepared(CudaDevice(), "pinned", nbytes=65 * MIB, setting="default")
    assert told_by(told) == {"pinned_bytes": 128 * MIB}
    with pytest.MonkeyPatch.context() as patch:
        patch.delattr(torch.cuda, "host_memory_stats")
        assert told_by(told) == {}


def test_what_the_device_counted_is_told(floor: Machine) -> None:
    device = CudaDevice()
    told = prepared(device, "mixed", setting="default", room="free")
    told.step()
    counted = told_by(told)
    assert peak_bytes() <= counted["peak_allocated"] <= counted["peak_reserved"]
    assert counted["peak_inactive_split"] == counted["num_alloc_retries"] == 0
    device.reset()


def test_the_limit_ends_with_the_case(floor: Machine) -> None:
    device = CudaDevice()
    device.limit_memory(32 * MIB)
    with pytest.raises(torch.OutOfMemoryError):
        device.allocator(64 * MIB, "device")()
    device.reset()
    assert device.allocator(64 * MIB, "device")().nbytes == 64 * MIB


# ---- batches ------------------------------------------------------------------------------------


def test_a_training_step_is_what_autograd_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_device, "_LEARNING_RATE", 0.1)
    step = torch_device.TrainingStep(8, torch.device("cpu"))
    generator = torch.Generator().manual_seed(1)
    for values in (step.examples, *step.weights):
        values.normal_(std=0.1, generator=generator)
    weights = [weight.clone().requires_grad_() for weight in step.weights]
    out = step.examples
    for weight in weights:
        out = torch.relu(out @ weight)
    (out.square().sum() / 2 / 8).backward()
    step()
    for weight, expected in zip(step.weights, weights, strict=True):
        assert expected.grad is not None and expected.grad.abs().max() > 0
        torch.testing.assert_close(weight, (expected - 0.1 * expected.grad).detach())


def kept_bytes(num: int) -> int:
    """Weights and their slopes; the examples, the activations of all layers, the first slope, and
    the bytes that say where it counts."""
    layers, weight = torch_device.TRAINING_LAYERS, torch_device.TRAINING_WIDTH**2 * 4
    activation = num * torch_device.TRAINING_WIDTH * 4
    return 2 * layers * weight + (1 + layers + 1) * activation + activation // 4


@pytest.mark.parametrize("num", [1, 64, 256])
def test_the_peak_of_a_batch_is_counted(cpu: Device, floor: Machine, num: int) -> None:
    """On the cpu device a number is a tensor for a moment; cuBLAS has its workspace already."""
    for device, most in ((cpu, 16), (CudaDevice(), 0)):
        told = prepared(device, "batch", num_examples=num)
        if device is not cpu:
            told.step()
        found = told_by(told)
        assert 0 <= found["peak_allocated"] - kept_bytes(num) <= most
        assert (set(found) == {"peak_allocated"}) is (device is cpu)
        told.step()
        device.synchronize()
        device.reset()
