"""What tests of our suite under real asv share: a small checkout and what asv stored of it."""

import itertools
import json
import sys
from typing import Any

from tests.scratch import Scratch

WORKER = "hostbench/runner/worker.py"
MEDIAN = "median(measurement.end_to_end_s)"
H2D = "transfer.HostToDevice.track_seconds"
D2H = "transfer.DeviceToHost.track_seconds"
FAST = {"HOSTBENCH_LAUNCHES": "8"}


def small(checkout: Scratch, seconds: float) -> None:
    """Two small sizes, no sampling to speak of, and `seconds` as every launch's median. No process
    imports torch."""
    checkout.plain_copies()
    checkout.without_torch()
    checkout.set_number("hostbench/core/records.py", "budget_s: float", 0.0)
    checkout.set_number("hostbench/core/records.py", "warmup_s: float", 0.0)
    checkout.set_number("hostbench/measure/measure.py", "PROBE_DELAY_S", 0.002)
    checkout.edit(WORKER, MEDIAN, str(seconds))
    checkout.only_families("transfer")


def stored(checkout: Scratch, commit: str, machine: str = "scratch") -> dict[str, Any]:
    path = checkout.results / machine / f"{commit[:8]}-hostbench-py{version()}.json"
    data: dict[str, Any] = json.loads(path.read_text())
    return data


def version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def cells(
    checkout: Scratch, commit: str, name: str, machine: str = "scratch"
) -> dict[tuple[str, ...], dict[str, Any]]:
    """Parameters (as asv writes them) -> result and samples."""
    data = stored(checkout, commit, machine)
    row = dict(zip(data["result_columns"], data["results"][name], strict=False))
    found = {}
    for place, params in enumerate(itertools.product(*row["params"])):
        values = row["result"] or [None] * 1000
        samples = row.get("samples") or [None] * 1000
        found[params] = {"result": values[place], "samples": samples[place]}
    return found


def cpu(nbytes: int, blocking: bool = True) -> tuple[str, ...]:
    return (repr("cpu"), repr(nbytes), repr("pageable"), repr(blocking))
