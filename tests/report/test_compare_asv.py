"""What `hostbench compare` says that `asv compare` says of the same two commits."""

import json
import shutil
from pathlib import Path

import pytest

from hostbench.cli.entry import main
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_REGRESSION
from hostbench.store import archive
from tests.fakes import asv_files
from tests.report.test_compare_command import NEW, OLD, SHELF, asv_stored, stored


def test_a_line_says_where_asv_compare_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, OLD, (1.0, 1.0))
    stored(tmp_path, NEW, (1.05, 1.5))
    asv_stored(tmp_path, OLD)
    asv_stored(tmp_path, NEW)
    args = [OLD[:8], NEW[:8], "--results", str(tmp_path)]
    assert main(["compare", *args]) == EXIT_REGRESSION
    lines = capsys.readouterr().out.splitlines()
    (below,) = [lines[place + 1] for place, line in enumerate(lines) if "+5.0%" in line]
    assert below == "    asv compare does not mark it: within its factor of 1.1"
    (large,) = [line for line in lines if "+50.0%" in line]
    assert large.endswith(f"@{SHELF}")
    assert "asv compare says otherwise of 1 of them; each line says why" in lines


def test_asvs_word_is_that_of_its_own_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A plain `asv run` keeps no samples; the archives have them all the same."""
    stored(tmp_path, OLD, (1.0, 1.0))
    stored(tmp_path, NEW, (1.002, 1.5, 1.0))
    args = ["compare", OLD, NEW, "--format", "json", "--results", str(tmp_path)]

    def words() -> list[tuple[str | None, str]]:
        assert main(args) == EXIT_REGRESSION
        return [(s["asv"], s["asv_differs"]) for s in json.loads(capsys.readouterr().out)["series"]]

    assert words() == [(None, ""), (None, "")]  # asv prints no row
    asv_stored(tmp_path, OLD)
    assert words() == [(None, ""), (None, "")]  # asv prints n/a
    asv_stored(tmp_path, NEW)
    assert words() == [("slower", ""), ("unmarked", "")]
    path = tmp_path / SHELF / f"{NEW[:8]}-{asv_files.ENVIRONMENT}.json"
    for commit in (OLD, NEW):
        asv_stored(tmp_path, commit, samples=False)
    data = json.loads(path.read_text())
    (row,) = data["results"].values()
    row[archive.COLUMNS.index("stats_ci_99_a")] = [0.5] * 3
    path.write_text(json.dumps(data))
    assert words() == [
        ("unmarked", "asv compare does not mark it: its 99 % intervals overlap"),
        ("unmarked", ""),
    ]
    row[0] = [1.0, None, 1.0]
    path.write_text(json.dumps(data))
    assert words() == [(None, ""), ("unmarked", "")]


def test_another_projects_tree_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """asv kept no samples there: too few for a verdict, and what asv makes of its intervals."""
    folder = tmp_path / "tree"
    shutil.copytree(Path(__file__).parent.parent / "data" / "asv_tree", folder)
    args = ["compare", "2bbdf677", "b380ee2b", "--all", "--results", str(folder)]
    assert main(args) == EXIT_NOTHING_MEASURED
    lines = capsys.readouterr().out.splitlines()
    (place,) = [place for place, line in enumerate(lines) if "time_plain" in line]
    assert lines[place].startswith("undecided") and "+72.2%" in lines[place]
    assert "asv compare calls it slower: its 99 % intervals are apart" in lines[place + 1]


def test_memory_is_judged_and_what_cannot_be_is_counted_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tree"
    shutil.copytree(Path(__file__).parent.parent / "data" / "asv_tree", folder)
    (path,) = (folder / "shelf").glob("b380ee2b-*")
    data = json.loads(path.read_text())
    row = data["results"]["sorting.track_size"]
    before = row[0][0]
    row[0] = [2 * before]
    path.write_text(json.dumps(data))
    args = ["compare", "2bbdf677", "b380ee2b", "--results", str(folder)]
    assert main([*args, "--format", "json"]) == EXIT_NOTHING_MEASURED
    told = json.loads(capsys.readouterr().out)
    (size,) = [one for one in told["series"] if "track_size" in one["series"]]
    assert (size["effect"], size["asv"]) == (pytest.approx(1.0), "slower")
    assert (size["before_bytes"], size["after_bytes"]) == pytest.approx((before, 2 * before))
    assert size["before_s"] is None
    (memory, left_out) = [note for note in told["notes"] if "series" in note][::-1]
    assert memory == "1 series are memory in bytes: there, slower means more of it"
    assert left_out.startswith("not judged, for only times and bytes are: ")
    assert "in characters (sorting.Mode.track_length" in left_out
    assert not any("track_length" in one["series"] for one in told["series"])
    assert main(args) == EXIT_NOTHING_MEASURED
    assert left_out in capsys.readouterr().out
    assert main([*args, "--all"]) == EXIT_NOTHING_MEASURED
    assert "--all shows" not in capsys.readouterr().out
