"""Each second of idleness has one cause: traces made by hand, in which the answer is known."""

from collections.abc import Callable
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from hostbench.idle.causes import (
    COPY_NOT_HIDDEN,
    HOST_LATE,
    LAUNCH_BOUND,
    OTHER,
    QUEUED,
    SLOW_LAUNCH,
    SYNCHRONIZATION,
)
from tests.made_trace import D2H_PAGEABLE, H2D, H2D_PAGEABLE, MadeTrace, answer

Add = Callable[[MadeTrace], Any]
kernel, copy, sync, op, note, event = (
    partial(methodcaller, name) for name in ("kernel", "copy", "sync", "op", "note", "event")
)
FIRST = kernel((0, 5), (10, 110))
LAST = kernel((170, 175), (180, 300))


def made(*events: Add) -> MadeTrace:
    trace = MadeTrace()
    for add in events:
        add(trace)
    return trace


def report(trace: MadeTrace, folder: Path) -> Any:
    return answer(trace.write(folder / "trace.json"))[0]


def idle_us(found: Any) -> dict[str, float]:
    """By cause, those that have any; they add up to the idle time."""
    idle_s = sum(each.span_s - each.busy_s for each in found.devices)
    assert sum(each.seconds for each in found.causes if each.is_idle) == pytest.approx(idle_s)
    assert {each.cause for each in found.causes if not each.is_idle} == {COPY_NOT_HIDDEN}
    return {
        each.cause: round(each.seconds * 1e6, 3) for each in found.causes if each.seconds > 1e-9
    }


IDLE: dict[str, tuple[list[Add], dict[str, float]]] = {
    "a launch that comes late": (
        [FIRST, kernel((500, 505), (510, 610))], {HOST_LATE: 390, LAUNCH_BOUND: 5, QUEUED: 5},
    ),
    "launches back to back: kernels of 2 us each 10 us, 2 us after the call": (
        [kernel((at, at + 5), (at + 7, at + 9)) for at in range(0, 100, 10)],
        {LAUNCH_BOUND: 9 * 6, QUEUED: 9 * 2},
    ),
    "a launch under way when the device went idle": (
        [FIRST, kernel((108, 115), (118, 200))],
        {LAUNCH_BOUND: 5, QUEUED: 3},
    ),
    "a long launch under way when the device went idle": (
        [FIRST, kernel((60, 160), (165, 200))],
        {SLOW_LAUNCH: 50, QUEUED: 5},
    ),
    "what lies behind the launch is not the host's": (
        [FIRST, kernel((120, 125), (60_125, 60_200))],
        {HOST_LATE: 10, LAUNCH_BOUND: 5, QUEUED: 60_000},
    ),
    "a launch call that takes long: the driver loads a kernel's code": (
        [FIRST, kernel((220, 60_220), (60_225, 60_300))],
        {HOST_LATE: 110, SLOW_LAUNCH: 60_000, QUEUED: 5},
    ),
    "the call of a copy lasts until the copy is done: up to its begin it is a launch": (
        [FIRST, copy((115, 315), (125, 310), D2H_PAGEABLE)],
        {HOST_LATE: 5, LAUNCH_BOUND: 10, COPY_NOT_HIDDEN: 185},
    ),
    "a clock that shows a kernel before its launch": (
        [FIRST, kernel((502, 507), (500, 610))],
        {HOST_LATE: 390},
    ),
    "work that was queued": ([FIRST, kernel((6, 11), (113, 200))], {QUEUED: 3}),
    "launches that the trace lacks": (
        [kernel(None, (10, 110)), kernel(None, (150, 200))], {OTHER: 40},
    ),
    "a launch that the trace lacks": ([FIRST, kernel(None, (150, 200))], {OTHER: 40}),
    "a wait takes no more blame than it lasted": (
        [FIRST, sync((85, 115)), kernel((600, 605), (610, 700))],
        {HOST_LATE: 460, SYNCHRONIZATION: 30, LAUNCH_BOUND: 5, QUEUED: 5},
    ),
    "a wait is to blame until the host is ahead again: 50 us, of gaps of 8 us": (
        [
            *(FIRST, sync((62, 112))),
            *(kernel((at, at + 3), (at + 3, at + 5)) for at in range(115, 215, 10)),
        ],
        {LAUNCH_BOUND: 30, SYNCHRONIZATION: 50},
    ),
    "a copy inside the device is its work": (
        [FIRST, copy((6, 9), (110, 150), "Memcpy DtoD (Device -> Device)"),
         kernel((9, 11), (150, 200))],
        {},
    ),
    "a wait of a thread that launches nothing": (
        [FIRST, event("cuda_runtime", "cudaStreamSynchronize", (20, 115), tid=2), LAST],
        {HOST_LATE: 60, LAUNCH_BOUND: 5, QUEUED: 5},
    ),
    "the main thread's wait is to blame for a launch of autograd's": (
        [FIRST, sync((20, 115)), LAST, lambda trace: trace.events[-1].update(tid=2)],
        {SYNCHRONIZATION: 65, QUEUED: 5},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "wanted"), IDLE.values(), ids=IDLE)
