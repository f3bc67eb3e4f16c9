"""The cuda device on the fake CUDA: what it calibrates, what is refused, what it leaves."""

import mmap
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.overlap import NUM_BATCHES, Loop
from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, Unavailable, fatal_reason
from hostbench.core.records import CaseRecord, Launch
from hostbench.core.units import KIB, MIB
from hostbench.device import cuda as cuda_device
from hostbench.device import numa
from hostbench.device.base import Step
from hostbench.device.cuda import CudaDevice
from hostbench.families import load
from hostbench.measure.measure import BRIEF
from hostbench.measure.workload import prepare
from tests.fakes.builders import declared_case, walked
from tests.fakes.fake_cuda import Costs, Machine, cuda_machine
from tests.fakes.fake_nvml import FakeGpu, FakeNvml

COSTS = Costs()
_cuda: Any = torch.cuda


@pytest.fixture
def floor() -> Iterator[Machine]:
    with cuda_machine(2) as made:
        yield made


def case_of(workload: str, **axes: object) -> Case:
    return declared_case(load()[workload], **axes)


def launched(*cases: Case) -> list[CaseRecord]:
    return walked(Launch(cases=cases, settings=BRIEF))


# ---- starting CUDA ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("built", "text", "remedy"),
    [
        (None, "", "TORCH_INDEX="),
        ("12.6", "No CUDA GPUs are available", "available; `hostbench doctor`"),
        ("12.6", "CUDA call failed lazily at initialization\nmore", "initialization; `hostbench"),
        ("12.6", "CUDA_LAUNCH_BLOCKING", "is set: .*; unset it"),
    ],
)
def test_a_cuda_that_does_not_start_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch, built: str | None, text: str, remedy: str
) -> None:
    """A `DeferredCudaCallError` is no RuntimeError: a GPU that only NVML counts is one way."""

    def fail() -> None:
        assert not text.isupper(), "CUDA was started"
        raise _cuda.DeferredCudaCallError(text) if "lazily" in text else RuntimeError(text)

    if text.isupper():
        monkeypatch.setenv(text, "1")
    monkeypatch.setattr(torch.version, "cuda", built)
    monkeypatch.setattr(torch.cuda, "init", fail)
    with pytest.raises(BrokenError, match=remedy) as caught:
        CudaDevice()
    assert "\n" not in str(caught.value)


# ---- calibration ------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [20e-6, 200e-6, 5e-3])
@pytest.mark.parametrize("launch_s", [4e-6, 20e-6])
def test_compute_takes_what_was_asked_for_however_slow_the_host(
    launch_s: float, seconds: float
) -> None:
    """The host's launch gap is no part of the calibration: 1:4 of 80 us is 20 us."""
    with cuda_machine(costs=Costs(launch_s=launch_s)):
        device = CudaDevice()
        took_s = device.event_time(device.compute(seconds), behind_s=0.01)
        assert took_s == pytest.approx(seconds, rel=0.1)


def test_a_compute_that_cannot_be_so_short_is_refused(floor: Machine) -> None:
    """Else a case would be called 10 us that is not: on a small GPU or a slice of one."""
    device = CudaDevice()
    with pytest.raises(Unavailable, match=r"of 1 us takes 11.5 us here: none is that short"):
        device.compute(1e-6)
    device.compute(8e-6)


def test_a_delay_takes_what_was_asked_for(floor: Machine) -> None:
    device = CudaDevice()
    took_s = device.event_time(lambda: device.delay(0.003), behind_s=0.01)
    assert took_s == pytest.approx(0.003, rel=0.005)


def test_a_compute_makes_no_tensor_but_its_result(floor: Machine) -> None:
    """Slices are made once: each would cost the host time inside the step."""
    device = CudaDevice()
    step = device.compute(1e-3)
    step()
    device.synchronize()
    start_s, launches = floor.now_s, floor.gpus[0].counts["launches"]
    step()
    num = floor.gpus[0].counts["launches"] - launches
    allocating_s = COSTS.call_s
    assert floor.now_s - start_s == pytest.approx(num * (COSTS.launch_s + allocating_s))


