"""Code, environment, the machine, the measurement, or unknown: from what moved and what did not."""

from collections.abc import Callable
from typing import Any

import pytest

from hostbench.facts.record import known
from hostbench.judge.causes import Explainer, commits_of
from hostbench.judge.events import Commit, Event, JudgedGrid
from hostbench.report.changes import evidence_lines as why
from hostbench.store.runs import StoredFile
from tests.fakes.history import CASES, NightlyRun, judged, nightly, sha, versions

DriverOf = Callable[[str], str | None]
"""The driver of a run, by its id; None where no facts of it are stored."""


def the_same(run_id: str) -> str:
    return "580.1"


def new_from(night: float) -> DriverOf:
    return lambda run_id: "590.2" if float(run_id.lstrip("runab")) >= night else "580.1"


def step(case: int | None = 3, size: float = 1.1, at: int = 60) -> Any:
    """One series, or all of them, is slower from a night on."""
    return lambda which, run: size if run.commit >= at and case in (None, which) else 1.0


def the_step(found: JudgedGrid, case: int | None = None) -> Event:
    cases = found.grid.cases if case is None else [str(CASES[case])]
    (one,) = [one for one in found.events if one.kind == "step" and one.case in {"", *cases}]
    return one


def explained(
    *histories: JudgedGrid,
    driver: DriverOf = the_same,
    launches: Callable[[str], int] = lambda run_id: 10,
    event: Event | None = None,
) -> Event:
    """An event, else the one step, of the first history."""

    def facts(run: StoredFile) -> Any:
        version = driver(run.run_id)
        return {"before": {"nvml": {"driver": known(version)}}} if version else {}

    ids = {column.run_id for own in histories for column in own.grid.columns}
    runs = {id: StoredFile(run_id=id, launches=launches(id)) for id in ids}
    own = histories[0]
    return Explainer(histories, runs, facts).explain(event or the_step(own), own)


def test_a_step_at_the_same_commit_is_the_environments() -> None:
    runs = [NightlyRun(commit=0, day=n, cases=(3,)) for n in range(120)]
    found = judged(runs, lambda case, run: 1.1 if run.day >= 60 else 1.0)
    event = explained(found, driver=new_from(60))
    assert event.cause == "environment"
    assert why(event) == ["the same commit on both sides", "driver: 580.1 -> 590.2"]
    assert why(explained(found))[1] == "same driver, torch and hardware"
    event = explained(found, launches=lambda id: 20 if id >= "run0060" else 10)
    assert event.cause == "measurement changed"
    assert why(event)[1] == "measured otherwise: launches 10 -> 20"


def test_unchanged_facts_and_new_commits_are_the_codes() -> None:
    event = explained(judged(nightly(120), step()))
    assert event.cause == "code" and why(event)[0] == "same driver, torch and hardware"
    assert why(event)[-1].startswith(f"most likely {sha(60)[:8]}; less likely ")
    landed = [(sha(60), "Copy and wait; twice -> slower"), (sha(59), "Other")]
    assert [*commits_of(event, landed)] == [
        Commit(sha(60), "Copy and wait; twice -> slower", True),
        Commit(sha(59), "Other", False),
    ]


def test_both_changed_and_one_series_moved() -> None:
    event = explained(judged(nightly(120), step()), driver=new_from(60))
    assert event.cause == "code"
    assert why(event)[:2] == [
        "9 of 9 other series of this machine did not move",
        "driver: 580.1 -> 590.2",
    ]


def test_both_changed_and_older_commits_were_measured_again() -> None:
    """The same code, under the new driver: it moved, or it did not."""
    runs = [*nightly(120), *(NightlyRun(commit=n, day=200 + n) for n in (20, 30, 40))]
    slower = judged(runs, lambda case, run: 1.1 if run.day >= 60 and case == 3 else 1.0)
    event = explained(slower, driver=new_from(60))
    assert event.cause == "environment"
    assert why(event)[0] == "3 older points measured again since then have moved as well"
    event = explained(judged(runs, step()), driver=new_from(60))
    assert event.cause == "code"
    assert why(event)[0] == "3 older points measured again since then have not moved"


def test_other_machines_tell_code_from_environment() -> None:
    here = judged(nightly(120), step())
    both = judged(nightly(120), step(), machine="other", seed=1)
    still = judged(nightly(120), step(size=1.0), machine="still", seed=2)
    young = judged(nightly(20), step(size=1.0), machine="young", seed=3)
    event = explained(here, both, still)
    assert event.cause == "code" and why(event)[0] == "also on other"
    assert "still passed these commits without it" in why(explained(here, still, young))
    event = explained(here, both, driver=lambda run_id: None)
    assert event.cause == "code" and "no facts are stored for both sides" in why(event)