def test_what_the_device_waited_for(
    events: list[Add], wanted: dict[str, float], tmp_path: Path
) -> None:
    assert idle_us(report(made(*events), tmp_path)) == wanted


@pytest.mark.parametrize(
    ("events", "what", "remedy", "seconds"),
    [
        (IDLE["launches back to back: kernels of 2 us each 10 us, 2 us after the call"][0],
         "median kernel 2 us, 100% under 5 us", "CUDA graph", 54e-6),
        ([FIRST, kernel((120, 125), (60_125, 60_200))],
         "queued longer than 50 us", "event", 60e-3),
        ([FIRST, kernel((220, 60_220), (60_225, 60_300))], "slow launch", "", 60e-3),
        ([kernel(None, (10, 110)), kernel(None, (150, 200))],
         "lacks the launch of some work", "ProfilerActivity", 40e-6),
        ([kernel((0, 5), (10, 710)), sync((10, 780), "cudaFree"),
          op("aten::empty", (8, 790)), kernel((900, 905), (910, 1000))],
         "", "no empty_cache()", None),
    ],
)  # fmt: skip
def test_the_worst_comes_first_with_its_remedy(
    events: list[Add], what: str, remedy: str, seconds: float | None, tmp_path: Path
) -> None:
    worst = report(made(*events), tmp_path).advice[0]
    assert what in worst.what and remedy in worst.remedy
    assert seconds is None or worst.seconds == pytest.approx(seconds)


