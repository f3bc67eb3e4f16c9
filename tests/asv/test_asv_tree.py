"""Any asv results tree is read: another project's, and one that was damaged on the way.

tests/data/asv_tree was written by asv 0.6.6 over two commits of a small project of another style;
only the interpreter's path was taken out of it afterwards.
"""

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hostbench.cli import main
from hostbench.core.errors import EXIT_NOTHING_MEASURED
from hostbench.store import asv_tree, frame
from hostbench.store.asv_tree import AsvPoint

TREE = Path(__file__).parent.parent / "data" / "asv_tree"
FIRST, SECOND = "b380ee2b", "2bbdf677"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return shutil.copytree(TREE, tmp_path / "results")


def result_file(tree: Path, commit: str = FIRST) -> Path:
    (path,) = tree.glob(f"shelf/{commit}-*.json")
    return path


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def read(tree: Path) -> tuple[list[AsvPoint], list[str]]:
    """Points and warnings; the whole frame must be readable with the same warnings."""
    warnings: list[str] = []
    points = list(asv_tree.points(tree, warnings.append))
    whole = frame.read(tree)
    assert whole.warnings == warnings
    assert len(whole.frame) == len(points)
    return points, warnings


def values(points: list[AsvPoint], benchmark: str, commit: str = FIRST) -> dict[Any, Any]:
    return {
        tuple(value for _, value in p.params): (p.status, p.value)
        for p in points
        if p.benchmark == benchmark and p.commit.startswith(commit)
    }


def test_another_projects_tree(tree: Path) -> None:
    points, warnings = read(tree)
    assert warnings == []
    assert len(points) == 2 * (4 + 4 + 1 + 1 + 1)
    assert values(points, "sorting.Mode.track_length") == {
        (None,): ("ok", 4.0),
        (True,): ("failed", None),
        (2.5,): ("ok", 3.0),
        ("a, b",): ("ok", 4.0),
    }
    sort = values(points, "sorting.Sorting.time_sort")
    assert sort[1000, "random"] == ("skipped", None)
    assert [sort[key][0] for key in ((100, "sorted"), (100, "random"), (1000, "sorted"))] == [
        "ok"
    ] * 3
    assert values(points, "sorting.time_broken") == {(): ("failed", None)}
    assert values(points, "sorting.track_size") == {(): ("ok", 42.0)}


def test_a_points_fields(tree: Path) -> None:
    points, _ = read(tree)
    (point,) = [
        p
        for p in points
        if p.benchmark == "sorting.Sorting.time_sort"
        and p.commit.startswith(FIRST)
        and dict(p.params) == {"n": 100, "order": "sorted"}
    ]
    assert (point.machine, point.unit, point.num_samples) == ("shelf", "seconds", 5)
    assert point.env_name == "existing-py3.11"
    assert point.committed_ms == 1_795_264_942_000
    assert point.ci == (2.9837e-07, 2.964e-06)
    assert point.quartiles == (1.052e-06, 1.312e-06)
    assert point.value == 1.171999883808894e-06
    assert point.version is not None and len(point.version) == 64
    track = next(p for p in points if p.benchmark == "sorting.track_size")
    assert (track.unit, track.ci, track.num_samples) == ("bytes", (None, None), None)


def test_half_a_file_is_a_warning_and_the_rest_is_read(tree: Path) -> None:
    path = result_file(tree)
    path.write_text(path.read_text()[:700])
    points, warnings = read(tree)
    assert {p.commit[:8] for p in points} == {SECOND}
    assert len(warnings) == 1 and str(path) in warnings[0]


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "3", "{}", '{"results": 5}', "\xff", "[" * 10**5]
)
def test_a_file_of_another_kind_is_a_warning(tree: Path, text: str) -> None:
    path = result_file(tree)
    path.write_text(text, encoding="latin-1")
    points, warnings = read(tree)
    assert {p.commit[:8] for p in points} == {SECOND}
    # `null` is what a file that cannot be read looks like inside; it holds nothing to miss.
    assert len(warnings) == (0 if text == "null" else 1)
    assert all(str(path) in warning for warning in warnings)


def test_results_without_machine_json_are_shown_with_a_warning(tree: Path) -> None:
    (tree / "shelf" / "machine.json").unlink()
    points, warnings = read(tree)
    assert len(points) == 22
    assert {p.machine for p in points} == {"shelf"}
    assert len(warnings) == 1 and "machine.json" in warnings[0]
    assert frame.read(tree).frame["hardware"].isna().all()


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_machine_json(tree: Path, text: str) -> None:
    (tree / "shelf" / "machine.json").write_text(text)
    points, warnings = read(tree)
    assert len(points) == 22
    assert len(warnings) == (1 if text == "{" else 0)


def test_without_benchmarks_json_names_and_units_are_unknown(tree: Path) -> None:
    (tree / "benchmarks.json").unlink()
    points, warnings = read(tree)
    assert warnings == []
    assert len(points) == 22
    sort = next(p for p in points if p.benchmark == "sorting.Sorting.time_sort")
    assert dict(sort.params) == {"param1": 100, "param2": "sorted"}
    assert {p.unit for p in points} == {"unit"}
    assert frame.read(tree).frame["seconds"].isna().all()


