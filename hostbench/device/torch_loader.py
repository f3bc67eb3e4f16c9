"""torch's own DataLoader, on a dataset whose items cost a stated time.

Its workers are forked from the process that measures, and touch no device. They die with it, and
with the case: see `close`.
"""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from hostbench.core.errors import Unavailable
from hostbench.core.processes import die_with_parent
from hostbench.core.units import MIB, format_bytes
from hostbench.device.base import Buffer
from hostbench.device.loading import NUM_ITEMS, Loading

SHARED_MEMORY = "/dev/shm"
_IN_USE = 4
"""Batches that the loop or the device may hold still, beside those that are made ahead."""
PATTERN_BYTES = 256 * MIB
"""Of which items are parts: more than caches hold, so that an item comes from memory."""
_STRIDE_BYTES = 157_001
"""From the start of one item to that of the next, and then from the pattern's start again: more
than the largest item, and so that no two hold the same."""


class Items(Dataset[torch.Tensor]):
    """The dataset: an item is a part of `pattern`, after so much CPU time."""

    def __init__(self, loading: Loading, pattern: torch.Tensor) -> None:
        self._loading, self._pattern = loading, pattern

    def __len__(self) -> int:
        return NUM_ITEMS

    def item(self, index: int) -> torch.Tensor:
        start = index * _STRIDE_BYTES % (len(self._pattern) - self._loading.item_bytes)
        return self._pattern[start : start + self._loading.item_bytes]

    def __getitem__(self, asked: tuple[int, float]) -> torch.Tensor:
        index, seconds = asked
        end_s = time.thread_time() + seconds
        while time.thread_time() < end_s:
            pass
        return self.item(index)


class TorchLoader:
    """See the module's docstring. Raises Unavailable where shared memory is too small for what the
    workers make ahead."""

    def __init__(self, loading: Loading, pattern: Buffer) -> None:
        """`pattern` holds PATTERN_BYTES as `Device.fill_pattern` writes them."""
        self._loading = loading
        self._items = Items(loading, pattern)
        self._running: Any = None
        self._loader: Any = None
        has_workers = loading.num_workers > 0
        if has_workers:
            _require_shared_memory((loading.ahead + _IN_USE) * loading.batch_bytes)
        with _quiet():
            self._loader = DataLoader(
                self._items,
                batch_sampler=_Order(loading),
                num_workers=loading.num_workers,
                pin_memory=loading.pinned,
                prefetch_factor=loading.prefetch_factor if has_workers else None,
                persistent_workers=loading.persistent and has_workers,
                multiprocessing_context="fork" if has_workers else None,
                worker_init_fn=_in_worker,
            )

    def __iter__(self) -> Iterator[Buffer]:
        with _quiet():
            self._running = iter(self._loader)
        return (batch.view(-1) for batch in self._running)

    def expected(self, batch: int) -> Buffer:
        return torch.cat([self._items.item(item) for item in self._loading.items(batch)])

    def close(self) -> None:
        """torch ends its workers when their iterator is no longer there; an exception that is being
        handled may hold it, and a case must not leave processes to the next."""
        end = getattr(self._running, "_shutdown_workers", None)
        workers = getattr(self._running, "_workers", ())
        self._running = self._loader = None
        if end is not None:
            with suppress(RuntimeError):  # torch tells of a killed worker at any moment; it goes on
                end()
        for worker in workers:
            worker.join()


class _Order:
    """The batch sampler: all items in order, each with what it costs."""

    def __init__(self, loading: Loading) -> None:
        self._loading = loading

    def __iter__(self) -> Iterator[list[tuple[int, float]]]:
        loading = self._loading
        numbers = count() if loading.num_batches is None else range(loading.num_batches)
        for batch in numbers:
            seconds = loading.seconds(batch) / loading.batch_size
            yield [(item, seconds) for item in loading.items(batch)]


def _in_worker(_: int) -> None:
    """A worker lives no longer than the process that takes its batches, however that one ends."""
    die_with_parent()


@contextmanager
def _quiet() -> Iterator[None]:
    """torch warns where there are more workers than cores, which the facts say; Python from 3.12 on
    where a process with threads forks, which every DataLoader's process does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _require_shared_memory(nbytes: int) -> None:
    """Workers hand over batches in shared memory; where it is full they are killed by SIGBUS."""
    try:
        facts = os.statvfs(SHARED_MEMORY)
    except OSError:
        return  # for torch to say
    free = facts.f_bavail * facts.f_frsize
    if free < nbytes:
        raise Unavailable(
            f"needs {format_bytes(nbytes)} of shared memory, {SHARED_MEMORY} has "
            f"{format_bytes(free)}: start the container with --shm-size=1g"
        )