WAITS: dict[str, tuple[list[Add], list[tuple[str, int, float]]]] = {
    "the host stood still for 95 us": (
        [FIRST, sync((20, 115)), LAST], [("cudaStreamSynchronize", 1, 95)],
    ),
    "the last wait of all is the profiler's": (
        [FIRST, sync((20, 115), "cudaDeviceSynchronize")], [],
    ),
    "and it alone": (
        [FIRST, sync((20, 115), "cudaDeviceSynchronize"),
         sync((200, 205), "cudaDeviceSynchronize")],
        [("cudaDeviceSynchronize", 1, 95)],
    ),
    "the wait of the last step is not": (
        [add for at in range(0, 1000, 100) for add in (
            note(f"ProfilerStep#{at}", (at, at + 99)), kernel((at, at + 5), (at + 10, at + 50)),
            sync((at + 20, at + 55), "cudaDeviceSynchronize"))],
        [("cudaDeviceSynchronize", 10, 350)],
    ),
    "a thread that launches nothing": (
        [FIRST, event("cuda_runtime", "cudaStreamSynchronize", (20, 115), tid=2), LAST], [],
    ),
    "a call of the driver inside one of the runtime": (
        [FIRST, sync((20, 115), "cudaMemcpy"),
         event("cuda_driver", "cuMemcpyDtoH_v2", (22, 114), args={"correlation": 99}), LAST],
        [("cudaMemcpy", 1, 95)],
    ),
    "memory that is freed while the device works: until that is done": (
        [kernel((0, 5), (10, 710)), op("aten::empty", (8, 790)), sync((10, 780), "cudaFree"),
         kernel((900, 905), (910, 1000))],
        [("cudaFree", 1, 700)],
    ),
    "memory that is freed on an idle device": (
        [FIRST, sync((150, 800), "cudaFree"), kernel((900, 905), (910, 1000))], [],
    ),
    "memory that is freed, and the device works on: it cannot have waited for the first": (
        [kernel((0, 5), (10, 60)), kernel((6, 9), (62, 300)), sync((20, 80), "cudaFree")], [],
    ),
    "queries are none": (
        [FIRST, *(sync((at, at + 3), "cudaEventQuery") for at in range(20, 120, 4)), LAST], [],
    ),
    **{call: ([FIRST, sync((20, 115), call), LAST], [(call, 1, 95)]) for call in (
        "cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoH_v2", "cuMemcpy2D_v2",
        "hipMemcpyDtoH", "hipMemcpyWithStream", "cudaMemcpyFromSymbol")},
    **{call: ([FIRST, sync((20, 115), call), LAST], []) for call in (
        "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoD_v2", "cudaFreeAsync")},
}  # fmt: skip


@pytest.mark.parametrize(("events", "wanted"), WAITS.values(), ids=WAITS)
def test_what_is_a_wait(
    events: list[Add], wanted: list[tuple[str, int, float]], tmp_path: Path
) -> None:
    """A wait on an idle device is to blame for no more than what it cost."""
    found = report(made(*events), tmp_path)
    assert [(line.call, line.count) for line in found.waits] == [row[:2] for row in wanted]
    assert [line.seconds * 1e6 for line in found.waits] == pytest.approx([row[2] for row in wanted])
    assert {line.file for line in found.waits} <= {None}
    if LAST in events and wanted:
        assert idle_us(found) == {SYNCHRONIZATION: 65, QUEUED: 5}
        assert found.waits[0].idle_s == pytest.approx(65e-6)


def test_memory_that_is_freed_is_a_wait_and_then_the_hosts_own_time(tmp_path: Path) -> None:
    events = WAITS["memory that is freed while the device works: until that is done"][0]
    assert idle_us(report(made(*events), tmp_path)) == {SYNCHRONIZATION: 195, QUEUED: 5}
    events = WAITS["memory that is freed on an idle device"][0]
    worst = report(made(*events), tmp_path).advice[0]
    assert "allocating memory" in worst.what
    assert worst.seconds == pytest.approx(650e-6)


def test_a_wait_long_ago_is_not_to_blame(tmp_path: Path) -> None:
    """No host is more than 1,024 launches ahead, whatever it lost before."""
    trace = made(kernel((0, 5), (10, 1_000_010)), sync((20, 1_000_020)))
    start = 1_000_021
    for number in range(2000):
        trace.kernel((start, start + 1), (start + 1, start + 2))
        start += 10 if number >= 1500 else 1
    found = idle_us(report(trace, tmp_path))
    assert (found[LAUNCH_BOUND], found[SYNCHRONIZATION]) == (499 * 9, 12)


def test_the_wait_for_a_value_is_one_wait(tmp_path: Path) -> None:
    """`.item()`: a copy into pageable memory, in which the host stands still, and a synchronize."""
    found = report(
        made(
            FIRST,
            op("aten::item", (18, 125)),
            op("aten::_local_scalar_dense", (19, 124)),
            copy((20, 116), (111, 113), D2H_PAGEABLE),
            sync((117, 119)),
            kernel((140, 145), (150, 300)),
        ),
        tmp_path,
    )
    assert idle_us(found) == {SYNCHRONIZATION: 32, QUEUED: 6, COPY_NOT_HIDDEN: 2}
    (line,) = found.waits
    assert (line.call, line.count) == ("aten::item", 1)
    assert line.seconds == pytest.approx(99e-6)
    assert "unknown line: .item() waits for the device, 1 time" in {
        each.what for each in found.advice
    }


