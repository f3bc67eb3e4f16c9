"""`hostbench idle`: pages, formats, exit codes, and text from traces that is no text of ours."""

import csv
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hostbench.cli import idle as command
from hostbench.cli import main
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE
from hostbench.idle.recording import RecordedProcess
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


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    code = main(["idle", *map(str, words)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_page_names_the_line(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--trace", trace)
    assert (code, err) == (EXIT_OK, "")
    assert out.startswith("GPU 0: idle ")
    assert "2 steps of 1 ms, " in out
    assert "helpers.py:7 (is_large): aten::is_nonzero waits for the device, 1 a step" in out
    assert "keep the value on the device" in out


def test_json_has_the_shape_that_is_promised(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "--trace", trace, "--format", "json")
    found = json.loads(out)
    assert code == EXIT_OK
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


def test_csv_has_the_advice_the_costliest_first(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "--trace", trace, "--format", "csv")
    costs = [float(row["seconds"]) for row in csv.DictReader(io.StringIO(out))]
    assert code == EXIT_OK and "is_nonzero" in out
    assert len(costs) > 1 and costs == sorted(costs, reverse=True)


def test_a_folder_of_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--trace", TRACES)
    assert code == EXIT_OK
    assert out.startswith("3 GPUs: idle ")
    assert "recommender-rank-3.json.gz" in out


def test_without_work_of_a_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = MadeTrace()
    made.op("aten::mm", (0, 10))
    code, out, _ = run(capsys, "--trace", made.write(tmp_path / "trace.json"))
    assert code == EXIT_NOTHING_MEASURED
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
    words: tuple[str, ...],
    code: int,
    part: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("other.json").write_text("{}")
    ended, _, err = run(capsys, *words)
    assert ended == code and part in err and err.count("\n") == 1


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
    processes: tuple[RecordedProcess, ...],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    @contextmanager
    def recorded(*_: object, **__: object) -> Iterator[tuple[int, tuple[RecordedProcess, ...]]]:
        yield 0, processes

    monkeypatch.setattr(command, "recorded", recorded)
    assert main(["idle", "--", "python", "train.py"]) == EXIT_NOTHING_MEASURED
    assert said in capsys.readouterr().err
