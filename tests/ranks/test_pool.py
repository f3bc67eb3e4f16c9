"""The pool and its processes: one that closes its pipe and does not end is not waited for."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

import pytest

from hostbench.core import processes
from hostbench.ranks import pool
from hostbench.ranks.group import Seat
from hostbench.ranks.pool import Deadline, Pool
from hostbench.ranks.replies import Done, RankFailure

LONG_S = 30.0
"""What a pool that waits for the process would take: no test waits for it."""


def serve(seat: Seat, channel: Connection) -> NoReturn:
    """The second rank closes its pipe at an order and goes on: `device` says how."""
    try:
        channel.recv()
        if seat.rank != 1:
            channel.send(Done(seat.rank))
        elif seat.device == "ends":
            os._exit(7)
        else:
            channel.close()
            if seat.device == "stops":
                os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(LONG_S)
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
    monkeypatch.setattr(pool, "ENDING_S", 0.3)
    watchdog = threading.Timer(LONG_S, end)
    watchdog.start()
    yield forked
    watchdog.cancel()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("ends", "rank 1 was lost: exit code 7"),
        ("goes on", "rank 1 was lost: it closed its pipe, and its process does not end"),
        (
            "stops",
            "rank 1 was lost: it closed its pipe, and its process does not end: it is stopped "
            "(SIGSTOP or a debugger)",
        ),
    ],
)
def test_a_rank_that_closed_its_pipe_is_lost_whether_it_ends_or_not(
    pids: list[int], kind: str, said: str
) -> None:
    ranks = Pool(kind, 3)
    try:
        with pytest.raises(RankFailure) as raised:
            ranks.ask(Deadline.after(LONG_S), "iterate", 1)
    finally:
        ranks.kill()
    assert str(raised.value) == said
    for pid in pids:
        with pytest.raises(ChildProcessError):  # every one of them was reaped
            os.waitpid(pid, os.WNOHANG)


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({1: "Z", 2: "D"}, "it waits inside the kernel (a driver or a disk)"),
        ({1: "T"}, "it is stopped (SIGSTOP or a debugger)"),
        ({1: "S", 2: "R"}, ""),
        ({}, ""),
    ],
)
def test_why_a_process_is_still_there_is_told_by_its_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: dict[int, str], said: str
) -> None:
    """The first one is a zombie while the driver holds another."""
    for thread, state in states.items():
        folder = tmp_path / "proc" / "1" / "task" / str(thread)
        folder.mkdir(parents=True)
        (folder / "stat").write_text(f"{thread} (a (name) of it) {state} 1 1 1")
    monkeypatch.setattr(processes, "Path", lambda path: tmp_path / path.lstrip("/"))
    assert processes.why_alive(1) == said


def test_one_that_can_not_be_killed_is_left_behind(
    pids: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver may hold it: SIGKILL does nothing."""
    kill = os.kill
    monkeypatch.setattr(pool, "REAP_S", 0.2)
    monkeypatch.setattr(
        os, "kill", lambda pid, number: None if pid == pids[0] else kill(pid, number)
    )
    ranks = Pool("goes on", 3)
    ranks.kill()
    try:
        assert os.waitpid(pids[0], os.WNOHANG) == (0, 0)
    finally:
        kill(pids[0], signal.SIGKILL)
        os.waitpid(pids[0], 0)
