"""Which runs and series `hostbench compare` puts side by side."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hostbench.cli.entry import main
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_NOTHING_MEASURED,
    EXIT_OK,
    EXIT_REGRESSION,
    EXIT_USAGE,
)
from hostbench.core.records import CaseRecord
from hostbench.store import archive
from tests import asv_project
from tests.fakes import builders
from tests.report.test_compare_command import CASES, NEW, OLD, level, stored


def said(capsys: pytest.CaptureFixture[str], results: Path, *args: str) -> tuple[int, Any]:
    code = main(["compare", *args, "--format", "json", "--results", str(results)])
    return code, json.loads(capsys.readouterr().out)


def on_day(results: Path, day: int, records: Sequence[CaseRecord]) -> None:
    run_id = f"202611{day:02d}T000000Z-{NEW[:8]}-{99 - day:04d}"
    started = {"started_at": f"2026-11-{day:02d}T12:00:00.000Z", "commit": NEW}
    archive.write(results, builders.run(records, run_id=run_id, **started))


def test_a_failure_in_the_newest_run_is_no_number_of_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [builders.record(CASES[0], launch, 1 + launch / 1e4) for launch in range(10)]
    level(tmp_path, (1.0,))
    on_day(tmp_path, 27, good)
    code, told = said(capsys, tmp_path, OLD, NEW)
    assert (code, told["without_number"]) == (EXIT_OK, [])
    on_day(tmp_path, 26, [builders.failed(CASES[0])])  # older than a number
    assert said(capsys, tmp_path, OLD, NEW)[0] == EXIT_OK
    on_day(tmp_path, 28, [builders.failed(CASES[0], "illegal address")])
    code, told = said(capsys, tmp_path, OLD, NEW)
    assert (code, told["counts"]) == (EXIT_FAILED, {"same": 1})
    (failed,) = told["without_number"]
    assert (failed["side"], failed["status"]) == ("second", "failed")
    assert (failed["reason"], failed["other_side_has_one"]) == ("illegal address", True)
    on_day(tmp_path, 29, [builders.skipped(CASES[0])])
    code, told = said(capsys, tmp_path, OLD, NEW)
    assert (code, told["without_number"]) == (EXIT_OK, [])


def test_a_run_that_did_not_come_to_a_series_has_not_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level(tmp_path, (1.0, 1.0))
    stored(tmp_path, NEW, (1.0, 1.0))
    planned = tuple(map(str, CASES[:2]))
    other = [builders.record(CASES[0], launch, 1 + launch / 1e4) for launch in range(10)]
    day = {"started_at": "2026-11-29T12:00:00.000Z", "commit": NEW}
    part = builders.run(other, run_id="20261129T120000Z-b-1", planned=planned, finish=None, **day)
    archive.write(tmp_path, part)
    code, told = said(capsys, tmp_path, OLD, NEW)
    assert (code, told["without_number"]) == (EXIT_OK, [])


def foreign(
    results: Path, commit: str, environments: dict[str, float], machine: str = "box"
) -> None:
    """What asv wrote of another project: one benchmark at one commit."""
    folder = results / machine
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "machine.json").write_text(json.dumps({"machine": machine, "cpu": "A CPU"}))
    about = {"param_names": [], "params": [], "unit": "seconds"}
    (results / "benchmarks.json").write_text(json.dumps({"time_it": about, "version": 2}))
    for environment, seconds in environments.items():
        data = {
            "commit_hash": commit,
            "env_name": environment,
            "date": 1_795_262_400_000,
            "result_columns": ["result", "params", "version"],
            "results": {"time_it": [[seconds], [], "1"]},
        }
        (folder / f"{commit[:8]}-{environment}.json").write_text(json.dumps(data))


def effects(told: Any) -> dict[str, float]:
    return {one["series"]: round(one["effect"], 2) for one in told["series"]}


def test_an_environment_is_compared_with_itself_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One side has both environments, the other one of them."""
    foreign(tmp_path, OLD, {"py3.7": 1.0, "py3.9": 4.0})
    foreign(tmp_path, NEW, {"py3.9": 6.0})
    code, told = said(capsys, tmp_path, OLD, NEW)
    assert (code, effects(told)) == (EXIT_NOTHING_MEASURED, {"time_it[]@box/py3.9": 0.5})
    assert [one["series"] for one in told["without_number"]] == ["time_it[]@box/py3.7"]


