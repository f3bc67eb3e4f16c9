"""What ranks send each other: exact, and different for everything that can go wrong."""

import itertools
import random

import pytest
import torch

from hostbench.core.errors import Unavailable
from hostbench.ranks.pattern import MAX_PRIME, Pattern

CPU = torch.device("cpu")
TYPES = {torch.float32: (1, 2, 3, 4, 8, 15, 1024), torch.bfloat16: (1, 2, 3, 4, 8, 15)}
WORLDS = [(dtype, num) for dtype, nums in TYPES.items() for num in nums]


def filled(pattern: Pattern, rank: int | None, length: int, start: int = 0) -> torch.Tensor:
    return pattern.tensor(((rank, start, length),))


def is_right(pattern: Pattern, buffer: torch.Tensor, rank: int | None = None) -> bool:
    return pattern.first_wrong(buffer, ((rank, 0, buffer.numel()),)) is None


@pytest.mark.parametrize(("dtype", "num_ranks"), WORLDS)
def test_the_sum_of_the_shares_is_exact_in_any_order(dtype: torch.dtype, num_ranks: int) -> None:
    pattern = Pattern(num_ranks, dtype, CPU)
    length = 2 * pattern.prime + 5
    ranks = [*range(num_ranks)]
    random.Random(1).shuffle(ranks)
    buffer = torch.zeros(length, dtype=dtype)
    for rank in ranks:
        buffer += filled(pattern, rank, length)
    assert is_right(pattern, buffer)


@pytest.mark.parametrize(("dtype", "num_ranks"), [(torch.float32, 4096), (torch.bfloat16, 16)])
def test_more_ranks_than_the_type_has_exact_sums_of_are_refused(
    dtype: torch.dtype, num_ranks: int
) -> None:
    with pytest.raises(Unavailable, match=f"no exact sums of {num_ranks} ranks"):
        Pattern(num_ranks, dtype, CPU)


@pytest.mark.parametrize(("dtype", "num_ranks"), [world for world in WORLDS if world[1] < 1024])
def test_a_wrong_set_of_ranks_shows(dtype: torch.dtype, num_ranks: int) -> None:
    """One left out, one twice, one for another: also in a buffer of a few elements."""
    pattern = Pattern(num_ranks, dtype, CPU)
    shares = [filled(pattern, rank, 5).float() for rank in range(num_ranks)]
    total = torch.stack(shares).sum(0)
    for one, other in itertools.permutations(range(num_ranks), 2):
        swapped = total - shares[one] + shares[other]
        assert not is_right(pattern, swapped), (one, other)
        assert not is_right(pattern, shares[one], other)
    for share in shares:
        for wrong in (total - share, total + share):
            assert (wrong != filled(pattern, None, 5).float()).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("rank", [None, 0, 3])
def test_a_block_that_lies_elsewhere_shows(dtype: torch.dtype, rank: int | None) -> None:
    pattern = Pattern(4, dtype, CPU)
    right = filled(pattern, rank, 4096)
    swapped = torch.cat([right[1024:2048], right[:1024], right[2048:]])
    for wrong in (right.roll(1), right.roll(1024), swapped):
        assert not is_right(pattern, wrong, rank)
    assert torch.equal(filled(pattern, rank, 96, start=4000), right[4000:])


@pytest.mark.parametrize("num_ranks", [1, 2, 4, 8, 32])
@pytest.mark.parametrize("by_pairs", [True, False])
def test_sums_of_sums_are_exact_and_each_left_out_shows(num_ranks: int, by_pairs: bool) -> None:
    times = 20
    pattern = Pattern(num_ranks, torch.float32, CPU, times)
    add = _by_pairs if by_pairs else _in_turn
    last = filled(pattern, 0, MAX_PRIME)
    buffer = add([filled(pattern, rank, MAX_PRIME) for rank in range(num_ranks)])
    for _ in range(times - 1):
        last, buffer = buffer, add([buffer] * num_ranks)
    assert is_right(pattern, buffer)
    if num_ranks > 1:
        assert not is_right(pattern, last)
        assert not is_right(pattern, add([last] * (num_ranks - 1)))


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


@pytest.mark.parametrize(("num_ranks", "times"), [(3, 2), (64, 20), (1024, 2)])
def test_sums_of_sums_that_are_not_exact_are_refused(num_ranks: int, times: int) -> None:
    with pytest.raises(Unavailable, match="holds no exact sums"):
        Pattern(num_ranks, torch.float32, CPU, times)


@pytest.mark.parametrize("wrong", [1.0, float("nan")])
def test_every_element_is_compared_and_the_first_wrong_one_is_named(wrong: float) -> None:
    pattern = Pattern(4, torch.float32, CPU)
    pieces = ((2, 7, 3), (None, 1, 2 * MAX_PRIME + 5), (0, 0, 1))
    right = pattern.tensor(pieces)
    for index in (0, 2, 3, MAX_PRIME + 9, right.numel() - 2, right.numel() - 1):
        buffer = right.clone()
        buffer[index] += wrong
        buffer[index + 1 :] += 1
        message = pattern.first_wrong(buffer, pieces)
        assert message == f"element {index} is {buffer[index]:.9g}, not {right[index]:.9g}"
