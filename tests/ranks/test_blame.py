"""Who is to blame when not every rank is done, by what came back and what is seen from outside."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hostbench.ranks.blame import RankState, Reply, failure

DONE = Reply(kind="done", value=1)
KILLED = Reply(kind="lost", text="killed by SIGKILL")
ABORTED = Reply(kind="lost", text="killed by SIGABRT", by_others=True)
OWN = Reply(kind="raised", text="ValueError: own", traceback="traceback")
TORN = Reply(kind="raised", text="RuntimeError: Connection closed", by_others=True)

IN = RankState(entered=7, left=6, operation="all_reduce")
OUT, BEHIND = replace(IN, left=7), replace(IN, entered=6, left=5)
STOPPED = replace(IN, is_stopped=True)
OTHER = replace(IN, operation="broadcast")
RECORDED = replace(IN, recorded={("0", 40): "barrier", ("0", 41): "all_reduce"})
FURTHER = replace(IN, recorded={("0", 41): "all_reduce", ("0", 42): "all_reduce"})
AHEAD = replace(IN, entered=9, recorded={("0", 41): "broadcast", ("0", 42): "all_reduce"})
ANOTHER = "in one collective some call broadcast, others all_reduce; "
INSIDE = "inside all_reduce, its collective 7"
SILENT = "did not answer within 20 s"


def reason(replies: Mapping[int, Reply], states: Sequence[RankState] = (IN,) * 4) -> str:
    names = [f"rank {rank} on node-{'ab'[rank // 2]}" for rank in range(4)]
    return str(failure(replies, states, 20.0, names))


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ({0: TORN, 1: TORN, 2: KILLED, 3: TORN}, "rank 2 on node-b was lost: killed by SIGKILL; "),
        ({0: ABORTED, 2: KILLED, 3: OWN}, "rank 2 on node-b was lost: killed by SIGKILL; inside"),
        ({0: TORN, 1: ABORTED}, "rank 1 on node-a was lost: killed by SIGABRT; "),
        ({0: ABORTED, 1: TORN, 3: OWN}, f"rank 3 on node-b: ValueError: own; {INSIDE}"),
        ({2: TORN, 1: TORN}, f"rank 2 on node-b: RuntimeError: Connection closed; {INSIDE}"),
    ],
)  # fmt: skip
def test_the_culprit_is_named_not_who_complains_first(
    replies: dict[int, Reply], expected: str
) -> None:
    assert reason(replies).startswith(expected)


@pytest.mark.parametrize(
    ("replies", "states", "expected"),
    [
        ({}, (IN, IN, OUT, BEHIND), f"rank 3 on node-b {SILENT}: {INSIDE[:-1]}6"),
        (dict.fromkeys((0, 1, 3), DONE), (IN,) * 4, f"rank 2 on node-b {SILENT}: {INSIDE}"),
        ({}, (OUT, OUT, IN, OUT), f"rank 2 on node-b {SILENT}: {INSIDE}"),
        ({}, (FURTHER, FURTHER, RECORDED, FURTHER), f"rank 2 on node-b {SILENT}: {INSIDE} (torch: "
         "all_reduce 41)"),
        ({}, (IN, IN, IN, OTHER), f"rank 3 on node-b {SILENT}: {ANOTHER}inside broadcast, its col"),
        ({}, (RECORDED, AHEAD, RECORDED, RECORDED), f"rank 1 on node-a {SILENT}: {ANOTHER}"
         "inside all_reduce, its collective 9 (torch: all_reduce 42)"),
        (dict.fromkeys((0, 3), DONE), (IN, OTHER, IN, IN), "rank 1 on node-a, rank 2 on node-b "
         f"{SILENT}: in one collective some call all_reduce, others broadcast; rank 1 on node-a "
         "inside broadcast, its collective 7, rank 2 on node-b inside all_reduce, its coll"),
        ({}, (IN, IN, IN, IN), "rank 0 on node-a, rank 1 on node-a, rank 2 on node-b, rank 3 on "
         f"node-b {SILENT}: which one is to blame cannot be told; inside"),
        ({}, (IN, IN, STOPPED, IN), f"rank 2 on node-b {SILENT}: stopped (SIGSTOP or "
         f"a debugger); {INSIDE}"),
        (dict.fromkeys((0, 1, 3), TORN), (IN, IN, STOPPED, IN), f"rank 2 on node-b {SILENT}: st"),
    ],
)  # fmt: skip
def test_of_silent_ranks_the_one_that_the_others_wait_for_is_named(
    replies: dict[int, Reply], states: tuple[RankState, ...], expected: str
) -> None:
    assert reason(replies, states).startswith(expected)


def test_who_is_done_without_the_collective_that_others_wait_in_is_named() -> None:
    done = {1: DONE}
    skipped_it = replace(OUT, entered=6, left=6)
    expected = f"rank 1 on node-a left out a collective that others wait in: {INSIDE}"
    assert reason(done, (IN, skipped_it, IN, IN)) == expected
    assert "left out" not in reason(done, (IN, skipped_it, OUT, IN)), "rank 2 waits in none"
    assert reason(done, (IN, skipped_it, STOPPED, IN)).startswith(f"rank 2 on node-b {SILENT}")


def test_the_traceback_of_the_culprit_comes_along() -> None:
    failed = failure({0: TORN, 1: OWN}, (IN, IN), 1.0, ("rank 0", "rank 1"))
    assert failed.traceback == "traceback"
    before = RankState(entered=0, left=0)
    failed = failure({0: OWN}, (before,), 1.0, ("rank 0",))
    assert str(failed) == "rank 0: ValueError: own; before its first collective"
