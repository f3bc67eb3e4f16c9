"""Changes as events of a history: since when, from what to what, over or not, and their names."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from hostbench.judge.events import FAILS, IN_TRIAGE, Event, JudgedGrid, assess
from hostbench.store.triage import Entry
from tests import golden
from tests.fakes.history import LevelOf, NightlyRun, judged, nightly, sha, versions


def only(case: int, *steps: tuple[int, float]) -> LevelOf:
    """One series moves by these factors from these nights on."""

    def level(which: int, run: NightlyRun) -> float:
        value = 1.0
        for night, factor in steps:
            value *= factor if which == case and run.commit >= night else 1.0
        return value

    return level


def another_gpu(night: int) -> dict[str, dict[str, str]]:
    return {f"run{n:06.1f}": {"gpu": "A" if n < night else "B"} for n in range(120)}


def from_60(size: float, *but: int) -> LevelOf:
    """Every series but these is slower by so much from night 60 on."""
    return lambda case, run: size if run.commit >= 60 and case not in but else 1.0


def histories() -> dict[str, JudgedGrid]:
    throttled = {15, 33, 34, *range(60, 69), 73, *range(93, 102), 107, 108}

    def hidden(case: int, run: NightlyRun) -> float:
        return (1.08 if run.commit in throttled else 1.0) * (0.97 if run.commit >= 60 else 1.0)

    thin = [NightlyRun(commit=n, day=n, cases=range(10 if n % 2 else 4)) for n in range(160)]
    again = [NightlyRun(commit=0, day=n, cases=(3,)) for n in range(60)]
    return {
        "a step": judged(nightly(80), only(3, (50, 1.1))),
        "a step of a noisy series": judged(nightly(120), only(3, (60, 1.12)), noise=0.04),
        "up and down again": judged(nightly(120), only(3, (40, 1.1), (80, 1 / 1.1))),
        "up and half down": judged(nightly(120), only(3, (40, 1.2), (80, 1 / 1.09))),
        "a break ends what was before it": judged(versions(120, 80), only(3, (40, 1.1))),
        "a new version is a break and no regression": judged(versions(120, 60), from_60(1.3)),
        "a new GPU as well": judged(nightly(120), from_60(1.3), hardware=another_gpu(60)),
        "the machine moved, but series 7": judged(nightly(120), from_60(1.05, 7)),
        "it is faster, and is throttled then, as now and again": judged(nightly(120), hidden),
        "every second run holds a few series": judged(
            thin, lambda case, run: 1.05 if run.commit >= 81 else 1.0
        ),
        "one commit, thirty times before the machine changed and after": judged(
            again, lambda case, run: 1.1 if run.day >= 30 else 1.0
        ),
    }


def lines() -> Iterator[str]:
    """A line for each event, to two digits."""
    for name, found in histories().items():
        yield name
        for one in found.events:
            size = re.sub(r".*nbytes=(\d+).*@", r"\1@", one.id)
            commits = f"{one.last.commit[:8] if one.last else '-'} -> {one.first.commit[:8]}"
            texts = [f"{one.status} at {one.index}, give or take {one.slack} ({commits})"]
            if one.before_s is not None and one.after_s is not None:
                texts += [f"{one.before_s * 1e3:.2g} ms -> {one.after_s * 1e3:.2g} ms"]
            texts += [f"{one.effect:+.2f} ({one.low:+.2f} to {one.high:+.2f})"]
            texts += [f"{one.detectable:.2f} would be seen", one.reset.text if one.reset else ""]
            texts += [f"{one.moved[0]} of {one.moved[1]} moved"] if one.moved else []
            yield f"  {size} {one.commit[:9]}: {', '.join(filter(None, texts))}"


def test_events_of_histories() -> None:
    golden.check("events", lines())


def test_a_name_lasts_as_the_history_goes_on() -> None:
    names = set()
    for num in (75, 80, 90):
        (one,) = judged(nightly(num), only(3, (50, 1.1))).events
        assert {one.commit, sha(50)} <= {*one.near}
        names.add((one.id, one.commit))
    assert len(names) == 1


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
