"""Real ranks through the real command line: exact sums, and one failed case when one goes wrong.

The faulty family is written into a throwaway checkout; in it rank 2 of 4 goes wrong.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.collectives import NUM_RANKS
from hostbench.device import num_devices
from hostbench.runner import journal
from tests import scratch
from tests.runner.test_faults import (
    only_run,
    statuses,
    wait_for_no_process,
    wait_for_records,
)
from tests.scratch import Scratch
from tests.stored import read_tree

FAULTY = '''
"""faulty: collectives in which rank 2 goes wrong, for tests."""

import os
import signal
import sys
import threading
import time

from hostbench.core.errors import Unavailable
from hostbench.measure.measure import Prepared
import torch.distributed as dist
from hostbench import DEVICES, suite, workload


def setup_cache():
    return suite.measure("faulty")


KINDS = (
    "fine", "killed", "exits", "quits", "sleeps", "hangs", "raises", "unbuilt", "wrong", "skips",
    "late", "stopped", "also",
)


@workload(
    axes={"device": DEVICES, "kind": KINDS},
    version="1",
    quick=lambda **_: True,
    ranks=lambda **_: 4,
)
def go(device, kind):
    """Goes wrong in its own way."""
    from hostbench.ranks.group import current
    from hostbench.ranks.pattern import Pattern

    group = current()
    culprit = group.rank == 2
    share, buffer = (device.create("empty", 4096, on_host=False) for _ in range(2))
    pattern = Pattern(4, share.dtype, share.device)
    pattern.fill(share, [(group.rank, 0, len(share))])
    all_reduce = group.counted("all_reduce", lambda: dist.all_reduce(buffer))
    hang = group.counted("all_reduce", lambda: time.sleep(1000))
    if kind == "skips":
        raise Unavailable("not on this machine")
    if kind == "unbuilt" and culprit:
        raise ValueError("two\\nlines")

    def step():
        if culprit and kind == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if culprit and kind == "exits":
            os._exit(7)
        if culprit and kind == "quits":
            sys.exit(3)
        if culprit and kind == "sleeps":
            time.sleep(1000)
        if culprit and kind == "hangs":
            hang()
        if culprit and kind == "raises":
            raise ValueError("put in on purpose")
        if culprit and kind == "stopped":  # inside the collective, in which rank 3 is the last
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        if group.rank == 3 and kind == "stopped":
            time.sleep(0.8)
        all_reduce()
        if culprit and kind == "wrong":
            buffer[17] += 1

    def verify():
        if culprit and kind == "late":
            time.sleep(1000)
        return pattern.first_wrong(buffer, [(None, 0, len(buffer))])

    def before():
        device.copy(buffer, share, blocking=True)

    return Prepared(step=step, before=before, verify=verify)


@workload(axes={"device": DEVICES}, version="1", ranks=lambda **_: 4)
def slow(device):
    """Takes 2 s and more in all."""
    from hostbench.ranks.group import current

    buffer = device.create("empty", 4096, on_host=False)
    all_reduce = current().counted("all_reduce", lambda: dist.all_reduce(buffer))

    def step():
        time.sleep(0.4)
        all_reduce()

    return Prepared(step=step)
'''


def faulty(folder: Path) -> Scratch:
    checkout = scratch.make(folder)
    (checkout.root / "benchmarks/faulty.py").write_text(FAULTY)
    checkout.only_families("faulty", "collectives")
    checkout.commit("ranks that go wrong")
    return checkout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    return faulty(tmp_path_factory.mktemp("ranks"))


@pytest.fixture
def results(checkout: Scratch, tmp_path: Path) -> Iterator[Path]:
    """A fresh results folder; afterwards nothing of the checkout may still run."""
    yield tmp_path / "results"
    assert wait_for_no_process(checkout) == []


def run(checkout: Scratch, results: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return checkout.hostbench("run", *args, "--no-asv", "--results", str(results))


def test_every_rank_has_the_exact_sum_and_the_slowest_counts(
    checkout: Scratch, results: Path
) -> None:
    small, large = (f"collectives.all_reduce[nbytes={size}]" for size in ("4KiB", "1MiB"))
    done = run(checkout, results, "--case", small, "--case", large, "--launches", "1")
    assert done.returncode == 0, done.stdout
    records = only_run(results).parts[0].records
    assert len(records) == 2 * len(NUM_RANKS)
    for record in records:
        num_ranks = int(record.case.values["num_ranks"])
        per_rank = record.measurement.ranks
        assert record.measurement.proofs == {"data": "passed"}
        assert list(per_rank) == [str(rank) for rank in range(num_ranks)]
        assert record.seconds is not None and record.seconds >= max(per_rank.values())
        assert record.nbytes == (record.case.values["nbytes"] if num_ranks > 1 else 0)
    rows = read_tree(results).frame
    for num_ranks, flags in zip(rows["num_ranks"], rows["flags"], strict=True):
        assert flags == ("oversubscribed" if num_ranks > num_devices("cpu") else "")
    assert "all-reduce" in done.stdout


def test_each_fault_is_one_failed_case_that_names_the_rank(
    checkout: Scratch, results: Path
) -> None:
    args = ("--case", "faulty.go", "--launches", "2", "--deadline", "2.5")
    done = run(checkout, results, *args)
    assert done.returncode == 4, done.stdout
    found = statuses(only_run(results))
    assert found["fine"] == ("ok", None, 2)
    assert found["also"] == ("ok", None, 2)
    assert found["skips"] == ("skipped", "not on this machine", 0)
    silent = "rank 2 did not answer within 2 s: "
    for kind, reason in {
        "killed": "rank 2 was lost: killed by SIGKILL; after barrier, its collective ",
        "exits": "rank 2 was lost: exit code 7; after barrier, its collective ",
        "quits": f"rank 2: SystemExit: 3 {line_of('exit(3)')}; after barrier, its collective ",
        "sleeps": f"{silent}after barrier, its collective ",
        "hangs": f"{silent}the others wait in torch.distributed; inside all_reduce, its collective",
        "stopped": f"{silent}stopped (SIGSTOP or a debugger); inside all_reduce, its collective ",
        "late": f"{silent}after all_reduce, its collective ",
        "raises": f"rank 2: ValueError: put in on purpose {line_of('purpose')}; after barrier, its",
        "unbuilt": f"rank 2: ValueError: two lines {line_of('two')}; ",
    }.items():
        status, text, launch = found[kind]
        assert (status, launch) == ("failed", 0) and str(text).startswith(reason), text
    assert found["wrong"] == ("failed", "proof failed: rank 2: element 17 is 1805, not 1804", 0)


def line_of(text: str) -> str:
    """Where the faulty family says so."""
    number = next(n for n, line in enumerate(FAULTY.splitlines(), start=1) if text in line)
    return f"(benchmarks/faulty.py:{number})"


def ranks_below(pid: int, num_ranks: int) -> list[int]:
    """The processes that a worker below `pid` forked, rank 0 first."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    if len(children) == num_ranks:
        return children
    return next(filter(None, (ranks_below(child, num_ranks) for child in children)), [])