def test_the_order_of_the_cases_does_not_count_in_the_peaks(floor: Machine) -> None:
    """What `compute` calibrates with, and cuBLAS's workspace, are nobody's memory."""
    copy_only = case_of("overlap.pipeline", schedule="copy_only", memory="pinned")
    serial = case_of("overlap.pipeline", schedule="serial", memory="pinned")
    peaks = [
        {each.case: each.measurement.memory["peak_allocated"] for each in launched(*order)}
        for order in ((copy_only, serial), (serial, copy_only))
    ]
    assert peaks[0] == peaks[1]


# ---- what is refused ----------------------------------------------------------------------------


def test_refused_registration_is_a_skip_and_the_next_case_is_well() -> None:
    registered = case_of("transfer.host_to_device", memory="registered", nbytes=64 * KIB)
    pinned = case_of("transfer.host_to_device", memory="pinned", nbytes=64 * KIB)
    with cuda_machine(refuses=("registered",)):
        first, second = launched(registered, pinned)
    assert first.status == "skipped"
    assert str(first.reason).startswith("cudaHostRegister refused 64KiB (CUDA error 801)")
    assert (second.status, second.reason) == ("ok", None)


def test_registered_memory_is_released_with_its_tensor(floor: Machine) -> None:
    buffer = CudaDevice().registered_buffer(64)
    view, address = buffer[:8].clone(), buffer.data_ptr()
    assert address % mmap.PAGESIZE == 0, "no page of it is another's, which may be registered, too"
    assert buffer.is_pinned() and not view.is_pinned()
    assert address in floor.pinned_sizes
    del buffer
    assert address not in floor.pinned_sizes


@pytest.mark.parametrize("most_pinned_bytes", [0, 2 * MIB])
@pytest.mark.parametrize(
    ("workload", "axes"),
    [
        ("transfer.host_to_device", {"memory": "pinned", "nbytes": 4 * MIB}),
        ("transfer.to_host", {"nbytes": 16 * MIB, "blocking": False, "cache": "warm"}),
        ("overlap.pipeline", {"memory": "pinned"}),
        ("loading.loop", {"memory": "pinned", "num_workers": 0}),
    ],
)
def test_pinned_memory_that_is_refused_is_a_skip(
    workload: str, axes: dict[str, object], most_pinned_bytes: int
) -> None:
    """Of all cases from pinned memory, and of no others, also where there is none at all."""
    pageable = case_of("transfer.host_to_device", memory="pageable", nbytes=64 * KIB)
    with cuda_machine(most_pinned_bytes=most_pinned_bytes):
        outcomes = launched(case_of(workload, **axes))
        assert [each.status for each in outcomes] == ["skipped"], outcomes
        assert "CUDA pins no " in str(outcomes[0].reason)
        assert "ulimit -l" in str(outcomes[0].reason)
        assert launched(pageable)[0].status == "ok", "the process is as good as new"


def test_a_broken_device_is_not_taken_for_pinned_memory_that_is_refused(floor: Machine) -> None:
    device = CudaDevice()
    floor.sticky = "CUDA error: an illegal memory access was encountered"
    with pytest.raises(RuntimeError, match="illegal memory access") as caught:
        device.host_buffer(MIB, pinned=True)
    assert fatal_reason(caught.value) and not isinstance(caught.value, Unavailable)


def test_without_peer_access_other_routes_are_left() -> None:
    """By the driver's way, which programs take, and by the host's memory."""
    peer, staged, through = (
        case_of("transfer.between_devices", route=route, nbytes=MIB)
        for route in ("peer", "staged", "through_host")
    )
    with cuda_machine(2, refuses=("peers",)):
        first, second, third = launched(peer, staged, through)
    assert first.reason == "GPU 0 has no direct access to GPU 1: see nvidia-smi topo -p2p r"
    assert second.status == third.status == "ok"
    with cuda_machine(2):
        first, second = launched(peer, staged)
    assert first.status == "ok"
    assert second.reason == "GPU 0 has direct access to GPU 1: nothing is staged"


