"""What the pool's parent decides: scripted ranks, no processes."""

import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.distributed as dist

from hostbench.core.case import Case
from hostbench.core.errors import RankFailure, Unavailable
from hostbench.core.records import FindingValue, Measurement, Settings
from hostbench.core.units import MIB
from hostbench.device.base import Device
from hostbench.device.cuda import CudaDevice
from hostbench.measure import measure
from hostbench.measure.measure import DEVICE_READINGS, EVENT_DELAY_S, MIN_SAMPLES, Prepared
from hostbench.measure.workload import Workload
from hostbench.ranks import lockstep, pool, rank
from hostbench.ranks.lockstep import Ranks
from hostbench.ranks.rank import GroupConfig, RankConfig
from tests.fakes.fake_cuda import cuda_machine


def of(wrong: str | None, sent: Any = (), **findings: FindingValue) -> Measurement:
    """What a rank learned of its case."""
    proofs = {"data": "passed" if wrong is None else wrong}
    memory = {"peak_allocated": 3}
    return Measurement(findings=findings, proofs=proofs, memory=memory, sent=dict(sent))


class Script:
    """Ranks of which two answer: rank 0 takes 1 s a step, rank 1 2 s, the first time 9 s."""

    made: list["Script"]
    refuses: Exception | None = None
    has_clock = False
    wrong: str | None = None

    def __init__(self, group: GroupConfig) -> None:
        assert (group.device, group.deadline_s) == ("cpu", 10.0)
        self.key = group.backend, group.num_ranks
        self.orders: list[tuple[Any, ...]] = []
        self.is_closed = False
        assert all(earlier.is_closed for earlier in Script.made), "two pools at once"
        Script.made.append(self)
        self.num_iterations = 0
        self.names = ["rank 0 on a", "rank 1 on b"]

    def ask(self, until: float, order: str, *arguments: Any) -> list[Any]:
        assert 0 < until - time.monotonic() <= 8.0
        self.orders.append((order, *arguments))
        if order == "iterate":
            self.num_iterations += arguments[0]
            second_s = 9.0 if self.num_iterations == 1 else 2.0
            return [[(1.0, 0.25)] * arguments[0], [(second_s, 0.125)] * arguments[0]]
        if order == "build" and arguments[0].values["kind"] == "lost":
            raise RankFailure("rank 1 was lost")
        if order == "join" and Script.refuses is not None:
            raise Script.refuses
        answers: dict[str, list[Any]] = {
            "join": [{"oversubscribed": False}, {"oversubscribed": True}],
            "build": [Script.has_clock] * 2,
            "num_page_faults": [0, 0],
            "start": [None, None],
            "observe": [of(None, kernels_per_step=20), of(Script.wrong, kernels_per_step=19)],
            "device_clock": [[0.5, 0.75], [0.25, 1.0]],
            "finish": [
                of(None, late=1, sends_as_documented=True, sent={"0": 10}),
                of(Script.wrong, late=2, sends_as_documented=False, sent={"1": 20}),
            ],
        }
        return answers[order]

    def close(self) -> None:
        self.is_closed = True


WORK = Workload(
    name="pairs.go",
    axes={"device": ("cpu",), "kind": ("fine", "lost", "four", "other")},
    version="1",
    build=lambda device, kind: lambda: None,
    per_case={
        "ranks": lambda device, kind: 4 if kind == "four" else 2,
        "backend": lambda device, kind: "mpi" if kind == "other" else "gloo",
    },
)


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    Script.made = []
    for name in ("refuses", "has_clock", "wrong"):
        monkeypatch.setattr(Script, name, getattr(Script, name))
    monkeypatch.setattr(lockstep, "Pool", Script)
    return Ranks(10.0)


def measured(ranks: Ranks, kind: str = "fine", **more: Any) -> Measurement:
    case = Case(WORK.name, {"device": "cpu", "kind": kind})
    more_of = {**WORK.per_case, "depth": more.pop("depth", 1)}
    work = replace(WORK, per_case=more_of, sampling=more.pop("sampling", 1.0))
    return ranks.measure(work, case, Settings(**{"budget_s": 0.0, "warmup_s": 0.0, **more}))


def test_a_workload_that_asks_for_a_share_of_the_time_gets_no_more(ranks: Ranks) -> None:
    whole, none = (measured(ranks, budget_s=0.1, sampling=share) for share in (1.0, 0.0))
    assert len(whole.end_to_end_s) > MIN_SAMPLES == len(none.end_to_end_s)


def test_the_measurement_is_of_the_slowest_rank(ranks: Ranks) -> None:
    result = measured(ranks)
    assert set(result.end_to_end_s) == {2.0}
    assert set(result.call_s) == {0.25}
    assert result.device_s == ()
    assert result.ranks == {"0": 1.0, "1": 2.0}
    assert result.findings == {
        "oversubscribed": True,
        "late": 1,
        "sends_as_documented": False,
        "most_sent_bytes": 20,
    }
    assert result.sent == {"0": 10, "1": 20}
    assert result.proofs == {"data": "passed"}
    assert result.memory == {"peak_allocated": 3}


def test_no_time_is_kept_of_wrong_results(ranks: Ranks) -> None:
    Script.wrong = "failed: element 17 is 3, not 5"
    result = measured(ranks)
    assert result.proofs == {"data": "failed: rank 1 on b: element 17 is 3, not 5"}
    assert result.end_to_end_s == () and result.ranks == {}
    seen = ranks.observe(WORK, Case(WORK.name, {"device": "cpu", "kind": "fine"}))
    assert seen.proofs == result.proofs and seen.findings == {"kernels_per_step": 20}


