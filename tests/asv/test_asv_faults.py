"""A slow case, processes left behind and a kill, under real asv."""

import json
import time
from pathlib import Path

import pytest

from hostbench.core import journal
from tests.runner.test_faults import faulty, wait_for_records
from tests.stored import runs_of

pytestmark = pytest.mark.asv


def test_a_slow_case_and_a_left_behind_process_do_not_stop_asv(tmp_path: Path) -> None:
    """asv kills what is silent for longer than its timeout, waits for whoever holds its output, and
    may hand one family's cache to another: none of it happens."""
    gone = ("raises", "killed", "exits", "memory", "wrong", "skips", "quits", "asks", "lists")
    checkout = faulty(tmp_path, without=gone)
    checkout.without_torch()
    checkout.edit("benchmarks/faulty.py", "time.sleep(1000)\n    if", "time.sleep(5)\n    if")
    text = (checkout.root / "benchmarks/faulty.py").read_text()
    second = text.replace('"hangs", ', "").replace('"faulty"', '"second"')
    (checkout.root / "benchmarks/second.py").write_text(second)
    checkout.only_families("faulty", "second")
    checkout.edit("hostbench/measure/workload.py", "timeout = 600.0", "timeout = 4.0")
    checkout.edit("hostbench/runner/progress.py", "_LINE_EVERY_S = 9.0", "_LINE_EVERY_S = 1.0")
    commit = checkout.commit("two families, one of them slow")
    checkout.keep_bytecode()
    done = checkout.asv("run", "HEAD^!", "--machine", "scratch", HOSTBENCH_LAUNCHES="1")
    assert done.returncode == 0, done.stdout
    (path,) = (checkout.results / "scratch").glob(f"{commit[:8]}-*.json")
    data = json.loads(path.read_text())
    for name, num in (("faulty.Go.track_seconds", 4), ("second.Go.track_seconds", 3)):
        row = dict(zip(data["result_columns"], data["results"][name], strict=False))
        numbers = [value for value in row["result"] if value is not None and value == value]
        assert len(numbers) == num, (name, row["result"])
    assert checkout.wait_for_no_process() == []


def test_killed_asv_leaves_nothing_running_and_keeps_the_journal(tmp_path: Path) -> None:
    """asv measures by itself and is killed: its children die, the next command keeps the cases."""
    checkout = faulty(tmp_path, without=("hangs", "killed", "exits", "memory", "wrong", "asks"))
    checkout.without_torch()
    name = "benchmarks/faulty.py"
    checkout.edit(name, 'if kind == "leaves":', "if True:")  # one per case, in whatever order
    checkout.edit(name, "time.sleep(0.0005)", "time.sleep(0.05)")
    checkout.commit("every case leaves a process behind")
    checkout.keep_bytecode()
    running = checkout.start("-m", "asv", "run", "HEAD^!", "--machine", "scratch")
    try:
        wait_for_records(checkout.results, 3)
        while not any("hostbench-left-behind" in line for line in checkout.processes()):
            time.sleep(0.005)  # between two launches there is none for a moment
    finally:
        running.kill()
        running.communicate()
    assert checkout.wait_for_no_process() == []
    held = [journal.read(path) for path in journal.find(checkout.results)]
    assert len(held) == 1 and held[0].header.by == "asv" and held[0].finish is None
    done = checkout.hostbench("run", "--quick", "--launches", "1", "--case", "faulty.go[kind=fine]")
    assert "archived run" in done.stdout
    kept = [run for run in runs_of(checkout.results) if run.header.by == "asv"]
    assert len(kept) == 1 and len(kept[0].records) >= 3
    assert kept[0].header.machine == "scratch" and kept[0].header.committed_at
    assert kept[0].facts_before["software"]["torch"]
