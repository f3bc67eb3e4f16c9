"""Reading a large tree says how far it has come, and keeps what it worked out from file to file."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from hostbench.cli import main, output
from tests import asv_project

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
    main(["changes", "--results", str(results)])
    assert "reading" not in capsys.readouterr().err
    monkeypatch.setattr(output, "_LINE_EVERY_S", 0.0)
    asv_project.write(results, COMMITS, ["shelf"], seed=2)
    main(["changes", "--results", str(results)])
    lines = [line for line in capsys.readouterr().err.splitlines() if "reading: " in line]
    assert len(lines) == len(COMMITS)
    assert f"reading: 3 files, now {results / 'shelf'}" in lines[-1]


def test_a_report_of_asvs_files_says_what_reads_them(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--results", str(results)]) == 3
    said = capsys.readouterr().err
    assert "no run to report: `hostbench changes` and `hostbench compare COMMIT` read them" in said


def test_a_url_that_cannot_be_read_is_one_line() -> None:
    """Of its causes the last, and no warning of the library's."""
    words = [sys.executable, "-m", "hostbench", "changes", "--results", "s3://nosuch/table"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    env |= {"AWS_EC2_METADATA_DISABLED": "true"}
    done = subprocess.run(words, capture_output=True, text=True, env=env)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("hostbench: cannot read the table at s3://nosuch/table: ")


def test_what_reads_results_is_named_where_it_is_missing(results: Path) -> None:
    start = "import sys; sys.modules['deltalake'] = None; from hostbench.cli import main"
    words = [sys.executable, "-c", f"{start}; sys.exit(main(sys.argv[1:]))"]
    for command in ("changes", "report", "publish file:///nowhere"):
        done = subprocess.run(
            [*words, *command.split(), "--results", str(results)], capture_output=True, text=True
        )
        assert done.returncode == 2 and done.stdout == ""
        [line] = done.stderr.splitlines()
        assert "deltalake is missing" in line and "pip install deltalake" in line