def observed(workload: str, **axes: object) -> dict[str, str]:
    from hostbench.measure import evidence

    device = CudaDevice()
    case = case_of(workload, **axes)
    return evidence.gather(device, prepare(load()[workload], device, case)).proofs


def test_a_profiler_that_sees_nothing_is_a_reason() -> None:
    with cuda_machine(2, refuses=("profiler",)):
        proofs = observed("transfer.between_devices", route="peer", nbytes=MIB)
        assert proofs["copies"].startswith("unavailable: the profiler saw no work of it")
        device, runs = CudaDevice(), list[str]()
        for _ in range(2):
            with pytest.raises(Unavailable, match="CUPTI is missing or not permitted"):
                device.observe(lambda: runs.append("run"), lambda: runs.append("ready"))
        assert runs == ["ready", "run"] * 3, "it is remembered"
    with cuda_machine(2):
        proofs = observed("transfer.between_devices", route="peer", nbytes=MIB)
        assert proofs["copies"] == "passed"


def test_nothing_is_enqueued_when_observing_begins(
    floor: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be taken for a part of what is observed."""
    pending: list[bool] = []

    def begin(*_: object, **options: object) -> bytes:
        pending.append(floor.gpus[0].queue.free_s > floor.now_s)
        raise Unavailable("not now")

    monkeypatch.setattr(cuda_device, "chrome_trace", begin)
    with pytest.raises(Unavailable, match="not now"):
        CudaDevice().observe(lambda: None)
    assert pending == [False]


def test_bytes_through_the_host_are_not_looked_for_on_the_first_gpus_link(floor: Machine) -> None:
    proofs = observed("transfer.between_devices", route="through_host", nbytes=16 * MIB)
    assert proofs["copies"] == "passed"
    assert proofs["link_bytes"] == "unavailable: the bytes cross the links of two devices"


def test_link_counters_come_from_the_gpu_with_that_uuid() -> None:
    """NVML counts the GPUs in another order than CUDA."""
    uuids = [f"GPU-0000000{index}-1111-2222-3333-444444444444" for index in (1, 0)]
    first, second = (
        FakeGpu(uuid=uuid, field_values={197: 10 * n, 198: 10 * n + 1})
        for n, uuid in enumerate(uuids, 1)
    )
    with cuda_machine(2, nvml=FakeNvml(gpus=(first, second))):
        devices = [CudaDevice(index) for index in (0, 1)]
        assert [device.bytes_counted() for device in devices] == [(21, 20), (11, 10)]
        first.field_values[138], second.field_errors[138] = 5, 3
        assert devices[1].bytes_sent() == 10 + 5 * 1024, "NVLink counts KiB"
        assert devices[0].bytes_sent() == 20
        second.field_errors[198] = 3
        with pytest.raises(Unavailable, match=r"field 198: not supported"):
            devices[0].bytes_counted()
    other = FakeNvml(gpus=(FakeGpu(uuid="GPU-cccc"),))
    with cuda_machine(nvml=other), pytest.raises(Unavailable, match="no GPU's UUID"):
        CudaDevice().bytes_counted()


# ---- where it settles -------------------------------------------------------------------------


def slot(folder: Path, cpus: str) -> None:
    place = folder / "0000:18:00.0"
    place.mkdir()
    (place / "numa_node").write_text("0\n")
    (place / "local_cpulist").write_text(f"{cpus}\n")


@pytest.mark.parametrize(
    ("allowed", "near", "kept"),
    [
        ({*range(16)}, "0-7", {*range(8)}),
        ({*range(16)}, "0", {*range(16)}),
        ({*range(32)}, "0-2", {*range(32)}),
        ({8, 9}, "0-7", {8, 9}),
    ],
)
def test_it_binds_to_the_gpus_node_where_that_is_worth_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: set[int], near: str, kept: set[int]
) -> None:
    bound: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: allowed)
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: bound.append(cpus))
    monkeypatch.setattr(numa, "_DEVICES", tmp_path)
    slot(tmp_path, near)
    assert numa.bind_near("0000:18:00.0") == kept
    assert bound == ([] if kept == allowed else [kept])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: kept)
    (tmp_path / "0000:18:00.0" / "numa_node").write_text("-1\n")  # as virtual machines say
    assert numa.local_cpus("0000:18:00.0") == set()


def test_far_memory_is_touched_on_the_cpus_of_other_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {*range(8)})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: bound.append(cpus))
    online, status = tmp_path / "online", tmp_path / "status"
    monkeypatch.setattr(numa, "_DEVICES", tmp_path)
    monkeypatch.setattr(numa, "_ONLINE", online)
    monkeypatch.setattr(numa, "_STATUS", status)
    slot(tmp_path, "0-7")  # of node 0
    online.write_text("0-15")
    status.write_text("Mems_allowed_list:\t0-1\nvoluntary_ctxt_switches:\t1\n")
    with numa.far_from("0000:18:00.0"):
        assert bound == [{*range(8, 16)}]
    for cpus, nodes in (("0-7", "0-1"), ("0-15", "0")):
        online.write_text(cpus)
        status.write_text(f"Mems_allowed_list:\t{nodes}\n")
        with pytest.raises(Unavailable, match="memory of a second NUMA node"):
            numa.far_from("0000:18:00.0").__enter__()
    assert bound[1:] == [{*range(8)}]


@pytest.mark.parametrize(("near", "quota", "num"), [({0}, None, 1), (set(range(64)), 2.0, 2)])
def test_torch_gets_no_more_threads_than_node_and_quota_have(
    floor: Machine, monkeypatch: pytest.MonkeyPatch, near: set[int], quota: float | None, num: int
) -> None:
    before = torch.get_num_threads()
    monkeypatch.setattr(numa, "bind_near", lambda address: near)
    monkeypatch.setattr(cuda_device, "usable_cores", lambda num: int(min(num, quota or num)))
    try:
        torch.set_num_threads(4)
        CudaDevice().settle()
        assert torch.get_num_threads() == num
        monkeypatch.setattr(numa, "bind_near", lambda address: {0, 1, 2})
        CudaDevice().settle()
        assert torch.get_num_threads() == num, "never raised"
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("needed", ["allocator caches", "CUDA graphs"])
def test_without_caching_no_case_is_warm(needed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the value: torch looks whether the variable is there."""
    monkeypatch.setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "0")
    with cuda_machine(), pytest.raises(Unavailable, match="each allocation is a new one; unset it"):
        CudaDevice().require(needed)


