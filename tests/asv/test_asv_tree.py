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

import pandas as pd
import pytest

from tests.stored import read_tree

TREE = Path(__file__).parent.parent / "data" / "asv_tree"
FIRST = "b380ee2b"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return shutil.copytree(TREE, tmp_path / "results")


def change(path: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    data = json.loads(path.read_text())
    edit(data)
    path.write_text(json.dumps(data))


def read(tree: Path) -> tuple[pd.DataFrame, list[str]]:
    """Rows and warnings."""
    found = read_tree(tree)
    return found.frame, found.warnings


def values(rows: pd.DataFrame, benchmark: str) -> dict[str, Any]:
    """What stands between the brackets of each case -> status, value."""
    own = rows[(rows["workload"] == benchmark) & rows["commit"].str.startswith(FIRST)]
    found = own[["case", "status", "value"]].itertuples(index=False)
    return {
        case.removeprefix(benchmark).strip("[]"): (status, None if math.isnan(value) else value)
        for case, status, value in found
    }


def test_another_projects_tree(tree: Path) -> None:
    rows, warnings = read(tree)
    assert warnings == []
    assert len(rows) == 2 * (4 + 4 + 1 + 1 + 1)
    assert values(rows, "sorting.Mode.track_length") == {
        "param1=None": ("ok", 4.0),
        "param1=True": ("failed", None),
        "param1=2.5": ("ok", 3.0),
        "param1=a, b": ("ok", 4.0),
    }
    sort = values(rows, "sorting.Sorting.time_sort")
    assert sort.pop("n=1000,order=random") == ("skipped", None)
    assert [status for status, _ in sort.values()] == ["ok"] * 3
    assert values(rows, "sorting.time_broken") == {"": ("failed", None)}
    assert values(rows, "sorting.track_size") == {"": ("ok", 42.0)}


def test_a_rows_fields(tree: Path) -> None:
    rows, _ = read(tree)
    chosen = rows["commit"].str.startswith(FIRST) & (rows["n"] == 100) & (rows["order"] == "sorted")
    ((_, point),) = rows[chosen].iterrows()
    assert (point["machine"], point["unit"], point["num_samples"]) == ("shelf", "seconds", 5)
    assert point["run_id"] == f"asv-{FIRST}-existing-py3.11"
    assert point["committed_at"] == pd.Timestamp(1_795_264_942_000, unit="ms", tz="UTC")
    assert (point["ci_low_s"], point["ci_high_s"]) == (2.9837e-07, 2.964e-06)
    assert (point["q25_s"], point["q75_s"]) == (1.052e-06, 1.312e-06)
    assert point["value"] == 1.171999883808894e-06
    assert len(point["version"]) == 64
    track = rows[rows["workload"] == "sorting.track_size"].iloc[0]
    assert track["unit"] == "bytes" and track[["ci_low_s", "num_samples"]].isna().all()


def test_results_without_machine_json_are_shown_with_a_warning(tree: Path) -> None:
    (tree / "shelf" / "machine.json").unlink()
    rows, warnings = read(tree)
    assert len(rows) == 22
    assert set(rows["machine"]) == {"shelf"}
    assert len(warnings) == 1 and "machine.json" in warnings[0]
    assert rows["hardware"].isna().all()


def test_without_benchmarks_json_a_name_says_its_unit_as_asv_takes_it(tree: Path) -> None:
    (tree / "benchmarks.json").unlink()
    rows, warnings = read(tree)
    assert warnings == []
    assert len(rows) == 22
    assert "param1=100,param2=sorted" in values(rows, "sorting.Sorting.time_sort")
    units = dict(zip(rows["workload"], rows["unit"], strict=True))
    assert {units.pop(name) for name in [*units] if ".track_" in name} == {"unit"}
    assert set(units.values()) == {"seconds"} and len(units) == 3
    assert (rows["seconds"].notna() == (rows["unit"].eq("seconds") & rows["value"].notna())).all()


def test_a_benchmark_that_has_lost_a_parameter_keeps_its_old_rows_apart(tree: Path) -> None:
    """benchmarks.json describes the newest version only."""
    change(
        tree / "benchmarks.json",
        lambda data: data["sorting.Sorting.time_sort"].update(param_names=["n"]),
    )
    rows, _ = read(tree)
    assert len(values(rows, "sorting.Sorting.time_sort")) == 4
    assert rows.query("workload == 'sorting.Sorting.time_sort'")["case"].nunique() == 4


@pytest.mark.parametrize(
    ("results", "read_as"),
    [
        (
            [math.nan, math.inf, None, "fast"],
            [("skipped", None), ("ok", math.inf), ("failed", None), ("failed", None)],
        ),
        ([1.0], [("ok", 1.0), *[("failed", None)] * 3]),
    ],
)
def test_numbers_that_are_none(tree: Path, results: list[Any], read_as: list[Any]) -> None:
    def edit(data: dict[str, Any]) -> None:
        row = data["results"]["sorting.Sorting.time_sort"]
        row[0] = results
        row[5] = [-math.inf, None, None, None]

    (path,) = tree.glob(f"shelf/{FIRST}-*.json")
    change(path, edit)
    rows, warnings = read(tree)
    assert warnings == []
    assert list(values(rows, "sorting.Sorting.time_sort").values()) == read_as
