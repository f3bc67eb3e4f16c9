"""One launch inside a worker process: walk the cases in the order given, tell about each."""

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from hostbench import measure
from hostbench.case import Case
from hostbench.device import open_device
from hostbench.device.errors import fatal_reason
from hostbench.device.protocol import Device
from hostbench.errors import Unavailable
from hostbench.samples import median
from hostbench.workload import Workload, prepare
from hostbench.workloads import load

Emit = Callable[[dict[str, Any]], None]


def walk(request: Mapping[str, Any], emit: Emit) -> None:
    """Measure `request["cases"]` in order.

    Before each case a `start` message, after it a `case` message with status, reason and numbers.
    Stops early with `"fatal": true` when the process can no longer be trusted.
    """
    workloads = load((request["family"],))
    settings = measure.Settings(**request["settings"])
    devices: dict[str, Device | Unavailable] = {}
    for position, raw in enumerate(request["cases"]):
        case = Case.of(raw["workload"], raw["axes"])
        emit({"event": "start", "case": raw, "at": time.time()})
        outcome = _one(workloads, devices, case, settings, request.get("device"))
        emit({"event": "case", "case": raw, "position": position, **outcome})
        if outcome.get("fatal"):
            return
    for device in devices.values():
        if not isinstance(device, Unavailable):
            device.close()


def _one(
    workloads: Mapping[str, Workload],
    devices: dict[str, Device | Unavailable],
    case: Case,
    settings: measure.Settings,
    stand_in: str | None,
) -> dict[str, Any]:
    try:
        work = workloads[case.workload]
        device = _open(devices, stand_in or str(case.values["device"]))
        result = measure.measure(device, prepare(work, device, case), settings)
        device.reset()
    except Unavailable as reason:
        return {"status": "skipped", "reason": str(reason)}
    except Exception as error:
        return {"status": "failed", **_failure(error)}
    broken = [f"{name} {said}" for name, said in result.proofs.items() if said.startswith("failed")]
    return {
        "status": "failed" if broken else "ok",
        "reason": "; ".join(broken) or None,
        "seconds": median(result.samples.end_to_end_s),
        "measurement": measure.as_json(result),
    }


def _open(devices: dict[str, Device | Unavailable], name: str) -> Device:
    """The opened device, the same for all cases of the launch; a refusal is remembered too."""
    if name not in devices:
        try:
            devices[name] = open_device(name)
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
