"""What counts of a trace: events with times and numbers that are none."""

from pathlib import Path
from typing import Any

import pytest

from hostbench.idle.summary import idle_report, summary
from hostbench.idle.trace import read_trace
from hostbench.idle.words import blocks
from tests.made_trace import H2D, MadeTrace


def made(**more: Any) -> MadeTrace:
    """Two kernels, a copy and a synchronize, and one more kernel that is odd."""
    trace = MadeTrace()
    trace.kernel((0, 5), (10, 20))
    trace.copy((20, 25), (30, 40), H2D, nbytes=64)
    trace.kernel((25, 30), (50, 60))
    trace.sync((35, 62))
    trace.event("kernel", "odd", (55, 56), args={"device": 0, "stream": 7, "correlation": 99})
    trace.events[-1] |= more
    return trace


LEFT_OUT: dict[str, dict[str, Any]] = {
    "a time beyond all": {"ts": 1e300},
    "a time that is none": {"ts": "soon"},
    "no time": {"ts": None},
    "a device that is none": {"args": {"device": "nan"}},
    "the first of two halves": {"ph": "B"},
}


@pytest.mark.parametrize("more", LEFT_OUT.values(), ids=LEFT_OUT)
def test_an_event_that_is_left_out_is_named(tmp_path: Path, more: dict[str, Any]) -> None:
    trace = read_trace(made(**more).write(tmp_path / "odd.json"))
    assert len(trace.work) == 3
    (warning,) = trace.warnings
    assert warning.startswith("odd.json: 1 event left out")
    report = summary([trace])
    (device,) = report.devices
    assert (device.span_s, device.busy_s) == pytest.approx((50e-6, 30e-6))
    assert blocks(report)[0] == warning  # before the headline


READ: dict[str, dict[str, Any]] = {
    "a time as text": {"ts": "55", "dur": "1"},
    "a correlation beyond all": {"args": {"device": 0, "stream": 7, "correlation": 10**400}},
    "no size": {"cat": "gpu_memcpy", "args": {"device": 0, "stream": 7, "bytes": float("nan")}},
}


@pytest.mark.parametrize("more", READ.values(), ids=READ)
def test_an_event_of_which_one_number_is_none_is_read(tmp_path: Path, more: dict[str, Any]) -> None:
    report = idle_report([made(**more).write(tmp_path / "odd.json")])
    (device,) = report.devices
    assert (device.span_s, device.busy_s) == pytest.approx((50e-6, 30e-6))
    assert report.warnings == ()
    assert sum(copy.nbytes for copy in report.copies) == 64
