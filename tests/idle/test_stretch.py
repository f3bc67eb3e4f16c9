"""`hostbench trace --trace`: a stretch of somebody's trace, or the step that is named."""

import json
from collections import Counter
from csv import DictReader
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hostbench.cli import main
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_USAGE, UsageError
from hostbench.idle import lanes as module
from hostbench.idle.lanes import step_of, whole_s
from hostbench.idle.trace import Trace, read_trace
from hostbench.timeline import read_trace as read_ours
from tests.made_trace import D2H_PAGEABLE, H2D, MadeTrace

DATA = Path(__file__).parent.parent / "data" / "traces"
RESNET = DATA / "resnet50.json.gz"


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


@pytest.fixture
def found(tmp_path: Path) -> list[Trace]:
    return [read_trace(made(tmp_path))]


def test_the_whole_is_from_the_first_event_to_the_end_of_the_last(found: list[Trace]) -> None:
    assert whole_s(found) == pytest.approx(400e-6)


def test_a_step_is_found_by_its_number(found: list[Trace]) -> None:
    assert step_of(found, 7) == pytest.approx((0.0, 200e-6))
    assert step_of(found, 8) == pytest.approx((200e-6, 400e-6))
    with pytest.raises(UsageError, match=r"--step 9: there is no such step.* there are: 7 to 8"):
        step_of(found, 9)


def test_a_trace_without_steps_says_how_to_have_some(tmp_path: Path) -> None:
    plain = MadeTrace()
    plain.sync((0, 5))
    with pytest.raises(UsageError, match=r"profile\.step\(\)"):
        step_of([read_trace(plain.write(tmp_path / "plain.json"))], 1)


