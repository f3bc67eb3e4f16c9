"""Progress: a bar on a terminal, plain lines elsewhere, on a clock that the test turns."""

import io
import time

import pytest

from hostbench.core.case import Case, as_typed
from hostbench.runner.progress import Bar
from tests.commands import Terminal
from tests.fakes.builders import copy_case, failed, record, skipped


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", made)
    return made


def test_plain_lines_come_at_least_every_10_seconds(clock: Clock) -> None:
    """Ticks come about once a second; asv kills a setup_cache that is silent for long."""
    out, said = io.StringIO(), list[float]()
    bar = Bar(out)
    bar.begin(10)
    bar.walk("launch 1 of 2", [Case("transfer", {})])
    for _ in range(100):
        seen = out.tell()
        clock.now_s += 0.97
        bar.tick()
        if out.tell() > seen:
            said.append(clock.now_s)
    gaps = [later - sooner for sooner, later in zip([1000.0, *said], said, strict=False)]
    assert gaps and max(gaps) <= 10.0
    assert len(said) <= 12  # and not a line a tick
    assert "\r" not in out.getvalue() and "\033" not in out.getvalue()


def test_the_time_left_is_told_only_from_a_whole_launch(clock: Clock) -> None:
    """The worker's start takes 20 s, a launch 5.5 s, most of it the first family's.
    The same share of time and cases would have told minutes."""
    out = io.StringIO()
    bar = Bar(out)
    bar.begin(30, 10)
    clock.now_s += 20
    for family, took_s in (("slow", 1.0), ("quick", 0.1)):
        bar.walk("launch 1 of 3", [Case(family, {})])
        assert "left" not in out.getvalue()
        for _ in range(5):
            clock.now_s += took_s
            bar.case(record(copy_case()))
    bar.walk("launch 2 of 3", [Case("slow", {})])
    assert "launch 2 of 3, slow, 0:10 left" in out.getvalue()


def test_what_is_skipped_takes_no_time_and_is_no_progress(clock: Clock) -> None:
    out = io.StringIO()
    bar = Bar(out)
    bar.begin(20, 10)
    for _ in range(5):
        bar.case(skipped(copy_case(), "needs a GPU"))
        bar.dropped(1)
    for _ in range(5):
        assert "left" not in out.getvalue()
        clock.now_s += 10
        bar.case(record(copy_case()))
    bar.walk("launch 2 of 2", [Case("transfer", {})])
    assert out.getvalue().endswith(
        "[############............] launch 2 of 2, transfer, 0:50 left\n"
    )


def test_a_failure_is_a_line_at_once_without_control_characters(clock: Clock) -> None:
    for out in (io.StringIO(), Terminal()):
        bar = Bar(out)
        bar.begin(2)
        bar.case(failed(copy_case(), "it\x1b]0;broke\x07\nbadly"))
        assert f"failed: {as_typed(str(copy_case()))}: it ]0;broke  badly\n" in out.getvalue()


def test_the_line_is_redrawn_fits_and_goes(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    with pytest.raises(ZeroDivisionError), Bar(out) as bar:
        bar.begin(4)
        bar.walk("launch 1 of 1", [Case("transfer", {}), Case("synchronization", {})])
        for _ in range(2):
            clock.now_s += 1
            bar.case(record(copy_case()))
        raise ZeroDivisionError
    *lines, last = out.getvalue().split("\r\x1b[K")
    assert "\n" not in out.getvalue() and all(len(line) < 60 for line in lines) and last == ""
    assert lines[-1].startswith("[############............] launch 1 of 1, tr")
    assert lines[-1].endswith(", 0:02 left")
