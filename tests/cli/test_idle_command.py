"""`hostbench idle`: pages, formats, exit codes, and text from traces that is no text of ours."""

import csv
import io
import json
from contextlib import nullcontext
from pathlib import Path

import pytest

from hostbench.cli import idle as command
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_USAGE
from hostbench.idle.recording import RecordedProcess
from tests.commands import hostbench
from tests.made_trace import MadeTrace

TRACES = Path(__file__).parent.parent / "data" / "traces"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two steps: a value that is read in a helper function, and a loader that is late."""
    made = MadeTrace(rank=0)
    for at in (0, 1000):
        made.note(f"ProfilerStep#{at}", (at, at + 1000))
        made.kernel((at, at + 5), (at + 10, at + 410))
        made.op("aten::is_nonzero", (at + 25, at + 435))
        made.sync((at + 30, at + 415))
        made.note("hostbench line 7  is_large helpers.py", (at + 440, at + 440))
        made.kernel((at + 600, at + 605), (at + 610, at + 900))
    return made.write(tmp_path / "trace.json")


def test_the_page_names_the_line(trace: Path) -> None:
    _, out, err = hostbench("idle", "--trace", trace)
    assert err == ""
    assert out.startswith("GPU 0: idle ")
    assert "2 steps of 1 ms, " in out
    assert "helpers.py:7 (is_large): aten::is_nonzero waits for the device, 1 a step" in out
    assert "keep the value on the device" in out


def test_json_has_the_shape_that_is_promised(trace: Path) -> None:
    found = json.loads(hostbench("idle", "--trace", trace, "--format", "json").out)
    (device,) = found["devices"]
    assert {"device", "span_s", "busy_s", "idle_fraction"} <= set(device)
    (wait,) = found["waits"]
    assert wait == {
        "file": "helpers.py",
        "line": 7,
        "function": "is_large",
        "call": "aten::is_nonzero",
        "count": 2,
        "num_in_steps": 2,
        "seconds": pytest.approx(770e-6),
        "idle_s": pytest.approx(495e-6),
        "nbytes": 0,
    }
    assert {each["cause"] for each in found["causes"]} >= {"host_late", "synchronization"}


def test_csv_has_the_advice_the_costliest_first(trace: Path) -> None:
    out = hostbench("idle", "--trace", trace, "--format", "csv").out
    costs = [float(row["seconds"]) for row in csv.DictReader(io.StringIO(out))]
    assert "is_nonzero" in out
    assert len(costs) > 1 and costs == sorted(costs, reverse=True)


def test_a_folder_of_ranks() -> None:
    out = hostbench("idle", "--trace", TRACES).out
    assert out.startswith("3 GPUs: idle ")
    assert "recommender-rank-3.json.gz" in out


def test_without_work_of_a_gpu(tmp_path: Path) -> None:
    made = MadeTrace()
    made.op("aten::mm", (0, 10))
    path = made.write(tmp_path / "trace.json")
    out = hostbench("idle", "--trace", path, code=EXIT_NOTHING_MEASURED).out
    assert "The trace has no GPU work" in out
    assert "need a run on a GPU" in out


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        ((), EXIT_USAGE, "say what to look at"),
        (("--trace", "none.json"), EXIT_USAGE, "none.json"),
        (("--trace", "empty"), EXIT_USAGE, "no trace of PyTorch's profiler"),
        (("--trace", "other.json"), EXIT_FAILED, "not a trace of PyTorch's profiler"),
        (("a.json",), EXIT_USAGE, "hostbench idle --trace a.json"),
    ],
)
def test_mistakes(
    words: tuple[str, ...], code: int, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("other.json").write_text("{}")
    err = hostbench("idle", *words, code=code).err
    assert part in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("processes", "said"),
    [
        ((), "no Python process of the command imported torch"),
        ((RecordedProcess(steps=4),), "4 steps of an optimizer, and recording begins after 5"),
        (
            (RecordedProcess(error="no room"), RecordedProcess(steps=9)),
            "nothing was recorded: no room",
        ),
    ],
)
def test_why_nothing_was_recorded(
    processes: tuple[RecordedProcess, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded = nullcontext((0, processes))
    monkeypatch.setattr(command, "recorded", lambda *_, **__: recorded)
    words = ("idle", "--", "python", "train.py")
    assert said in hostbench(*words, code=EXIT_NOTHING_MEASURED).err
