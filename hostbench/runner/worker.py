"""One launch inside a worker process: walk the cases in the order given, tell about each."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec import convert
from msgspec.structs import replace

from hostbench.core.case import Case
from hostbench.core.errors import BrokenError, DeviceLost, RankFailure, Unavailable
from hostbench.core.records import (
    PROOF_FAILED,
    Launch,
    Measurement,
    Message,
    Opened,
    Opening,
    Outcome,
    Started,
)
from hostbench.device import open_device
from hostbench.device.base import Device
from hostbench.device.errors import end_of_traceback, fatal_reason, in_words
from hostbench.device.traced import CallLog, Traced
from hostbench.families import load
from hostbench.families import preloads as preloads
from hostbench.measure import evidence, measure
from hostbench.measure.trace import num_steps, trace
from hostbench.measure.workload import Workload, prepare

if TYPE_CHECKING:
    from hostbench.ranks.lockstep import Ranks

Emit = Callable[[Message], None]


def walk(launch: Launch, emit: Emit) -> None:
    """Measure the cases of a launch in order.

    Before each case `Started` is emitted, after it its `Outcome`. Stops early with a fatal one when
    the process can no longer be trusted, and without one where the device does not start.
    """
    workloads = load(tuple(dict.fromkeys(case.family for case in launch.cases)))
    # What stands in needs no warming up, and its clock may not see what a step does on the host.
    cold = {} if launch.device is None else {"warmup_s": 0.0}
    settings = convert({**launch.settings, **cold}, measure.Settings)
    place = _Place(launch, emit)
    for position, case in enumerate(launch.cases):
        emit(Started(case=case, at=time.time()))
        try:
            outcome = _one(workloads, place, case, position, settings)
        except DeviceLost as lost:
            emit(Opened(lost=str(lost)))
            return
        outcome = _leave_nothing(place.devices, outcome)
        emit(outcome)
        if outcome.fatal:
            return  # ranks that are left die with this process
    place.close()


def _one(
    workloads: Mapping[str, Workload],
    place: "_Place",
    case: Case,
    position: int,
    settings: measure.Settings,
) -> Outcome:
    outcome = partial(Outcome, case=case, position=position)
    try:
        work = workloads[case.workload]
        seen: dict[str, Any] = {}
        if place.launch.trace:
            measurement, seen = _traced(work, place, case, settings)
        elif place.launch.observe:
            measurement = _evidence(work, place, case)
        else:
            measurement = _measured(work, place, case, settings)
    except Unavailable as reason:
        return outcome(status="skipped", reason=str(reason))
    except DeviceLost:
        raise
    except RankFailure as failure:  # the ranks are gone, this process is as good as new
        return outcome(status="failed", reason=str(failure), traceback=failure.traceback)
    except (Exception, SystemExit, KeyboardInterrupt) as error:  # no key reaches a worker
        known = workloads.get(case.workload)
        return outcome(status="failed", **_failure(error, known.raised_at(error) if known else ""))
    failed = [text for text in measurement.proofs.values() if text.startswith("failed")]
    wrong = "; ".join(text.removeprefix("failed: ") for text in failed)
    return outcome(
        status="failed" if failed else "ok",
        reason=f"{PROOF_FAILED}: {wrong}" if failed else None,
        seconds=measure.summary_s(measurement) if measurement.end_to_end_s else None,
        measurement=measurement.rounded(),
        **seen,
    )


@dataclass(slots=True)
class _Place:
    """Where the cases of this launch run."""

    launch: Launch
    emit: Emit
    devices: dict[str, Device | Unavailable] = field(default_factory=dict)
    _ranks: "Ranks | None" = field(default=None, init=False)

    def ranks(self) -> "Ranks":
        """They need torch: a simulated launch has none and imports none. Raises Unavailable."""
        if self.launch.device is not None:
            raise Unavailable(f"the {self.launch.device} device has no ranks")
        if self._ranks is None:
            from hostbench.ranks.lockstep import Ranks

            self._ranks = Ranks(self.launch.deadline_s, is_observed=self.launch.observe)
        return self._ranks

    def close(self) -> None:
        if self._ranks is not None:
            self._ranks.close()
        for device in self.devices.values():
            if not isinstance(device, Unavailable):
                device.close()


def _evidence(work: Workload, place: _Place, case: Case) -> Measurement:
    """A pass that observes the case; its proofs are judged like those of the timed passes."""
    if work.ranks is not None:
        return place.ranks().observe(work, case)
    device = _open(place, case)
    return evidence.gather(device, prepare(work, device, case))


def _measured(work: Workload, place: _Place, case: Case, settings: measure.Settings) -> Measurement:
    if work.ranks is None:
        device = _open(place, case)
        prepared = prepare(work, device, case)
        return measure.measure(device, prepared, settings.shortened(work.sampling))
    return place.ranks().measure(work, case, settings)


def _traced(
    work: Workload, place: _Place, case: Case, settings: measure.Settings
) -> tuple[Measurement, dict[str, Any]]:
    """Measured as ever, which warms up and checks the data, on a device that is watched; then one
    reading: the fields of an `Outcome` that show it."""
    if work.ranks is not None:
        measurement, lanes = place.ranks().trace(work, case, settings)
        return measurement, {"lanes": lanes, "num_steps": measurement.depth}
    opened = _open(place, case)
    device = cast(Device, Traced(opened, CallLog(opened.now)))
    prepared = prepare(work, device, case)
    measurement = measure.measure(device, prepared, settings)
    return measurement, {"lanes": trace(device, prepared), "num_steps": num_steps(prepared)}


def _leave_nothing(devices: Mapping[str, Device | Unavailable], outcome: Outcome) -> Outcome:
    """Reset after every case, also a failed one; a device that cannot be ends the process."""
    if outcome.fatal:
        return outcome
    try:
        for device in devices.values():
            if not isinstance(device, Unavailable):
                device.reset()
    except Exception as error:
        if outcome.status == "failed":
            return replace(outcome, fatal=True)
        broken = {**_failure(error), "fatal": True}
        return Outcome(case=outcome.case, position=outcome.position, status="failed", **broken)
    return outcome


def _open(place: _Place, case: Case) -> Device:
    """The opened device, the same for all cases of the launch; a refusal is remembered too. Raises
    DeviceLost where it should work and does not."""
    devices, name = place.devices, place.launch.device or str(case.values["device"])
    if name not in devices:
        place.emit(Opening(device=name))
        try:
            devices[name] = _started(name, place.launch.number)
        except Unavailable as reason:
            devices[name] = reason
        place.emit(Opened())
    device = devices[name]
    if isinstance(device, Unavailable):
        raise device
    return device


def _started(name: str, launch: int) -> Device:
    """The device, settled."""
    try:
        device = open_device(name, launch=launch)
        device.settle()
    except BrokenError as error:
        raise DeviceLost(str(error)) from error
    except Exception as error:
        if fatal_reason(error) is None:
            raise
        raise DeviceLost(f"device {name} does not start: {in_words(error, '')}") from error
    return device


def _failure(error: BaseException, where: str = "") -> dict[str, Any]:
    """The fields of an `Outcome` that say how it failed, and where in the workload."""
    return {
        "reason": in_words(error, where),
        "traceback": end_of_traceback(error),
        "fatal": fatal_reason(error) is not None or isinstance(error, MemoryError),
    }
