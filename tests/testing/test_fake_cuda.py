"""The stand-in does what CUDA does to programs that are right, and to those that are not."""

import colorsys
import mmap
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from hostbench.core.units import GIB, KIB, MIB
from tests.fakes.fake_cuda.compiler import Known
from tests.fakes.fake_cuda.tensors import CudaTensor
from tests.fakes.fake_cuda.timeline import DataRace
from tests.gpu_stand_in import Costs, Floor, Machine, Refusals, cuda_machine

COSTS = Costs()
_cuda: Any = torch.cuda  # torch leaves these calls without types
N = 4 * MIB
COPY_S = COSTS.copy_s + N / COSTS.link_bytes_per_s


@pytest.fixture
def floor() -> Iterator[Floor]:
    with cuda_machine(2) as made:
        yield made


def buffers(nbytes: int = N) -> tuple[Any, Any]:
    """Pinned and on the GPU, both done; each holds other bytes."""
    pinned = torch.full((nbytes,), 7, dtype=torch.uint8, pin_memory=True)
    there = torch.zeros(nbytes, dtype=torch.uint8, device="cuda")
    _cuda.synchronize()
    return pinned, there


def spin(seconds: float) -> None:
    _cuda._sleep(round(seconds * COSTS.sm_hz))


def test_what_is_imported_meanwhile_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch imports some of its modules, hundreds of them, only when it needs them."""
    monkeypatch.delitem(sys.modules, "this", raising=False)
    real = sys.modules.get("pynvml")
    with cuda_machine():
        monkeypatch.setitem(sys.modules, "this", None)
        assert sys.modules["pynvml"] is not real
    assert "this" in sys.modules
    assert sys.modules.get("pynvml") is real


def test_shapes_do_without_torchs_compiler(floor: Floor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process of the stand-in's would import it for a second or two."""
    names = {"sympy", "torch.fx.experimental.symbolic_shapes", "torch._dynamo"}
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    left, right = (torch.full((n, n), 2.0, device="cuda") for n in (3, 3))
    place = torch.arange(12, device="cuda")
    found = torch.mm(left, right).add(1).to("cpu"), (2 * place % 5 == 1).reshape(3, 4).to("cpu")
    assert found[0].tolist() == [[13.0] * 3] * 3
    assert found[1].tolist() == (2 * torch.arange(12) % 5 == 1).reshape(3, 4).tolist()
    assert torch.randn(8, device="cuda").shape == (8,)
    assert torch.zeros(3, 4).t().to("cuda").stride() == (1, 4)
    assert not names & set(sys.modules)


def test_what_else_is_asked_of_the_compiler_it_answers_itself() -> None:
    known = Known("colorsys", rgb_to_hls=max)
    assert known.rgb_to_hls is max
    assert known.hls_to_rgb is colorsys.hls_to_rgb


# ---- streams, events, the clock ---------------------------------------------------------------


def test_a_kernel_runs_when_somebody_waits(floor: Floor) -> None:
    _, there = buffers(8)
    there.add_(1)
    assert there.peek()[0] == 0, "enqueued"
    _cuda.synchronize()
    assert there.peek()[0] == 1


def test_each_call_costs_the_host_and_an_enqueued_copy_its_stream(floor: Floor) -> None:
    pinned, there = buffers()
    start_s = floor.machine.now_s
    there.copy_(pinned, non_blocking=True)
    assert floor.machine.now_s - start_s == pytest.approx(COSTS.launch_s)
    _cuda.synchronize()
    called_s = COSTS.launch_s + COSTS.call_s
    assert floor.machine.now_s - start_s == pytest.approx(max(COSTS.launch_s + COPY_S, called_s))


def test_an_event_is_stamped_with_the_later_of_host_and_stream(floor: Floor) -> None:
    pinned, there = buffers()
    idle, start, end = (_cuda.Event(enable_timing=True) for _ in range(3))
    idle.record()
    start.record()
    there.copy_(pinned, non_blocking=True)
    end.record()
    end.synchronize()
    assert idle.elapsed_time(start) / 1e3 == pytest.approx(COSTS.launch_s), "the host was late"
    assert start.elapsed_time(end) / 1e3 == pytest.approx(COSTS.launch_s + COPY_S)


