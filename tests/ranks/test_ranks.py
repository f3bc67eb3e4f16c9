"""Real ranks through the real command line: exact sums, and one failed case when one goes wrong."""

import subprocess
from pathlib import Path

from benchmarks.collectives import NUM_RANKS
from hostbench.device import num_devices
from tests.conftest import SOAK, SoakSeeds
from tests.ranks.conftest import FAULTY, cases, culprit_of
from tests.runner.test_faults import KILLED, only_run, statuses
from tests.scratch import Scratch
from tests.stored import read_tree

LINE = FAULTY[: FAULTY.index("two")].count("\n") + 1


def run(
    checkout: Scratch, results: Path, *args: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    return checkout.hostbench("run", *args, "--results", str(results), **environ)


def test_every_rank_has_the_exact_sum_and_the_slowest_counts(
    checkout: Scratch, results: Path
) -> None:
    nums = NUM_RANKS if SOAK else (1, 2, 4)
    chosen = (f"--case=collectives.all_reduce[nbytes=4KiB,num_ranks={num}]" for num in nums)
    done = run(checkout, results, *chosen, "--launches", "1")
    assert done.returncode == 0, done.stdout
    records = only_run(results).records
    assert len(records) == len(nums)
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


LAST_WORDS = {
    "killed": f" was lost: {KILLED}; after barrier, its collective ",
    "raises": ": ValueError: put in on purpose (benchmarks/faulty.py:",
    "exits": " was lost: exit code 7; after barrier, its collective ",
    "quits": ": SystemExit: 3 (benchmarks/faulty.py:",
    "stopped": " did not answer within 4 s: stopped (SIGSTOP or a debugger); after barrier, its ",
    "differs": " did not answer within 4 s: calls broadcast, where others call all_reduce; inside ",
    "omits": " left out a collective that others wait in: inside all_reduce, its collective ",
    "late": " did not answer within 4 s: after barrier, its collective ",
    "unbuilt": f": ValueError: two lines (benchmarks/faulty.py:{LINE}); ",
}


def test_each_fault_is_one_failed_case_that_names_the_rank(
    checkout: Scratch, results: Path, soak_seeds: SoakSeeds
) -> None:
    """Whoever goes wrong, at random, with its last collective."""
    chosen = cases(f"fine {' '.join(LAST_WORDS)} wrong skips also", "num_ranks=4,")
    for seed in soak_seeds(1, 25):
        folder = results / str(seed)
        done = run(checkout, folder, *chosen, "--launches=2", "--deadline=5", SEED=f"{seed}")
        assert done.returncode == 4, done.stdout
        found = statuses(only_run(folder))
        assert found["fine"] == found["also"] == ("ok", None, 2)
        assert found["skips"] == ("skipped", "not on this machine", 0)
        for kind, words in LAST_WORDS.items():
            status, text, launch = found[kind]
            name = f"rank {culprit_of(kind, 4, seed)}"
            assert (status, launch) == ("failed", 0) and str(text).startswith(name + words), text
        name = f"rank {culprit_of('wrong', 4, seed)}"
        assert found["wrong"] == ("failed", f"proof failed: {name}: element 17 is 3, not 4", 0)
