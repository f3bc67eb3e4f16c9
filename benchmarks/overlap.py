"""overlap: copying batch N+1 while computing on batch N, in the ways that people write it.

Each step is a whole loop over `NUM_BATCHES` batches. The compute of one batch is calibrated, once
per launch, in proportion to its copy from the same kind of memory alone: 1:1 unless the axis says
otherwise, the ratio where overlap can help most. The copies alone and the computes alone are cases
too, so that serial, overlapped and ideal come from one launch.
"""

from dataclasses import replace
from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload
from hostbench.core.case import AxisValue
from hostbench.device.base import memory_and_cache
from hostbench.families.overlap.loops import NUM_BATCHES, Loop, Orderings, RoundTrip

ORDER = 30
"""Where the family stands in a report."""


def setup_cache() -> dict[str, Any]:
    return suite.measure("overlap")


SIZES = (512 * KIB, 4 * MIB, 32 * MIB)
MEMORY = ("pageable", "pinned")
SCHEDULES = (
    "copy_only",
    "compute_only",
    "serial",
    "default_stream",
    "copy_stream",
    "streams_2",
    "streams_4",
)
RATIOS = {"1:4": 0.25, "1:2": 0.5, "2:1": 2.0, "4:1": 4.0}
"""compute:copy; 1:1 is the workload `pipeline`."""
_SIDE_STREAMS = ("copy_stream", "streams_2", "streams_4", "three_streams")


def _moves(batch_bytes: int, schedule: str, **_: AxisValue) -> int:
    return 0 if schedule == "compute_only" else batch_bytes * NUM_BATCHES


def _usual(device: str, memory: str, **_: AxisValue) -> bool:
    """The memory from which copies can be asynchronous; what pageable memory does to a loop on CUDA
    is a question for `pipeline` alone."""
    return memory == ("pinned" if device == "cuda" else "pageable")


def _quick(batch_bytes: int, memory: str, device: str, schedule: str, **_: AxisValue) -> bool:
    """The largest size from the memory that can overlap; pageable memory on CUDA for the snippet
    that most articles print."""
    wanted = _usual(device, memory) or schedule == "copy_stream"
    return batch_bytes == SIZES[-1] and wanted and schedule != "streams_4"


def _expects(
    device: str, batch_bytes: int, memory: str, schedule: str, **_: AxisValue
) -> dict[str, bool]:
    """One stream never overlaps. Whether side streams do is sure only for pinned memory on CUDA,
    and where a copy is long beside the enqueueing of an observed one."""
    if schedule in ("serial", "default_stream"):
        return {"overlapped": False}
    long = batch_bytes >= 4 * MIB
    sure = device == "cuda" and memory == "pinned" and long and schedule in _SIDE_STREAMS
    return {"overlapped": True} if sure else {}


@workload(
    axes={"device": DEVICES, "batch_bytes": SIZES, "memory": MEMORY, "schedule": SCHEDULES},
    moves=_moves,
    expects=_expects,
    quick=_quick,
    needs=memory_and_cache,
    baseline={"schedule": "serial"},
    version="3",
)
def pipeline(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy and compute over 8 batches. Timed: the whole loop and one synchronize at its end."""
    loop = Loop(device, batch_bytes, pinned=memory == "pinned")
    return _prepared(loop, memory, schedule)


@workload(
    axes={
        "device": DEVICES,
        "batch_bytes": (4 * MIB,),
        "memory": MEMORY,
        "compute_to_copy": tuple(RATIOS),
        "schedule": ("copy_only", "compute_only", "serial", "copy_stream"),
    },
    moves=_moves,
    expects=_expects,
    only=_usual,
    needs=memory_and_cache,
    baseline={"schedule": "serial"},
    version="2",
)
def ratio(
    device: Device, batch_bytes: int, memory: str, compute_to_copy: str, schedule: str
) -> Prepared:
    """The pipeline with more or less compute per copy. Timed: as `pipeline`."""
    share = RATIOS[compute_to_copy]
    loop = Loop(device, batch_bytes, pinned=memory == "pinned", compute_to_copy=share)
    return _prepared(loop, memory, schedule)


@workload(
    axes={
        "device": DEVICES,
        "batch_bytes": (32 * MIB,),
        "memory": MEMORY,
        "ordering": ("events", "record_stream", "stream_synchronize", "device_synchronize"),
    },
    moves=lambda batch_bytes, **_: batch_bytes * NUM_BATCHES,
    only=_usual,
    needs=memory_and_cache,
    baseline={"ordering": "events"},
    version="2",
)
def ordered(device: Device, batch_bytes: int, memory: str, ordering: str) -> Prepared:
    """The ways to keep copy and compute in order on two streams. Timed: as `pipeline`."""
    loop = Orderings(device, batch_bytes, pinned=memory == "pinned")
    return _prepared(loop, memory, ordering)


def _moves_both(schedule: str, **axes: int) -> int:
    """In and out."""
    num_ways = {"compute_only": 0, "copy_in_only": 1, "copy_out_only": 1}.get(schedule, 2)
    return num_ways * axes["batch_bytes"] * NUM_BATCHES


@workload(
    axes={
        "device": DEVICES,
        "batch_bytes": (16 * MIB,),
        "memory": MEMORY,
        "schedule": (
            "copy_in_only",
            "copy_out_only",
            "compute_only",
            "serial",
            "default_stream",
            "three_streams",
        ),
    },
    moves=_moves_both,
    expects=_expects,
    only=_usual,
    needs=memory_and_cache,
    baseline={"schedule": "serial"},
    version="2",
)
def round_trip(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy in, compute, copy the result out, over 8 batches. Timed: as `pipeline`."""
    loop = RoundTrip(device, batch_bytes, pinned=memory == "pinned")
    prepared = _prepared(loop, memory, schedule)
    if schedule == "compute_only":
        return prepared
    moved = batch_bytes * NUM_BATCHES
    ways = {"H2D": schedule != "copy_out_only", "D2H": schedule != "copy_in_only"}
    copies = {f"{way} {memory}": moved for way, is_there in ways.items() if is_there}
    return replace(prepared, copies=copies)


def _prepared(loop: Loop, memory: str, name: str) -> Prepared:
    way = loop.ways()[name]
    loop.leave(way)
    if name == "compute_only":
        return Prepared(step=way.step)
    return Prepared(
        step=way.step,
        verify=lambda: loop.check(way),
        copies={f"H2D {memory}": loop.batch_bytes * NUM_BATCHES},
        one_stream=way.one_stream,
    )
