"""What the pool's parent decides: scripted ranks, no processes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.core.records import Launch, Measurement, Message, Outcome
from hostbench.core.units import MIB
from hostbench.device.base import Device
from hostbench.device.cuda import CudaDevice
from hostbench.measure.declare import check_family, workload
from hostbench.measure.measure import Prepared, Settings
from hostbench.measure.workload import Workload
from hostbench.ranks import group, lockstep, rank
from hostbench.ranks.group import Seat
from hostbench.ranks.pool import Deadline
from hostbench.ranks.replies import RankFailure
from hostbench.runner import worker
from tests.fakes.fake_cuda import cuda_machine


def test_per_iteration_the_slowest_rank_counts_on_each_clock() -> None:
    ranks = [[(1.0, 0.5), (4.0, 0.1)], [(3.0, 0.2), (2.0, 0.9)], [(2.0, 0.3), (3.0, 0.3)]]
    assert lockstep.slowest(ranks) == [(3.0, 0.5), (4.0, 0.9)]
    with pytest.raises(ValueError):
        lockstep.slowest([[(1.0, 1.0)], []])


class Script:
    """A pool of which two ranks answer: rank 0 takes 1 s a step, rank 1 2 s, the first time 9 s."""

    made: list["Script"]
    refuses = hangs = False

    def __init__(self, device: str, num_ranks: int) -> None:
        assert device == "cpu"
        self.num_ranks = num_ranks
        self.orders: list[str] = []
        self.counts: list[int] = []
        self.is_killed = False
        assert all(earlier.is_killed for earlier in Script.made), "two pools at once"
        Script.made.append(self)
        self.done = 0

    def ask(self, deadline: Deadline, order: str, *arguments: Any) -> list[Any]:
        assert deadline.given_s == 8.0
        self.orders.append(order)
        self.counts += arguments if order == "iterate" else ()
        if order == "iterate":
            self.done += arguments[0]
            second = 9.0 if self.done == 1 else 2.0
            return [[(1.0, 0.25)] * arguments[0], [(second, 0.125)] * arguments[0]]
        if order == "build" and arguments[0].values["kind"] == "lost":
            raise RankFailure("rank 1 was lost")
        if order == "take_seat" and Script.refuses:
            raise Unavailable("needs 2 GPUs, this machine has 1")
        if order == "take_seat" and Script.hangs:
            raise RankFailure("rank 1 did not answer within 8 s")
        if order == "finish":
            return [(None, {"peak_allocated": 3}), ("it is wrong", {})]
        return [True, True]

    def kill(self) -> None:
        self.is_killed = True


WORK = Workload(
    name="pairs.go",
    axes={"device": ("cpu",), "kind": ("fine", "lost", "four")},
    version="1",
    build=lambda device, kind: lambda: None,
    ranks=lambda device, kind: 4 if kind == "four" else 2,
)


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> lockstep.Room:
    Script.made = []
    monkeypatch.setattr(lockstep, "Pool", Script)
    monkeypatch.setattr(lockstep, "is_oversubscribed", lambda device, num_ranks: True)
    return lockstep.Room(10.0)


def measured(room: lockstep.Room, kind: str = "fine", **more: Any) -> Measurement:
    case = Case.of(WORK.name, {"device": "cpu", "kind": kind})
    work = replace(WORK, depth=more.pop("depth", 1))
    return room.measure(work, case, Settings(**{"budget_s": 1e9, "warmup_s": 0.0, **more}))


def test_the_measurement_is_of_the_slowest_rank(room: lockstep.Room) -> None:
    found = measured(room)
    samples = found
    assert samples.first_s == 9.0 and set(samples.end_to_end_s) == {2.0}
    assert set(samples.call_s) == {0.25} and samples.device_s == ()
    assert found.ranks == {"0": 1.0, "1": 2.0}
    assert found.findings == {"oversubscribed": True}
    assert found.proofs == {"data": "failed: rank 1: it is wrong"}
    assert found.memory == {"peak_allocated": 3}


@pytest.mark.parametrize(("depth", "count"), [(1, 5), (20, 3)])
def test_an_order_counts_all_steps_before_a_synchronize(
    room: lockstep.Room, depth: int, count: int
) -> None:
    """2 s a step: of 20 an iteration takes 40 s, and 100 s hold the least number of them."""
    found = measured(room, depth=depth, budget_s=100.0, max_samples=count)
    (pool,) = Script.made
    assert (found.depth, pool.counts) == (depth, [1, 1, count])


def test_a_pool_is_kept_for_the_next_case_and_replaced_after_a_failure(
    room: lockstep.Room,
) -> None:
    measured(room)
    measured(room)
    with pytest.raises(RankFailure, match="rank 1"):
        measured(room, "lost")
    (first,) = Script.made
    assert first.is_killed and first.orders.count("take_seat") == 1
    measured(room)
    room.close()
    _, second = Script.made
    assert second.is_killed


def test_one_pool_lives_at_a_time(room: lockstep.Room) -> None:
    """Ranks of an idle pool would keep a context on each GPU."""
    for kind in ("fine", "four", "four", "fine"):
        measured(room, kind)
    assert [pool.num_ranks for pool in Script.made] == [2, 4, 2]
    assert [pool.is_killed for pool in Script.made] == [True, True, False]


def test_a_machine_that_refuses_is_asked_once(
    room: lockstep.Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Script, "refuses", True)
    for _ in range(2):
        with pytest.raises(Unavailable, match="needs 2 GPUs, this machine has 1"):
            measured(room)
    assert len(Script.made) == 1 and Script.made[0].is_killed


def test_ranks_that_do_not_start_are_waited_for_once(
    room: lockstep.Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Script, "hangs", True)
    for _ in range(2):
        with pytest.raises(RankFailure, match="rank 1 did not answer"):
            measured(room)
    assert len(Script.made) == 1 and Script.made[0].is_killed


NONE = memoryview(b"")


@pytest.mark.parametrize(("has", "opened"), [(1, False), (2, True), (0, True)])
def test_ranks_do_not_share_a_gpu(monkeypatch: pytest.MonkeyPatch, has: int, opened: bool) -> None:
    """Without any GPU the device itself says what is broken."""

    def open_device(name: str, index: int) -> Device:
        raise ZeroDivisionError(f"{name} {index}")

    monkeypatch.setattr(group, "num_devices", lambda name: has)
    monkeypatch.setattr(group, "open_device", open_device)
    seat = Seat(rank=1, num_ranks=2, device="cuda", rendezvous=-1, entered=NONE, left=NONE)
    expected = ZeroDivisionError if opened else Unavailable
    with pytest.raises(expected, match="cuda 1" if opened else "needs 2 GPUs, this machine has 1"):
        group.take(seat)


def test_the_simulated_device_has_no_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "load", lambda families: {WORK.name: WORK})
    messages: list[Message] = []
    case = Case.of(WORK.name, {"device": "cpu", "kind": "fine"})
    launch = Launch(family="pairs", settings={}, device="simulated", cases=(case,))
    worker.walk(launch, messages.append)
    (skip,) = [message for message in messages if isinstance(message, Outcome)]
    assert (skip.status, skip.reason) == ("skipped", "the simulated device has no ranks")


def test_a_ranks_peak_is_of_its_steps_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of building the case, and not of checking its data."""

    def prepare(work: object, device: Device, case: Case) -> Prepared:
        device.buffer(32 * MIB)
        return Prepared(
            step=lambda: device.buffer(2 * MIB),
            verify=lambda: None if device.buffer(16 * MIB).nbytes else "empty",
        )

    case = Case.of("made.up", {"device": "cuda"})
    monkeypatch.setattr(rank, "registry", lambda: {case.workload: None})
    monkeypatch.setattr(rank, "prepare", prepare)
    with cuda_machine():
        one = rank._Rank(cast(Seat, None))
        one.device = CudaDevice()
        one.group = cast(Any, SimpleNamespace(barrier=int, synchronize=one.device.synchronize))
        assert one.build(case)
        one.iterate(1)
        wrong, memory = one.finish()
        assert (wrong, memory["peak_allocated"]) == (None, 2 * MIB)


def test_a_family_has_ranks_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostbench.measure.workload._REGISTRY", {})

    def one(device: Device) -> Any: ...
    def two(device: Device) -> Any: ...

    with_ranks = workload(axes={"device": ("cpu",)}, version="1", ranks=lambda **_: 2)(one)
    without = workload(axes={"device": ("cpu",)}, version="1")(two)
    with pytest.raises(ValueError, match="declare `ranks`"):
        check_family([with_ranks, without], thorough=True)
