"""What is said of traces made by hand, in which the answer is known: each second of idleness has
one cause, each wait its line."""

from collections.abc import Callable, Iterator
from functools import partial
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest

from hostbench.idle.causes import COPY_NOT_HIDDEN
from tests import golden
from tests.made_trace import D2H_PAGEABLE, H2D, H2D_PAGEABLE, MadeTrace, answer

Add = Callable[[MadeTrace], Any]
kernel, copy, sync, op, note, event = (
    partial(methodcaller, name) for name in ("kernel", "copy", "sync", "op", "note", "event")
)
FIRST = kernel((0, 5), (10, 110))
LAST = kernel((170, 175), (180, 300))
LATE = kernel((500, 505), (510, 610))
WAIT = sync((20, 115), "cudaDeviceSynchronize")
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


def made(*events: Add) -> MadeTrace:
    trace = MadeTrace()
    for add in events:
        add(trace)
    return trace


def changed(**fields: Any) -> Add:
    """The last event so far."""
    return lambda trace: trace.events[-1].update(fields)


def steps(num: int, launched_s: int, every: int = 1000) -> list[Add]:
    """So many, with a kernel in each that is done after so long."""
    return [
        add
        for at in range(0, num * every, every)
        for add in (
            note(f"ProfilerStep#{at // every}", (at, at + every)),
            kernel((at, at + 5), (at + 10, at + launched_s)),
        )
    ]


