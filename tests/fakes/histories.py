"""Trees of results whose changes are known, from a plain dict. Nothing in them is measured.

    write(folder, {
        "commits": 90, "series": 12, "seed": 3,
        "machine": [{"name": "simulated-a", "facts": {"nvml": {"driver": "580.1"}}}],
        "event": [{"kind": "code", "at": 60, "effect": 0.1, "series": "transfer.host_to_device"}],
    })

writes an archive for each night of each machine below folder/results. The keys of a machine and of
an event are the fields of `Machine` and `Event`. The same story gives the same bytes.
`scripts/simulate-history` reads one from a TOML file.
"""

import hashlib
import json
import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct, convert, field, to_builtins

from hostbench import __version__
from hostbench.core.arrays import Floats
from hostbench.core.case import Case, parse_selector
from hostbench.core.clock import iso
from hostbench.core.records import CaseRecord, Finish, Run, RunHeader, Status
from hostbench.core.units import GB
from hostbench.device.base import lacking
from hostbench.device.simulated_file import MARK, Link, Simulation
from hostbench.families import load as load_workloads
from hostbench.limits import links
from hostbench.measure.workload import Workload
from hostbench.store import archive
from hostbench.vcs.repo import git

DAY_S, NIGHT_S = 86_400.0, 8 * 3600.0
"""From commit to commit, and from a commit to its run."""
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
        rate = GB * links.pcie(**self.link)
        link = Link(host_to_device_bytes_per_s=rate, device_to_host_bytes_per_s=rate)
        groups = Simulation(link=link).all_facts()
        name = "Simulated GPU, PCIe Gen{generation} x{width}".format_map(self.link)
        pcie = {f"pcie_{key}": value for key, value in self.link.items()}
        groups["gpu0"] = {"name": name, **pcie}
        for group, values in (*FACTS.items(), *self.facts.items()):
            groups.setdefault(group, {}).update({key: own for key, own in values.items()})
        for fact, value in changed.items():
            group, _, member = fact.partition(".")
            groups[group][member] = value
        return to_builtins(groups)


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
    cause: str = ""
    """The commit's message; what somebody did."""

    def lasts(self, commit: int) -> bool:
        return self.at <= commit and (self.until is None or commit < self.until)

    def selects(self, case: Case) -> bool:
        return not self.series or parse_selector(self.series).selects(case)


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


CONVERTING = ("transfer.strided", "transfer.cast", "transfer.cast_bfloat16")


def cases_of(num: int) -> list[tuple[Workload, Case]]:
    """So many cases of a GPU, spread evenly over what the simulated device can run, and those that
    convert on the way, which the pictures of docs/ have."""
    lacks = lacking(MARK, 2).keys()
    pool = [
        (work, case)
        for work in load_workloads().values()
        if not work.has_ranks
        for case in work.cases()
        if case.values["device"] == "cuda"
        if work.name in CONVERTING or not lacks & set(work.options(case).needs)
    ]
    if not 1 <= num <= len(pool):
        raise ValueError(f"{num} series: there are 1 to {len(pool)}")
    return [pool[index * len(pool) // num] for index in range(num)]


def write(folder: Path, told: Mapping[str, Any], *, git: bool = False) -> Path:
    """Write `folder`/results, which is returned; with `git` also a repository of the commits.
    Raises FileExistsError where the folder holds anything, ValueError for what no story has."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder} is not an empty folder")
    story, results = convert(told, Story), folder / "results"
    for number, machine in enumerate(story.machines):
        rng = np.random.default_rng([story.seed, number, 1])
        for commit, medians in enumerate(seconds(story, number)):
            logs = rng.normal(0.0, machine.sigma, (story.launches, len(medians)))
            launches = medians * np.exp(logs - np.median(logs, axis=0))
            archive.write(results, _run(story, number, commit, launches))
    if git:
        _repository(folder, story)
    return results


def seconds(story: Story, number: int) -> Floats:
    """Of a machine the medians, shape (commits, series): the story's changes and its noise."""
    machine, rng = story.machines[number], np.random.default_rng([story.seed, number])
    rate = GB * links.pcie(**machine.link)
    logs = np.empty((story.commits, len(story.works)))
    for column, (work, case) in enumerate(story.works):
        usual_s = 1e-5 + (work.options(case).moves or 0) / rate
        logs[:, column] = rng.normal(0.0, machine.sigma, story.commits) + math.log(usual_s)
    for event in story.of(machine):
        columns = [n for n, (_, case) in enumerate(story.works) if event.selects(case)]
        nights = [commit for commit in range(story.commits) if event.lasts(commit)]
        logs[np.ix_(nights, columns)] += math.log1p(event.effect)
    values: Floats = np.exp(logs)
    return values


def _run(story: Story, number: int, commit: int, launches: Floats) -> Run:
    """`launches` has shape (launches, series)."""
    machine = story.machines[number]
    started_s = story.committed_s(commit) + NIGHT_S + APART_S * number
    at, sha = iso(started_s), story.shas[commit]
    began = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(started_s))
    digits = hashlib.sha256(f"{story.seed} {machine.name} {at}".encode()).hexdigest()[:4]
    events = [event for event in story.of(machine) if event.lasts(commit)]
    facts = {event.fact: event.value for event in events if event.kind == "environment"}
    records = _records(story, events, launches, at)
    header = RunHeader(
        run_id=f"{began}-{sha[:8]}-{digits}",
        machine=machine.name,
        commit=sha,
        committed_at=iso(story.committed_s(commit)),
        scratch=None,
        profile="standard",
        launches=story.launches,
        device=MARK,
        started_at=at,
        hostbench=__version__,
        planned=tuple(str(case) for _, case in story.works),
    )
    return Run(
        header=header,
        records=tuple(records),
        facts={"before": machine.facts_now(facts)},
        finish=Finish(at=iso(started_s + LASTED_S), status="complete"),
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


def _repository(folder: Path, story: Story) -> None:
    """A repository of these commits, without files, and asv's configuration beside it."""
    stream = ""
    for number, message in enumerate(story.messages()):
        who, num = f"{WHO} {story.committed_s(number):.0f} +0000", len(f"{message}\n".encode())
        head = f"commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {num}\n"
        stream += f"{head}{message}\n\n"
    git(folder, "init", "-q", "-b", "main")
    git(folder, "fast-import", "--quiet", given=stream)
    asv = {"version": 1, "project": MARK, "repo": ".", "branches": ["main"], "dvcs": "git"}
    (folder / "asv.conf.json").write_text(json.dumps({**asv, "results_dir": "results"}) + "\n")