def test_a_copy_that_nothing_hides(tmp_path: Path) -> None:
    trace = made(FIRST, copy((6, 9), (100, 150), H2D, 1000), kernel((9, 11), (150, 200)))
    found = report(trace, tmp_path)
    assert idle_us(found) == {COPY_NOT_HIDDEN: 40}
    (way,) = found.copies
    assert (way.way, way.count, way.nbytes) == ("H2D pinned", 1, 1000)
    assert (way.seconds, way.not_hidden_s) == pytest.approx((50e-6, 40e-6))


def test_copies_of_rocm(tmp_path: Path) -> None:
    """Named otherwise, without a size and the kind of memory."""
    trace = made(kernel((0, 5), (10, 110), call="hipLaunchKernel"))
    for way, ran in (
        ("CopyDeviceToDevice", (110, 150)),
        ("CopyHostToDevice", (150, 170)),
        ("Memcpy HtoD (Host -> Device)", (170, 180)),
        ("CopyDeviceToHost", (180, 190)),
    ):
        trace.copy((6, 9), ran, way)
        del trace.events[-2]["args"]["bytes"]
    found = report(trace, tmp_path)
    assert idle_us(found) == {COPY_NOT_HIDDEN: 40}
    copies = [(way.way, way.count, way.nbytes) for way in found.copies]
    assert copies == [("H2D", 2, 0), ("D2H", 1, 0)]
    assert found.advice[0].what == "copies not hidden: H2D, 2 of unknown size"
    assert "side stream" in found.advice[1].remedy


def test_non_blocking_from_pageable_memory(tmp_path: Path) -> None:
    """No synchronize follows it, and it stands still all the same. The second one blocks, and so
    does the third, by its call."""
    trace = made(
        FIRST,
        op("aten::to", (18, 200)),
        copy((20, 180), (115, 190), H2D_PAGEABLE, 1 << 20),
        kernel((210, 215), (220, 300)),
        op("aten::to", (216, 400)),
        copy((220, 380), (315, 390), H2D_PAGEABLE, 1 << 20),
        sync((385, 395)),
        copy((420, 520), (425, 515), H2D_PAGEABLE, 1 << 20),
    )
    trace.events[-1]["name"] = "cudaMemcpy"
    found = report(trace, tmp_path)
    waits = {(line.call, line.nbytes): line for line in found.waits}
    assert {key: line.count for key, line in waits.items()} == {
        ("aten::to", 1 << 20): 1,
        ("aten::to", 0): 1,
        ("cudaMemcpy", 0): 1,
    }
    assert waits["aten::to", 1 << 20].seconds == pytest.approx(160e-6)
    assert waits["aten::to", 0].seconds == pytest.approx(175e-6)


def test_a_synchronize_behind_a_copy_is_another_wait(tmp_path: Path) -> None:
    """Of the device, and of the stream in a line of its own; and the same within one operation."""
    trace = made(FIRST)
    calls = ("cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize")
    for at, call in zip((100, 200, 300), calls, strict=True):
        trace.op("aten::to", (at, at + 20))
        trace.copy((at + 2, at + 18), (at + 12, at + 17), H2D_PAGEABLE, 4096)
        trace.sync((at + 22, at + 30), call)
    trace.kernel((400, 405), (410, 420))
    found = report(trace, tmp_path)
    assert {(line.call, line.count, line.nbytes) for line in found.waits} == {
        ("aten::to", 3, 3 * 4096),
        *((call, 1, 0) for call in calls),
    }
    trace.op("aten::to", (99, 390))
    found = report(trace, tmp_path)
    assert sorted((line.count, line.nbytes) for line in found.waits) == [(2, 2 * 4096), (3, 0)]


