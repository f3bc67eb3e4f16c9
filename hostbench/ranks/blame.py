"""What came back from the ranks, and who is to blame when not every one is done. Pure.

A rank that is lost takes the collective of the others with it, so the first to complain is often
not the culprit: elastic's function mode blames the wrong rank in most runs. Therefore all replies
are looked at: a process that ended comes first, then an error of a rank's own, then a rank that is
stopped, then what others may have caused: an abort, an error inside a collective. Of ranks that say
nothing those come first that entered the fewest collectives, for the others wait for them; among
these the one that is not inside torch's collective, that is inside another operation than the
others, or that others have left behind.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hostbench.core.errors import Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What an order came to at one rank."""

    kind: Literal["done", "skipped", "raised", "lost"]
    """`skipped`: this machine cannot do it. `lost`: the process ended, or closed its pipe."""
    value: Any = None
    """The answer of one that is done."""
    text: str = ""
    """Why it skips, what it raised, how it ended."""
    traceback: str | None = None
    by_others: bool = False
    """Another rank may be to blame: it raised inside a collective, or its process was aborted, as
    NCCL's watchdog does, or does not end."""


Replies = Mapping[int, Reply]
"""Rank -> what came back, in the order in which it was noticed; silent ranks are missing."""


class RankFailure(Exception):
    """A rank was lost, raised or did not answer; the message names it."""

    def __init__(self, reason: str, traceback: str | None = None) -> None:
        super().__init__(reason)
        self.traceback = traceback


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """How far a rank has come, as its parent sees it from outside."""

    entered: int
    """Collectives entered, since it joined its group."""
    left: int
    """How many of them it had left again."""
    operation: str = ""
    """The last one entered."""
    state: str | None = None
    """The kernel's letter for the process; it and the next two of one that says nothing only."""
    line: str = ""
    """Where in a file outside of torch and of hostbench's ranks its main thread is."""
    in_torch: bool | None = None
    """Whether that called torch.distributed and has not come back; None where nobody knows."""

    def __str__(self) -> str:
        """`inside all_reduce, its collective 7`, and the line."""
        where = (
            f"{'inside' if self.left < self.entered else 'after'} {self.operation}, its collective "
        )
        since = f"{where}{self.entered}" if self.entered else "before its first collective"
        return f"{since} ({self.line})" if self.line else since


def answers(
    replies: Replies,
    states: Callable[[Replies], Sequence[RankState]],
    waited_s: float,
    names: Sequence[str],
) -> list[Any]:
    """Every rank's answer, by rank. Raises RankFailure, and Unavailable where one must skip.

    `states` is asked only then, and `names` (`rank 3 on node-b`) are by rank; `waited_s` is how
    long silent ranks were given.
    """
    done = [reply.value for _, reply in sorted(replies.items()) if reply.kind == "done"]
    if len(done) == len(names):
        return done
    at_ranks = states(replies)
    skips = {rank: reply.text for rank, reply in replies.items() if reply.kind == "skipped"}
    if skips and len(done) + len(skips) == len(replies):
        rank, reason = min(skips.items())  # who is silent waits for it
        raise Unavailable(reason if len(skips) == len(names) else f"{names[rank]}: {reason}")
    raise failure(replies, at_ranks, waited_s, names)


def failure(
    replies: Replies, states: Sequence[RankState], waited_s: float, names: Sequence[str]
) -> RankFailure:
    """The failure that replies amount to of which not all are done, and none is skipped alone."""
    silent = {rank: state for rank, state in enumerate(states) if rank not in replies}
    stopped = [rank for rank, state in silent.items() if state.state in ("T", "t")]
    bad = [rank for rank, reply in replies.items() if reply.kind in ("lost", "raised")]
    bad.sort(key=lambda rank: (replies[rank].by_others, replies[rank].kind))
    if bad and not (stopped and replies[bad[0]].by_others):
        rank, reply = bad[0], replies[bad[0]]
        lost = " was lost" if reply.kind == "lost" else ""
        return RankFailure(f"{names[rank]}{lost}: {reply.text}; {states[rank]}", reply.traceback)
    ranks, why = (stopped, "stopped (SIGSTOP or a debugger); ") if stopped else _silent(silent)
    named = ", ".join(names[rank] for rank in ranks)
    where = ", ".join(dict.fromkeys(str(silent[rank]) for rank in ranks))
    return RankFailure(f"{named} did not answer within {waited_s:g} s: {why}{where}")


def _silent(silent: Mapping[int, RankState]) -> tuple[list[int], str]:
    """Who of them keeps the others waiting, and how that can be told, in front of a state."""
    fewest = min(state.entered for state in silent.values())
    behind = {rank: state for rank, state in silent.items() if state.entered == fewest}
    stuck = [r for r, state in behind.items() if state.state == "D" and state.in_torch is None]
    if stuck:
        return stuck, "waiting inside the kernel (a driver or a disk); "
    if len(behind) < len(silent) or len(silent) == 1:
        return list(behind), ""
    inside = {rank: state for rank, state in behind.items() if state.left < state.entered}
    if inside and len(inside) < len(behind):
        return list(inside), "others have left that collective; "
    elsewhere = [rank for rank, state in behind.items() if state.in_torch is False]
    if elsewhere and len(elsewhere) < len(behind):
        return elsewhere, "the others wait in torch.distributed; "
    counts = Counter(state.operation for state in behind.values())
    rarest, fewest = min(counts.items(), key=lambda pair: pair[1])
    if len(counts) > 1 and fewest < max(counts.values()):
        return [
            rank for rank in behind if behind[rank].operation == rarest
        ], "others call another; "
    return list(behind), "all wait for each other: which one is to blame cannot be told; "
