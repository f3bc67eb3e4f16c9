"""One launch inside a worker process: walk the cases in the order given, tell about each."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

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
from hostbench.families import load
from hostbench.families import preloads as preloads
from hostbench.measure import evidence, measure
from hostbench.measure.measure import Prepared
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
    worker = _Worker(launch, emit, convert({**launch.settings, **cold}, measure.Settings))
    for position, case in enumerate(launch.cases):
        emit(Started(case=case, at=time.time()))
        try:
            outcome = worker.reset(_outcome(worker, workloads, case, position))
        except DeviceLost as lost:
            emit(Opened(lost=str(lost)))
            return
        emit(outcome)
        if outcome.fatal:
            return  # ranks that are left die with this process
    worker.close()


def _outcome(
    worker: "_Worker", workloads: Mapping[str, Workload], case: Case, position: int
) -> Outcome:
    outcome = partial(Outcome, case=case, position=position)
    try:
        measurement, seen = worker.measure(workloads[case.workload], case)
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
class _Worker:
    """What the cases of a launch share: the devices and the ranks that were started for them."""

    launch: Launch
    emit: Emit
    settings: measure.Settings
    _devices: dict[str, Device | Unavailable] = field(default_factory=dict, init=False)
    _ranks: "Ranks | None" = field(default=None, init=False)

    def measure(self, work: Workload, case: Case) -> tuple[Measurement, dict[str, Any]]:
        """(what was measured or observed, the fields of an `Outcome` that show a trace)."""
        if work.has_ranks:
            return self._measure_ranks(work, case)
        device = self._device(case)
        if self.launch.observe:
            return evidence.gather(device, prepare(work, device, case)), {}
        prepared = prepare(work, device, case)
        measurement = measure.measure(device, prepared, self.settings.shortened(work.sampling))
        return measurement, _traced(device, prepared) if self.launch.trace else {}

    def _measure_ranks(self, work: Workload, case: Case) -> tuple[Measurement, dict[str, Any]]:
        """They need torch: a simulated launch has none and imports none. Raises Unavailable."""
        if self.launch.device is not None:
            raise Unavailable(f"the {self.launch.device} device has no ranks")
        if self._ranks is None:
            from hostbench.ranks.lockstep import Ranks

            self._ranks = Ranks(self.launch.deadline_s, is_observed=self.launch.observe)
        if self.launch.trace:
            measurement, events = self._ranks.trace(work, case, self.settings)
            return measurement, {"trace": tuple(events), "num_steps": measurement.depth}
        if self.launch.observe:
            return self._ranks.observe(work, case), {}
        return self._ranks.measure(work, case, self.settings), {}

    def _device(self, case: Case) -> Device:
        """Opened and settled, the same for all cases of the launch; a refusal is remembered too.
        Raises DeviceLost where it should work and does not."""
        name = self.launch.device or str(case.values["device"])
        if name not in self._devices:
            self.emit(Opening(device=name))
            try:
                device = open_device(name, launch=self.launch.number)
                device.settle()
                self._devices[name] = device
            except Unavailable as reason:
                self._devices[name] = reason
            except BrokenError as error:
                raise DeviceLost(str(error)) from error
            except Exception as error:
                if fatal_reason(error) is None:
                    raise
                why = in_words(error, "")
                raise DeviceLost(f"device {name} does not start: {why}") from error
            self.emit(Opened())
        opened = self._devices[name]
        if isinstance(opened, Unavailable):
            raise opened
        return opened

    def reset(self, outcome: Outcome) -> Outcome:
        """After every case, also a failed one; a device that cannot be reset ends the process."""
        if outcome.fatal:
            return outcome
        try:
            for device in self._opened():
                device.reset()
        except Exception as error:
            if outcome.status == "failed":
                return replace(outcome, fatal=True)
            broken = {**_failure(error), "fatal": True}
            return Outcome(case=outcome.case, position=outcome.position, status="failed", **broken)
        return outcome

    def close(self) -> None:
        if self._ranks is not None:
            self._ranks.close()
        for device in self._opened():
            device.close()

    def _opened(self) -> list[Device]:
        return [device for device in self._devices.values() if not isinstance(device, Unavailable)]


def _traced(device: Device, prepared: Prepared) -> dict[str, Any]:
    """The fields of an `Outcome` that show one sample: all its steps, those of the warm-up too, and
    one synchronize."""
    num_steps = prepared.warmup_steps + prepared.depth

    def sample() -> None:
        for _ in range(num_steps):
            prepared.step()
        device.synchronize()

    prepared.get_ready(device)
    return {"trace": tuple(device.trace(sample)), "num_steps": num_steps}


def _failure(error: BaseException, where: str = "") -> dict[str, Any]:
    """The fields of an `Outcome` that say how it failed, and where in the workload."""
    return {
        "reason": in_words(error, where),
        "traceback": end_of_traceback(error),
        "fatal": fatal_reason(error) is not None or isinstance(error, MemoryError),
    }
