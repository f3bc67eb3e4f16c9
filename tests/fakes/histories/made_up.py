"""A story that a seed makes up: everything that can happen, somewhere in the history."""

import itertools

import numpy as np

from hostbench.core.errors import UsageError
from hostbench.core.noise_family import FAMILIES
from hostbench.core.pcie import Lanes
from hostbench.device.simulated_file import MARK, LinkTable
from tests.fakes.histories.story import (
    MOST_COMMITS,
    MOST_MACHINES,
    ChangeKind,
    HistoryNoise,
    Story,
    StoryEvent,
    StoryMachine,
    most_series,
)

LEAST_COMMITS = 40
_LINKS: tuple[tuple[int, Lanes], ...] = ((5, 16), (4, 16), (5, 8), (3, 16))
_SIGMAS = (0.005, 0.01, 0.02)
_CHANGES = (0.02, 0.05, 0.10, 0.20)
_POINTS_A_CHANGE = 5_000
"""Points of one machine for which the code changes once more."""


def made_up(*, machines: int = 3, commits: int = 120, series: int = 24, seed: int = 0) -> Story:
    """Raises UsageError for a number that is out of range."""
    for name, value, low, high in (
        ("--machines", machines, 1, MOST_MACHINES),
        ("--commits", commits, LEAST_COMMITS, MOST_COMMITS),
        ("--series", series, 1, most_series()),
        ("--seed", seed, 0, 1 << 62),
    ):
        if not low <= value <= high:
            raise UsageError(f"{name} {value} is not within {low} to {high}")
    rng = np.random.default_rng(seed)
    plain = Story(
        seed=seed,
        commits=commits,
        series=series,
        machines=tuple(_machine(number) for number in range(machines)),
    )
    cases = [str(case) for _, case in plain.cases()]
    events = [*_code(commits, cases, rng), *_elsewhere(plain, cases, rng)]
    events.sort(key=lambda event: event.at)
    return Story(
        seed=seed, commits=commits, series=series, machines=plain.machines, events=tuple(events)
    )


def _machine(number: int) -> StoryMachine:
    generation, width = _LINKS[number % len(_LINKS)]
    return StoryMachine(
        name=f"{MARK}-{number + 1}",
        link=LinkTable(generation=generation, width=width),
        noise=HistoryNoise(
            family=FAMILIES[number % len(FAMILIES)],
            sigma=_SIGMAS[number % len(_SIGMAS)],
            sessions=0.01 if number % 3 == 1 else 0.0,
            throttling=0.08 if number % 4 == 2 else 0.0,
            drift=0.02 if number % 5 == 4 else 0.0,
        ),
    )


def _code(commits: int, cases: list[str], rng: np.random.Generator) -> list[StoryEvent]:
    """Regressions, improvements, a regression that was mended, a new version."""
    found = []
    for _ in range(2 + commits * len(cases) // _POINTS_A_CHANGE):
        effect = float(rng.choice(_CHANGES) * rng.choice([1.0, 1.0, -1.0]))
        at, series = int(rng.integers(commits // 8, commits - 10)), str(rng.choice(cases))
        cause = f"Rewrite {series.partition('[')[0]}"
        found.append(StoryEvent(kind="code", at=at, effect=effect, series=series, cause=cause))
    begin, series = commits // 5, str(rng.choice(cases))
    workload = str(rng.choice(cases)).partition("[")[0]
    return [
        *found,
        StoryEvent(
            kind="code",
            at=begin,
            until=begin + commits // 5,
            effect=0.15,
            series=series,
            cause=f"Copy twice in {series.partition('[')[0]}",
        ),
        StoryEvent(
            kind="version",
            at=2 * commits // 3,
            effect=-0.2,
            series=workload,
            cause=f"{workload}: leave the check out of the timer",
        ),
    ]


def _elsewhere(story: Story, cases: list[str], rng: np.random.Generator) -> list[StoryEvent]:
    """What happened to single machines, each kind to another one while there are enough."""
    commits = story.commits
    names = itertools.cycle([machine.name for machine in story.machines])

    def fact(at: int, name: str, value: str, effect: float, rerun: bool, cause: str) -> StoryEvent:
        return StoryEvent(
            kind="environment",
            at=at,
            machine=next(names),
            fact=name,
            value=value,
            effect=effect,
            rerun=rerun,
            cause=cause,
        )

    def brief(
        kind: ChangeKind, at: int, num: int, series: str = "", effect: float = 0.0
    ) -> StoryEvent:
        return StoryEvent(
            kind=kind,
            at=at,
            until=min(at + num, commits),
            machine=next(names),
            series=series,
            effect=effect,
            cause=f"simulated: {kind}",
        )

    return [
        fact(commits // 2, "nvml.driver", "590.7", 0.04, True, "the driver was brought up to date"),
        fact(3 * commits // 5, "software.torch", "2.13", 0.0, False, "a new torch"),
        fact(9 * commits // 20, "host.kernel", "6.12.0", -0.03, False, "a new kernel"),
        brief("temporary", 4 * commits // 5, 9, str(rng.choice(cases)), 0.3),
        brief("failed", commits // 3, 2, str(rng.choice(cases))),
        brief("skipped", commits // 10, 4, str(rng.choice(cases))),
        brief("missing", 3 * commits // 4, 3),
        brief("partial", 7 * commits // 10, 1),
    ]
