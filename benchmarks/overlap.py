"""overlap: copying batch N+1 while computing on batch N, in the ways that people write it.

Each step is a whole loop over 8 batches. The compute of one batch is calibrated, once per launch,
in proportion to its copy from the same kind of memory alone: 1:1 unless the axis says otherwise,
the ratio where overlap can help most. The copies alone and the computes alone are cases too, so
that serial, overlapped and ideal come from one launch.
"""

from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload

ORDER = 30  # of the families in a report


def setup_cache():
    return suite.measure("overlap")


MEMORY = ("pageable", "pinned")
RATIOS = {"1:4": 0.25, "1:2": 0.5, "2:1": 2.0, "4:1": 4.0}
"""compute:copy; 1:1 is the workload `pipeline`."""


def _needs(memory: str, **_: Any) -> list[str]:
    return ["pinned memory"] if memory == "pinned" else []


def _moves(batch_bytes: int, schedule: str = "", **_: Any) -> int:
    from hostbench.families.overlap.loops import NUM_BATCHES

    return 0 if schedule == "compute_only" else NUM_BATCHES * batch_bytes


def _usual(device: str, memory: str, **_: Any) -> bool:
    """The memory from which copies can be asynchronous; what pageable memory does to a loop on CUDA
    is a question for `pipeline` alone."""
    return memory == ("pinned" if device == "cuda" else "pageable")


def _quick(device: str, batch_bytes: int, memory: str, schedule: str) -> bool:
    """The largest size from the memory that can overlap; pageable memory on CUDA for the snippet
    that most articles print."""
    wanted = _usual(device, memory) or schedule == "copy_stream"
    return batch_bytes == 32 * MIB and wanted and schedule != "streams_4"


def _expects(
    device: str, batch_bytes: int, memory: str, schedule: str, **_: Any
) -> dict[str, bool]:
    """One stream never overlaps. Whether side streams do is sure only for pinned memory on CUDA,
    and where a copy is long beside the enqueueing of an observed one."""
    if schedule in ("serial", "default_stream"):
        return {"overlapped": False}
    is_alone = schedule.endswith("_only")
    is_sure = device == "cuda" and memory == "pinned" and batch_bytes >= 4 * MIB
    return {"overlapped": True} if is_sure and not is_alone else {}


@workload(
    axes={
        "device": DEVICES,
        "batch_bytes": (512 * KIB, 4 * MIB, 32 * MIB),
        "memory": MEMORY,
        "schedule": (
            "copy_only",
            "compute_only",
            "serial",
            "default_stream",
            "copy_stream",
            "streams_2",
            "streams_4",
        ),
    },
    moves=_moves,
    expects=_expects,
    needs=_needs,
    quick=_quick,
    baseline={"schedule": "serial"},
    version="4",
)
def pipeline(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy and compute over 8 batches. Timed: the whole loop and one synchronize at its end."""
    from hostbench.families.overlap.loops import Loop

    return Loop(device, batch_bytes, pinned=memory == "pinned").prepared(schedule)


@workload(
    axes={
        "device": DEVICES,
        "batch_bytes": (4 * MIB,),
        "memory": MEMORY,
        "compute_to_copy": tuple(RATIOS),
        "schedule": ("copy_only", "compute_only", "serial", "copy_stream"),
    },
    only=_usual,
    moves=_moves,
    expects=_expects,
    needs=_needs,
    baseline={"schedule": "serial"},
    version="3",
)
def ratio(
    device: Device, batch_bytes: int, memory: str, compute_to_copy: str, schedule: str
) -> Prepared:
    """The pipeline with more or less compute per copy. Timed: as `pipeline`."""
    from hostbench.families.overlap.loops import Loop

    share = RATIOS[compute_to_copy]
    loop = Loop(device, batch_bytes, pinned=memory == "pinned", compute_to_copy=share)
    return loop.prepared(schedule)


@workload(
    axes={
        "device": DEVICES,
        "batch_bytes": (32 * MIB,),
        "memory": MEMORY,
        "ordering": ("events", "record_stream", "stream_synchronize", "device_synchronize"),
    },
    only=_usual,
    moves=_moves,
    needs=_needs,
    baseline={"ordering": "events"},
    version="2",
)
def ordered(device: Device, batch_bytes: int, memory: str, ordering: str) -> Prepared:
    """The ways to keep copy and compute in order on two streams. Timed: as `pipeline`."""
    from hostbench.families.overlap.loops import Orderings

    return Orderings(device, batch_bytes, pinned=memory == "pinned").prepared(ordering)


def _moves_both_ways(batch_bytes: int, schedule: str, **_: Any) -> int:
    is_one_way = schedule in ("copy_in_only", "copy_out_only")
    return _moves(batch_bytes, schedule) * (1 if is_one_way else 2)


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
    only=_usual,
    moves=_moves_both_ways,
    expects=_expects,
    needs=_needs,
    baseline={"schedule": "serial"},
    version="2",
)
def round_trip(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy in, compute, copy the result out, over 8 batches. Timed: as `pipeline`."""
    from hostbench.families.overlap.loops import RoundTrip

    return RoundTrip(device, batch_bytes, pinned=memory == "pinned").prepared(schedule)
