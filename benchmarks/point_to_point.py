"""point_to_point: what a message from one rank to another costs, by the ways torch has for it.

Every rank that gets something compares each element with the pattern of the rank that sent it;
before each sample its buffer holds what nobody sends. The slowest rank's time counts.
"""

from collections.abc import Callable
from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload

ORDER = 41  # of the families in a report
PRELOAD = ("hostbench.families.exchange",)


def setup_cache():
    return suite.measure("point_to_point")


SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB)
SHARED: dict[str, Any] = {
    "ranks": lambda num_ranks, **_: num_ranks,
    "moves": lambda nbytes, **_: nbytes,
    "rate_of": "one message, of one direction",
    "link": "peer",
    "sampling": 0.2,
    "version": "1",
}


def _rings(device: str, num_ranks: int, nbytes: int) -> bool:
    """8 ranks and 256MiB on GPUs alone."""
    return device == "cuda" or (num_ranks < 8 and nbytes < SIZES[-1])


def _pairs(device: str, num_ranks: int, way: str, stride: int, direction: str, nbytes: int) -> bool:
    """Neighbours, and across; of several pairs at once both ways, batched."""
    usual = num_ranks == 2 or (way, direction) == ("batch", "both_ways")
    return usual and stride in {1, num_ranks // 2} and _rings(device, num_ranks, nbytes)


@workload(
    axes={
        "device": DEVICES,
        "num_ranks": (2, 4, 8),
        "way": ("send_recv", "isend_irecv", "batch"),
        "stride": (1, 2, 4),
        "direction": ("one_way", "both_ways"),
        "nbytes": SIZES,
    },
    only=_pairs,
    quick=lambda num_ranks, way, direction, nbytes, **_: (
        (num_ranks, way) == (2, "batch")
        and nbytes in (SIZES[0] * (direction == "one_way"), 16 * MIB)
    ),
    **SHARED,
)
def pair(
    device: Device, num_ranks: int, way: str, stride: int, direction: str, nbytes: int
) -> Prepared:
    """Messages between ranks r and r + stride, of all pairs at once. Timed: the slowest rank's.

    Where both ranks of a pair send, the lower one sends first and the other one receives first.
    """
    import torch.distributed as dist

    from hostbench.core.errors import Unavailable
    from hostbench.families.exchange import Exchange
    from hostbench.families.operations import Operation

    if num_ranks % (2 * stride):
        raise Unavailable(f"with stride {stride} some of {num_ranks} ranks have no partner")
    rank = dist.get_rank()
    is_lower = rank // stride % 2 == 0
    partner = rank + stride if is_lower else rank - stride
    sends, gets = (direction == "both_ways" or lower for lower in (is_lower, not is_lower))
    send, recv = (dist.send, dist.recv) if way == "send_recv" else (dist.isend, dist.irecv)

    def call(_: Any, mine: Any) -> Callable[[], None]:
        parts = [(send, mine.given, partner)] * sends + [(recv, mine.result, partner)] * gets
        parts = parts if is_lower else parts[::-1]

        def step() -> None:
            if way == "batch":
                works: list[Any] = dist.batch_isend_irecv([dist.P2POp(*part) for part in parts])
            else:
                works = [start(buffer, partner) for start, buffer, _ in parts]
            if way != "send_recv":
                for work in works:
                    work.wait()

        return step

    own, result = (lambda r, n, s: [(r, 0, s)]), (lambda r, n, s: [(partner, 0, s)] * gets)
    row = Operation(own, result, call, lambda r, n: sends)
    return Exchange(way, nbytes, row=row).prepared()


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4, 8), "nbytes": SIZES},
    only=_rings,
    depth=lambda num_ranks, **_: 2 * num_ranks - 1,  # no rank holds its own share at the end
    **SHARED,
)
def ring(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """Each rank sends the next one what it got last. Timed: one such step of the slowest rank.

    It goes nearly twice around: at the end a rank holds what the next one began with, which proves
    each of the steps.
    """
    import torch
    import torch.distributed as dist

    from hostbench.families.exchange import Exchange
    from hostbench.families.operations import Operation

    rank = dist.get_rank()
    previous, following = (rank - 1) % num_ranks, (rank + 1) % num_ranks

    def call(_: Any, mine: Any) -> Callable[[], None]:
        free = torch.empty_like(mine.result)

        def step() -> None:
            nonlocal free
            parts = (dist.isend, mine.result, following), (dist.irecv, free, previous)
            for work in dist.batch_isend_irecv([dist.P2POp(*part) for part in parts]):
                work.wait()
            mine.result, free = free, mine.result

        return step

    row = Operation(None, lambda r, n, s: [(following, 0, s)], call, lambda r, n: 1.0)
    mine = Exchange("batch_isend_irecv", nbytes, row=row)
    return mine.prepared(verify=mine.first_wrong)
