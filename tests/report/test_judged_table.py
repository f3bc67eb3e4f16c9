"""What is kept of a judgement is what judging says, and nothing that befalls it is shown."""

import datetime
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hostbench.cli import main
from hostbench.core.errors import EXIT_FAILED
from hostbench.report import judging
from hostbench.report.choice import Request, choose, events
from hostbench.report.judged import Explainer, judge_history
from hostbench.report.judged_rows import SPARKS
from hostbench.report.judged_table import JudgedTable
from hostbench.report.judging import KeptSets
from hostbench.store import triage
from hostbench.store.history import History
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
    table(results)
    return results


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made.parent, tmp_path, dirs_exist_ok=True, copy_function=shutil.copy2)
    return tmp_path / "results"


def table(results: Path) -> JudgedTable:
    return JudgedTable(History(results), "commit", results.parent)


def sets(results: Path) -> KeptSets:
    return KeptSets.of(History(results), "commit")


def test_it_is_what_judging_and_explaining_say(made: Path) -> None:
    history, found = History(made), table(made)
    judged = judge_history(history, "commit")
    again = judging.restored(KeptSets.of(history, "commit"))
    for here, there in zip(judged, again, strict=True):
        assert np.array_equal(here.grid.logs, there.grid.logs, equal_nan=True)
        assert here.machine == there.machine
        for name in set(here.grid.__slots__) - {"logs"}:
            assert getattr(here.grid, name) == getattr(there.grid, name), name
    explainer = Explainer(history, judged, Path(), "commit")
    pairs = events(choose(judged, Request.read([])))
    told = [explainer.tell(*pair) for pair in pairs]
    rows = found.events()
    assert told
    for one, row in zip(told, rows.to_dict("records"), strict=True):
        event = one.found
        assert row["id"] == event.event.id and row["first_commit"] == event.first.commit
        assert row["first_started_at"] == event.first.started_at
        assert (row["effect"], row["low"], row["high"]) == (
            event.change.effect,
            event.low,
            event.high,
        )
        assert (row["before_s"], row["after_s"]) == (event.before_s, event.after_s)
        assert set(row["near"]) == event.event.near
        assert (row["recent"], row["fails"]) == (one.recent, one.fails)
        assert (row["cause"], tuple(row["evidence"])) == (one.cause.label, one.cause.why)
    assert rows["fails"].sum() == 2


def test_a_series_says_what_it_is_now_and_whether_it_is_judged(made: Path) -> None:
    found = table(made).series()
    assert len(found) == 15
    rows: dict[Any, Any] = {row["id"]: row for row in found.to_dict("records")}
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
    assert table(results).events()["case"].tolist() == [""]
    found = table(results).series().set_index("case")
    moved, stayed = found.drop(index=str(CASES[0])), found.loc[str(CASES[0])]
    assert list(moved["change"]) == pytest.approx([0.3] * len(moved), abs=0.02)
    assert (moved["level"] / moved["level_ago"]).to_list() == pytest.approx(
        [1.3] * len(moved), abs=0.02
    )
    assert stayed["change"] == 0 and pd.isna(stayed["changed_effect"])


def test_only_a_machine_whose_readings_changed_is_judged_again(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = judging._judge

    def counted(history: History, machine: str, *about: Any) -> Any:
        asked.append(machine)
        return real(history, machine, *about)

    monkeypatch.setattr(judging, "_judge", counted)
    assert len(table(results).series()) == 15 and not asked
    write(results, [NightlyRun(commit=NUM, day=NUM)], LEVEL, cases=CASES[:7], machine="two")
    points = table(results).series().set_index("id")["points"]
    assert asked == ["two"]
    assert (points[f"{CASES[0]}@two"], points[f"{CASES[0]}@one"]) == (NUM + 1, NUM)
    assert len([path for path in sets(results).folder.iterdir() if path.is_dir()]) == 3


def test_what_is_damaged_or_cut_off_is_made_anew(results: Path) -> None:
    own = sets(results)
    (own.whole / "series.parquet").write_bytes(b"PAR1 no more")
    (own.machines["one"] / "grids.msgpack").write_bytes(b"\x93")
    (own.folder / ".new-commit-killed").mkdir()
    (own.folder / ".new-run-busy").mkdir()  # of the other axis, whose writer goes on
    assert len(table(results).series()) == 15
    assert [path.name for path in own.folder.glob(".new-*")] == [".new-run-busy"]


def test_the_command_takes_it_over_and_says_the_same(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["changes", "--all", "--format", "json", "--results", str(results)]
    with monkeypatch.context() as patch:
        patch.setattr(judging, "judge_history", lambda *_: pytest.fail("judged again"))
        assert main(command) == EXIT_FAILED
    taken_over = capsys.readouterr().out
    for path in sets(results).machines.values():
        shutil.rmtree(path)
    assert main(command) == EXIT_FAILED
    assert capsys.readouterr().out == taken_over and '"events"' in taken_over


def first(found: JudgedTable) -> dict[Any, Any]:
    """Of machine `one`, its one event."""
    events = found.events()
    (row,) = events[events["machine"] == "one"].to_dict("records")
    return row


def test_triage_counts_when_it_is_read(results: Path) -> None:
    row = first(table(results))
    entry = triage.Entry(
        series=row["id"], since=row["commit"], direction="slower", state="accepted", effect=0.2
    )
    triage.put(results, entry)
    one = first(table(results))
    assert (one["fails"], one["triage"], one["lapsed"]) == (False, "accepted", "")
    triage.put(results, replace(entry, until=datetime.date(2026, 1, 1)))
    one = first(table(results))
    assert (one["fails"], one["lapsed"]) == (True, "expired")