def test_behind_a_delay_the_host_is_not_in_the_stamp(floor: Floor) -> None:
    pinned, there = buffers()
    start, end = (_cuda.Event(enable_timing=True) for _ in range(2))
    spin(0.01)
    start.record()
    there.copy_(pinned, non_blocking=True)
    end.record()
    _cuda.synchronize()
    assert start.elapsed_time(end) / 1e3 == pytest.approx(COPY_S)


def test_events_refuse_as_torchs_do(floor: Floor) -> None:
    start, end = _cuda.Event(enable_timing=True), _cuda.Event()
    with pytest.raises(ValueError, match="enable_timing"):
        start.elapsed_time(end)
    end = _cuda.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        start.elapsed_time(end)
    start.record()
    spin(0.01)
    end.record()
    with pytest.raises(ValueError, match="must be completed"):
        start.elapsed_time(end)


def test_query_does_not_wait(floor: Floor) -> None:
    event = _cuda.Event()
    spin(0.01)
    event.record()
    assert not event.query() and not _cuda.current_stream().query()
    event.synchronize()
    assert event.query() and _cuda.current_stream().query()


def test_torch_hands_out_32_streams_over_and_over_and_never_nccls(floor: Floor) -> None:
    gpu = floor.machine.gpus[0]
    streams = [_cuda.Stream() for _ in range(33)]
    assert streams[32] == streams[0] and len({each.queue for each in streams}) == 32
    assert not {gpu.queues[0], gpu.queues[-1]} & {each.queue for each in streams}


def test_streams_run_side_by_side_and_copies_of_one_way_do_not(floor: Floor) -> None:
    streams = _cuda.Stream(), _cuda.Stream()
    ends = []
    pairs = [buffers(), buffers()]
    began_s = floor.machine.now_s
    for stream, (pinned, there) in zip(streams, pairs, strict=True):
        with _cuda.stream(stream):
            spin(0.01)
            there.copy_(pinned, non_blocking=True)
            ends.append(stream.queue.free_s - began_s)
    assert ends[0] == pytest.approx(0.01 + COPY_S, rel=0.01)
    assert ends[1] == pytest.approx(0.01 + 2 * COPY_S, rel=0.01)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: _cuda.Stream(0, 0, 0),
        lambda: _cuda.Event(timing=True),
        lambda: _cuda.Event().record(1, 2),
        lambda: _cuda.synchronize(0, 1),
        lambda: _cuda.current_stream().wait_event(),
        lambda: _cuda.can_device_access_peer(0),
    ],
)
def test_signatures_are_torchs_own(floor: Floor, wrong: Any) -> None:
    with pytest.raises(TypeError):
        wrong()


# ---- copies -----------------------------------------------------------------------------------


def test_a_pinned_copy_reads_its_source_late(floor: Floor) -> None:
    pinned, there = buffers()
    spin(0.01)
    there.copy_(pinned, non_blocking=True)
    with pytest.raises(DataRace, match=r"the host writes .* of pinned memory while stream 0 reads"):
        pinned.fill_(9)
    with floor.machine.behind_the_scenes():
        pinned.fill_(9)
    _cuda.synchronize()
    assert there.peek()[0] == 9


def test_the_host_may_not_look_before_it_has_waited(floor: Floor) -> None:
    pinned, there = buffers()
    pinned.copy_(there, non_blocking=True)
    with pytest.raises(DataRace, match=r"the host reads .* while stream 0 writes"):
        pinned.sum()
    _cuda.synchronize()
    assert pinned.sum() == 0


@pytest.mark.parametrize("non_blocking", [True, False])
@pytest.mark.parametrize("way", ["H2D", "D2H"])
def test_a_pageable_copy_drains_its_stream(floor: Floor, way: str, non_blocking: bool) -> None:
    pageable, (_, there) = torch.full((N,), 7, dtype=torch.uint8), buffers()
    target, source = (there, pageable) if way == "H2D" else (pageable, there)
    start_s = floor.machine.now_s
    spin(0.01)
    target.copy_(source, non_blocking=non_blocking)
    wanted_s = 0.01 + COSTS.copy_s + N / COSTS.pageable_bytes_per_s
    assert floor.machine.now_s - start_s == pytest.approx(wanted_s, rel=1e-3)
    assert pageable[0] == there.peek()[0], "it is done"