IDLE: dict[str, list[Add]] = {
    "a launch that comes late": [FIRST, LATE],
    "launches back to back: kernels of 2 us each 10 us, 2 us after the call": [
        kernel((at, at + 5), (at + 7, at + 9)) for at in range(0, 100, 10)
    ],
    "a launch under way when the device went idle": [FIRST, kernel((108, 115), (118, 200))],
    "a long launch under way when the device went idle": [FIRST, kernel((60, 160), (165, 200))],
    "what lies behind the launch is not the host's": [FIRST, kernel((120, 125), (60_125, 60_200))],
    "a launch call that takes long: the driver loads a kernel's code": [
        FIRST, kernel((220, 60_220), (60_225, 60_300)),
    ],
    "the call of a copy lasts until the copy is done: up to its begin it is a launch": [
        FIRST, copy((115, 315), (125, 310), D2H_PAGEABLE),
    ],
    "a clock that shows a kernel before its launch": [FIRST, kernel((502, 507), (500, 610))],
    "work that was queued": [FIRST, kernel((6, 11), (113, 200))],
    "launches that the trace lacks": [kernel(None, (10, 110)), kernel(None, (150, 200))],
    "a launch that the trace lacks": [FIRST, kernel(None, (150, 200))],
    "a wait takes no more blame than it lasted": [
        FIRST, sync((85, 115)), kernel((600, 605), (610, 700)),
    ],
    "a wait is to blame until the host is ahead again: 50 us, of gaps of 8 us": [
        *(FIRST, sync((62, 112))),
        *(kernel((at, at + 3), (at + 3, at + 5)) for at in range(115, 215, 10)),
    ],
    "a wait long ago is not: no host is more than 1,024 launches ahead, whatever it lost before": [
        *(kernel((0, 5), (10, 1_000_010)), sync((20, 1_000_020))),
        *(kernel((at, at + 1), (at + 1, at + 2)) for at in range(1_000_021, 1_001_521)),
        *(kernel((at, at + 1), (at + 1, at + 2)) for at in range(1_001_521, 1_006_521, 10)),
    ],
    "a copy inside the device is its work": [
        *(FIRST, copy((6, 9), (110, 150), "Memcpy DtoD (Device -> Device)")),
        kernel((9, 11), (150, 200)),
    ],
    "the main thread's wait is to blame for a launch of autograd's": [
        FIRST, sync((20, 115)), LAST, changed(tid=2),
    ],
    "a copy that nothing hides": [
        FIRST, copy((6, 9), (100, 150), H2D, 1000), kernel((9, 11), (150, 200)),
    ],
    "collectives compute nothing, so that a copy beside them is not hidden either": [
        *(FIRST, copy((6, 9), (120, 150), H2D)),
        kernel((1, 2), (50, 160), "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20),
    ],
    "a late host waited for its data, and allocated": [
        *(FIRST, note(LOADER, (50, 310)), LATE),
        event("cuda_runtime", "cudaMalloc", (320, 420), args={"correlation": 99}),
    ],
    "what lies behind the launch is no wait for data": [
        FIRST, kernel((500, 505), (900, 1000)), note(LOADER, (400, 800)),
    ],
}  # fmt: skip
CALLS = (
    "cudaStreamSynchronize", "cuStreamSynchronize", "cuCtxSynchronize", "cuMemcpyDtoH_v2",
    "cuMemcpy2D_v2", "hipMemcpyDtoH", "hipMemcpyWithStream", "cudaMemcpyFromSymbol",
    "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoD_v2", "cudaFreeAsync",
)  # fmt: skip
WAITS: dict[str, list[Add]] = {
    "the last wait of all is the profiler's": [FIRST, WAIT],
    "and it alone": [FIRST, WAIT, sync((200, 205), "cudaDeviceSynchronize")],
    "the wait of the last step is not": [
        add for at in range(0, 1000, 100) for add in (
            note(f"ProfilerStep#{at}", (at, at + 99)), kernel((at, at + 5), (at + 10, at + 50)),
            sync((at + 20, at + 55), "cudaDeviceSynchronize"))
    ],
    "a wait of a thread that launches nothing": [
        FIRST, event("cuda_runtime", "cudaStreamSynchronize", (20, 115), tid=2), LAST,
    ],
    "a call of the driver inside one of the runtime": [
        *(FIRST, sync((20, 115), "cudaMemcpy")),
        event("cuda_driver", "cuMemcpyDtoH_v2", (22, 114), args={"correlation": 99}), LAST,
    ],
    "memory that is freed while the device works: until that is done": [
        *(kernel((0, 5), (10, 710)), op("aten::empty", (8, 790)), sync((10, 780), "cudaFree")),
        kernel((900, 905), (910, 1000)),
    ],
    "memory that is freed on an idle device": [
        FIRST, sync((150, 800), "cudaFree"), kernel((900, 905), (910, 1000)),
    ],
    "memory that is freed, and the device works on: it cannot have waited for the first": [
        kernel((0, 5), (10, 60)), kernel((6, 9), (62, 300)), sync((20, 80), "cudaFree"),
    ],
    "queries are none": [
        FIRST, *(sync((at, at + 3), "cudaEventQuery") for at in range(20, 120, 4)), LAST,
    ],
    "each call that waits, and three that do not": [
        add for at, call in zip(range(0, 11_000, 1000), CALLS, strict=True) for add in (
            kernel((at, at + 5), (at + 10, at + 110)), sync((at + 20, at + 120 - at // 1000), call),
            kernel((at + 170, at + 175), (at + 180, at + 300)))
    ],
    ".item(): a copy into pageable memory, in which the host stands still, and a synchronize": [
        *(FIRST, op("aten::item", (18, 125)), op("aten::_local_scalar_dense", (19, 124))),
        *(copy((20, 116), (111, 113), D2H_PAGEABLE), sync((117, 119))),
        kernel((140, 145), (150, 300)),
    ],
    "non_blocking from pageable memory waits; the second one blocks, and the third by its call": [
        *(FIRST, op("aten::to", (18, 200)), copy((20, 180), (115, 190), H2D_PAGEABLE, 1 << 20)),
        *(kernel((210, 215), (220, 300)), op("aten::to", (216, 400))),
        *(copy((220, 380), (315, 390), H2D_PAGEABLE, 1 << 20), sync((385, 395))),
        copy((420, 520), (425, 515), H2D_PAGEABLE, 1 << 20),
        changed(name="cudaMemcpy"),
    ],
}  # fmt: skip
ITEMS = [
    add
    for at in range(2000, 7000, 100)
    for add in (
        kernel((at, at + 5), (at + 10, at + 50)),
        op("aten::item", (at + 20, at + 60)),
        sync((at + 25, at + 55)),
    )
]
STEPS: dict[str, list[Add]] = {
    "a wait for four devices is one wait of a step": [
        add for at in range(0, 10_000, 1000) for add in (
            note(f"ProfilerStep#{at // 1000}", (at, at + 1000)),
            *(kernel((at + n, at + n + 5), (at + n + 8, at + 500), device=n // 10)
              for n in range(0, 40, 10)),
            sync((at + 50, at + 520), "cudaDeviceSynchronize"))
    ],
    "waits outside the steps": [*steps(2, 900), *ITEMS],
    "waits outside the steps, and one inside": [
        *steps(2, 900), *ITEMS, op("aten::item", (910, 960)), sync((915, 955)),
    ],
    "work outside the steps does not make them longer": [
        *steps(5, 900), kernel((20_000, 20_005), (20_010, 25_010)),
    ],
    "a host far ahead of its device: what a step launched is its own, whenever it is done": [
        add for n in range(5) for add in (
            note(f"ProfilerStep#{n}", (n * 100, n * 100 + 100)),
            kernel((n * 100, n * 100 + 5), (10 + n * 5000, 5010 + n * 5000)))
    ],
    "a step on two threads is one": [
        *steps(1, 900), event("user_annotation", "ProfilerStep#0", (100, 1100), tid=2),
    ],
}  # fmt: skip


ODD: dict[str, dict[str, Any]] = {
    "a time beyond all": {"ts": 1e300},
    "no time": {"ts": None},
    "the first of two halves": {"ph": "B"},
    "no arguments": {"args": None},
}
SYNCHRONIZED = [
    add
    for at, call in ((100, "Device"), (200, "Stream"), (300, "Event"))
    for add in (
        op("aten::to", (at, at + 20)),
        copy((at + 2, at + 18), (at + 12, at + 17), H2D_PAGEABLE, 4096),
        sync((at + 22, at + 30), f"cuda{call}Synchronize"),
    )
]
ROCM = (
    ("CopyDeviceToDevice", (110, 150)),
    ("CopyHostToDevice", (150, 170)),
    ("Memcpy HtoD (Host -> Device)", (170, 180)),
    ("CopyDeviceToHost", (180, 190)),
)
"""Named otherwise, without a size and the kind of memory."""
OTHERS: dict[str, list[Add]] = {
    "copies of ROCm": [
        kernel((0, 5), (10, 110), call="hipLaunchKernel"),
        *(kernel((6, 9), ran, way, "gpu_memcpy", "cudaMemcpyAsync") for way, ran in ROCM),
    ],
    "a synchronize behind a copy is another wait": [
        *(FIRST, *SYNCHRONIZED, kernel((400, 405), (410, 420)))
    ],
    "and is one within the same operation": [
        *(FIRST, *SYNCHRONIZED, kernel((400, 405), (410, 420)), op("aten::to", (99, 390)))
    ],
    **{
        f"an odd event: {name}": [FIRST, LAST, event("kernel", "odd", (55, 56)), changed(**fields)]
        for name, fields in ODD.items()
    },
}


def of_rank(rank: int) -> MadeTrace:
    trace = MadeTrace(rank)
    trace.kernel((0, 5), (10, 110), device=2 * rank)
    trace.kernel((500, 505), (510, 610), device=2 * rank)
    trace.kernel((0, 5), (10, 210), device=2 * rank + 1)
    trace.note("ProfilerStep#7", (0, 300))
    trace.note("ProfilerStep#8", (300, 600))
    return trace


def traces() -> Iterator[tuple[str, list[MadeTrace]]]:
    for name, events in {**IDLE, **WAITS, **STEPS, **OTHERS}.items():
        yield name, [made(*events)]
    yield "two ranks with two devices each", [of_rank(0), of_rank(1)]


def lines(folder: Path) -> Iterator[str]:
    """In microseconds of devices. A remedy is printed where it comes first."""
    remedies = set[str]()
    for number, (name, of_ranks) in enumerate(traces()):
        (folder / str(number)).mkdir()
        paths = [
            trace.write(folder / str(number) / f"rank{rank}.json")
            for rank, trace in enumerate(of_ranks)
        ]
        found, page = answer(*paths)
        idle_s = sum(device.span_s - device.busy_s for device in found.devices)
        assert sum(one.seconds for one in found.causes if one.is_idle) == pytest.approx(idle_s)
        assert {one.cause for one in found.causes if not one.is_idle} == {COPY_NOT_HIDDEN}
        yield name
        head, *_ = page.split("\n\n")
        yield from (f"    {line}" for line in head.splitlines())
        costs = [f"{_cost(one)} {one.cause}" for one in found.causes if one.seconds > 1e-9]
        yield f"    idle: {', '.join(costs) or 'never'}"
        for one in found.waits:
            assert one.file is None
            copied = f", {one.nbytes} bytes copied" if one.nbytes else ""
            yield (
                f"    wait: {one.call}, {one.count}x, {one.num_in_steps} in steps{copied}: "
                f"{one.seconds * 1e6:.7g} us, {one.idle_s * 1e6:.7g} idle"
            )
        for one in found.copies:
            shown = f"{one.seconds * 1e6:.7g} us, {one.not_hidden_s * 1e6:.7g} not hidden"
            yield f"    copy: {one.way}, {one.count}x, {one.nbytes} bytes: {shown}"
        for one in found.advice:
            yield f"    {_cost(one)} {one.what}"
            if one.remedy not in remedies:
                yield f"        {one.remedy}"
            remedies.add(one.remedy)


def _cost(one: Any) -> str:
    a_step = "" if one.ms_per_step is None else f" ({one.ms_per_step * 1e3:.7g} a step)"
    return f"{one.seconds * 1e6:.7g}{a_step}"


def test_what_is_said_of_traces(tmp_path: Path) -> None:
    golden.check("idle", lines(tmp_path))
