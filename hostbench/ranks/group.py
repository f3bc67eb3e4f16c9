"""A rank's end of torch.distributed's process group. Workloads call that itself, in steps of
`RankGroup.counted`: while a rank hangs its parent sees how many it has entered and left."""

import ctypes
import mmap
import os
from collections.abc import Callable
from ctypes import c_char, c_int64
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

import torch
import torch.distributed as dist

from hostbench.core.errors import CollectiveError, Unavailable
from hostbench.device import num_devices, open_device
from hostbench.device.base import Device, Step, too_few
from hostbench.measure.workload import ASYNCHRONOUS


class Counters(ctypes.Structure):
    """Of a rank's collectives how many it has entered and left, and the last one's name."""

    entered: int
    left: int
    operation: bytes
    _fields_ = (("entered", c_int64), ("left", c_int64), ("operation", c_char * 48))

    @classmethod
    def shared(cls) -> Self:
        """In memory that forked processes share."""
        return cls.from_buffer(mmap.mmap(-1, ctypes.sizeof(cls)))


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """What a case asks of a group of ranks."""

    device: str
    backend: str
    num_ranks: int
    deadline_s: float  # after so long torch itself ends a collective that hangs


@dataclass(frozen=True, slots=True)
class RankConfig:
    """How a rank finds the others and its device."""

    group: GroupConfig
    rank: int
    store: Callable[[], Any]  # makes, in the rank, the torch store in which the ranks meet
    local_rank: int  # the index of its GPU
    num_local: int  # ranks on this host
    counters: Counters = field(default_factory=Counters.shared)


class RankGroup:
    """The default process group, as this rank sees it."""

    def __init__(self, config: RankConfig, device: Device) -> None:
        self.rank, self.num_ranks = config.rank, config.group.num_ranks
        self.backend, self.device = config.group.backend, device
        self._counters = config.counters
        self._flag = torch.zeros(1, device=device.torch_device)
        self.line_up = self.counted("barrier", lambda: dist.all_reduce(self._flag))
        """Enqueues a sum of one element: on the device no rank goes on before all are there."""

    def counted(self, operation: str, call: Callable[[], object]) -> Step:
        """`call`, a collective of torch.distributed, as a step that takes about half a microsecond
        more; `operation` is its name where it fails. Raises CollectiveError."""
        counters, name = self._counters, operation.encode()[:48]
        returns_early = self.backend in ASYNCHRONOUS

        def step() -> None:
            counters.operation = name
            counters.entered += 1
            try:
                call()
            except Exception as error:
                raise CollectiveError(str(error)) from error
            if not returns_early:
                counters.left = counters.entered

        return step

    def barrier(self) -> None:
        """Wait for the own device and every rank. dist.barrier is slower and guesses the device."""
        self.line_up()
        self.synchronize()

    def synchronize(self) -> None:
        """Block until the device, and so every collective called so far, has finished."""
        self.device.synchronize()
        self._counters.left = self._counters.entered

    def agree(self, is_so: bool) -> bool:
        """Whether it is so on every rank, each of which has to ask."""
        self._flag.fill_(is_so)
        self.counted("agreement", lambda: dist.all_reduce(self._flag, dist.ReduceOp.MIN))()
        self.synchronize()
        return bool(self._flag.item())


_BLOCKING = "TORCH_NCCL_BLOCKING_WAIT"
_current: RankGroup | None = None


def rank_group() -> RankGroup:
    """The group of the rank that this process is. Raises RuntimeError where it is none."""
    if _current is None:
        raise RuntimeError("this process is no rank; declare `ranks` in @workload")
    return _current


def join(config: RankConfig) -> RankGroup:
    """Open the rank's own device, bound to its NUMA node, and join the others there. Raises
    Unavailable where there are too few GPUs, or torch has no such group."""
    global _current
    group = config.group
    num = num_devices(group.device)
    if group.device == "cuda" and 0 < num < config.num_local:  # without any the device says why
        raise Unavailable(too_few(group.device, config.num_local, num))
    if not getattr(dist, f"is_{group.backend}_available", lambda: False)():
        raise Unavailable(f"this torch is built without {group.backend}")
    if group.backend == "nccl" and group.device != "cuda":
        raise Unavailable("nccl needs a GPU for each rank")
    if group.backend == "nccl" and os.environ.get(_BLOCKING, "0") not in ("", "0"):
        raise Unavailable(f"{_BLOCKING} is set: each call would wait for its collective; unset it")
    if group.backend == "mpi" and "OMPI_COMM_WORLD_SIZE" not in os.environ:
        started = "mpirun -n 2 python -m hostbench.ranks"
        raise Unavailable(f"ranks of mpi are started by mpirun: {started}")
    device = open_device(group.device, config.local_rank)
    device.settle()
    dist.init_process_group(
        group.backend,
        store=config.store(),
        rank=config.rank,
        world_size=group.num_ranks,
        timeout=timedelta(seconds=group.deadline_s),
        device_id=device.torch_device if group.backend == "nccl" else None,
    )
    _current = RankGroup(config, device)
    device.agree = _current.agree
    return _current
