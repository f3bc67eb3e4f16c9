"""A story: machines, commits, series, and everything that happens to them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from hostbench.core.case import Case, parse_selector
from hostbench.core.clock import END_S
from hostbench.core.errors import UsageError
from hostbench.core.noise_family import Family
from hostbench.core.toml import OneLine, decode_toml, refuse
from hostbench.device.base import lacking
from hostbench.device.simulated_file import (
    MARK,
    REMEDY,
    FactValue,
    LinkTable,
    MachineTable,
    check_time,
)
from hostbench.device.simulated_pace import Spread
from hostbench.facts.machine import checked_name
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload

ChangeKind = Literal[
    "code", "environment", "temporary", "version", "failed", "skipped", "missing", "partial"
]
KINDS: dict[ChangeKind, tuple[str, ...]] = {
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
START = datetime(2026, 1, 1, 18, tzinfo=UTC)
DAY_S = 86_400.0
_FACTS = {"nvml": {"driver": "580.1"}, "software": {"torch": "2.12"}, "host": {"kernel": "6.8.0"}}
_MOVED = {"generation": "link", "width": "link", "sigma": "noise"}
_MOVED |= dict.fromkeys(("sessions", "throttling", "drift"), "noise")
"""Keys of a machine in the first form of this file -> the table that they stand in now."""


class HistoryNoise(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """`[machine.noise]`: from run to run. Each series has its own of `family` and `sigma`."""

    family: Family = "gauss"
    sigma: Spread = 0.01
    """From run to run, and from launch to launch."""
    sessions: Spread = 0.0
    """A bias that all series share, drawn anew about every 15 runs."""
    throttling: Annotated[float, Meta(ge=0.0, le=5.0)] = 0.0
    """How much slower all series are in a state that is entered and left at random."""
    drift: Annotated[float, Meta(ge=-0.9, le=5.0)] = 0.0
    """How much slower all series are at the end than at the beginning."""


class StoryMachine(MachineTable, frozen=True, kw_only=True):
    """A simulated machine at the beginning of the history."""

    name: OneLine = ""
    link: LinkTable = LinkTable(generation=5, width=16)
    noise: HistoryNoise = HistoryNoise()

    def __post_init__(self) -> None:
        usual = {group: {**own, **self.facts.get(group, {})} for group, own in _FACTS.items()}
        force_setattr(self, "facts", {**self.facts, **usual})

    def fact_names(self) -> list[str]:
        """`group.name` of each."""
        return [f"{group}.{name}" for group, members in self.facts.items() for name in members]


class StoryEvent(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Something that happens from commit `at` on, and before commit `until` where there is one."""

    kind: ChangeKind
    at: Annotated[int, Meta(ge=0, le=MOST_COMMITS)]
    until: int | None = None
    effect: Annotated[float, Meta(ge=-0.9, le=10.0)] = 0.0
    """Relative change of the seconds: 0.1 is 10 % slower."""
    series: OneLine = ""
    """Which series, as for --case; "" for all."""
    machine: OneLine = ""
    """"" for all."""
    fact: OneLine = ""
    """`group.name` of the fact that an environment event changes, to `value`."""
    value: FactValue = ""
    rerun: bool = False
    """An environment event: its first commit is measured before it and once more after it."""
    share: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.5
    """How much of a partial run was measured."""
    cause: OneLine = ""
    """In words: the commit's message, what somebody did."""

    def __post_init__(self) -> None:
        """Raises ValueError for keys that do not go together."""
        usual = {"effect": 0.0, "series": "", "fact": "", "value": "", "rerun": False, "share": 0.5}
        own = KINDS[self.kind]
        for key, value in usual.items():
            if key not in own and getattr(self, key) != value:
                raise ValueError(f"{key!r} is unknown in {self.kind!r}; there are {', '.join(own)}")
        if self.until is None and self.kind in BRIEF:
            force_setattr(self, "until", self.at + 1)
        if self.until is None and self.kind == "temporary":
            refuse("until", None, "there: a temporary event ends")
        if self.kind == "version" and "[" in self.series:
            refuse("series", self.series, "a workload: all of its cases share a version")
        try:
            parse_selector(self.series or "any")
        except UsageError:
            refuse("series", self.series, "a case, as `hostbench list` prints it")

    def selects(self, case: Case) -> bool:
        return not self.series or parse_selector(self.series).selects(case)

    def happens_to(self, machine: StoryMachine) -> bool:
        return self.machine in ("", machine.name)


