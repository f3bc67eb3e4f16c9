"""collectives: what the operations of torch.distributed cost over ranks, each with its own device.

On every rank each element of the result is compared with a pattern of rank and position; before
each sample the result holds what nobody sends. The slowest rank's time counts.
"""

import os
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload

ORDER = 40  # of the families in a report
PRELOAD = ("hostbench.families.exchange",)


def setup_cache():
    return suite.measure("collectives")


SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, 512 * MIB)  # on GPUs the last two
NUM_RANKS = (1, 2, 4, 8)
QUEUED = 20  # all-reduces before one synchronize, as nccl-tests has them (its `-n`)
NAMES = (
    "all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor",
    "all_to_all_single", "all_to_all_uneven", "gather", "scatter", "barrier",
)  # fmt: skip
QUICK = {*NAMES[:6], "barrier"} - {"all_reduce", "reduce"}  # what training calls


def _crosses(num_ranks: int, nbytes: int, operation: str = "all_reduce", **_: Any) -> float:
    """What each rank must send at least: the bus bandwidth of nccl-tests is held against a link."""
    from hostbench.families.operations import OPERATIONS

    return nbytes * OPERATIONS[operation].factor(num_ranks)


OVER_RANKS: dict[str, Any] = {"ranks": lambda num_ranks, **_: num_ranks, "version": "1"}
RATED: dict[str, Any] = {  # one rank alone moves nothing, and has no rate
    "moves": lambda num_ranks, nbytes, **_: nbytes if num_ranks > 1 else 0,
    "crosses": _crosses,
    "link": lambda num_ranks, **_: "peer" if num_ranks > 1 else None,
    **OVER_RANKS,
}
SUMMED: dict[str, Any] = {
    "axes": {"device": DEVICES, "num_ranks": NUM_RANKS, "nbytes": SIZES},
    "rate_of": "one rank's buffer (algorithm bandwidth, not bus bandwidth)",
    "published": "all_reduce",
    **RATED,
}


def _on_cpu(max_ranks: int, max_nbytes: int = 0) -> Callable[..., bool]:
    """All cases on cuda; on cpu those of up to so many ranks and bytes."""
    return lambda device, num_ranks, nbytes=0, **_: (
        device == "cuda" or (num_ranks <= max_ranks and nbytes <= max_nbytes)
    )


def _quick(device: str, num_ranks: int, nbytes: int) -> bool:
    """The curve over 2 ranks. On GPUs no other number: each takes every launch seconds to start."""
    if num_ranks == 2:
        return nbytes in (4 * KIB, MIB, 16 * MIB if device == "cpu" else 64 * MIB)
    return device == "cpu" and (num_ranks, nbytes) in ((1, 4 * KIB), (4, 4 * KIB), (4, MIB))


def _code() -> Any:
    """A rank's buffers of an operation: it needs torch, which this file is read without."""
    from hostbench.families import exchange

    return exchange


@workload(only=_on_cpu(8, 16 * MIB), quick=_quick, **SUMMED)
def all_reduce(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """One float32 buffer summed over ranks, in place. Timed: the slowest rank's all-reduce."""
    return _code().Exchange("all_reduce", nbytes).prepared()


# gloo's call returns with the sum, so nothing queues up: the smallest size shows that.
@workload(only=_on_cpu(2, 4 * KIB), depth=QUEUED, **SUMMED)
def all_reduce_queued(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """20 all-reduces before one synchronize. Timed: a 20th of the slowest rank's time for all.

    All sum the same buffer in place. Sums of sums are exact here (see `Pattern`), and the
    last one shows each that was left out.
    """
    return _code().Exchange("all_reduce", nbytes, times=QUEUED).prepared()


@workload(
    axes={"device": DEVICES, "num_ranks": NUM_RANKS[1:], "nbytes": SIZES},
    only=_on_cpu(2, 4 * KIB),
    needs=("CUDA graphs",),
    **OVER_RANKS,
)
def all_reduce_graph(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """20 all-reduces captured in one CUDA graph. Timed: its replay and a synchronize."""
    mine = _code().Exchange("all_reduce", nbytes, times=QUEUED)

    def sum_up() -> None:
        for _ in range(QUEUED):
            mine.call()

    return mine.prepared(device.graph(sum_up))


def _operations(
    device: str, num_ranks: int, operation: str, dtype: str, backend: str, nbytes: int
) -> bool:
    """float32 by the device's own backend; of all_reduce, which has a workload of its own for that,
    over 2 ranks bfloat16 and another backend."""
    own, other = {"cuda": ("nccl", "gloo"), "cpu": ("gloo", "mpi")}[device]
    has_data = operation != "barrier"
    if has_data != (nbytes > 0) or not _on_cpu(4, 16 * MIB)(device, num_ranks, nbytes):
        return False
    if operation != "all_reduce":
        return (backend, dtype) == (own, "float32")
    return num_ranks == 2 and (backend, dtype) in {(own, "bfloat16"), (other, "float32")}


@workload(
    axes={
        "device": DEVICES,
        "num_ranks": NUM_RANKS[1:],
        "operation": NAMES,
        "dtype": ("float32", "bfloat16"),
        "backend": ("nccl", "gloo", "mpi"),
        "nbytes": (0, *SIZES[:4], 256 * MIB),
    },
    only=_operations,
    quick=lambda num_ranks, operation, nbytes, **_: (
        num_ranks == 2 and nbytes in (0, MIB) and operation in QUICK
    ),
    backend=lambda backend, **_: backend,
    rate_of="what nccl-tests counts: one rank's buffer, or all blocks where each rank has one",
    published=lambda operation, **_: operation if operation == "all_reduce" else None,
    sampling=0.2,
    **RATED,
)
def operation(
    device: Device, num_ranks: int, operation: str, dtype: str, backend: str, nbytes: int
) -> Prepared:
    """One collective of torch.distributed on S bytes. Timed: the slowest rank's."""
    return _code().Exchange(operation, nbytes, dtype=dtype).prepared()


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4), "stage": ("rendezvous", "init", "first")},
    only=_on_cpu(2),
    sampling=0.01,  # what is taken down between two steps takes longer than a step
    **{**OVER_RANKS, "version": "2"},
)
def first(device: Device, num_ranks: int, stage: str) -> Prepared:
    """What a job waits for before its first result. Timed: one stage of it.

    Until all ranks are in a TCPStore; a new group of them; its first all-reduce, of 4KiB.
    """
    import torch.distributed as dist

    if stage == "rendezvous":
        return _rendezvous(num_ranks)
    mine, groups = _code().Exchange("all_reduce", 4 * KIB), []

    def init() -> None:
        groups.append(dist.new_group(backend=mine.group.backend))

    def end_groups() -> None:
        """Once all are done with the last one: who waits for a peer that has left fails."""
        mine.group.barrier()
        while groups:
            dist.destroy_process_group(groups.pop())

    def before() -> None:
        end_groups()
        mine.refill()
        if stage == "first":
            init()

    def verify() -> str | None:
        if stage == "init":
            sum_up()
        mine.group.synchronize()
        end_groups()
        return mine.first_wrong()

    sum_up = mine.group.counted("all_reduce", lambda: dist.all_reduce(mine.result, group=groups[0]))
    step = init if stage == "init" else sum_up
    return Prepared(step=step, before=before, verify=verify, one_stream=False)


