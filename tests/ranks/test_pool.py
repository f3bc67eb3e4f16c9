"""The pool and its processes: ranks leave by the end of their pipe, and are killed when they do
not; one that closes its pipe and does not end is not waited for."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from hostbench.core.errors import RankFailure
from hostbench.ranks import pool
from hostbench.ranks.blame import Reply
from hostbench.ranks.pool import Pool
from hostbench.ranks.rank import GroupConfig, RankConfig

LONG_S = 30.0
"""What a pool that waits for the process would take: no test waits for it."""


def serve(config: RankConfig, channel: Any, recorder: Any) -> NoReturn:
    """Stands in for a rank's life. At an order the second one closes its pipe or goes on: the kind
    of device says how."""
    try:
        channel.recv()
        if config.group.device == "stays":
            time.sleep(LONG_S)
        elif config.group.device == "skips":
            channel.send(Reply(kind="skipped", text="no"))
        elif config.group.device == "last stays" or config.rank != 1:
            channel.send(Reply(kind="done", value=config.rank))
            time.sleep(LONG_S * (config.group.device == "last stays" and config.rank == 2))
        elif config.group.device == "aborts":
            signal.signal(signal.SIGABRT, signal.SIG_DFL)  # without pytest's stack
            os.kill(os.getpid(), signal.SIGABRT)
        else:
            channel.close()
            time.sleep(LONG_S)
        channel.recv()
    finally:
        os._exit(0)


@pytest.fixture
def pids(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The processes that are forked; they end whatever the pool does."""
    forked: list[int] = []
    fork = os.fork

    def noted() -> int:
        pid = fork()
        forked.append(pid)
        return pid

    def end() -> None:
        for pid in forked:
            os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr(os, "fork", noted)
    monkeypatch.setattr(pool, "serve", serve)
    monkeypatch.setattr(pool, "LEAVE_S", 0.3)
    watchdog = threading.Timer(LONG_S, end)
    watchdog.start()
    yield forked
    watchdog.cancel()


def opened(kind: str) -> Pool:
    return Pool(GroupConfig(kind, "gloo", 3, LONG_S))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("aborts", "rank 1 was lost: killed by SIGABRT"),
        ("goes on", "rank 1 was lost: it closed its pipe, and its process does not end"),
    ],
)
def test_a_rank_that_closed_its_pipe_is_lost_whether_it_ends_or_not(
    pids: list[int], kind: str, expected: str
) -> None:
    ranks = opened(kind)
    try:
        with pytest.raises(RankFailure) as raised:
            ranks.ask(time.monotonic() + LONG_S, "iterate", 1)
    finally:
        ranks.close()
    assert str(raised.value) == f"{expected}; before its first collective"
    for pid in pids:
        with pytest.raises(ChildProcessError):  # every one of them was reaped
            os.waitpid(pid, os.WNOHANG)


def test_ranks_leave_by_the_end_of_their_pipe_and_none_is_killed(
    pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a driver takes its time to give back the device before the next pool wants it. A rank
    that does not answer is killed: it does not look at its pipe."""
    killed: list[int] = []
    kill = os.kill

    def noted(pid: int, number: int) -> None:
        if number == signal.SIGKILL:
            killed.append(pid)
        kill(pid, number)

    monkeypatch.setattr(os, "kill", noted)
    monkeypatch.setattr(pool, "LEAVE_S", LONG_S)
    ranks = opened("skips")
    with pytest.raises(NotImplementedError, match=r"^no$"):
        ranks.ask(time.monotonic() + LONG_S, "join")
    ranks.close()
    assert killed == []
    monkeypatch.setattr(pool, "LEAVE_S", 1.0)
    ranks = opened("last stays")  # which has no end of the others' pipes
    assert ranks.ask(time.monotonic() + LONG_S, "join") == [0, 1, 2]
    ranks.close()
    assert killed == pids[5:]
    killed.clear()
    ranks = opened("stays")
    with pytest.raises(RankFailure, match=r"rank 0, rank 1, rank 2 did not answer within 24 s"):
        ranks.ask(time.monotonic() + 0.2, "join")
    assert killed == pids[6:]
    ranks.close()


def test_one_that_can_not_be_killed_is_left_behind(
    pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver may hold it: SIGKILL does nothing."""
    kill = os.kill
    monkeypatch.setattr(pool, "REAP_S", 0.2)
    monkeypatch.setattr(
        os, "kill", lambda pid, number: None if pid == pids[0] else kill(pid, number)
    )
    ranks = opened("stays")
    with pytest.raises(RankFailure):
        ranks.ask(time.monotonic() + 0.2, "join")
    ranks.close()
    try:
        assert os.waitpid(pids[0], os.WNOHANG) == (0, 0)
    finally:
        kill(pids[0], signal.SIGKILL)
        os.waitpid(pids[0], 0)
