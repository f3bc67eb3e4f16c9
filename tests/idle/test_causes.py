"""Each second of idleness has one cause: traces made by hand, in which the answer is known."""

from dataclasses import replace
from pathlib import Path

import pytest

from hostbench.idle.causes import (
    COPY_NOT_HIDDEN,
    HOST_LATE,
    IDLE_CAUSES,
    LAUNCH_BOUND,
    OTHER,
    QUEUED,
    SLOW_LAUNCH,
    SYNCHRONIZATION,
)
from hostbench.idle.report import IdleReport
from hostbench.idle.summary import idle_report
from tests.made_trace import D2H_PAGEABLE, H2D, H2D_PAGEABLE, MadeTrace


@pytest.fixture
def made() -> MadeTrace:
    return MadeTrace()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def report(made: MadeTrace, folder: Path) -> IdleReport:
    return idle_report([made.write(folder / "trace.json")])


def idle_us(made: MadeTrace, folder: Path) -> dict[str, float]:
    """By cause, those that have any; they add up to the idle time."""
    found = report(made, folder)
    idle_s = sum(each.span_s - each.busy_s for each in found.devices)
    assert sum(each.seconds for each in found.causes if each.is_idle) == pytest.approx(idle_s)
    assert {each.cause for each in found.causes if each.is_idle} == set(IDLE_CAUSES)
    return {
        each.cause: round(each.seconds * 1e6, 3) for each in found.causes if each.seconds > 1e-9
    }


