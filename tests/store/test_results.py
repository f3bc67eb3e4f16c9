"""What is stored is shown, whatever changes in the folder; a broken table is made again."""

import json
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock
from unittest.mock import Mock

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostbench.core.errors import UsageError
from hostbench.core.records import Run
from hostbench.store import archive, index
from hostbench.store.points import STATUSES, case_rows
from hostbench.store.results import ABOUT, Results
from hostbench.store.table import ResultTable
from tests.conftest import SOAK
from tests.fakes.builders import GPU_FACTS, create_case, failed, later, record, run, skipped
from tests.store.test_points import FAIL, NOT, OK, PLAIN, SKIP, asv_file

DATA = Path(__file__).parent.parent / "data"


def same(results: Path) -> Results:
    """Opens the table; its rows, runs and warnings must be those of one that is made anew."""
    found, whole = Results(results), fresh(results)
    same_rows(found.frame(), whole.frame())
    assert set(found.warnings) == set(whole.warnings)
    assert found.runs() == whole.runs()
    return found


def fresh(results: Path) -> Results:
    folder = Path(tempfile.mkdtemp(dir=results.parent))
    with mock.patch.object(index, "folder_of", lambda _: folder):
        return Results(results)


def table_of(results: Path) -> ResultTable:
    return ResultTable(str(index.folder_of(results) / "points"))


def same_rows(first: pd.DataFrame, second: pd.DataFrame) -> None:
    """Cell by cell, whatever pandas' types for them: those hang on a frame's history."""
    assert set(first) == set(second) and len(first) == len(second)
    for name in first:
        pairs = zip(plain(first[name]), plain(second[name]), strict=True)
        differ = [pair for pair in pairs if pair[0] != pair[1]]
        assert not differ[:3], name


def plain(cells: pd.Series) -> list[Any]:
    """One word for missing."""
    return [cell if known else None for cell, known in zip(cells, cells.notna(), strict=True)]


