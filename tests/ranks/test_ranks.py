"""Real ranks through the real command line: exact sums, and one failed case when one goes wrong."""

import json
import subprocess
import sys
from pathlib import Path

from benchmarks.collectives import NUM_RANKS
from hostbench.device import num_devices
from tests.conftest import SoakSeeds
from tests.ranks.conftest import FAULTY, cases, culprit_of
from tests.runner.test_faults import only_run, statuses
from tests.scratch import Scratch
from tests.stored import read_tree


def run(checkout: Scratch, results: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return checkout.hostbench("run", *args, "--results", str(results))


def test_every_rank_has_the_exact_sum_and_the_slowest_counts(
    checkout: Scratch, results: Path
) -> None:
    small, large = (f"collectives.all_reduce[nbytes={size}]" for size in ("4KiB", "1MiB"))
    done = run(checkout, results, "--case", small, "--case", large, "--launches", "1")
    assert done.returncode == 0, done.stdout
    records = only_run(results).records
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
    chosen = cases("fine killed unbuilt wrong skips late also", "num_ranks=4,")
    done = run(checkout, results, *chosen, "--launches", "2", "--deadline", "5")
    line = FAULTY[: FAULTY.index("two")].count("\n") + 1
    assert done.returncode == 4, done.stdout
    found = statuses(only_run(results))
    assert found["fine"] == ("ok", None, 2)
    assert found["also"] == ("ok", None, 2)
    assert found["skips"] == ("skipped", "not on this machine", 0)
    for kind, reason in {
        "killed": " was lost: killed by SIGKILL; after barrier, its collective ",
        "late": " did not answer within 4 s: after barrier, its collective ",
        "unbuilt": f": ValueError: two lines (benchmarks/faulty.py:{line}); ",
    }.items():
        status, text, launch = found[kind]
        name = f"rank {culprit_of(kind, 4)}"
        assert (status, launch) == ("failed", 0) and str(text).startswith(name + reason), text
    name = f"rank {culprit_of('wrong', 4)}"
    assert found["wrong"] == ("failed", f"proof failed: {name}: element 17 is 3, not 4", 0)


LAST_WORDS = {
    "raises": "rank {culprit}: ValueError: put in on purpose (tests/ranks/faults.py:{line})",
    "exits": "rank {culprit} was lost: exit code 7",
    "quits": "rank {culprit}: SystemExit: 3 (tests/ranks/faults.py:{line})",
    "killed": "rank {culprit} was lost: killed by SIGKILL",
    "stopped": "rank {culprit} did not answer within 1 s: stopped (SIGSTOP or a debugger)",
    "hangs": "rank {culprit} did not answer within 1 s",
    "differs": "rank {culprit} did not answer within 1 s: calls broadcast, where others call",
    "leaves out": "rank {culprit} left out a collective that others wait in: ",
}
OF_TWO = "rank 0, rank 1 did not answer within 1 s: in one collective rank 0 calls "
"""What differs: both are named."""


def test_whoever_goes_wrong_is_named_with_its_last_collective(soak_seeds: SoakSeeds) -> None:
    """In each of eight ways, at a random rank of 2 to 4 and at a random step."""
    lines = Path("tests/ranks/faults.py").read_text().splitlines()
    marks = {"raises": "raise ValueError", "quits": "sys.exit", "hangs": "time.sleep"}
    argv = [sys.executable, "-m", "tests.ranks.faults"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as pools:
        assert pools.stdin is not None and pools.stdout is not None
        for seed in soak_seeds(8, 200):
            print(seed, file=pools.stdin, flush=True)
            fault, message = json.loads(pools.stdout.readline())
            mark = marks.get(fault["kind"], "no line")
            line = next((n for n, text in enumerate(lines, start=1) if mark in text), 0)
            expected = LAST_WORDS[fault["kind"]].format(culprit=fault["culprit"], line=line)
            if fault["kind"] == "differs" and fault["num_ranks"] == 2:
                expected = OF_TWO + ("all_reduce", "broadcast")[fault["culprit"] == 0]
            number = 2 * fault["iteration"] + 1 + fault["inside"]
            where = "inside all_reduce" if fault["inside"] else "after barrier"
            assert message.startswith(expected), fault
            if fault["kind"] != "leaves out":  # it is the others' that is named
                assert f" {where}, its collective {number}" in message, fault
            if fault["kind"] == "hangs":
                assert message.endswith(f"(tests/ranks/faults.py:{line})"), fault
