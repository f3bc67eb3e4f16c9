"""One launch inside a worker process: walk the cases in the order given, tell about each."""

import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hostbench.core.case import Case
from hostbench.core.errors import Unavailable
from hostbench.device import open_device
from hostbench.device.base import Device
from hostbench.device.errors import fatal_reason
from hostbench.families import load
from hostbench.measure import evidence, measure
from hostbench.measure.workload import Workload, prepare
from hostbench.ranks.lockstep import Room
from hostbench.ranks.replies import RankFailure

Emit = Callable[[dict[str, Any]], None]
_DEADLINE_S = 60.0


def walk(request: Mapping[str, Any], emit: Emit) -> None:
    """Measure `request["cases"]` in order.

    Before each case a `start` message, after it a `case` message with status, reason and numbers.
    Stops early with `"fatal": true` when the process can no longer be trusted.
    """
    workloads = load((request["family"],))
    settings = measure.Settings(**request["settings"])
    devices: dict[str, Device | Unavailable] = {}
    room = Room(request.get("deadline_s", _DEADLINE_S))
    place = _Place(
        devices, room, request.get("device"), bool(request.get("observe")), request.get("number", 0)
    )
    for position, raw in enumerate(request["cases"]):
        case = Case.of(raw["workload"], raw["axes"])
        emit({"event": "start", "case": raw, "at": time.time()})
        outcome = _one(workloads, place, case, settings)
        outcome = _leave_nothing(devices, outcome)
        emit({"event": "case", "case": raw, "position": position, **outcome})
        if outcome.get("fatal"):
            return  # ranks that are left die with this process
    room.close()
    for device in devices.values():
        if not isinstance(device, Unavailable):
            device.close()


def _one(
    workloads: Mapping[str, Workload], place: "_Place", case: Case, settings: measure.Settings
) -> dict[str, Any]:
    try:
        if place.observe:
            return _evidence(workloads[case.workload], place, case)
        result = _measured(workloads[case.workload], place, case, settings)
    except Unavailable as reason:
        return {"status": "skipped", "reason": str(reason)}
    except RankFailure as failure:  # the ranks are gone, this process is as good as new
        return {"status": "failed", "reason": str(failure), "traceback": failure.traceback}
    except Exception as error:
        return {"status": "failed", **_failure(error)}
    return {
        **_judged(result.proofs),
        "seconds": measure.summary_s(result),
        "measurement": measure.as_json(result),
    }


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the cases of this launch run."""

    devices: dict[str, Device | Unavailable]
    room: Room
    stand_in: str | None
    observe: bool = False
    launch: int = 0


def _evidence(work: Workload, place: _Place, case: Case) -> dict[str, Any]:
    """A pass that observes the case; its proofs are judged like those of the timed passes."""
    device = _open(place, case)
    found = evidence.gather(device, prepare(work, device, case))
    return {
        **_judged(found.proofs),
        "measurement": {"findings": found.findings, "proofs": found.proofs},
    }


def _judged(proofs: Mapping[str, str]) -> dict[str, Any]:
    broken = [f"{name} {said}" for name, said in proofs.items() if said.startswith("failed")]
    return {"status": "failed" if broken else "ok", "reason": "; ".join(broken) or None}


def _measured(
    work: Workload, place: _Place, case: Case, settings: measure.Settings
) -> measure.Measurement:
    if work.ranks is None:
        device = _open(place, case)
        return measure.measure(device, prepare(work, device, case), settings)
    if place.stand_in is not None:
        raise Unavailable(f"the {place.stand_in} device has no ranks")
    return place.room.measure(work, case, settings)


def _leave_nothing(
    devices: Mapping[str, Device | Unavailable], outcome: dict[str, Any]
) -> dict[str, Any]:
    """Reset after every case, also a failed one; a device that cannot be ends the process."""
    if outcome.get("fatal"):
        return outcome
    try:
        for device in devices.values():
            if not isinstance(device, Unavailable):
                device.reset()
    except Exception as error:
        failure = outcome if outcome["status"] == "failed" else _failure(error)
        return {**failure, "status": "failed", "fatal": True}
    return outcome


def _open(place: _Place, case: Case) -> Device:
    """The opened device, the same for all cases of the launch; a refusal is remembered too."""
    devices, name = place.devices, place.stand_in or str(case.values["device"])
    if name not in devices:
        try:
            devices[name] = open_device(name, launch=place.launch)
            devices[name].settle()  # type: ignore[union-attr]
        except Unavailable as reason:
            devices[name] = reason
    device = devices[name]
    if isinstance(device, Unavailable):
        raise device
    return device


def _failure(error: Exception) -> dict[str, Any]:
    fatal = fatal_reason(error)
    reason = fatal or f"{type(error).__name__}: {error}"
    return {
        "reason": " ".join(reason.split())[:500],
        "traceback": "".join(traceback.format_exception(error))[-4000:],
        "fatal": fatal is not None or isinstance(error, MemoryError),
    }
