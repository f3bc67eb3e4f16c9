"""A rank: one process that does what its parent orders until its channel closes."""

import contextlib
import faulthandler
import os
import signal
import socket
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, cast

import torch

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.lanes import Lane
from hostbench.core.processes import die_with_parent
from hostbench.core.records import FindingValue
from hostbench.device.base import Device
from hostbench.device.errors import end_of_traceback, in_words
from hostbench.device.traced import CallLog, Traced
from hostbench.measure import measure
from hostbench.measure.workload import Workload, prepare, registry
from hostbench.ranks.backends import ASYNCHRONOUS
from hostbench.ranks.blame import Done, Raised, Reply, Skipped
from hostbench.ranks.group import CollectiveError, RankGroup, Seat, is_oversubscribed, join

RankReading = tuple[float, float]
"""End to end, and until the call returned: seconds per step."""
_BYTES_SENT = 200
"""Offset in Linux's struct tcp_info of tcpi_bytes_sent, since 4.19: payload, with what was sent
again."""


class Channel(Protocol):
    """What orders come from and replies go to; the ends of a pipe are such."""

    def recv(self) -> Any:
        """The next order: (name of a method of `Rank`, arguments). Raises EOFError at the end."""

    def send(self, reply: Any, /) -> None: ...


class Built(NamedTuple):
    """What a rank tells of a case that it has built."""

    is_checked: bool
    no_device_clock: str | None
    """Why there is none; None where there is one."""
    sends: int | None
    """Bytes per step by the documented algorithm."""


class Finished(NamedTuple):
    """What a rank tells after the last reading of a case."""

    wrong: str | None
    """What is wrong with its data."""
    memory: dict[str, int]
    """Of the steps, without what it takes to build and check."""
    findings: dict[str, FindingValue]


def serve(seat: Seat, channel: Channel, stack: int | None = None) -> NoReturn:
    """The whole life of a rank; never returns. At SIGUSR1 it writes the stacks of its threads into
    the file descriptor `stack`."""
    code = 1
    try:
        die_with_parent()
        if stack is not None:
            faulthandler.register(signal.SIGUSR1, file=stack, all_threads=True)
        torch.set_num_threads(1)  # a forked pool of threads would hang
        rank = Rank(seat)
        with contextlib.suppress(EOFError):
            while True:
                name, arguments = channel.recv()
                channel.send(obey(rank, name, arguments))
        code = 0
    finally:
        os._exit(code)


def obey(rank: "Rank", name: str, arguments: tuple[Any, ...]) -> Reply:
    """The reply to an order."""
    try:
        return Done(getattr(rank, name)(*arguments))
    except Unavailable as reason:
        return Skipped(str(reason))
    except (Exception, SystemExit) as error:
        in_collective = isinstance(error, CollectiveError)
        kind = type(error.__cause__ if in_collective else error).__name__
        where = rank.work.raised_at(error) if rank.work else ""
        return Raised(
            text=in_words(error, where, kind),
            traceback=end_of_traceback(error),
            in_collective=in_collective,
        )


@dataclass(slots=True)
class Rank:
    """Every public method is an order."""

    seat: Seat
    device: Device = field(init=False)
    group: RankGroup = field(init=False)
    work: Workload | None = None
    prepared: measure.Prepared = field(init=False)

    def join(self) -> bool:
        """Whether its host has more ranks than cores."""
        self.group = join(self.seat)
        self.device = self.group.device
        return is_oversubscribed(self.seat)

    def build(self, case: Case) -> Built:
        self.work = registry()[case.workload]
        self.prepared = prepare(self.work, self.device, case)
        self.device.reset_peak()
        reason = None if self.prepared.one_stream else "the step has streams of its own"
        if self.group.backend not in ASYNCHRONOUS:
            reason = f"{self.group.backend}'s calls wait: the host's clock has all of their time"
        return Built(self.prepared.verify is not None, reason, self.prepared.sends)

    def iterate(self, count: int) -> list[RankReading]:
        """`count` readings; before each one, outside the timer, all ranks wait for each other."""
        prepared, device, group = self.prepared, self.device, self.group
        readings = []
        for _ in range(count):
            self._meet()
            readings.append(
                measure.reading(prepared.step, prepared.depth, device.now, group.synchronize)
            )
        return readings

    def device_clock(self, count: int, delay_s: float) -> list[float]:
        """`count` readings on the device, seconds per step: between two events behind a delay in
        which every rank has enqueued its steps, and a sum at whose end they begin together."""
        seconds = []
        for _ in range(count):
            self._meet()
            start, end = self.device.event(), self.device.event()
            self.device.delay(delay_s)
            self.group.line_up()
            start.record()
            for _ in range(self.prepared.depth):
                self.prepared.step()
            end.record()
            self.group.synchronize()
            seconds.append(end.seconds_since(start) / self.prepared.depth)
        return seconds

    def bytes_sent(self) -> int | None:
        """By this process over TCP so far, without headers; None where its ranks talk otherwise."""
        return _tcp_bytes_sent() if self.group.backend == "gloo" else None

    def trace(self, case: Case) -> list[Lane]:
        """One reading of the case lane by lane, built anew so that the calls of the host are noted;
        it begins when all ranks are there. Then leave nothing of the case."""
        assert self.work is not None
        self.group.log = log = CallLog(self.device.now)
        device = cast(Any, Traced(self.device, log))
        try:
            self.prepared = prepared = prepare(self.work, device, case)

            def one_reading() -> None:
                for _ in range(prepared.depth):
                    prepared.step()
                log.call("synchronize", "wait", self.group.synchronize)

            self._meet()
            one_reading()
            self._meet()
            lanes: list[Lane] = device.trace(one_reading)
        finally:
            self.group.log = None
        del self.prepared
        self.device.reset()
        return lanes

    def finish(self) -> Finished:
        """Check the data; then leave nothing of the case."""
        memory = self.device.memory_stats()
        wrong = self.prepared.verify() if self.prepared.verify else None
        findings = measure.findings_of(self.prepared)
        del self.prepared
        self.device.reset()
        return Finished(wrong, memory, findings)

    def _meet(self) -> None:
        """What has to be so before each reading."""
        self.prepared.get_ready(self.device)
        self.group.barrier()


def _tcp_bytes_sent() -> int:
    """Of the TCP sockets of this process; by TCP_INFO of each, which needs no rights."""
    total = 0
    for file in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            if not file.is_socket():
                continue
            with socket.socket(fileno=os.dup(int(file.name))) as own:
                if own.family in (socket.AF_INET, socket.AF_INET6):
                    info = own.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                    total += int(struct.unpack_from("Q", info, _BYTES_SENT)[0])
    return total
