"""What pages show of a judged history, saved until what is stored changes; triage counts as it is
now, and subjects of commits come from the project of who asks."""

import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest

from hostbench.judge.events import FAILS
from hostbench.judge.history import SPARKS, judge_history
from hostbench.report import history as report
from hostbench.report.changes import causes
from hostbench.report.history import history_of, with_subjects
from hostbench.store.results import Results
from tests.fakes import builders, histories
from tests.fakes.history import CASES, NightlyRun, nightly, write

NUM = 60
TRIED = builders.copy_case(nbytes=1 << 21)


def slower(case: int, run: NightlyRun) -> float:
    """Case 3 is slower by 20 % from commit 30 on."""
    return 1.2 if case == 3 and run.commit >= 30 else 1.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two machines; one has a case that was never measured, and a scratch run."""
    results = tmp_path_factory.mktemp("judged") / "results"
    for machine in ("one", "two"):
        write(results, nightly(NUM), slower, cases=CASES[:7], machine=machine)
    write(results, [NightlyRun(commit=9, day=99)], cases=[TRIED], machine="two", scratch="a try")
    history_of(Results(results))
    return results


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made.parent, tmp_path, dirs_exist_ok=True, copy_function=shutil.copy2)
    return tmp_path / "results"


def test_a_series_says_what_it_is_now_and_whether_it_is_judged(made: Path) -> None:
    history = history_of(Results(made))
    series = {one.id: one for one in history.series}
    assert len(series) == 14  # not the case of the scratch run alone
    step = series[f"{CASES[3]}@one"]
    assert (step.judged, step.points, step.longest) == (True, NUM, NUM)
    assert len(step.sparkline) == SPARKS * 3 / 4
    assert step.sparkline[-1] == pytest.approx(1.2e-3, rel=0.02)
    (cause,) = causes(history.events)
    assert (cause.worst.state, cause.machines, cause.num_series) == (FAILS, ["one", "two"], 2)
    assert cause.sparkline(series) == list(series[cause.worst.id].sparkline)


def test_it_is_judged_once_and_again_when_results_change_or_the_file_is_damaged(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judging = Mock(wraps=judge_history)
    monkeypatch.setattr(report, "judge_history", judging)
    first = history_of(Results(results))
    assert not judging.called
    (saved,) = (Results(results).beside / report.FOLDER).glob("*.msgpack")
    saved.write_bytes(saved.read_bytes()[:99])
    assert history_of(Results(results)) == first and judging.call_count == 1
    write(results, [NightlyRun(commit=NUM, day=NUM)], slower, cases=CASES[:7], machine="two")
    points = {one.id: one.points for one in history_of(Results(results)).series}
    assert (points[f"{CASES[0]}@two"], points[f"{CASES[0]}@one"]) == (NUM + 1, NUM)
    assert judging.call_count == 2 and len([*saved.parent.glob("*.msgpack")]) == 1
    shutil.rmtree(saved.parent)
    saved.parent.write_text("no folder")
    assert len(history_of(Results(results)).series) == 14  # what cannot be saved is judged anew


def test_subjects_are_those_of_the_project_that_asks_whoever_asked_first(tmp_path: Path) -> None:
    cause = "Copy and wait; twice and more -> slower"
    step = {"kind": "code", "at": 30, "effect": 0.2, "cause": cause}
    story = {"commits": 50, "series": 4, "machine": [{"name": "simulated-a"}], "event": [step]}
    results = Results(histories.write(tmp_path / "project", story, git=True))
    elsewhere = with_subjects(history_of(results).events, tmp_path)
    here = with_subjects(history_of(results).events, tmp_path / "project")
    assert not any(own.subject for event in elsewhere for own in event.commits)
    titles = [own.title for own in causes(here)]
    assert titles and all(title.startswith("commit ") for title in titles)
    assert all(title.endswith(f" {cause}") for title in titles)
