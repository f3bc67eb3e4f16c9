"""What the ranks sum: whole numbers whose sum float32 holds exactly, in any order of adding.

Rank r contributes place + 2**r * (1 + place % 251) at each place of a period. Powers of two: no
rank left out, added twice or taken for another gives the same sum. The period is prime, so a block
that lands elsewhere does not match. The largest sum of 15 ranks is 9,207,317, below 2**24.

Summed again in place, every rank contributes the last sum. Over 1, 2, 4 or 8 ranks float32 holds
that exactly, too: up to 8 times a number of 20 bits needs 23, and a power of two times a number
needs no more bits than that number. So `times` sums in a row are num_ranks ** (times - 1) times the
first one, and each that was left out shows.
"""

import torch

PERIOD = 65521
MAX_RANKS = 15
MAX_TIMES = 32
"""Of 8 ranks: 8**31 times the largest sum is below 2**113."""
_WEIGHTS = 251


def share(rank: int, device: torch.device) -> torch.Tensor:
    """One period of what `rank` contributes. Shape: (PERIOD,), float32."""
    return _sum(1, 1 << rank, device)


def total(num_ranks: int, device: torch.device, times: int = 1) -> torch.Tensor:
    """One period of the sum over all ranks, after that many sums in place. Raises ValueError where
    float32 does not hold it exactly."""
    if num_ranks > MAX_RANKS:
        raise ValueError(f"{num_ranks} ranks: float32 sums are exact up to {MAX_RANKS}")
    if times > 1 and (num_ranks not in (1, 2, 4, 8) or times > MAX_TIMES):
        raise ValueError(
            f"{times} sums in place over {num_ranks} ranks: float32 holds them exactly of 1, 2, 4 "
            f"and 8 ranks, up to {MAX_TIMES}"
        )
    once = _sum(num_ranks, (1 << num_ranks) - 1, device)
    return once * float(num_ranks ** (times - 1))


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