@pytest.mark.parametrize("text", ["{", "[1]", '{"sorting.track_size": null}'])
def test_a_damaged_benchmarks_json(tree: Path, text: str) -> None:
    (tree / "benchmarks.json").write_text(text)
    points, warnings = read(tree)
    assert len(points) == 22
    assert len(warnings) == (text == "{")


def test_a_benchmark_that_has_lost_a_parameter_keeps_its_old_points_apart(tree: Path) -> None:
    """benchmarks.json describes the newest version only."""
    change(
        tree / "benchmarks.json",
        lambda data: data["sorting.Sorting.time_sort"].update(param_names=["n"]),
    )
    points, _ = read(tree)
    assert len(values(points, "sorting.Sorting.time_sort")) == 4
    cases = frame.read(tree).frame.query("workload == 'sorting.Sorting.time_sort'")["case"]
    assert cases.nunique() == 4


def test_numbers_that_are_none(tree: Path) -> None:
    def edit(data: dict[str, Any]) -> None:
        row = data["results"]["sorting.Sorting.time_sort"]
        row[0] = [math.nan, math.inf, None, "fast"]
        row[5] = [-math.inf, None, None, None]

    change(result_file(tree), edit)
    points, warnings = read(tree)
    assert warnings == []
    found = list(values(points, "sorting.Sorting.time_sort").values())
    assert found == [("skipped", None), ("ok", math.inf), ("failed", None), ("failed", None)]


def test_a_result_list_that_is_too_short_is_failed_at_its_end(tree: Path) -> None:
    change(
        result_file(tree), lambda d: d["results"]["sorting.Sorting.time_sort"].__setitem__(0, [1.0])
    )
    points, _ = read(tree)
    statuses = [s for s, _ in values(points, "sorting.Sorting.time_sort").values()]
    assert statuses == ["ok", "failed", "failed", "failed"]


@pytest.mark.parametrize(
    "date", [None, "today", 9_999_999_999_999, 10**30, -(10**400), math.inf, True, [1]]
)
def test_a_date_that_is_none(tree: Path, date: object) -> None:
    change(result_file(tree), lambda data: data.update(date=date))
    points, warnings = read(tree)
    assert (len(points), len(warnings)) == (22, 0 if date is None else 1)
    for warning in warnings:
        assert warning.startswith(f"{result_file(tree)} has date {date!r:.40}")
        assert "the years 1678 to 2261" in warning
    rows = frame.read(tree).frame
    assert rows[rows["commit"].str.startswith(FIRST)]["committed_at"].isna().all()


def test_starts_that_are_no_times(tree: Path) -> None:
    def edit(data: dict[str, Any]) -> None:
        place = data["result_columns"].index("started_at")
        for row in data["results"].values():
            row[place] = 9_999_999_999_999

    before = main(["changes", "--results", str(tree)])
    change(result_file(tree), edit)
    points, (warning,) = read(tree)
    assert main(["changes", "--results", str(tree)]) == before == EXIT_NOTHING_MEASURED
    assert len(points) == 22 and "has started_at of " in warning and "(and 4 more)" in warning


def test_a_number_too_large_for_a_float_is_a_warning(tree: Path) -> None:
    change(
        result_file(tree),
        lambda d: d["results"]["sorting.track_size"].__setitem__(0, [10**400]),
    )
    _, warnings = read(tree)
    assert len(warnings) == 1 and "OverflowError" in warnings[0]


def test_empty_folders(tmp_path: Path) -> None:
    assert read(tmp_path) == ([], [])
    (tmp_path / "shelf" / "runs").mkdir(parents=True)
    assert read(tmp_path) == ([], [])


def test_two_folders_of_one_machine_lose_nothing(tree: Path) -> None:
    """A copy of a folder, for one, whose machine.json still says the old name."""
    shutil.copytree(tree / "shelf", tree / "shelf-old")
    points, _ = read(tree)
    assert len(points) == 44
    assert {p.machine for p in points} == {"shelf", "shelf-old"}


def test_files_of_a_commit(tree: Path) -> None:
    path = result_file(tree)
    commit = json.loads(path.read_text())["commit_hash"]
    ours = path.with_name(f"{FIRST}-hostbench-py3.11.json")
    path.rename(ours)
    (found,) = asv_tree.files_of_commit(tree, commit, None)
    assert found.machine == "shelf"
    assert dict(found.started)["sorting.track_size"] == 1_795_264_945_271
    assert list(asv_tree.files_of_commit(tree, commit, "table")) == []
    assert list(asv_tree.files_of_commit(tree, FIRST + "0" * 32, None)) == []
    for text in (ours.read_text()[:500], "[]", "null", json.dumps({"commit_hash": commit})):
        ours.write_text(text)
        assert list(asv_tree.files_of_commit(tree, commit, None)) == []
