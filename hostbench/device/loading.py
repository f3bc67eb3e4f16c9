"""What is loaded, and how: a map-style dataset, the DataLoader on it, and what a loop takes of it.

Every item has contents of its own and is asked for in a fixed order, so that what arrived can be
held against what was to arrive. An item costs CPU time of the thread that loads it: where there are
fewer cores than workers, workers take longer, as when they decode images.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

NUM_ITEMS = 4096
"""Of the dataset; then it begins again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """A dataset and its DataLoader, in torch's words."""

    batch_size: int
    item_bytes: int
    item_s: tuple[float, ...]
    """CPU seconds of each item of the first batch, of the second, ..., and then from the start."""
    num_workers: int = 0
    pinned: bool = False
    prefetch_factor: int = 2
    """Batches that each worker makes ahead; without workers nothing is made ahead."""
    num_batches: int | None = None
    """Of an epoch; None: it has no end."""
    persistent: bool = True
    """Workers outlive the epoch."""

    @property
    def batch_bytes(self) -> int:
        return self.batch_size * self.item_bytes

    @property
    def ahead(self) -> int:
        """Batches that are made while nobody takes one."""
        return self.num_workers * self.prefetch_factor

    def __iter__(self) -> Iterator[list[tuple[int, float]]]:
        """Of each batch of an epoch the items, each with what it costs: torch's batch sampler."""
        for batch in islice(count(), self.num_batches):
            seconds = self.seconds(batch) / self.batch_size
            yield [(item, seconds) for item in self.items(batch)]

    def seconds(self, batch: int) -> float:
        """CPU seconds of a batch's items."""
        return self.batch_size * self.item_s[batch % len(self.item_s)]

    def items(self, batch: int) -> list[int]:
        first = batch * self.batch_size
        return [item % NUM_ITEMS for item in range(first, first + self.batch_size)]
