"""A rank of nccl on the fake CUDA, in this process: what it waits for, and when."""

import os
from collections.abc import Iterator

import pytest
import torch.distributed as dist

from hostbench.core.case import AxisValue, Case
from hostbench.core.units import MIB
from hostbench.families import load
from hostbench.ranks import group
from hostbench.ranks.group import Counters, Seat
from hostbench.ranks.rank import Rank
from tests.fakes.fake_cuda import Costs, Machine, cuda_machine

COUNT = 3
BUSY_S = 0.01


@pytest.fixture
def floor() -> Iterator[Machine]:
    with cuda_machine(1) as made:
        yield made


@pytest.fixture
def rank(floor: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    monkeypatch.setattr(group, "_current", None)
    rendezvous = os.memfd_create("rendezvous")
    load()
    rank = Rank(
        Seat(
            rank=0,
            num_ranks=1,
            local_rank=0,
            num_local=1,
            device="cuda",
            backend="nccl",
            store=lambda: dist.FileStore(f"/proc/self/fd/{rendezvous}", 1),  # type: ignore[attr-defined]
            counters=Counters(1),
            deadline_s=60.0,
        )
    )
    try:
        rank.join()
        yield rank
    finally:
        dist.destroy_process_group()
        os.close(rendezvous)


def num_entered(rank: Rank) -> int:
    return rank.seat.counters.read(0)[0]


def is_idle(floor: Machine) -> bool:
    return all(queue.free_s <= floor.now_s for queue in floor.gpus[0].queues)


def test_waiting_for_the_ranks_is_waiting_for_the_own_device(rank: Rank, floor: Machine) -> None:
    """nccl's call returns before the sum is there."""
    for wait in (rank.group.barrier, rank.group.synchronize):
        rank.device.delay(BUSY_S)
        assert not is_idle(floor)
        wait()
        assert is_idle(floor)
        entered, left, _ = rank.seat.counters.read(0)
        assert left == entered


@pytest.mark.parametrize("workload", ["all_reduce", "all_reduce_queued"])
def test_a_reading_ends_with_the_sum_and_begins_when_all_are_there(
    rank: Rank, floor: Machine, workload: str
) -> None:
    axes: dict[str, AxisValue] = {"device": "cuda", "num_ranks": 1, "nbytes": 16 * MIB}
    rank.build(Case.of(f"collectives.{workload}", axes))
    before = num_entered(rank)
    readings = rank.iterate(COUNT)
    depth = rank.prepared.depth
    assert num_entered(rank) - before == COUNT * (1 + depth), "a barrier before each reading"
    costs = Costs()
    sum_s = costs.collective_s + 2 * 16 * MIB / costs.peer_bytes_per_s
    assert all(depth * total_s >= depth * sum_s > depth * call_s for total_s, call_s in readings)
    wrong, memory, _ = rank.finish()
    assert wrong is None and memory["peak_allocated"] >= 2 * 16 * MIB


def test_a_trace_begins_when_all_are_there_and_ends_with_the_sum(
    rank: Rank, floor: Machine
) -> None:
    case = Case.of("collectives.all_reduce", {"device": "cuda", "num_ranks": 1, "nbytes": 16 * MIB})
    rank.build(case)
    before = num_entered(rank)
    host, *_ = rank.trace(case)
    assert host.spans[-1].name == "cudaDeviceSynchronize"
    assert num_entered(rank) - before == 2 * (1 + 1), "a barrier before each of two readings"
