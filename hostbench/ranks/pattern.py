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

import torch

from hostbench.core.errors import Unavailable

MAX_PRIME = 16361  # of 1,024 ranks the sum is below 2**24 in float32
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
    times: int = 1  # sums in place, one after the other

    def __post_init__(self) -> None:
        """Raises Unavailable where the type does not hold the sums exactly."""
        num, times = self.num_ranks, self.times
        is_power = num & (num - 1) == 0 and float(num) ** times * self.prime <= _LARGEST
        if self.prime <= num or (times > 1 and not is_power):
            name = str(self.dtype).removeprefix("torch.")
            sums = f"{times} sums in a row are" if times > 1 else "a sum is"
            ranks = "a small power of two of ranks, not" if times > 1 else "fewer ranks than"
            raise Unavailable(f"cannot be checked: {sums} exact in {name} only over {ranks} {num}")

    @property
    def prime(self) -> int:
        """The period: the largest such prime that the type has room for; 1 where there is none."""
        added = self.num_ranks if self.times == 1 else self.num_ranks**2
        most = min(MAX_PRIME, _EXACT[self.dtype] // added)
        numbers = (n for n in range(most, 4, -1) if n % 3 == 2)
        return next((n for n in numbers if all(n % d for d in range(2, int(n**0.5) + 1))), 1)

    def tensor(self, pieces: Pieces) -> torch.Tensor:
        """The pieces one after the other."""
        length = sum(length for _, _, length in pieces)
        buffer = torch.empty(length, dtype=self.dtype, device=self.device)
        for part, expected, _ in self._parts(buffer, pieces):
            part.copy_(expected)
        return buffer

    def first_wrong(self, buffer: torch.Tensor, pieces: Pieces) -> str | None:
        """The first element that is not what the pieces say; every element is compared."""
        for part, expected, start in self._parts(buffer, pieces):
            wrong = part != expected
            if wrong.any():
                offset = int(wrong.flatten().nonzero()[0])
                value, right = part.flatten()[offset], expected[offset % len(expected)]
                return f"element {start + offset} is {value:.9g}, not {right:.9g}"
        return None

    def _parts(
        self, buffer: torch.Tensor, pieces: Pieces
    ) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
        """Views of a buffer, what each of their rows holds, and where they begin: whole periods,
        then the rest. Nothing as long as the buffer is made: new memory takes longer than all."""
        end = 0
        for rank, first, length in pieces:
            prime = self.prime
            position = (torch.arange(prime, device=self.device) + first + 1) % prime
            total = torch.zeros_like(position)
            for added in range(self.num_ranks) if rank is None else (rank,):
                total += 1 + position * ((added + 1) ** 3 % prime) % prime
            factor = float(self.num_ranks ** (self.times - 1)) if rank is None else 1.0
            period = (total.double() * factor).to(self.dtype)
            start, rest = end, length % len(period)
            end = start + length
            yield buffer[start : end - rest].view(-1, len(period)), period, start
            yield buffer[end - rest : end], period[:rest], end - rest
