"""One rank's buffers of an operation: filled, filled again before each reading, checked."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count as numbers
from typing import Any

import torch
import torch.distributed as dist

from hostbench.core.samples import median
from hostbench.families.collectives.operations import OPERATIONS, layouts, splits
from hostbench.measure.measure import Prepared, reading
from hostbench.ranks.group import current
from hostbench.ranks.pattern import Pattern, Pieces

ODD_BLOCK = 263
"""Elements of a rank's block, and one more is left over: what the small check has."""
LATE_S = 0.02
"""How late one rank comes to a barrier that is checked."""
_ROUNDS = numbers()


def pattern_here(dtype: str = "float32", times: int = 1) -> tuple[Pattern, int]:
    """With the rank that this process is. Raises Unavailable where the type holds no exact sums."""
    group = current()
    device = group.device.torch_device
    return Pattern(group.num_ranks, getattr(torch, dtype), device, times), group.rank


class Exchange:
    """`given` and `result` are what is called with; empty where the rank has none.

    Before each reading `result` holds another rank's share in place of each that it should get, so
    that doing nothing fails; of an operation in place the rank's own, which is not the sum.
    """

    def __init__(self, pattern: Pattern, given: Pieces, result: Pieces, *, in_place: bool = False):
        self.pattern, self.expected = pattern, result
        others = [((rank or 0) + (rank is not None), start, num) for rank, start, num in result]
        stale = [(other % pattern.num_ranks, start, num) for other, start, num in others]
        self.given = pattern.tensor(given)
        self._stale = self.given if in_place else pattern.tensor(stale)
        self.result = self._stale.clone()

    def refill(self) -> None:
        """What has to be so before each reading."""
        self.result.copy_(self._stale)

    def first_wrong(self) -> str | None:
        """None where every element is right, or none is defined on this rank."""
        return self.pattern.first_wrong(self.result, self.expected) if self.expected else None

    def prepared(self, name: str, step: Callable[[], object], **more: Any) -> Prepared:
        """`sends` is what gloo's algorithm has the rank send: of another backend nobody knows."""
        group = current()
        options = {"before": self.refill, "verify": self.first_wrong, **more}
        if group.backend != "gloo":
            options["sends"] = None
        return Prepared(step=group.counted(name, step), **options)


class Collective(Exchange):
    """An operation of `count` elements. Raises Unavailable where the type holds no exact sums."""

    def __init__(self, name: str, rank: int, pattern: Pattern, count: int) -> None:
        self.name, self.rank, self.count, self.row = name, rank, count, OPERATIONS[name]
        self.splits = splits(rank, pattern.num_ranks, count)
        holds = layouts(rank, pattern.num_ranks, count)
        given, result = holds[self.row.given], holds[self.row.result]
        super().__init__(pattern, given, result, in_place=self.row.given == "own")

    @classmethod
    def here(cls, name: str, nbytes: int, dtype: str = "float32", times: int = 1) -> "Collective":
        """On this rank, S = `nbytes`; `times` of it are done in place before one check."""
        pattern, rank = pattern_here(dtype, times)
        return cls(name, rank, pattern, nbytes // pattern.dtype.itemsize)

    def call(self) -> None:
        self.row.call(dist, self)

    def blocks(self, buffer: torch.Tensor) -> list[torch.Tensor] | None:
        """One for each rank, as gather and scatter want them at the root."""
        return list(buffer.chunk(self.pattern.num_ranks)) if len(buffer) else None

    def done(self, step: Callable[[], object], **more: Any) -> Prepared:
        """The step, checked as the operation that it is."""
        part = self.row.gloo_sends(self.rank, self.pattern.num_ranks)
        nbytes = self.count * self.pattern.dtype.itemsize
        sends = round(nbytes * part) if self.row.factor(2) else None
        return self.prepared(self.name, step, verify=self.wrong, sends=sends, **more)

    def wrong(self) -> str | None:
        """After a reading: the first element that is wrong; else that of one more, untimed, of a
        count that no number of ranks divides, which all ranks do whatever each has found. Of a
        barrier, whether it is left before all have come."""
        group, num = current(), self.pattern.num_ranks
        if self.name == "barrier":
            return left_early(self.rank, num, group.counted(self.name, self.call))
        pattern = replace(self.pattern, times=1)
        odd = Collective(self.name, self.rank, pattern, ODD_BLOCK * num + 1)
        group.counted(self.name, odd.call)()
        group.synchronize()
        message = odd.first_wrong()
        return self.first_wrong() or (message and f"of {odd.count} elements {message}")


@cache
def all_reduce_s(nbytes: int) -> float:
    """Seconds of an all-reduce alone, the median of five on rank 0: the same on every rank and, for
    the life of the group, in every case, so that their computes are equally long."""
    group, mine = current(), Collective.here("all_reduce", nbytes)
    device, step = group.device, group.counted("all_reduce", mine.call)
    step()
    readings = [reading(step, 1, device.now, device.synchronize)[0] for _ in range(5)]
    seconds = torch.tensor([median(readings)], dtype=torch.float64, device=device.torch_device)
    group.counted("broadcast", lambda: dist.broadcast(seconds, 0))()
    return float(seconds)


def left_early(rank: int, num_ranks: int, barrier: Callable[[], object]) -> str | None:
    """Each rank writes into the group's store that it is there, and enters; each is late once, of
    many ranks eight of them. Who leaves must read there that all are."""
    store, absent = dist.distributed_c10d._get_default_store(), []
    for late in range(0, num_ranks, -(-num_ranks // 8)):
        name = f"hostbench/barrier/{next(_ROUNDS)}"
        if rank == late:
            time.sleep(LATE_S)
        store.set(f"{name}/{rank}", "here")
        barrier()
        absent += [other for other in range(num_ranks) if not store.check([f"{name}/{other}"])]
    return f"it was left before rank {absent[0]} had entered it" if absent else None
