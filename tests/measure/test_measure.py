"""Measuring on the simulated device and on scripted steps: exact clocks, warm-up, findings."""

import contextlib
import itertools
import mmap
from collections.abc import Callable, Iterable, Iterator
from unittest.mock import Mock

import pytest

from hostbench.core.errors import Unavailable
from hostbench.core.records import Measurement, Settings
from hostbench.device.simulated import SimulatedDevice
from hostbench.device.simulated_file import Link, Simulation
from hostbench.measure import measure
from hostbench.measure.measure import BRIEF, MIN_SAMPLES, Prepared

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
FREE = Simulation(link=Link(launch_s=0.0, wait_s=0.0, latency_s=0.0))
NEW_PAGES = 1024


@pytest.fixture(autouse=True)
def exact_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Binary fractions, so that sums are exact."""
    monkeypatch.setattr(measure, "PROBE_DELAY_S", 2.0**-1)
    monkeypatch.setattr(measure, "EVENT_DELAY_S", 2.0**-4)


def copied(*, pinned: bool, blocking: bool, depth: int = 1) -> Measurement:
    device = SimulatedDevice(Simulation(link=LINK))
    host, there = device.host_buffer(N, pinned=pinned), device.buffer(N)
    device.fill_pattern(host, 1)
    prepared = Prepared(
        step=lambda: device.copy(there, host, blocking=blocking),
        verify=lambda: None if device.same_values(there, host) else "stale",
        depth=depth,
    )
    return measure.measure(device, prepared, BRIEF)


def test_three_clocks_of_an_asynchronous_copy() -> None:
    result = copied(pinned=True, blocking=False)
    end_s = LAUNCH + PINNED_S + WAIT
    assert result.end_to_end_s == (end_s,) * MIN_SAMPLES
    assert result.call_s == (LAUNCH,) * MIN_SAMPLES
    assert set(result.device_s) == {PINNED_S}  # behind a delay, so without the launch
    assert result.findings == {"asynchronous": True}
    assert result.proofs == {"data": "passed"}


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
    assert result.device_s == ()
    assert result.findings == {"asynchronous": False}


def test_depth_is_per_step() -> None:
    samples = copied(pinned=True, blocking=False, depth=4)
    assert set(samples.end_to_end_s) == {(LAUNCH + 4 * PINNED_S + WAIT) / 4}
    assert set(samples.call_s) == {LAUNCH}
    assert set(samples.device_s) == {PINNED_S}


def scripted(
    durations: Iterable[float], settings: Settings, *, host_only: bool = False
) -> Measurement:
    """A step that takes what the script says: first, warm-up, a dropped one, samples; then 1 s."""
    device = SimulatedDevice(FREE)
    script = itertools.chain(durations, itertools.repeat(1.0))

    def step() -> None:
        device.host_s += next(script)

    return measure.measure(device, Prepared(step=step, host_only=host_only), settings)


def test_samples_are_as_many_as_fit_and_seven_at_least() -> None:
    """Not fewer where they agree, and the first of them is none."""
    head = (50.0, 7.0, 5.0)
    many = scripted((*head, *[1.0] * 99), Settings(warmup_s=0, budget_s=25))
    assert many.end_to_end_s == (1.0,) * 20
    few = scripted((*head, *range(1, 99)), Settings(warmup_s=0, budget_s=0))
    assert few.end_to_end_s == (1, 2, 3, 4, 5, 6, 7)


def test_warm_up_ends_when_steps_take_no_less_and_get_no_new_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So neither [14.4, 14.3, 14.5] of new pages nor a falling time is a sample."""
    falling = (90.0, 50.0, *[40.0] * 3, *[20.0] * 3, *[10.0] * 5)
    warm = scripted(falling, Settings(warmup_s=1e6, budget_s=0))
    assert warm.end_to_end_s == (1.0,) * MIN_SAMPLES
    pages: Iterator[int] = itertools.chain(range(0, 80_000, 8_000), itertools.repeat(80_000))
    monkeypatch.setattr(measure, "num_page_faults", lambda: next(pages))
    warm = scripted((14.0, *[14.4] * 11), Settings(warmup_s=1e6, budget_s=0))
    assert warm.end_to_end_s == (1.0,) * MIN_SAMPLES
    pages = iter(range(0, 10**9, 8_000))  # what gets new pages in each step does so for good
    lasting = scripted([1.0] * 12 + [2.0] * 20, Settings(warmup_s=1e6, budget_s=0))
    assert lasting.end_to_end_s == (2.0,) * MIN_SAMPLES