def test_too_much_is_refused_with_the_way_out(
    found: list[Trace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_SPANS", 5)
    with pytest.raises(UsageError, match="12 calls and pieces of work, more than 5: name a sho"):
        module.lanes(found, 0.0, 1.0)
    assert module.lanes(found, 0.0, 15e-6)


@pytest.mark.parametrize("name", ["resnet50", "distributed-rank-0", "recommender-rank-3"])
def test_real_traces_keep_every_call_and_piece_of_work(name: str) -> None:
    trace = read_trace(DATA / f"{name}.json.gz")
    drawn = module.lanes([trace], -1.0, whole_s([trace]) + 1.0)
    kinds = Counter(span.kind for lane in drawn for span in lane.spans)
    assert kinds.pop("load", 0) == trace.loads.shape[1]
    assert 0 < kinds.pop("op") <= trace.ops.shape[1]
    assert sum(kinds.values()) == trace.calls.shape[1] + trace.work.shape[1]
    for lane in drawn:
        starts = [span.start_s for span in lane.spans]
        assert starts == sorted(starts) and starts[0] >= 0.0


def loading(tmp_path: Path) -> Path:
    """Microseconds: a step that begins with a wait for data, in which an operation runs and memory
    is pinned; then an operation within another, and at last a kernel."""
    trace = MadeTrace()
    trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", (0, 600))
    trace.op("aten::stack", (100, 200))
    trace.event("cuda_runtime", "cudaHostAlloc", (300, 400))
    trace.op("aten::linear", (700, 800))
    trace.op("aten::addmm", (710, 790))
    trace.kernel((720, 730), (725, 1000))
    trace.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", (1000, 1100))
    return trace.write(tmp_path / "loading.json")


def drawn_us(path: Path, start_us: float, end_us: float) -> dict[str, list[tuple[str, int, int]]]:
    """What is in each lane of a stretch: kind, start, end."""
    return {
        lane.name: [
            (one.kind, round(one.start_s * 1e6), round(one.end_s * 1e6)) for one in lane.spans
        ]
        for lane in module.lanes([read_trace(path)], start_us / 1e6, end_us / 1e6)
    }


def test_waits_for_data_are_among_the_hosts_calls(tmp_path: Path) -> None:
    assert drawn_us(loading(tmp_path), 0, 1100) == {
        "host": [("load", 0, 600), ("call", 300, 400), ("call", 720, 730), ("load", 1000, 1100)],
        "torch": [("op", 700, 800)],
        "stream 7": [("compute", 725, 1000)],
    }


def test_a_stretch_in_which_nothing_was_called_shows_what_the_host_did(tmp_path: Path) -> None:
    path = loading(tmp_path)
    nothing = {"host": [("load", 0, 50)], "all streams": []}
    assert drawn_us(path, 200, 250) == nothing
    trace = MadeTrace()
    trace.sync((0, 10))
    trace.op("aten::sort", (20, 90))
    trace.kernel((90, 95), (95, 99))
    quiet = {"host": [], "torch": [("op", 0, 50)], "all streams": []}
    assert drawn_us(trace.write(tmp_path / "sorting.json"), 30, 80) == quiet


def test_an_idle_stretch_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--from", "0.0002", "--to", "0.00025", "-o", str(tmp_path / "out")]
    assert main(["trace", "--trace", str(loading(tmp_path)), *words]) == EXIT_OK
    out = capsys.readouterr().out
    assert "host: waits for data      1  50 us   100%" in out
    assert "GPU 0: all streams  nothing" in out
    drawn = (tmp_path / "out.svg").read_text()
    assert "idle</text>" in drawn and "waits for data 100%</text>" in drawn


def test_the_host_is_the_first_thread_also_where_another_calls_more(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.event("cuda_runtime", "cudaLaunchKernel", (0, 1), tid=-5)
    trace.event("cuda_runtime", "cudaLaunchKernel", (1, 2), tid=-5)
    trace.event("cuda_runtime", "cudaFree", (1, 2), pid="a/b", tid="c/d")
    trace.sync((2, 3))
    trace.kernel(None, (0, 1), stream=20)
    trace.kernel(None, (1, 2), stream=7)
    found = read_trace(trace.write(tmp_path / "backward.json"))
    names = [(lane.name, len(lane.spans)) for lane in module.lanes([found], 0.0, 1.0)]
    assert names == [
        ("host", 1),
        ("thread -5", 2),
        ("thread d", 1),
        ("stream 7", 1),
        ("stream 20", 1),
    ]


# The command


def command(tmp_path: Path, *args: str) -> int:
    return main(["trace", "--trace", str(made(tmp_path)), "-o", str(tmp_path / "out"), *args])


def test_the_command_writes_a_picture_and_a_smaller_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(tmp_path, "--from", "0.0001", "--to", "0.00022") == EXIT_OK
    out = capsys.readouterr().out
    assert "from 100 us to 220 us of 400 us" in out
    drawn = (tmp_path / "out.svg").read_text()
    assert ElementTree.fromstring(drawn) is not None
    assert "gemm&lt;float&gt;&amp;: 60 us" in drawn
    assert "time since 100 us of the trace" in drawn
    lanes, about = read_ours(json.loads((tmp_path / "out.json").read_text()))
    assert [(lane.name, lane.place) for lane in lanes] == [
        ("host", ""),
        ("stream 7", "GPU 0"),
        ("all streams", "GPU 1"),
    ]
    assert about["files"] == ["train.json"]


def test_the_picture_the_table_and_the_trace_show_the_same_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = MadeTrace()
    trace.note("ProfilerStep#1", (0, 1000))
    trace.kernel((500, 505), (600, 900))
    path = str(trace.write(tmp_path / "late.json"))
    words = ["trace", "--trace", path, "-o", str(tmp_path / "out"), "--format", "csv"]
    assert main(words) == EXIT_OK
    shares = {row["lane"]: row["share"] for row in DictReader(StringIO(capsys.readouterr().out))}
    assert float(shares["GPU 0: stream 7"]) == pytest.approx(0.3)
    assert "busy 30%" in (tmp_path / "out.svg").read_text()
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    assert [each["ts"] for each in events if "ts" in each] == [500, 600, 0, 1000]


def test_several_ranks_are_beside_each_other_by_their_clocks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = MadeTrace(rank=4)
    other.kernel((1100, 1110), (1110, 1500), "ncclDevKernel_AllReduce")
    second = str(other.write(tmp_path / "other.json"))
    assert command(tmp_path, "--trace", second, "--format", "json") == EXIT_OK
    said = json.loads(capsys.readouterr().out)
    assert said["files"] == ["train.json", "other.json"]
    late = [lane for lane in said["lanes"] if lane["place"].startswith("rank 4")]
    assert [lane["name"] for lane in late] == ["host", "stream 7"]
    (span,) = late[1]["spans"]
    assert span["kind"] == "collective"
    assert (span["start_s"], span["end_s"]) == pytest.approx((110e-6, 500e-6))


def test_a_call_waits_where_its_own_thread_does(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.event("cuda_runtime", "cudaMallocHost", (0, 100), tid=2)
    trace.kernel((0, 1), (1, 60))
    trace.sync((10, 60))
    assert drawn_us(trace.write(tmp_path / "threads.json"), 0, 100) == {
        "host": [("call", 0, 1), ("wait", 10, 60)],
        "thread 2": [("call", 0, 100)],
        "stream 7": [("compute", 1, 60)],
    }


def test_of_many_files_the_title_names_the_first(tmp_path: Path) -> None:
    for rank in range(4):
        trace = MadeTrace(rank)
        trace.kernel((0, 5), (5, 10))
        trace.write(tmp_path / f"{rank}.json")
    assert main(["trace", "--trace", str(tmp_path), "-o", str(tmp_path / "out.svg")]) == EXIT_OK
    assert ">0.json and 3 others</text>" in (tmp_path / "out.svg").read_text()


def test_a_folder_is_the_traces_in_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path)
    (tmp_path / "notes.txt").write_text("no trace")
    other = MadeTrace(rank=4)
    other.kernel((1100, 1110), (1110, 1500))
    other.write(tmp_path / "other.json")
    words = ["trace", "--trace", str(tmp_path), "--format", "json", "-o", str(tmp_path / "out.svg")]
    assert main(words) == EXIT_OK
    assert json.loads(capsys.readouterr().out)["files"] == ["other.json", "train.json"]


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
        (("--from", "1"), EXIT_USAGE, "is behind the end of the trace, which has 0.0004 s"),
        (("--from", "0.0002", "--to", "0.0001"), EXIT_USAGE, "is not after --from 0.0002"),
        (("--trace", str(RESNET)), EXIT_USAGE, "train.json and resnet50.json.gz do not overlap"),
        (("--step", "9"), EXIT_USAGE, "there are: 7 to 8"),
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
