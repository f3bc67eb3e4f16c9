"""Who is to blame when not every rank is done."""

import os
import signal
from collections.abc import Mapping, Sequence

import pytest

from hostbench.ranks.replies import Done, Lost, Raised, RankFailure, Reply, Skipped, failure

KILLED, ABORTED, EXITED_7 = int(signal.SIGKILL), int(signal.SIGABRT), 7 << 8
OWN = Raised("ValueError: own", "traceback", in_collective=False)
TORN = Raised("RuntimeError: Connection closed by peer", "traceback", in_collective=True)


def reason(replies: Mapping[int, Reply], entered: Sequence[int] = (5, 5, 5, 5)) -> str | None:
    found = failure(replies, entered, 20.0)
    return None if found is None else str(found)


def test_ranks_that_are_done_or_skip_are_no_failure() -> None:
    assert reason({0: Done(1), 1: Done(2), 2: Skipped("no"), 3: Done(None)}) is None


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ({0: TORN, 1: TORN, 2: Lost(KILLED), 3: TORN}, "rank 2 was lost: killed by SIGKILL"),
        ({0: TORN, 2: Lost(EXITED_7)}, "rank 2 was lost: exit code 7"),
        ({1: Lost(ABORTED), 3: Lost(KILLED)}, "rank 3 was lost: killed by SIGKILL"),
        ({0: TORN, 1: TORN, 3: OWN}, "rank 3: ValueError: own"),
        ({3: OWN, 1: OWN}, "rank 1: ValueError: own"),
        ({2: TORN, 1: TORN}, "rank 1: RuntimeError: Connection closed by peer"),
    ],
)
def test_the_culprit_is_named_not_who_complains_first(
    replies: dict[int, Reply], expected: str
) -> None:
    assert reason(replies) == expected


@pytest.mark.parametrize(
    ("replies", "entered", "who"),
    [
        ({}, (7, 7, 7, 6), "rank 3"),
        ({}, (7, 6, 7, 6), "ranks 1, 3"),
        ({}, (7, 7, 7, 7), "ranks 0, 1, 2, 3"),
        ({0: Done(1), 1: Done(1), 3: Done(1)}, (7, 7, 7, 7), "rank 2"),
    ],
)
def test_of_silent_ranks_those_behind_are_named(
    replies: dict[int, Reply], entered: tuple[int, ...], who: str
) -> None:
    assert reason(replies, entered) == f"{who} did not answer within 20 s"


def test_the_traceback_of_the_culprit_comes_along() -> None:
    found = failure({0: TORN, 1: OWN}, (1, 1), 1.0)
    assert isinstance(found, RankFailure) and found.traceback == "traceback"


def test_exit_states_are_wait_statuses() -> None:
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 7"], {})
    assert os.waitpid(pid, 0)[1] == EXITED_7