def _rendezvous(num_ranks: int) -> Prepared:
    """Each rank connects to rank 0's store, writes its key, and waits for the keys of all."""
    import torch.distributed as dist

    from hostbench.ranks.launch import VARIABLE

    rank, clients, number, store_class = dist.get_rank(), [], 0, dist.TCPStore  # type: ignore[attr-defined]
    # A lost answer of a name server, whom torch asks for each client's name, costs 1 s, not 5.
    os.environ.setdefault("RES_OPTIONS", "timeout:1")
    host = os.environ["MASTER_ADDR"] if VARIABLE in os.environ else "127.0.0.1"
    server = store_class(host, 0, is_master=True, wait_for_workers=False) if rank == 0 else None
    port = _code().gathered(server.port if server else 0)[0]

    def keys() -> list[str]:
        return [f"{number}/{other}" for other in range(num_ranks)]

    def join() -> None:
        nonlocal number
        number += 1
        clients.append(store_class(host, port, wait_for_workers=False))
        clients[0].set(keys()[rank], "joined")
        clients[0].wait(keys())

    def verify() -> str | None:
        return "some ranks are not in the store" if server and not server.check(keys()) else None

    return Prepared(step=join, before=clients.clear, verify=verify, one_stream=False)


@workload(
    axes={
        "device": DEVICES,
        "num_ranks": (2, 8),
        "nbytes": (MIB, 16 * MIB, 256 * MIB),
        "schedule": ("communicate_only", "compute_only", "serial", "overlapped"),
    },
    only=_on_cpu(2, 16 * MIB),
    # on cpu 8 launches never decide it
    quick=lambda device, num_ranks, nbytes, **_: (
        (device, num_ranks, nbytes) == ("cuda", 2, SIZES[3])
    ),
    baseline={"schedule": "serial"},
    sampling=0.2,
    **OVER_RANKS,
)
def with_compute(device: Device, num_ranks: int, nbytes: int, schedule: str) -> Prepared:
    """Compute beside an all-reduce, about as long as it. Timed: both, and a synchronize."""
    import torch.distributed as dist

    mine = _code().Exchange("all_reduce", nbytes)
    compute = device.compute(_code().all_reduce_s(nbytes))
    has_sum, has_compute = schedule != "compute_only", schedule != "communicate_only"

    def step() -> None:
        work = dist.all_reduce(mine.result, async_op=schedule == "overlapped") if has_sum else None
        if has_compute:
            compute()
        if work is not None:
            work.wait()
        device.synchronize()

    prepared = mine.prepared if has_sum else Prepared
    return prepared(step=step, one_stream=False)


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4), "nbytes": (MIB,), "late_us": (0, 1000)},
    expects=lambda device, num_ranks, late_us, **_: (  # ranks that share cores are late by more
        {"late_rank_named": True} if late_us and (device == "cuda" or num_ranks == 2) else {}
    ),
    sampling=0.2,
    **OVER_RANKS,
)
def arrival(device: Device, num_ranks: int, nbytes: int, late_us: int) -> Prepared:
    """An all-reduce to which the last rank comes late. Timed: from when all could begin.

    Each rank notes on the host's clock when it enters and when it has its sum: the transfer lasts
    from the last one's coming to the last one's leaving, and what came before is waiting.
    """
    mine = _code().Exchange("all_reduce", nbytes)
    late_ns = 1000 * late_us if mine.group.rank == num_ranks - 1 else 0
    stamps: list[tuple[int, int]] = []

    def step() -> None:
        until = monotonic_ns() + late_ns
        while (entered := monotonic_ns()) < until:
            pass
        mine.call()
        device.synchronize()
        stamps.append((entered, monotonic_ns()))

    return mine.prepared(step, findings=lambda: _code().arrivals(stamps), one_stream=False)
