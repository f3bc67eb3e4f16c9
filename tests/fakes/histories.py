"""Trees of results whose changes are known, from a plain dict. Nothing in them is measured.

    write(folder, {
        "commits": 90, "series": 12, "seed": 3,
        "machine": [{"name": "simulated-a", "facts": {"nvml": {"driver": "580.1"}}}],
        "event": [{"kind": "code", "at": 60, "effect": 0.1, "series": "transfer.host_to_device"}],
    })

writes an archive for each night of each machine below folder/results, and folder/truth.json: what
really happened. The keys of a machine and of an event are the fields of `Machine` and `Event`.
The same story gives the same bytes. `scripts/simulate-history` reads one from a TOML file, and
`made_up` makes one from a seed.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct, convert, field
from msgspec.structs import asdict

from hostbench import __version__
from hostbench.core.arrays import Floats
from hostbench.core.asv_names import asv_name
from hostbench.core.case import Case, parse_selector
from hostbench.core.clock import iso
from hostbench.core.pcie import packet_bytes_per_s
from hostbench.core.records import CaseRecord, Finish, Run, RunHeader, Status
from hostbench.device.base import lacking
from hostbench.device.simulated_file import MARK, Link, Simulation
from hostbench.facts import to_json
from hostbench.facts.record import known
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload
from hostbench.runner.places import run_id
from hostbench.store import archive
from hostbench.vcs.repo import run_git

DAY_S, NIGHT_S, RERUN_S = 86_400.0, 8 * 3600.0, 6 * 3600.0
"""From commit to commit, from a commit to its run, and from a run to the second of its commit."""
APART_S = 120.0
"""Between the starts of two machines, so that no two runs have one name."""
LASTED_S = 1800.0
FACTS = {"nvml": {"driver": "580.1"}, "software": {"torch": "2.12"}, "host": {"kernel": "6.8.0"}}
WHO = "A Story <story@example.org>"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
"""git's name of a folder without files."""
Kind = Literal["code", "environment", "version", "failed"]


class Machine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    link: dict[str, int] = field(default_factory=lambda: {"generation": 5, "width": 16})
    facts: dict[str, dict[str, Any]] = {}
    sigma: float = 0.01
    """Noise of each series, from run to run and from launch to launch."""

    def facts_now(self, changed: Mapping[str, Any]) -> Any:
        """The stored facts; `changed` has the values of environment events by `group.name`."""
        rate = packet_bytes_per_s(**self.link)
        link = Link(host_to_device_bytes_per_s=rate, device_to_host_bytes_per_s=rate)
        groups = Simulation(link=link).all_facts()
        name = "Simulated GPU, PCIe Gen{generation} x{width}".format_map(self.link)
        pcie = {f"pcie_{key}": known(value) for key, value in self.link.items()}
        groups["gpu0"] = {"name": known(name), **pcie}
        for group, values in (*FACTS.items(), *self.facts.items()):
            groups.setdefault(group, {}).update({key: known(own) for key, own in values.items()})
        for fact, value in changed.items():
            group, _, member = fact.partition(".")
            groups[group][member] = known(value)
        return to_json(groups)


