"""A rank of nccl on the fake CUDA, in this process: what it waits for, and when."""

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch.distributed as dist

from hostbench.core.case import AxisValue, Case
from hostbench.core.errors import Unavailable
from hostbench.core.records import Settings
from hostbench.core.units import MIB
from hostbench.device import chrome
from hostbench.device.cuda import CudaDevice
from hostbench.families import exchange, load
from hostbench.families.operations import nccl_sends
from hostbench.ranks import rank as ranks
from hostbench.ranks.collective_logs import NcclLog
from hostbench.ranks.lockstep import Ranks
from hostbench.ranks.rank import GroupConfig, Rank, RankConfig
from tests.fakes.fake_cuda import Costs, Machine, cuda_machine

COUNT = 3
BUSY_S = 0.01


@pytest.fixture
def floor() -> Iterator[Machine]:
    with cuda_machine(1) as made:
        yield made


@pytest.fixture
def rank(floor: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    monkeypatch.setattr(ranks, "_current", None)
    rendezvous = os.memfd_create("rendezvous")
    load()
    store = partial(dist.FileStore, f"/proc/self/fd/{rendezvous}", 1)  # type: ignore[attr-defined]
    nccl = GroupConfig("cuda", "nccl", 1, 60.0)
    rank = Rank(RankConfig(nccl, 0, store, local_rank=0, num_local=1))
    try:
        rank.join()
        yield rank
    finally:
        dist.destroy_process_group()
        os.close(rendezvous)


def case_of(workload: str, nbytes: int = 16 * MIB, num_ranks: int = 1) -> Case:
    axes: dict[str, AxisValue] = {"device": "cuda", "num_ranks": num_ranks, "nbytes": nbytes}
    return Case(f"collectives.{workload}", axes)


def sum_s() -> float:
    costs = Costs()
    return costs.collective_s + 2 * 16 * MIB / costs.peer_bytes_per_s


def num_entered(rank: Rank) -> int:
    return rank.config.counters.entered


def is_idle(floor: Machine) -> bool:
    return all(queue.free_s <= floor.now_s for queue in floor.gpus[0].queues)


def test_nccl_whose_calls_wait_is_refused(rank: Rank, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_NCCL_BLOCKING_WAIT", "1")
    with pytest.raises(Unavailable, match="each call would wait for its collective; unset it"):
        ranks.join(rank.config)


def test_waiting_for_the_ranks_is_waiting_for_the_own_device(rank: Rank, floor: Machine) -> None:
    """nccl's call returns before the sum is there."""
    for wait in (rank.group.barrier, rank.group.synchronize):
        rank.device.delay(BUSY_S)
        assert not is_idle(floor)
        wait()
        assert is_idle(floor)
        state = rank.config.counters
        assert state.left == state.entered


@pytest.mark.parametrize("workload", ["all_reduce", "all_reduce_queued"])
def test_a_reading_ends_with_the_sum_and_begins_when_all_are_there(
    rank: Rank, floor: Machine, workload: str
) -> None:
    rank.build(case_of(workload))
    before = num_entered(rank)
    readings = rank.iterate(COUNT)
    depth = rank.prepared.depth
    assert num_entered(rank) - before == COUNT * (1 + depth), "a barrier before each reading"
    assert all(depth * total_s >= depth * sum_s() > depth * call_s for total_s, call_s in readings)
    done = rank.finish()
    assert done.proofs == {"data": "passed"} and done.memory["peak_allocated"] >= 2 * 16 * MIB


def test_a_trace_begins_when_all_are_there_and_ends_with_the_sum(rank: Rank) -> None:
    case = case_of("all_reduce")
    rank.build(case)
    before = num_entered(rank)
    trace = rank.observe(case, traced=True).trace
    calls = [event["name"] for event in trace if event.get("cat") == "cuda_runtime"]
    assert "cudaDeviceSynchronize" in calls
    readings, agreements = 2, 2  # one before it is looked; to look, and that all saw enough
    barriers = readings + 1
    assert num_entered(rank) - before == readings + barriers + agreements


@pytest.mark.parametrize(
    ("lost", "refuses", "proof"),
    [
        (0, (), "passed"),
        (1, (), "failed: 19 kernels ran in 20 collectives"),
        (0, ("profiler",), "unavailable: the profiler saw no work"),
    ],
)
def test_each_collective_of_several_ranks_is_a_kernel(
    rank: Rank,
    floor: Machine,
    monkeypatch: pytest.MonkeyPatch,
    lost: int,
    refuses: tuple[str, ...],
    proof: str,
) -> None:
    floor.refuses, rank.group.num_ranks = refuses, 2
    activities = chrome.activities
    monkeypatch.setattr(chrome, "activities", lambda events: [*activities(events)][lost:])
    seen = rank.observe(case_of("all_reduce_queued", MIB))
    assert seen.proofs["kernels"].startswith(proof)
    assert refuses or seen.findings["kernels_per_step"] == (20 - lost) / 20


@pytest.mark.parametrize(
    ("counted", "as_documented"),
    # counters of less may lag; below zero they answer at the first reading and not at the second
    [(1.5, True), (1.75, False), (0.75, None), (None, None), (-1, None)],
)
def test_what_a_gpu_sends_is_held_against_the_algorithm_that_nccl_chose(
    rank: Rank, monkeypatch: pytest.MonkeyPatch, counted: float | None, as_documented: bool | None
) -> None:
    """The group is of one; the log says a ring of four, which sends 1.5 S, of 1 MiB each."""
    sent = 0

    def bytes_sent(self: CudaDevice) -> int:
        if counted is None or sent < 0:
            raise Unavailable("no counters")
        return sent

    def steps(self: Rank) -> None:
        nonlocal sent
        sent += round((counted or 0) * MIB) * self.prepared.depth
        run(self)

    run = Rank._steps
    monkeypatch.setattr(Rank, "_steps", steps)
    monkeypatch.setattr(CudaDevice, "bytes_sent", bytes_sent)
    monkeypatch.setattr(NcclLog, "choices", lambda self, start: "RING SIMPLE")
    monkeypatch.setattr(
        exchange, "nccl_sends", lambda name, num, chosen: nccl_sends(name, 4, chosen)
    )
    rank.log = NcclLog()
    observed = rank.observe(case_of("all_reduce", MIB))
    assert observed.findings.get("sends_as_documented") is as_documented
    assert observed.sent == ({} if as_documented is None else {"0": (counted or 0) * MIB})

    def build(self: Rank, case: Case) -> None:
        make(self, case)
        self.prepared = replace(self.prepared, sends_exactly=True)

    make = Rank.build
    monkeypatch.setattr(Rank, "build", build)
    sent = 0
    seen = rank.observe(case_of("all_reduce", MIB))
    proof = seen.proofs.pop("sent").partition(":")[0]
    assert proof == {True: "passed", False: "failed", None: "unavailable"}[as_documented]
    assert seen.proofs == {} and seen.findings["kernels_per_step"] == 1


def test_on_the_device_a_reading_begins_with_all_ranks_and_has_no_time_of_the_host(
    rank: Rank, floor: Machine
) -> None:
    assert rank.build(case_of("all_reduce_queued"))
    before = num_entered(rank)
    for reading_s in rank.device_clock(COUNT, BUSY_S):
        assert reading_s == pytest.approx(sum_s(), rel=1e-6)
    in_one = 1 + 1 + rank.prepared.depth  # a barrier, and behind the delay what they begin with
    assert num_entered(rank) - before == COUNT * in_one


def test_two_ranks_on_two_gpus_are_timed_on_their_devices_and_observed() -> None:
    """The ranks are processes; what forks them is this one."""
    case = case_of("all_reduce_queued", MIB, num_ranks=2)
    work = load()[case.workload]
    with cuda_machine(2):
        ranks = Ranks(60.0)
        result = ranks.measure(work, case, Settings(budget_s=0.01, warmup_s=0.0))
        seen = ranks.observe(work, case)
        ranks.close()
    assert result.proofs == {"data": "passed"} and len(result.ranks) == 2
    assert 0 < max(result.device_s) < min(result.end_to_end_s)
    assert seen.proofs == {"kernels": "passed"} and seen.findings["kernels_per_step"] == 1.0


def test_ranks_on_gpus_talk_by_another_backend_where_a_case_says_so() -> None:
    work = load()["collectives.all_reduce"]
    ranks, case = Ranks(60.0), case_of("all_reduce", MIB, num_ranks=2)
    settings = Settings(budget_s=0.01, warmup_s=0.0)
    with cuda_machine(2):
        gloo, mpi = (
            replace(work, per_case={**work.per_case, "backend": name}) for name in ("gloo", "mpi")
        )
        result = ranks.measure(gloo, case, settings)
        with pytest.raises(Unavailable, match="this torch is built without mpi"):
            ranks.measure(mpi, case, settings)
    ranks.close()
    assert result.proofs == {"data": "passed"} and result.device_s == ()
    assert result.sent["0"] == result.sent["1"] > MIB
