"""Code, environment, the machine, the measurement, or unknown: from what moved and what did not."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from hostbench.judge.causes import Explainer, commits_of
from hostbench.judge.events import Commit, Event, JudgedGrid
from hostbench.report.changes import evidence_lines as why
from hostbench.store.runs import StoredFile
from tests import golden
from tests.fakes.history import CASES, LevelOf, NightlyRun, judged, nightly, sha, versions

DriverOf = Callable[[str], str | None]
"""The driver of a run, by its id; None where no facts of it are stored."""


def new_from(night: float) -> DriverOf:
    return lambda run_id: "590.2" if float(run_id.lstrip("runab")) >= night else "580.1"


def step(case: int | None = 3, size: float = 1.1, at: int = 60) -> Any:
    """One series, or all of them, is slower from a night on."""
    return lambda which, run: size if run.commit >= at and case in (None, which) else 1.0


def explained(
    *histories: JudgedGrid, driver: DriverOf = lambda run_id: "580.1", event: Event | None = None
) -> Event:
    """An event, else the one step, of the first history."""

    def facts(run: StoredFile) -> Any:
        version = driver(run.run_id)
        return {"before": {"nvml": {"driver": version}}} if version else {}

    ids = {column.run_id for own in histories for column in own.grid.columns}
    runs = {id: StoredFile(run_id=id) for id in ids}
    own = histories[0]
    if event is None:
        (event,) = (one for one in own.events if not one.is_reset and one.until_index is None)
    return Explainer(histories, runs, facts).explain(event, own)


def outing(until: int) -> Any:
    """Series 3 is slower from night 45 on, until it is not."""
    return lambda which, run: 1.15 if which == 3 and 45 <= run.commit < until else 1.0


def one_machine() -> Iterator[tuple[str, Event]]:
    by_day: LevelOf = lambda case, run: 1.1 if run.day >= 60 and case == 3 else 1.0  # noqa: E731
    found = judged([NightlyRun(commit=0, day=n, cases=(3,)) for n in range(120)], by_day)
    yield "the same commit and a new driver", explained(found, driver=new_from(60))
    yield "the same commit and the same facts", explained(found)
    here = judged(nightly(120), step())
    yield "the same facts and new commits", explained(here)
    yield "new commits and a new driver; one series moved", explained(here, driver=new_from(60))
    again = [*nightly(120), *(NightlyRun(commit=n, day=200 + n) for n in (20, 30, 40))]
    for name, level in (("they moved", by_day), ("they did not", step())):
        event = explained(judged(again, level), driver=new_from(60))
        yield f"older commits measured again under the new driver: {name}", event
    runs = [*nightly(120), NightlyRun(commit=60, day=60.5)]
    found = judged(runs, lambda case, run: 1.1 if case == 3 and run.day >= 60.5 else 1.0)
    for driver, night in (("a new", 60.5), ("the same", 999)):
        event = explained(found, driver=new_from(night))
        yield f"between two runs of commit 60, {driver} driver", event
    found = judged(versions(120, 60))
    yield "a new version", explained(found, event=found.events[0])


def other_machines() -> Iterator[tuple[str, Event]]:
    here = judged(nightly(120), step())
    both = judged(nightly(120), step(), machine="other", seed=1)
    still = judged(nightly(120), machine="still", seed=2)
    young = judged(nightly(20), machine="young", seed=3)
    yield "another machine moved, and one did not", explained(here, both, still)
    yield "one machine did not, and one was not there yet", explained(here, still, young)
    no_facts = explained(here, both, driver=lambda run_id: None)
    yield "another machine moved, and no facts are stored", no_facts

    other = judged(nightly(120), step(size=1.12), machine="other")
    yield "another machine, from commit 60 on", explained(other)
    for night, noise in ((57, 0.005), (58, 0.04)):
        near = judged(nightly(120), step(size=1.12, at=night), noise=noise, seed=1)
        yield f"from commit {night} on, with a noise of {noise:.1%}", explained(near, other)

    runs = {
        name: [NightlyRun(commit=n, day=n, row={"run_id": f"{name}{n}"}) for n in range(120)]
        for name in "ab"
    }
    all_of_a, all_of_b = (judged(own, step(None, 1.04), machine=n) for n, own in runs.items())
    event = explained(all_of_a, all_of_b, driver=new_from(60))
    yield "a driver that came to every machine that night is no evidence for the code", event
    only_a = lambda run_id: new_from(60)(run_id) if run_id[0] == "a" else "1"  # noqa: E731
    yield "a driver that came to one of them", explained(all_of_a, all_of_b, driver=only_a)

    level = lambda case, run: 1.0 if run.commit < 60 else (1.3 if case == 3 else 1.05)  # noqa: E731
    found = judged(nightly(120), level)
    (own,) = [one for one in found.events if one.case == str(CASES[3])]
    yield "the machine moved too", explained(found, event=own)
    larger = judged(nightly(120), step(size=1.3), machine="other", seed=1)
    yield "the machine moved too, and another one by as much", explained(found, larger, event=own)


def what_went_again() -> Iterator[tuple[str, Event]]:
    still = judged(nightly(120), machine="still", seed=2)
    gaps = [run for run in nightly(120) if not 47 < run.commit < 58]
    away = judged(gaps, machine="away", seed=3)
    stayed = judged(nightly(120), outing(120), machine="stayed", seed=4)
    for until in (58, 100):
        here = judged(nightly(120), outing(until))
        both = judged(nightly(120), outing(until), machine="both", seed=1)
        said = partial(explained, here, event=here.events[0])
        yield f"until {until}", said()
        yield f"until {until}, on another machine as well", said(both, still, away)
        yield f"until {until}, not on another one; one did not measure then", said(still, away)
        yield f"until {until}, with a new driver", said(still, driver=new_from(45))
        yield f"until {until}, where on another machine it stayed", said(stayed)
        yield f"it stayed, where on another machine it went at {until}", explained(stayed, both)


def lines() -> Iterator[str]:
    for events in (one_machine, other_machines, what_went_again):
        for name, event in events():
            place = f"at {event.index}, give or take {event.slack}"
            yield f"{name}: {event.cause} ({event.status} {event.effect:+.0%} {place})"
            yield from (f"    {line}" for line in why(event))


def test_what_moved_a_series() -> None:
    golden.check("causes", lines())


def test_the_commits_that_landed() -> None:
    landed = [(sha(60), "Copy and wait; twice -> slower"), (sha(59), "Other")]
    event = explained(judged(nightly(120), step()))
    assert [*commits_of(event, landed)] == [
        Commit(sha(60), "Copy and wait; twice -> slower", True),
        Commit(sha(59), "Other", False),
    ]
