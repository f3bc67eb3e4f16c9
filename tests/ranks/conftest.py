"""A throwaway checkout with a family in which a rank goes wrong."""

import random

import pytest

from tests import scratch
from tests.scratch import Scratch

FAULTY = '''
"""faulty: collectives in which a rank goes wrong, for tests."""

import os
import random
import signal
import sys
import time
from pathlib import Path

from hostbench import DEVICES, Prepared, suite, workload


def setup_cache():
    return suite.measure("faulty")


KINDS = ("fine", "killed", "raises", "exits", "hangs", "gone", "unbuilt", "wrong", "skips", "late")
KINDS += ("quits", "stopped", "differs", "omits", "also")


@workload(
    axes={"device": DEVICES, "num_ranks": (2, 4), "kind": KINDS},
    version="1",
    ranks=lambda num_ranks, **_: num_ranks,
)
def go(device, num_ranks, kind):
    """Goes wrong in its own way."""
    import torch
    import torch.distributed as dist

    from hostbench import rank_group
    from hostbench.core.errors import Unavailable

    # as long as the barrier's where one is left out: gloo sees no mismatch
    group, buffer = rank_group(), torch.ones(1 if kind == "omits" else 1024)
    drawn = random.Random(f"{os.environ.get('SEED')} {kind}").randrange(num_ranks)
    culprit = group.rank == (1 if kind == "gone" else drawn) and kind
    if kind == "skips":
        raise Unavailable("not on this machine")
    if culprit == "unbuilt":
        raise ValueError("two\\nlines")
    if culprit == "gone" and Path("once").exists():
        os.kill(os.getppid(), signal.SIGKILL)  # as if its host went down
        time.sleep(1000)
    if culprit == "gone":
        Path("once").touch()

    def call():
        if culprit == "differs":  # under the name that the others count, too
            dist.broadcast(buffer, group.rank)
        else:
            dist.all_reduce(buffer)

    all_reduce = group.counted("all_reduce", call)

    def step():
        if culprit in ("killed", "stopped"):
            os.kill(os.getpid(), signal.SIGKILL if culprit == "killed" else signal.SIGSTOP)
        if culprit == "raises":
            raise ValueError("put in on purpose")
        if culprit == "exits":
            os._exit(7)
        if culprit == "quits":
            sys.exit(3)
        if culprit == "hangs":
            time.sleep(1000)
        if culprit != "omits":
            all_reduce()

    def verify():
        if culprit == "late":
            time.sleep(1000)
        return "element 17 is 3, not 4" if culprit == "wrong" else None

    return Prepared(step=step, before=lambda: buffer.fill_(1), verify=verify)
'''


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Scratch:
    checkout = scratch.make(tmp_path_factory.mktemp("ranks"))
    (checkout.root / "benchmarks/faulty.py").write_text(FAULTY)
    checkout.only_families("faulty", "collectives")
    checkout.keep_bytecode()
    checkout.commit("ranks that go wrong")
    return checkout


def culprit_of(kind: str, num_ranks: int, seed: int | None = None) -> int:
    """Who goes wrong in it."""
    return random.Random(f"{seed} {kind}").randrange(num_ranks)


def cases(kinds: str, axes: str = "") -> list[str]:
    return [f"--case=faulty.go[{axes}kind={kind}]" for kind in kinds.split()]