class Story(Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """The whole file of `simulate-history --story`."""

    seed: Annotated[int, Meta(ge=0, le=1 << 62)] = 0
    commits: Annotated[int, Meta(ge=1, le=MOST_COMMITS)] = 120
    """One a day."""
    series: int = 24
    """Cases of each machine, spread evenly over all that the simulated device can run."""
    launches: Annotated[int, Meta(ge=1, le=100)] = 7
    start: datetime = START
    """When the first commit was made."""
    machines: tuple[StoryMachine, ...] = field(name="machine", default=())
    events: tuple[StoryEvent, ...] = field(name="event", default=())

    def __post_init__(self) -> None:
        """Name the machines. Raises ValueError for what does not go together."""
        check_time("start", self.start)
        if self.start_s + self.commits * DAY_S > END_S - DAY_S:
            days = f"early enough for {self.commits} days before the end of the year 2261"
            refuse("start", str(self.start), days)
        most = most_series()
        if not 1 <= self.series <= most:
            refuse("series", self.series, f"a whole number from 1 to {most}")
        named = {one.name: one for one in map(_named, self.machines, range(1, MOST_COMMITS))}
        if not 0 < len(named) == len(self.machines) <= MOST_MACHINES:
            limit = f"1 to {MOST_MACHINES} tables with names of their own"
            refuse("machine", [one.name for one in self.machines], limit)
        force_setattr(self, "machines", tuple(named.values()))
        cases = [case for _, case in self.cases()] if self.events else []
        for number, event in enumerate(self.events, 1):
            try:
                _check_event(event, self.commits, named, cases)
                _check_nights(self.events[:number], self.commits)
            except ValueError as error:
                raise ValueError(f"event {number}: {error}") from None

    @property
    def start_s(self) -> float:
        """Seconds since the epoch."""
        return self.start.timestamp()

    def cases(self) -> list[tuple[Workload, Case]]:
        pool = _pool()
        return [pool[place * len(pool) // self.series] for place in range(self.series)]


def most_series() -> int:
    return len(_pool())


def read(path: Path) -> Story:
    """A story that a person wrote. Raises UsageError, which names file, key, value and limit."""
    return decode_toml(path, Story, REMEDY, _upgrade)


def _upgrade(raw: Any) -> None:
    """A machine's link and noise were keys of its own in the first form of this file."""
    for machine in raw.get("machine", ()):
        if isinstance(machine.get("noise"), str):
            machine["noise"] = {"family": machine["noise"]}
        for key, table in _MOVED.items():
            if key in machine:
                machine.setdefault(table, {})[key] = machine.pop(key)


def _pool() -> list[tuple[Workload, Case]]:
    """Every case of a GPU that the simulated device can run: it has no ranks, and lacks some
    abilities."""
    works = [work for work in load_workloads().values() if work.ranks is None]
    pairs = [(work, case) for work in works for case in work.cases()]
    lacks = lacking("simulated", 2)
    return [
        (work, case)
        for work, case in pairs
        if case.values["device"] == "cuda" and not lacks.keys() & set(work.needed(case))
    ]


def _named(machine: StoryMachine, number: int) -> StoryMachine:
    name = machine.name or str(number)
    try:
        return replace(machine, name=checked_name(name if MARK in name else f"{MARK}-{name}"))
    except UsageError as error:
        raise ValueError(f"machine {number}: {error}") from None


def _check_event(
    event: StoryEvent, commits: int, machines: dict[str, StoryMachine], cases: list[Case]
) -> None:
    if event.at >= commits:
        refuse("at", event.at, f"a whole number from 0 to {commits - 1}")
    if event.until is not None and not event.at < event.until <= commits:
        refuse("until", event.until, f"a whole number from {event.at + 1} to {commits}")
    if (event.machine or event.kind in OF_A_MACHINE) and event.machine not in machines:
        refuse("machine", event.machine, f"one of {', '.join(machines)}")
    if event.kind == "environment":
        facts = machines[event.machine].fact_names()
        if event.fact not in facts:
            refuse("fact", event.fact, f"one of {', '.join(facts)}")
        if event.value == "":
            refuse("value", "", "what the fact is from then on")
    if not any(map(event.selects, cases)):
        refuse("series", event.series, f"one of the {len(cases)} that this story has")


def _check_nights(events: tuple[StoryEvent, ...], commits: int) -> None:
    """The last event must leave its machine a run."""
    last = events[-1]
    missing = [one for one in events if (one.kind, one.machine) == ("missing", last.machine)]
    nights = {night for one in missing for night in range(one.at, one.until or commits)}
    if last.kind == "missing" and len(nights) == commits:
        refuse("until", last.until, f"such that {last.machine} has a run left")
