"""point_to_point: what a message from one rank to another costs, by the ways torch has for it.

Every rank that gets something compares each element with the pattern of the rank that sent it;
before each reading its buffer holds another rank's share. The slowest rank's time counts.
"""

from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload

ORDER = 41  # of the families in a report


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


def _pairs(device: str, num_ranks: int, way: str, stride: int, direction: str, nbytes: int) -> bool:
    """Neighbours, and across; of several pairs at once both ways, batched. 8 ranks and 256MiB on
    GPUs alone."""
    if device == "cpu" and (num_ranks == 8 or nbytes == SIZES[-1]):
        return False
    usual = num_ranks == 2 or (way, direction) == ("batch", "both_ways")
    return usual and stride in {1, num_ranks // 2}


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
    from hostbench.families.collectives.exchange import Exchange

    if num_ranks % (2 * stride):
        raise Unavailable(f"{num_ranks} ranks are not all in a pair with stride {stride}")
    rank, count = dist.get_rank(), nbytes // 4
    partner, is_lower = rank ^ stride, not rank & stride
    sends, gets = (direction == "both_ways" or lower for lower in (is_lower, not is_lower))
    given, result = [(rank, 0, count)], [(partner, 0, count)]
    mine = Exchange(way, given, result * gets, sends=nbytes * sends)
    parts = [("send", mine.given)] * sends + [("recv", mine.result)] * gets
    ordered = parts if is_lower else parts[::-1]

    def send_recv() -> None:
        for name, buffer in ordered:
            getattr(dist, name)(buffer, partner)

    def isend_irecv() -> None:
        for work in [getattr(dist, f"i{name}")(buffer, partner) for name, buffer in ordered]:
            work.wait()

    def batch() -> None:
        wanted = [dist.P2POp(getattr(dist, f"i{name}"), part, partner) for name, part in ordered]
        for work in dist.batch_isend_irecv(wanted):
            work.wait()

    return mine.prepared({"send_recv": send_recv, "isend_irecv": isend_irecv, "batch": batch}[way])


def _steps(num_ranks: int, **_: Any) -> int:
    """Nearly twice around: no rank holds its own share at the end."""
    return 2 * num_ranks - 1


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4, 8), "nbytes": SIZES},
    only=lambda device, num_ranks, nbytes: (
        device == "cuda" or (num_ranks < 8 and nbytes < SIZES[-1])
    ),
    depth=_steps,
    **SHARED,
)
def ring(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """Each rank sends the next one what it got last. Timed: one such step of the slowest rank.

    After k steps rank r holds what rank r - k began with, which proves each of the k.
    """
    import torch
    import torch.distributed as dist

    from hostbench.families.collectives.exchange import Exchange

    rank, count = dist.get_rank(), nbytes // 4
    previous, following = (rank - 1) % num_ranks, (rank + 1) % num_ranks
    last = (rank - _steps(num_ranks)) % num_ranks
    given, result = [(rank, 0, count)], [(last, 0, count)]
    mine = Exchange("ring step", given, result, sends=nbytes, in_place=True)
    held, free = mine.result, torch.empty_like(mine.result)

    def step() -> None:
        nonlocal held, free
        sending = dist.P2POp(dist.isend, held, following)
        for work in dist.batch_isend_irecv([sending, dist.P2POp(dist.irecv, free, previous)]):
            work.wait()
        held, free = free, held

    return mine.prepared(
        step,
        before=lambda: held.copy_(mine.given),
        verify=lambda: mine.pattern.first_wrong(held, result),
    )
