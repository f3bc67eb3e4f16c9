"""The collective operations, a row each. Knows no torch until one is called.

How bytes are counted, and the factor of the bus bandwidth, are those of NVIDIA's nccl-tests
(doc/PERFORMANCE.md and the `*GetBw` of its sources): the algorithm bandwidth is S/t, the bus
bandwidth S/t times the factor. Each of n ranks must send or receive at least that part of S (of
broadcast, reduce, gather and scatter the root alone; of the uneven all-to-all on the average), so
the figure can be held against the speed of a link, whatever n is; one rank alone has none.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from hostbench.ranks.pattern import Pieces

ROOT = 0


class Operation(NamedTuple):
    counts: str
    """What S is."""
    factor: Callable[[int], float]
    """Number of ranks -> what the algorithm bandwidth is multiplied by."""
    given: str
    result: str
    """A rank's buffers before and after, by the names of `layouts`. `own` is worked on in place."""
    call: Callable[[Any, Any], object]
    """Gets torch.distributed and a rank's buffers (a `Collective`)."""
    gloo_sends: Callable[[int, int], float] = lambda rank, num: 0.0
    """(rank, number of ranks) -> the part of S that it sends by gloo's algorithm."""


def layouts(rank: int, num: int, count: int) -> dict[str, "Pieces"]:
    """What a rank's buffers hold, where S has `count` elements; nothing: it has none of that name,
    or what is in it is undefined. What no number of ranks divides is left out."""
    ranks, is_root, block = range(num), rank == ROOT, count // num
    rows = [splits(other, num, count) for other in ranks]
    return {
        "none": [],
        "own": [(rank, 0, count)],
        "root's": [(ROOT, 0, count)],
        "sum": [(None, 0, count)],
        "sum at root": [(None, 0, count)] * is_root,
        "block": [(rank, 0, block)],
        "blocks": [(rank, 0, num * block)],
        "blocks at root": [(rank, 0, num * block)] * is_root,
        "block of each": [(other, 0, block) for other in ranks],
        "block of each at root": [(other, 0, block) for other in ranks if is_root],
        "slice of root's": [(ROOT, rank * block, block)],
        "slice of sum": [(None, rank * block, block)],
        "slice of each": [(other, rank * block, block) for other in ranks],
        "uneven": [(rank, 0, sum(rows[rank]))],
        "uneven slices": [(other, sum(rows[other][:rank]), rows[other][rank]) for other in ranks],
    }


def splits(rank: int, num: int, count: int) -> list[int]:
    """How many elements a rank sends to each in the uneven all-to-all: 1 to n units. All rows and
    columns of the table add up to the same, so every rank sends and gets equally many."""
    unit = count // (num * (num + 1) // 2)
    return [unit * (1 + (rank + other) % num) for other in range(num)]


def _ring(num: int) -> float:
    return (num - 1) / num


def _children(rank: int, num: int) -> int:
    """In the binomial tree of gloo's broadcast: who has it sends it 1, 2, 4 ... ranks on."""
    steps = [1 << bit for bit in range((num - 1).bit_length())]
    return sum(rank < step and rank + step < num for step in steps)


def _newest(dist: Any, name: str, older: str) -> Callable[..., object]:
    """torch 2.13 has new names, and warns at every call of the older ones."""
    function: Callable[..., object] = getattr(dist, name, None) or getattr(dist, older)
    return function


OPERATIONS = {
    "all_reduce": Operation(
        "one rank's buffer", lambda num: 2 * _ring(num), "own", "sum",
        lambda dist, mine: dist.all_reduce(mine.result), lambda rank, num: 2 * _ring(num),
    ),
    "broadcast": Operation(
        "one rank's buffer", lambda num: 1.0, "own", "root's",
        lambda dist, mine: dist.broadcast(mine.result, ROOT), _children,
    ),
    "reduce": Operation(  # of the others gloo leaves partial sums
        "one rank's buffer", lambda num: 1.0, "own", "sum at root",
        lambda dist, mine: dist.reduce(mine.result, ROOT),
        lambda rank, num: _ring(num) + (rank != ROOT) / num,
    ),
    "all_gather_into_tensor": Operation(
        "the whole output", _ring, "block", "block of each",
        lambda dist, mine: _newest(dist, "all_gather_single", "all_gather_into_tensor")(
            mine.result, mine.given
        ), lambda rank, num: _ring(num),
    ),
    "reduce_scatter_tensor": Operation(  # gloo sums everything on every rank, and cuts
        "the whole input", _ring, "blocks", "slice of sum",
        lambda dist, mine: _newest(dist, "reduce_scatter_single", "reduce_scatter_tensor")(
            mine.result, mine.given
        ), lambda rank, num: 2 * _ring(num),
    ),
    "all_to_all_single": Operation(
        "one rank's whole buffer", _ring, "blocks", "slice of each",
        lambda dist, mine: dist.all_to_all_single(mine.result, mine.given),
        lambda rank, num: _ring(num),
    ),
    "all_to_all_uneven": Operation(
        "one rank's whole buffer", _ring, "uneven", "uneven slices",
        lambda dist, mine: dist.all_to_all_single(
            mine.result, mine.given, mine.splits, mine.splits
        ), lambda rank, num: 1 - (1 + 2 * rank % num) / (num * (num + 1) // 2),
    ),
    "gather": Operation(
        "the root's whole output", _ring, "block", "block of each at root",
        lambda dist, mine: dist.gather(mine.given, mine.blocks(mine.result), ROOT),
        lambda rank, num: (rank != ROOT) / num,
    ),
    "scatter": Operation(
        "the root's whole input", _ring, "blocks at root", "slice of root's",
        lambda dist, mine: dist.scatter(mine.result, mine.blocks(mine.given), ROOT),
        lambda rank, num: (rank == ROOT) * _ring(num),
    ),
    "barrier": Operation(
        "nothing", lambda num: 0.0, "none", "none", lambda dist, mine: dist.barrier()
    ),
}  # fmt: skip
