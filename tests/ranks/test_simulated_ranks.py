"""Collectives of simulated ranks: to the last digit."""

from collections.abc import Iterable
from typing import Any

import pytest

from hostbench.core.case import AxisValue, Case
from hostbench.core.lanes import Lane, Span, length, union
from hostbench.core.records import Launch, Outcome
from hostbench.device.simulated import SimulatedDevice
from hostbench.families import load
from hostbench.measure.measure import Settings
from hostbench.ranks import simulated
from hostbench.ranks.simulated import SimulatedGroup, trace_ranks
from hostbench.runner import worker
from tests.device.test_simulated import LATENCY, LAUNCH, WAIT, link

KIB = 1 << 10
SETTINGS = Settings(warmup_s=0.0, max_samples=3)


def busy_s(spans: Iterable[Span]) -> float:
    return length(union((one.start_s, one.end_s) for one in spans))


def case(workload: str, num_ranks: int, nbytes: int = 4 * KIB) -> Case:
    axes: dict[str, AxisValue] = {"device": "cuda", "num_ranks": num_ranks, "nbytes": nbytes}
    return Case.of(f"collectives.{workload}", axes)


def traced(workload: str, num_ranks: int) -> tuple[SimulatedDevice, list[Lane]]:
    dev = SimulatedDevice(link())
    one = case(workload, num_ranks)
    found, lanes = trace_ranks(dev, load(("collectives",))[one.workload], one, SETTINGS)
    assert found.proofs == {"data": "passed"}
    return dev, list(lanes)


def ring_s(dev: SimulatedDevice, num_ranks: int, nbytes: int = 4 * KIB) -> float:
    return 2 * (num_ranks - 1) * (LATENCY + nbytes / num_ranks / dev.link.peer_bytes_per_s)


@pytest.mark.parametrize("num_ranks", [2, 4, 8])
def test_an_all_reduce_takes_a_ring_behind_its_launch(num_ranks: int) -> None:
    dev, lanes = traced("all_reduce", num_ranks)
    assert [(lane.place, lane.name) for lane in lanes] == [
        (f"rank {rank}", name) for rank in range(num_ranks) for name in ("host", "stream 1")
    ]
    whole_s = ring_s(dev, num_ranks)
    for host, comms in zip(lanes[::2], lanes[1::2], strict=True):
        (span,) = comms.spans
        assert (span.kind, span.nbytes, span.start_s) == ("collective", 4 * KIB, LAUNCH)
        assert span.end_s - span.start_s == pytest.approx(whole_s, rel=1e-12)
        call, wait = host.spans
        assert (call.name, call.start_s, call.end_s) == ("all reduce", 0.0, LAUNCH)
        assert (wait.name, wait.start_s, wait.end_s) == ("synchronize", LAUNCH, span.end_s + WAIT)


def test_those_of_a_queue_follow_each_other_and_the_host_is_ahead() -> None:
    dev, (host, comms, *_) = traced("all_reduce_queued", 2)
    assert [one.name for one in host.spans] == ["all reduce"] * 20 + ["synchronize"]
    assert busy_s(host.spans[:20]) == 20 * LAUNCH
    assert busy_s(comms.spans) == pytest.approx(20 * ring_s(dev, 2), rel=1e-12)
    for before, after in zip(comms.spans, comms.spans[1:], strict=False):
        assert after.start_s == before.end_s


def test_one_rank_has_nothing_to_send() -> None:
    _, lanes = traced("all_reduce", 1)
    assert {lane.place for lane in lanes} == {"rank 0"}
    assert busy_s(one for lane in lanes[1:] for one in lane.spans) == 0.0


def test_a_sum_that_was_left_out_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue's data says how often it was summed."""
    real, calls = SimulatedGroup.all_reduce, [0]

    def now_and_then(self: SimulatedGroup, buffer: Any) -> None:
        calls[0] += 1
        if calls[0] % 20:
            real(self, buffer)

    monkeypatch.setattr(simulated.SimulatedGroup, "all_reduce", now_and_then)
    one = case("all_reduce_queued", 2)
    work = load(("collectives",))[one.workload]
    found, _ = trace_ranks(SimulatedDevice(link()), work, one, SETTINGS)
    assert found.proofs["data"].startswith("failed: it holds ('sum', 19), not 20 sums")


@pytest.mark.parametrize("trace", [True, False])
def test_a_worker_traces_them_and_measures_none(trace: bool) -> None:
    one = case("all_reduce", 2)
    launch = Launch(
        family="collectives", settings={}, device="simulated", trace=trace, cases=(one,)
    )
    said: list[Any] = []
    worker.walk(launch, said.append)
    (outcome,) = (each for each in said if isinstance(each, Outcome))
    if trace:
        assert outcome.status == "ok" and len(outcome.lanes) == 4
    else:
        assert (outcome.status, outcome.lanes) == ("skipped", ())
