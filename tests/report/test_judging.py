"""What a page shows of a judged history is what judging says, saved until the readings change."""

import datetime
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec import structs

from hostbench.core.clock import today
from hostbench.judge.events import Event, Evidence
from hostbench.report import judging
from hostbench.report.causes import FAILS, IN_TRIAGE, OVER, event_rows, state, title
from hostbench.report.choice import Request, choose, events
from hostbench.report.event_words import evidence_lines
from hostbench.report.judged import Explainer, assessed, judge_history
from hostbench.report.judged_rows import SPARKS
from hostbench.report.judging import JudgedTables, judged_tables
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
    stored = [assessed(event, triage.read(made), today()) for event in judged(made).events]
    assert stored == told and sum(event.fails for event in told) == 2
    rows = event_rows(stored)
    assert rows["id"].tolist() == [event.id for event in told]
    assert rows["first_started_at"].tolist() == [event.first.started_at for event in told]


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
    assert [event.case for event in events] == [""]
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
    stored = judged(results).events
    (event,) = (one for one in stored if one.machine == "one")
    entry = triage.Entry(
        series=event.id, since=event.commit, direction="slower", state="accepted", effect=0.2
    )

    def now(found: Event) -> tuple[bool, str, str]:
        found = assessed(found, triage.read(results), today())
        return found.fails, found.lapsed, state(found)

    triage.put(results, entry)
    assert now(event) == (False, "", IN_TRIAGE)
    assert now(structs.replace(event, status="recovered")) == (False, "", OVER)
    triage.put(results, replace(entry, until=datetime.date(2026, 1, 1)))
    assert now(event) == (True, "expired", FAILS)


def test_a_title_has_the_whole_first_line_of_the_commit(made: Path) -> None:
    event = judged(made).events[0]
    subject = "Copy and wait; twice and more -> slower"
    likely = Evidence(kind="likely commit", commit="c" * 40, subject=subject)
    beside = Evidence(kind="commit beside", commit="d" * 40, subject="Other")
    event = structs.replace(event, cause="code", evidence=(likely, beside))
    assert title(event) == f"commit {event.first.commit[:8]} {subject}"
    assert evidence_lines(event) == [f"most likely cccccccc {subject}; less likely dddddddd Other"]