def test_a_step_that_takes_no_time_ends() -> None:
    calls = []
    prepared = Prepared(step=lambda: calls.append(1), host_only=True)
    measure.measure(SimulatedDevice(FREE), prepared, BRIEF)
    assert MIN_SAMPLES * measure.MAX_NUMBER < len(calls) < 50 * measure.MAX_NUMBER


def test_memory_that_is_new_in_each_step_is_a_finding() -> None:
    def step() -> None:
        pages = mmap.mmap(-1, NEW_PAGES * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE)
        with contextlib.suppress(OSError):  # a kernel may have no large pages
            pages.madvise(mmap.MADV_NOHUGEPAGE)
        for start in range(0, len(pages), mmap.PAGESIZE):
            pages[start] = 1

    findings = measure.measure(SimulatedDevice(FREE), Prepared(step=step), BRIEF).findings
    new_pages = findings["new_pages"]
    assert isinstance(new_pages, int) and NEW_PAGES <= new_pages <= 1.1 * NEW_PAGES


def test_what_disturbed_the_samples_is_noted() -> None:
    noise = scripted((), BRIEF).noise
    assert {*noise} == {"seconds", "page_faults", "switches", "steal_s", "waiting_s"}
    assert all(0 <= count < 1e6 for count in noise.values())


@pytest.mark.parametrize(
    ("step_s", "number"), [(1e-3, 1), (2.1e-4, 1), (1.9e-4, 2), (1e-6, 256), (1e-9, 10_000)]
)
def test_host_only_steps_are_repeated_until_a_reading_is_long(
    step_s: float, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Mock(wraps=measure.reading)
    monkeypatch.setattr(measure, "reading", reading)
    samples = scripted(itertools.repeat(step_s), BRIEF, host_only=True)
    assert reading.call_args.args[1] == number
    assert samples.end_to_end_s[0] == pytest.approx(step_s)
    assert samples.device_s == ()


def test_device_samples_end_after_a_quarter_of_the_budget() -> None:
    few = scripted((), Settings(warmup_s=0, budget_s=8.0))
    assert len(few.device_s) == 2
    one = scripted((), Settings(warmup_s=0, budget_s=0.0))
    assert len(one.device_s) == 1


def test_what_a_step_has_noted_is_a_finding() -> None:
    """Of the readings: the probe and the device's clock come after."""
    calls: list[int] = []
    prepared = Prepared(step=lambda: calls.append(1), findings=lambda: {"steps": len(calls)})
    findings = measure.measure(SimulatedDevice(), prepared, BRIEF).findings
    assert findings == {"asynchronous": True, "steps": 3 + MIN_SAMPLES}


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
    result = measure.measure(device, prepared, BRIEF)
    assert max(result.end_to_end_s) < 0.01
    assert calls == ["before", "step"] * (len(calls) // 2)


def test_each_further_proof_is_passed_failed_or_unavailable_with_its_reason() -> None:
    lacks = Mock(side_effect=Unavailable("nobody counts it"))
    checks: dict[str, Callable[[], str | None]] = {
        "parity": lambda: None,
        "memory": lambda: "5 bytes, not 4",
        "sent": lacks,
    }
    prepared = Prepared(step=lambda: None, verify=lambda: None, proofs=checks)
    assert measure.measure(SimulatedDevice(FREE), prepared, BRIEF).proofs == {
        "data": "passed",
        "parity": "passed",
        "memory": "failed: 5 bytes, not 4",
        "sent": "unavailable: nobody counts it",
    }
