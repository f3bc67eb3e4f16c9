"""What is told of a step: its length, its waits, and what lies outside of all."""

from pathlib import Path

import pytest

from tests.made_trace import MadeTrace, answer


def test_one_process_with_several_devices(tmp_path: Path) -> None:
    """A wait for all of them is one wait of a step."""
    made = MadeTrace()
    for step in range(10):
        at = step * 1000
        made.note(f"ProfilerStep#{step}", (at, at + 1000))
        for device in range(4):
            began = at + 10 * device
            made.kernel((began, began + 5), (began + 8, at + 500), device=device)
        made.sync((at + 50, at + 520), "cudaDeviceSynchronize")
    report, page = answer(made.write(tmp_path / "trace.json"))
    assert (report.num_steps, report.waits[0].count, report.waits[0].num_in_steps) == (40, 10, 10)
    assert "cudaDeviceSynchronize waits for the device, 1 a step" in page


def test_waits_outside_the_steps_are_counted_apart(tmp_path: Path) -> None:
    made = MadeTrace()
    for step in range(2):
        made.note(f"ProfilerStep#{step}", (step * 1000, step * 1000 + 1000))
        made.kernel((step * 1000, step * 1000 + 5), (step * 1000 + 10, step * 1000 + 900))
    for number in range(50):
        at = 2000 + 100 * number
        made.kernel((at, at + 5), (at + 10, at + 50))
        made.op("aten::item", (at + 20, at + 60))
        made.sync((at + 25, at + 55))
    report, page = answer(made.write(tmp_path / "trace.json"))
    (line,) = report.waits
    assert (line.count, line.num_in_steps) == (50, 0)
    assert "50 times outside the steps" in page
    assert "a step" not in page
    made.op("aten::item", (910, 960))
    made.sync((915, 955))
    assert (
        "0.5 a step and 50 times outside the steps"
        in answer(made.write(tmp_path / "trace.json"))[1]
    )


def test_work_outside_the_steps_does_not_make_them_longer(tmp_path: Path) -> None:
    made = MadeTrace()
    for step in range(5):
        at = step * 1000
        made.note(f"ProfilerStep#{step}", (at, at + 1000))
        made.kernel((at, at + 5), (at + 10, at + 900))
    made.kernel((20_000, 20_005), (20_010, 25_010))
    report, page = answer(made.write(tmp_path / "trace.json"))
    assert report.step_s == pytest.approx(1e-3)
    assert report.steps_share == pytest.approx(4.99e-3 / 25e-3)
    assert "of 25 ms, of which 5 steps of 1 ms are 20.0%;" in page
    assert "per step" not in page
    assert "costs are of all of it" in page
    assert {each.ms_per_step for each in report.causes} == {None}


def test_a_host_far_ahead_of_its_device(tmp_path: Path) -> None:
    """The work that a step launched is the step's, whenever it is done."""
    made = MadeTrace()
    for step in range(5):
        made.note(f"ProfilerStep#{step}", (step * 100, step * 100 + 100))
        made.kernel((step * 100, step * 100 + 5), (10 + step * 5000, 5010 + step * 5000))
    report, page = answer(made.write(tmp_path / "trace.json"))
    assert report.steps_share == pytest.approx(1)
    assert "5 steps of 100 us" in page


def test_a_step_on_two_threads_is_one(tmp_path: Path) -> None:
    made = MadeTrace()
    made.note("ProfilerStep#0", (0, 1000))
    made.event("user_annotation", "ProfilerStep#0", (100, 1100), tid=2)
    made.kernel((0, 5), (10, 900))
    report, _ = answer(made.write(tmp_path / "trace.json"))
    assert report.num_steps == 1
    assert report.step_s == pytest.approx(1.1e-3)
