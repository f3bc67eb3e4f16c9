"""Reading a large tree says how far it has come, and keeps what it worked out from file to file."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostbench.cli import output
from hostbench.core.errors import EXIT_NOTHING_MEASURED
from tests import asv_project
from tests.commands import hostbench, python

COMMITS = [f"{number:08x}" * 5 for number in range(3)]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    asv_project.write(tmp_path / "results", COMMITS, ["shelf"])
    return tmp_path / "results"


def test_a_large_tree_is_read_with_plain_lines_and_a_small_one_without_a_word(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After more than five seconds, from its first file on."""
    times = iter((100.0, 200.0))
    with monkeypatch.context() as patch:
        patch.setattr(output, "time", SimpleNamespace(monotonic=lambda: next(times)))
        count = output.on_reading()
        count(results)
        assert capsys.readouterr().err == ""
        count(results)
        assert "reading: 2 files" in capsys.readouterr().err
    words = ("changes", "--results", results)
    assert "reading" not in hostbench(*words, code=EXIT_NOTHING_MEASURED).err
    monkeypatch.setattr(output, "_LINE_EVERY_S", 0.0)
    asv_project.write(results, COMMITS, ["shelf"], seed=2)
    again = hostbench(*words, code=EXIT_NOTHING_MEASURED).err
    lines = [line for line in again.splitlines() if "reading: " in line]
    assert len(lines) == len(COMMITS)
    assert f"reading: 3 files, now {results / 'shelf'}" in lines[-1]


def test_a_report_of_asvs_files_says_what_reads_them(results: Path) -> None:
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
    code = f"""
import sys
from hostbench.cli import main
sys.modules["deltalake"] = None
where = ["--results", {str(results)!r}]
print([main([*words.split(), *where]) for words in sys.argv[1:]])
"""
    done = python("-c", code, "changes", "report", "publish file:///nowhere")
    assert done.out == "[2, 2, 2]\n"
    lines = done.err.splitlines()
    assert len(lines) == 3
    assert all("deltalake is missing" in x and "pip install deltalake" in x for x in lines)
