"""Crashes, hangs and kills: one case fails with its reason, the rest is kept, no process remains.

The faulty family is written into a throwaway checkout and run through the real command line.
"""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from hostbench.core import journal
from hostbench.core.records import Run
from hostbench.store.points import case_rows
from tests import scratch
from tests.conftest import SOAK
from tests.scratch import Scratch
from tests.stored import only_run

FAULTY = '''
"""faulty: workloads that go wrong, for tests."""

import os
import signal
import subprocess
import sys
import time

from hostbench.core.errors import Unavailable
from hostbench import DEVICES, Prepared, suite, workload


def setup_cache():
    return suite.measure("faulty")

KINDS = ("fine", "raises", "skips", "killed", "exits", "hangs", "memory", "wrong", "leaves", "also")
KINDS += ("quits", "asks", "lists", )


@workload(axes={"device": DEVICES, "kind": KINDS}, version="1", quick=lambda **_: True)
def go(device, kind):
    """Goes wrong in its own way."""
    if kind == "raises":
        raise ValueError("put in on purpose")
    if kind == "skips":
        raise Unavailable("not on this machine")
    if kind == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "exits":
        os._exit(7)
    if kind == "hangs":
        time.sleep(1000)
    if kind == "memory":
        raise MemoryError("no more of it")
    if kind == "wrong":
        return Prepared(step=lambda: None, verify=lambda: "the data is wrong")
    if kind == "leaves":
        code = "import time; time.sleep(1000)  # hostbench-left-behind"
        subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    if kind == "quits":
        sys.exit("enough of it")
    if kind == "asks":
        input()
    if kind == "lists":
        return Prepared(step=lambda: None, findings=lambda: {"many": [1, 2]})
    if kind in ("fine", "also"):
        time.sleep(float(os.environ.get("FAULTY_SLOW_S", 0)))
    return lambda: time.sleep(0.0005)
'''

KILLED = "killed by SIGKILL (out of memory? `dmesg` says)"
LOST = f"the worker process was lost: {KILLED}"
DEVICE = "cpu" if SOAK else "simulated"
"""In `make test` these runs import no torch, which would take most of their time."""


def faulty(folder: Path, without: tuple[str, ...] = ()) -> Scratch:
    checkout = scratch.make(folder)
    text = FAULTY
    for kind in without:
        text = text.replace(f'"{kind}", ', "", 1)
    (checkout.root / "benchmarks/faulty.py").write_text(text)
    checkout.only_families("faulty")
    checkout.commit("a family that goes wrong")
    return checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    return faulty(tmp_path_factory.mktemp("faulty"))


def statuses(run: Run) -> dict[str, tuple[str, str | None, int]]:
    return {
        str(row["kind"]): (row["status"], row["reason"], len(row.get("launches", ())))
        for row in case_rows(run)
    }


def test_each_fault_is_one_failed_case(checkout: Scratch, results: Path) -> None:
    done = checkout.hostbench(
        "run", "--quick", "--launches", "2", "--deadline", "2", "--results", str(results)
    )
    assert done.returncode == 4, done.stdout
    found = statuses(only_run(results))
    assert found["fine"] == ("ok", None, 2)
    assert found["also"] == ("ok", None, 2)
    assert found["leaves"] == ("ok", None, 2)
    assert found["skips"] == ("skipped", "not on this machine", 0)
    said = "ValueError: put in on purpose (benchmarks/faulty.py:"
    assert found["raises"][0] == "failed" and str(found["raises"][1]).startswith(said)
    assert found["killed"] == ("failed", LOST, 0)
    assert found["exits"] == ("failed", "the worker process was lost: exit code 7", 0)
    assert found["hangs"] == ("failed", "missed its deadline of 2 s", 0)
    assert found["memory"][0] == "failed" and "no more of it" in str(found["memory"][1])
    assert found["wrong"] == ("failed", "proof failed: the data is wrong", 1)
    assert str(found["quits"][1]).startswith("SystemExit: enough of it (benchmarks/faulty")
    assert str(found["asks"][1]).startswith("EOFError: ")
    assert "Expected `bool | int | float | str | null`, got `array`" in str(found["lists"][1])


def start_run(
    checkout: Scratch, results: Path, device: str = DEVICE, **more: str
) -> subprocess.Popen[str]:
    cases = (f"--case=faulty.go[kind={kind}]" for kind in ("fine", "also", "skips"))
    words = ("--launches", "7", "--device", device, "--results", str(results))
    return checkout.start("-m", "hostbench", "run", *cases, *words, **more)


def wait_for_records(results: Path, at_least: int) -> Run:
    for _ in range(3000):
        for path in journal.find(results):
            with contextlib.suppress(Exception):
                held = journal.read(path)
                if len(held.records) >= at_least:
                    return held
        time.sleep(0.02)
    raise AssertionError(f"no journal with {at_least} records in {results}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_hostbench_archives_at_once(
    checkout: Scratch, results: Path, number: signal.Signals
) -> None:
    running = start_run(checkout, results, FAULTY_SLOW_S="0.1")
    wait_for_records(results, 3)
    running.send_signal(number)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 4 and "what was measured is stored" in out
    assert not list(journal.find(results))
    run = only_run(results)
    assert run.finish and run.finish.status == "interrupted"
    assert not run.is_whole


def worker_of(checkout: Scratch) -> int | None:
    """The fork server's child: a process whose parent also runs the server's boot code."""
    boots: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (folder / "cmdline").read_bytes()
            if b"hostbench.runner.server" in line and str(checkout.root).encode() in line:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                boots[int(folder.name)] = parent
    return next((pid for pid, parent in boots.items() if parent in boots), None)


def test_killed_worker_costs_one_case(checkout: Scratch, results: Path) -> None:
    running = start_run(checkout, results, FAULTY_SLOW_S="0.3")
    wait_for_records(results, 1)  # of the three cases: now it is in a slow one
    worker = worker_of(checkout)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    running.communicate(timeout=120)
    (failed,) = (row for row in case_rows(only_run(results)) if row["status"] == "failed")
    assert failed["reason"] == LOST


def test_code_edited_during_a_run_is_neither_measured_nor_filed_under_the_commit(
    checkout: Scratch, results: Path
) -> None:
    checkout.without_torch()
    checkout.commit("cases of the cpu device, on the simulated one")
    try:
        running = start_run(checkout, results, "cpu")  # what is simulated belongs to no history
        wait_for_records(results, 2)
        edited = "def go(device, kind, broken_by_an_edit):"
        checkout.edit("benchmarks/faulty.py", "def go(device, kind):", edited)
        out, _ = running.communicate(timeout=120)
    finally:
        checkout.git("reset", "-q", "--hard", "HEAD~1")
    assert running.returncode == 0, out
    run = only_run(results)
    assert run.is_whole and statuses(run)["fine"] == ("ok", None, 7)
    assert run.header.scratch == "the checkout changed during the run"
