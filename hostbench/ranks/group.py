"""A process group by torch.distributed. Sole owner of it.

The ranks of one host meet in a file that exists in memory only: no port, no name, no network, and
nothing to clean up. gloo talks over the loopback interface.
"""

import os
from dataclasses import dataclass

import torch
import torch.distributed as dist

from hostbench.core.errors import Unavailable
from hostbench.device import num_devices, open_device
from hostbench.device.base import Device
from hostbench.ranks import pattern
from hostbench.ranks.backends import BACKENDS


class CollectiveError(RuntimeError):
    """A collective failed: often because another rank did, so this rank is the last to blame."""


class TorchGroup:
    """One rank's end of a process group, as a workload sees it by `membership.current()`. Buffers
    are float32, on the rank's own device."""

    def __init__(self, seat: "Seat", device: Device, one: torch.Tensor) -> None:
        self.rank = seat.rank
        self.num_ranks = seat.num_ranks
        self._device = device
        self._entered, self._left = seat.entered, seat.left
        self._returns_early = BACKENDS[seat.device].returns_early
        self._one = one

    def fill_share(self, buffer: torch.Tensor) -> None:
        """Write what this rank contributes: whole numbers that depend on rank and position."""
        pattern.write(buffer, pattern.share(self.rank, buffer.device))

    def wrong_sum(self, buffer: torch.Tensor, times: int = 1) -> str | None:
        """What is wrong with the sum of all shares in `buffer`, or with what that many sums in
        place make of them; None when each element is exact."""
        return pattern.first_wrong(buffer, pattern.total(self.num_ranks, buffer.device, times))

    def all_reduce(self, buffer: torch.Tensor) -> None:
        """Replace `buffer` by the sum over ranks, in place. May return before it is there."""
        self._entered[self.rank] += 1
        try:
            dist.all_reduce(buffer)
        except Exception as error:
            raise CollectiveError(str(error)) from error
        if not self._returns_early:
            self._left[self.rank] = self._entered[self.rank]

    def barrier(self) -> None:
        """Wait for the own device, then for every rank, by a sum of one element: dist.barrier
        guesses the device and takes longer."""
        self.all_reduce(self._one)
        self.synchronize()

    def synchronize(self) -> None:
        """Block until the collectives called so far have finished."""
        if self._returns_early:
            self._device.synchronize()
            self._left[self.rank] = self._entered[self.rank]


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """What a rank needs to take its place."""

    rank: int
    num_ranks: int
    device: str
    rendezvous: int
    """File descriptor of the file in which the ranks meet."""
    entered: memoryview
    """Per rank, how many collectives it has entered: shared with the pool's parent."""
    left: memoryview
    """Per rank, how many of them are over."""


def take(seat: Seat) -> tuple[Device, TorchGroup]:
    """Open the rank's own device and join the others there.

    Raises Unavailable where there are fewer devices than ranks and they cannot share, and where
    torch is built without the backend.
    """
    backend = BACKENDS[seat.device]
    num = num_devices(seat.device)
    reason = backend.refusal(seat.num_ranks, num) if num else None
    if reason is not None:
        raise Unavailable(reason)
    device = open_device(seat.device, seat.rank)
    device.settle()
    one: torch.Tensor = device.create("empty", 4, on_host=False)  # nobody reads its value
    if not getattr(dist, f"is_{backend.name}_available", lambda: False)():
        raise Unavailable(f"this torch is built without {backend.name}")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    meeting = f"/proc/self/fd/{seat.rendezvous}"
    dist.init_process_group(
        backend.name,
        store=dist.FileStore(meeting, seat.num_ranks),  # type: ignore[attr-defined]
        rank=seat.rank,
        world_size=seat.num_ranks,
        device_id=one.device if backend.own_device else None,
    )
    return device, TorchGroup(seat, device, one)


def is_oversubscribed(device: str, num_ranks: int) -> bool:
    """Whether ranks have to share: more of them than cores."""
    return not BACKENDS[device].own_device and num_ranks > num_devices(device)
