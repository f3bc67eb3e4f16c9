"""The collective operations of torch.distributed, a row each. Knows no torch until one is called.

S and the factor of the bus bandwidth are those of NVIDIA's nccl-tests (doc/PERFORMANCE.md, and the
`*GetBw` of its sources): the algorithm bandwidth is S/t, the bus bandwidth S/t times the factor,
the part of S that each of n ranks must send or receive at least (of broadcast, reduce, gather and
scatter the root alone; of the uneven all-to-all on average). So it can be held against the speed of
a link, whatever n is; one rank alone has none.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

ROOT = 0
Pieces = Sequence[tuple[int | None, int, int]]
"""What a buffer holds, one after the other: (rank, or None for the sum over all; from which
position on; how many elements)."""
Layout = Callable[[int, int, int], Pieces]
"""Of r, a rank, n, the number of ranks, and s, the number of elements in S."""


def _ring(num: int) -> float:
    return (num - 1) / num


class Operation(NamedTuple):
    given: Layout | None
    """What a rank gives; None: its own S, in place of which it gets the result."""
    result: Layout
    """What it must have afterwards; empty: nothing, or what nothing defines."""
    call: Callable[[Any, Any], Callable[[], object]]
    """Of torch.distributed and a rank's `Exchange`."""
    gloo_sends: Callable[[int, int], float]
    """Of r and n: the part of S that a rank sends by gloo's algorithm."""
    factor: Callable[[int], float] = _ring
    """Of n."""


def splits(rank: int, num: int, count: int) -> list[int]:
    """How many elements a rank sends to each in the uneven all-to-all: 1 to n units. All rows and
    columns of the table add up to the same, so every rank sends and gets equally many."""
    unit = count // (num * (num + 1) // 2)
    return [unit * (1 + (rank + other) % num) for other in range(num)]


def _slices(rank: int, num: int, count: int) -> Pieces:
    rows = enumerate(splits(other, num, count) for other in range(num))
    return [(other, sum(row[:rank]), row[rank]) for other, row in rows]


def _children(rank: int, num: int) -> int:
    """In the binomial tree of gloo's broadcast: who has it sends it 1, 2, 4 ... ranks on."""
    steps = [1 << bit for bit in range((num - 1).bit_length())]
    return sum(rank < step and rank + step < num for step in steps)


OPERATIONS = {
    # S: one rank's buffer
    "all_reduce": Operation(
        None, lambda r, n, s: [(None, 0, s)],
        lambda dist, my: partial(dist.all_reduce, my.result),
        lambda r, n: 2 * _ring(n), lambda n: 2 * _ring(n),
    ),
    "broadcast": Operation(
        None, lambda r, n, s: [(ROOT, 0, s)],
        lambda dist, my: partial(dist.broadcast, my.result, ROOT), _children, lambda n: 1.0,
    ),
    "reduce": Operation(  # of the other ranks gloo leaves partial sums
        None, lambda r, n, s: [(None, 0, s)] * (r == ROOT),
        lambda dist, my: partial(dist.reduce, my.result, ROOT),
        lambda r, n: _ring(n) + (r != ROOT) / n, lambda n: 1.0,
    ),
    "all_to_all_single": Operation(
        lambda r, n, s: [(r, 0, s // n * n)],
        lambda r, n, s: [(other, s // n * r, s // n) for other in range(n)],
        lambda dist, my: partial(dist.all_to_all_single, my.result, my.given),
        lambda r, n: _ring(n),
    ),
    "all_to_all_uneven": Operation(
        lambda r, n, s: [(r, 0, sum(splits(r, n, s)))], _slices,
        lambda dist, my: partial(
            dist.all_to_all_single, my.result, my.given, *[splits(*my.size)] * 2
        ), lambda r, n: 1 - (1 + 2 * r % n) / (n * (n + 1) // 2), lambda n: 1 - 1 / (n | 1),
    ),
    # S: the buffer that has a block of each rank
    "all_gather_into_tensor": Operation(  # torch 2.13 has new names, and warns of older ones
        lambda r, n, s: [(r, 0, s // n)],
        lambda r, n, s: [(other, 0, s // n) for other in range(n)],
        lambda dist, my: partial(
            getattr(dist, "all_gather_single", dist.all_gather_into_tensor), my.result, my.given
        ), lambda r, n: _ring(n),
    ),
    "reduce_scatter_tensor": Operation(  # gloo sums everything on every rank, and cuts
        lambda r, n, s: [(r, 0, s // n * n)], lambda r, n, s: [(None, s // n * r, s // n)],
        lambda dist, my: partial(
            getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor), my.result, my.given
        ), lambda r, n: 2 * _ring(n),
    ),
    "gather": Operation(
        lambda r, n, s: [(r, 0, s // n)],
        lambda r, n, s: [(other, 0, s // n) for other in range(n) if r == ROOT],
        lambda dist, my: partial(dist.gather, my.given, my.blocks(my.result), ROOT),
        lambda r, n: (r != ROOT) / n,
    ),
    "scatter": Operation(
        lambda r, n, s: [(r, 0, s // n * n)] * (r == ROOT),
        lambda r, n, s: [(ROOT, s // n * r, s // n)],
        lambda dist, my: partial(dist.scatter, my.result, my.blocks(my.given), ROOT),
        lambda r, n: (r == ROOT) * _ring(n),
    ),
    "barrier": Operation(
        lambda r, n, s: [], lambda r, n, s: [], lambda dist, my: dist.barrier,
        lambda r, n: 0.0, lambda n: 0.0,
    ),
}  # fmt: skip


def nccl_sends(name: str, num: int, chosen: str | None) -> float | None:
    """The part of S that each of `num` ranks sends by the algorithm and protocol that nccl chose,
    such as `RING LL128`; None where ranks send differently much, or nothing is documented.

    By NVLS each sends its S into the switch, which sums, and the switch a rank's block of the sum.
    LL has a flag of 4 bytes beside each 4 of data, LL128 one of 8 beside each 120.
    """
    algorithm, _, protocol = (chosen or "").partition(" ")
    even = ("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor")
    share = OPERATIONS[name].factor(num) if algorithm == "RING" and name in even else None
    if (algorithm, name) == ("NVLS", "all_reduce"):
        share = 1 + 1 / num
    flags = {"SIMPLE": 1.0, "LL": 2.0, "LL128": 128 / 120}.get(protocol)
    return share * flags if share and flags else None
