"""collectives: what the operations of torch.distributed cost over ranks, each with its own device.

On every rank each element of the result is compared with a pattern of rank and position; before
each reading the result holds another rank's share. The slowest rank's time counts.
"""

from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload

ORDER = 40  # of the families in a report


def setup_cache():
    return suite.measure("collectives")


SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
LARGE = 512 * MIB
"""On GPUs: where the bus bandwidth no longer grows."""
QUEUED = 20
"""All-reduces before one synchronize, as nccl-tests has them (its `-n`)."""
NUM_RANKS = (1, 2, 4, 8)
NAMES = (
    "all_reduce", "broadcast", "reduce", "all_gather_into_tensor", "reduce_scatter_tensor",
    "all_to_all_single", "all_to_all_uneven", "gather", "scatter", "barrier",
)  # fmt: skip


OVER_RANKS: dict[str, Any] = {"ranks": lambda num_ranks, **_: num_ranks, "version": "1"}


def _crosses(num_ranks: int, nbytes: int, operation: str = "all_reduce", **_: Any) -> float:
    """What each rank must send at least: the bus bandwidth of nccl-tests is held against a link."""
    from hostbench.families.collectives.operations import OPERATIONS

    return nbytes * OPERATIONS[operation].factor(num_ranks)


RATED: dict[str, Any] = {
    # S of nccl-tests; one rank alone moves nothing, and has no rate
    "moves": lambda num_ranks, nbytes, **_: nbytes if num_ranks > 1 else 0,
    "crosses": _crosses,
    "link": lambda num_ranks, **_: "peer" if num_ranks > 1 else None,
    "published": lambda operation="all_reduce", **_: (
        operation if operation == "all_reduce" else None
    ),
    **OVER_RANKS,
}
SUMMED: dict[str, Any] = {
    "axes": {"device": DEVICES, "num_ranks": NUM_RANKS, "nbytes": (*SIZES, LARGE)},
    "rate_of": "one rank's buffer (algorithm bandwidth, not bus bandwidth)",
    **RATED,
}


def _summed(nbytes: int, times: int = 1) -> tuple[Any, Any]:
    """A float32 buffer on this rank, and the all-reduce of it over ranks, in place."""
    import torch.distributed as dist

    from hostbench.families.collectives.exchange import Collective

    mine = Collective("all_reduce", nbytes, times=times)
    return mine, lambda: dist.all_reduce(mine.result)


def _quick(device: str, nbytes: int, num_ranks: int) -> bool:
    """Three sizes over 1, 2 and 4 ranks. On GPUs each number of ranks takes every launch seconds to
    start: there over 2 alone, which each machine with several has."""
    if device == "cpu":
        return nbytes in (4 * KIB, MIB, 16 * MIB) and num_ranks in (1, 2, 4)
    return nbytes in (4 * KIB, MIB, 64 * MIB) and num_ranks == 2


