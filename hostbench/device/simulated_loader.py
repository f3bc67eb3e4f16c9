"""A DataLoader on the simulated device's clock: when each batch is there, to the last digit.

The rules are torch's. `prefetch_factor` batches are asked of each worker at the start of an epoch,
and one more whenever a batch is taken; batches go to the workers in turn, and come in order. A
worker makes its batches one after the other. Batches that shall be pinned are copied to pinned
memory one after the other by a thread of the host's process; without workers the loop does that
itself, as it loads. Workers have a core each, and handing over a batch takes no time; to start one
takes the host `start_worker_s`, and to end those of an epoch nothing.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hostbench.device.loading import Loading
from hostbench.device.simulated_parts import SimulatedBuffer

if TYPE_CHECKING:
    from hostbench.device.simulated import SimulatedDevice


class SimulatedLoader:
    """See the module's docstring."""

    def __init__(self, device: "SimulatedDevice", loading: Loading) -> None:
        self._device, self._loading = device, loading
        self._has_workers = False

    def __iter__(self) -> Iterator[SimulatedBuffer]:
        device, loading = self._device, self._loading
        if loading.num_workers and not (self._has_workers and loading.persistent):
            device.spend(loading.num_workers * device.link.start_worker_s)
            self._has_workers = True
        return self._in_line() if loading.num_workers == 0 else self._ahead(device.host_s)

    def expected(self, batch: int) -> SimulatedBuffer:
        return self._batch(batch, pinned=False)

    def close(self) -> None:
        self._has_workers = False

    def _in_line(self) -> Iterator[SimulatedBuffer]:
        """The loop loads each batch itself."""
        device, loading = self._device, self._loading
        batch = 0
        while batch != loading.num_batches:
            device.spend(loading.seconds(batch) + self._pinning_s())
            yield self._batch(batch, pinned=loading.pinned)
            batch += 1

    def _ahead(self, start_s: float) -> Iterator[SimulatedBuffer]:
        device, loading = self._device, self._loading
        asked, free_s = [start_s] * loading.ahead, [start_s] * loading.num_workers
        pinned_s = start_s
        batch = 0
        while batch != loading.num_batches:
            worker, pace = batch % loading.num_workers, device.pace.factor
            begin_s = max(asked[batch % loading.ahead], free_s[worker])
            ready_s = free_s[worker] = begin_s + loading.seconds(batch) * pace
            if loading.pinned:
                ready_s = pinned_s = max(ready_s, pinned_s) + self._pinning_s() * pace
            device.host_s = max(device.host_s, ready_s)
            asked[batch % loading.ahead] = device.host_s
            yield self._batch(batch, pinned=loading.pinned)
            batch += 1

    def _pinning_s(self) -> float:
        """Of one batch; the memory comes from a cache."""
        loading = self._loading
        return loading.batch_bytes / self._device.link.host_bytes_per_s if loading.pinned else 0.0

    def _batch(self, batch: int, *, pinned: bool) -> SimulatedBuffer:
        made = SimulatedBuffer(self._loading.batch_bytes, on_host=True, pinned=pinned)
        now_s = self._device.host_s
        made.contents.write(now_s, now_s, now_s, ("batch", batch))
        return made