def wait_for_ranks(running: subprocess.Popen[str], num_ranks: int) -> list[int]:
    for _ in range(4000):
        found = ranks_below(running.pid, num_ranks)
        if found:
            return found
        time.sleep(0.005)
    raise AssertionError(f"no worker with {num_ranks} ranks")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGKILL, "rank 2 was lost: killed by SIGKILL; "),
        pytest.param(  # `make test` has it by the case that stops
            signal.SIGSTOP,
            "rank 2 did not answer within 2 s: stopped (SIGSTOP or a debugger); ",
            marks=pytest.mark.soak,
        ),
    ],
)
def test_a_rank_that_is_signalled_from_outside_is_named(
    checkout: Scratch, results: Path, number: signal.Signals, reason: str
) -> None:
    """The only case takes 2 s and more, so the signal hits it, at whatever moment."""
    running = checkout.start(
        "-m", "hostbench", "run", "--case", "faulty.slow", "--launches", "1",
        "--deadline", "2.5", "--no-asv", "--results", str(results),
    )  # fmt: skip
    os.kill(wait_for_ranks(running, 4)[2], number)
    out, _ = running.communicate(timeout=120)
    assert running.returncode == 4, out
    (found,) = only_run(results).results()
    assert found.status == "failed" and str(found.reason).startswith(reason)


@pytest.mark.asv
def test_killed_asv_leaves_no_rank_running(checkout: Scratch) -> None:
    running = checkout.start("-m", "asv", "run", "HEAD^!", "--machine", "scratch")
    try:
        wait_for_records(checkout.results, 1)
        wait_for_ranks(running, 4)
    finally:
        running.kill()
        running.communicate()
    assert wait_for_no_process(checkout) == []
    (held,) = [journal.read(path) for path in journal.find(checkout.results)]
    assert held.header.by == "asv" and held.finish is None


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs 2 GPUs")
def test_nccl_over_two_gpus(checkout: Scratch, results: Path) -> None:
    case = "collectives.all_reduce[nbytes=1MiB,num_ranks=2]"
    visible = ",".join(map(str, range(torch.cuda.device_count())))
    args = ("run", "--case", case, "--device", "cuda", "--launches", "1", "--no-asv")
    done = checkout.hostbench(*args, "--results", str(results), CUDA_VISIBLE_DEVICES=visible)
    assert done.returncode == 0, done.stdout
    (record,) = only_run(results).parts[0].records
    assert record.measurement.proofs == {"data": "passed"}
