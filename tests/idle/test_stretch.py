"""A stretch of somebody's trace as lanes: the threads, the streams, the step that is named."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hostbench.cli import main
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, DataError, UsageError
from hostbench.core.lanes import Lane
from hostbench.idle import stretch as module
from hostbench.idle.stretch import stretch
from hostbench.idle.trace import Trace, read_trace
from hostbench.timeline import read_trace as read_ours
from tests.made_trace import D2H_PAGEABLE, H2D, MadeTrace

DATA = Path(__file__).parent.parent / "data" / "traces"


def made(tmp_path: Path) -> Path:
    """Microseconds: a copy and a kernel, whose result the host waits for; a second thread, a second
    GPU, a collective, a memset, and one step of two."""
    trace = MadeTrace(rank=3)
    trace.note("ProfilerStep#7", (1000, 1200))
    trace.copy((1000, 1010), (1020, 1060), H2D, nbytes=4096)
    trace.kernel((1010, 1020), (1060, 1160), "gemm<float>&")
    trace.sync((1020, 1165))
    trace.note("ProfilerStep#8", (1200, 1400))
    trace.copy((1200, 1260), (1210, 1250), D2H_PAGEABLE)
    trace.kernel((1260, 1270), (1270, 1300), "ncclDevKernel_AllReduce")
    trace.kernel(None, (1300, 1310), "Memset (Device)", "gpu_memset")
    trace.event("cuda_runtime", "cudaLaunchKernel", (1300, 1310), tid=2)
    work = {"device": 1, "stream": 20, "correlation": 99}
    trace.event("kernel", "relu", (1310, 1400), args=work)
    return trace.write(tmp_path / "train.json")


def seen(lane: Lane) -> list[tuple[str, str, float, float]]:
    return [
        (one.name, one.kind, round(one.start_s * 1e6, 3), round(one.end_s * 1e6, 3))
        for one in lane.spans
    ]


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    return read_trace(made(tmp_path))


def test_all_of_it_has_every_thread_and_stream(trace: Trace) -> None:
    found = stretch(trace)
    assert [(lane.place, lane.name) for lane in found.lanes] == [
        ("", "host"),
        ("", "thread 2"),
        ("GPU 0", "stream 7"),
        ("GPU 1", "stream 20"),
    ]
    host, thread, first, second = found.lanes
    assert seen(host) == [
        ("cudaMemcpyAsync", "call", 0, 10),
        ("cudaLaunchKernel", "call", 10, 20),
        ("cudaStreamSynchronize", "wait", 20, 165),
        ("cudaMemcpyAsync", "call", 200, 260),
        ("cudaLaunchKernel", "call", 260, 270),
    ]
    assert seen(thread) == [("cudaLaunchKernel", "call", 300, 310)]
    assert seen(first) == [
        (H2D, "H2D", 20, 60),
        ("gemm<float>&", "compute", 60, 160),
        (D2H_PAGEABLE, "D2H", 210, 250),
        ("ncclDevKernel_AllReduce", "collective", 270, 300),
        ("Memset (Device)", "other", 300, 310),
    ]
    assert first.spans[0].nbytes == 4096
    assert seen(second) == [("relu", "compute", 310, 400)]
    assert (found.from_s, round(found.to_s * 1e6), round(found.whole_s * 1e6)) == (0, 400, 400)


def test_a_part_is_cut_at_its_ends(trace: Trace) -> None:
    host, stream = stretch(trace, 100e-6, 220e-6).lanes
    assert seen(host) == [
        ("cudaStreamSynchronize", "wait", 100, 165),
        ("cudaMemcpyAsync", "call", 200, 220),
    ]
    assert seen(stream) == [("gemm<float>&", "compute", 100, 160), (D2H_PAGEABLE, "D2H", 210, 220)]
    assert stretch(trace, from_s=100e-6).to_s == pytest.approx(400e-6)
    assert stretch(trace, to_s=100e-6).from_s == 0.0


def test_a_step_is_found_by_its_number(trace: Trace) -> None:
    found = stretch(trace, step=7)
    assert (round(found.from_s * 1e6), round(found.to_s * 1e6)) == (0, 200)
    assert [lane.name for lane in found.lanes] == ["host", "stream 7"]
    with pytest.raises(UsageError, match=r"--step 9: train\.json has no such step.* are: 7 to 8"):
        stretch(trace, step=9)


@pytest.mark.parametrize(("from_s", "to_s"), [(1.0, None), (2e-4, 1e-4), (1e-4, 1e-4), (5.0, 6.0)])
def test_what_is_no_part_is_said(trace: Trace, from_s: float, to_s: float | None) -> None:
    with pytest.raises(UsageError, match=r"is no part of train\.json, which has 0\.0004 s"):
        stretch(trace, from_s, to_s)


def test_too_much_is_refused_with_the_way_out(
    trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SPANS", 5)
    with pytest.raises(UsageError, match="12 calls and pieces of work, more than 5: name a sho"):
        stretch(trace)
    assert stretch(trace, to_s=15e-6).lanes


def test_a_trace_without_cuda_says_how_to_record_one(tmp_path: Path) -> None:
    empty = MadeTrace()
    empty.op("aten::add", (0, 5))
    with pytest.raises(DataError, match=r"ProfilerActivity\.CUDA"):
        stretch(read_trace(empty.write(tmp_path / "cpu.json")))


@pytest.mark.parametrize("name", ["resnet50", "distributed-rank-0", "recommender-rank-3"])
def test_real_traces_keep_every_call_and_piece_of_work(name: str) -> None:
    found = read_trace(DATA / f"{name}.json.gz")
    part = stretch(found)
    num = sum(len(lane.spans) for lane in part.lanes)
    # What takes no time ends where it starts; only at the very start is it outside.
    assert found.calls.shape[1] + found.work.shape[1] - num <= 1
    for lane in part.lanes:
        starts = [span.start_s for span in lane.spans]
        assert starts == sorted(starts) and starts[0] >= 0.0


# The command


def command(tmp_path: Path, *args: str) -> int:
    return main(["trace", "--trace", str(made(tmp_path)), "-o", str(tmp_path / "out"), *args])


def test_the_command_writes_a_picture_and_a_smaller_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, "--from", "0.0001", "--to", "0.00022") == EXIT_OK
    out = capsys.readouterr().out
    assert "rank 3, from 100 us to 220 us of 400 us" in out
    drawn = (tmp_path / "out.svg").read_text()
    assert ElementTree.fromstring(drawn) is not None
    assert "gemm&lt;float&gt;&amp;: 60 us" in drawn
    assert "time since 100 us of the trace" in drawn
    lanes, about = read_ours(json.loads((tmp_path / "out.json").read_text()))
    assert [lane.name for lane in lanes] == ["host", "stream 7"]
    assert about["rank"] == 3


def test_without_a_name_it_is_named_after_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = made(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["trace", "--trace", path.name, "--format", "json"]) == EXIT_OK
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (said["trace"], said["picture"]) == ("train.stretch.json", "train.stretch.svg")
    assert len(said["lanes"]) == 4 and Path("train.stretch.svg").exists()


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("overlap.pipeline",), EXIT_USAGE, "a CASE or --trace FILE, not both"),
        (("--step", "7", "--to", "1"), EXIT_USAGE, "leave --from and --to out"),
        (("--from", "-1"), EXIT_USAGE, "--from"),
        (("--trace", "nowhere.json"), EXIT_USAGE, "cannot read nowhere.json"),
        (("--trace", __file__), EXIT_FAILED, "is no trace of PyTorch's profiler"),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    args: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    assert command(tmp_path, *args) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_part_of_no_file_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "overlap.pipeline", "--from", "1"]) == EXIT_USAGE
    assert "--trace FILE, which is missing" in capsys.readouterr().err
