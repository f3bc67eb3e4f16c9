"""One case in one launch: warm-up, three clocks, as many samples as fit, findings and proofs.

Inside the timer is the step alone: `depth` calls, then one device-wide synchronize. Building,
filling, the delay probe, the device clock's pass and the check of the data are all outside.
"""

import os
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import convert

from hostbench.core.errors import Unavailable
from hostbench.core.records import FindingValue, Measurement, Settings
from hostbench.core.samples import median
from hostbench.device.base import Device, Step

PROBE_DELAY_S = 0.01
"""How long the delay probe keeps the stream busy before the call under test."""
EVENT_DELAY_S = 0.002
"""How much longer than its calls took the stream is held back, so that what the host does for a
step is outside the device clock."""
READING_S = 200e-6  # host-only steps are repeated until one timer reading is at least this long
MAX_NUMBER = 10_000
MIN_SAMPLES = 7  # however long they take; one more before them is dropped
MAX_READINGS = 10_000  # for a step whose time the clock does not see
DEVICE_READINGS = 3  # fewer, but one, once they took a quarter of the time for samples
LEAST_WARMUP_S, WINDOW, TREND = 0.03, 2, 0.05
"""Warm-up takes so long at least, and goes on while the newest readings, so many at least, take
less than those before them by more than this share."""
ADAPTS = 16
"""Readings after which a step that still gets new pages in each gets them for good: glibc's
allocator keeps a block's size after some nine frees, and blocks over 32 MiB never."""

MANY_PAGES = 256
"""So many new pages in each step are memory that is never reused; fewer are Python's own."""

Reading = tuple[float, float]  # seconds per step: end to end, and until the last call returned


BRIEF = Settings(budget_s=0.0, warmup_s=0.0)  # MIN_SAMPLES and no more, for a clock that is exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """What is measured: a step that was built once, and how it wants to be run."""

    step: Step
    """The callable that is timed."""
    verify: Callable[[], str | None] | None = None
    """Called once after timing and a synchronize: None when the result is right, else what is
    wrong. Evidence outside the timer (the proof `data`)."""
    proofs: Mapping[str, Callable[[], str | None]] = field(default_factory=dict)
    """Further proofs by name, called so, too, in this order. One that raises Unavailable is
    `unavailable` with that reason: on every rank, where they call collectives."""
    depth: int = 1
    """Steps enqueued before one synchronize: what `@workload` says, whatever is given here."""
    host_only: bool = False
    """The step enqueues nothing: it may be repeated inside one timer reading. As `depth`."""
    before: Callable[[], None] | None = None
    """Called before each reading, outside the timer: puts back what the step uses up."""
    copies: Mapping[str, int] | None = None
    """Bytes that one step copies, by kind (`{"H2D pinned": 65536}`; see `device.activity`): held
    against what the device was observed to do (the proofs `copies` and `link_bytes`)."""
    to_second_device: bool = False
    """What it copies `H2D` goes into the second device, over that one's link: not counted."""
    one_stream: bool = True
    """The step works on the current stream alone; else neither the delay probe nor the device
    clock, which act on that stream, can say anything about it."""
    warmup_steps: int = 0
    """Steps before those of an observed reading: they use up what was made ready beforehand."""
    findings: Callable[[], Mapping[str, FindingValue]] | None = None
    """Called once after timing: findings that the step has noted itself. On every rank, so that it
    may call collectives; rank 0's count."""
    sends: Callable[[str | None], int | None] = lambda algorithm: None
    """Bytes that this rank sends per step by its backend, and by the algorithm and protocol that
    nccl chose; None where that is not documented, of nccl on every rank. Held against what it was
    seen to send (the finding `sends_as_documented`)."""
    sends_exactly: bool = False
    """It sends so much and no other byte: a proof (`sent`, by gloo within 1 %), not a finding."""

    def get_ready(self, device: Device) -> None:
        """What has to be so before each reading."""
        if self.before is not None:
            self.before()
            device.synchronize()


def measure(device: Device, prepared: Prepared, settings: Settings) -> Measurement:
    """Measure a prepared step on its device. Raises what running the step raises."""

    def once(number: int = 1) -> Reading:
        prepared.get_ready(device)
        return reading(prepared.step, prepared.depth * number, device.now, device.synchronize)

    once()
    warm_up(lambda _: [once()], num_page_faults, device.now, settings)
    number = 1
    if prepared.host_only:  # so often that a reading is long enough for the clock
        while number < MAX_NUMBER and once(number)[0] * number * prepared.depth < READING_S:
            number = min(2 * number, MAX_NUMBER)
    device.reset_peak()
    start = noise()
    timed = sample(lambda _: [once(number)], device.now, settings)
    noise_meanwhile = noise_since(start)
    memory = device.memory_stats()
    findings = findings_of(prepared)
    num_steps = number * prepared.depth * (1 + len(timed))
    new_pages = int(noise_meanwhile["page_faults"] / num_steps)
    if new_pages >= MANY_PAGES:
        findings["new_pages"] = new_pages
    asynchronous: bool | None = None
    device_s: list[float] = []
    call_s = max(call for _, call in timed)
    if prepared.one_stream and not prepared.host_only:
        asynchronous = _returns_early(device, prepared, call_s)
        if asynchronous is False:  # once more: the scheduler may hold up a call that does not wait
            asynchronous = _returns_early(device, prepared, call_s)
    # Between two events, behind a delay that hides the time to enqueue them. Of a step that waits
    # the device's clock would hold the host's time.
    num_readings = DEVICE_READINGS if asynchronous else 0
    delay_s, late_s = EVENT_DELAY_S + call_s * prepared.depth, device.now() + settings.budget_s / 4
    while len(device_s) < num_readings and (not device_s or device.now() < late_s):
        prepared.get_ready(device)
        device_s.append(device.event_time(prepared.step, prepared.depth, behind_s=delay_s))
    return Measurement(
        end_to_end_s=tuple(end for end, _ in timed),
        call_s=tuple(call for _, call in timed),
        device_s=tuple(device_s),
        findings={"asynchronous": asynchronous, **findings},
        proofs=proofs_of(prepared),
        memory=memory,
        noise=noise_meanwhile,
    )


