"""`hostbench changes` over what is stored: the page, the exit code, other formats, damage."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from hostbench.core.case import as_typed
from hostbench.core.errors import EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION, EXIT_USAGE
from hostbench.store import archive
from tests import asv_project, golden
from tests.commands import Done, hostbench
from tests.fakes import builders
from tests.fakes import histories as trees
from tests.fakes import history as histories
from tests.fakes.history import LevelOf, NightlyRun, flat, nightly, sha

NIGHTS = 70
CASES = [builders.copy_case(nbytes=1 << n) for n in range(10, 18)]
TWO = CASES[:2]
"""Enough where nothing is said of the machine."""


def store(results: Path, level: LevelOf, nights: int = NIGHTS, **more: Any) -> None:
    """A run each night of another commit."""
    histories.write(results, nightly(nights), level, **{"cases": CASES, **more})


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A code step in one series, one that recovered, one that got faster, and a driver upgrade."""
    results = tmp_path_factory.mktemp("made") / "results"

    def level(case: int, run: NightlyRun) -> float:
        own = {
            1: 1.2 if run.commit >= 40 else 1.0,
            2: 1.3 if 12 <= run.commit < 42 else 1.0,
            3: 0.8 if run.commit >= 45 else 1.0,
        }
        return own.get(case, 1.0) * (1.05 if run.commit >= 25 else 1.0)

    store(results, level, driver=lambda run: "590.2" if run.commit >= 25 else "580.1")
    return results


@pytest.fixture
def copied(history: Path, tmp_path: Path) -> Path:
    """The history, to be changed; with its table, where there is one."""
    return shutil.copytree(history.parent, tmp_path / "copied") / history.name


def changes(results: Path, *args: str) -> Done:
    return hostbench("changes", *args, "--results", results, code=None)


def test_the_page(history: Path, tmp_path: Path) -> None:
    code, out, err = changes(history)
    assert (code, err) == (EXIT_REGRESSION, "")
    store(tmp_path, lambda case, run: 1.2 if case in (1, 4) and run.commit >= 20 else 1.0, 30)
    pages = {
        "what fails, and why": out,
        "all, as Markdown": changes(history, "--all", "--format", "md")[1],
        "two series with one cause": changes(tmp_path)[1],
        "two series with one cause, as Markdown": changes(tmp_path, "--format", "md")[1],
    }
    golden.check("changes", (f"==== {name}\n{page}" for name, page in pages.items()))


def test_json_and_csv_have_every_event(history: Path) -> None:
    code, out, _ = changes(history, "--format", "json")
    page = json.loads(out)
    assert code == EXIT_REGRESSION
    failing = [event for event in page["events"] if event["fails"]]
    assert [event["series"] for event in failing] == ["machine:shelf", f"{CASES[1]}@shelf"]
    assert (failing[1]["commit"], failing[1]["cause"]) == (sha(40), "code")
    assert failing[1]["why"].startswith("same driver, torch and hardware; ")
    assert {event["state"] for event in page["events"]} == {"fails now", "faster", "recovered"}
    rows = csv.DictReader(io.StringIO(changes(history, "--format", "csv")[1]))
    assert [row["series"] for row in rows] == [event["series"] for event in page["events"]]


def test_what_is_asked_for(history: Path) -> None:
    size = CASES[4].values["nbytes"]
    code, out, _ = changes(history, f"transfer[nbytes={size}]")
    assert code == EXIT_REGRESSION and "machine:shelf" in out  # the machine it runs on
    code, _, err = changes(history, "overlap@shelf")
    assert code == EXIT_NOTHING_MEASURED and "no run that may be judged is stored" in err
    code, _, err = changes(history, "nonsense.x", "transfer")
    assert code == EXIT_USAGE and "'nonsense.x' selects no case" in err
    assert changes(history, f"transfer[nbyte={size}]")[0] == EXIT_USAGE
    code, _, err = changes(history, "--machine", "attic")
    assert code == EXIT_NOTHING_MEASURED and "there are: shelf" in err
    assert changes(history, "transfer[")[0] == EXIT_USAGE
    assert changes(history, f"{CASES[1]} version 2@shelf") == changes(history, str(CASES[1]))


def test_the_other_machines_are_evidence_for_the_one_asked_for(copied: Path) -> None:
    store(copied, flat, 50, machine="attic")
    out = changes(copied, "--machine", "shelf")[1]
    assert "attic passed these commits without it" in out and "@attic" not in out
    assert "8 series judged" in out


def test_what_triage_has_taken_up_does_not_fail(copied: Path) -> None:
    """One of the two events is accepted, then the other as well."""

    def say(*words: str) -> Done:
        return hostbench("triage", *words, "--results", copied, code=None)

    name = f"{CASES[1]}@shelf"
    code, out, err = say(name, sha(40)[:9], "noise")
    assert code == EXIT_OK and out.endswith("it applies to 1 event\n") and err == ""
    (path,) = (copied / "triage").iterdir()
    assert json.loads(path.read_text())["since"] == sha(40)
    say(as_typed(name), sha(40)[:11], "accepted", "--note", "the | checksum")  # as it is printed
    assert as_typed(name) != name and list((copied / "triage").iterdir()) == [path]
    assert as_typed(name) in say()[1]
    code, out, err = changes(copied)
    assert (code, err) == (EXIT_REGRESSION, "")
    assert "in triage" in out and "; triage: accepted, the | checksum" in out
    about = {"series": "machine:shelf", "since": sha(25), "state": "expected"}
    other = copied / "triage" / "half.txt"
    other.write_text(json.dumps({**about, "effect": 0.01}))  # of what nobody reads any more
    code, out, _ = changes(copied)
    assert code == EXIT_OK and "; triage: expected\n" in out
    other.write_text("{}")
    assert "half.txt" in changes(copied)[2]
    say(f"{CASES[2]}@shelf", sha(12)[:9], "investigating")
    assert any(line.startswith("recovered") for line in changes(copied, "--all")[1].splitlines())
    code, _, err = say(name, "no-such", "noise")
    assert code == EXIT_USAGE and "'no-such' is not a commit that git knows here" in err


