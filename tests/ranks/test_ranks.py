"""Real ranks through the real command line: one failed case when one goes wrong."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from hostbench.core import journal
from hostbench.core.processes import with_descendants
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


TORCHRUN = ("torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "hostbench.ranks")


@pytest.mark.parametrize("starts", [("hostbench", "run"), TORCHRUN], ids=["run", "torchrun"])
def test_a_kill_at_a_random_moment_leaves_no_process(
    checkout: Scratch, results: Path, soak_seeds: SoakSeeds, starts: tuple[str, ...]
) -> None:
    """Of the command, of the launcher, or of any process below it; then all can be measured."""
    chosen = cases("fine also", "num_ranks=2,")
    words = ("-m", *starts, *chosen, "--launches=2", f"--results={results}")
    for _ in soak_seeds(1, 50):
        running = checkout.start(*words, GLOO_SOCKET_IFNAME="lo")
        time.sleep(random.uniform(0, 8))
        victim = random.choice(with_descendants({running.pid}))
        number = random.choice((signal.SIGKILL, signal.SIGTERM))
        with suppress(ProcessLookupError):
            os.kill(victim, number)
        said, _ = running.communicate(timeout=600)
        how = (
            f"{number.name} of {'a child' * (victim != running.pid)}: {running.returncode}\n{said}"
        )
        assert running.returncode in (0, 1, 3, 4, -signal.SIGKILL, -signal.SIGTERM), how
        assert checkout.wait_for_no_process() == [], how
    done = checkout.hostbench("run", *chosen, "--launches=2", f"--results={results}")
    assert done.returncode == 0, done.stdout
    assert not [*journal.find(results)] and not read_tree(results).warnings
