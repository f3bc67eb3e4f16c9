"""Whatever lies in a folder, each command and each page shows what is whole, names the rest once,
prints nothing that a terminal or a browser would act on, and stays within memory and time."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import hostile

MOST_MIB, MOST_CPU_S = 800, 30
Row = dict[str, Any]
UNSAFE = re.compile(r"(?<!\\)<(?:script|i|b)>|(?<!\\)\]\((?:javascript|http)")
"""In Markdown; of what is code there nothing acts."""
ACTS = re.compile(r"<(?:script|i|img|iframe|link|object|embed|a)\b|<[^>]*(?:\bon\w+=|url\(.?http)")
"""In HTML: what runs, or asks for something."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def rows(tree: Path) -> dict[str, Row]:
    """By command or page, in a process of its own."""
    file = tree.with_suffix(".json")
    argv = [sys.executable, "-m", "tests.hostile", str(tree), str(file)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return {row["what"]: row for row in json.loads(file.read_text())}


def of(rows: dict[str, Row], start: str) -> Iterator[Row]:
    return (row for what, row in rows.items() if what.startswith(start))


def test_nothing_breaks_or_takes_too_much(rows: dict[str, Row]) -> None:
    for what, row in rows.items():
        assert "Traceback" not in row["err"], what
        assert row["code"] in (0, 2, 3, 4) or what.startswith("ab "), what
        assert row["cpu_s"] < MOST_CPU_S and row["peak_mib"] < MOST_MIB, what


def test_damage_is_exit_code_4_and_what_is_whole_is_shown(rows: dict[str, Row]) -> None:
    for command, shown in (
        ("report", hostile.LATER),
        ("changes", "20006 too short (fewer than 11 points)"),
        ("compare", "1 failed, 2 undecided"),
        ("triage", "mine"),
    ):
        for row in of(rows, command):
            assert row["code"] == 4, row["what"]
            if "json" in row["what"]:
                assert json.loads(row["out"]) is not None
            elif "csv" not in row["what"]:
                assert shown in row["out"].replace("\\", ""), row["what"]
    (night,) = of(rows, "nightly")
    assert night["code"] == 4 and night["out"].count("aaaaaa13-x.json: ") == 1
    warned = [line for line in night["out"].splitlines() if line.startswith("hostbench: ")]
    for name in "abcdef":
        assert sum(f"/{name}.journal.jsonl is not" in line for line in warned) == 1
    assert [row["code"] for row in of(rows, "ab ")] == [1]
    for command, shown in (("run", "1.97x faster"), ("bisect", "is the first bad commit")):
        (row,) = of(rows, command)
        assert row["code"] == 0 and shown in row["out"], row["out"]
    (row,) = of(rows, "asv.conf.json-6: report")
    assert "asv.conf.json: Expected `str`, got `int` - at `$.results_dir`" in row["err"]
    assert [row["code"] for row in of(rows, "asv.conf.json-6: ")] == [2, 2, 4]
    (row,) = of(rows, "asv.conf.json-0: doctor")
    assert row["code"] == 4 and "broken  cannot read " in row["out"] and "CPU " in row["out"]
    assert {row["code"] for row in of(rows, "pyproject.toml-")} == {0}
    for row in of(rows, "idle"):
        assert row["code"] == 0 and "GPU 0: idle " in row["out"]
    for row in of(rows, "page"):
        assert row["code"] == 0 and "shelf" in row["out"], row["what"]


@pytest.mark.parametrize(
    ("command", "folder", "files"),
    [
        ("changes", "results/", hostile.STORED),
        ("compare", "results/", hostile.NIGHTS),
        ("idle", "", hostile.TRACES),
    ],
)
def test_each_file_has_one_warning(
    rows: dict[str, Row], command: str, folder: str, files: dict[str, tuple[Any, str]]
) -> None:
    for row in of(rows, command):
        lines, wrong = row["err"].splitlines() + row["out"].splitlines(), {}
        for name, (_, why) in files.items():
            shown = name.replace("\x1b", " ").encode(errors="backslashreplace").decode()
            named = [line for line in lines if folder + shown in line]
            if [why in line for line in named] != [True] * bool(why):
                wrong[name] = named
        assert not wrong


def test_nothing_is_printed_that_acts(rows: dict[str, Row]) -> None:
    for what, row in rows.items():
        out = row["out"]
        assert hostile.SECRET not in out + row["err"], what
        if what.startswith("page") or "--format md" in what:
            assert not UNSAFE.search(re.sub(r"(`+).*?\1", "", out)), what
        elif "--format html" in what:
            assert not ACTS.search(out), what
        if not what.startswith("page"):
            assert all(sign.isprintable() or sign == "\n" for sign in out + row["err"]), what


def test_nothing_is_written_elsewhere(rows: dict[str, Row], tree: Path) -> None:
    """A table stands beside the results, and what was published where it was asked for."""
    known = {"results", ".results.table", "published", "traces", "secret.json", "project", "home"}
    projects = {path.name for path in tree.iterdir()} - known
    assert len(projects) == 2 * len(hostile.CONFIGS)
    for name in projects:
        assert {path.name for path in (tree / name).iterdir()} == {"asv.conf.json", name[:-2]}
    stored = {str(path.relative_to(tree / "results")) for path in (tree / "results").rglob("*.*")}
    assert len(stored - hostile.STORED.keys() - hostile.NIGHTS.keys()) == 12, (
        "the healthy files, a folder, what the night concluded, and six runs"
    )
