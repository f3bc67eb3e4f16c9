"""A workload that fragments: batches of varying length, the same in every run.

Each batch allocates two tensors a layer, one in proportion to its length and one to the square of
it, and frees them in the opposite order, as a backward pass does. Of each a smaller tensor stays,
as results or a cache do, and one of those that stayed goes. So memory that was freed lies between
tensors that are still there, and the next batch has another length.
"""

import random
from dataclasses import dataclass

from hostbench.core.units import KIB

_SEED = 1
_BATCHES, _LAYERS, _STAYING = 40, 6, 24
_LENGTHS = 6.0, 10.0
"""Powers of two: from 64 to 1024."""
_BY_LENGTH, _STAYING_BYTES = 64 * KIB, 8 * KIB


@dataclass(frozen=True, slots=True)
class Demand:
    """One allocation of `nbytes`, or the end of the tensor of that number where it is 0."""

    number: int
    nbytes: int = 0


def demands() -> tuple[Demand, ...]:
    """From nothing to nothing."""
    rng = random.Random(_SEED)
    found: list[Demand] = []
    staying: list[int] = []

    def allocate(nbytes: int) -> int:
        found.append(Demand(len(found), nbytes))
        return len(found) - 1

    for _ in range(_BATCHES):
        length = round(2 ** rng.uniform(*_LENGTHS))
        mine = []
        for _ in range(_LAYERS):
            mine += [allocate(length * _BY_LENGTH), allocate(length * length // 2 * 4)]
        staying.append(allocate(length * _STAYING_BYTES))
        found += [Demand(number) for number in reversed(mine)]
        if len(staying) > _STAYING:
            found.append(Demand(staying.pop(rng.randrange(len(staying)))))
    return (*found, *(Demand(number) for number in staying))


def peak_bytes() -> int:
    """The most that is asked for at once."""
    held: dict[int, int] = {}
    peak = 0
    for change in demands():
        if change.nbytes:
            held[change.number] = change.nbytes
            peak = max(peak, sum(held.values()))
        else:
            del held[change.number]
    return peak
