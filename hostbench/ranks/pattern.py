"""What the ranks sum: whole numbers whose sum float32 holds exactly, in any order of adding.

Rank r contributes place + 2**r * (1 + place % 251) at each place of a period. Powers of two: no
rank left out, added twice or taken for another gives the same sum. The period is prime, so a block
that lands elsewhere does not match. The largest sum of 15 ranks is 9,207,317, below 2**24.
"""

import torch

PERIOD = 65521
MAX_RANKS = 15
_WEIGHTS = 251


def share(rank: int, device: torch.device) -> torch.Tensor:
    """One period of what `rank` contributes. Shape: (PERIOD,), float32."""
    return _sum(1, 1 << rank, device)


def total(num_ranks: int, device: torch.device) -> torch.Tensor:
    """One period of the sum over all ranks. Raises ValueError above MAX_RANKS."""
    if num_ranks > MAX_RANKS:
        raise ValueError(f"{num_ranks} ranks: float32 sums are exact up to {MAX_RANKS}")
    return _sum(num_ranks, (1 << num_ranks) - 1, device)


def write(buffer: torch.Tensor, period: torch.Tensor) -> None:
    """Repeat `period` over `buffer`."""
    body, tail = _split(buffer)
    body.copy_(period.expand_as(body))
    tail.copy_(period[: tail.numel()])


def first_wrong(buffer: torch.Tensor, period: torch.Tensor) -> str | None:
    """The first element that differs from the repeated `period`; every element is compared."""
    body, tail = _split(buffer)
    if bool((body == period).all()) and bool((tail == period[: tail.numel()]).all()):
        return None
    wrong = [(body != period).flatten(), tail != period[: tail.numel()]]
    place = int(torch.cat(wrong).nonzero()[0])
    found, right = float(buffer[place]), float(period[place % PERIOD])
    return f"element {place} is {found:.9g}, not {right:.9g}"


def _sum(times: int, weight: int, device: torch.device) -> torch.Tensor:
    place = torch.arange(PERIOD, dtype=torch.float32, device=device)
    return times * place + weight * (1 + place % _WEIGHTS)


def _split(buffer: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Whole periods as rows, and what is left."""
    rows = buffer.numel() // PERIOD
    return buffer[: rows * PERIOD].view(rows, PERIOD), buffer[rows * PERIOD :]
