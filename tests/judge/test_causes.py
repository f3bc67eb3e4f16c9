"""Code, environment, the machine, the measurement, or unknown: from what moved and what did not."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hostbench.facts.causes import Difference
from hostbench.facts.record import known
from hostbench.judge.causes import Differences, with_cause
from hostbench.judge.events import Event, Evidence, Judged
from hostbench.judge.surroundings import Everything, Surroundings
from hostbench.report.event_words import evidence_lines
from hostbench.report.judged import Explainer
from hostbench.store.runs import AboutRun
from tests.fakes.history import CASES, NightlyRun, judged, nightly, sha

DRIVER = Difference(group="nvml", name="driver", before=known("580.1"), after=known("590.2"))
LANDED = (Evidence(kind="likely commit", commit=sha(60), subject="Copy twice"),)


def step(case: int | None = 3, size: float = 1.1, at: int = 60) -> Any:
    """One series, or all of them, is slower from a night on."""
    return lambda which, run: size if run.commit >= at and case in (None, which) else 1.0


def the_step(found: Judged) -> Event:
    (one,) = [one for one in found.events if one.kind == "step"]
    return one


def why(event: Event) -> tuple[str, ...]:
    """The evidence, as a page words it."""
    return tuple(evidence_lines(event))


def label(
    *histories: Judged,
    facts: tuple[Difference, ...] | None = (),
    commits: tuple[Evidence, ...] = LANDED,
    measuring: tuple[str, ...] = (),
) -> Event:
    """Of the one step of the first history."""
    one = the_step(histories[0])
    seen = Everything(histories).look(one, histories[0])
    return with_cause(one, seen, Differences(commits=commits, facts=facts, measuring=measuring))


def test_a_step_at_the_same_commit_is_the_environments() -> None:
    runs = [NightlyRun(commit=0, day=n, cases=(3,)) for n in range(120)]
    found = judged(runs, lambda case, run: 1.1 if run.day >= 60 else 1.0)
    told = label(found, commits=(), facts=(DRIVER,))
    assert told.cause == "environment"
    assert why(told) == ("the same commit on both sides", "driver: 580.1 -> 590.2")
    assert why(label(found, commits=()))[1] == "same driver, torch and hardware"
    assert label(found, commits=(), measuring=("launches 10 -> 20",)).cause == "measurement changed"


def test_unchanged_facts_and_new_commits_are_the_codes() -> None:
    told = label(judged(nightly(120), step()))
    assert told.cause == "code"
    assert why(told)[0] == "same driver, torch and hardware"
    assert why(told)[-1] == f"most likely {sha(60)[:8]} Copy twice"


def test_both_changed_and_one_series_moved() -> None:
    told = label(judged(nightly(120), step()), facts=(DRIVER,))
    assert told.cause == "code"
    assert why(told)[:2] == (
        "9 of 9 other series of this machine did not move",
        "driver: 580.1 -> 590.2",
    )


def test_both_changed_and_older_commits_were_measured_again() -> None:
    """The same code, under the new driver: it moved, or it did not."""
    again = [NightlyRun(commit=n, day=200 + n) for n in (20, 30, 40)]
    slower = judged(
        [*nightly(120), *again], lambda case, run: 1.1 if run.day >= 60 and case == 3 else 1.0
    )
    told = label(slower, facts=(DRIVER,))
    assert told.cause == "environment"
    assert why(told)[0] == "3 older points measured again since then have moved as well"
    told = label(judged([*nightly(120), *again], step()), facts=(DRIVER,))
    assert told.cause == "code"
    assert why(told)[0] == "3 older points measured again since then have not moved"


def test_other_machines_tell_code_from_environment() -> None:
    here = judged(nightly(120), step())
    both = judged(nightly(120), step(), machine="other", seed=1)
    still = judged(nightly(120), step(size=1.0), machine="still", seed=2)
    young = judged(nightly(20), step(size=1.0), machine="young", seed=3)
    told = label(here, both, still, facts=(DRIVER,))
    assert told.cause == "code"
    assert why(told)[0] == "also on other"
    passed = Everything([here, still, young]).look(the_step(here), here).passed
    assert passed == ("still",)
    assert label(here, both, facts=None).cause == "code"


@pytest.mark.parametrize(("night", "noise", "is_same"), [(57, 0.005, False), (58, 0.04, True)])
def test_steps_of_two_machines_are_one_as_near_as_their_places_are_sure(
    night: int, noise: float, is_same: bool
) -> None:
    here = judged(nightly(120), step(size=1.12, at=night), noise=noise, seed=1)
    other = judged(nightly(120), step(size=1.12), machine="other")
    one, there = the_step(here), the_step(other)
    apart = there.index - one.index
    assert apart > 1 and (apart <= one.slack + there.slack) == is_same
    assert bool(Everything([here, other]).look(one, here).elsewhere) == is_same
    assert bool(Everything([here, other]).look(one, here).passed) != is_same


def test_a_driver_that_came_to_every_machine_that_night_is_no_evidence_for_the_code() -> None:
    here, other = (judged(nightly(120), step(None, 1.04), machine=name) for name in "ab")
    one = the_step(here)

    def told(before: str, after: str) -> Event:
        driver = Difference(group="nvml", name="driver", before=known(before), after=known(after))
        across = {one.group: (DRIVER,), "b": (driver,)}
        seen = Everything([here, other]).look(one, here, lambda event: across[event.group])
        return with_cause(one, seen, Differences(commits=LANDED, facts=(DRIVER,)))

    assert told("570.3", "590.2").cause == "environment"
    assert why(told("570.3", "590.2"))[:2] == (
        "10 of 10 series of this machine moved with it",
        "also on b, where the same fact changed",
    )
    assert told("590.2", "580.1").cause == "code"


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

    def facts(run: Any) -> Any:
        is_new = float(run.run_id.removeprefix("run")) >= changes_at
        return {"before": {"nvml": {"driver": known("590.2" if is_new else "580.1")}}}

    runs = [
        AboutRun(
            run_id=column.run_id,
            machine="box",
            started_at=column.started_at.isoformat(),
            profile="standard",
            launches=10,
            device="cpu",
            by="hostbench",
            complete=True,
            hardware={},
            measured=10,
        )
        for column in found.grid.columns
    ]
    history: Any = SimpleNamespace(runs=lambda: runs, facts=facts, folder=None)
    explainer = Explainer(history, [found], Path.cwd(), "commit")
    told = explainer.tell(the_step(found), found)
    assert (told.cause, why(told)[0]) == (label, first)


def test_where_the_machine_moved_too() -> None:
    def level(case: int, run: NightlyRun) -> float:
        return (1.3 if case == 3 else 1.05) if run.commit >= 60 else 1.0

    found = judged(nightly(120), level)
    (own,) = [one for one in found.events if one.case == str(CASES[3])]
    told = with_cause(
        own, Everything([found]).look(own, found), Differences(commits=LANDED, facts=())
    )
    assert told.cause == "machine-wide"
    assert "the machine has an event of its own there; this goes beyond it" in why(told)
    other = judged(nightly(120), step(size=1.3), machine="other", seed=1)
    told = with_cause(
        own,
        Everything([found, other]).look(own, found),
        Differences(commits=LANDED, facts=(DRIVER,)),
    )
    assert told.cause == "code"  # a driver here, and the same step where there was none


def test_breaks_say_what_changed() -> None:
    runs = [
        NightlyRun(commit=n, day=n, row={"version": "1" if n < 60 else "2"}) for n in range(120)
    ]
    one = judged(runs).events[0]
    told = with_cause(one, Surroundings(), Differences(commits=LANDED, facts=()))
    assert (told.cause, why(told)) == ("measurement changed", ("version 1 -> 2",))


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
    seen = Everything([here, both, still, away]).look(one, here)
    assert (seen.elsewhere, seen.passed) == (("both",), ("still",))
    stayed = judged(nightly(120), outing(until=120), machine="stayed", seed=4)
    assert Everything([here, stayed]).look(one, here) == Everything([here]).look(one, here)
    (step,) = stayed.events
    seen = Everything([stayed, both]).look(step, stayed)
    assert (seen.elsewhere, seen.passed) == ((), ())


@pytest.mark.parametrize(("until", "status"), [(58, "temporary"), (100, "recovered")])
def test_what_went_again_on_one_machine_alone_is_not_called_code(until: int, status: str) -> None:
    here = judged(nightly(120), outing(until=until))
    still = judged(nightly(120), machine="still", seed=2)
    both = judged(nightly(120), outing(until=until), machine="both", seed=1)
    one = here.events[0]
    assert one.status == status

    def told(*others: Judged, facts: tuple[Difference, ...] = ()) -> str:
        seen = Everything([here, *others]).look(one, here)
        return with_cause(one, seen, Differences(commits=LANDED, facts=facts)).cause

    assert told(still) == "unknown"
    assert told(still, facts=(DRIVER,)) == "environment"
    assert told(still, both) == told() == "code"
