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


RATIOS = {"1:4": 0.25, "1:2": 0.5, "2:1": 2.0, "4:1": 4.0}
"""compute:copy; 1:1 is the workload `pipeline`."""
LOOPS = ("copy_only", "compute_only", "serial", "copy_stream")


def _needs(memory: str, schedule: str = "", **_: Any) -> list[str]:
    return ["pinned memory"] * (memory == "pinned") + ["CUDA graphs"] * (schedule == "graph")


def _moves(batch_bytes: int, schedule: str = "", **_: Any) -> int:
    from hostbench.families.overlap.loops import NUM_BATCHES

    return 0 if schedule == "compute_only" else NUM_BATCHES * batch_bytes


def _moves_both_ways(batch_bytes: int, schedule: str, **_: Any) -> int:
    is_one_way = schedule in ("copy_in_only", "copy_out_only")
    return _moves(batch_bytes, schedule) * (1 if is_one_way else 2)


def _usual(device: str, memory: str, **_: Any) -> bool:
    """The memory from which copies can be asynchronous; what pageable memory does to a loop on CUDA
    is a question for `pipeline` alone."""
    return memory == ("pinned" if device == "cuda" else "pageable")


def _quick(device: str, batch_bytes: int, memory: str, schedule: str) -> bool:
    """A size whose loop takes some milliseconds, from the memory that can overlap; pageable memory
    on CUDA for the snippet that most articles print."""
    size = 32 * MIB if device == "cuda" else 4 * MIB
    wanted = _usual(device, memory) or schedule == "copy_stream"
    return batch_bytes == size and wanted and schedule not in ("streams_4", "graph")


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


def _axes(*batch_bytes: int, **more: tuple[str, ...]) -> dict[str, Any]:
    sizes_and_memory = {"batch_bytes": batch_bytes, "memory": ("pageable", "pinned")}
    return {"device": DEVICES, **sizes_and_memory, **more}


def _loop(device: Device, nbytes: int, memory: str, way: str, **options: Any) -> Prepared:
    from hostbench.families.overlap.loops import Loop

    return Loop(device, nbytes, memory, **options).prepared(way)


SHARED: dict[str, Any] = {
    "moves": _moves,
    "expects": _expects,
    "needs": _needs,
    "baseline": {"schedule": "serial"},
}


@workload(
    axes=_axes(
        512 * KIB,
        4 * MIB,
        32 * MIB,
        schedule=(*LOOPS[:3], "default_stream", "copy_stream", "streams_2", "streams_4", "graph"),
    ),
    only=lambda schedule, **axes: schedule != "graph" or _usual(**axes),
    quick=_quick,
    version="4",
    **SHARED,
)
def pipeline(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy and compute over 8 batches. Timed: the whole loop and one synchronize at its end."""
    return _loop(device, batch_bytes, memory, schedule)


@workload(
    axes=_axes(4 * MIB, compute_to_copy=tuple(RATIOS), schedule=LOOPS),
    only=_usual,
    version="3",
    **SHARED,
)
def ratio(
    device: Device, batch_bytes: int, memory: str, compute_to_copy: str, schedule: str
) -> Prepared:
    """The pipeline with more or less compute per copy. Timed: as `pipeline`."""
    return _loop(device, batch_bytes, memory, schedule, compute_to_copy=RATIOS[compute_to_copy])


@workload(
    axes=_axes(32 * MIB, schedule=LOOPS),
    only=_usual,
    version="1",
    **{**SHARED, "needs": lambda **axes: [*_needs(**axes), "tensors of torch"], "expects": {}},
)
def memory_bound(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """The pipeline with a compute that adds to a large buffer. Timed: as `pipeline`.

    Products of matrices leave the device's memory free for the copies; this compute does not.
    """
    return _loop(device, batch_bytes, memory, schedule, memory_bound=True)


@workload(
    axes=_axes(
        32 * MIB, ordering=("events", "record_stream", "stream_synchronize", "device_synchronize")
    ),
    only=_usual,
    moves=_moves,
    needs=_needs,
    baseline={"ordering": "events"},
    version="2",
)
def ordered(device: Device, batch_bytes: int, memory: str, ordering: str) -> Prepared:
    """The ways to keep copy and compute in order on two streams. Timed: as `pipeline`."""
    return _loop(device, batch_bytes, memory, ordering)


@workload(
    axes=_axes(
        16 * MIB,
        schedule=("copy_in_only", "copy_out_only", *LOOPS[1:3], "default_stream", "three_streams"),
    ),
    only=_usual,
    version="2",
    **{**SHARED, "moves": _moves_both_ways},
)
def round_trip(device: Device, batch_bytes: int, memory: str, schedule: str) -> Prepared:
    """Copy in, compute, copy the result out, over 8 batches. Timed: as `pipeline`."""
    return _loop(device, batch_bytes, memory, schedule, returns=True)
