"""Wrong types in one stored file are a warning with its path; the rest is shown, nothing breaks."""

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from hostbench.cli.entry import main
from hostbench.core.case import Case
from hostbench.core.errors import EXIT_OK
from hostbench.report.answer import answers
from hostbench.report.page import page
from hostbench.runner import journal
from hostbench.store import archive, frame
from hostbench.testing.builders import COMMIT, copy_case, record, run, write_journal
from tests.store.test_frame import asv_file

GOOD = run([record(copy_case())], launches=1)
LINE = {"kind": "case", **to_builtins(record(copy_case()))}
BAD = run([record(copy_case())], launches=1, run_id="20261122T120000Z-1a2b3c4d-0002")


def put(data: Any, path: tuple[str | int, ...], value: Any) -> Any:
    changed = copy.deepcopy(data)
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("facts",), -1),
        (("facts", "before"), "x"),
        (("facts", "before", "nvml"), 0),
        (("facts", "before", "host"), 10**30),
        (("finish",), 3),
        (("asv_rows",), [[{}]]),
        (("damaged",), "x"),
        (("header", "run_id"), [1]),
        (("header", "run_id"), "../up"),
        (("header", "machine"), {}),
        (("header", "machine"), "../../up"),
        (("header", "commit"), {"a": 1}),
        (("header", "launches"), ""),
        (("header", "launches"), 10**9),
        (("header", "planned"), "x"),
        (("header", "planned"), [float("nan")]),
        (("header", "started_at"), "2026-13-45"),
        (("header", "started_at"), "9999-01-01T00:00:00Z"),
        (("header", "committed_at"), "0001-01-01T00:00:00Z"),
        (("records", 0, "started_at"), "2262-01-01T00:00:00Z"),
        (("records", 0), None),
        (("records", 0, "case", "workload"), 1e308),
        (("records", 0, "case", "axes", "device"), {}),
        (("records", 0, "expected"), float("nan")),
        (("records", 0, "expected"), "x"),
        (("records", 0, "status"), "fine"),
        (("records", 0, "seconds"), "x"),
        (("records", 0, "seconds"), float("nan")),
        (("records", 0, "nbytes"), "x"),
        (("records", 0, "launch"), []),
        (("records", 0, "measurement"), []),
        (("records", 0, "measurement", "call_s"), ["x"]),
    ],
)
def test_a_wrong_type_in_an_archive(
    path: tuple[str | int, ...],
    value: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    archive.write(tmp_path, GOOD)
    file = archive.write(tmp_path, BAD)
    data = json.loads(gzip.decompress(file.read_bytes()))
    file.write_bytes(gzip.compress(json.dumps(put(data, ("hostbench", *path), value)).encode()))
    assert main(["report", "--machine", "shelf", "--results", str(tmp_path)]) == EXIT_OK
    said = capsys.readouterr()
    assert GOOD.header.run_id in said.out
    assert str(file) in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize(
    "line",
    [
        {"kind": "facts", "when": "before", "facts": 3},
        {"kind": "facts", "when": "before", "facts": {"host": 3}},
        {"kind": "finish", "at": [], "status": "complete"},
        {**LINE, "started_at": "then"},
        {**LINE, "seconds": "x"},
        {**LINE, "case": 3},
    ],
)
def test_a_wrong_type_in_a_journal(line: dict[str, Any], tmp_path: Path) -> None:
    path = write_journal(tmp_path, GOOD)
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    assert len(journal.read(path).damaged) == 1
    tree = frame.read(tmp_path)
    assert len(tree.frame) == 1
    (warning,) = tree.warnings
    assert str(path) in warning and "1 damaged journal line" in warning


@pytest.mark.parametrize("text", ["'big'", "{'a': 1}", "[1]", {"a": 1}])
def test_a_size_of_asv_that_is_no_number(text: Any, tmp_path: Path) -> None:
    archive.write(tmp_path, run([record(copy_case())], launches=1, machine="other"))
    asv_file(tmp_path)
    path = tmp_path / "shelf" / f"{COMMIT[:8]}-hostbench-py3.11.json"
    data = json.loads(path.read_text())
    (row,) = data["results"].values()
    row[1][1] = [text]
    path.write_text(json.dumps(data))
    tree = frame.read(tmp_path)
    assert tree.frame["machine"].to_list() == ["other"]
    (warning,) = tree.warnings
    assert str(path) in warning


def test_parameter_names_of_asv_that_are_no_names(tmp_path: Path) -> None:
    asv_file(tmp_path)
    path = tmp_path / "benchmarks.json"
    data = json.loads(path.read_text())
    data[next(iter(data))]["param_names"][1] = [1]
    path.write_text(json.dumps(data))
    tree = frame.read(tmp_path)
    assert tree.frame["param2"].to_list() == [1 << 20, 1 << 20]


def test_a_run_whose_rows_cannot_be_made_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.write(tmp_path, GOOD)
    file = archive.write(tmp_path, BAD)
    made = frame._rows_of_run

    def broken(one: Any, *more: Any) -> Any:
        if one.run_id == BAD.header.run_id:
            raise TypeError("odd")
        return made(one, *more)

    monkeypatch.setattr(frame, "_rows_of_run", broken)
    tree = frame.read(tmp_path)
    assert [one.run_id for one in tree.runs] == [GOOD.header.run_id]
    (warning,) = tree.warnings
    assert str(file) in warning and "odd" in warning


def test_rows_without_their_axes_are_said_to_be_odd(tmp_path: Path) -> None:
    odd = record(Case.of("transfer.host_to_device", {"device": "cpu"}))
    archive.write(tmp_path, run([odd], launches=1))
    tree = frame.read(tmp_path)
    (answer,) = answers(tree.frame)
    assert "cannot be told" in answer.text
    assert "cannot be told" in page(tree.frame, tree.runs[0])