def test_devices_and_ranks(tmp_path: Path) -> None:
    paths = []
    for rank in (0, 1):
        trace = MadeTrace(rank)
        trace.kernel((0, 5), (10, 110), device=2 * rank)
        trace.kernel((500, 505), (510, 610), device=2 * rank)
        trace.kernel((0, 5), (10, 210), device=2 * rank + 1)
        trace.note("ProfilerStep#7", (0, 300))
        trace.note("ProfilerStep#8", (300, 600))
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    found, page = answer(*paths)
    assert page.startswith("4 GPUs: idle 50.0% of their time.")
    assert [(each.rank, each.device, each.file) for each in found.devices] == [
        (rank, 2 * rank + number, f"rank{rank}.json") for rank in (0, 1) for number in (0, 1)
    ]
    assert [each.idle_fraction for each in found.devices] == pytest.approx([2 / 3, 0, 2 / 3, 0])
    assert (found.devices[0].span_s, found.devices[0].busy_s) == pytest.approx((600e-6, 200e-6))
    assert found.num_steps == 8
    late = next(each for each in found.causes if each.cause == HOST_LATE)
    assert (late.ms_per_step, late.share) == pytest.approx((2 * 0.39 / 8, 780 / 1600))


LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def test_a_late_host_is_asked_what_it_did(tmp_path: Path) -> None:
    trace = made(FIRST, note(LOADER, (50, 310)), kernel((500, 505), (510, 610)))
    trace.event("cuda_runtime", "cudaMalloc", (320, 420), args={"correlation": 99})
    found = report(trace, tmp_path)
    late = [each for each in found.advice if each.what.startswith("host late")]
    assert [round(each.seconds * 1e6) for each in late] == [200, 100, 90]
    assert "DataLoader" in late[0].what and "allocating" in late[1].what
    behind = made(FIRST, kernel((500, 505), (900, 1000)), note(LOADER, (400, 800)))
    costs = {each.what: each.seconds for each in report(behind, tmp_path).advice}
    loader_s = costs["host late: waiting for the DataLoader"]
    assert loader_s == pytest.approx(100e-6), "not what lies behind the launch"


def test_collectives_that_nothing_hides(tmp_path: Path) -> None:
    """They compute nothing, so that a copy beside them is not hidden either."""
    trace = made(FIRST, copy((6, 9), (120, 150), H2D))
    trace.kernel((1, 2), (50, 160), "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
    found = report(trace, tmp_path)
    assert idle_us(found) == {COPY_NOT_HIDDEN: 30}
    costs = {each.what: each.seconds for each in found.advice}
    assert costs["collectives not hidden"] == pytest.approx(50e-6)


ODD: dict[str, tuple[dict[str, Any], int]] = {
    "a time beyond all": ({"ts": 1e300}, 1),
    "no time": ({"ts": None}, 1),
    "the first of two halves": ({"ph": "B"}, 1),
    "no arguments": ({"args": None}, 0),
}


@pytest.mark.parametrize(("odd", "num_left_out"), ODD.values(), ids=ODD)
def test_an_odd_event_is_read_or_counted(
    odd: dict[str, Any], num_left_out: int, tmp_path: Path
) -> None:
    """Some writers leave fields out, or write text."""
    trace = made(FIRST, LAST, event("kernel", "odd", (55, 56)))
    trace.events[-1] |= odd
    found, page = answer(trace.write(tmp_path / "trace.json"))
    assert idle_us(found) == idle_us(report(made(FIRST, LAST), tmp_path))
    assert len(found.warnings) == num_left_out
    assert page.startswith("trace.json: 1 event left out") == bool(num_left_out)