def test_a_small_pageable_copy_is_taken_along(floor: Floor) -> None:
    _, there = buffers(KIB)
    pageable = torch.full((KIB,), 7, dtype=torch.uint8)
    start_s = floor.machine.now_s
    spin(0.01)
    there.copy_(pageable, non_blocking=True)
    pageable.fill_(9)
    assert floor.machine.now_s - start_s < 1e-4
    _cuda.synchronize()
    assert there.peek()[0] == 7


@pytest.mark.parametrize("way", ["H2D", "D2H"])
def test_a_pageable_copy_to_the_gpu_is_staged_and_not_yet_there(floor: Floor, way: str) -> None:
    """Another stream may not take it as done; what comes from the GPU is."""
    pageable, (_, there), side = torch.ones(N, dtype=torch.uint8), buffers(), _cuda.Stream()
    target, source = (there, pageable) if way == "H2D" else (pageable, there)
    target.copy_(source, non_blocking=True)
    assert _cuda.current_stream().query() is (way == "D2H")
    with _cuda.stream(side):
        if way == "D2H":
            there.add_(1)
            return
        with pytest.raises(DataRace, match="nothing orders the two"):
            there.add_(1)


@pytest.mark.parametrize("non_blocking", [True, False])
def test_a_cast_runs_where_torch_runs_it(floor: Floor, non_blocking: bool) -> None:
    host = torch.arange(N // 4, dtype=torch.float32).remainder_(1000).pin_memory()
    there: Any = torch.empty(N // 4, dtype=torch.float16, device="cuda")
    counts = floor.machine.gpus[0].counts
    there.copy_(host, non_blocking=non_blocking)
    _cuda.synchronize()
    assert torch.equal(there.peek(), host.half())
    assert counts["H2D pinned" if non_blocking else "H2D pageable"] == (
        N if non_blocking else N // 2
    )


def test_what_is_not_dense_is_gathered_first(floor: Floor) -> None:
    wide = torch.arange(64, dtype=torch.float32, device="cuda")
    host = torch.empty(32, pin_memory=True)
    host.copy_(wide[::2])
    assert torch.equal(host, torch.arange(0, 64, 2, dtype=torch.float32))
    assert torch.equal(wide[::2].cpu(), host)


def test_non_blocking_to_the_host_allocates_pinned_memory(floor: Floor) -> None:
    _, there = buffers()
    assert there.to("cpu", non_blocking=True).is_pinned()
    assert not there.to("cpu").is_pinned()
    assert there.to("cuda") is there


# ---- memory -----------------------------------------------------------------------------------


def test_what_is_freed_is_overwritten_and_handed_out_again_on_its_stream(floor: Floor) -> None:
    _, there = buffers()
    address, block = there.data_ptr(), there.block
    del there
    _cuda.synchronize()
    assert block.bytes[0] == 0xA5
    other = _cuda.Stream()
    with _cuda.stream(other):
        assert torch.empty(N, dtype=torch.uint8, device="cuda").data_ptr() != address
    assert torch.empty(N, dtype=torch.uint8, device="cuda").data_ptr() == address


def test_freeing_what_another_stream_uses_is_a_race_without_record_stream(floor: Floor) -> None:
    side = _cuda.Stream()
    for is_recorded in (True, False):
        _, there = buffers()
        address = there.data_ptr()
        with _cuda.stream(side):
            spin(0.01)
            there.add_(1)
        if is_recorded:
            there.record_stream(side)
        del there
        if is_recorded:
            assert torch.empty(N, dtype=torch.uint8, device="cuda").data_ptr() != address
            _cuda.synchronize()
    with pytest.raises(DataRace, match=r"freed while stream . uses it: record_stream is missing"):
        _cuda.synchronize()


def test_a_freed_block_waits_for_all_that_its_streams_had_by_then(floor: Floor) -> None:
    """`record_stream` before the use is right too: the event is recorded when it is freed."""
    side, (_, there) = _cuda.Stream(), buffers()
    address = there.data_ptr()
    there.record_stream(side)
    with _cuda.stream(side):
        spin(0.01)
        there.add_(1)
    del there
    other = torch.empty(N, dtype=torch.uint8, device="cuda")
    assert other.data_ptr() != address
    _cuda.synchronize()
    assert torch.empty(N, dtype=torch.uint8, device="cuda").data_ptr() == address


@pytest.mark.parametrize("non_blocking", [True, False])
def test_pinned_memory_waits_only_for_copies_that_did_not_block(
    floor: Floor, non_blocking: bool
) -> None:
    pinned, there = buffers()
    address = pinned.data_ptr()
    there.copy_(pinned, non_blocking=non_blocking)
    _cuda.synchronize()
    spin(0.01)
    del pinned
    again = torch.empty(N, dtype=torch.uint8, pin_memory=True)
    assert (again.data_ptr() == address) is not non_blocking


@pytest.mark.parametrize("pinned", [True, False])
def test_what_is_done_by_now_comes_before_its_memory_is_given_back(
    floor: Floor, pinned: bool
) -> None:
    """Nobody has waited; the allocator alone asks, and hands the memory out again."""
    used, other = _cuda.Stream(), _cuda.Stream()
    target = torch.zeros(N, dtype=torch.uint8, device="cuda")
    source = torch.full((N,), 7, dtype=torch.uint8).pin_memory()
    _cuda.synchronize()
    with _cuda.stream(other):
        held = source if pinned else source.to("cuda", non_blocking=True)
    used.wait_stream(other)
    with _cuda.stream(used):
        target.copy_(held, non_blocking=True)
    if not pinned:
        held.record_stream(used)
    del held, source
    floor.machine.call(1.0)
    with _cuda.stream(other):
        where: Any = {"pin_memory": True} if pinned else {"device": "cuda"}
        again = torch.empty(N, dtype=torch.uint8, **where)
        if pinned:
            again.fill_(9)  # by the host
    _cuda.synchronize()
    assert bool((target.cpu() == 7).all())


def test_a_thread_of_the_host_pins_memory_too(floor: Floor) -> None:
    """As a DataLoader's does, which sets the device first."""
    pageable, found = torch.full((N,), 7, dtype=torch.uint8), []

    def pin() -> None:
        torch.accelerator.set_device_index(1)
        found.append((torch.accelerator.current_device_index(), pageable.pin_memory()))

    thread = threading.Thread(target=pin)
    thread.start()
    thread.join()
    ((index, pinned),) = found
    assert (index, pinned.is_pinned(), pageable.is_pinned()) == (1, True, False)
    there = torch.zeros(N, dtype=torch.uint8, device="cuda")
    there.copy_(pinned, non_blocking=True)
    _cuda.synchronize()
    assert bool((there.cpu() == 7).all())


def test_statistics_count_as_torch_does(floor: Floor) -> None:
    there = torch.empty(N + 1, dtype=torch.uint8, device="cuda")
    assert _cuda.memory_allocated() == N + 512
    assert _cuda.memory_reserved() == 20 * MIB, "a segment for what is under 10MiB"
    del there
    assert _cuda.memory_allocated() == 0 and _cuda.max_memory_allocated() == N + 512
    _cuda.empty_cache()
    assert _cuda.memory_reserved() == 0
    _cuda.reset_peak_memory_stats()
    assert _cuda.max_memory_allocated() == 0


def test_what_the_host_does_itself_takes_its_time(floor: Floor) -> None:
    """Else a step of the host alone would be repeated for ever to make a reading."""
    start_s = floor.machine.now_s
    here = torch.empty(N, dtype=torch.uint8)
    here.view(torch.float32)
    assert floor.machine.now_s == start_s, "memory is given, and looked at"
    here.zero_()
    wanted_s = COSTS.call_s + N / COSTS.host_bytes_per_s
    assert floor.machine.now_s - start_s == pytest.approx(wanted_s)


def test_each_page_that_is_touched_takes_its_time(floor: Floor) -> None:
    """Memory of 64MiB whose pages are touched once is not to be had in the time of 16KiB."""
    here = torch.empty(64 * mmap.PAGESIZE, dtype=torch.uint8)
    start_s = floor.machine.now_s
    here[:: mmap.PAGESIZE].zero_()
    every_s = 63 * mmap.PAGESIZE / COSTS.host_bytes_per_s
    assert floor.machine.now_s - start_s == pytest.approx(COSTS.call_s + every_s, rel=1e-4)


def test_fragmentation_is_in_the_statistics(floor: Floor) -> None:
    """A large block is split; what is left cannot be given back while the rest is in use."""
    there = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
    stats = _cuda.memory_stats()
    assert stats["inactive_split_bytes.all.current"] == 16 * MIB
    assert stats["requested_bytes.all.peak"] == 4 * MIB
    _cuda.empty_cache()
    assert _cuda.memory_reserved() == 20 * MIB
    del there


def test_a_process_gets_no_more_than_its_share(floor: Floor) -> None:
    """Before it fails, what is cached is given back, and the host waits for the device."""
    gpu = floor.machine.gpus[0]
    _cuda.set_per_process_memory_fraction(32 * MIB / floor.machine.memory_bytes)
    there = torch.empty(12 * MIB, dtype=torch.uint8, device="cuda")
    del there
    before = gpu.counts["implicit"]
    there = torch.empty(24 * MIB, dtype=torch.uint8, device="cuda")
    assert _cuda.memory_stats()["num_alloc_retries"] == 1
    assert gpu.counts["implicit"] == before + 1
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 0\.02GiB"):
        torch.empty(20 * MIB, dtype=torch.uint8, device="cuda")
    assert _cuda.memory_stats()["num_ooms"] == 1
    del there


def test_settings_are_read_when_torch_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its backend is; a later change of the environment changes nothing."""
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync")
    with cuda_machine():
        monkeypatch.delenv("PYTORCH_CUDA_ALLOC_CONF")
        assert _cuda.get_allocator_backend() == "cudaMallocAsync"
        there = torch.empty(4 * MIB, dtype=torch.uint8, device="cuda")
        assert _cuda.memory_reserved() == 4 * MIB
        del there


def test_products_leave_a_workspace_on_their_stream(floor: Floor) -> None:
    left = torch.ones(8, 8, device="cuda")
    before = _cuda.memory_allocated()
    assert torch.equal((left @ left).cpu(), torch.full((8, 8), 8.0))
    assert _cuda.memory_allocated() - before == 32 * MIB
    torch._C._cuda_clearCublasWorkspaces()
    assert _cuda.memory_allocated() == before


def test_more_than_there_is_is_out_of_memory(floor: Floor) -> None:
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        torch.empty(81 * GIB, dtype=torch.uint8, device="cuda")


def test_pinned_memory_can_run_out() -> None:
    with cuda_machine(refusals=Refusals(pinned_bytes=MIB)):
        kept = torch.empty(MIB, dtype=torch.uint8, pin_memory=True)
        with pytest.raises(RuntimeError, match="CUDA error: out of memory"):
            torch.empty(1, pin_memory=True)
        assert kept.is_pinned()


def test_a_refused_registration_stays_behind_and_the_next_kernel_dies_of_it() -> None:
    with cuda_machine(refusals=Refusals(registered=True)):
        buffer = torch.zeros(KIB)
        assert _cuda.cudart().cudaHostRegister(buffer.data_ptr(), 4 * KIB, 1) != 0
        _cuda.synchronize()
        with pytest.raises(RuntimeError, match="CUDA error: operation not supported"):
            torch.ones(1, device="cuda")
        torch.ones(1, device="cuda")


def test_a_copy_inside_a_gpu_dies_of_it_too_one_over_the_link_does_not() -> None:
    """torch asks for the last error behind the one, and looks at what CUDA returned of the other
    (Copy.cu)."""
    with cuda_machine(refusals=Refusals(registered=True)):
        pinned, there = buffers()
        other = torch.empty_like(there)
        _cuda.cudart().cudaHostRegister(pinned.data_ptr(), KIB, 1)
        there.copy_(pinned)
        with pytest.raises(RuntimeError, match="CUDA error: operation not supported"):
            other.copy_(there)


def test_registered_memory_is_pinned_until_it_is_unregistered(floor: Floor) -> None:
    buffer = torch.zeros(KIB)
    runtime = _cuda.cudart()
    assert runtime.cudaHostRegister(buffer.data_ptr(), 4 * KIB, 1) == 0
    assert buffer.is_pinned()
    assert runtime.cudaHostUnregister(buffer.data_ptr()) == 0
    assert not buffer.is_pinned()


# ---- who may touch what -----------------------------------------------------------------------


def two_streams(*, waits: bool, other_way: bool = False) -> None:
    """A copy on one stream, a kernel on the other that reads (or overwrites) what it brought."""
    pinned, there = buffers()
    copies, computes = _cuda.Stream(), _cuda.Stream()
    copied = _cuda.Event()
    with _cuda.stream(copies):
        there.copy_(pinned, non_blocking=True)
        copied.record()
    with _cuda.stream(computes):
        if waits:
            computes.wait_event(copied)
        _ = there.zero_() if other_way else there.sum()
    _cuda.synchronize()


@pytest.mark.parametrize("other_way", [False, True])
def test_a_missing_wait_is_a_race_whatever_the_times(floor: Floor, other_way: bool) -> None:
    two_streams(waits=True, other_way=other_way)
    floor.machine.costs.launch_s = 1.0  # the copy is long done when the kernel starts
    with pytest.raises(DataRace, match="nothing orders the two"):
        two_streams(waits=False, other_way=other_way)


def test_what_the_host_has_waited_for_is_ordered(floor: Floor) -> None:
    pinned, there = buffers()
    side = _cuda.Stream()
    with _cuda.stream(side):
        there.copy_(pinned, non_blocking=True)
    side.synchronize()
    there.add_(1)
    _cuda.synchronize(1)
    with _cuda.stream(side), pytest.raises(DataRace):
        there.add_(1)


# ---- errors and several GPUs ------------------------------------------------------------------


def test_a_device_side_assert_is_sticky(floor: Floor) -> None:
    torch._assert_async(torch.zeros(1, device="cuda"))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="CUDA error: device-side assert"):
            _cuda.synchronize()


def test_waits_and_bytes_are_counted_by_gpu(floor: Floor) -> None:
    first, second = floor.machine.gpus
    with _cuda.device(1):
        pinned, there = buffers(KIB)
        before = second.counts.copy()
        there.copy_(pinned)
        _cuda.current_stream().synchronize()
        there[0].item()
    assert not first.counts
    assert second.counts - before == {
        "H2D pinned": KIB,
        "implicit": 2,
        "stream": 1,
        "D2H pageable": 8,
    }


def test_copies_between_gpus_wait_for_both(floor: Floor) -> None:
    here = torch.full((KIB,), 5, dtype=torch.uint8, device="cuda:0")
    there = torch.zeros(KIB, dtype=torch.uint8, device="cuda:1")
    there.copy_(here, non_blocking=True)
    assert torch.equal(there.cpu(), here.cpu())
    assert floor.machine.gpus[0].counts["P2P"] == KIB
    with pytest.raises(RuntimeError, match="on the same device"):
        here.add_(there)


def test_an_event_belongs_to_the_gpu_that_it_was_recorded_on_first(floor: Floor) -> None:
    event = _cuda.Event()
    event.record()
    with _cuda.device(1), pytest.raises(RuntimeError, match="does not match recording stream"):
        event.record()


def test_a_gpu_can_fall_off_the_bus() -> None:
    with cuda_machine(refusals=Refusals(lost_after_s=0.01)):
        spin(0.02)
        with pytest.raises(RuntimeError, match="CUDA error"):
            _cuda.synchronize()


# ---- graphs, and torch's debug mode of synchronizations -----------------------------------------


def captured(work: Callable[[], object]) -> Any:
    graph, side = _cuda.CUDAGraph(), _cuda.Stream()
    with _cuda.graph(graph, stream=side):
        work()
    return graph


def test_a_graph_runs_nothing_when_captured_and_all_of_it_for_one_launch(floor: Floor) -> None:
    counter = torch.zeros(1, device="cuda")
    graph = captured(lambda: [counter.add_(1) for _ in range(5)])
    assert counter.item() == 0
    start_s, launches = floor.machine.now_s, floor.machine.gpus[0].counts["launches"]
    graph.replay()
    assert floor.machine.now_s - start_s == pytest.approx(floor.machine.costs.launch_s)
    assert floor.machine.gpus[0].counts["launches"] - launches == 5
    graph.replay()
    assert counter.item() == 10


def test_what_a_graph_allocates_is_nobody_elses(floor: Floor) -> None:
    """Each replay writes to it again, though the tensor that was made there is gone."""
    ones = torch.ones(KIB, device="cuda")
    total = torch.zeros(KIB, device="cuda")
    graph = captured(lambda: total.add_(ones * 2))
    others = [torch.full((KIB,), 7.0, device="cuda") for _ in range(4)]
    graph.replay()
    assert {float(each.sum().item()) for each in others} == {7.0 * KIB}
    assert total[0].item() == 2
    reserved = floor.memories[0].segments.stats["reserved"]
    graph.reset()
    _cuda.empty_cache()
    assert floor.memories[0].segments.stats["reserved"] <= reserved
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


def test_what_cannot_be_captured_raises(floor: Floor) -> None:
    counter = torch.zeros(1, device="cuda")
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        captured(counter.item)
    with pytest.raises(RuntimeError, match="non-default stream"):
        _cuda.CUDAGraph().capture_begin()

    def elsewhere() -> None:
        with _cuda.stream(_cuda.default_stream()):
            counter.add_(1)

    with pytest.raises(RuntimeError, match="depend on a capturing blocking stream"):
        captured(elsewhere)
    assert counter.item() == 0


def test_a_graph_is_ordered_like_any_work(floor: Floor) -> None:
    counter = torch.zeros(1, device="cuda")
    graph = captured(lambda: counter.add_(1))
    with _cuda.stream(_cuda.Stream()):
        graph.replay()
    with pytest.raises(DataRace):
        counter.add_(1)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_torch_tells_of_waits_for_streams_alone(floor: Floor) -> None:
    """As c10/cuda/CUDAFunctions.h has it."""
    there, event = torch.ones(1, device="cuda"), _cuda.Event()
    pageable, pinned = torch.zeros(1), torch.zeros(1, pin_memory=True)
    loud = (
        there.item,
        there.cpu,
        there.tolist,
        lambda: there.nonzero(),
        lambda: pinned.copy_(there),
        _cuda.current_stream().synchronize,
    )
    silent = (
        _cuda.synchronize,
        event.synchronize,
        lambda: there.copy_(pageable, non_blocking=True),
        lambda: pinned.copy_(there, non_blocking=True),
        lambda: there.add_(1),
    )
    _cuda.set_sync_debug_mode("warn")
    for call in loud:
        with pytest.warns(UserWarning, match="called a synchronizing CUDA operation"):
            call()
    _cuda.set_sync_debug_mode("error")
    for call in loud:
        with pytest.raises(RuntimeError, match="called a synchronizing CUDA operation"):
            call()
    for call in silent:
        call()
    _cuda.set_sync_debug_mode("default")
    assert _cuda.get_sync_debug_mode() == 0
    there.item()


def test_a_tensor_prints_as_torch_prints_it(floor: Floor) -> None:
    assert str(torch.ones(2, device="cuda")) == "CudaTensor([1., 1.], device='cuda:0')"
    assert f"{torch.ones(1, device='cuda')[0]:.1f}" == "1.0"


def test_all_is_put_back() -> None:
    has_cuda = hasattr(torch._C, "_cuda_sleep")
    before = _cuda.is_available(), torch.version.cuda
    with cuda_machine():
        assert _cuda.is_available() and torch.version.cuda == "12.8"
        assert isinstance(torch.ones(1, device="cuda"), CudaTensor)
    assert (_cuda.is_available(), torch.version.cuda) == before
    assert hasattr(torch._C, "_cuda_sleep") is has_cuda
    if has_cuda:
        return
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(1, device="cuda")


def test_a_machine_without_gpus_says_so() -> None:
    with cuda_machine(0), pytest.raises(RuntimeError, match="No CUDA GPUs are available"):
        torch.ones(1, device="cuda")
    assert Machine(num_gpus=0).gpus == []
