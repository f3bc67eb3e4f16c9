"""`hostbench trace`: what it writes, what it says, and how it ends. The launcher is replaced, but
where ranks have to be real processes."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from hostbench import facts
from hostbench.cli import main
from hostbench.cli import trace as command
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_USAGE,
)
from hostbench.core.records import Launch, Outcome
from hostbench.facts.torch_probe import TorchState
from hostbench.store import check, traces
from hostbench.timeline import read_trace
from tests.fakes.builders import InProcess
from tests.gpu_stand_in import cuda_machine

ROOT = Path(__file__).parent.parent.parent
CASE = "overlap.pipeline[batch_bytes=4MiB,memory=pinned,schedule=copy_stream]"
SIMULATED = ("trace", CASE, "--device", "simulated")


@pytest.fixture(autouse=True)
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is no checkout, no GPU, no worker processes."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HOSTBENCH_MACHINE", "shelf")
    monkeypatch.setenv("HOSTBENCH_MEMORY_COPY", "0")
    monkeypatch.chdir(tmp_path)
    torch = TorchState(installed=True, importable=True, version="2.13.0", cuda_runtime="13.0")
    monkeypatch.setattr(facts, "probe_torch", lambda _: torch)
    monkeypatch.setattr(command, "become_subreaper", lambda: None)
    monkeypatch.setattr(command, "Launcher", InProcess)
    return tmp_path


def kept(stage: Path, machine: str = "simulated-shelf") -> list[traces.StoredTrace]:
    said: list[str] = []
    found = traces.of_family(stage / "results", machine, "overlap", said.append)
    assert not said
    return found


def test_the_trace_is_kept_and_drawn(stage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(SIMULATED) == EXIT_OK
    out = capsys.readouterr().out
    (trace,) = kept(stage)
    assert [lane.name for lane in trace.lanes] == ["host", "stream 1", "stream 2"]
    assert [len(lane.spans) for lane in trace.lanes] == [17, 8, 8]
    assert "schedule=copy_stream" in trace.about.case
    assert trace.about.hardware.startswith("Simulated, on ")
    (picture,) = (stage / "results").rglob("*.svg")
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")
    assert f"picture: {picture}" in out
    assert "copy to the device" in out
    assert "https://ui.perfetto.dev" in out
    assert check.check(stage / "results").findings == []


def test_the_steps_are_told(stage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = "synchronization.loop[step_us=1000,trap=item]"
    assert main(["trace", case, "--device", "simulated"]) == EXIT_OK
    out = capsys.readouterr().out
    assert "10 steps: 10.1 ms" in out and "1.01 ms a step)" in out


def test_one_reading_of_the_simulated_device_is_its_median(stage: Path) -> None:
    main(SIMULATED)
    (trace,) = kept(stage)
    last = max(span.end_s for lane in trace.lanes for span in lane.spans)
    assert trace.about.median_s == pytest.approx(last, abs=2e-9)  # a trace is kept in nanoseconds


@pytest.mark.parametrize(
    ("named", "wanted"),
    [
        ("a.json", "a.json"),
        ("a.json.gz", "a.json.gz"),
        ("a.svg", "a.json"),
        ("a", "a.json"),
        ("v1.2", "v1.2.json"),
    ],
)
def test_files_go_where_they_are_wanted(stage: Path, named: str, wanted: str) -> None:
    assert main([*SIMULATED, "-o", named]) == EXIT_OK
    data = (stage / wanted).read_bytes()
    lanes, about = read_trace(json.loads(gzip.decompress(data) if "gz" in wanted else data))
    (trace,) = kept(stage)
    assert (lanes, about["case"]) == (trace.lanes, trace.about.case)
    picture = stage / f"{wanted.removesuffix('.gz').removesuffix('.json')}.svg"
    assert picture.read_text().startswith("<svg")
    assert not list((stage / "results").rglob("*.svg"))


def test_json_has_the_lanes_and_csv_a_row_for_each_kind(
    stage: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SIMULATED, "--format", "json"]) == EXIT_OK
    said = json.loads(capsys.readouterr().out)
    assert [lane["name"] for lane in said["lanes"]] == ["host", "stream 1", "stream 2"]
    assert said["lanes"][1]["spans"][0]["nbytes"] == 4 << 20
    assert Path(said["trace"]).exists() and Path(said["picture"]).exists()
    assert main([*SIMULATED, "--format", "csv"]) == EXIT_OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "lane,kind,spans,seconds,share"
    assert [line.split(",")[:3] for line in lines[1:]] == [
        ["host", "call", "16"],
        ["host", "wait", "1"],
        ["stream 1", "H2D", "8"],
        ["stream 2", "compute", "8"],
    ]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name one case, not 0"),
        (("a.b", "c.d"), "name one case, not 2"),
        (("overlap[schedule=copy_stram]",), "did you mean 'copy_stream'?"),
        (("overlap",), "name one of overlap.pipeline, overlap.ratio"),
        (("overlap.pipeline[memory=pinned,schedule=serial]",), "batch_bytes is 512KiB, 4MiB, 32"),
        (("overlap.pipeline[",), "cannot read case"),
        ((CASE, "-o", "nowhere/a"), "there is no folder nowhere"),
    ],
)
def test_a_mistake_is_one_line_with_the_remedy(
    stage: Path, capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str
) -> None:
    assert main(["trace", "--device", "simulated", *args]) == EXIT_USAGE
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (stage / "results").exists()


def test_a_case_that_cannot_run_says_why(stage: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", CASE, "--device", "cpu"]) == EXIT_NOTHING_MEASURED
    assert "cannot be traced here: the cpu device has no pinned memory" in capsys.readouterr().err
    assert not (stage / "results").exists()


class Failing(InProcess):
    """Runs every case, and says that it failed; without lanes where it is told so."""

    has_lanes = True

    def run(self, launch: Launch) -> Iterator[Outcome]:
        for outcome in super().run(launch):
            lanes = outcome.lanes if self.has_lanes else ()
            yield replace(outcome, status="failed", reason="data failed: torn", lanes=lanes)


@pytest.mark.parametrize("has_lanes", [True, False])
def test_a_case_that_failed_shows_how_where_it_can(
    stage: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    has_lanes: bool,
) -> None:
    monkeypatch.setattr(command, "Launcher", Failing)
    monkeypatch.setattr(Failing, "has_lanes", has_lanes)
    assert main(SIMULATED) == EXIT_FAILED
    assert "failed: data failed: torn" in capsys.readouterr().err
    assert [one.about.wrong for one in kept(stage)] == ["data failed: torn"] * has_lanes


def program(stage: Path, *args: str) -> dict[str, Any]:
    """What the real program says in JSON, with real processes."""
    done = subprocess.run(
        [sys.executable, "-m", "hostbench", "trace", *args, "--format", "json"],
        cwd=stage,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == EXIT_OK, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_ranks_have_a_lane_each_on_one_clock(stage: Path) -> None:
    case = "collectives.all_reduce_queued[num_ranks=2,nbytes=4KiB]"
    lanes = program(stage, case, "--device", "cpu")["lanes"]
    assert [(lane["place"], lane["name"]) for lane in lanes] == [
        ("rank 0", "host"),
        ("rank 1", "host"),
    ]
    sums = [[one for one in lane["spans"] if one["kind"] == "collective"] for lane in lanes]
    assert [len(one) for one in sums] == [20, 20]
    for first, second in zip(*sums, strict=True):  # none ends before all have begun
        assert first["start_s"] < second["end_s"] and second["start_s"] < first["end_s"]


def test_ranks_on_gpus_have_their_hosts_and_streams(
    stage: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The ranks are processes; what forks them is this one."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    works = TorchState(installed=True, importable=True, cuda_works=True)
    monkeypatch.setattr(facts, "probe_torch", lambda *_: works)
    case = "collectives.all_reduce_queued[num_ranks=2,nbytes=64KiB]"
    with cuda_machine(num_gpus=2):
        assert main(["trace", case, "--format", "json"]) == EXIT_OK
    lanes = json.loads(capsys.readouterr().out)["lanes"]
    assert [lane["place"] for lane in lanes] == ["rank 0", "rank 0", "rank 1", "rank 1"]
    for host, stream in (lanes[:2], lanes[2:]):
        assert host["name"] == "host"
        assert host["spans"][-1]["name"] == "cudaDeviceSynchronize"
        assert [one["kind"] for one in stream["spans"]] == ["collective"] * 20
