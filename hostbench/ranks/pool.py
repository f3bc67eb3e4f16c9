"""The parent's side of the ranks: fork them, give orders, notice who fails. It must not have run
any torch operation; ranks stay in its group of processes and die with it."""

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, cast

import torch.distributed as dist

from hostbench.core.processes import describe_exit, is_stopped
from hostbench.ranks import collective_logs
from hostbench.ranks.blame import RankState, Replies, Reply, answers
from hostbench.ranks.rank import GroupConfig, RankConfig, serve

GRACE_S = 0.5  # after the first bad reply: for the others to tell who is to blame
LEAVE_S = 10.0  # after its pipe closed: for a rank to give back its device and end
REAP_S = 2.0  # after SIGKILL: one that is stuck in a driver dies when the driver lets it go
_POLL_S = 0.001


class Child:
    """A rank's process, as its parent on the same host has it."""

    def __init__(self, config: RankConfig, siblings: Sequence["Child"] = ()) -> None:
        """Fork it. `siblings` are the children of this process that were forked before."""
        self.config = config
        self._status: int | None = None
        self.channel, theirs = Pipe()
        self._recorder, its_recorder = Pipe()
        self.pid = os.fork()
        if self.pid == 0:
            for channel in (self.channel, *(child.channel for child in siblings)):
                channel.close()  # else a rank's pipe would not end with its parent's side of it
            serve(config, theirs, its_recorder)
        theirs.close()
        its_recorder.close()

    def order(self, name: str, arguments: tuple[Any, ...]) -> None:
        """A rank that is gone reads as lost when it is heard."""
        with contextlib.suppress(OSError):
            self.channel.send((name, arguments))

    def receive(self, until: float) -> Reply:
        """The next reply; or how the process ended whose pipe is closed. A driver may hold it."""
        with contextlib.suppress(EOFError, OSError):
            return cast(Reply, self.channel.recv())
        if not _have_ended([self], min(until, time.monotonic() + LEAVE_S)):
            why = "it closed its pipe, and its process does not end"
            return Reply(kind="lost", text=why, by_others=True)
        status = self._status or 0  # gloo aborts where another rank's sizes differ
        aborted = os.waitstatus_to_exitcode(status) == -signal.SIGABRT
        return Reply(kind="lost", text=describe_exit(status), by_others=aborted)

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
        if not self.channel.closed:
            self.channel.close()
            self._recorder.close()

    def state(self, is_silent: bool) -> RankState:
        """How far it has come, and what it does now where it says nothing."""
        counters = self.config.counters
        name = counters.operation.decode(errors="replace")
        state = RankState(entered=counters.entered, left=counters.left, operation=name)
        if is_silent and is_stopped(self.pid):  # it answers nothing
            return replace(state, is_stopped=True)
        return replace(state, recorded=collective_logs.ask(self._recorder)) if is_silent else state


def end(children: Sequence[Child]) -> None:
    """Let them leave, kill those that do not, and reap those that can die."""
    for act, seconds in ((Child.close, LEAVE_S), (Child.kill, REAP_S)):
        for child in children:
            act(child)
        _have_ended(children, time.monotonic() + seconds)


def _have_ended(children: Sequence[Child], until: float) -> bool:
    """Whether all have, once they have or at that moment."""
    while not (ended := all(child.has_ended() for child in children)) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return ended


class Pool:
    """The ranks of one host, each with its own device of the kind that is named."""

    def __init__(self, group: GroupConfig) -> None:
        self._patience_s = group.patience_s
        num, rendezvous = group.num_ranks, os.memfd_create("hostbench-rendezvous")
        self.names = [f"rank {rank}" for rank in range(num)]
        store = partial(_store, f"/proc/self/fd/{rendezvous}", num)
        self._children: list[Child] = []
        try:
            for rank in range(num):
                config = RankConfig(group, rank, store, local_rank=rank, num_local=num)
                self._children.append(Child(config, self._children))
        finally:
            os.close(rendezvous)

    def ask(self, until: float, order: str, *arguments: Any) -> list[Any]:
        """Every rank's answer, by rank, given until then (time.monotonic). Raises RankFailure, or
        Unavailable when one must skip; after either the pool can only be closed."""
        for child in self._children:
            child.order(order, arguments)
        waiting = {child.channel: rank for rank, child in enumerate(self._children)}
        replies: dict[int, Reply] = {}
        while waiting and (ready := wait(list(waiting), max(0.0, until - time.monotonic()))):
            for channel in ready:
                assert isinstance(channel, Connection)
                rank = waiting.pop(channel)
                replies[rank] = reply = self._children[rank].receive(until)
                if reply.kind != "done":
                    until = min(until, time.monotonic() + GRACE_S)
        return answers(replies, self._states, self._patience_s, self.names)

    def close(self) -> None:
        end(self._children)

    def _states(self, replies: Replies) -> list[RankState]:
        """Then end who is silent: not before all have been seen, for the others fail with it."""
        states = [child.state(rank not in replies) for rank, child in enumerate(self._children)]
        for rank, child in enumerate(self._children):
            if rank not in replies:
                child.kill()
        return states


def _store(path: str, num_ranks: int) -> Any:
    """The ranks of one host meet in a file in memory; gloo talks over the loopback interface."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return dist.FileStore(path, num_ranks)  # type: ignore[attr-defined]
