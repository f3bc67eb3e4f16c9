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
from hostbench.store import archive
from hostbench.store.results import Results, damage
from tests.fakes.builders import copy_case, create_case, failed, record, run, write_journal
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


def link_out(path: Path) -> None:
    (outside := path.parents[2] / "secret.json").write_text("{}")
    path.symlink_to(outside)


def link_of_a_journal(path: Path) -> None:
    path.symlink_to(write_journal(path.parents[2] / "elsewhere", run([record(copy_case())])))


def many_points(path: Path) -> None:
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


def many_planned_cases(path: Path) -> None:
    planned = tuple(f"a.b[n={number}]" for number in range(POINTS + 1))
    archive.write(path.parents[2], run([record(copy_case())], run_id=NAME, planned=planned))


ARCHIVE = f"shelf/runs/{NAME}.json.gz"
JOURNAL = f".journals/{NAME}.journal.jsonl"
OF_ASV = "shelf/aaaaaaaa-x.json"
HOSTILE: list[tuple[str, Callable[[Path], object]]] = [
    (ARCHIVE, lambda path: path.write_bytes(gzip.compress(b"\0" * (LARGE + 1)))),
    (ARCHIVE, lambda path: path.symlink_to("/dev/zero")),
    (ARCHIVE, lambda path: path.symlink_to(path)),
    (ARCHIVE, os.mkfifo),
    (ARCHIVE, many_planned_cases),
    (JOURNAL, link_of_a_journal),
    (JOURNAL, lambda path: path.write_bytes(b"\n" * (MANY + 1))),
    (OF_ASV, link_out),
    (OF_ASV, lambda path: path.write_bytes(b"[" + b"[]," * MANY + b"[]]")),
    (OF_ASV, many_points),
]


@pytest.mark.parametrize(("file", "make"), HOSTILE)
def test_one_warning_and_the_rest_is_shown(
    results: Path, file: str, make: Callable[[Path], object]
) -> None:
    before = set(Results(results).frame()["case"])
    path = results / file
    path.parent.mkdir(exist_ok=True)
    make(path)
    history = Results(results)
    [warning] = history.warnings
    assert str(path) in warning
    limits = ("1MiB", f"{MANY:,} values", f"{POINTS:,}", "no regular file", "a link ")
    assert any(limit in warning for limit in limits)
    assert any(remedy in warning for remedy in (": keep it", ": copy", ": give", ": delete"))
    assert "restore" not in warning  # what is refused is whole
    cases = set(history.frame()["case"])
    small = {"x.time_small[param1=1]"} if make is many_points else set()
    assert cases == before | small
    assert damage(history) == [warning]


ODD = os.fsdecode(b"ma\xffchine")
COMMANDS = (
    "changes",
    "compare 1a2b3c4d 1a2b3c4d",
    "report --machine shelf --format json",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_names_that_are_no_utf8_and_text_that_none_can_show(
    results: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    half = run(
        [failed(copy_case(), "half \ud800"), failed(create_case(), "x" * 10**5)], run_id=NAME
    )
    archive.write(results, half)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8", "strict"))
    shutil.copytree(results / "shelf", results / ODD)
    for name in (results.name, ODD):
        results = results.rename(results.with_name(name))
        assert main([*command.split(), "--results", str(results)]) in (0, 2, 3, 4)
    error = capsys.readouterr().err
    assert "Traceback" not in error and "surrogates not allowed" in error
