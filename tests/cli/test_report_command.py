"""`hostbench report`: which run it takes, where it writes, and which folders it refuses; what
reading says of asv's files alone, of a URL, and of a library that is missing."""

import csv
import json
import os
from pathlib import Path

import pytest

from hostbench.cli.results import results_folder
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_USAGE
from hostbench.store import archive
from tests import asv_project
from tests.commands import hostbench, python
from tests.fakes.builders import copy_case, record, run


@pytest.fixture
def results(stage: Path) -> Path:
    return stage / "results"


def store(results: Path, number: int, machine: str = "shelf") -> None:
    changes = {"run_id": f"run{number}", "machine": machine}
    started = f"2026-11-2{number}T12:00:00.000Z"
    archive.write(results, run([record(copy_case())], launches=1, started_at=started, **changes))


@pytest.mark.parametrize("form", ["text", "md", "json", "csv", "html"])
def test_every_format_names_the_run(form: str, results: Path) -> None:
    store(results, 1)
    text = hostbench("report", "--format", form).out
    assert "run1" in text and text.endswith("\n") and not text.endswith("\n\n")
    if form == "json":
        assert json.loads(text)["run_id"] == "run1"
    if form == "csv":
        (row,) = csv.DictReader(text.splitlines())
        assert (row["case"], float(row["seconds"])) == (str(copy_case()), 0.5)


def test_a_projects_folder_means_its_results(tmp_path: Path) -> None:
    (tmp_path / "asv.conf.json").write_text('{"results_dir": "measured"}')
    assert results_folder(str(tmp_path)) == tmp_path / "measured"
    assert results_folder(str(tmp_path / "measured")) == tmp_path / "measured"


@pytest.mark.parametrize("command", ["report", "dashboard", "run"])
@pytest.mark.parametrize("path", ["file", "loop", "x" * 300])
def test_a_results_folder_that_is_none(
    command: str, path: str, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("streamlit")
    monkeypatch.setattr(os, "execv", lambda *_: pytest.fail("the dashboard was started"))
    Path("file").touch()
    Path("loop").symlink_to("loop")
    err = hostbench(command, "--results", path, code=EXIT_USAGE).err
    assert path in err and "--results" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "code", "part"),
    [
        ((), EXIT_OK, "run run2"),
        (("--machine", "table"), EXIT_OK, "run run3"),
        (("--run", "run1"), EXIT_OK, "run run1"),
        (("--run", "run"), EXIT_USAGE, "names 4 runs"),
        (("--run", "gone"), EXIT_USAGE, "'gone' names no runs"),
        (("--machine", "a b"), EXIT_OK, "run run4"),
        (("--machine", "a/b"), EXIT_NOTHING_MEASURED, "'a/b'"),
        (("--machine", "chair"), EXIT_NOTHING_MEASURED, "there are: a b, shelf, table"),
    ],
)
def test_which_run_is_taken(args: tuple[str, ...], code: int, part: str, results: Path) -> None:
    """This machine's newest, or the one asked for, whatever its folder is called."""
    store(results, 1)
    store(results, 2)
    store(results, 3, machine="table")
    store(results, 4, machine="a b")
    _, text, err = hostbench("report", *args, code=code)
    assert part in (err if code else text) and err.count("\n") == bool(code)


def test_where_all_is_another_machines_its_option_is_named(results: Path) -> None:
    store(results, 1, machine="table")
    said = hostbench("report", code=EXIT_NOTHING_MEASURED).err
    assert "no run of machine 'shelf' is stored; there are: table (--machine NAME)" in said


COMMITS = [f"{number:08x}" * 5 for number in range(3)]


def test_a_report_of_asvs_files_says_what_reads_them(results: Path) -> None:
    asv_project.write(results, COMMITS, ["shelf"])
    said = hostbench("report", "--results", results, code=EXIT_NOTHING_MEASURED).err
    assert "`hostbench changes` and `compare` read asv's files" in said


def test_a_url_that_cannot_be_read_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its causes the last, and no warning of the library's."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    away = {"AWS_EC2_METADATA_DISABLED": "true"}
    done = python("-m", "hostbench", "changes", "--results", "s3://nosuch/table", **away)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith("hostbench: cannot read the table at s3://nosuch/table: ")


def test_what_reads_results_is_named_where_it_is_missing(results: Path) -> None:
    asv_project.write(results, COMMITS, ["shelf"])
    pytest.importorskip("streamlit", reason="streamlit is not installed")
    code = f"""
import sys
from hostbench.cli import main
sys.modules["deltalake"] = None
where = ["--results", {str(results)!r}]
print([main([*words.split(), *where]) for words in sys.argv[1:]])
"""
    done = python("-c", code, "changes", "report", "dashboard", "publish file:///nowhere")
    assert done.out == "[2, 2, 2, 2]\n"
    lines = done.err.splitlines()
    assert len(lines) == 4
    assert all("deltalake is missing" in x and "pip install deltalake" in x for x in lines)
