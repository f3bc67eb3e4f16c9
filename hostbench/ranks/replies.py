"""What came back from a rank, and who is to blame when not every rank is done. Pure.

A rank that is lost takes the collective of the others with it, so the first to complain is often
not the culprit: elastic's function mode blames the wrong rank in most runs. Therefore all replies
are looked at: a process that ended comes first, then an error of a rank's own, then an error inside
a collective. Of ranks that say nothing, those are behind that have entered the fewest collectives:
the others wait for them.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hostbench.processes import describe_exit


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
    """The process ended."""

    status: int
    """A wait status."""


Reply = Done | Skipped | Raised | Lost
Replies = Mapping[int, Reply]
"""Rank -> what came back, in the order in which it was noticed; silent ranks are missing."""


class RankFailure(Exception):
    """A rank was lost, raised or did not answer; the message names it."""

    def __init__(self, reason: str, traceback: str | None = None) -> None:
        super().__init__(reason)
        self.traceback = traceback


def failure(replies: Replies, entered: Sequence[int], waited_s: float) -> RankFailure | None:
    """The failure that the replies amount to; None when every rank is done or skipped.

    `entered` counts each rank's collectives; `waited_s` is how long silent ranks were given.
    """
    lost = [(rank, reply) for rank, reply in replies.items() if isinstance(reply, Lost)]
    if lost:  # NCCL's watchdog aborts the ranks that wait for a lost one
        rank, reply = min(lost, key=lambda pair: _is_abort(pair[1].status))
        return RankFailure(f"rank {rank} was lost: {describe_exit(reply.status)}")
    raised = [(rank, reply) for rank, reply in replies.items() if isinstance(reply, Raised)]
    if raised:
        rank, error = min(raised, key=lambda pair: (pair[1].in_collective, pair[0]))
        return RankFailure(f"rank {rank}: {error.text}", error.traceback)
    silent = [rank for rank in range(len(entered)) if rank not in replies]
    if not silent:
        return None
    behind = min(entered[rank] for rank in silent)
    named = [str(rank) for rank in silent if entered[rank] == behind]
    who = f"rank{'s' if len(named) > 1 else ''} {', '.join(named)}"
    return RankFailure(f"{who} did not answer within {waited_s:g} s")


def _is_abort(status: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGABRT
