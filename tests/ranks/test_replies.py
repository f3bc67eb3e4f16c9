"""Who is to blame when not every rank is done."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from hostbench.ranks.replies import (
    Done,
    Lost,
    Raised,
    RankFailure,
    Reply,
    Skipped,
    Standing,
    failure,
)

KILLED, ABORTED, EXITED_7 = int(signal.SIGKILL), int(signal.SIGABRT), 7 << 8
OWN = Raised("ValueError: own", "traceback", in_collective=False)
TORN = Raised("RuntimeError: Connection closed by peer", "traceback", in_collective=True)


IN, OUT = Standing(7, 6), Standing(7, 7)
BEHIND = Standing(6, 5)


def at(standing: Standing, state: str) -> Standing:
    return replace(standing, state=state)


def reason(replies: Mapping[int, Reply], standings: Sequence[Standing] = (IN,) * 4) -> str | None:
    found = failure(replies, standings, 20.0)
    return None if found is None else str(found)


def test_ranks_that_are_done_or_skip_are_no_failure() -> None:
    assert reason({0: Done(1), 1: Done(2), 2: Skipped("no"), 3: Done(None)}) is None


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ({0: TORN, 1: TORN, 2: Lost(KILLED), 3: TORN}, "rank 2 was lost: killed by SIGKILL"),
        ({0: TORN, 2: Lost(EXITED_7)}, "rank 2 was lost: exit code 7"),
        ({1: Lost(None), 3: Lost(KILLED)}, "rank 3 was lost: killed by SIGKILL"),
        (
            {0: TORN, 1: Lost(None, "it waits")},
            "rank 1 was lost: it closed its pipe, and its process does not end: it waits",
        ),
        ({0: TORN, 1: TORN, 3: OWN}, "rank 3: ValueError: own"),
        ({2: TORN, 1: TORN}, "rank 1: RuntimeError: Connection closed by peer"),
    ],
)
def test_the_culprit_is_named_not_who_complains_first(
    replies: dict[int, Reply], expected: str
) -> None:
    assert reason(replies) == expected


@pytest.mark.parametrize(
    ("replies", "standings", "said"),
    [
        ({}, (IN, IN, OUT, BEHIND), "rank 3 did not answer within 20 s"),
        ({0: Done(1), 1: Done(1), 3: Done(1)}, (IN,) * 4, "rank 2 did not answer within 20 s"),
        (
            {},
            (OUT, OUT, IN, OUT),
            "rank 2 did not answer within 20 s: inside a collective that others have left",
        ),
        (
            {},
            (IN, IN, IN, IN),
            "ranks 0, 1, 2, 3 did not answer within 20 s: all wait inside the same collective; "
            "which one is to blame cannot be told",
        ),
    ],
)
def test_of_silent_ranks_those_behind_are_named(
    replies: dict[int, Reply], standings: tuple[Standing, ...], said: str
) -> None:
    assert reason(replies, standings) == said


STOPPED = "stopped (SIGSTOP or a debugger) and did not answer within 20 s"


@pytest.mark.parametrize(
    ("replies", "standings", "said"),
    [
        ({}, (IN, at(IN, "S"), at(IN, "T"), IN), f"rank 2 is {STOPPED}"),
        ({}, (IN, at(IN, "T"), at(IN, "T"), IN), f"ranks 1, 2 are {STOPPED}"),
        ({0: TORN, 1: TORN, 3: TORN}, (IN, IN, at(IN, "T"), IN), f"rank 2 is {STOPPED}"),
        (
            {},
            (IN, at(IN, "D"), IN, IN),
            "rank 1 did not answer within 20 s: waits inside the kernel (a driver or a disk)",
        ),
        ({}, (BEHIND, at(IN, "D"), IN, IN), "rank 0 did not answer within 20 s"),
    ],
)
def test_a_rank_that_the_kernel_holds_is_named_first(
    replies: dict[int, Reply], standings: tuple[Standing, ...], said: str
) -> None:
    assert reason(replies, standings) == said


def test_the_traceback_of_the_culprit_comes_along() -> None:
    found = failure({0: TORN, 1: OWN}, (IN, IN), 1.0)
    assert isinstance(found, RankFailure) and found.traceback == "traceback"