@pytest.mark.parametrize(("night", "noise", "is_same"), [(57, 0.005, False), (58, 0.04, True)])
def test_steps_of_two_machines_are_one_as_near_as_their_places_are_sure(
    night: int, noise: float, is_same: bool
) -> None:
    here = judged(nightly(120), step(size=1.12, at=night), noise=noise, seed=1)
    other = judged(nightly(120), step(size=1.12), machine="other")
    one, there = the_step(here), the_step(other)
    apart = there.index - one.index
    assert apart > 1 and (apart <= one.slack + there.slack) == is_same
    lines = why(explained(here, other))
    assert ("also on other" in lines) == is_same
    assert ("other passed these commits without it" in lines) != is_same


def test_a_driver_that_came_to_every_machine_that_night_is_no_evidence_for_the_code() -> None:
    runs = {
        name: [NightlyRun(commit=n, day=n, row={"run_id": f"{name}{n}"}) for n in range(120)]
        for name in "ab"
    }
    here, other = (judged(own, step(None, 1.04), machine=name) for name, own in runs.items())

    event = explained(here, other, driver=new_from(60))
    assert event.cause == "environment"
    assert why(event)[:2] == [
        "10 of 10 series of this machine moved with it",
        "also on b, where the same fact changed",
    ]
    only_here = lambda run_id: new_from(60)(run_id) if run_id[0] == "a" else "1"  # noqa: E731
    assert explained(here, other, driver=only_here).cause == "code"


@pytest.mark.parametrize(
    ("changes_at", "label", "first"),
    [
        (60.5, "environment", "the same commit on both sides"),
        (999, "code", "same driver, torch and hardware"),
    ],
)
def test_a_step_between_two_runs_of_one_commit_is_the_environments(
    changes_at: float, label: str, first: str
) -> None:
    """Commit 60 ran before the driver changed and after it; the neighbours are other commits."""
    found = judged(
        [*nightly(120), NightlyRun(commit=60, day=60.5)],
        lambda case, run: 1.1 if case == 3 and run.day >= 60.5 else 1.0,
    )
    event = explained(found, driver=new_from(changes_at))
    assert (event.cause, why(event)[0]) == (label, first)


def test_where_the_machine_moved_too() -> None:
    def level(case: int, run: NightlyRun) -> float:
        return (1.3 if case == 3 else 1.05) if run.commit >= 60 else 1.0

    found = judged(nightly(120), level)
    (own,) = [one for one in found.events if one.case == str(CASES[3])]
    event = explained(found, event=own)
    assert event.cause == "machine-wide"
    assert "the machine has an event of its own there; this goes beyond it" in why(event)
    other = judged(nightly(120), step(size=1.3), machine="other", seed=1)
    assert explained(found, other, event=own).cause == "code"


def test_breaks_say_what_changed() -> None:
    found = judged(versions(120, 60))
    event = explained(found, event=found.events[0])
    assert (event.cause, why(event)) == ("measurement changed", ["version 1 -> 2"])


def outing(size: float = 1.15, until: int = 58) -> Any:
    """Series 3 is slower from night 45 on, until it is not."""
    return lambda which, run: size if which == 3 and 45 <= run.commit < until else 1.0


def test_temporary_events_of_two_machines_are_held_against_each_other() -> None:
    here = judged(nightly(120), outing())
    (one,) = here.events
    assert one.status == "temporary"
    both = judged(nightly(120), outing(), machine="both", seed=1)
    still = judged(nightly(120), machine="still", seed=2)
    gaps = [run for run in nightly(120) if not 47 < run.commit < 58]
    away = judged(gaps, machine="away", seed=3)  # nobody measured it there
    assert "also on both" in why(explained(here, both, still, away, event=one))
    passed = why(explained(here, still, away, event=one))
    assert "still passed these commits without it" in passed
    stayed = judged(nightly(120), outing(until=120), machine="stayed", seed=4)
    assert explained(here, stayed, event=one) == explained(here, event=one)
    assert not {"also on both", "both passed these commits without it"} & {
        *why(explained(stayed, both))
    }


@pytest.mark.parametrize(("until", "status"), [(58, "temporary"), (100, "recovered")])
def test_what_went_again_on_one_machine_alone_is_not_called_code(until: int, status: str) -> None:
    here = judged(nightly(120), outing(until=until))
    still = judged(nightly(120), machine="still", seed=2)
    both = judged(nightly(120), outing(until=until), machine="both", seed=1)
    one = here.events[0]
    assert one.status == status
    assert explained(here, still, event=one).cause == "unknown"
    assert explained(here, still, event=one, driver=new_from(45)).cause == "environment"
    assert explained(here, still, both, event=one).cause == "code"
    assert explained(here, event=one).cause == "code"