def test_a_proof_that_one_rank_could_not_make_is_not_passed_by_the_others(ranks: Ranks) -> None:
    Script.wrong = "unavailable: no room"
    result = measured(ranks)
    assert result.proofs == {"data": "unavailable: no room"} and result.end_to_end_s


def test_the_device_clock_waits_for_the_slowest_call_and_takes_the_slowest_rank(
    ranks: Ranks,
) -> None:
    Script.has_clock = True
    result = measured(ranks, depth=20)
    assert result.device_s == (0.5, 1.0)
    (pool,) = Script.made
    assert ("device_clock", DEVICE_READINGS, EVENT_DELAY_S + 20 * 0.25) in pool.orders


@pytest.mark.parametrize(("depth", "count"), [(1, 5), (20, 2)])
def test_an_order_counts_all_steps_before_a_synchronize(
    ranks: Ranks, depth: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 s a step: of 20 an iteration takes 40 s, and 100 s hold two of them."""
    monkeypatch.setattr(measure, "MAX_READINGS", 9)
    measured(ranks, depth=depth, budget_s=100.0)
    (pool,) = Script.made
    counts = [arguments[0] for order, *arguments in pool.orders if order == "iterate"]
    assert counts[:5] == [1, 1, 1, count, count]


def test_a_pool_lives_until_a_case_fails_or_wants_another(ranks: Ranks) -> None:
    """One at a time: ranks of an idle pool would keep a context on each GPU."""
    for kind in ("fine", "fine", "four", "four", "other", "fine"):
        measured(ranks, kind)
    with pytest.raises(RankFailure, match="rank 1 was lost"):
        measured(ranks, "lost")
    measured(ranks)
    keys = [("gloo", 2), ("gloo", 4), ("mpi", 2), ("gloo", 2), ("gloo", 2)]
    assert [pool.key for pool in Script.made] == keys
    assert [pool.is_closed for pool in Script.made] == [True] * 4 + [False]
    ranks.close()
    assert Script.made[-1].is_closed


@pytest.mark.parametrize(
    ("reason", "num_tries"), [(Unavailable("needs 2 GPUs"), 1), (RankFailure("was lost"), 2)]
)
def test_ranks_that_cannot_join_are_asked_once_and_that_fail_to_twice(
    ranks: Ranks, reason: Exception, num_tries: int
) -> None:
    """Who is killed while joining costs one case; what always fails may take long."""
    Script.refuses = reason
    for _ in range(3):
        with pytest.raises(type(reason), match=str(reason)):
            measured(ranks)
    assert len(Script.made) == num_tries and all(pool.is_closed for pool in Script.made)


@pytest.mark.parametrize(("has", "opened"), [(1, False), (2, True), (0, True)])
def test_ranks_do_not_share_a_gpu(monkeypatch: pytest.MonkeyPatch, has: int, opened: bool) -> None:
    """Without any GPU the device itself says what is broken."""

    def open_device(name: str, index: int) -> Device:
        raise ZeroDivisionError(f"{name} {index}")

    monkeypatch.setattr(rank, "num_devices", lambda name: has)
    monkeypatch.setattr(rank, "open_device", open_device)
    monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: True)
    nccl = GroupConfig("cuda", "nccl", 2, 1.0)
    config = RankConfig(nccl, 1, object, local_rank=1, num_local=2)
    expected = ZeroDivisionError if opened else Unavailable
    with pytest.raises(expected, match="cuda 1" if opened else "needs 2 GPUs, this machine has 1"):
        rank.join(config)


def test_a_rank_joins_with_the_deadline_of_the_case_and_the_interface_of_the_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {}
    device = SimpleNamespace(torch_device=torch.device("cpu"), settle=int)
    monkeypatch.setattr(rank, "open_device", lambda name, index: device)
    monkeypatch.setattr(rank, "_current", None)
    monkeypatch.setattr(dist, "init_process_group", lambda name, **options: asked.update(options))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    gloo, store = GroupConfig("cpu", "gloo", 1, 7.0), partial(pool._store, str(tmp_path / "s"), 1)
    rank.join(RankConfig(gloo, 0, store, local_rank=0, num_local=1))
    assert asked["timeout"].total_seconds() == 7.0
    assert os.environ["GLOO_SOCKET_IFNAME"] == "eth7"


def test_a_ranks_peak_is_of_its_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of building the case, and not of checking its data."""

    def prepare(work: object, device: Device, case: Case) -> Prepared:
        device.buffer(32 * MIB)
        return Prepared(
            step=lambda: device.buffer(2 * MIB),
            verify=lambda: None if device.buffer(16 * MIB).nbytes else "empty",
        )

    case = Case("made.up", {"device": "cuda"})
    monkeypatch.setattr(rank, "REGISTRY", {case.workload: None})
    monkeypatch.setattr(rank, "prepare", prepare)
    with cuda_machine():
        one = rank.Rank(cast(RankConfig, None))
        one.device = CudaDevice()
        synchronize = one.device.synchronize
        one.group = cast(Any, SimpleNamespace(barrier=int, synchronize=synchronize, backend="nccl"))
        assert one.build(case)
        one.iterate(1)
        done = one.finish()
        assert (done.proofs, done.memory["peak_allocated"]) == ({"data": "passed"}, 2 * MIB)