def reading(step: Step, count: int, now: Callable[[], float], synchronize: Step) -> Reading:
    """Of `count` steps and one synchronize. All that is inside the timer is here."""
    start_s = now()
    for _ in range(count):
        step()
    called_s = now()
    synchronize()
    end_s = now()
    return (end_s - start_s) / count, (called_s - start_s) / count


Take = Callable[[float], Sequence[Reading]]
"""A reading, or as many as fit into the time that is left; ranks take several at once."""


def warm_up(
    take: Take, num_faults: Callable[[], int], now: Callable[[], float], settings: Settings
) -> None:
    """Until steps get no new pages, or do so for good, and take no less than before, as far as
    there is time: new memory is up to 8 times as slow as memory that the process has had."""
    start_s = now()
    readings, faults = [*take(0.0)], [num_faults()]
    while (now_s := now()) < start_s + settings.warmup_s and len(readings) < MAX_READINGS:
        readings += take(start_s + settings.warmup_s - now_s)
        faults.append(num_faults())
        window = max(WINDOW, len(readings) // 4)
        newest, older = readings[-window:], readings[-2 * window : -window]
        get_no_pages = faults[-1] - faults[-min(window, len(faults))] < window / 2
        if (
            now_s >= start_s + LEAST_WARMUP_S
            and len(older) == window
            and (get_no_pages or len(readings) >= ADAPTS)
            and median([end for end, _ in newest])
            >= (1 - TREND) * median([end for end, _ in older])
        ):
            return


def sample(take: Take, now: Callable[[], float], settings: Settings) -> list[Reading]:
    """As many readings as fit the time, never under MIN_SAMPLES; the first is dropped. They end
    when the time does: to stop once they agree would choose them."""
    end_s = now() + settings.budget_s
    timed = [*take(0.0)]
    while len(timed) <= MIN_SAMPLES or (now() < end_s and len(timed) < MAX_READINGS):
        timed += take(end_s - now())
    return timed[1:]


def num_page_faults() -> int:
    """Pages of memory that this process was given for the first time, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def noise() -> dict[str, float]:
    """What disturbs a measurement, counted so far; `noise_since` has the difference."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    ticks = _words("/proc/stat")[8:9]  # user, nice, system, idle, iowait, irq, softirq, steal
    waiting_us = [word[6:] for word in _words("/proc/pressure/cpu")[:5] if word[:6] == "total="]
    return {
        "seconds": time.monotonic(),
        "page_faults": usage.ru_minflt,
        "switches": usage.ru_nivcsw,  # a core was taken away
        "steal_s": sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK"),  # of all cores
        "waiting_s": sum(map(int, waiting_us)) / 1e6,  # some process had no core
    }


def noise_since(start: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value - start[name], 6) for name, value in noise().items()}


def _words(path: str) -> list[str]:
    try:
        return Path(path).read_text().split()
    except OSError:  # a kernel without PSI, or a container that hides it
        return []


def _returns_early(device: Device, prepared: Prepared, usual_call_s: float) -> bool | None:
    """The delay probe: with the stream kept busy, does the call come back before it is free? None
    where it gave the device nothing to wait for.

    The stream is busy for PROBE_DELAY_S longer than the calls ever took. The call returns early
    when it takes less than half of PROBE_DELAY_S longer than that. Enqueueing the delay is outside.
    Source: the observation in torch's pinned-memory tutorial that an unpinned non_blocking copy
    waits for its stream; here it is measured, at every size.
    """
    prepared.get_ready(device)
    device.delay(usual_call_s + PROBE_DELAY_S)
    num_enqueued = device.num_enqueued()
    start_s = device.now()
    prepared.step()
    called_s = device.now() - start_s
    has_work = num_enqueued is None or device.num_enqueued() != num_enqueued
    device.synchronize()
    return called_s - usual_call_s < PROBE_DELAY_S / 2 if has_work else None


def findings_of(prepared: Prepared) -> dict[str, FindingValue]:
    """What the step has noted: a number for a tensor of one. Raises ValidationError for more."""
    findings: Mapping[str, Any] = prepared.findings() if prepared.findings is not None else {}
    plain = {
        name: value.item() if hasattr(value, "item") else value for name, value in findings.items()
    }
    return convert(plain, dict[str, FindingValue])


def proofs_of(prepared: Prepared) -> dict[str, str]:
    """After readings, each of which ends with a synchronize."""
    checks = {"data": prepared.verify} if prepared.verify is not None else {}
    proofs = {}
    for name, check in {**checks, **prepared.proofs}.items():
        try:
            wrong = check()
            proofs[name] = "passed" if wrong is None else f"failed: {wrong}"
        except Unavailable as reason:
            proofs[name] = f"unavailable: {reason}"
    return proofs
