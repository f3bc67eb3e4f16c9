"""A rank's end of the process group, by torch.distributed, and what its parent sees of it.

What a workload calls is torch.distributed itself; `RankGroup.counted` makes it a step of which the
parent sees, from outside and while the rank hangs, how often it was entered and left.
"""

import mmap
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from hostbench.core.errors import Unavailable
from hostbench.device import num_devices, open_device
from hostbench.device.base import Device, Step
from hostbench.device.traced import CallLog
from hostbench.measure.workload import ASYNCHRONOUS
from hostbench.ranks.blame import RankState


class CollectiveError(RuntimeError):
    """A collective failed: often because another rank did, so this rank is the last to blame."""


class Counters:
    """The collectives of each rank, in memory that forked processes share: how many it has entered,
    how many of them it has left again, and the name of the last."""

    _SIZE, _NUMBERS = 64, 16

    def __init__(self, num_ranks: int) -> None:
        self._memory = memoryview(mmap.mmap(-1, num_ranks * self._SIZE))

    def of(self, rank: int) -> tuple[memoryview, memoryview]:
        """[entered, left] as whole numbers, and the bytes of the name, of that length."""
        row = self._memory[rank * self._SIZE : (rank + 1) * self._SIZE]
        return row[: self._NUMBERS].cast("q"), row[self._NUMBERS :]

    def read(self, rank: int) -> RankState:
        (entered, left), name = self.of(rank)
        operation = bytes(name).rstrip(b"\0").decode(errors="replace")
        return RankState(entered=entered, left=left, operation=operation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """How a rank finds the others and its device."""

    rank: int
    num_ranks: int
    local_rank: int
    """Among the ranks of this host: the index of its GPU."""
    num_local: int
    """Ranks on this host."""
    device: str
    backend: str
    store: Callable[[], Any]
    """Makes, in the rank, the torch.distributed store in which the ranks meet."""
    counters: Counters
    """Shared with the parent; a row for each rank, of which this host's are filled."""
    deadline_s: float
    """After so long torch itself ends a collective that hangs."""


class RankGroup:
    """The default process group, as this rank sees it."""

    def __init__(self, seat: Seat, device: Device) -> None:
        self.rank, self.num_ranks = seat.rank, seat.num_ranks
        self.backend, self.device = seat.backend, device
        self.log: CallLog | None = None
        """Where the calls of steps that are built now are noted, while a case is traced."""
        self._numbers, self._name = seat.counters.of(seat.rank)
        self._flag = torch.zeros(1, device=device.torch_device)
        self.line_up = self.counted("barrier", lambda: dist.all_reduce(self._flag))
        """Enqueues a sum of one element: on the device no rank goes on before all are there."""

    def counted(self, operation: str, call: Callable[[], object]) -> Step:
        """`call`, a collective of torch.distributed, as a step; raises CollectiveError.

        About half a microsecond more than `call`. `operation` is what it is called where it fails.
        """
        numbers, name = self._numbers, self._name
        text = operation.encode()[: len(name)].ljust(len(name), b"\0")
        returns_early = self.backend in ASYNCHRONOUS

        def step() -> None:
            name[:] = text
            numbers[0] += 1
            try:
                call()
            except Exception as error:
                raise CollectiveError(str(error)) from error
            if not returns_early:
                numbers[1] = numbers[0]

        log = self.log
        if log is None:
            return step
        return lambda: log.call(operation.replace("_", " "), "collective", step)

    def barrier(self) -> None:
        """Wait for the own device and for every rank. dist.barrier guesses the device and takes
        longer."""
        self.line_up()
        self.synchronize()

    def synchronize(self) -> None:
        """Block until the device, and so every collective called so far, has finished."""
        self.device.synchronize()
        self._numbers[1] = self._numbers[0]

    def agree(self, is_so: bool) -> bool:
        """Whether it is so on every rank, each of which has to ask."""
        self._flag.fill_(is_so)
        self.counted("agreement", lambda: dist.all_reduce(self._flag, dist.ReduceOp.MIN))()
        self.synchronize()
        return bool(self._flag.item())


_current: RankGroup | None = None


def current() -> RankGroup:
    """This process's group. Raises RuntimeError outside a rank."""
    if _current is None:
        raise RuntimeError("this process is no rank; declare `ranks` in @workload")
    return _current


def join(seat: Seat) -> RankGroup:
    """Open the rank's own device, bound to its NUMA node, and join the others there.

    Raises Unavailable where there are fewer GPUs than ranks, and where torch cannot have such a
    group of this backend.
    """
    global _current
    reason = _lacks(seat)
    if reason is not None:
        raise Unavailable(reason)
    device = open_device(seat.device, seat.local_rank)
    device.settle()
    dist.init_process_group(
        seat.backend,
        store=seat.store(),
        rank=seat.rank,
        world_size=seat.num_ranks,
        timeout=timedelta(seconds=seat.deadline_s),
        device_id=device.torch_device if seat.backend == "nccl" else None,
    )
    _current = RankGroup(seat, device)
    device.agree = _current.agree
    return _current


def _lacks(seat: Seat) -> str | None:
    """Why there is no such group. Without any GPU the device itself says what is broken."""
    num = num_devices(seat.device)
    if seat.device == "cuda" and 0 < num < seat.num_local:
        return f"needs {seat.num_local} GPUs, this machine has {num}"
    if not getattr(dist, f"is_{seat.backend}_available", lambda: False)():
        return f"this torch is built without {seat.backend}"
    if seat.backend == "nccl" and seat.device != "cuda":
        return "nccl needs a GPU for each rank"
    if seat.backend == "mpi" and "OMPI_COMM_WORLD_SIZE" not in os.environ:
        return "ranks of mpi are started by mpirun: mpirun -n 2 python -m hostbench.ranks"
    return None
