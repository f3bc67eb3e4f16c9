"""A reading seen lane by lane: exact on the simulated device, its structure on the cpu device."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest

from hostbench.core.lanes import Lane, length
from hostbench.core.records import Launch, Outcome
from hostbench.device.activity import Activity, lanes
from hostbench.device.base import Device
from hostbench.device.cpu import CpuDevice
from hostbench.device.loading import Loading
from hostbench.device.traced import CallLog, Traced
from hostbench.families import load, names
from hostbench.measure.measure import Prepared
from hostbench.measure.trace import trace
from hostbench.runner import worker
from tests.device.test_simulated import H2D, LAUNCH, PINNED_S, WAIT, N, device

COMPUTE_S = 2.0**-2


def watched(target: Any) -> Device:
    return cast(Device, Traced(target, CallLog(target.now)))


def seen(lane: Lane) -> list[tuple[str, str, float, float]]:
    return [(one.name, one.kind, one.start_s, one.end_s) for one in lane.spans]


def overlapping(dev: Device, *, pinned: bool = True) -> Callable[[], None]:
    """A copy on one stream, a compute that waits for it on another."""
    host, there = dev.host_buffer(N, pinned=pinned), dev.buffer(N)
    copies, computes = dev.stream(), dev.stream()
    arrived, compute = dev.event(), dev.compute(COMPUTE_S)

    def step() -> None:
        with dev.on(copies):
            dev.copy(there, host, blocking=False)
            arrived.record()
        with dev.on(computes):
            computes.wait(arrived)
            compute()

    return step


def test_the_simulated_device_is_seen_to_the_last_digit() -> None:
    dev = watched(device())
    step = overlapping(dev)
    dev._target.host_s = 16.0  # type: ignore[attr-defined]
    host, copies, computes = trace(dev, Prepared(step=step))
    copied_s = LAUNCH + PINNED_S
    done_s = copied_s + COMPUTE_S
    assert (host.name, copies.name, computes.name) == ("host", "stream 1", "stream 2")
    assert seen(host) == [
        ("copy", "call", 0.0, LAUNCH),
        ("compute", "call", LAUNCH, 2 * LAUNCH),
        ("synchronize", "wait", 2 * LAUNCH, done_s + WAIT),
    ]
    assert seen(copies) == [("H2D pinned", "H2D", LAUNCH, copied_s)]
    assert copies.spans[0].nbytes == N
    assert seen(computes) == [("compute", "compute", copied_s, done_s)]


def test_a_reading_has_as_many_steps_as_are_timed() -> None:
    dev = watched(device())
    host, there = dev.host_buffer(N, pinned=True), dev.buffer(N)
    step = partial(dev.copy, there, host, blocking=False)
    calls, copies = trace(dev, Prepared(step=step, depth=3))
    assert [one.name for one in calls.spans] == ["copy"] * 3 + ["synchronize"]
    assert length((one.start_s, one.end_s) for one in copies.spans) == 3 * PINNED_S
    assert copies.name == "default stream"
    assert N / H2D < PINNED_S  # a latency is in each


def test_a_trap_is_a_wait_and_says_which_it_is() -> None:
    dev = watched(device())
    counter = dev.counter()
    item = dev.trap("item", counter)

    def step() -> None:
        dev.advance(counter)
        item()

    calls, copies = trace(dev, Prepared(step=step))
    assert [(one.name, one.kind) for one in calls.spans] == [
        ("advance", "call"),
        ("trap item", "wait"),
        ("synchronize", "wait"),
    ]
    assert [one.name for one in copies.spans] == ["D2H pageable"]


def test_a_call_that_blocks_is_a_wait() -> None:
    dev = watched(device())
    host, there = dev.host_buffer(N, pinned=True), dev.buffer(N)

    def step() -> None:
        dev.copy(there, host, blocking=True)
        dev.move(host)
        dev.fetch(there, blocking=False)
        dev.stream().synchronize()

    calls, *_ = trace(dev, Prepared(step=step))
    assert [(one.name, one.kind) for one in calls.spans] == [
        ("copy, blocking", "wait"),
        ("move, blocking", "wait"),
        ("fetch", "call"),
        ("stream synchronize", "wait"),
        ("synchronize", "wait"),
    ]


def test_waits_for_data_are_seen_and_what_is_loaded_stays_whole() -> None:
    """Two workers make a batch of a second each; the host takes three at once. For the second it
    does not wait."""
    dev = watched(device())
    loading = Loading(batch_size=1, item_bytes=N, item_s=(1.0,), num_workers=2, num_batches=3)
    loader = dev.loader(loading)
    taken: list[Any] = []
    host, *_ = trace(dev, Prepared(step=lambda: taken.extend(loader)))
    start_s = 2 * dev.link.start_worker_s  # type: ignore[attr-defined]
    assert seen(host)[:-1] == [
        ("start of an epoch", "call", 0.0, start_s),
        ("next batch", "load", start_s, start_s + 1.0),
        ("next batch", "load", start_s + 1.0, start_s + 2.0),
    ]
    assert len(taken) == 3
    assert dev.same_values(taken[2], loader.expected(2))
    loader.close()


def test_the_cpu_device_has_its_threads_clock() -> None:
    real = CpuDevice()
    try:
        dev = watched(real)
        host, copies, computes = trace(dev, Prepared(step=overlapping(dev, pinned=False)))
    finally:
        real.close()
    names = ["copy", "event record", "stream wait", "compute", "synchronize"]
    assert [one.name for one in host.spans] == names
    assert [(one.name, one.kind) for one in copies.spans] == [("H2D pageable", "H2D")]
    assert [(one.name, one.kind) for one in computes.spans] == [("compute", "compute")]
    assert copies.spans[0].end_s <= computes.spans[0].start_s
    assert host.spans[-1].end_s >= computes.spans[0].end_s
    assert host.spans[0].start_s == 0.0 < copies.spans[0].start_s


def test_lanes_are_in_the_order_of_streams_and_places() -> None:
    did = [
        Activity(what="H2D pinned", start_s=0, end_s=1, stream="stream 20", place="GPU 1"),
        Activity(what="compute", start_s=5, end_s=6, stream="stream 7", name="ncclDevKernel"),
        Activity(what="compute", start_s=2, end_s=3, stream="stream 7", name="sgemm"),
        Activity(what="Memset", start_s=0, end_s=1, stream="stream 13"),
    ]
    found = lanes(did)
    assert [(lane.place, lane.name) for lane in found] == [
        ("", "stream 7"),
        ("", "stream 13"),
        ("GPU 1", "stream 20"),
    ]
    kinds = [[(one.name, one.kind) for one in lane.spans] for lane in found]
    assert kinds == [
        [("sgemm", "compute"), ("ncclDevKernel", "collective")],
        [("Memset", "other")],
        [("H2D pinned", "H2D")],
    ]
    assert {lane.place for lane in lanes(did[1:])} == {""}


def has_ranks(family: str) -> bool:
    return any(work.ranks is not None for work in load((family,)).values())


@pytest.mark.parametrize("family", [name for name in names() if not has_ranks(name)])
def test_every_case_of_the_simulated_device_can_be_traced(family: str) -> None:
    works = load((family,)).values()
    cases = [case for work in works for case in work.cases() if case.values["device"] == "cuda"]
    launch = Launch(
        family=family,
        settings={"max_samples": 3, "warmup_s": 0.0},
        device="simulated",
        trace=True,
        cases=tuple(cases[:: max(1, len(cases) // 12)]),
    )
    said: list[Any] = []
    worker.walk(launch, said.append)
    outcomes = [one for one in said if isinstance(one, Outcome)]
    assert len(outcomes) == len(launch.cases)
    for outcome in outcomes:
        if outcome.status == "skipped":
            continue
        assert outcome.status == "ok", outcome.reason
        assert outcome.lanes[0].name == "host"
        assert outcome.lanes[0].spans[-1].name == "synchronize"
        assert outcome.num_steps >= 1
    assert any(outcome.lanes for outcome in outcomes)
