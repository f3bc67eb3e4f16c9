"""The same answers with the index and without it."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from hostbench.core.errors import UsageError
from hostbench.store import archive, frame, table
from hostbench.store.history import History
from hostbench.testing.builders import copy_case, later, record, run
from tests.store.test_frame import asv_file
from tests.store.test_table import plain

CASE = copy_case()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    asv_file(tmp_path)
    first = run([record(CASE, 0, 0.5)])
    archive.write(tmp_path, first)
    archive.write(tmp_path, later(first, 10, 2, [record(CASE, 1, 0.25)]))
    (tmp_path / "shelf" / "runs" / "half.json.gz").write_bytes(b"half")
    return tmp_path


def test_with_and_without(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = History(results)
    assert table.folder_of(results).is_dir()
    monkeypatch.setitem(sys.modules, "hostbench.store.table", None)
    monkeypatch.delattr("hostbench.store.table")
    slow = History(results)
    assert quick.runs() == slow.runs() and len(quick.runs()) == 1
    assert quick.warnings == slow.warnings and len(quick.warnings) == 1
    chosen = quick.runs()[0]
    assert quick.whole(chosen).results() == slow.whole(chosen).results()
    assert len(quick.whole(chosen).parts) == 2
    for first, second in (
        (quick.frame(), slow.frame()),
        (quick.rows_of(chosen), slow.rows_of(chosen)),
        (quick.trend("shelf", str(CASE)), slow.trend("shelf", str(CASE))),
    ):
        second = second.reset_index(drop=True)[list(first.columns)]
        pd.testing.assert_frame_equal(plain(first), plain(second))
    assert quick.machines() == slow.machines() == ["shelf"]
    pd.testing.assert_frame_equal(plain(quick.sides()), plain(slow.sides()))
    columns = ["case", "run_id", "seconds", "started_at", "scratch"]
    first, second = (
        h.points("shelf", columns).sort_values(["case", "run_id"], ignore_index=True)
        for h in (quick, slow)
    )
    assert [str(kind) for kind in first.dtypes[:2]] == ["category"] * 2
    first, second = (one.astype({"case": str, "run_id": str}) for one in (first, second))
    pd.testing.assert_frame_equal(first, second, check_dtype=False, check_categorical=False)
    assert quick.facts(chosen)["before"] == slow.facts(chosen)["before"] != {}
    assert quick.of_runs([chosen.run_id], "attic").empty


def test_a_folder_that_cannot_be_written_is_read(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("hostbench.store.table._refreshed", refuse)
    assert len(History(results).frame()) == len(frame.read(results).frame)
    with pytest.raises(UsageError, match="--results"):
        History(results / "absent")


def test_an_index_that_breaks_meanwhile_is_made_anew(results: Path) -> None:
    history = History(results)
    before = history.frame()
    for path in table.folder_of(results).rglob("points/**/*.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)
    pd.testing.assert_frame_equal(history.frame(), before)
    for path in table.folder_of(results).rglob("points/**/*.parquet"):
        path.unlink()
    (chosen,) = history.runs()
    assert len(history.rows_of(chosen)) == 1


def test_damage_of_the_right_size_is_mended_when_a_shard_is_read(results: Path) -> None:
    """Nobody sees it until its rows are needed to make the summary anew."""
    History(results)
    for path in table.folder_of(results).rglob("points/**/*.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)
    (results / "shelf" / "1a2b3c4d-hostbench-py3.11.json").unlink()
    assert len(History(results).frame()) == 1


def test_an_index_that_cannot_be_made_anew_is_done_without(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(results)
    shutil.rmtree(table.folder_of(results))

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr("hostbench.store.table._refreshed", refuse)
    whole = frame.read(results)
    pd.testing.assert_frame_equal(plain(history.frame()), plain(whole.frame))
    (chosen,) = history.runs()
    assert len(history.rows_of(chosen)) == 1 and history.warnings == whole.warnings


def test_what_is_no_damage_is_not_hidden(results: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        History(results)._ask(lambda _: 1 / 0, lambda _: 0)


def test_an_index_that_is_gone_again_at_once_is_done_without(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(results)
    opened = table.open_table

    def gone(*arguments: Any) -> table.ResultTable:
        found = opened(*arguments)
        shutil.rmtree(table.folder_of(results))
        return found

    shutil.rmtree(table.folder_of(results))
    monkeypatch.setattr(table, "open_table", gone)
    assert len(history.frame()) == len(frame.read(results).frame)
