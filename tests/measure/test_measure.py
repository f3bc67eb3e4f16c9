"""Measuring on the simulated device and on scripted steps: exact clocks, stop rule, findings."""

import itertools
from collections.abc import Iterable

import pytest

from hostbench.core.errors import Unavailable
from hostbench.core.records import Measurement
from hostbench.device.simulated import Link, SimulatedDevice
from hostbench.measure import measure
from hostbench.measure.measure import Prepared, Settings, summary_s

LAUNCH, WAIT, LATENCY = 2.0**-10, 2.0**-9, 2.0**-8
N = 1 << 20
PINNED_S, PAGEABLE_S = LATENCY + 2.0**-3, LATENCY + 2.0**-1
LINK = Link(
    host_to_device_bytes_per_s=N / 2.0**-3,
    pageable_bytes_per_s=N / 2.0**-1,
    latency_s=LATENCY,
    launch_s=LAUNCH,
    wait_s=WAIT,
    alloc_s=2.0**-11,
    host_bytes_per_s=float(N),
)
FREE = Link(launch_s=0.0, wait_s=0.0, latency_s=0.0)


@pytest.fixture(autouse=True)
def exact_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binary fractions, so that sums are exact."""
    monkeypatch.setattr(measure, "PROBE_DELAY_S", 2.0**-1)
    monkeypatch.setattr(measure, "EVENT_DELAY_S", 2.0**-4)


def copied(*, pinned: bool, blocking: bool, depth: int = 1) -> Measurement:
    device = SimulatedDevice(LINK)
    host, there = device.host_buffer(N, pinned=pinned), device.buffer(N)
    device.fill_pattern(host, 1)
    prepared = Prepared(
        step=lambda: device.copy(there, host, blocking=blocking),
        verify=lambda: None if device.same_values(there, host) else "stale",
        depth=depth,
    )
    return measure.measure(device, prepared, Settings())


def test_three_clocks_of_an_asynchronous_copy() -> None:
    result = copied(pinned=True, blocking=False)
    samples = result
    end_s = LAUNCH + PINNED_S + WAIT
    assert samples.end_to_end_s == (end_s,) * 3
    assert samples.call_s == (LAUNCH,) * 3
    assert set(samples.device_s) == {PINNED_S}  # behind a delay, so without the launch
    assert (samples.first_s, samples.depth, samples.number) == (end_s, 1, 1)
    assert samples.device_reason is None
    assert result.findings == {"asynchronous": True}
    assert result.proofs == {"data": "passed"}
    assert summary_s(result) == end_s


@pytest.mark.parametrize(
    ("pinned", "blocking", "call_s", "end_s"),
    [
        (True, True, LAUNCH + PINNED_S + WAIT, LAUNCH + PINNED_S + 2 * WAIT),
        (False, True, LAUNCH + PAGEABLE_S + WAIT, LAUNCH + PAGEABLE_S + 2 * WAIT),
        (False, False, LAUNCH + PAGEABLE_S, LAUNCH + PAGEABLE_S + WAIT),
    ],
)
def test_a_copy_that_waits_has_no_clock_of_the_device(
    pinned: bool, blocking: bool, call_s: float, end_s: float
) -> None:
    result = copied(pinned=pinned, blocking=blocking)
    assert set(result.end_to_end_s) == {end_s}
    assert set(result.call_s) == {call_s}
    assert result.device_s == () and str(result.device_reason).startswith("the step waits: ")
    assert result.findings == {"asynchronous": False}


def test_depth_is_per_step() -> None:
    samples = copied(pinned=True, blocking=False, depth=4)
    assert set(samples.end_to_end_s) == {(LAUNCH + 4 * PINNED_S + WAIT) / 4}
    assert set(samples.call_s) == {LAUNCH}
    assert set(samples.device_s) == {PINNED_S}
    assert samples.depth == 4


def scripted(
    durations: Iterable[float], settings: Settings, *, host_only: bool = False
) -> Measurement:
    """A step that takes what the script says: first, one warm-up, then the samples; 1 s at last."""
    device = SimulatedDevice(FREE)
    script = itertools.chain(durations, itertools.repeat(1.0))

    def step() -> None:
        device.host_s += next(script)

    return measure.measure(device, Prepared(step=step, host_only=host_only), settings)


NO_WARMUP = {"warmup_s": 0.0}


def sampled(durations: Iterable[float], **settings: float) -> tuple[float, ...]:
    chosen = Settings(**{**NO_WARMUP, **settings})  # type: ignore[arg-type]
    return scripted((9.0, 9.0, *durations), chosen).end_to_end_s


def test_it_stops_when_samples_agree() -> None:
    assert sampled([], budget_s=100) == (1, 1, 1)
    assert sampled([4, 1, 1, 1], budget_s=100) == (4, 1, 1, 1, 1)
    assert sampled([4, 1, 1, 1], budget_s=100, dispersion=2.0) == (4, 1, 1)
    assert sampled([], budget_s=100, min_samples=5) == (1,) * 5


def test_it_stops_when_time_is_up() -> None:
    assert sampled([1, 2] * 9, budget_s=10) == (1, 2, 1, 2, 1, 2, 1)
    assert sampled([5, 6, 7], budget_s=0) == (5, 6, 7)


def test_the_first_step_and_warm_up_are_apart() -> None:
    samples = scripted((50.0, 7.0, 3.0, 2.0, 2.0, 2.0), Settings(warmup_s=10, budget_s=9))
    assert samples.first_s == 50.0
    assert samples.end_to_end_s == (2.0, 2.0, 2.0)


def test_warm_up_of_a_step_that_takes_no_time_ends() -> None:
    calls = []
    device = SimulatedDevice(FREE)
    prepared = Prepared(step=lambda: calls.append(1), host_only=True)
    samples = measure.measure(device, prepared, Settings())
    assert samples.number == measure.MAX_NUMBER
    assert len(calls) < 2 * measure.MAX_WARMUPS + 50 * measure.MAX_NUMBER


@pytest.mark.parametrize(
    ("step_s", "number"), [(1e-3, 1), (2.1e-4, 1), (1.9e-4, 2), (1e-6, 256), (1e-9, 10_000)]
)
def test_host_only_steps_are_repeated_until_a_reading_is_long(step_s: float, number: int) -> None:
    samples = scripted(itertools.repeat(step_s), Settings(), host_only=True)
    assert samples.number == number
    assert samples.end_to_end_s[0] == pytest.approx(step_s)
    assert (samples.device_s, samples.depth) == ((), 1)
    assert samples.device_reason == "the step enqueues nothing on the device"


def test_device_samples_end_after_a_quarter_of_the_budget() -> None:
    few = scripted((), Settings(**NO_WARMUP, budget_s=8.0, device_samples=9))  # type: ignore[arg-type]
    assert len(few.device_s) == 2
    one = scripted((), Settings(**NO_WARMUP, budget_s=0.0, device_samples=9))  # type: ignore[arg-type]
    assert len(one.device_s) == 1


def test_what_a_step_has_noted_is_a_finding() -> None:
    """Of the readings: the probe and the device's clock come after."""
    calls: list[int] = []
    prepared = Prepared(step=lambda: calls.append(1), findings=lambda: {"steps": len(calls)})
    settings = Settings(warmup_s=0.0, min_samples=3, max_samples=3)
    findings = measure.measure(SimulatedDevice(), prepared, settings).findings
    assert findings == {"asynchronous": True, "steps": 5}


def test_what_a_step_uses_up_is_put_back_outside_the_timer() -> None:
    device = SimulatedDevice()
    calls: list[str] = []

    def before() -> None:
        calls.append("before")
        device.delay(5.0)

    def step() -> None:
        calls.append("step")
        device.delay(1e-3)

    prepared = Prepared(step=step, before=before)
    result = measure.measure(device, prepared, Settings(max_samples=3))
    assert max(result.end_to_end_s) < 0.01
    assert calls == ["before", "step"] * (len(calls) // 2)


def test_each_further_proof_is_passed_failed_or_unavailable_with_its_reason() -> None:
    def lacks() -> str | None:
        raise Unavailable("nobody counts it")

    checks = {"parity": lambda: None, "memory": lambda: "5 bytes, not 4", "sent": lacks}
    prepared = Prepared(step=lambda: None, verify=lambda: None, proofs=checks)
    assert measure.measure(SimulatedDevice(FREE), prepared, Settings()).proofs == {
        "data": "passed",
        "parity": "passed",
        "memory": "failed: 5 bytes, not 4",
        "sent": "unavailable: nobody counts it",
    }
