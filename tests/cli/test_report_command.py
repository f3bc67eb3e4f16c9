"""`hostbench report`: which run it takes, where it writes, and which folders it refuses."""

import csv
import json
import os
from pathlib import Path

import pytest

from hostbench import facts
from hostbench.cli.entry import main
from hostbench.cli.results import results_folder
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE
from hostbench.facts.torch_probe import TorchState
from hostbench.store import archive
from tests.fakes.builders import copy_case, record, run

TWO = Path(__file__).parent.parent / "data" / "nvbandwidth" / "two_gpus.json"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOSTBENCH_MACHINE", "shelf")
    torch = TorchState(installed=True, importable=True, version="2.13.0+cpu")
    monkeypatch.setattr(facts, "probe_torch", lambda _: torch)
    return tmp_path / "results"


def store(results: Path, number: int, device: str = "cpu") -> None:
    started = f"2026-11-2{number}T12:00:00.000Z"
    changes = {"run_id": f"run{number}", "started_at": started, "device": device}
    archive.write(results, run([record(copy_case())], launches=1, **changes))


@pytest.mark.parametrize("form", ["text", "md", "json", "csv", "html"])
def test_every_format_names_the_run(
    form: str, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(results, 1)
    assert main(["report", "--format", form]) == EXIT_OK
    text = capsys.readouterr().out
    assert "run1" in text and text.endswith("\n") and not text.endswith("\n\n")
    if form == "json":
        assert json.loads(text)["run_id"] == "run1"
    if form == "csv":
        (row,) = csv.DictReader(text.splitlines())
        assert (row["case"], float(row["seconds"])) == (str(copy_case()), 0.5)


def test_nvbandwidths_figures_stand_behind_the_run(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(results, 1)
    words = ("report", "--nvbandwidth", str(TWO), "--format")
    assert main([*words, "csv"]) == EXIT_OK
    assert capsys.readouterr().out.startswith("test,lowest,highest,unit,status,")
    assert main([*words, "html"]) == EXIT_OK
    assert "<h2>nvbandwidth (two_gpus.json) beside this run</h2>" in capsys.readouterr().out


@pytest.mark.parametrize("below", ["results", ".asv/results"])
def test_a_project_without_asvs_configuration_has_its_results_too(
    tmp_path: Path, below: str
) -> None:
    (tmp_path / below / "box").mkdir(parents=True)
    assert results_folder(str(tmp_path)) == tmp_path
    (tmp_path / below / "box" / "machine.json").write_text("{}")
    assert results_folder(str(tmp_path)) == tmp_path / below


def test_a_projects_folder_means_its_results(tmp_path: Path) -> None:
    (tmp_path / "asv.conf.json").write_text('{"results_dir": "measured"}')
    assert results_folder(str(tmp_path)) == tmp_path / "measured"
    assert results_folder(str(tmp_path / "measured")) == tmp_path / "measured"


@pytest.mark.parametrize("command", ["report", "dashboard", "run"])
@pytest.mark.parametrize("path", ["file", "loop", "x" * 300])
def test_a_results_folder_that_is_none(
    command: str,
    path: str,
    results: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("streamlit")
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("the dashboard was started"))
    Path("file").touch()
    Path("loop").symlink_to("loop")
    assert main([command, "--results", path]) == EXIT_USAGE
    err = capsys.readouterr().err
    assert path in err and "--results" in err and err.count("\n") == 1


def test_a_simulated_run_is_never_this_machines_newest(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(results, 1)
    store(results, 2, "simulated")
    assert main(["report"]) == EXIT_OK
    assert "run run1" in capsys.readouterr().out
    assert main(["report", "--run", "run2"]) == EXIT_OK
    assert "run run2" in capsys.readouterr().out


def test_only_simulated_runs_are_no_measurement(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store(results, 2, "simulated")
    assert main(["report"]) == EXIT_NOTHING_MEASURED
    err = capsys.readouterr().err
    assert "only simulated runs" in err and "--run run2" in err
