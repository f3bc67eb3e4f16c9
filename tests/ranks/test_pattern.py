"""What ranks sum: exact, and different for everything that can go wrong."""

import pytest
import torch

from hostbench.ranks import pattern

CPU = torch.device("cpu")
LENGTHS = (1, 1024, pattern.PERIOD - 1, pattern.PERIOD, 3 * pattern.PERIOD + 5)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 8, pattern.MAX_RANKS])
def test_the_sum_of_the_shares_is_exact(num_ranks: int) -> None:
    buffer = torch.zeros(LENGTHS[-1])
    part = torch.empty_like(buffer)
    for rank in range(num_ranks):
        pattern.write(part, pattern.share(rank, CPU))
        buffer += part
    total = pattern.total(num_ranks, CPU)
    assert pattern.first_wrong(buffer, total) is None
    assert float(total.max()) < 1 << 24
    with pytest.raises(ValueError, match="exact"):
        pattern.total(pattern.MAX_RANKS + 1, CPU)


@pytest.mark.parametrize("num_ranks", [1, 2, 4, 8])
def test_sums_of_sums_are_exact_in_whatever_order_they_are_added(num_ranks: int) -> None:
    """One after the other, and by pairs; one sum left out, or one rank in one of them, shows."""
    times = pattern.MAX_TIMES
    shares = [pattern.share(rank, CPU) for rank in range(num_ranks)]
    for add in (_in_turn, _by_pairs):
        buffer, last = add(shares), shares[0]
        for _ in range(times - 1):
            last, buffer = buffer, add([buffer] * num_ranks)
        total = pattern.total(num_ranks, CPU, times)
        assert pattern.first_wrong(buffer, total) is None
        if num_ranks > 1:
            assert pattern.first_wrong(last, total) is not None
            lost = add([last] * (num_ranks - 1))
            assert pattern.first_wrong(lost, total) is not None


def _in_turn(parts: list[torch.Tensor]) -> torch.Tensor:
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total


def _by_pairs(parts: list[torch.Tensor]) -> torch.Tensor:
    if len(parts) == 1:
        return parts[0].clone()
    half = len(parts) // 2
    return _by_pairs(parts[:half]) + _by_pairs(parts[half:])


@pytest.mark.parametrize(("num_ranks", "times"), [(3, 2), (15, 2), (8, pattern.MAX_TIMES + 1)])
def test_sums_of_sums_that_are_not_exact_are_refused(num_ranks: int, times: int) -> None:
    with pytest.raises(ValueError, match="float32 holds them exactly"):
        pattern.total(num_ranks, CPU, times)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("wrong", [1.0, float("nan")])
def test_every_element_is_compared(length: int, wrong: float) -> None:
    period = pattern.total(4, CPU)
    right = torch.empty(length)
    pattern.write(right, period)
    for place in {0, length // 2, length - 1}:
        buffer = right.clone()
        buffer[place] += wrong
        said = pattern.first_wrong(buffer, period)
        assert said is not None and said.startswith(f"element {place} is ")


def test_no_wrong_set_of_ranks_gives_the_same_sum() -> None:
    """Of four ranks: one left out, one twice, two for one."""
    total = pattern.total(4, CPU)
    for ranks in [(0, 1, 2), (0, 1, 2, 2), (1, 1, 2, 3), (0, 0, 0, 3), (0, 1, 2, 3, 3)]:
        buffer = torch.stack([pattern.share(rank, CPU) for rank in ranks]).sum(0)
        assert pattern.first_wrong(buffer, total) is not None, ranks
