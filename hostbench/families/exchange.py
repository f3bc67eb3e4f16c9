"""One rank's buffers of an operation: filled, filled again before each sample, checked."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from hostbench.core.errors import Unavailable
from hostbench.core.records import FindingValue
from hostbench.core.samples import median
from hostbench.families.operations import OPERATIONS, Operation, nccl_sends
from hostbench.measure.measure import Prepared, reading
from hostbench.ranks.pattern import Pattern
from hostbench.ranks.rank import rank_group

ODD_BLOCK = 263  # elements of a rank's block, and one more is left over: what the small check has
LATE_S = 0.02  # how late a rank comes to a barrier that is checked
LAST_STEPS = 20  # of which arrivals are looked at: those that were timed last
_barriers = count()


class Exchange:
    """What a rank calls an operation with: of S = `nbytes` what it gives and gets, `times` in place
    before one check. `row`: of an operation that OPERATIONS does not have.

    Before each sample `result` holds another rank's share in place of each that it should get, so
    that doing nothing fails; of an operation in place the rank's own, which is not the sum. Raises
    Unavailable where the type holds no exact sums.
    """

    def __init__(
        self, name: str, nbytes: int, dtype: str = "float32", times: int = 1, row: Any = None
    ) -> None:
        self.name, self.dtype, self.group, self.nbytes = name, dtype, rank_group(), nbytes
        self.row: Operation = row or OPERATIONS[name]
        rank, num, kind = self.group.rank, self.group.num_ranks, getattr(torch, dtype)
        self.size = rank, num, nbytes // kind.itemsize
        self.pattern = Pattern(num, kind, self.group.device.torch_device, times)
        given = self.row.given(*self.size) if self.row.given else [(rank, 0, self.size[2])]
        self.given, self.expected = self.pattern.tensor(given), self.row.result(*self.size)
        others = [
            (0 if of is None else (of + 1) % num, start, size) for of, start, size in self.expected
        ]
        self._stale = self.pattern.tensor(others) if self.row.given else self.given
        self.result = self._stale.clone()
        self.call = self.row.call(dist, self)

    def blocks(self, buffer: torch.Tensor) -> list[torch.Tensor] | None:
        """One for each rank, as gather and scatter want them at the root."""
        return list(buffer.chunk(self.group.num_ranks)) if len(buffer) else None

    def refill(self) -> None:
        self.result.copy_(self._stale)

    def first_wrong(self) -> str | None:
        """None where every element is right, or none is defined on this rank."""
        return self.pattern.first_wrong(self.result, self.expected) if self.expected else None

    def verify(self) -> str | None:
        """The first element that is wrong; else that of one more call, untimed, of a count that no
        number of ranks divides, which all ranks make whatever each has found. Of a barrier, whether
        it is left before all have come."""
        if self.name == "barrier":
            return left_early(self.group.counted(self.name, self.call))
        num_elements = ODD_BLOCK * self.group.num_ranks + 1
        odd = Exchange(self.name, num_elements * self.given.itemsize, self.dtype, row=self.row)
        self.group.counted(self.name, odd.call)()
        self.group.synchronize()
        wrong = odd.first_wrong()
        return self.first_wrong() or (wrong and f"of {num_elements} elements {wrong}")

    def prepared(self, step: Callable[[], object] | None = None, **options: Any) -> Prepared:
        """The operation, or a step with one in it, its check, and what is documented to be sent."""
        step, (rank, num, _) = self.group.counted(self.name, step or self.call), self.size

        def sends(algorithm: str | None) -> int | None:
            if self.group.backend == "gloo":
                share: float | None = self.row.gloo_sends(rank, num)
            else:
                share = nccl_sends(self.name, num, algorithm)
            return None if share is None or not self.nbytes else round(self.nbytes * share)

        checked = {"before": self.refill, "verify": self.verify, **options}
        return Prepared(step=step, sends=sends, **checked)


def left_early(barrier: Callable[[], object]) -> str | None:
    """Each rank writes into the group's store that it is there, and enters; each is late once, of
    many ranks eight of them. Who leaves must read there that all are."""
    rank, num_ranks = dist.get_rank(), dist.get_world_size()
    store, is_early = dist.distributed_c10d._get_default_store(), False
    for late in range(0, num_ranks, -(-num_ranks // 8)):
        number = next(_barriers)
        keys = [f"hostbench/barrier/{number}/{other}" for other in range(num_ranks)]
        time.sleep(LATE_S * (rank == late))
        store.add(keys[rank], 1)  # which waits for the store's answer, as `set` does not
        barrier()
        is_early |= not store.check(keys)
    return "it was left before all ranks had entered it" if is_early else None


@cache
def all_reduce_s(nbytes: int) -> float:
    """Seconds of an all-reduce alone, the median of five on the slowest rank: the same on every
    rank and, for the life of the group, in every case, so that their computes are equally long."""
    mine = Exchange("all_reduce", nbytes)
    device, step = mine.group.device, mine.group.counted(mine.name, mine.call)
    samples = [reading(step, 1, device.now, device.synchronize)[0] for _ in range(6)]
    slowest = torch.tensor(median(samples[1:]), dtype=torch.float64, device=device.torch_device)
    mine.group.counted(mine.name, lambda: dist.all_reduce(slowest, dist.ReduceOp.MAX))()
    return float(slowest)


def arrivals(stamps: Sequence[tuple[int, int]]) -> Mapping[str, FindingValue]:
    """Transfer and waiting, medians in seconds, from when this rank entered each step and left it,
    in ns of the host's monotonic clock. Every rank calls it with as many. Raises Unavailable for
    ranks on several hosts, which have no clock in common."""
    group, boot_id = rank_group(), Path("/proc/sys/kernel/random/boot_id").read_text()
    by_rank: list[Any] = [(boot_id, stamps[-LAST_STEPS:])] * group.num_ranks
    group.counted("all_gather", lambda: dist.all_gather_object(by_rank, by_rank[0]))()
    if any(other != boot_id for other, _ in by_rank):
        raise Unavailable("ranks on several hosts have no clock in common")
    entered, left = torch.tensor([own for _, own in by_rank]).unbind(-1)  # each (ranks, steps)
    last, late = entered.amax(0), int(entered.argmax(0).mode().values)
    return {
        "transfer_s": (left.amax(0) - last).double().quantile(0.5).item() / 1e9,
        "waiting_s": (last - entered.amin(0)).double().quantile(0.5).item() / 1e9,
        "last_rank": f"rank {late}",
        "late_rank_named": late == group.num_ranks - 1,
    }
