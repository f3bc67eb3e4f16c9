"""Progress: a bar on a terminal, plain lines elsewhere, on a clock that the test turns."""

import io
import re
import shutil
import time
from os import terminal_size

import pytest

from hostbench.runner.progress import Bar
from hostbench.testing.builders import copy_case, failed, record


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


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


def wide(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: terminal_size((columns, 24)))


def test_plain_lines_come_at_least_every_10_seconds(clock: Clock) -> None:
    """Ticks come about once a second; asv kills a setup_cache that is silent for long."""
    out, said = io.StringIO(), list[float]()
    bar = Bar(out)
    bar.begin(10)
    bar.launch(0, 2, "transfer")
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


def test_plain_lines_are_flushed(clock: Clock) -> None:
    class Pipe(io.StringIO):
        flushed = 0

        def flush(self) -> None:
            self.flushed = len(self.getvalue())

    out = Pipe()
    bar = Bar(out)
    bar.begin(1)
    bar.launch(0, 1, "transfer")
    assert out.flushed == len(out.getvalue()) > 0


def test_a_line_says_what_runs_and_the_time_left(clock: Clock) -> None:
    out = io.StringIO()
    bar = Bar(out)
    bar.begin(8)
    bar.launch(0, 2, "transfer")
    line = out.getvalue()
    assert "0/8" in line and "launch 1/2 transfer" in line and "? left" in line
    clock.now_s += 30
    bar.case(record(copy_case()))
    bar.case(record(copy_case()))
    last = out.getvalue().splitlines()[-1]
    # Two could not be said at once: the line is that of the first, after 30 s for 1 of 8.
    assert "1/8" in last and "3:30 left" in last
    assert last.startswith("[###.....................]")


def test_what_is_dropped_counts_as_done(clock: Clock) -> None:
    out = io.StringIO()
    bar = Bar(out)
    bar.begin(4)
    bar.dropped(3)
    clock.now_s += 60
    bar.launch(1, 2, "transfer")
    assert "3/4" in out.getvalue() and "0:20 left" in out.getvalue()


def test_a_failure_is_said_at_once_and_stays(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    wide(monkeypatch, 80)
    for out in (io.StringIO(), Terminal()):
        bar = Bar(out)
        bar.begin(2)
        bar.case(failed(copy_case(), "out of memory"))
        assert f"failed: {copy_case()}: out of memory\n" in out.getvalue()


def test_the_bar_redraws_one_line_that_fits(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    wide(monkeypatch, 40)
    out = Terminal()
    bar = Bar(out)
    bar.begin(4)
    bar.launch(0, 1, "transfer")
    for _ in range(4):
        clock.now_s += 1
        bar.case(record(copy_case()))
    bar.tick()
    bar.end()
    assert "\n" not in out.getvalue()
    drawn = out.getvalue().split("\r\033[K")
    assert drawn[0] == drawn[-1] == ""
    assert all(len(text) <= 39 for text in drawn)
    shares = [re.match(r"\[(#*)", text) for text in drawn[1:-1]]
    assert [len(share[1]) for share in shares if share] == [0, 6, 12, 18, 24, 24]


def test_an_empty_plan_is_done(clock: Clock) -> None:
    out = io.StringIO()
    bar = Bar(out)
    bar.begin(0)
    bar.launch(0, 1, "transfer")
    assert "0/0" in out.getvalue() and "[########################]" in out.getvalue()
    bar.end()


def test_a_reason_is_one_line_without_control_characters(clock: Clock) -> None:
    out = io.StringIO()
    Bar(out).case(failed(copy_case(), reason="it\x1b]0;broke\x07\nbadly"))
    assert out.getvalue() == f"failed: {copy_case()}: it ]0;broke  badly\n"
