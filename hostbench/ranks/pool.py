"""The parent's side of a process group: fork the ranks, give orders, notice who fails.

The process that makes a pool must not have run any torch operation. Ranks stay in its process group
and die with it.
"""

import contextlib
import os
import re
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import torch.distributed as dist

from hostbench.core.errors import Unavailable
from hostbench.core.processes import state_of, why_alive
from hostbench.ranks.blame import Done, Lost, Raised, RankState, Reply, Skipped, failure
from hostbench.ranks.group import Counters, Seat
from hostbench.ranks.rank import serve

GRACE_S = 0.5
"""After the first bad reply: how long the other ranks may still tell who is to blame."""
LEAVE_S = 10.0
"""After its pipe closed: how long a rank may take to give back its device and end."""
REAP_S = 2.0
"""A rank that is stuck in a driver dies when the driver lets it go: nobody waits longer for it."""
STACK_S = 0.2
"""How long a silent rank may take to write where it is."""
_POLL_S = 0.001
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment, and how long it was away when it was set."""

    at: float
    """By time.monotonic."""
    given_s: float

    @classmethod
    def after(cls, seconds: float) -> "Deadline":
        return cls(time.monotonic() + seconds, seconds)


class Child:
    """A rank's process, as its parent on the same host has it."""

    def __init__(self, seat: Seat, siblings: Sequence["Child"] = ()) -> None:
        """Fork it. `siblings` are the children of this process that were forked before."""
        self._seat, self._status = seat, None
        self._stack = os.memfd_create("hostbench-stack")
        self.channel, theirs = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for channel in (self.channel, *(child.channel for child in siblings)):
                channel.close()  # else a rank's pipe would not end with its parent's side of it
            serve(seat, theirs, self._stack)
        theirs.close()

    _status: int | None

    def receive(self, until: float) -> Reply:
        """The next reply, once there is one; or how the process ended whose pipe is closed, which a
        driver may hold for seconds, or for good."""
        try:
            reply: Reply = self.channel.recv()
            return reply
        except (EOFError, OSError):
            until = min(until, time.monotonic() + LEAVE_S)
        while not self.has_ended():
            if time.monotonic() >= until:
                return Lost(None, why_alive(self.pid))
            time.sleep(_POLL_S)
        return Lost(self._status)

    def has_ended(self) -> bool:
        if self._status is None:
            reaped, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if reaped else None
        return self._status is not None

    def kill(self) -> None:
        if not self.has_ended():
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        """Close the pipe, by whose end it leaves."""
        self.channel.close()
        if self._stack >= 0:
            os.close(self._stack)
            self._stack = -1

    def state(self, is_silent: bool) -> RankState:
        """How far it has come, and what it does now where it says nothing."""
        entered, left, operation = self._seat.counters.read(self._seat.rank)
        state = partial(RankState, entered=entered, left=left, operation=operation)
        if not is_silent:
            return state()
        frames = self._frames()
        own = [(name, line) for name, line in frames if not _is_ours(name)]
        return state(
            state=state_of(self.pid),
            line="{}:{}".format("/".join(own[0][0].split("/")[-2:]), own[0][1]) if own else "",
            in_torch="/torch/distributed/" in frames[0][0] if frames else None,
        )

    def _frames(self) -> list[tuple[str, int]]:
        """File and line of what its main thread is in, the innermost first; none where it does not
        tell, as one that is stopped."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)
        until, size = time.monotonic() + STACK_S, -1
        while time.monotonic() < until and not 0 < size == os.fstat(self._stack).st_size:
            size = os.fstat(self._stack).st_size
            time.sleep(10 * _POLL_S)
        main = os.pread(self._stack, 1 << 16, 0).decode(errors="replace").rpartition("\n\n")[2]
        return [(name, int(line)) for name, line in _FRAME.findall(main)]


def _is_ours(file: str) -> bool:
    return "/torch/" in file or "/hostbench/ranks/" in file


class Pool:
    """The ranks of one host, each with its own device of the kind that is named."""

    def __init__(self, device: str, backend: str, num_ranks: int, deadline_s: float) -> None:
        counters = Counters(num_ranks)
        self._children: list[Child] = []
        rendezvous = os.memfd_create("hostbench-rendezvous")
        try:
            for rank in range(num_ranks):
                seat = Seat(
                    rank=rank,
                    num_ranks=num_ranks,
                    local_rank=rank,
                    num_local=num_ranks,
                    device=device,
                    backend=backend,
                    store=_meeting(rendezvous, num_ranks),
                    counters=counters,
                    deadline_s=deadline_s,
                )
                self._children.append(Child(seat, self._children))
        except OSError:
            self.close()
            raise
        finally:
            os.close(rendezvous)

    def ask(self, deadline: Deadline, order: str, *arguments: Any) -> list[Any]:
        """Every rank's answer, by rank. Raises RankFailure, or Unavailable when one must skip.

        After either the pool can only be closed.
        """
        for child in self._children:
            with contextlib.suppress(OSError):  # a rank that is gone reads as lost below
                child.channel.send((order, arguments))
        replies = self._gather(deadline)
        skips = {n: reply.reason for n, reply in replies.items() if isinstance(reply, Skipped)}
        is_bad = any(isinstance(reply, Raised | Lost) for reply in replies.values())
        done = [reply.value for _, reply in sorted(replies.items()) if isinstance(reply, Done)]
        if len(done) == len(self._children):
            return done
        states = [child.state(rank not in replies) for rank, child in enumerate(self._children)]
        for rank, child in enumerate(self._children):
            if rank not in replies:
                child.kill()  # it would not leave by the end of its pipe
        if skips and not is_bad:
            rank, reason = min(skips.items())  # who is silent waits for it
            alone = "" if len(skips) == len(self._children) else f"rank {rank}: "
            raise Unavailable(f"{alone}{reason}")
        names = [f"rank {rank}" for rank in range(len(self._children))]
        wrong = failure(replies, states, deadline.given_s, names)
        assert wrong is not None
        raise wrong

    def close(self) -> None:
        """Let every rank leave, kill those that do not, and reap those that can die."""
        for child in self._children:
            child.close()
        living = self._wait(self._children, LEAVE_S)
        for child in living:
            child.kill()
        self._wait(living, REAP_S)
        self._children = []

    def _wait(self, children: Sequence[Child], seconds: float) -> list[Child]:
        """Those that still live then."""
        until = time.monotonic() + seconds
        while children := [child for child in children if not child.has_ended()]:
            if time.monotonic() >= until:
                break
            time.sleep(_POLL_S)
        return list(children)

    def _gather(self, deadline: Deadline) -> dict[int, Reply]:
        waiting = {child.channel: rank for rank, child in enumerate(self._children)}
        replies: dict[int, Reply] = {}
        until = deadline.at
        while waiting:
            ready = wait(list(waiting), timeout=max(0.0, until - time.monotonic()))
            if not ready:
                break
            for channel in ready:
                assert isinstance(channel, Connection)
                rank = waiting.pop(channel)
                replies[rank] = reply = self._children[rank].receive(until)
                if not isinstance(reply, Done):
                    until = min(until, time.monotonic() + GRACE_S)
        return replies


def _meeting(file: int, num_ranks: int) -> Callable[[], Any]:
    """The store of ranks that meet in a file which exists in memory only: no port, no name, no
    network, and nothing to clean up. gloo then talks over the loopback interface."""

    def store() -> Any:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        return dist.FileStore(f"/proc/self/fd/{file}", num_ranks)  # type: ignore[attr-defined]

    return store
