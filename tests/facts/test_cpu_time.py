"""Whose CPU time it was: the machine's, our processes', or others'."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hostbench.facts.host import CpuTicks, cpu_shares, cpu_ticks, steal_share
from hostbench.facts.record import known


def stat(pid: int, parent: int, *ticks: int, name: str = "python") -> str:
    utime, stime, cutime, cstime = ticks
    return f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {utime} {stime} {cutime} {cstime} 20 0"


def machine(root, cpu: str, *processes: str):
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/stat").write_text(f"cpu  {cpu}\ncpu0 1\n")
    for line in processes:
        folder = root / "proc" / line.split()[0]
        folder.mkdir(exist_ok=True)
        (folder / "stat").write_text(line + "\n")
    return root


def test_own_ticks_are_those_of_the_whole_tree(tmp_path):
    machine(
        tmp_path,
        "500 0 100 400 0 0 0 10 0 0",
        stat(10, 1, 5, 1, 30, 4),  # us, with children that have ended
        stat(11, 10, 7, 0, 2, 0, name="a ) b 9 9"),
        stat(12, 11, 3, 1, 0, 0),
        stat(99, 1, 400, 0, 0, 0),  # somebody else
    )
    (tmp_path / "proc/13").mkdir()  # has just ended
    assert cpu_ticks(tmp_path, pid=10) == CpuTicks(1010, 600, 10, own=40 + 9 + 4)
    assert cpu_ticks(tmp_path, pid=77) == CpuTicks(1010, 600, 10, own=None)
    assert steal_share(tmp_path) == 10 / 1010


def test_what_others_took(tmp_path):
    before = cpu_ticks(machine(tmp_path, "100 0 0 900 0 0 0 0", stat(10, 1, 50, 0, 0, 0)), 10)
    machine(tmp_path, "400 0 0 1550 0 0 0 50", stat(10, 1, 210, 0, 0, 0))
    shares = cpu_shares(before, cpu_ticks(tmp_path, 10))
    assert shares["foreign_cpu_share"] == known((300 - 160) / 1000)
    assert shares["steal_share"] == known(0.05)


def test_shares_are_never_negative_and_never_invented(tmp_path):
    before = cpu_ticks(machine(tmp_path, "100 0 0 900 0 0 0 0", stat(10, 1, 50, 0, 0, 0)), 10)
    machine(tmp_path, "110 0 0 990 0 0 0 0", stat(10, 1, 70, 0, 0, 0))
    assert cpu_shares(before, cpu_ticks(tmp_path, 10))["foreign_cpu_share"] == known(0.0)
    assert "did not move" in (cpu_shares(before, before)["steal_share"].why or "")
    alone = cpu_shares(before, cpu_ticks(tmp_path, 77))
    assert alone["foreign_cpu_share"].why == "/proc does not show this process"
    assert alone["steal_share"] == known(0.0)
    assert cpu_shares(before, cpu_ticks(tmp_path / "none"))["foreign_cpu_share"].value is None


def test_a_child_that_was_waited_for_stays_counted():
    before = cpu_ticks(Path("/"))
    code = "import time\nwhile time.process_time() < 0.2: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    after = cpu_ticks(Path("/"))
    if before is None or after is None:
        pytest.skip("/proc/stat counts nothing here")
    assert before.own is not None and after.own is not None
    assert after.own - before.own >= 0.15 * os.sysconf("SC_CLK_TCK")
