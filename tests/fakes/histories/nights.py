"""The runs of a machine in a story, and how long each series takes in each of them."""

import math
from dataclasses import dataclass

import numpy as np

from hostbench.core.case import Case
from hostbench.core.noise import Floats, noise, sessions, throttled
from hostbench.device.simulated_file import FactsTable
from hostbench.device.simulated_parts import Link
from hostbench.measure.workload import Workload
from tests.fakes.histories.story import DAY_S, Story, StoryEvent, StoryMachine

NIGHT_S = 8 * 3600.0
"""From a commit to the run that measures it."""
APART_S = 120.0
"""Between the starts of two machines, so that no two runs have one name."""
RERUN_S = 6 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One run of one machine."""

    commit: int
    started_s: float
    is_rerun: bool = False
    """Of a commit that was measured before, after something in the environment changed."""


def nights(story: Story, machine: StoryMachine) -> list[Night]:
    """Every run, the oldest first."""
    own = [event for event in story.events if event.happens_to(machine)]
    first_s = story.start_s + NIGHT_S + APART_S * story.machines.index(machine)
    found = []
    for commit in range(story.commits):
        started_s = first_s + commit * DAY_S
        if any(event.kind == "missing" and lasts(event, commit) for event in own):
            continue
        found.append(Night(commit=commit, started_s=started_s))
        if any(event.rerun and event.at == commit for event in own):
            again_s = started_s + RERUN_S
            found.append(Night(commit=commit, started_s=again_s, is_rerun=True))
    return found


def lasts(event: StoryEvent, commit: int) -> bool:
    return event.at <= commit and (event.until is None or commit < event.until)


def shows(event: StoryEvent, night: Night) -> bool:
    """Whether a run is after the event's beginning and before its end."""
    before = event.rerun and event.at == night.commit and not night.is_rerun
    return lasts(event, night.commit) and not before


def facts_of(story: Story, machine: StoryMachine, night: Night) -> FactsTable:
    """At the time of a run."""
    found = {group: dict(members) for group, members in machine.facts.items()}
    for event in story.events:
        if event.kind == "environment" and event.happens_to(machine) and shows(event, night):
            group, _, name = event.fact.partition(".")
            found[group][name] = event.value
    return found


def seconds(
    story: Story, machine: StoryMachine, runs: list[Night], works: list[tuple[Workload, Case]]
) -> Floats:
    """Medians in seconds, shape (runs, series): the story's changes and the machine's noise."""
    rng = np.random.default_rng([story.seed, story.machines.index(machine)])
    num = len(runs)
    link = machine.link.link()
    logs = np.empty((num, len(works)))
    for place, (work, case) in enumerate(works):
        own = noise(machine.noise.family, num, machine.noise.sigma, rng)
        logs[:, place] = own + math.log(_usual_s(case, work.nbytes(case) or 0, link))
    logs += _shared(machine, num, rng)[:, None]
    for event in story.events:
        if event.effect and event.happens_to(machine):
            rows = [place for place, night in enumerate(runs) if shows(event, night)]
            columns = [place for place, (_, case) in enumerate(works) if event.selects(case)]
            logs[np.ix_(rows, columns)] += math.log1p(event.effect)
    found: Floats = np.exp(logs)
    return found


def launches(medians: Floats, num: int, sigma: float, rng: np.random.Generator) -> Floats:
    """Seconds of each launch, shape (num, series), whose medians are those given."""
    logs = rng.normal(0.0, sigma, (num, len(medians)))
    found: Floats = medians * np.exp(logs - np.median(logs, axis=0))
    return found


def _usual_s(case: Case, nbytes: int, link: Link) -> float:
    """About what the simulated device takes for so many bytes over the link."""
    rate = link.host_to_device_bytes_per_s
    if case.values.get("memory") == "pageable":
        rate = min(rate, link.pageable_bytes_per_s)
    return link.launch_s + link.latency_s + link.wait_s + nbytes / rate


def _shared(machine: StoryMachine, num: int, rng: np.random.Generator) -> Floats:
    """What all series of the machine do together, on the logarithm."""
    slow: Floats = np.linspace(0.0, math.log1p(machine.noise.drift), num)
    slow = slow + sessions(num, machine.noise.sessions, rng)
    return slow + math.log1p(machine.noise.throttling) * throttled(num, rng)
