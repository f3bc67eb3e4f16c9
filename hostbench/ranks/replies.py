"""What came back from a rank, and who is to blame when not every rank is done. Pure.

A rank that is lost takes the collective of the others with it, so the first to complain is often
not the culprit: elastic's function mode blames the wrong rank in most runs. Therefore all replies
are looked at: a process that ended comes first, then an error of a rank's own, then a rank that is
stopped, then an error inside a collective. Of ranks that say nothing, those come first that entered
the fewest collectives, for the others wait for them; then those still inside one that others left.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostbench.core.processes import describe_exit


@dataclass(frozen=True, slots=True)
class Done:
    """The order was carried out."""

    value: Any


@dataclass(frozen=True, slots=True)
class Skipped:
    """This machine cannot do it."""

    reason: str


@dataclass(frozen=True, slots=True)
class Raised:
    """The order raised; the rank lives on."""

    text: str
    traceback: str
    in_collective: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """The process ended, or closed its pipe and does not end."""

    status: int | None
    """A wait status; None of one that does not end."""
    why: str = ""
    """Why it does not, where that can be seen."""

    def __str__(self) -> str:
        if self.status is not None:
            return describe_exit(self.status)
        return "it closed its pipe, and its process does not end" + (self.why and f": {self.why}")


Reply = Done | Skipped | Raised | Lost
Replies = Mapping[int, Reply]
"""Rank -> what came back, in the order in which it was noticed; silent ranks are missing."""


_STOPPED = ("T", "t")


class RankFailure(Exception):
    """A rank was lost, raised or did not answer; the message names it."""

    def __init__(self, reason: str, traceback: str | None = None) -> None:
        super().__init__(reason)
        self.traceback = traceback


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a rank has come, as its parent sees it from outside."""

    entered: int
    """Collectives entered."""
    left: int
    """How many of them it had left again."""
    state: str | None = None
    """The kernel's letter for the process, looked at only where it says nothing."""

    @property
    def is_inside(self) -> bool:
        return self.left < self.entered


def failure(replies: Replies, standings: Sequence[Standing], waited_s: float) -> RankFailure | None:
    """The failure that the replies amount to; None when every rank is done or skipped.

    `standings` is by rank; `waited_s` is how long silent ranks were given.
    """
    lost = [(rank, reply) for rank, reply in replies.items() if isinstance(reply, Lost)]
    if lost:  # NCCL's watchdog aborts the ranks that wait for a lost one
        rank, reply = min(lost, key=lambda pair: _is_abort(pair[1].status))
        return RankFailure(f"rank {rank} was lost: {reply}")
    raised = [(rank, reply) for rank, reply in replies.items() if isinstance(reply, Raised)]
    silent = {rank: each for rank, each in enumerate(standings) if rank not in replies}
    stopped = [rank for rank, each in silent.items() if each.state in _STOPPED]
    if raised and not (stopped and all(error.in_collective for _, error in raised)):
        rank, error = min(raised, key=lambda pair: (pair[1].in_collective, pair[0]))
        return RankFailure(f"rank {rank}: {error.text}", error.traceback)
    return RankFailure(_silence(silent, stopped, waited_s)) if silent else None


def _silence(silent: Mapping[int, Standing], stopped: Sequence[int], waited_s: float) -> str:
    """Who keeps the others waiting."""
    said = f"did not answer within {waited_s:g} s"
    if stopped:
        verb = "are" if len(stopped) > 1 else "is"
        return f"{_named(stopped)} {verb} stopped (SIGSTOP or a debugger) and {said}"
    fewest = min(each.entered for each in silent.values())
    behind = [rank for rank, each in silent.items() if each.entered == fewest]
    inside = [rank for rank in behind if silent[rank].is_inside]
    stuck = [rank for rank in behind if silent[rank].state == "D"]
    if stuck:
        verb = "wait" if len(stuck) > 1 else "waits"
        return f"{_named(stuck)} {said}: {verb} inside the kernel (a driver or a disk)"
    if not inside or len(behind) == 1 or len(behind) < len(silent):
        return f"{_named(behind)} {said}"
    if len(inside) < len(behind):
        return f"{_named(inside)} {said}: inside a collective that others have left"
    return (
        f"{_named(behind)} {said}: all wait inside the same collective; which one is to blame "
        "cannot be told"
    )


def _named(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _is_abort(status: int | None) -> bool:
    """Or may be one: how it will end is not known."""
    return status is None or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT)
