"""Ranks of which one goes wrong: `python -m tests.ranks.faults` reads a seed from each line, has a
pool of 2 to 4 ranks do the fault that it draws, and writes what was done and what the pool said.

A process of its own, for what forks ranks must not have run any torch operation.
"""

import json
import os
import random
import signal
import sys
import time
from dataclasses import asdict, dataclass

import torch
import torch.distributed as dist

from hostbench import rank_group
from hostbench.core.case import Case
from hostbench.core.errors import RankFailure
from hostbench.device.base import Device, Step
from hostbench.measure.workload import Workload, register
from hostbench.ranks.group import GroupConfig
from hostbench.ranks.pool import Deadline, Pool

KINDS = ("raises", "exits", "quits", "killed", "stopped", "hangs", "differs", "leaves out")
PATIENCE_S = 1.0
"""Of the order in which it goes wrong; the others wait so long for who hangs."""


@dataclass(frozen=True)
class Fault:
    kind: str
    num_ranks: int
    culprit: int
    iteration: int
    """From 0; one takes a barrier and an all-reduce."""
    inside: bool
    """In the all-reduce, as far as the counters tell; else before it."""

    @classmethod
    def drawn(cls, seed: int) -> "Fault":
        draw = random.Random(seed)
        num_ranks = draw.randint(2, 4)
        return cls(
            KINDS[seed % len(KINDS)],
            num_ranks,
            draw.randrange(num_ranks),
            draw.randrange(6),
            draw.random() < 0.5 or KINDS[seed % len(KINDS)] in ("differs", "leaves out"),
        )


def go_wrong(kind: str, rank: int) -> None:
    if kind == "differs":  # under the name that the others count, too
        dist.broadcast(torch.ones(1000), rank)
        return
    if kind == "raises":
        raise ValueError("put in on purpose")
    if kind == "exits":
        os._exit(7)
    if kind == "quits":
        sys.exit(3)
    if kind in ("killed", "stopped"):
        os.kill(os.getpid(), signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
    time.sleep(1000)


def build(device: Device, **axes: object) -> Step:
    fault, group = Fault(**axes), rank_group()  # type: ignore[arg-type]
    num_calls, leaves_out = 0, fault.kind == "leaves out"
    buffer = torch.ones(
        1 if leaves_out else 1000
    )  # as long as the barrier's: gloo sees no mismatch

    def call() -> None:
        if group.rank == fault.culprit and fault.inside and num_calls > fault.iteration:
            if leaves_out:
                return
            go_wrong(fault.kind, group.rank)
        dist.all_reduce(buffer)

    all_reduce = group.counted("all_reduce", call)

    def step() -> None:
        nonlocal num_calls
        num_calls += 1
        if group.rank == fault.culprit and not fault.inside and num_calls > fault.iteration:
            go_wrong(fault.kind, group.rank)
        all_reduce()

    return step


def message_of(fault: Fault) -> str:
    """What the pool says."""
    case = Case.of("faults.go", {"device": "cpu", **asdict(fault)})
    pool = Pool(GroupConfig("cpu", "gloo", fault.num_ranks, 120.0))
    try:
        for order, *arguments in (("join",), ("build", case)):
            pool.ask(Deadline.after(60.0), order, *arguments)
        pool.ask(Deadline.after(PATIENCE_S), "iterate", 8)
    except RankFailure as failure:
        return str(failure)
    finally:
        pool.close()
    return "nothing"


if __name__ == "__main__":
    register(Workload(name="faults.go", axes={"device": ("cpu",)}, version="1", build=build))
    for line in sys.stdin:
        drawn = Fault.drawn(int(line))
        print(json.dumps([asdict(drawn), message_of(drawn)]), flush=True)