def test_a_launch_that_comes_late(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel((500, 505), (510, 610))
    assert idle_us(made, folder) == {HOST_LATE: 390, LAUNCH_BOUND: 5, QUEUED: 5}
    (device,) = report(made, folder).devices
    assert (device.device, device.rank) == (0, None)
    assert device.span_s == pytest.approx(600e-6)
    assert device.busy_s == pytest.approx(200e-6)
    assert device.idle_fraction == pytest.approx(2 / 3)


def test_launches_back_to_back(made: MadeTrace, folder: Path) -> None:
    """Kernels of 2 us, launched every 10 us, which begin 2 us after the call."""
    for start in range(0, 100, 10):
        made.kernel((start, start + 5), (start + 7, start + 9))
    assert idle_us(made, folder) == {LAUNCH_BOUND: 9 * 6, QUEUED: 9 * 2}
    tiny = report(made, folder).tiny_kernels
    assert (tiny.count, tiny.num_kernels) == (10, 10)
    assert tiny.median_s == pytest.approx(2e-6)


def test_a_launch_under_way_when_the_device_went_idle(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel((108, 115), (118, 200))
    assert idle_us(made, folder) == {LAUNCH_BOUND: 5, QUEUED: 3}


def test_what_lies_behind_the_launch_is_not_the_hosts(made: MadeTrace, folder: Path) -> None:
    """The call returned after 5 us. For 60 ms the device did not begin."""
    made.kernel((0, 5), (10, 110))
    made.kernel((120, 125), (60_125, 60_200))
    assert idle_us(made, folder) == {HOST_LATE: 10, LAUNCH_BOUND: 5, QUEUED: 60_000}
    worst = report(made, folder).advice[0]
    assert worst.what.startswith("queued longer than 50 us")
    assert "event" in worst.remedy
    assert worst.seconds == pytest.approx(60e-3)


def test_a_launch_call_that_takes_long(made: MadeTrace, folder: Path) -> None:
    """The host is in the driver for 60 ms, as where that loads a kernel's code."""
    made.kernel((0, 5), (10, 110))
    made.kernel((220, 60_220), (60_225, 60_300))
    assert idle_us(made, folder) == {HOST_LATE: 110, SLOW_LAUNCH: 60_000, QUEUED: 5}
    worst = report(made, folder).advice[0]
    assert worst.what.startswith("slow launch")
    assert worst.seconds == pytest.approx(60e-3)


def test_a_long_launch_call_under_way_when_the_device_went_idle(
    made: MadeTrace, folder: Path
) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel((60, 160), (165, 200))
    assert idle_us(made, folder) == {SLOW_LAUNCH: 50, QUEUED: 5}


def test_the_call_of_a_copy_that_lasts_until_the_copy_is_done(
    made: MadeTrace, folder: Path
) -> None:
    """It begins while the device idles: from there to the copy it is a launch."""
    made.kernel((0, 5), (10, 110))
    made.copy((115, 315), (125, 310), D2H_PAGEABLE)
    assert idle_us(made, folder) == {HOST_LATE: 5, LAUNCH_BOUND: 10, COPY_NOT_HIDDEN: 185}


def test_the_loader_is_not_to_blame_for_what_lies_behind_the_launch(
    made: MadeTrace, folder: Path
) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel((500, 505), (900, 1000))
    made.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", (400, 800))
    assert report(made, folder).host_late_in_loader_s == pytest.approx(100e-6)


def test_a_clock_that_shows_a_kernel_before_its_launch(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel((502, 507), (500, 610))
    assert idle_us(made, folder) == {HOST_LATE: 390}


def test_work_that_was_queued(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel((6, 11), (113, 200))
    assert idle_us(made, folder) == {QUEUED: 3}


def test_a_launch_that_the_trace_lacks(made: MadeTrace, folder: Path) -> None:
    made.kernel(None, (10, 110))
    made.kernel(None, (150, 200))
    assert idle_us(made, folder) == {OTHER: 40}
    (advice,) = report(made, folder).advice
    assert "lacks the calls" in advice.what
    assert "ProfilerActivity" in advice.remedy
    assert advice.seconds == pytest.approx(40e-6)


def test_a_launch_that_the_trace_lacks_among_others(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel(None, (150, 200))
    assert idle_us(made, folder) == {OTHER: 40}
    (advice,) = report(made, folder).advice
    assert "lacks the launch of some work" in advice.what


def test_a_wait_that_let_the_queue_run_dry(made: MadeTrace, folder: Path) -> None:
    """The host stood still for 95 us: without that the next launch would have been in time."""
    made.kernel((0, 5), (10, 110))
    made.sync((20, 115))
    made.kernel((170, 175), (180, 300))
    assert idle_us(made, folder) == {SYNCHRONIZATION: 65, QUEUED: 5}
    (line,) = report(made, folder).syncs
    assert (line.call, line.count, line.file) == ("cudaStreamSynchronize", 1, None)
    assert line.seconds == pytest.approx(95e-6)
    assert line.idle_s == pytest.approx(65e-6)


def test_a_wait_takes_no_more_blame_than_it_lasted(made: MadeTrace, folder: Path) -> None:
    """It lasted 30 us. Had the host come so much earlier, it would still have been late."""
    made.kernel((0, 5), (10, 110))
    made.sync((85, 115))
    made.kernel((600, 605), (610, 700))
    assert idle_us(made, folder) == {
        HOST_LATE: 460,
        SYNCHRONIZATION: 30,
        LAUNCH_BOUND: 5,
        QUEUED: 5,
    }


def test_a_wait_is_to_blame_until_the_host_is_ahead_again(made: MadeTrace, folder: Path) -> None:
    """50 us lost; four gaps of 8 us, and 18 of the fifth and the sixth, are on its account."""
    made.kernel((0, 5), (10, 110))
    made.sync((62, 112))
    for start in range(115, 215, 10):
        made.kernel((start, start + 3), (start + 3, start + 5))
    # the first gap is 8 us, and so are the others
    assert idle_us(made, folder) == {LAUNCH_BOUND: 30, SYNCHRONIZATION: 50}


def test_a_wait_long_ago_is_not_to_blame(made: MadeTrace, folder: Path) -> None:
    """No host is more than 1,024 launches ahead, whatever it lost before."""
    made.kernel((0, 5), (10, 1_000_010))
    made.sync((20, 1_000_020))
    start = 1_000_021
    for number in range(2000):
        made.kernel((start, start + 1), (start + 1, start + 2))
        start += 10 if number >= 1500 else 1
    found = idle_us(made, folder)
    assert found[LAUNCH_BOUND] == 499 * 9
    assert found[SYNCHRONIZATION] == 12


def test_the_wait_for_a_value_is_one_wait(made: MadeTrace, folder: Path) -> None:
    """`.item()`: a copy into pageable memory, in which the host stands still, and a synchronize."""
    made.kernel((0, 5), (10, 110))
    made.op("aten::item", (18, 125))
    made.op("aten::_local_scalar_dense", (19, 124))
    made.copy((20, 116), (111, 113), D2H_PAGEABLE)
    made.sync((117, 119))
    made.kernel((140, 145), (150, 300))
    assert idle_us(made, folder) == {SYNCHRONIZATION: 32, QUEUED: 6, COPY_NOT_HIDDEN: 2}
    (line,) = report(made, folder).syncs
    assert (line.call, line.count) == ("aten::item", 1)
    assert "a line that the trace lacks: .item() waits for the device, 1 time" in {
        each.what for each in report(made, folder).advice
    }
    assert line.seconds == pytest.approx(99e-6)


def test_a_copy_that_nothing_hides(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.copy((6, 9), (100, 150), H2D, 1000)
    made.kernel((9, 11), (150, 200))
    assert idle_us(made, folder) == {COPY_NOT_HIDDEN: 40}
    (way,) = report(made, folder).copies
    assert (way.way, way.count, way.nbytes) == ("H2D pinned", 1, 1000)
    assert way.seconds == pytest.approx(50e-6)
    assert way.not_hidden_s == pytest.approx(40e-6)


def test_a_copy_inside_the_device_is_its_work(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.copy((6, 9), (110, 150), "Memcpy DtoD (Device -> Device)")
    made.kernel((9, 11), (150, 200))
    assert idle_us(made, folder) == {}
    assert report(made, folder).copies == ()


def test_copies_of_rocm(made: MadeTrace, folder: Path) -> None:
    """Named otherwise, without a size and the kind of memory."""
    made.kernel((0, 5), (10, 110), call="hipLaunchKernel")
    for way, ran in (
        ("CopyDeviceToDevice", (110, 150)),
        ("CopyHostToDevice", (150, 170)),
        ("Memcpy HtoD (Host -> Device)", (170, 180)),
        ("CopyDeviceToHost", (180, 190)),
    ):
        made.copy((6, 9), ran, way)
        del made.events[-2]["args"]["bytes"]
    assert idle_us(made, folder) == {COPY_NOT_HIDDEN: 40}
    found = report(made, folder)
    assert [(way.way, way.count, way.nbytes) for way in found.copies] == [
        ("H2D", 2, 0),
        ("D2H", 1, 0),
    ]
    assert found.advice[0].what == "copies not hidden: H2D, 2 of a size that the trace lacks"
    assert "side stream" in found.advice[1].remedy


def test_non_blocking_from_pageable_memory(made: MadeTrace, folder: Path) -> None:
    """No synchronize follows it, and it stands still all the same. The second one blocks."""
    made.kernel((0, 5), (10, 110))
    made.op("aten::to", (18, 200))
    made.copy((20, 180), (115, 190), H2D_PAGEABLE, 1 << 20)
    made.kernel((210, 215), (220, 300))
    made.op("aten::to", (216, 400))
    made.copy((220, 380), (315, 390), H2D_PAGEABLE, 1 << 20)
    made.sync((385, 395))
    found = report(made, folder)
    (unpinned,) = found.pageable_non_blocking
    assert (unpinned.call, unpinned.count, unpinned.nbytes) == ("aten::to", 1, 1 << 20)
    assert unpinned.seconds == pytest.approx(160e-6)
    (blocking,) = found.syncs
    assert (blocking.count, blocking.nbytes) == (1, 0)
    assert blocking.seconds == pytest.approx(175e-6)


def test_a_synchronize_behind_a_copy_is_another_wait(made: MadeTrace, folder: Path) -> None:
    """Of the device, and of the stream in a line of its own; and the same within one operation."""
    made.kernel((0, 5), (10, 110))
    for at, sync in (
        (100, "cudaDeviceSynchronize"),
        (200, "cudaStreamSynchronize"),
        (300, "cudaEventSynchronize"),
    ):
        made.op("aten::to", (at, at + 20))
        made.copy((at + 2, at + 18), (at + 12, at + 17), H2D_PAGEABLE, 4096)
        made.sync((at + 22, at + 30), sync)
    made.kernel((400, 405), (410, 420))
    found = report(made, folder)
    (unpinned,) = found.pageable_non_blocking
    assert (unpinned.call, unpinned.count, unpinned.nbytes) == ("aten::to", 3, 3 * 4096)
    assert {(line.call, line.count) for line in found.syncs} == {
        ("cudaDeviceSynchronize", 1),
        ("cudaStreamSynchronize", 1),
        ("cudaEventSynchronize", 1),
    }
    made.op("aten::to", (99, 390))
    found = report(made, folder)
    assert [line.count for line in found.pageable_non_blocking] == [2]
    assert sum(line.count for line in found.syncs) == 3


def test_a_copy_whose_call_blocks_is_not_non_blocking(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.copy((20, 180), (115, 175), H2D_PAGEABLE, 1 << 20)
    made.events[-1]["name"] = "cudaMemcpy"
    found = report(made, folder)
    assert found.pageable_non_blocking == ()
    assert [(line.call, line.count) for line in found.syncs] == [("cudaMemcpy", 1)]


def test_waits_of_a_thread_that_launches_nothing_do_not_count(
    made: MadeTrace, folder: Path
) -> None:
    made.kernel((0, 5), (10, 110))
    made.event("cuda_runtime", "cudaStreamSynchronize", (20, 115), tid=2)
    made.kernel((170, 175), (180, 300))
    assert idle_us(made, folder) == {HOST_LATE: 60, LAUNCH_BOUND: 5, QUEUED: 5}
    assert report(made, folder).syncs == ()


def test_the_wait_at_the_end_is_the_profilers(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.sync((20, 115), "cudaDeviceSynchronize")
    assert report(made, folder).syncs == ()


def test_only_the_last_wait_is_the_profilers(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.sync((20, 115), "cudaDeviceSynchronize")
    made.sync((200, 205), "cudaDeviceSynchronize")
    (line,) = report(made, folder).syncs
    assert line.count == 1
    assert line.seconds == pytest.approx(95e-6)


def test_a_wait_at_the_end_of_the_last_step_is_not_the_profilers(
    made: MadeTrace, folder: Path
) -> None:
    for at in range(0, 1000, 100):
        made.note(f"ProfilerStep#{at}", (at, at + 99))
        made.kernel((at, at + 5), (at + 10, at + 50))
        made.sync((at + 20, at + 55), "cudaDeviceSynchronize")
    (line,) = report(made, folder).syncs
    assert line.count == 10


@pytest.mark.parametrize(
    "call",
    [
        "cuStreamSynchronize",
        "cuCtxSynchronize",
        "cuMemcpyDtoH_v2",
        "cuMemcpy2D_v2",
        "hipMemcpyDtoH",
        "hipMemcpyWithStream",
        "cudaMemcpyFromSymbol",
    ],
)
def test_other_calls_that_wait(call: str, made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.sync((20, 115), call)
    made.kernel((170, 175), (180, 300))
    assert idle_us(made, folder) == {SYNCHRONIZATION: 65, QUEUED: 5}
    (line,) = report(made, folder).syncs
    assert (line.call, line.count) == (call, 1)


@pytest.mark.parametrize("call", ["cuMemcpyDtoHAsync_v2", "cuMemcpyDtoD_v2", "cudaFreeAsync"])
def test_calls_that_do_not_wait(call: str, made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.sync((20, 115), call)
    made.kernel((170, 175), (180, 300))
    assert report(made, folder).syncs == ()


def test_a_call_of_the_driver_inside_one_of_the_runtime(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.sync((20, 115), "cudaMemcpy")
    made.event("cuda_driver", "cuMemcpyDtoH_v2", (22, 114), args={"correlation": 99})
    made.kernel((170, 175), (180, 300))
    (line,) = report(made, folder).syncs
    assert (line.call, line.count) == ("cudaMemcpy", 1)


def test_memory_that_is_freed_while_the_device_works(made: MadeTrace, folder: Path) -> None:
    """Until the device is done it is a wait, and then the host's own time."""
    made.kernel((0, 5), (10, 710))
    made.op("aten::empty", (8, 790))
    made.sync((10, 780), "cudaFree")
    made.kernel((900, 905), (910, 1000))
    assert idle_us(made, folder) == {SYNCHRONIZATION: 195, QUEUED: 5}
    found = report(made, folder)
    (line,) = found.syncs
    assert (line.call, line.count) == ("cudaFree", 1)
    assert line.seconds == pytest.approx(700e-6)
    assert "no empty_cache()" in found.advice[0].remedy


def test_memory_that_is_freed_on_an_idle_device(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.sync((150, 800), "cudaFree")
    made.kernel((900, 905), (910, 1000))
    found = report(made, folder)
    assert found.syncs == ()
    assert found.host_late_in_allocation_s == pytest.approx(650e-6)


def test_memory_that_is_freed_and_the_device_works_on(made: MadeTrace, folder: Path) -> None:
    """Two kernels with a gap in between: the call cannot have waited for the first."""
    made.kernel((0, 5), (10, 60))
    made.kernel((6, 9), (62, 300))
    made.sync((20, 80), "cudaFree")
    assert report(made, folder).syncs == ()


def test_a_loop_that_asks_whether_an_event_is_done(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    for at in range(20, 120, 4):
        made.sync((at, at + 3), "cudaEventQuery")
        made.sync((at + 3, at + 4), "cudaGetLastError")
    made.kernel((170, 175), (180, 300))
    assert idle_us(made, folder) == {SYNCHRONIZATION: 65, QUEUED: 5}
    (line,) = report(made, folder).syncs
    assert (line.call, line.count) == ("cudaEventQuery", 1)
    assert line.seconds == pytest.approx(99e-6)


def test_queries_of_the_allocator_are_no_loop_that_waits(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.op("aten::empty", (15, 125))
    for at in range(20, 120, 4):
        made.sync((at, at + 3), "cudaEventQuery")
    made.kernel((170, 175), (180, 300))
    for at in range(310, 400, 10):
        made.sync((at, at + 3), "cudaEventQuery")
        made.kernel((at + 4, at + 6), (at + 7, at + 9))
    assert report(made, folder).syncs == ()


def test_backward_in_its_own_thread(made: MadeTrace, folder: Path) -> None:
    """The main thread's wait is to blame for a launch of autograd's thread."""
    made.kernel((0, 5), (10, 110))
    made.sync((20, 115))
    made.kernel((170, 175), (180, 300))
    made.events[-1]["tid"] = 2
    assert idle_us(made, folder) == {SYNCHRONIZATION: 65, QUEUED: 5}


def test_devices_and_ranks(folder: Path) -> None:
    paths = []
    for rank in (0, 1):
        made = MadeTrace(rank)
        made.kernel((0, 5), (10, 110), device=2 * rank)
        made.kernel((500, 505), (510, 610), device=2 * rank)
        made.kernel((0, 5), (10, 210), device=2 * rank + 1)
        made.note("ProfilerStep#7", (0, 300))
        made.note("ProfilerStep#8", (300, 600))
        paths.append(made.write(folder / f"rank{rank}.json"))
    found = idle_report(paths)
    assert [(each.rank, each.device, each.file) for each in found.devices] == [
        (0, 0, "rank0.json"),
        (0, 1, "rank0.json"),
        (1, 2, "rank1.json"),
        (1, 3, "rank1.json"),
    ]
    assert [each.idle_fraction for each in found.devices] == pytest.approx([2 / 3, 0, 2 / 3, 0])
    assert found.num_steps == 8
    late = next(each for each in found.causes if each.cause == HOST_LATE)
    assert late.ms_per_step == pytest.approx(2 * 0.39 / 8)
    assert late.share == pytest.approx(780 / 1600)


def test_a_late_host_is_asked_what_it_did(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.note("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", (50, 310))
    made.event("cuda_runtime", "cudaMalloc", (320, 420), args={"correlation": 99})
    made.kernel((500, 505), (510, 610))
    found = report(made, folder)
    assert found.host_late_in_loader_s == pytest.approx(200e-6)
    assert found.host_late_in_allocation_s == pytest.approx(100e-6)
    late = [each for each in found.advice if each.what.startswith("host late")]
    assert [round(each.seconds * 1e6) for each in late] == [200, 100, 90]
    assert "DataLoader" in found.advice[0].what


def test_collectives_that_nothing_hides(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.kernel((1, 2), (50, 160), "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
    assert report(made, folder).collectives_alone_s == pytest.approx(50e-6)


def test_old_names_of_categories(made: MadeTrace, folder: Path) -> None:
    made.kernel((0, 5), (10, 110))
    made.copy((6, 9), (110, 150), H2D)
    made.sync((200, 210))
    made.kernel((220, 225), (230, 300))
    old = {"kernel": "Kernel", "gpu_memcpy": "Memcpy", "cuda_runtime": "Runtime"}
    before = report(made, folder)
    for event in made.events:
        event |= {"cat": old[event["cat"]], "pid": "1", "tid": "stream 7"}
    assert report(made, folder) == before


def test_no_work_of_a_device(made: MadeTrace, folder: Path) -> None:
    made.op("aten::mm", (0, 10))
    found = report(made, folder)
    assert (found.devices, found.num_steps, found.num_host_operations) == ((), 0, 1)


def test_what_is_no_number_is_left_out(made: MadeTrace, folder: Path) -> None:
    """Some writers leave fields out, or write text."""
    made.kernel((0, 5), (10, 110))
    made.kernel((500, 505), (510, 610))
    before = report(made, folder)
    made.event("kernel", "k", (0, 5), ts=None)
    made.event("kernel", "k", (0, 5), ts="soon")
    made.event("cuda_runtime", "cudaLaunchKernel", (0, 5), args=None)
    made.event("cuda_runtime", "cudaLaunchKernel", (0, 5), args={"correlation": "x"})
    found = report(made, folder)
    assert "3 events left out" in found.warnings[0]
    assert replace(found, warnings=()) == before
