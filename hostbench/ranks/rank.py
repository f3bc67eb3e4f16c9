"""A rank: one forked process that does what the pool's parent says until its pipe closes."""

import contextlib
import os
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, NoReturn, cast

import torch

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.lanes import Lane
from hostbench.core.processes import die_with_parent
from hostbench.device.base import Device
from hostbench.device.errors import end_of_traceback, in_words
from hostbench.device.traced import CallLog, Traced
from hostbench.measure import measure
from hostbench.measure.workload import Workload, prepare, registry
from hostbench.ranks.group import CollectiveError, Seat, TorchGroup, take
from hostbench.ranks.membership import join
from hostbench.ranks.replies import Done, Raised, Reply, Skipped

RankReading = tuple[float, float]
"""End to end, and until the call returned: seconds per step."""


def serve(seat: Seat, channel: Connection) -> NoReturn:
    """The whole life of a rank; never returns. Orders are (name of a `_Rank` method, arguments)."""
    code = 1
    try:
        die_with_parent()
        torch.set_num_threads(1)  # a forked pool of threads would hang
        rank = _Rank(seat)
        with contextlib.suppress(EOFError):
            while True:
                name, arguments = channel.recv()
                channel.send(_obey(rank, name, arguments))
        code = 0
    finally:
        os._exit(code)


def _obey(rank: "_Rank", name: str, arguments: tuple[Any, ...]) -> Reply:
    try:
        return Done(getattr(rank, name)(*arguments))
    except Unavailable as reason:
        return Skipped(str(reason))
    except Exception as error:
        in_collective = isinstance(error, CollectiveError)
        kind = type(error.__cause__ if in_collective else error).__name__
        where = rank.work.raised_at(error) if rank.work else ""
        return Raised(
            text=in_words(error, where, kind),
            traceback=end_of_traceback(error),
            in_collective=in_collective,
        )


@dataclass(slots=True)
class _Rank:
    """Every public method is an order."""

    seat: Seat
    device: Device = field(init=False)
    group: TorchGroup = field(init=False)
    work: Workload | None = None
    prepared: measure.Prepared | None = None

    def take_seat(self) -> None:
        self.device, self.group = take(self.seat)
        join(self.group)

    def build(self, case: Case) -> bool:
        """Whether the case will check its data."""
        self.work = registry()[case.workload]
        self.prepared = prepare(self.work, self.device, case)
        self.device.reset_peak()
        return self.prepared.verify is not None

    def iterate(self, count: int) -> list[RankReading]:
        """`count` readings; before each one, outside the timer, all ranks wait for each other."""
        prepared = self.prepared
        assert prepared is not None
        readings = []
        for _ in range(count):
            prepared.get_ready(self.device)
            self.group.barrier()
            readings.append(
                measure.reading(
                    prepared.step, prepared.depth, self.device.now, self.group.synchronize
                )
            )
        return readings

    def trace(self, case: Case) -> list[Lane]:
        """One reading of the case lane by lane, built anew on a device and in a group whose calls
        are noted; it begins when all ranks are there. Then leave nothing of the case."""
        assert self.work is not None
        log = CallLog(self.device.now)
        device, group = (cast(Any, Traced(one, log)) for one in (self.device, self.group))
        join(group)
        prepared = prepare(self.work, device, case)

        def one_reading() -> None:
            for _ in range(prepared.depth):
                prepared.step()
            group.synchronize()

        def all_ready() -> None:
            prepared.get_ready(self.device)
            self.group.barrier()

        try:
            all_ready()
            one_reading()
            all_ready()
            lanes: list[Lane] = device.trace(one_reading)
        finally:
            join(self.group)
        self.device.reset()
        return lanes

    def finish(self) -> tuple[str | None, dict[str, int]]:
        """What is wrong with the data, and the memory that the steps used, without what it takes to
        build and check; then leave nothing of the case."""
        assert self.prepared is not None
        memory = self.device.memory_stats()
        wrong = self.prepared.verify() if self.prepared.verify else None
        self.prepared = None
        self.device.reset()
        return wrong, memory