class Event(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that happens from commit `at` on, and before commit `until` where that is given."""

    kind: Kind
    at: int
    until: int | None = None
    machine: str = ""
    """"" for all."""
    series: str = ""
    """Which, as for --case; "" for all. Of a version: a workload."""
    effect: float = 0.0
    """Relative change of the seconds: 0.1 is 10 % slower."""
    fact: str = ""
    """`group.name` that an environment event changes, to `value`."""
    value: Any = None
    rerun: bool = False
    """An environment event: its first commit is measured before it and once more after it."""
    cause: str = ""
    """The commit's message; what somebody did."""

    def lasts(self, commit: int) -> bool:
        return self.at <= commit and (self.until is None or commit < self.until)

    def shows(self, night: "Night") -> bool:
        before = self.rerun and self.at == night.commit and not night.is_rerun
        return self.lasts(night.commit) and not before

    def selects(self, case: Case) -> bool:
        return not self.series or parse_selector(self.series).selects(case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """One run of one machine."""

    commit: int
    started_s: float
    is_rerun: bool = False


class Story(Struct, kw_only=True, dict=True, forbid_unknown_fields=True):
    seed: int = 0
    commits: int = 120
    num_series: int = field(default=24, name="series")
    launches: int = 7
    start: datetime = datetime(2026, 1, 1, 18, tzinfo=UTC)
    machines: tuple[Machine, ...] = field(name="machine")
    events: tuple[Event, ...] = field(default=(), name="event")

    def __post_init__(self) -> None:
        for event in self.events:
            if not any(event.selects(case) for _, case in self.works):
                raise ValueError(f"{event.series!r} selects none of the story's series")

    @cached_property
    def works(self) -> list[tuple[Workload, Case]]:
        return cases_of(self.num_series)

    def of(self, machine: Machine) -> list[Event]:
        return [event for event in self.events if event.machine in ("", machine.name)]

    def nights(self, machine: Machine) -> list[Night]:
        """Every run, the oldest first."""
        after_s = NIGHT_S + APART_S * self.machines.index(machine)
        nights = []
        for commit in range(self.commits):
            started_s = self.committed_s(commit) + after_s
            nights.append(Night(commit=commit, started_s=started_s))
            if any(event.rerun and event.at == commit for event in self.of(machine)):
                again_s = started_s + RERUN_S
                nights.append(Night(commit=commit, started_s=again_s, is_rerun=True))
        return nights

    def committed_s(self, number: int) -> float:
        return self.start.timestamp() + number * DAY_S

    def messages(self) -> list[str]:
        """One a commit: what the events of the code and of versions say that it did."""
        messages = [f"Change number {number}" for number in range(self.commits)]
        for event in self.events:
            if event.kind in ("code", "version"):
                messages[event.at] = event.cause or f"Change number {event.at}: {event.kind}"
                if event.until is not None and event.until < self.commits:
                    messages[event.until] = f'Revert "{messages[event.at]}"'
        return messages

    @cached_property
    def shas(self) -> list[str]:
        """40 hex digits each: the very ones that git gives to such commits."""
        shas: list[str] = []
        for number, message in enumerate(self.messages()):
            who = f"{WHO} {self.committed_s(number):.0f} +0000"
            parent = f"parent {shas[-1]}\n" if shas else ""
            text = f"tree {EMPTY_TREE}\n{parent}author {who}\ncommitter {who}\n\n{message}\n"
            data = text.encode()
            shas.append(hashlib.sha1(b"commit %d\0" % len(data) + data).hexdigest())
        return shas


def cases_of(num: int) -> list[tuple[Workload, Case]]:
    """So many cases of a GPU, spread evenly over all that one process can run."""
    lacks = lacking(MARK, 2)
    pool = [
        (work, case)
        for work in load_workloads().values()
        if not work.has_ranks
        for case in work.cases()
        if case.values["device"] == "cuda" and not lacks.keys() & set(work.options(case).needs)
    ]
    if not 1 <= num <= len(pool):
        raise ValueError(f"{num} series: there are 1 to {len(pool)}")
    return [pool[index * len(pool) // num] for index in range(num)]


def write(folder: Path, told: Mapping[str, Any], *, git: bool = False) -> Path:
    """Write `folder`/results, which is returned, and `folder`/truth.json; with `git` also a
    repository of the commits. Raises FileExistsError where the folder holds anything, ValueError
    for what no story has."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not an empty folder")
    story, results = convert(told, Story), folder / "results"
    events: list[dict[str, Any]] = []
    for machine in story.machines:
        for run in _runs(story, machine):
            archive.write(results, run)
        events += _truth(story, machine)
    (folder / "truth.json").write_text(json.dumps({"events": events}, indent=1) + "\n")
    if git:
        _repository(folder, story)
    return results


def _runs(story: Story, machine: Machine) -> Iterator[Run]:
    nights = story.nights(machine)
    rng = np.random.default_rng([story.seed, story.machines.index(machine), 1])
    for night, medians in zip(nights, seconds(story, machine, nights), strict=True):
        logs = rng.normal(0.0, machine.sigma, (story.launches, len(medians)))
        launches = medians * np.exp(logs - np.median(logs, axis=0))
        yield _run(story, machine, night, launches)


def seconds(story: Story, machine: Machine, nights: list[Night]) -> Floats:
    """Medians in seconds, shape (runs, series): the story's changes and the machine's noise."""
    rng = np.random.default_rng([story.seed, story.machines.index(machine)])
    num, rate = len(nights), packet_bytes_per_s(**machine.link)
    logs = np.empty((num, len(story.works)))
    for column, (work, case) in enumerate(story.works):
        usual_s = 1e-5 + (work.options(case).moves or 0) / rate
        logs[:, column] = rng.normal(0.0, machine.sigma, num) + math.log(usual_s)
    for event in story.of(machine):
        rows = [row for row, night in enumerate(nights) if event.shows(night)]
        columns = [n for n, (_, case) in enumerate(story.works) if event.selects(case)]
        logs[np.ix_(rows, columns)] += math.log1p(event.effect)
    values: Floats = np.exp(logs)
    return values


def _run(story: Story, machine: Machine, night: Night, launches: Floats) -> Run:
    """`launches` has shape (launches, series)."""
    at, commit = iso(night.started_s), story.shas[night.commit]
    digits = hashlib.sha256(f"{story.seed} {machine.name} {at}".encode()).hexdigest()[:4]
    events = [event for event in story.of(machine) if event.shows(night)]
    facts = {event.fact: event.value for event in events if event.kind == "environment"}
    records = _records(story, events, launches, at)
    header = RunHeader(
        run_id=run_id(commit, at, digits),
        machine=machine.name,
        commit=commit,
        committed_at=iso(story.committed_s(night.commit)),
        scratch=None,
        profile="standard",
        launches=story.launches,
        device=MARK,
        seed=story.seed,
        started_at=at,
        hostbench=__version__,
        planned=tuple(str(case) for _, case in story.works),
    )
    workloads = dict.fromkeys(record.case.workload for record in records)
    return Run(
        header=header,
        records=tuple(records),
        facts={"before": machine.facts_now(facts)},
        finish=Finish(at=iso(night.started_s + LASTED_S), status="complete"),
        asv_rows=[[asv_name(name), int(night.started_s * 1000)] for name in workloads],
    )


def _records(story: Story, events: list[Event], launches: Floats, at: str) -> list[CaseRecord]:
    """In the order of a run: launch after launch. A case without a number has one record."""
    columns = []
    for work, case in story.works:
        kinds = [event.kind for event in events if event.selects(case)]
        status: Status = "failed" if "failed" in kinds else "ok"
        bumps = kinds.count("version")
        columns.append((work, case, status, str(int(work.version) + bumps)))
    return [
        CaseRecord(
            case=case,
            version=version,
            launch=launch,
            position=position,
            status=status,
            reason="simulated: it broke" if status == "failed" else None,
            started_at=at,
            seconds=float(row[position]) if status == "ok" else None,
            nbytes=work.options(case).moves,
            expected=work.options(case).expects,
        )
        for launch, row in enumerate(launches)
        for position, (work, case, status, version) in enumerate(columns)
        if status == "ok" or launch == 0
    ]


def _truth(story: Story, machine: Machine) -> Iterator[dict[str, Any]]:
    """What happened on a machine, where a run of it shows it."""
    nights = story.nights(machine)
    for event in story.of(machine):
        if any(event.shows(night) for night in nights):
            yield {
                **asdict(event),
                "machine": machine.name,
                "series": [str(case) for _, case in story.works if event.selects(case)],
                "first_bad_commit": story.shas[event.at],
            }


def _repository(folder: Path, story: Story) -> None:
    """A repository of these commits, without files, and asv's configuration beside it."""
    stream = b""
    for number, message in enumerate(story.messages()):
        data, who = f"{message}\n".encode(), f"{WHO} {story.committed_s(number):.0f} +0000"
        head = f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {len(data)}\n"
        stream += head.encode() + data + b"\n"
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "fast-import", "--quiet", given=stream)
    asv = {"version": 1, "project": MARK, "repo": ".", "branches": ["main"], "dvcs": "git"}
    (folder / "asv.conf.json").write_text(json.dumps({**asv, "results_dir": "results"}) + "\n")


def made_up(
    *, machines: int = 3, commits: int = 120, series: int = 24, seed: int = 0
) -> dict[str, Any]:
    """A story of at least 40 commits with everything that can happen, somewhere in it."""
    rng = np.random.default_rng(seed)
    links = ((5, 16), (4, 16), (5, 8), (3, 16))
    names = [f"{MARK}-{number + 1}" for number in range(machines)]
    machine = [
        {
            "name": name,
            "link": dict(zip(("generation", "width"), links[number % 4], strict=True)),
            "sigma": (0.005, 0.01, 0.02)[number % 3],
        }
        for number, name in enumerate(names)
    ]
    cases = [str(case) for _, case in cases_of(series)]
    some, on = lambda: str(rng.choice(cases)), itertools.cycle(names)
    events: list[dict[str, Any]] = []

    def happens(kind: Kind, at: int, **more: Any) -> None:
        events.append({"kind": kind, "at": at, "cause": f"{kind} of commit {at}", **more})

    for _ in range(3):
        effect = float(rng.choice((0.05, 0.10, 0.20)) * rng.choice([1.0, 1.0, -1.0]))
        happens("code", int(rng.integers(commits // 8, commits - 10)), effect=effect, series=some())
    happens("code", commits // 5, until=2 * commits // 5, effect=0.15, series=some())
    happens("version", 2 * commits // 3, effect=-0.2, series=some().partition("[")[0])
    driver = {"fact": "nvml.driver", "value": "590.7", "effect": 0.04, "rerun": True}
    happens("environment", commits // 2, machine=next(on), **driver)
    torch = {"fact": "software.torch", "value": "2.13"}
    happens("environment", 3 * commits // 5, machine=next(on), **torch)
    happens("failed", commits // 3, until=commits // 3 + 2, machine=next(on), series=some())
    events.sort(key=lambda event: event["at"])
    return {
        "seed": seed,
        "commits": commits,
        "series": series,
        "machine": machine,
        "event": events,
    }
