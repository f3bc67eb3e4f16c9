"""What really happened in a story, to hold findings against."""

from typing import Any

from msgspec import to_builtins

from hostbench.core.case import Case
from tests.fakes.histories.nights import Night, facts_of, shows
from tests.fakes.histories.story import Story, StoryEvent, StoryMachine


def truth(story: Story, commits: list[str], of_machines: dict[str, list[tuple[Night, str]]]) -> Any:
    """As plain values. `of_machines`: machine -> its runs with their run ids, the oldest first."""
    cases = [case for _, case in story.cases()]
    return {
        "simulated": True,
        "seed": story.seed,
        "commits": commits,
        "machines": to_builtins(story.machines),
        "series": [str(case) for case in cases],
        "events": [
            about
            for event in story.events
            for machine in story.machines
            if event.happens_to(machine)
            for about in _told(story, cases, event, machine, commits, of_machines[machine.name])
        ],
    }


def _told(
    story: Story,
    cases: list[Case],
    event: StoryEvent,
    machine: StoryMachine,
    commits: list[str],
    runs: list[tuple[Night, str]],
) -> list[dict[str, Any]]:
    """The event on one machine; nothing where no run of it shows it."""
    if event.kind == "missing":
        first = last = sum(night.commit < event.at for night, _ in runs)
    else:
        seen = [place for place, (night, _) in enumerate(runs) if shows(event, night)]
        if not seen:
            return []
        first, last = seen[0], seen[-1] + 1
    before = facts_of(story, machine, runs[max(0, first - 1)][0]) if runs else {}
    group, _, name = event.fact.partition(".")
    return [
        {
            "kind": "recovered" if event.kind == "code" and event.until else event.kind,
            "machine": machine.name,
            "series": [str(case) for case in cases if event.selects(case)],
            "effect": event.effect,
            "first_bad_commit": commits[event.at],
            "first_bad_run": runs[first][1] if first < len(runs) else None,
            "index": first,
            "until_commit": next(iter(commits[event.until or len(commits) :]), None),
            "until_index": last if event.until is not None else None,
            "fact": event.fact or None,
            "before": before.get(group, {}).get(name),
            "after": event.value or None,
            "cause": event.cause,
        }
    ]