def test_what_a_copy_brought_is_compared_by_the_way_that_it_did_not_come(floor: Machine) -> None:
    """And what is copied is made where it lies."""
    device, work = CudaDevice(), load()["transfer.between_devices"]

    def crossed(call: Callable[[], object]) -> set[str]:
        before = len(floor.log)
        assert call() in (None, True)
        large = (event for event in floor.log[before:] if event.nbytes > KIB)
        names = {event.name.partition(" (")[0] for event in large}
        return names & {"Memcpy HtoD", "Memcpy DtoH", "Memcpy PtoP"}

    host, there = device.host_buffer(MIB, pinned=True), device.buffer(MIB)
    for target, source, way in ((there, host, "DtoH"), (host, there, "HtoD")):
        assert crossed(partial(device.fill_pattern, source, 1)) == set()
        assert crossed(partial(device.copy, target, source, blocking=True)) != {f"Memcpy {way}"}
        assert crossed(partial(device.same_values, target, source)) == {f"Memcpy {way}"}
    for route, ways in (("peer", 1), ("through_host", 2)):
        second = prepare(work, device, case_of(work.name, route=route, nbytes=MIB))
        assert second.verify is not None and "differs" in str(second.verify())
        assert len(crossed(second.step)) == ways
        assert crossed(second.verify) == set()


