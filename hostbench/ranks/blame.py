"""What came back from the ranks, and who is to blame when not every one is done. Pure.

The first to complain is often not the culprit. A process that ended comes first, then an error of a
rank's own, then a rank that is stopped, then what others may have caused: an abort, an error inside
a collective. Of ranks that say nothing one that called another operation than the others; then the
one that entered the fewest collectives, or that others have left behind in one.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hostbench.core.errors import RankFailure, Unavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What an order came to at one rank."""

    kind: Literal["done", "skipped", "raised", "lost"]
    """`skipped`: this machine cannot do it. `lost`: the process ended, or closed its pipe."""
    value: Any = None
    text: str = ""  # why it skips, what it raised, how it ended
    traceback: str | None = None
    by_others: bool = False  # it may be: raised in a collective, aborted, or a process that stays


Replies = Mapping[int, Reply]
"""Rank -> what came back, in the order in which it was noticed; silent ranks are missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankState:
    """How far a rank has come, as its parent sees it from outside."""

    entered: int  # collectives, since it joined its group
    left: int  # how many of them it has left again
    operation: str = ""  # the last one entered
    is_stopped: bool = False  # a signal or a debugger holds it
    recorded: Mapping[tuple[str, int], str] = field(default_factory=dict)  # collective_logs.Calls

    def __str__(self) -> str:
        """`inside DDP step, its collective 7 (torch: all_reduce 41)`."""
        where = "inside" if self.left < self.entered else "after"
        since = f"{where} {self.operation}, its collective {self.entered}"
        since = since if self.entered else "before its first collective"
        if not self.recorded:
            return since
        (_, number), operation = [*self.recorded.items()][-1]
        return f"{since} (torch: {operation} {number})"


def answers(
    replies: Replies,
    states: Callable[[Replies], Sequence[RankState]],
    waited_s: float,
    names: Sequence[str],
) -> list[Any]:
    """Every rank's answer, by rank. Raises RankFailure, and Unavailable where one must skip.
    `waited_s` is how long silent ranks were given."""
    done = [reply.value for _, reply in sorted(replies.items()) if reply.kind == "done"]
    if len(done) == len(names):
        return done
    skips = {rank: reply.text for rank, reply in replies.items() if reply.kind == "skipped"}
    if skips and len(done) + len(skips) == len(replies):  # who is silent waits for them
        rank, reason = min(skips.items())
        raise Unavailable(reason if len(skips) == len(names) else f"{names[rank]}: {reason}")
    raise failure(replies, states(replies), waited_s, names)


def failure(
    replies: Replies, states: Sequence[RankState], waited_s: float, names: Sequence[str]
) -> RankFailure:
    """The failure that replies amount to of which not all are done."""
    silent = {rank: state for rank, state in enumerate(states) if rank not in replies}
    stopped = [rank for rank, state in silent.items() if state.is_stopped]
    bad = [rank for rank, reply in replies.items() if reply.kind in ("lost", "raised")]
    bad.sort(key=lambda rank: (replies[rank].by_others, replies[rank].kind))
    if bad and not (stopped and replies[bad[0]].by_others):
        rank, reply = bad[0], replies[bad[0]]
        lost = " was lost" if reply.kind == "lost" else ""
        return RankFailure(f"{names[rank]}{lost}: {reply.text}; {states[rank]}", reply.traceback)
    waiting = [state for state in silent.values() if state.left < state.entered]
    without = [rank for rank in replies if all(states[rank].entered < s.entered for s in waiting)]
    if without and len(waiting) == len(silent) and not stopped:
        who = ", ".join(names[rank] for rank in without)
        return RankFailure(f"{who} left out a collective that others wait in: {waiting[0]}")
    ranks, why = (stopped, "stopped (SIGSTOP or a debugger); ") if stopped else _silent(silent)
    where = {names[rank]: str(silent[rank]) for rank in ranks}
    texts = {*where.values()} if len({*where.values()}) == 1 else map(" ".join, where.items())
    silence = f"{', '.join(where)} did not answer within {waited_s:g} s"
    return RankFailure(f"{silence}: {why}{', '.join(texts)}")


def _silent(silent: Mapping[int, RankState]) -> tuple[list[int], str]:
    """Who of them keeps the others waiting, and how that can be told, in front of a state."""
    if disagreeing := _disagreeing(silent):
        return disagreeing
    progress = {
        rank: (state.entered, state.left, max((number for _, number in state.recorded), default=0))
        for rank, state in silent.items()  # torch counts those inside DDP, too
    }
    behind = [rank for rank in silent if progress[rank] == min(progress.values())]
    is_alone = len(behind) < len(silent) or len(silent) == 1
    return behind, "" if is_alone else "which one is to blame cannot be told; "


def _disagreeing(silent: Mapping[int, RankState]) -> tuple[list[int], str] | None:
    """Who calls another operation than most, or all where no operation has most; and which."""
    by_rank = {r: s.recorded or {("", s.entered): s.operation} for r, s in silent.items()}
    for number in sorted({number for calls in by_rank.values() for number in calls}):
        called = {rank: calls[number] for rank, calls in by_rank.items() if number in calls}
        (usual, most), *others = Counter(called.values()).most_common()
        if others:
            has_most = 2 * most > len(called)
            ranks = [rank for rank, name in called.items() if name != usual or not has_most]
            return ranks, f"in one collective some call {others[0][0]}, others {usual}; "
    return None
