"""What ranks send each other: exact, and different for everything that can go wrong."""

import itertools
import random
from collections.abc import Callable

import pytest
import torch

from hostbench.core.errors import Unavailable
from hostbench.families.exchange import MAX_PRIME, Pattern

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
@pytest.mark.parametrize("add", [sum, lambda parts: torch.stack(parts).sum(0)])
def test_sums_of_sums_are_exact_and_each_left_out_shows(
    num_ranks: int, add: Callable[[list[torch.Tensor]], torch.Tensor]
) -> None:
    """However torch adds them."""
    times = 20
    pattern = Pattern(num_ranks, torch.float32, CPU, times)
    last = filled(pattern, 0, MAX_PRIME)
    buffer = add([filled(pattern, rank, MAX_PRIME) for rank in range(num_ranks)])
    for _ in range(times - 1):
        last, buffer = buffer, add([buffer] * num_ranks)
    assert is_right(pattern, buffer)
    if num_ranks > 1:
        assert not is_right(pattern, last)
        assert not is_right(pattern, add([last] * (num_ranks - 1)))


@pytest.mark.parametrize(
    ("num_ranks", "dtype", "times"),
    [(4096, "float32", 1), (16, "bfloat16", 1), (3, "float32", 2), (64, "float32", 20),
     (1024, "float32", 2)],
)  # fmt: skip
def test_sums_that_are_not_exact_are_refused(num_ranks: int, dtype: str, times: int) -> None:
    with pytest.raises(Unavailable, match=rf"over {num_ranks} ranks .* exact in torch.{dtype}$"):
        Pattern(num_ranks, getattr(torch, dtype), CPU, times)


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
