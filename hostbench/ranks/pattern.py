"""What ranks send each other: whole numbers that depend on rank and position, and exact sums.

At position p of a buffer rank r has 1 + (p + 1) * (r + 1)**3 mod P, with P a prime above the number
of ranks and 2 above a multiple of 3, so that no two ranks have the same cube. Then:

- another rank's share differs at every position but one in P, and so does a block that lies
  elsewhere (P is odd and no power of two, as blocks mostly are);
- a rank that a sum lacks, or has twice, shows in every element, for all shares are at least 1;
- every sum of some ranks is exact in any order of adding: all together are at most the whole number
  up to which the type holds each one, 2**24 of float32 and 2**8 of bfloat16.

Summed again in place, every rank contributes the last sum. Over a power of two of ranks `times`
sums in a row are num_ranks ** (times - 1) times the first one: a shift of the exponent, exact as
long as one more factor num_ranks has room. So each sum that was left out shows.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch

from hostbench.core.errors import Unavailable

MAX_PRIME = 16361
"""Of 1,024 ranks the sum is below 2**24 in float32."""
_EXACT = {torch.float32: 1 << 24, torch.bfloat16: 1 << 8}
_LARGEST = 2.0**127


Pieces = Sequence[tuple[int | None, int, int]]
"""What a buffer holds, one after the other: (rank, or None for the sum over all; from which
position on; how many elements)."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The shares of so many ranks, in one type, on one device."""

    num_ranks: int
    dtype: torch.dtype
    device: torch.device
    times: int = 1
    """Sums in place, one after the other."""

    def __post_init__(self) -> None:
        """Raises Unavailable where the type does not hold the sums exactly."""
        name = str(self.dtype).removeprefix("torch.")
        if self.prime <= self.num_ranks:
            raise Unavailable(f"{name} holds no exact sums of {self.num_ranks} ranks to check by")
        if self.times > 1 and (
            self.num_ranks & (self.num_ranks - 1)
            or float(self.num_ranks) ** self.times * self.prime > _LARGEST
        ):
            raise Unavailable(
                f"{name} holds no exact sums of {self.times} sums in place over {self.num_ranks} "
                "ranks to check by"
            )

    @property
    def prime(self) -> int:
        """The period."""
        added = self.num_ranks if self.times == 1 else self.num_ranks**2
        return _prime(min(MAX_PRIME, _EXACT[self.dtype] // added))

    def fill(self, buffer: torch.Tensor, pieces: Pieces) -> None:
        """Write the pieces one after the other; together they are as long as the buffer."""
        for _, part, period in self._parts(buffer, pieces):
            body, tail = _split(part, self.prime)
            body.copy_(period.expand_as(body))
            tail.copy_(period[: tail.numel()])

    def first_wrong(self, buffer: torch.Tensor, pieces: Pieces) -> str | None:
        """The first element that is not what the pieces say; every element is compared."""
        for at, part, period in self._parts(buffer, pieces):
            body, tail = _split(part, self.prime)
            wrong = body != period, tail != period[: tail.numel()]
            if any(bool(some.any()) for some in wrong):
                index = int(torch.cat([some.flatten() for some in wrong]).nonzero()[0])
                got, expected = float(part[index]), float(period[index % self.prime])
                return f"element {at + index} is {got:.9g}, not {expected:.9g}"
        return None

    def _parts(
        self, buffer: torch.Tensor, pieces: Pieces
    ) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
        """(where it begins, the part of the buffer, one period of what it should hold)."""
        at = 0
        for rank, start, length in pieces:
            yield at, buffer[at : at + length], self._period(rank, start)
            at += length
        assert at == buffer.numel()

    def _period(self, rank: int | None, start: int) -> torch.Tensor:
        """From a position on. Shape: (prime,)."""
        position = (torch.arange(self.prime, device=self.device) + start + 1) % self.prime
        total = torch.zeros_like(position)
        for added in range(self.num_ranks) if rank is None else (rank,):
            total += 1 + position * ((added + 1) ** 3 % self.prime) % self.prime
        factor = float(self.num_ranks ** (self.times - 1)) if rank is None else 1.0
        return (total.double() * factor).to(self.dtype)


def _split(buffer: torch.Tensor, period: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole periods as rows, and what is left."""
    rows = buffer.numel() // period
    return buffer[: rows * period].view(rows, period), buffer[rows * period :]


@lru_cache
def _prime(most: int) -> int:
    """The largest prime up to `most` that is 2 above a multiple of 3; 1 where there is none."""
    numbers = (n for n in range(most, 4, -1) if n % 3 == 2)
    return next((n for n in numbers if all(n % d for d in range(2, int(n**0.5) + 1))), 1)
