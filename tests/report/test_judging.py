"""What a page shows of a judged history is what judging says, saved until the readings change."""

import datetime
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hostbench.report import judging
from hostbench.report.choice import Request, choose, events
from hostbench.report.judged import Explainer, judge_history
from hostbench.report.judged_rows import SPARKS
from hostbench.report.judging import JudgedTables, judged_tables, with_triage
from hostbench.store import triage
from hostbench.store.results import Results
from tests.fakes import builders
from tests.fakes.history import CASES, NightlyRun, nightly, slower_and_failing, write

NUM = 60
LEVEL = slower_and_failing(NUM)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines; one has a case that was never measured, and a scratch run."""
    results = tmp_path_factory.mktemp("judged") / "results"
    for machine in ("one", "two"):
        write(results, nightly(NUM), LEVEL, cases=CASES[:7], machine=machine)
    few = [builders.copy_case(nbytes=1 << 21)]
    write(results, [NightlyRun(commit=9, day=99)], cases=few, machine="two", scratch="a try")
    judged(results)
    return results


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made.parent, tmp_path, dirs_exist_ok=True, copy_function=shutil.copy2)
    return tmp_path / "results"


def judged(results: Path) -> JudgedTables:
    return judged_tables(Results(results), "commit", Path())


def test_events_are_what_judging_and_explaining_say(made: Path) -> None:
    history = Results(made)
    grids = judge_history(history, "commit")
    explainer = Explainer(history, grids, Path(), "commit")
    told = [explainer.tell(*pair) for pair in events(choose(grids, Request.read([])))]
    rows = with_triage(judged(made).events, triage.read(made)).sort_values("id", kind="stable")
    assert told and rows["fails"].sum() == 2
    told.sort(key=lambda one: one.found.event.id)
    for one, row in zip(told, rows.to_dict("records"), strict=True):
        event = one.found
        assert row["id"] == event.event.id and row["first_commit"] == event.first.commit
        assert row["first_started_at"] == event.first.started_at
        effect = (event.change.effect, event.low, event.high, event.before_s, event.after_s)
        assert tuple(row[name] for name in ("effect", "low", "high", "before_s", "after_s")) == (
            effect
        )
        assert set(row["near"]) == event.event.near
        assert (row["recent"], row["fails"]) == (one.recent, one.fails)
        assert (row["cause"], tuple(row["evidence"])) == (one.cause.label, one.cause.why)


def test_a_series_says_what_it_is_now_and_whether_it_is_judged(made: Path) -> None:
    series = judged(made).series
    assert len(series) == 15
    rows: dict[Any, Any] = {row["id"]: row for row in series.to_dict("records")}
    slower, failing = rows[f"{CASES[3]}@one"], rows[f"{CASES[5]}@one"]
    assert slower["judged"] and slower["points"] == NUM and slower["why"] == ""
    assert slower["level"] == pytest.approx(1.2e-3, rel=0.01)
    assert slower["value"] == pytest.approx(1.2e-3, rel=0.02)
    assert (slower["change"], slower["changed_effect"]) == (0, pytest.approx(0.2, abs=0.01))
    assert slower["status"] == "ok" and pd.isna(slower["since_run"])
    assert len(slower["sparkline"]) == SPARKS
    assert failing["status"] == "failed" and np.isnan(failing["value"])
    assert failing["since_committed_at"].day_of_year == NUM - 2
    tried = rows[f"{builders.copy_case(nbytes=1 << 21)}@two"]
    assert not tried["judged"] and tried["why"] == "scratch: a try" and np.isnan(tried["change"])


def test_what_moved_with_its_machine_has_changed(tmp_path: Path) -> None:
    def all_but_one(case: int, run: NightlyRun) -> float:
        return 1.3 if case and run.commit >= NUM - 15 else 1.0

    results = tmp_path / "results"
    write(results, nightly(NUM), all_but_one, cases=CASES, machine="one")
    events, series = judged(results)
    assert events["case"].tolist() == [""]
    by_case = series.set_index("case")
    moved, stayed = by_case.drop(index=str(CASES[0])), by_case.loc[str(CASES[0])]
    assert list(moved["change"]) == pytest.approx([0.3] * len(moved), abs=0.02)
    assert (moved["level"] / moved["level_ago"]).to_list() == pytest.approx(
        [1.3] * len(moved), abs=0.02
    )
    assert stayed["change"] == 0 and pd.isna(stayed["changed_effect"])


def test_it_is_judged_once_and_again_when_readings_change_or_the_file_is_damaged(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Results] = []
    real = judging._judged

    def counted(history: Results, *about: Any) -> JudgedTables:
        asked.append(history)
        return real(history, *about)

    monkeypatch.setattr(judging, "_judged", counted)
    first = judged(results)
    assert not asked
    (saved,) = (Results(results).beside / judging.FOLDER).glob("commit.*")
    (saved / "series.parquet").write_bytes(b"PAR1 no more")
    pd.testing.assert_frame_equal(judged(results).series, first.series, check_dtype=False)
    assert len(asked) == 1
    write(results, [NightlyRun(commit=NUM, day=NUM)], LEVEL, cases=CASES[:7], machine="two")
    points = judged(results).series.set_index("id")["points"]
    assert (points[f"{CASES[0]}@two"], points[f"{CASES[0]}@one"]) == (NUM + 1, NUM)
    assert len(asked) == 2 and len([*saved.parent.glob("commit.*")]) == 1


def test_a_folder_that_cannot_be_written_is_judged_all_the_same(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    shutil.rmtree(Results(results).beside / judging.FOLDER)
    monkeypatch.setattr(judging, "_write", full)
    assert len(judged(results).series) == 15


def test_triage_counts_as_of_today(results: Path) -> None:
    tables = judged(results)
    row = tables.events[tables.events["machine"] == "one"].iloc[0]
    entry = triage.Entry(
        series=row["id"], since=row["commit"], direction="slower", state="accepted", effect=0.2
    )

    def told() -> dict[Any, Any]:
        rows = with_triage(tables.events, triage.read(results))
        return dict(rows[rows["id"] == row["id"]].iloc[0])

    triage.put(results, entry)
    assert (told()["fails"], told()["triage"], told()["lapsed"]) == (False, "accepted", "")
    triage.put(results, replace(entry, until=datetime.date(2026, 1, 1)))
    assert (told()["fails"], told()["lapsed"]) == (True, "expired")
