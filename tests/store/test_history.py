"""Results are read whatever becomes of their table."""

import shutil
from pathlib import Path

import pandas as pd
import pytest

from hostbench.core.errors import UsageError
from hostbench.store import archive, table
from hostbench.store.history import History
from tests.fakes.builders import copy_case, later, record, run
from tests.store.test_frame import asv_file

CASE = copy_case()


@pytest.fixture
def results(tmp_path: Path) -> Path:
    asv_file(tmp_path)
    first = run([record(CASE, 0, 0.5)])
    archive.write(tmp_path, first)
    archive.write(tmp_path, later(first, 10, 2, [record(CASE, 1, 0.25)]))
    (tmp_path / "shelf" / "runs" / "half.json.gz").write_bytes(b"half")
    return tmp_path


def test_a_folder_that_cannot_be_written(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its table lies elsewhere as long as the process goes on."""
    expected = History(results).frame()
    shutil.rmtree(table.folder_of(results))
    (results.parent / f".{results.name}.table").write_text("a file, where the folder should be")
    first = History(results)
    pd.testing.assert_frame_equal(first.frame(), expected)
    archive.write(results, run([record(CASE)], run_id="20261121T130000Z-1a2b3c4d-2"))
    assert len(History(results).frame()) == len(expected) + 1
    assert len(first.frame()) == len(expected)


def test_no_room_anywhere(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hostbench.store.table._refreshed", refuse)
    with pytest.raises(UsageError, match="No space left on device; make room"):
        History(results)


def test_a_table_that_breaks_meanwhile_is_made_anew(results: Path) -> None:
    history = History(results)
    before = history.frame()
    for path in table.folder_of(results).rglob("points/**/*.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)
    pd.testing.assert_frame_equal(history.frame(), before)
    for path in table.folder_of(results).rglob("points/**/*.parquet"):
        path.unlink()
    (chosen,) = history.runs()
    assert len(history.rows_of(chosen)) == 1


def test_damage_of_the_right_size_is_mended_when_it_is_read(results: Path) -> None:
    History(results)
    for path in table.folder_of(results).rglob("points/**/*.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)
    (results / "shelf" / "1a2b3c4d-hostbench-py3.11.json").unlink()
    assert len(History(results).frame()) == 1


def test_what_is_no_damage_is_not_hidden(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(results)

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("hostbench.store.history.to_frame", broken)
    with pytest.raises(ZeroDivisionError):
        history.frame()


def test_two_machines_whose_runs_have_one_name(tmp_path: Path) -> None:
    for machine, seconds in (("a", 0.5), ("b", 0.25)):
        archive.write(tmp_path, run([record(CASE, 0, seconds)], machine=machine))
    history = History(tmp_path)
    for one in history.runs():
        assert history.whole(one).header.machine == one.machine
        assert [path.parts[-3] for path in history.archives(one)] == [one.machine]
