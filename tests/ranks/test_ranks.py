"""Real ranks through the real command line: one failed case when one goes wrong."""

from pathlib import Path

from hostbench.device import num_devices
from tests.conftest import SoakSeeds
from tests.ranks.conftest import FAULTY, cases, culprit_of
from tests.runner.test_faults import KILLED, statuses
from tests.scratch import Scratch
from tests.stored import only_run, read_tree

LINE = FAULTY[: FAULTY.index("two")].count("\n") + 1


LAST_WORDS = {
    "killed": f" was lost: {KILLED}; after barrier, its collective ",
    "raises": ": ValueError: put in on purpose (benchmarks/faulty.py:",
    "exits": " was lost: exit code 7; after barrier, its collective ",
    "quits": ": SystemExit: 3 (benchmarks/faulty.py:",
    "stopped": " did not answer within 4 s: stopped (SIGSTOP or a debugger); after barrier, its ",
    "differs": " did not answer within 4 s: in one collective some call broadcast, others all_re",
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
        command = ("run", *chosen, "--launches=2", "--deadline=5", f"--results={folder}")
        done = checkout.hostbench(*command, SEED=f"{seed}")
        assert done.returncode == 4, done.stdout
        found = statuses(only_run(folder))
        assert found["fine"] == found["also"] == ("ok", None, 2)
        (flags,) = {row.flags for row in read_tree(folder).frame.itertuples() if row.kind == "fine"}
        assert flags == ("oversubscribed" if num_devices("cpu") < 4 else "")
        assert found["skips"] == ("skipped", "not on this machine", 0)
        for kind, words in LAST_WORDS.items():
            status, text, launch = found[kind]
            name = f"rank {culprit_of(kind, 4, seed)}"
            assert (status, launch) == ("failed", 0) and str(text).startswith(name + words), text
        name = f"rank {culprit_of('wrong', 4, seed)}"
        assert found["wrong"] == ("failed", f"proof failed: {name}: element 17 is 3, not 4", 0)