@pytest.mark.parametrize(
    ("start", "reset", "said"),
    [
        (15, NIGHTS, "\nstill slower  "),
        (30, NIGHTS - 5, "\nended  "),
        (15, NIGHTS - 5, "not listed: 1 ended"),
    ],
)
def test_what_is_old_or_ended_by_a_reset_fails_no_more(
    tmp_path: Path, start: int, reset: int, said: str
) -> None:
    """After a reset there are too few points to judge anew; what was before it was judged."""
    store(
        tmp_path,
        lambda case, run: 1.2 if case == 1 and run.commit >= start else 1.0,
        cases=TWO,
        version=lambda run: "2" if run.commit >= reset else "1",
    )
    code, out, _ = changes(tmp_path)
    assert code == EXIT_OK and said in out
    assert "2 series judged along commits, 0 too short (fewer than 11 points)" in out


def test_levels_on_two_sides_of_a_reset_are_never_compared(tmp_path: Path) -> None:
    """The new version takes half as long; nothing says so, in any form."""
    store(
        tmp_path,
        lambda case, run: 0.5 if run.commit >= 20 else 1.0,
        nights=35,
        cases=TWO,
        version=lambda run: "2" if run.commit >= 20 else "1",
    )
    _, text, _ = changes(tmp_path)
    (line,) = (one for one in text.splitlines() if one.startswith("baseline reset: "))
    assert line.endswith(": 2 series on shelf") and "%" not in line
    rows = list(csv.DictReader(io.StringIO(changes(tmp_path, "--format", "csv")[1])))
    of_resets = [row for row in rows if row["state"] == "baseline reset"]
    assert len(of_resets) == len(TWO)
    for row in of_resets:
        assert not any(row[key] for key in ("effect", "low", "high", "before_s", "after_s"))


def test_nothing_to_judge(tmp_path: Path) -> None:
    code, _, err = changes(tmp_path)
    assert code == EXIT_NOTHING_MEASURED and "no run that may be judged is stored" in err
    archive.write(tmp_path, builders.run([builders.record(CASES[0])], scratch="quick"))
    assert "1 point left out: 1 scratch" in changes(tmp_path)[2]
    few = [builders.record(CASES[0], launch) for launch in range(6)]
    archive.write(tmp_path, builders.run(few, run_id="20261121T120000Z-x-2"))
    assert "2 points left out: 1 of fewer than 7 launches, 1 scratch" in changes(tmp_path)[2]
    enough = [builders.record(CASES[0], launch) for launch in range(7)]
    archive.write(tmp_path, builders.run(enough, run_id="20261121T120000Z-x-3"))
    code, out, err = changes(tmp_path)
    assert code == EXIT_NOTHING_MEASURED and "1 too short" in out
    assert "the longest piece has 1, 11 are needed" in err
    assert changes(tmp_path / "absent")[0] == EXIT_NOTHING_MEASURED


def test_another_projects_tree(tmp_path: Path) -> None:
    """No facts, and commits that no git knows."""
    asv_project.write(tmp_path, [sha(night) for night in range(40)], ["left"])
    code, out, err = changes(tmp_path, "suite_1", "--all")
    assert err == "" and code in (EXIT_OK, EXIT_REGRESSION)
    assert "facts are not stored for both sides" in out and "@left" in out
    judged = next(line for line in out.splitlines() if "judged along" in line)
    assert judged.startswith(f"{sum(map(asv_project.series_of, range(1, 200, 10)))} series")


def test_a_simulated_history_is_told_with_its_causes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("simulated-a", "simulated-b")
    works = trees.cases_of(12)
    (first, second, third), new = (str(case) for _, case in works[:3]), works[4][0]
    code = [
        {"at": 20, "effect": 0.1, "series": first, "cause": "Copy twice"},
        {"at": 30, "until": 55, "effect": 0.15, "series": second, "cause": "Wait; then copy"},
        {"at": 40, "effect": -0.1, "series": third, "cause": "Copy once"},
    ]
    events = [
        *({"kind": "code", **own} for own in code),
        {"kind": "version", "at": 50, "effect": -0.2, "series": new.name},
        {"kind": "environment", "at": 35, "machine": names[0], "effect": 0.04}
        | {"fact": "nvml.driver", "value": "590.7"},
    ]
    story = {"commits": 80, "series": 12, "machine": [{"name": name} for name in names]}
    trees.write(tmp_path, {**story, "event": events}, git=True)
    monkeypatch.chdir(tmp_path)  # git has the commits
    page = json.loads(changes(tmp_path / "results", "--format", "json")[1])
    steps = {(event["series"], event["cause"]): event for event in page["events"]}
    for own in code:
        for name in names:
            assert own["cause"] in steps.pop((f"{own['series']}@{name}", "code"))["why"]
    assert "driver: 580.1 -> 590.7" in steps.pop(("machine:simulated-a", "environment"))["why"]
    of_version = f"version {new.version} -> {int(new.version) + 1}"
    assert {event["why"] for event in steps.values()} == {of_version}