@workload(
    only=lambda device, nbytes, **_: device == "cuda" or nbytes < LARGE, quick=_quick, **SUMMED
)
def all_reduce(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """One float32 buffer summed over ranks, in place. Timed: the slowest rank's all-reduce.

    The backend follows the device: nccl on cuda, gloo on cpu.
    """
    mine, sum_up = _summed(nbytes)
    return mine.prepared(sum_up)


# gloo's call returns with the sum, so nothing queues up: the smallest size shows that.
@workload(
    only=lambda device, nbytes, **_: device == "cuda" or nbytes == SIZES[0], depth=QUEUED, **SUMMED
)
def all_reduce_queued(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """20 all-reduces before one synchronize. Timed: a 20th of the slowest rank's time for all.

    All sum the same buffer in place. Sums of sums are exact here (see `ranks.pattern`), and the
    last one shows each that was left out.
    """
    mine, sum_up = _summed(nbytes, QUEUED)
    return mine.prepared(sum_up)


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4, 8), "nbytes": (*SIZES, LARGE)},
    only=lambda device, num_ranks, nbytes: device == "cuda" or num_ranks * nbytes == 8 * KIB,
    needs=lambda **_: ("CUDA graphs",),
    **OVER_RANKS,
)
def all_reduce_graph(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """20 all-reduces captured in one CUDA graph. Timed: its replay and a synchronize."""
    mine, sum_up = _summed(nbytes, QUEUED)

    def all_of_them() -> None:
        for _ in range(QUEUED):
            sum_up()

    return mine.prepared(device.graph(all_of_them))


def _operations(
    device: str, num_ranks: int, operation: str, dtype: str, backend: str, nbytes: int
) -> bool:
    """float32 by the device's own backend; of all_reduce, which has a workload of its own for that,
    over 2 ranks bfloat16 and another backend. 8 ranks and 256MiB on GPUs alone."""
    own, other = {"cuda": ("nccl", "gloo"), "cpu": ("gloo", "mpi")}[device]
    if (nbytes == 0) != (operation == "barrier"):
        return False
    if device == "cpu" and (num_ranks == 8 or nbytes == 256 * MIB):
        return False
    if operation != "all_reduce":
        return backend == own and dtype == "float32"
    return num_ranks == 2 and (backend, dtype) in {(own, "bfloat16"), (other, "float32")}


@workload(
    axes={
        "device": DEVICES,
        "num_ranks": (2, 4, 8),
        "operation": NAMES,
        "dtype": ("float32", "bfloat16"),
        "backend": ("nccl", "gloo", "mpi"),
        "nbytes": (0, 4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB),
    },
    only=_operations,
    quick=lambda num_ranks, operation, nbytes, **_: (
        num_ranks == 2
        and nbytes in (0, MIB)
        and operation not in ("all_reduce", "all_to_all_uneven")
    ),
    backend=lambda backend, **_: backend,
    rate_of="S of nccl-tests: the whole buffer, of all ranks together where each has a part",
    sampling=0.2,
    **RATED,
)
def operation(
    device: Device, num_ranks: int, operation: str, dtype: str, backend: str, nbytes: int
) -> Prepared:
    """One collective of torch.distributed on S bytes. Timed: the slowest rank's."""
    from hostbench.families.collectives.exchange import Collective

    mine = Collective(operation, nbytes, dtype)
    return mine.prepared(mine.call)


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4), "stage": ("rendezvous", "init", "first")},
    only=lambda device, num_ranks, **_: device == "cuda" or num_ranks == 2,
    sampling=0.05,  # what is taken down between two steps takes longer than a step
    **OVER_RANKS,
)
def first(device: Device, num_ranks: int, stage: str) -> Prepared:
    """What a job waits for before its first result. Timed: one stage of it.

    A TCPStore that all ranks join, a new group over them, the first all-reduce of 4KiB in one.
    """
    return _joined_store(device, num_ranks) if stage == "rendezvous" else _new_group(stage)


def _joined_store(device: Device, num_ranks: int) -> Prepared:
    import os
    import socket

    import torch.distributed as dist

    from hostbench.ranks.group import current
    from hostbench.ranks.launch import VARIABLE

    group, server, store, port = current(), None, None, [0]
    send_port = group.counted(
        "broadcast", lambda: dist.broadcast_object_list(port, device=device.torch_device)
    )

    def before() -> None:
        """Once all have left the last one, rank 0 listens at a free port and tells the others."""
        nonlocal server, store
        group.barrier()
        store = None
        server = socket.create_server(("", 0)) if group.rank == 0 else None
        port[0] = server.getsockname()[1] if server else 0
        send_port()

    def join() -> None:
        nonlocal store
        store = dist.TCPStore(  # type: ignore[attr-defined]
            os.environ["MASTER_ADDR"] if os.environ.get(VARIABLE) else "127.0.0.1",
            port[0],
            num_ranks,
            is_master=server is not None,
            master_listen_fd=server.detach() if server else None,
        )
        store.set(str(group.rank), "here")

    def wrong() -> str | None:
        assert store is not None
        absent = [other for other in map(str, range(num_ranks)) if not store.check([other])]
        group.barrier()  # rank 0 serves it
        return f"not in the store: {', '.join(absent)}" if absent else None

    return Prepared(step=join, before=before, verify=wrong, one_stream=False)


