"""Compacting makes archives smaller; no row of the frame and nothing judged changes."""

import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from hostbench.cli import main
from hostbench.core.records import Run
from hostbench.core.samples import median
from hostbench.store import archive, compact
from hostbench.store.thin import quantiles
from tests.fakes.builders import copy_case, create_case, failed, record, run, skipped
from tests.store.test_table import same_rows
from tests.stored import read_tree

CASES = [copy_case(blocking=blocking) for blocking in (True, False)]


def samples(seed: int, num: int) -> list[float]:
    return [random.Random(seed + n).lognormvariate(-9, 0.1) for n in range(num)]


def a_run(day: int, **changes: Any) -> Run:
    records = []
    for launch in range(3):
        for place, case in enumerate(CASES):
            ends = samples(day * 100 + launch * 10 + place, 40 + place)
            measurement = {
                "end_to_end_s": ends,
                "call_s": [one / 3 for one in ends],
                "device_s": ends[:4],
                "findings": {"asynchronous": False},
                "proofs": {"data": "passed"},
            }
            records.append(record(case, launch, median(ends), measurement=measurement))
    records += [skipped(copy_case(memory="pinned")), failed(create_case(), seconds=3.0)]
    started = f"2026-11-{day:02d}T12:00:00.000Z"
    return run(records, launches=3, run_id=f"run-{day:02d}", started_at=started, **changes)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        archive.write(tmp_path, a_run(day))
    archive.write(tmp_path, a_run(4, machine="table"))
    return tmp_path


def contents(results: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in results.rglob("*.json.gz")}


def done(results: Path, **changes: Any) -> list[compact.Compacted]:
    said: list[str] = []
    options: dict[str, Any] = {"older_than_days": 0, "keep": 0, **changes}
    found = list(compact.compact(results, said.append, **options))
    assert said == []
    return found


@pytest.mark.parametrize("kept", [compact.QUANTILES, compact.MEDIAN])
def test_every_row_stays(results: Path, kept: str) -> None:
    before, sizes = read_tree(results), contents(results)
    runs = before.runs
    found = done(results, kept=kept)
    assert [one.path.name for one in found] == sorted(sizes, key=lambda n: ("04" in n, n))
    assert all(one.after < one.before == len(sizes[one.path.name]) for one in found)
    assert all(one.path.stat().st_size == one.after for one in found)
    after = read_tree(results)
    assert after.warnings == []
    same_rows(after.frame, before.frame)
    for old, new in zip(runs, after.runs, strict=True):
        assert (new.header, new.facts, new.results()) == (old.header, old.facts, old.results())


def test_it_is_marked_and_done_once(results: Path) -> None:
    done(results)
    path = results / "shelf" / "runs" / "run-01.json.gz"
    data = json.loads(gzip.decompress(path.read_bytes()))["hostbench"]
    assert data["compacted"]["kept"] == "quantiles"
    assert len(data["records"][0]["measurement"]["end_to_end_s"]) == 5
    before = contents(results)
    assert done(results) == [] and contents(results) == before
    assert len(done(results, kept=compact.MEDIAN)) == 4
    assert done(results) == []  # what is gone does not come back


def test_the_newest_and_the_young_stay_whole(results: Path) -> None:
    assert [one.path.name for one in done(results, keep=2)] == ["run-01.json.gz"]
    assert done(results, older_than_days=1e6) == []


@pytest.mark.parametrize(("num", "thinned"), [(1, 0), (2, 0), (3, 0), (4, 1), (7, 4)])
def test_the_newest_stay_whole_however_many_there_are(
    tmp_path: Path, num: int, thinned: int
) -> None:
    for day in range(1, num + 1):
        archive.write(tmp_path, a_run(day))
    found = [one.path.name for one in done(tmp_path, keep=3)]
    assert found == [f"run-{day:02d}.json.gz" for day in range(1, thinned + 1)]


@pytest.mark.parametrize("kept", [compact.QUANTILES, compact.MEDIAN])
def test_two_clones_write_the_same_bytes(
    results: Path,
    kept: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    clone = shutil.copytree(results, tmp_path_factory.mktemp("clones") / "results")
    done(results, kept=kept)
    monkeypatch.setattr(compact, "now", lambda: "2027-05-06T07:08:09.000Z")
    monkeypatch.setattr("time.time", lambda: 1_800_000_000.0)
    done(clone, kept=compact.QUANTILES)
    done(clone, kept=kept)  # also where it went there in two steps
    assert contents(clone) == contents(results)


def test_a_mark_with_a_time_is_taken(results: Path) -> None:
    done(results)
    path = results / "shelf" / "runs" / "run-01.json.gz"
    data = json.loads(gzip.decompress(path.read_bytes()))
    data["hostbench"]["compacted"] = {"at": "2026-11-20T00:00:00.000Z", "kept": "quantiles"}
    path.write_bytes(archive.packed(data))
    assert done(results) == [] and read_tree(results).warnings == []
    (found,) = (one for one in done(results, kept=compact.MEDIAN) if one.path == path)
    data = json.loads(gzip.decompress(found.path.read_bytes()))
    assert data["hostbench"]["compacted"] == {"kept": "median"}


def test_a_dry_run_changes_nothing(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(results)
    options = ["--results", str(results), "--older-than", "0", "--keep", "0"]
    assert main(["compact", "--dry-run", *options]) == 0
    assert contents(results) == before
    assert capsys.readouterr().out.startswith("4 archives would become smaller: ")
    assert main(["compact", *options]) == 0
    assert "4 archives became smaller" in capsys.readouterr().out
    assert main(["compact", *options]) == 0
    assert capsys.readouterr().out.startswith("0 archives")


def test_a_damaged_archive_is_named_and_left(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = results / "shelf" / "runs" / "run-02.json.gz"
    path.write_bytes(b"half")
    options = ["--results", str(results), "--older-than", "0", "--keep", "0"]
    assert main(["compact", *options]) == 4
    assert str(path) in capsys.readouterr().err
    assert path.read_bytes() == b"half"


def test_wrong_use(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compact", "--keep", "-1", "--results", str(tmp_path)]) == 2
    assert "'--keep': -1 is not in the range" in capsys.readouterr().err
    for days in ("nan", "inf", "-1"):
        assert main(["compact", f"--older-than={days}", "--results", str(tmp_path)]) == 2
        assert "'--older-than': " in capsys.readouterr().err
    assert main(["compact", "--results", str(tmp_path / "absent")]) == 3


@pytest.mark.parametrize("num", [1, 2, 5, 6, 7, 40, 41])
def test_quantiles_keep_the_median_and_the_ends(num: int) -> None:
    values = samples(num, num)
    found = quantiles(values)
    assert median(found) == median(values)
    assert (min(found), max(found)) == (min(values), max(values))
    assert len(found) == min(num, 5) and quantiles(found) == found