def test_a_device_is_its_own_whichever_is_the_current_one(floor: Machine) -> None:
    """A library may leave another current: streams, waits and counts stay with the device."""
    device = CudaDevice()
    device.delay(0.01)  # calibrates
    device.synchronize()
    start_s = floor.now_s
    torch.cuda.set_device(1)
    kept = device.buffer(MIB)
    with device.on(device.stream()):
        assert torch.cuda.current_device() == 0
        device.delay(0.01)
    assert floor.gpus[1].counts["launches"] == 0
    device.synchronize()
    assert floor.now_s - start_s >= 0.01
    with torch.cuda.device(0):
        device.delay(0.01)
    device.this_stream().synchronize()
    assert floor.now_s - start_s > 0.019
    assert device.memory_stats()["peak_allocated"] >= kept.nbytes > torch.cuda.memory_allocated(1)
    used = device.memory_of(device.creator("empty", MIB, on_host=False))
    assert used["peak_allocated"] == MIB
    counter = device.counter()
    device.graph(lambda: device.advance(counter))()
    device.synchronize()
    assert floor.gpus[1].counts["launches"] == 0


def test_a_trace_has_the_host_and_each_stream() -> None:
    """A sample of copies on one stream and of computes on another that wait for them."""
    with cuda_machine():
        device = CudaDevice()
        step = Loop(device, MIB, "pinned").prepared("copy_stream").step
        events = device.observe(step, traced=True).trace
    names = Counter(event["name"] for event in events)
    assert names["Memcpy HtoD (Pinned -> Device)"] == NUM_BATCHES and names["aten::mm"] > 0
    assert "cudaDeviceSynchronize" in names


# ---- how often the host waits -----------------------------------------------------------------


def calls() -> Iterator[tuple[str, Step, int]]:
    """Name, call, waits."""
    there, event = torch.ones(4, device="cuda"), _cuda.Event()
    pageable, pinned = torch.zeros(4), torch.zeros(4, pin_memory=True)
    yield "nothing", lambda: None, 0
    yield "a kernel", lambda: there.add_(1), 0
    yield "metadata", lambda: there.shape, 0
    yield "item", there[0].item, 1
    yield "tolist", there.tolist, 1
    yield "a mask", lambda: there[there > 0], 1
    yield "the device", lambda: _cuda.synchronize(), 1
    yield "an event", lambda: (event.record(), event.synchronize()), 1
    yield "a stream", lambda: _cuda.current_stream().synchronize(), 1
    yield "an event's query", event.query, 0
    yield "in from pinned memory", lambda: there.copy_(pinned, non_blocking=True), 0
    yield "in from pinned memory, blocking", lambda: there.copy_(pinned), 1
    yield "in from pageable memory", lambda: there.copy_(pageable, non_blocking=True), 1
    yield "in from pageable memory, blocking", lambda: there.copy_(pageable), 1
    yield "out to pageable memory", lambda: pageable.copy_(there, non_blocking=True), 1
    yield "to a new tensor", lambda: pageable.to("cuda", non_blocking=True), 1
    yield "to the host", lambda: there.to("cpu", non_blocking=True), 0
    yield "to the host, blocking", there.cpu, 1
    yield "on the host", lambda: pageable.copy_(torch.ones(4)), 0
    yield "on the device", lambda: there.copy_(torch.ones(4, device="cuda")), 0
    yield "twice", lambda: (there[0].item(), _cuda.synchronize()), 2


def test_every_wait_counts_once(floor: Machine) -> None:
    device = CudaDevice()
    counted = {name: (device.observe(call).num_waits, waits) for name, call, waits in calls()}
    assert {name: pair for name, pair in counted.items() if pair[0] != pair[1]} == {}


def test_a_graph_waits_for_what_was_enqueued_before(floor: Machine) -> None:
    """Its warm-up runs on a stream of its own."""
    device = CudaDevice()
    counter = device.counter()
    device.advance(counter)
    replay = device.graph(lambda: device.advance(counter))
    before = counter.item()
    for _ in range(3):
        replay()
    assert counter.item() == before + 3