def test_another_projects_tree_has_a_level_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 % in one benchmark after 20 runs whose noise is 2 %."""
    monkeypatch.setattr(asv_project, "NUM_BENCHMARKS", 10)
    commits = [f"{number:08x}" + "0" * 32 for number in range(21)]
    *_, newest = asv_project.write(tmp_path, commits, ["box"])
    data = json.loads(newest.read_text())
    slower = data["results"]["suite_3.Bench3.time_it"]
    slower[0] = [1.3 * seconds for seconds in slower[0]]
    newest.write_text(json.dumps(data))
    for sides in ((commits[20],), (commits[19], commits[20])):
        code, told = said(capsys, tmp_path, *sides)
        called = {one["series"] for one in told["series"] if one["verdict"] == "slower"}
        assert code == EXIT_REGRESSION and len(called) == 6
        assert all(name.startswith("suite_3.Bench3.time_it[") for name in called)
    code, told = said(capsys, tmp_path, commits[1], commits[2])
    assert code == EXIT_NOTHING_MEASURED
    (why,) = {one["why"] for one in told["series"]}
    assert why == "made one after the other; `hostbench ab` or 3 more runs decide"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("machine:left", OLD, f"'machine:left' and '{OLD}' are of two kinds: name two commits or"),
        (OLD, "run:20261121T000000Z-aaaaaaaa-0001", "share 1 runs: name sides that share none"),
    ],
)
def test_sides_of_two_kinds_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], first: str, second: str, message: str
) -> None:
    facts = {"software": {"torch": "2.13"}}
    for machine, commit in (("left", OLD), ("right", OLD), ("left", NEW)):
        stored(tmp_path, commit, (1.0,), machine=machine, facts=facts)
    assert main(["compare", first, second, "--results", str(tmp_path)]) == EXIT_USAGE
    assert message in capsys.readouterr().err
    assert main(["compare", OLD, OLD[:8], "--results", str(tmp_path)]) == EXIT_NOTHING_MEASURED


def verdicts(told: Any) -> set[tuple[str, bool]]:
    return {(one["verdict"], one["provisional"]) for one in told["series"]}


def nightly(
    results: Path, commit: str, level: float, *, runs: int = 6, torch: str = "2.12", **facts: Any
) -> None:
    for _ in range(runs):
        stored(results, commit, (level,), facts={"software": {"torch": torch}, **facts})


def test_commits_under_different_versions_are_provisional(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nightly(tmp_path, OLD, 1.0, nvml={"driver": "580"})
    nightly(tmp_path, NEW, 1.5, torch="2.13\u202e", nvml={"driver": "590"})
    code, told = said(capsys, tmp_path, OLD, NEW)
    assert (code, verdicts(told)) == (EXIT_REGRESSION, {("slower", True)})
    (note,) = told["notes"]
    assert "torch 2.12 there, 2.13\u202e here; driver 580 there, 590 here), and all of" in note
    assert main(["compare", OLD, NEW, "--results", str(tmp_path)]) == EXIT_REGRESSION
    out = capsys.readouterr().out
    assert "slower?" in out and "2.13  here;" in out
    nightly(tmp_path, NEW, 1.5, runs=1, nvml={"driver": "580"})  # the versions overlap
    _, told = said(capsys, tmp_path, OLD, NEW)
    assert (verdicts(told), told["notes"]) == ({("slower", False)}, [])


def test_interleaved_launches_stay_sure_unless_facts_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, torch in enumerate(("2.12", "2.13")):
        results = tmp_path / torch
        first = stored(results, OLD, (1.0,), facts={"software": {"torch": "2.12"}})
        facts = {"software": {"torch": torch}}
        second = stored(results, NEW, (1.5,), facts=facts, interleaved_with=first)
        for path in results.rglob(f"{first}*.gz"):
            path.unlink()
        records = [builders.record(CASES[0], launch, 1 + launch / 1e4) for launch in range(10)]
        pair = {"run_id": first, "commit": OLD, "interleaved_with": second}
        archive.write(results, builders.run(records, facts={"software": {"torch": "2.12"}}, **pair))
        _, told = said(capsys, results, f"run:{first}", f"run:{second}")
        assert verdicts(told) == {("slower", bool(place))}
