"""The parent's side of a process group: fork the ranks, give orders, notice who fails.

The process that makes a pool must not have run any torch operation. Ranks stay in its process group
and die with it.
"""

import contextlib
import mmap
import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

from hostbench.core.errors import Unavailable
from hostbench.core.processes import state_of, why_alive
from hostbench.ranks.group import Seat
from hostbench.ranks.rank import serve
from hostbench.ranks.replies import Done, Lost, Raised, Reply, Skipped, Standing, failure

GRACE_S = 0.5
"""After the first bad reply: how long the other ranks may still tell who is to blame."""
ENDING_S = 5.0
"""After its pipe closed: how long a rank may take to give back its device and end."""
REAP_S = 2.0
"""A rank that is stuck in a driver dies when the driver lets it go: nobody waits longer for it."""
_POLL_S = 0.001
_COUNT_BYTES = 8


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment, and how long it was away when it was set."""

    at: float
    """By time.monotonic."""
    given_s: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds, seconds)


@dataclass(frozen=True, slots=True)
class _Member:
    pid: int
    channel: Connection


class Pool:
    """`num_ranks` processes, each with its own device of the kind that is named."""

    def __init__(self, device: str, num_ranks: int) -> None:
        self._entered, self._left = _counts(num_ranks), _counts(num_ranks)
        self._members: list[_Member] = []
        self._reaped: set[int] = set()
        rendezvous = os.memfd_create("hostbench-rendezvous")
        try:
            for rank in range(num_ranks):
                seat = Seat(
                    rank=rank,
                    num_ranks=num_ranks,
                    device=device,
                    rendezvous=rendezvous,
                    entered=self._entered,
                    left=self._left,
                )
                self._members.append(self._fork(seat))
        except OSError:
            self.kill()
            raise
        finally:
            os.close(rendezvous)

    def ask(self, deadline: Deadline, order: str, *arguments: Any) -> list[Any]:
        """Every rank's answer, by rank. Raises RankFailure, or Unavailable when one must skip.

        After either the pool can only be killed.
        """
        for member in self._members:
            with contextlib.suppress(OSError):  # a rank that is gone reads as lost below
                member.channel.send((order, arguments))
        replies = self._gather(deadline)
        skips = {n: reply.reason for n, reply in replies.items() if isinstance(reply, Skipped)}
        if skips and not any(isinstance(reply, Raised | Lost) for reply in replies.values()):
            rank, reason = min(skips.items())  # who is silent waits for it
            raise Unavailable(
                reason if len(skips) == len(self._members) else f"rank {rank}: {reason}"
            )
        wrong = failure(replies, self._standings(replies), deadline.given_s)
        if wrong is not None:
            raise wrong
        done = (replies[rank] for rank in range(len(self._members)))
        return [reply.value for reply in done if isinstance(reply, Done)]

    def kill(self) -> None:
        """End every rank, and reap those that can die."""
        living = [member.pid for member in self._members if member.pid not in self._reaped]
        for pid in living:
            os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + REAP_S
        while living and time.monotonic() < until:
            living = [pid for pid in living if not os.waitpid(pid, os.WNOHANG)[0]]
            time.sleep(_POLL_S if living else 0.0)
        for member in self._members:
            member.channel.close()
        self._members = []

    def _fork(self, seat: Seat) -> _Member:
        ours, theirs = Pipe()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for earlier in self._members:
                earlier.channel.close()
            serve(seat, theirs)
        theirs.close()
        return _Member(pid, ours)

    def _standings(self, replies: Mapping[int, Reply]) -> list[Standing]:
        """How far each rank has come, and what a silent one does now."""
        return [
            Standing(
                entered=self._entered[rank],
                left=self._left[rank],
                state=None if rank in replies else state_of(member.pid),
            )
            for rank, member in enumerate(self._members)
        ]

    def _gather(self, deadline: Deadline) -> dict[int, Reply]:
        waiting = {member.channel: rank for rank, member in enumerate(self._members)}
        replies: dict[int, Reply] = {}
        until = deadline.at
        while waiting:
            ready = wait(list(waiting), timeout=max(0.0, until - time.monotonic()))
            if not ready:
                break
            for channel in ready:
                assert isinstance(channel, Connection)
                rank = waiting.pop(channel)
                replies[rank] = reply = self._receive(self._members[rank], until)
                if isinstance(reply, Raised | Lost | Skipped):
                    until = min(until, time.monotonic() + GRACE_S)
        return replies

    def _receive(self, member: _Member, until: float) -> Reply:
        try:
            reply: Reply = member.channel.recv()
        except (EOFError, OSError):
            return self._lost(member.pid, until)
        return reply

    def _lost(self, pid: int, until: float) -> Lost:
        """How a rank ended whose pipe is closed. A driver may hold it for seconds, or for good."""
        until = min(until, time.monotonic() + ENDING_S)
        while True:
            reaped, status = os.waitpid(pid, os.WNOHANG)
            if reaped:
                self._reaped.add(pid)
                return Lost(status)
            if time.monotonic() >= until:
                return Lost(None, why_alive(pid))
            time.sleep(_POLL_S)


def _counts(num: int) -> memoryview:
    """`num` whole numbers, all 0, in memory that forked processes share."""
    return memoryview(mmap.mmap(-1, num * _COUNT_BYTES)).cast("q")