def a_run(number: int = 1, **changes: Any) -> Run:
    records = [record(OK, n, s) for n, s in enumerate((0.25, 0.5, 0.125))]
    records += [skipped(SKIP), failed(FAIL, "proof", seconds=0.5), record(create_case())]
    planned = tuple(map(str, (OK, SKIP, FAIL, create_case(), NOT)))
    fields: dict[str, Any] = {
        "run_id": f"20261121T1200{number:02d}Z-1a2b3c4d-0001",
        "started_at": f"2026-11-21T12:00:{number:02d}.000Z",
        "facts": GPU_FACTS,
        "launches": 3,
        "planned": planned,
    }
    return run(records, **{**fields, **changes})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tree whose table is there already."""
    folder = tmp_path_factory.mktemp("made")
    results = shutil.copytree(DATA / "asv_tree", folder / "results")
    findings = {"findings": {"asynchronous": None, "copies": 3}, "proofs": {"data": "passed"}}
    first = a_run(1, scratch="quick")
    archive.write(results, first)
    archive.write(results, later(first, 10, 2, [record(NOT, 0, measurement=findings)]))
    archive.write(results, a_run(2, machine="table"))
    archive.write(results, a_run(3, machine="shelf"))
    asv_file(results)
    Results(results)
    return folder


@pytest.fixture
def tree(made: Path, tmp_path: Path) -> Path:
    """Runs, asv's files of two projects, a peer's figures, damage; and the table of it."""
    return shutil.copytree(made, tmp_path / "tree") / "results"


def test_every_row_is_the_frames(tree: Path) -> None:
    (tree / "shelf" / "runs" / "half.json.gz").write_bytes(b"half")
    (tree / "shelf" / "00000000-half.json").write_text("{")
    found = same(tree)
    assert len(found.warnings) == 2
    assert len(found.frame()) == 22 + 5 + 5 + 5 + 5 + 2
    before, names = table_of(tree).version, sorted(tree.rglob("*"))
    same(tree)
    assert table_of(tree).version == before and sorted(tree.rglob("*")) == names
    assert (index.folder_of(tree) / ".gitignore").read_text().endswith("*\n")


def add_run(tree: Path, _: random.Random) -> None:
    archive.write(tree, a_run(7, machine="shelf"))


def remove(tree: Path, choice: random.Random) -> None:
    paths = sorted(p for p in tree.rglob("*") if p.is_file())
    choice.choice(paths).unlink()


def cut(tree: Path, choice: random.Random) -> None:
    path = choice.choice(sorted(tree.glob("*/*.json")) or [tree])
    if path.is_file():
        path.write_bytes(path.read_bytes()[: choice.randrange(200)])


def scale(tree: Path, choice: random.Random) -> None:
    """asv runs a commit again: the file stays, its numbers change."""
    for path in sorted(tree.glob("*/*-*.json")):
        text = path.read_text()
        path.write_text(text.replace("0.5", str(choice.random())))


def rename_parameters(tree: Path, _: random.Random) -> None:
    path = tree / "benchmarks.json"
    if path.exists():
        path.write_text(path.read_text().replace('"n"', '"num"'))


def other_hardware(tree: Path, choice: random.Random) -> None:
    entry = {"machine": "shelf", "gpu": f"GPU {choice.randrange(9)}"}
    (tree / "shelf" / "machine.json").write_text(json.dumps(entry))


def odd_values(tree: Path, _: random.Random) -> None:
    """Not as asv writes it: text, true, lists of another length, a huge number."""
    asv_file(tree, machine="odd")
    (path,) = (tree / "odd").glob("*-*.json")
    data = json.loads(path.read_text())
    row = data["results"][PLAIN]
    row[0] = ["0.5", True, 3]
    data["results"]["other.track"] = [[1, None, 10**400], [["1", "2.5", "(1, 'a')"]]]
    data["results"]["plain.track"] = [[7]]
    path.write_text(json.dumps(data))


def add_old_runs(tree: Path, _: random.Random) -> None:
    archive.write(tree, a_run(5, started_at="1969-07-20T20:17:40.000Z"))
    archive.write(tree, a_run(6, started_at="1678-01-01T00:00:00.000Z"))


CHANGES = [add_run, add_old_runs, remove, cut, scale, rename_parameters, other_hardware, odd_values]


@pytest.mark.parametrize("change", dict.fromkeys(CHANGES))
def test_after_a_change(tree: Path, change: Callable[[Path, random.Random], None]) -> None:
    before = table_of(tree).version
    change(tree, random.Random(4))
    same(tree)
    assert table_of(tree).version <= before + 1, "one transaction"


@settings(
    max_examples=60 if SOAK else 4,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(changes=st.lists(st.sampled_from(CHANGES), max_size=5), seed=st.integers(0, 1000))
def test_after_any_changes(
    tree: Path, changes: list[Callable[[Path, random.Random], None]], seed: int
) -> None:
    with tempfile.TemporaryDirectory(dir=tree.parent.parent) as folder:
        results = shutil.copytree(tree.parent, Path(folder, "tree")) / tree.name
        choice = random.Random(seed)
        for change in changes:
            Results(results)
            change(results, choice)
        same(results)


def write_all(folder: Path, pattern: str, content: Callable[[bytes], bytes]) -> None:
    for path in folder.glob(pattern):
        path.write_bytes(content(path.read_bytes()))


DAMAGE: dict[str, Callable[[Path], None]] = {
    "a cut log": lambda table: write_all(table, "_delta_log/*", lambda _: b"{"),
    "another format": lambda table: write_all(
        table, f"_delta_log/{0:020d}.json", lambda raw: raw.replace(b"results, format", b"x")
    ),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_broken_table_is_made_anew(tree: Path, damage: Callable[[Path], None]) -> None:
    damage(index.folder_of(tree) / "points")
    same(tree)


def test_points_that_are_garbled_are_named(tree: Path) -> None:
    """Of the right size: it shows only as they are read."""
    history, points = Results(tree), index.folder_of(tree) / "points"
    write_all(points, "kind=point/*.parquet", lambda raw: b"x" * len(raw))
    with pytest.raises(UsageError, match="delete it: it is made anew"):
        history.frame()


def test_one_series_and_one_run(tree: Path) -> None:
    found = Results(tree)
    whole = found.frame()
    rows = whole[(whole["machine"] == "shelf") & (whole["case"] == str(OK))]
    series = found.trend("shelf", str(OK))
    same_rows(series, rows[list(series.columns)])
    chosen = found.runs()[0]
    of_run = found.rows(chosen.machine, [chosen.run_id])
    assert len(of_run) == (whole["run_id"] == chosen.run_id).sum()
    assert len(case_rows(found.run(chosen))) == 4
    assert found.rows("attic", [chosen.run_id]).empty
    with mock.patch.dict("sys.modules", {"pyarrow.dataset": None}):  # it aborts a process's end
        points = found.points("shelf", ["case", "seconds"])
    assert str(points["case"].dtype) == "category"
    expected = whole["seconds"][whole["machine"] == "shelf"].dropna()
    assert sorted(points["seconds"].dropna()) == sorted(expected)


def test_the_counts_are_the_frames(tree: Path) -> None:
    results = Results(tree)
    whole = results.frame()
    counted = whole.assign(**{status: whole["status"] == status for status in STATUSES})
    how = dict.fromkeys(ABOUT, "first") | dict.fromkeys(STATUSES, "sum")

    keys = ["machine", "run_id", "family", "device"]
    expected = counted.groupby(keys, dropna=False, sort=False).agg(how).reset_index()
    first, second = (
        rows.sort_values(keys, ignore_index=True) for rows in (results.counts, expected)
    )
    same_rows(first, second)
    assert results.counts["failed"].sum() > 0
    for machine in results.machines():
        rows = whole[whole["machine"] == machine]
        series = results.series(machine)
        assert series["case"].to_list() == rows["case"].drop_duplicates().to_list()
        has_number = rows[rows["status"] == "ok"]["case"].unique()
        assert set(series["case"][series["has_number"]]) == set(has_number)


def test_small_files_become_few_and_a_reader_goes_on(tmp_path: Path) -> None:
    archive.write(tmp_path, a_run(0))
    before = Results(tmp_path)
    for number in range(1, 21):
        archive.write(tmp_path, a_run(number))
        Results(tmp_path)
    assert len(before.frame()) == len(a_run(0).header.planned)
    log = "".join(path.read_text() for path in index.folder_of(tmp_path).rglob("*.json"))
    assert "OPTIMIZE" in log
    same(tmp_path)


def test_a_table_that_cannot_lie_beside_the_folder(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies elsewhere as long as the process goes on: the library takes no `[` in a path."""
    expected = Results(tree).frame()
    shutil.rmtree(index.folder_of(tree))
    index.folder_of(tree).write_text("a file, where the folder should be")
    same_rows(Results(tree).frame(), expected)
    moved = tree.rename(tree.with_name("re[sul]ts"))
    assert len(Results(moved).frame()) == len(expected) and not index.folder_of(moved).exists()
    full = OSError(28, "No space left on device")
    monkeypatch.setattr(ResultTable, "__init__", Mock(side_effect=full))
    with pytest.raises(UsageError, match="No space left on device; make room"):
        Results(moved)


def test_a_folder_without_results_gets_no_table(tmp_path: Path) -> None:
    """As /etc is, which a stranger's asv.conf.json may name."""
    (tmp_path / "etc" / "daemon").mkdir(parents=True)
    (tmp_path / "etc" / "daemon" / "config.json").write_text("{}")
    history = same(tmp_path / "etc")
    assert history.warnings == [] and history.machines() == [] and history.counts.empty
    assert history.trend("shelf", "x").empty
    assert not index.folder_of(tmp_path / "etc").exists()
    with pytest.raises(UsageError, match="--results"):
        Results(tmp_path / "absent")


def test_two_machines_whose_runs_have_one_name(tmp_path: Path) -> None:
    for machine, seconds in (("a", 0.5), ("b" * 255, 0.25)):
        archive.write(tmp_path, run([record(OK, 0, seconds)], machine=machine))
    history = Results(tmp_path)
    for one in history.runs():
        assert history.run(one).header.machine == one.machine