def _new_group(stage: str) -> Prepared:
    """Only its first all-reduce is a collective, of which a GPU has kernels."""
    import torch.distributed as dist

    mine, _ = _summed(4 * KIB)
    group, made = mine.group, None

    def init() -> None:
        nonlocal made
        made = dist.new_group(backend=group.backend)

    def sum_up() -> None:
        dist.all_reduce(mine.result, group=made)

    def before() -> None:
        take_down()
        mine.refill()
        if stage == "first":
            init()

    def take_down() -> None:
        """Once all are done with it: who waits for a peer that has left fails."""
        nonlocal made
        if made is not None:
            group.barrier()
            dist.destroy_process_group(made)
        made = None

    def wrong() -> str | None:
        if stage == "init":
            counted()
        group.synchronize()
        message = mine.first_wrong()
        take_down()
        return message

    counted = group.counted("all_reduce", sum_up)
    step = init if stage == "init" else counted
    return Prepared(step=step, before=before, verify=wrong, one_stream=False)


@workload(
    axes={
        "device": DEVICES,
        "num_ranks": (2, 8),
        "nbytes": (MIB, 16 * MIB, 256 * MIB),
        "schedule": ("communicate_only", "compute_only", "serial", "overlapped"),
    },
    only=lambda device, num_ranks, nbytes, **_: (
        device == "cuda" or (num_ranks == 2 and nbytes < 256 * MIB)
    ),
    quick=lambda device, num_ranks, nbytes, **_: (  # on cpu 8 launches never decide it
        device == "cuda" and num_ranks == 2 and nbytes == 16 * MIB
    ),
    baseline={"schedule": "serial"},
    sampling=0.2,
    **OVER_RANKS,
)
def with_compute(device: Device, num_ranks: int, nbytes: int, schedule: str) -> Prepared:
    """Compute beside an all-reduce, about as long as it. Timed: both, and a synchronize."""
    import torch.distributed as dist

    from hostbench.families.collectives.exchange import all_reduce_s

    mine, _ = _summed(nbytes)
    compute = device.compute(all_reduce_s(nbytes))

    def step() -> None:
        work = None
        if schedule != "compute_only":
            work = dist.all_reduce(mine.result, async_op=schedule == "overlapped")
        if schedule != "communicate_only":
            compute()
        if work is not None:
            work.wait()
        device.synchronize()

    if schedule == "compute_only":
        return Prepared(step=step, one_stream=False)
    return mine.prepared(step, one_stream=False)


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4), "nbytes": (MIB,), "late_us": (0, 1000)},
    expects=lambda device, num_ranks, late_us, **_: (  # ranks that share cores are late by more
        {"late_rank_named": True} if late_us and (device == "cuda" or num_ranks == 2) else {}
    ),
    baseline={"late_us": 0},
    sampling=0.2,
    **OVER_RANKS,
)
def arrival(device: Device, num_ranks: int, nbytes: int, late_us: int) -> Prepared:
    """An all-reduce to which the last rank comes late. Timed: from when all could begin.

    Each rank notes on the host's clock when it enters and when it has its sum: the transfer lasts
    from the last one's coming to the last one's leaving, and what came before is waiting.
    """
    import time

    from hostbench.families.collectives.exchange import arrivals

    mine, sum_up = _summed(nbytes)
    late_ns = 1000 * late_us if mine.group.rank == num_ranks - 1 else 0
    stamps: list[int] = []

    def step() -> None:
        until = time.monotonic_ns() + late_ns
        while (came := time.monotonic_ns()) < until:
            pass
        sum_up()
        device.synchronize()
        stamps.extend((came, time.monotonic_ns()))

    return mine.prepared(step, tells=lambda: arrivals(stamps), one_stream=False)
