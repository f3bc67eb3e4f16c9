"""collectives: what it costs to add up one buffer over ranks, each with a device of its own."""

from typing import Any

from hostbench import DEVICES, KIB, MIB, Device, Prepared, suite, workload
from hostbench.core.case import AxisValue

ORDER = 40
"""Where the family stands in a report."""


def setup_cache() -> dict[str, Any]:
    return suite.measure("collectives")


SIZES = (4 * KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB)
LARGE = 512 * MIB
"""On GPUs: where the bus bandwidth no longer grows."""
QUEUED = 20
"""All-reduces before one synchronize, as nccl-tests has them (its `-n`)."""
NUM_RANKS = (1, 2, 4, 8)


def _moves(num_ranks: int, nbytes: int, **_: AxisValue) -> int:
    """The payload: one rank's buffer. One rank alone moves nothing, and has no rate."""
    return nbytes if num_ranks > 1 else 0


def _crosses(num_ranks: int, nbytes: int, **_: AxisValue) -> float:
    """What each rank must send at least: the bus bandwidth of nccl-tests is held against a link."""
    return nbytes * 2 * (num_ranks - 1) / num_ranks


def _quick(device: str, nbytes: int, num_ranks: int, **_: AxisValue) -> bool:
    """Three sizes over 1, 2 and 4 ranks. On GPUs each number of ranks takes every launch seconds to
    start: there over 2 alone, which each machine with several has."""
    if device == "cpu":
        return nbytes in (4 * KIB, MIB, 16 * MIB) and num_ranks in (1, 2, 4)
    return nbytes in (4 * KIB, MIB, 64 * MIB) and num_ranks == 2


def _ranks(num_ranks: int, **_: AxisValue) -> int:
    return num_ranks


def _one_each(device: str, nbytes: int, **_: AxisValue) -> bool:
    return device == "cuda" or nbytes < LARGE


def _queue(device: str, nbytes: int, **_: AxisValue) -> bool:
    """gloo's call returns with the sum, so nothing queues up: the smallest size shows that."""
    return device == "cuda" or nbytes == SIZES[0]


def _summed(**more: Any) -> Any:
    """What all-reduces declare."""
    return workload(
        axes={"device": DEVICES, "num_ranks": NUM_RANKS, "nbytes": (*SIZES, LARGE)},
        moves=_moves,
        rate_of="one rank's buffer (algorithm bandwidth, not bus bandwidth)",
        ranks=_ranks,
        link=lambda num_ranks, **_: "peer" if num_ranks > 1 else None,
        crosses=_crosses,
        version="1",
        **more,
    )


def _in_place(device: Device, num_ranks: int, nbytes: int, times: int = 1) -> Prepared:
    """An all-reduce of a buffer that before each reading is the rank's own share again, and that a
    reading sums so many `times`: without end sums of sums would leave float32's range."""
    import torch.distributed as dist

    from hostbench.ranks import pattern
    from hostbench.ranks.group import current

    group = current()
    share = device.create("empty", nbytes, on_host=False)
    pattern.write(share, pattern.share(group.rank, share.device))
    buffer = device.create("empty", nbytes, on_host=False)
    return Prepared(
        step=group.counted("all_reduce", lambda: dist.all_reduce(buffer)),
        before=lambda: device.copy(buffer, share, blocking=True),
        verify=lambda: pattern.first_wrong(
            buffer, pattern.total(group.num_ranks, buffer.device, times)
        ),
        # By the ring of gloo and of nccl; over one rank nothing is sent.
        sends=2 * (num_ranks - 1) * nbytes // num_ranks,
    )


@_summed(only=_one_each, quick=_quick)
def all_reduce(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """One float32 buffer summed over ranks, in place. Timed: the slowest rank's all-reduce.

    The backend follows the device: nccl on cuda, gloo on cpu. Every element is compared with the
    exact sum, on every rank.
    """
    return _in_place(device, num_ranks, nbytes)


@_summed(only=_queue, depth=QUEUED)
def all_reduce_queued(device: Device, num_ranks: int, nbytes: int) -> Prepared:
    """20 all-reduces before one synchronize. Timed: a 20th of the slowest rank's time for all.

    All sum the same buffer in place, so that 512MiB take as much memory as in `all_reduce`: twice
    that, not 20 times. Sums of sums are exact here (see `ranks.pattern`); every element is compared
    with the last one, which shows each all-reduce that was left out.
    """
    return _in_place(device, num_ranks, nbytes, QUEUED)
