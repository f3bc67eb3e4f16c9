"""A workload that fragments: batches of varying length, the same in every run.

Each batch allocates two tensors a layer, one in proportion to its length and one to the square of
it, and frees them in the opposite order, as a backward pass does. Of each a smaller tensor stays,
as results or a cache do, and one of those that stayed goes. So memory that was freed lies between
tensors that are still there, and the next batch has another length.
"""

import random

from hostbench.core.units import KIB

_SEED = 1
_BATCHES, _LAYERS, _STAYING = 40, 6, 24
_LENGTHS = 6.0, 10.0
"""Powers of two: from 64 to 1024."""
_BY_LENGTH, _STAYING_BYTES = 64 * KIB, 8 * KIB


def demands() -> list[tuple[int, int]]:
    """(number of a tensor, its bytes where it is allocated, 0 where it ends): from nothing to
    nothing."""
    rng = random.Random(_SEED)
    changes: list[tuple[int, int]] = []
    staying: list[int] = []

    def allocate(nbytes: int) -> int:
        changes.append((len(changes), nbytes))
        return len(changes) - 1

    for _ in range(_BATCHES):
        length = round(2 ** rng.uniform(*_LENGTHS))
        own = []
        for _ in range(_LAYERS):
            own += [allocate(length * _BY_LENGTH), allocate(length * length // 2 * 4)]
        staying.append(allocate(length * _STAYING_BYTES))
        changes += [(number, 0) for number in reversed(own)]
        if len(staying) > _STAYING:
            changes.append((staying.pop(rng.randrange(len(staying))), 0))
    return [*changes, *((number, 0) for number in staying)]


def peak_bytes() -> int:
    """The most that is asked for at once."""
    held: dict[int, int] = {}
    peak = 0
    for number, nbytes in demands():
        held[number] = nbytes
        peak = max(peak, sum(held.values()))
    return peak
