"""One rank's buffers of an operation: filled, filled again before each reading, checked."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count as numbers
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from hostbench.core.records import FindingValue
from hostbench.core.samples import median
from hostbench.families.collectives.operations import OPERATIONS, layouts, splits
from hostbench.measure.measure import Prepared, reading
from hostbench.ranks.group import current
from hostbench.ranks.pattern import Pattern, Pieces

ODD_BLOCK = 263
"""Elements of a rank's block, and one more is left over: what the small check has."""
LATE_S = 0.02
"""How late one rank comes to a barrier that is checked."""
LAST_STEPS = 20
"""Of which arrivals are looked at: those that were timed last."""
_ROUNDS = numbers()


class Exchange:
    """`given` and `result` are what is called with; empty where the rank has none.

    Before each reading `result` holds another rank's share in place of each that it should get, so
    that doing nothing fails; of an operation in place the rank's own, which is not the sum. `sends`
    bytes is what gloo's algorithm has the rank send. Raises Unavailable where the type holds no
    exact sums.
    """

    def __init__(
        self,
        name: str,
        given: Pieces,
        result: Pieces,
        sends: int | None,
        *,
        dtype: str = "float32",
        times: int = 1,
        in_place: bool = False,
    ) -> None:
        self.name, self.expected, self.sends, self.group = name, result, sends, current()
        num, device = self.group.num_ranks, self.group.device.torch_device
        self.pattern = Pattern(num, getattr(torch, dtype), device, times)
        others = [((rank or 0) + (rank is not None), start, size) for rank, start, size in result]
        stale = [(other % num, start, size) for other, start, size in others]
        self.given = self.pattern.tensor(given)
        self._stale = self.given if in_place else self.pattern.tensor(stale)
        self.result = self._stale.clone()

    def refill(self) -> None:
        """What has to be so before each reading."""
        self.result.copy_(self._stale)

    def first_wrong(self) -> str | None:
        """None where every element is right, or none is defined on this rank."""
        return self.pattern.first_wrong(self.result, self.expected) if self.expected else None

    def wrong(self) -> str | None:
        """What is wrong after a reading."""
        return self.first_wrong()

    def prepared(self, step: Callable[[], object], **more: Any) -> Prepared:
        """The step, checked as the exchange that it is. What another backend sends nobody knows."""
        sends = self.sends if self.group.backend == "gloo" else None
        options = {"before": self.refill, "verify": self.wrong, "sends": sends, **more}
        return Prepared(step=self.group.counted(self.name, step), **options)


class Collective(Exchange):
    """An operation of the table, of S = `nbytes`; `times` are done in place before one check."""

    def __init__(self, name: str, nbytes: int, dtype: str = "float32", times: int = 1) -> None:
        self.row, self.dtype = OPERATIONS[name], dtype
        rank, num = current().rank, current().num_ranks
        count = nbytes // getattr(torch, dtype).itemsize
        self.splits, holds = splits(rank, num, count), layouts(rank, num, count)
        super().__init__(
            name,
            holds[self.row.given],
            holds[self.row.result],
            round(nbytes * self.row.gloo_sends(rank, num)) if nbytes else None,
            dtype=dtype,
            times=times,
            in_place=self.row.given == "own",
        )

    def call(self) -> None:
        self.row.call(dist, self)

    def blocks(self, buffer: torch.Tensor) -> list[torch.Tensor] | None:
        """One for each rank, as gather and scatter want them at the root."""
        return list(buffer.chunk(self.group.num_ranks)) if len(buffer) else None

    def wrong(self) -> str | None:
        """The first element that is wrong; else that of one more call, untimed, of a count that no
        number of ranks divides, which all ranks make whatever each has found. Of a barrier, whether
        it is left before all have come."""
        if self.name == "barrier":
            return left_early(self.group.counted(self.name, self.call))
        count = ODD_BLOCK * self.group.num_ranks + 1
        odd = Collective(self.name, count * self.pattern.dtype.itemsize, self.dtype)
        self.group.counted(self.name, odd.call)()
        self.group.synchronize()
        message = odd.first_wrong()
        return self.first_wrong() or (message and f"of {count} elements {message}")


@cache
def all_reduce_s(nbytes: int) -> float:
    """Seconds of an all-reduce alone, the median of five on rank 0: the same on every rank and, for
    the life of the group, in every case, so that their computes are equally long."""
    group, mine = current(), Collective("all_reduce", nbytes)
    device, step = group.device, group.counted("all_reduce", mine.call)
    step()
    readings = [reading(step, 1, device.now, device.synchronize)[0] for _ in range(5)]
    seconds = torch.tensor([median(readings)], dtype=torch.float64, device=device.torch_device)
    group.counted("broadcast", lambda: dist.broadcast(seconds, 0))()
    return float(seconds)


def left_early(barrier: Callable[[], object]) -> str | None:
    """Each rank writes into the group's store that it is there, and enters; each is late once, of
    many ranks eight of them. Who leaves must read there that all are."""
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    store, absent = dist.distributed_c10d._get_default_store(), []
    for late in range(0, num_ranks, -(-num_ranks // 8)):
        name = f"hostbench/barrier/{next(_ROUNDS)}"
        if rank == late:
            time.sleep(LATE_S)
        store.set(f"{name}/{rank}", "here")
        barrier()
        absent += [other for other in range(num_ranks) if not store.check([f"{name}/{other}"])]
    return f"it was left before rank {absent[0]} had entered it" if absent else None


def arrivals(stamps: Sequence[int]) -> Mapping[str, FindingValue]:
    """Transfer and waiting, medians in seconds, from when this rank entered each step and left it,
    one after the other, in ns of the host's monotonic clock.

    Every rank calls it with as many. Nothing is known of ranks on several hosts, which have no
    clock in common.
    """
    group, boot = current(), Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    last = [int(boot, 16), *stamps[-2 * LAST_STEPS :]]
    mine = torch.tensor(last, device=group.device.torch_device)
    every = [torch.empty_like(mine) for _ in range(group.num_ranks)]
    group.counted("all_gather", lambda: dist.all_gather(every, mine))()
    boots, *times = torch.stack(every).T.tolist()
    if len(set(boots)) > 1:
        return {"late_rank_named": None}
    came, left = times[::2], times[1::2]
    late = Counter(row.index(max(row)) for row in came).most_common(1)[0][0]
    ends = zip(came, left, strict=True)
    return {
        "transfer_s": median([(max(out) - max(row)) / 1e9 for row, out in ends]),
        "waiting_s": median([(max(row) - min(row)) / 1e9 for row in came]),
        "last_rank": f"rank {late}",
        "late_rank_named": late == group.num_ranks - 1,
    }
