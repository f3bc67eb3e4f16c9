"""Changes as events of a history: since when, from what to what, over or not, and their names."""

from typing import Any

import pytest
from msgspec import structs

from hostbench.judge.events import FAILS, IN_TRIAGE, Event, JudgedGrid, assess
from hostbench.store.triage import Entry
from tests.fakes.history import CASES, LevelOf, NightlyRun, judged, nightly, sha, versions


def own(found: JudgedGrid) -> list[Event]:
    return [one for one in found.events if one.case]


def only(case: int, *steps: tuple[int, float]) -> LevelOf:
    """One series moves by these factors from these nights on."""

    def level(which: int, run: NightlyRun) -> float:
        value = 1.0
        for night, factor in steps:
            value *= factor if which == case and run.commit >= night else 1.0
        return value

    return level


def test_a_step_has_a_place_two_levels_and_an_interval() -> None:
    (one,) = judged(nightly(80), only(3, (50, 1.1))).events
    assert (one.id, one.commit) == (f"{CASES[3]}@box", sha(50))
    assert one.status == "confirmed" and one.effect > 0
    assert one.last is not None
    assert (one.last.commit, one.first.commit) == (sha(49), sha(50))
    assert one.before_s == pytest.approx(1e-3, rel=0.01)
    assert one.after_s == pytest.approx(1.1e-3, rel=0.01)
    assert one.low is not None and one.high is not None
    assert one.low < 0.1 < one.high and one.high - one.low < 0.02
    assert one.slack == 1 and one.detectable is not None and one.detectable < 0.03


def test_a_name_lasts_as_the_history_goes_on() -> None:
    names = set()
    for num in (75, 80, 90):
        (one,) = judged(nightly(num), only(3, (50, 1.1))).events
        assert {one.commit, sha(50)} <= {*one.near}
        names.add((one.id, one.commit))
    assert len(names) == 1


def test_a_noisy_place_is_known_to_some_points() -> None:
    (one,) = judged(nightly(120), only(3, (60, 1.12)), noise=0.04).events
    assert 1 <= one.slack <= 5 and abs(one.index - 60) <= one.slack
    assert sha(60) in {column.commit for column in one.around}


def test_recovered_stays_in_the_list() -> None:
    up, down = judged(nightly(120), only(3, (40, 1.1), (80, 1 / 1.1))).events
    assert (up.status, down.status) == ("recovered", "confirmed")
    assert up.effect > 0 > down.effect
    up, half = judged(nightly(120), only(3, (40, 1.2), (80, 1 / 1.09))).events
    assert (up.status, half.status) == ("confirmed", "confirmed")


def test_a_break_ends_what_was_before_it() -> None:
    events = own(judged(versions(120, 80), only(3, (40, 1.1))))
    assert [one.status for one in events if one.case == str(CASES[3])] == ["ended", "break"]
    assert {one.why for one in events if one.status == "break"} == {"version 1 -> 2"}


@pytest.mark.parametrize("why", ["version 1 -> 2", "gpu: A -> B"])
def test_another_version_or_machine_is_a_break_and_no_regression(why: str) -> None:
    is_version = why.startswith("version")
    hardware = {f"run{n:06.1f}": {"gpu": "A" if n < 60 or is_version else "B"} for n in range(120)}
    runs = versions(120, 60) if is_version else nightly(120)
    level = lambda case, run: 1.3 if run.commit >= 60 else 1.0  # noqa: E731
    events = judged(runs, level, hardware=hardware).events
    assert {(one.status, one.why) for one in events} == {("break", why)} and len(events) == 10
    assert events[0].effect == pytest.approx(0.3, abs=0.02)


def test_the_machines_own_event_says_how_many_series_it_moved() -> None:
    def level(case: int, run: NightlyRun) -> float:
        return 1.05 if run.commit >= 60 and case != 7 else 1.0

    found = judged(nightly(120), level)
    (machine,) = [one for one in found.events if not one.case]
    assert (machine.id, machine.commit) == ("machine:box", sha(60))
    assert machine.moved == (9, 10) and machine.before_s is None
    assert not [one for one in own(found) if one.case != str(CASES[7])]


def test_points_that_hide_the_machines_step_do_not_say_who_went_along() -> None:
    """It gets faster, and is throttled then, as it is now and again."""
    throttled = {15, 33, 34, *range(60, 69), 73, *range(93, 102), 107, 108}

    def level(case: int, run: NightlyRun) -> float:
        return (1.08 if run.commit in throttled else 1.0) * (0.97 if run.commit >= 60 else 1.0)

    found = judged(nightly(120), level)
    (machine,) = [one for one in found.events if one.status == "confirmed"]
    assert not machine.case and machine.effect == pytest.approx(-0.03, abs=0.01)
    assert machine.moved is None


def test_partial_runs_do_not_blur_the_machine() -> None:
    """Every second run holds only a few series; the machine still gets slower at its place."""
    runs = [NightlyRun(commit=n, day=n, cases=range(10 if n % 2 else 4)) for n in range(160)]
    found = judged(runs, lambda case, run: 1.05 if run.commit >= 81 else 1.0)
    assert [one.id for one in found.events] == ["machine:box"]
    assert abs(found.events[0].index - 81) <= 1


def test_an_old_commit_measured_again_is_named_by_its_run() -> None:
    """Thirty runs of one commit before the machine changed, and thirty after."""
    runs = [NightlyRun(commit=0, day=n, cases=(3,)) for n in range(60)]
    (one,) = judged(runs, lambda case, run: 1.1 if run.day >= 30 else 1.0).events
    assert one.commit == "run0030.0" and one.last
    assert one.first.commit == one.last.commit == sha(0)


def entry_for(event: Event, **changes: Any) -> Entry:
    names = {"series": event.id, "since": event.commit}
    return Entry(**{**names, "state": "accepted", **changes})


@pytest.fixture(scope="module")
def step() -> Event:
    (event,) = judged(nightly(80), only(3, (50, 1.1))).events
    return event


@pytest.mark.parametrize(
    ("changes", "is_named"),
    [
        ({}, True),
        ({"since": sha(51)}, True),
        ({"since": "run0050.0"}, True),
        ({"since": sha(48)}, False),
        ({"series": "machine:box"}, False),
    ],
)
def test_what_triage_says_of_a_step(step: Event, changes: dict[str, Any], is_named: bool) -> None:
    entry = entry_for(step, **changes)
    event = assess(step, [entry])
    assert event.triage == (entry if is_named else None)
    assert (event.fails, event.state) == (not is_named, IN_TRIAGE if is_named else FAILS)
    over = assess(structs.replace(step, status="recovered"), [entry])
    assert (over.fails, over.state) == (False, "recovered")
    faster = assess(structs.replace(step, effect=-0.1), [entry])
    assert faster.triage is None and not faster.fails


def test_the_entry_of_the_very_commit_comes_first(step: Event) -> None:
    near, exact = entry_for(step, since=sha(51), state="noise"), entry_for(step)
    assert assess(step, [near, exact]).triage == assess(step, [exact, near]).triage == exact
