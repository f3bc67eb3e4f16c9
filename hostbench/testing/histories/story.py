"""A story: machines, commits, series, and everything that happens to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hostbench.core.case import Case, parse_selector
from hostbench.core.clock import END_S, epoch_s
from hostbench.core.errors import UsageError
from hostbench.core.noise import FAMILIES
from hostbench.core.pcie import GT_PER_S, LANES
from hostbench.core.toml_file import Table, load
from hostbench.device.simulated_file import MARK
from hostbench.facts.machine import checked_name
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload

KINDS = {
    "code": ("effect", "series"),
    "environment": ("effect", "series", "fact", "value", "rerun"),
    "temporary": ("effect", "series"),
    "version": ("effect", "series"),
    "failed": ("series",),
    "skipped": ("series",),
    "missing": (),
    "partial": ("share",),
}
"""What can happen -> the keys that say how, beside those that every event has."""
OF_A_MACHINE = ("environment", "temporary", "missing", "partial")
"""Kinds that say which machine they happen to; the others happen to all, or to one."""
BRIEF = ("failed", "skipped", "missing", "partial")
"""Kinds that last for one commit where no end is given."""
MOST_MACHINES, MOST_COMMITS = 100, 10_000
START = "2026-01-01T18:00:00.000Z"
DAY_S = 86_400.0
_REMEDY = "docs/simulation.md has every key"
_STORY = ("seed", "commits", "series", "launches", "start", "machine", "event")
_MACHINE = tuple("name generation width noise sigma sessions throttling drift facts".split())
_EVENT = ("kind", "at", "until", "machine", "cause")
_FACTS = {"nvml.driver": "580.1", "software.torch": "2.12", "host.kernel": "6.8.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A simulated machine and its noise. `sigma` and `sessions` are on the logarithm of seconds."""

    name: str
    generation: int = 5
    width: int = 16
    noise: str = "gauss"
    """Family of each series' own noise (`hostbench.core.noise`)."""
    sigma: float = 0.01
    sessions: float = 0.0
    """Standard deviation of a bias that all series share, drawn anew about every 15 runs."""
    throttling: float = 0.0
    """How much slower all series are in a state that is entered and left at random."""
    drift: float = 0.0
    """How much slower all series are at the end than at the beginning."""
    facts: dict[str, str] = field(default_factory=lambda: dict(_FACTS))
    """`group.name` -> value at the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happens from commit `at` on, and before commit `until` where there is one."""

    kind: str
    at: int
    until: int | None = None
    effect: float = 0.0
    """Relative change of the seconds: 0.1 is 10 % slower."""
    series: str = ""
    """Which series, as for --case; "" for all."""
    machine: str = ""
    """"" for all."""
    fact: str = ""
    """`group.name` of the fact that an environment event changes, to `value`."""
    value: str = ""
    rerun: bool = False
    """An environment event: its first commit is measured before it and once more after it."""
    share: float = 0.5
    """How much of a partial run was measured."""
    cause: str = ""
    """In words: the commit's message, what somebody did."""

    def selects(self, case: Case) -> bool:
        return not self.series or parse_selector(self.series).selects(case)

    def happens_to(self, machine: Machine) -> bool:
        return self.machine in ("", machine.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    seed: int = 0
    commits: int = 120
    """One a day."""
    series: int = 24
    """Cases of each machine, spread evenly over all that the simulated device can run."""
    launches: int = 7
    start_s: float = epoch_s(START)
    """When the first commit was made, seconds since the epoch."""
    machines: tuple[Machine, ...]
    events: tuple[Event, ...] = ()

    def cases(self) -> list[tuple[Workload, Case]]:
        pool = _pool()
        return [pool[place * len(pool) // self.series] for place in range(self.series)]


def most_series() -> int:
    return len(_pool())


def read(path: Path) -> Story:
    """A story that a person wrote. Raises UsageError, which names file, key, value and limit."""
    table = load(path, _REMEDY).only(_STORY)
    start = table.time("start") or START
    machines = tuple(_machine(one, num) for num, one in enumerate(table.tables("machine"), 1))
    named = {machine.name: machine for machine in machines}
    if not named or len(named) < len(machines) or len(named) > MOST_MACHINES:
        table.refuse("machine", f"1 to {MOST_MACHINES} tables with names of their own")
    commits = table.whole("commits", 120, 1, MOST_COMMITS)
    story = Story(
        seed=table.whole("seed", 0, 0, 1 << 62),
        commits=commits,
        series=table.whole("series", 24, 1, most_series()),
        launches=table.whole("launches", 7, 1, 100),
        start_s=epoch_s(start),
        machines=machines,
        events=tuple(_event(one, commits, named) for one in table.tables("event")),
    )
    if story.start_s + commits * DAY_S > END_S - DAY_S:
        table.refuse("start", f"early enough for {commits} days before the end of the year 2261")
    cases = [case for _, case in story.cases()]
    missing: dict[str, set[int]] = {}
    for one, event in zip(table.tables("event"), story.events, strict=True):
        if not any(map(event.selects, cases)):
            one.refuse("series", f"one of the {len(cases)} that this story has")
        if event.kind == "missing" and event.until is not None:
            nights = missing.setdefault(event.machine, set())
            nights.update(range(event.at, event.until))
            if len(nights) == commits:
                one.refuse("until", f"such that {event.machine} has a run left")
    return story


def _pool() -> list[tuple[Workload, Case]]:
    """Every case of a GPU that one process runs alone: the simulated device has no ranks."""
    works = [work for work in load_workloads().values() if work.ranks is None]
    pairs = [(work, case) for work in works for case in work.cases()]
    return [(work, case) for work, case in pairs if case.values["device"] == "cuda"]


def _machine(table: Table, number: int) -> Machine:
    table.only(_MACHINE)
    name = table.text("name", f"{MARK}-{number}")
    declared = {
        f"{group}.{fact}": table.table("facts").table(group).text(fact)
        for group in table.table("facts").only(("host", "software", "nvml", "gpu0")).values
        for fact in table.table("facts").table(group).values
    }
    return Machine(
        name=checked_name(name if MARK in name else f"{MARK}-{name}"),
        generation=table.whole("generation", 5, 1, max(GT_PER_S)),
        width=table.one_of("width", 16, LANES),
        noise=table.text("noise", "gauss", FAMILIES),
        sigma=table.number("sigma", 0.01, 0.0, 0.5),
        sessions=table.number("sessions", 0.0, 0.0, 0.5),
        throttling=table.number("throttling", 0.0, 0.0, 5.0),
        drift=table.number("drift", 0.0, -0.9, 5.0),
        facts={**_FACTS, **declared},
    )


def _event(table: Table, commits: int, machines: Mapping[str, Machine]) -> Event:
    kind = table.text("kind", choices=tuple(KINDS))
    table.only((*_EVENT, *KINDS[kind]))
    at = table.whole("at", -1, 0, commits - 1)
    end = at + 1 if kind in BRIEF else 0
    until = table.whole("until", end, at + 1, commits) if end or "until" in table.values else None
    if kind == "temporary" and until is None:
        table.refuse("until", "there: a temporary event ends")
    machine = table.text("machine")
    if (machine or kind in OF_A_MACHINE) and machine not in machines:
        table.refuse("machine", f"one of {', '.join(machines)}")
    fact, value = table.text("fact"), table.text("value")
    if kind == "environment" and fact not in machines[machine].facts:
        table.refuse("fact", f"one of {', '.join(machines[machine].facts)}")
    if kind == "environment" and not value:
        table.refuse("value", "what the fact is from then on")
    return Event(
        kind=kind,
        at=at,
        until=until,
        effect=table.number("effect", 0.0, -0.9, 10.0),
        series=_series(table, kind),
        machine=machine,
        fact=fact,
        value=value,
        rerun=table.flag("rerun"),
        share=table.number("share", 0.5, 0.0, 1.0),
        cause=table.text("cause"),
    )


def _series(table: Table, kind: str) -> str:
    text = table.text("series")
    if kind == "version" and "[" in text:
        table.refuse("series", "a workload: all of its cases share a version")
    if text:
        try:
            parse_selector(text)
        except UsageError:
            table.refuse("series", "a case, as `hostbench list` prints it")
    return text
