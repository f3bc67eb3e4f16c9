"""What reading says of asv's files alone, of a URL, and of a library that is missing."""

import os
from pathlib import Path

import pytest

from hostbench.core.errors import EXIT_NOTHING_MEASURED
from tests import asv_project
from tests.commands import hostbench, python

COMMITS = [f"{number:08x}" * 5 for number in range(3)]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    asv_project.write(tmp_path / "results", COMMITS, ["shelf"])
    return tmp_path / "results"


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
