"""Public traces of GPU training, beside a slow and independent computation on the same files."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hostbench.core.units import format_seconds
from hostbench.idle.causes import HOST_LATE, QUEUED, SYNCHRONIZATION
from tests.made_trace import answer

FOLDER = Path(__file__).parent.parent / "data" / "traces"
WORK = ("kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset")


def events(name: str) -> list[dict[str, Any]]:
    document = json.loads(gzip.decompress((FOLDER / name).read_bytes()))
    found: list[dict[str, Any]] = document["traceEvents"]
    return found


def slow_idle_fraction(name: str) -> float:
    """Between any two neighbours of all starts and ends: did anything run? In microseconds."""
    work = [(e["ts"], e["ts"] + e["dur"]) for e in events(name) if e["cat"] in WORK]
    marks = np.unique(np.array(work))
    starts, ends = np.array(work).T
    middles = (marks[1:] + marks[:-1]) / 2
    runs = np.array([bool(((starts <= at) & (at < ends)).any()) for at in middles])
    return 1 - float(np.diff(marks)[runs].sum() / (marks[-1] - marks[0]))


@pytest.mark.parametrize(
    ("name", "step_s", "worst"),
    [
        ("resnet50.json.gz", 176e-3, HOST_LATE),
        ("recommender-rank-3.json.gz", 76.9e-3, SYNCHRONIZATION),
        ("distributed-rank-0.json.gz", 72.1e-3, QUEUED),
    ],
)
def test_idleness_is_that_of_the_slow_computation(name: str, step_s: float, worst: str) -> None:
    report, page = answer(FOLDER / name)
    (device,) = report.devices
    assert device.idle_fraction == pytest.approx(slow_idle_fraction(name), abs=1e-4)
    idle_s = {cause.cause: cause.seconds for cause in report.causes if cause.is_idle}
    assert sum(idle_s.values()) == pytest.approx(device.span_s - device.busy_s, abs=1e-9)
    assert next(iter(idle_s)) == worst
    assert (report.num_steps, report.step_s) == (1, pytest.approx(step_s, abs=5e-4))
    assert f": 1 step of {format_seconds(report.step_s)}, " in page
    assert not report.warnings


def test_copies_and_waits_of_a_step() -> None:
    report, _ = answer(FOLDER / "resnet50.json.gz")
    (line,) = report.waits
    assert (line.call, line.count, line.num_in_steps) == ("aten::to", 2, 2)
    assert [copy.way for copy in report.copies] == ["H2D pageable"]


def test_every_item_of_a_step_is_counted() -> None:
    report, _ = answer(FOLDER / "recommender-rank-3.json.gz")
    items = [line for line in report.waits if line.call == "aten::item"]
    calls = [e for e in events("recommender-rank-3.json.gz") if e["name"] == "aten::item"]
    waits = [e for e in events("recommender-rank-3.json.gz") if "Synchronize" in e["name"]]
    held = [
        call
        for call in calls
        if any(call["ts"] <= wait["ts"] <= call["ts"] + call["dur"] for wait in waits)
    ]
    assert sum(line.count for line in items) == len(held) == 4
    assert report.devices[0].rank == 3
