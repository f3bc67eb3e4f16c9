"""One rank's buffers of an operation: filled, filled again before each sample, checked."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import torch
import torch.distributed as dist

from hostbench.core.errors import Unavailable
from hostbench.core.records import FindingValue
from hostbench.core.samples import median
from hostbench.core.units import number_of
from hostbench.families.operations import OPERATIONS, Operation, Pieces, nccl_sends
from hostbench.measure.measure import Prepared, reading
from hostbench.ranks.rank import rank_group

ODD_BLOCK = 263  # elements of a rank's block, and one more is left over: what the small check has
LATE_S = 0.02  # how late a rank comes to a barrier that is checked
LAST_STEPS = 20  # of which arrivals are looked at: those that were timed last
_barriers = count()
MAX_PRIME = 16361  # of 1,024 ranks the sum is below 2**24 in float32
_EXACT = {torch.float32: 1 << 24, torch.bfloat16: 1 << 8}
_LARGEST = 2.0**127


@dataclass(frozen=True, slots=True)
class Pattern:
    """What ranks send each other, in one type, on one device: whole numbers that depend on rank and
    position, and exact sums.

    At position p of a buffer rank r has 1 + (p + 1) * (r + 1)**3 mod P, with P a prime above the
    number of ranks and 2 above a multiple of 3, so that no two ranks have the same cube. Then:

    - another rank's share differs at every position but one in P, and so does a block that lies
      elsewhere (P is odd and no power of two, as blocks mostly are);
    - a rank that a sum lacks, or has twice, shows in every element, for all shares are at least 1;
    - every sum of some ranks is exact in any order of adding: all together are at most the number
      up to which the type holds each whole one, 2**24 of float32 and 2**8 of bfloat16.

    Summed again in place, every rank contributes the last sum. Over a power of two of ranks `times`
    sums in a row are num_ranks ** (times - 1) times the first one: a shift of the exponent, exact
    as long as one more factor num_ranks has room. So each sum that was left out shows.
    """

    num_ranks: int
    dtype: torch.dtype
    device: torch.device
    times: int = 1  # sums in place, one after the other

    def __post_init__(self) -> None:
        """Raises Unavailable where the type does not hold the sums exactly."""
        num, times = self.num_ranks, self.times
        is_power = num & (num - 1) == 0 and float(num) ** times * self.prime <= _LARGEST
        if self.prime <= num or (times > 1 and not is_power):
            sums = f"{number_of(times, 'sum')} over {num} ranks"
            raise Unavailable(f"cannot be checked: {sums} would not be exact in {self.dtype}")

    @property
    def prime(self) -> int:
        """The period: the largest such prime that the type has room for; 1 where there is none."""
        added = self.num_ranks if self.times == 1 else self.num_ranks**2
        most = min(MAX_PRIME, _EXACT[self.dtype] // added)
        numbers = (n for n in range(most, 4, -1) if n % 3 == 2)
        return next((n for n in numbers if all(n % d for d in range(2, int(n**0.5) + 1))), 1)

    def tensor(self, pieces: Pieces) -> torch.Tensor:
        """The pieces one after the other."""
        nothing = torch.empty(0, dtype=self.dtype, device=self.device)
        return torch.cat([nothing, *(self._piece(*piece) for piece in pieces)])

    def _piece(self, rank: int | None, first: int, length: int) -> torch.Tensor:
        """A period, as often as it goes into the length: what it takes is the memory alone."""
        prime = self.prime
        position = (torch.arange(prime, device=self.device) + first + 1) % prime
        total = torch.zeros_like(position)
        for added in range(self.num_ranks) if rank is None else (rank,):
            total += 1 + position * ((added + 1) ** 3 % prime) % prime
        factor = float(self.num_ranks ** (self.times - 1)) if rank is None else 1.0
        period = (total.double() * factor).to(self.dtype)
        return period.repeat(-(-length // prime))[:length]

    def first_wrong(self, buffer: torch.Tensor, pieces: Pieces) -> str | None:
        """The first element that is not what the pieces say, of all."""
        expected = self.tensor(pieces)
        wrong = buffer != expected
        if not wrong.any():
            return None
        index = int(wrong.int().argmax())
        return f"element {index} is {buffer[index]:.9g}, not {expected[index]:.9g}"


class Exchange:
    """What a rank calls an operation with: of S = `nbytes` what it gives and gets, `times` in place
    before one check. `row`: of an operation that OPERATIONS does not have.

    Before each sample `result` holds zeros, which nobody sends, so that doing nothing fails; of an
    operation in place the rank's own share, which is not the sum.
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
        num_expected = sum(length for _, _, length in self.expected)
        self.result = self.given.new_zeros(num_expected) if self.row.given else self.given.clone()
        self.call = self.row.call(dist, self)

    def blocks(self, buffer: torch.Tensor) -> list[torch.Tensor] | None:
        """One for each rank, as gather and scatter want them at the root."""
        return list(buffer.chunk(self.group.num_ranks)) if len(buffer) else None

    def refill(self) -> None:
        if self.row.given:
            self.result.zero_()
        else:
            self.result.copy_(self.given)

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


def gathered(mine: Any) -> list[Any]:
    """Every rank's."""
    every = [mine] * rank_group().num_ranks
    rank_group().counted("all_gather", lambda: dist.all_gather_object(every, mine))()
    return every


def left_early(barrier: Callable[[], object]) -> str | None:
    """Each rank writes into the group's store that it is there, and enters, once the first one
    late, once the last. Who leaves must read there that all are."""
    rank, last, is_early = dist.get_rank(), dist.get_world_size() - 1, False
    store = dist.distributed_c10d._get_default_store()
    for late in (0, last):
        number = next(_barriers)
        keys = [f"hostbench/barrier/{number}/{other}" for other in range(last + 1)]
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
    slowest: float = max(gathered(median(samples[1:])))
    return slowest


def arrivals(stamps: Sequence[tuple[int, int]]) -> Mapping[str, FindingValue]:
    """Transfer and waiting, medians in seconds, from when this rank entered each step and left it,
    in ns of the host's monotonic clock. Every rank calls it with as many. Raises Unavailable for
    ranks on several hosts, which have no clock in common."""
    group = rank_group()
    if group.num_local < group.num_ranks:
        raise Unavailable("ranks on several hosts have no clock in common")
    entered, left = torch.tensor(gathered(stamps[-LAST_STEPS:])).unbind(-1)  # each (ranks, steps)
    last, late = entered.amax(0), int(entered.argmax(0).mode().values)
    return {
        "transfer_s": (left.amax(0) - last).double().quantile(0.5).item() / 1e9,
        "waiting_s": (last - entered.amin(0)).double().quantile(0.5).item() / 1e9,
        "last_rank": f"rank {late}",
        "late_rank_named": late == group.num_ranks - 1,
    }
