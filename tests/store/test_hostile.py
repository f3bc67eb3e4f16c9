"""Files that are too large, or no files: one warning that names file, limit and remedy, and all the
rest is shown. The limits are made small; docs/results.md has the real ones.
"""

import gzip
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hostbench.cli import main
from hostbench.core import files
from hostbench.store import adopt, archive
from hostbench.store.results import Results, damage
from tests.fakes.builders import copy_case, failed, record, run, write_journal
from tests.store.test_points import asv_file

LARGE, MANY, POINTS = 1 << 20, 20_000, 1000
NAME = "20261101T000000Z-aaaaaaaa-bbbb"


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    asv_file(folder)
    archive.write(folder, run([record(copy_case(), launch) for launch in range(3)]))
    monkeypatch.setattr(files, "MAX_BYTES", LARGE)
    monkeypatch.setattr(files, "MAX_VALUES", MANY)
    monkeypatch.setattr(files, "MAX_POINTS", POINTS)
    return folder


def bomb(results: Path) -> Path:
    path = results / "shelf" / "runs" / f"{NAME}.json.gz"
    path.write_bytes(gzip.compress(b"\0" * (LARGE + 1)))
    return path


def link_to_a_device(results: Path) -> Path:
    path = results / "shelf" / "runs" / f"{NAME}.json.gz"
    path.symlink_to("/dev/zero")
    return path


def link_out(results: Path) -> Path:
    outside = results.parent / "secret.json"
    outside.write_text("{}")
    path = results / "shelf" / "aaaaaaaa-x.json"
    path.symlink_to(outside)
    return path


def fifo(results: Path) -> Path:
    path = results / "shelf" / "aaaaaaaa-x.json"
    os.mkfifo(path)
    return path


def fifo_of_an_archive(results: Path) -> Path:
    path = results / "shelf" / "runs" / f"{NAME}.json.gz"
    os.mkfifo(path)
    return path


def fifo_of_a_journal(results: Path) -> Path:
    path = results / ".journals" / f"{NAME}.journal.jsonl"
    path.parent.mkdir()
    os.mkfifo(path)
    return path


def link_of_a_journal(results: Path) -> Path:
    path = results / ".journals" / f"{NAME}.journal.jsonl"
    outside = write_journal(results.parent / "elsewhere", run([record(copy_case())]))
    path.parent.mkdir()
    path.symlink_to(outside)
    return path


def journal_of_newlines(results: Path) -> Path:
    path = results / ".journals" / f"{NAME}.journal.jsonl"
    path.parent.mkdir()
    path.write_bytes(b"\n" * (MANY + 1))
    return path


def much_json(results: Path) -> Path:
    path = results / "shelf" / "aaaaaaaa-x.json"
    path.write_bytes(b"[" + b"[]," * MANY + b"[]]")
    return path


def many_points(results: Path) -> Path:
    path = results / "shelf" / "aaaaaaaa-x.json"
    content = {
        "commit_hash": "a" * 40,
        "date": 1_700_000_000_000,
        "result_columns": ["result", "params"],
        "results": {
            "x.time_huge": [None, [[str(n) for n in range(1000)]] * 3],
            "x.time_small": [[0.5], [["1"]]],
        },
    }
    path.write_text(json.dumps(content))
    return path


def link_to_itself(results: Path) -> Path:
    path = results / "shelf" / "runs" / f"{NAME}.json.gz"
    path.symlink_to(path)
    return path


def many_planned_cases(results: Path) -> Path:
    planned = tuple(f"a.b[n={number}]" for number in range(POINTS + 1))
    return archive.write(results, run([record(copy_case())], run_id=NAME, planned=planned))


HOSTILE = (
    bomb,
    link_to_itself,
    many_planned_cases,
    link_to_a_device,
    link_out,
    fifo,
    fifo_of_an_archive,
    fifo_of_a_journal,
    link_of_a_journal,
    journal_of_newlines,
    much_json,
    many_points,
)


@pytest.mark.parametrize("make", HOSTILE)
def test_one_warning_and_the_rest_is_shown(results: Path, make: Callable[[Path], Path]) -> None:
    before = set(Results(results).frame()["case"])
    path = make(results)
    history = Results(results)
    [said] = history.warnings
    assert str(path) in said
    limits = ("1MiB", f"{MANY:,} values", f"{POINTS:,}", "no regular file", "a link ")
    assert any(limit in said for limit in limits)
    assert any(remedy in said for remedy in (": keep it", ": copy", ": give", ": delete"))
    assert "restore" not in said  # what is refused is whole
    assert set(history.frame()["case"]) >= before
    assert damage(history) == [said]


def test_the_small_benchmark_of_a_file_with_a_huge_one_is_shown(results: Path) -> None:
    many_points(results)
    cases = set(Results(results).frame()["case"])
    assert any("x.time_small" in case for case in cases)
    assert not any("x.time_huge" in case for case in cases)


def test_half_a_character_is_a_warning(results: Path) -> None:
    path = archive.write(results, run([failed(copy_case(), "half \ud800")], run_id=NAME))
    history = Results(results)
    [warning] = history.warnings
    assert str(path) in warning and "surrogates not allowed" in warning
    assert len(history.runs()) == 1


def test_a_long_reason_is_cut(results: Path) -> None:
    archive.write(results, run([failed(copy_case(), "x" * 100_000)], run_id=NAME))
    assert Results(results).frame()["reason"].str.len().max() == 4000


def test_a_device_is_no_file(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["report", "--nvbandwidth", "/dev/zero", "--results", str(results)]
    assert main([*words, "--machine", "shelf"]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "/dev/zero" in line and ("no regular file" in line or "larger than 1MiB" in line)


def test_a_journal_whose_lines_do_not_fit_each_other(results: Path) -> None:
    """The cases of one workload have the same axes, and not a product that nobody measured."""
    case = copy_case()
    other = type(case).of(case.workload, {"device": "cpu"})
    path = write_journal(results, run([record(case), record(other)], run_id=NAME))
    said: list[str] = []
    assert adopt.adopt_orphans(results, lambda: "m", said.append) == []
    assert len(said) == 1 and str(path) in said[0] and path.exists()


def test_a_product_that_nobody_measured_is_not_made(results: Path) -> None:
    work = copy_case().workload
    axes = "abcdef"
    cases = [type(copy_case()).of(work, {name: n for name in axes}) for n in range(60)]
    content = archive.content_of(run([record(case) for case in cases]))
    assert content["results"] == {} and len(content["hostbench"]["records"]) == 60


ODD = os.fsdecode(b"ma\xffchine")
COMMANDS = (
    "changes",
    "changes --format json",
    "changes --format csv",
    "compare 1a2b3c4d 1a2b3c4d",
    "report",
    "report --machine shelf --format json",
    "triage list",
)


@pytest.mark.parametrize("where", ["machine", "folder"])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_name_that_is_no_utf8(
    results: Path,
    command: str,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8", "strict"))
    shutil.copytree(results / "shelf", results / ODD)
    if where == "folder":
        results = results.rename(results.with_name(ODD))
    assert main([*command.split(), "--results", str(results)]) in (0, 3, 4)
    assert "Traceback" not in capsys.readouterr().err
