"""A story written down: archives, asv's files, and the truth beside them."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from hostbench import __version__
from hostbench.core.asv_names import asv_name
from hostbench.core.case import Case
from hostbench.core.clock import iso
from hostbench.core.errors import UsageError
from hostbench.core.files import write_atomic
from hostbench.core.noise import Floats
from hostbench.core.records import CaseRecord, Finish, Run, RunHeader, Status
from hostbench.device.simulated_file import MARK, FactsTable
from hostbench.facts import Facts, asv_machine_entry, to_json
from hostbench.measure.workload import Workload
from hostbench.runner.places import run_id
from hostbench.store import archive
from tests.fakes import asv_files
from tests.fakes.histories import commits
from tests.fakes.histories.nights import (
    Night,
    facts_of,
    launches,
    nights,
    seconds,
    shows,
)
from tests.fakes.histories.story import Story, StoryMachine
from tests.fakes.histories.truth import truth

TRUTH = "truth.json"
RESULTS = "results"
_LASTED_S = 1800.0
_WHY: dict[Status, str] = {
    "failed": "simulated: it broke",
    "skipped": "simulated: it cannot run here",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a tree holds."""

    results: Path
    truth: Path
    num_runs: int
    num_events: int


def write(folder: Path, story: Story, *, git: bool = False) -> Written:
    """Write `folder`/results and `folder`/truth.json; with `git` also a repository of the commits.

    The same story gives the same bytes. Raises UsageError where the folder holds anything or cannot
    be written.
    """
    _check_empty(folder)
    names = commits.names(story)
    works = story.cases()
    results = folder / RESULTS
    asv_files.write_benchmarks(results, {work.name: work for work, _ in works}.values())
    told: dict[str, list[tuple[Night, str]]] = {}
    for machine in story.machines:
        entry = asv_machine_entry(machine.name, _facts(machine, machine.facts))
        asv_files.write_machine(results, entry)
        runs = told.setdefault(machine.name, [])
        for _, group in groupby(_runs(story, machine, names, works), lambda one: one[0].commit):
            contents = []
            for night, run in group:
                contents.append(archive.content_of(run))
                archive.write(results, run, contents[-1])
                runs.append((night, run.header.run_id))
            asv_files.write_commit(results, entry, contents)
    about = truth(story, names, told)
    write_atomic(folder / TRUTH, json.dumps(about, indent=1).encode() + b"\n")
    if git:
        commits.repository(folder, story)
    num_runs = sum(map(len, told.values()))
    return Written(
        results=results, truth=folder / TRUTH, num_runs=num_runs, num_events=len(about["events"])
    )


def _check_empty(folder: Path) -> None:
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is not an empty folder: name one that is, or a new one")
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}: {error.strerror}; name another") from error


def _runs(
    story: Story, machine: StoryMachine, names: list[str], works: list[tuple[Workload, Case]]
) -> Iterator[tuple[Night, Run]]:
    every = nights(story, machine)
    medians = seconds(story, machine, every, works)
    rng = np.random.default_rng([story.seed, story.machines.index(machine), 1])
    for night, row in zip(every, medians, strict=True):
        each = launches(row, story.launches, machine.noise.sigma, rng)
        yield night, _run(story, machine, night, names[night.commit], works, each)


def _run(
    story: Story,
    machine: StoryMachine,
    night: Night,
    commit: str,
    works: list[tuple[Workload, Case]],
    each: Floats,
) -> Run:
    """`each` has shape (launches, series)."""
    at = iso(night.started_s)
    digits = hashlib.sha256(f"{story.seed} {machine.name} {at}".encode()).hexdigest()[:4]
    records = _records(story, machine, night, works, each, at)
    parts = [e for e in story.events if e.kind == "partial" and e.happens_to(machine)]
    share = min((e.share for e in parts if shows(e, night)), default=1.0)
    kept = records[: max(1, round(share * len(records)))]
    header = RunHeader(
        run_id=run_id(commit, at, digits),
        machine=machine.name,
        commit=commit,
        committed_at=iso(commits.committed_s(story, night.commit)),
        scratch=None,
        profile="standard",
        launches=story.launches,
        device=MARK,
        seed=story.seed,
        started_at=at,
        hostbench=__version__,
        planned=tuple(str(case) for _, case in works),
    )
    status = "complete" if len(kept) == len(records) else "interrupted"
    started_ms = int(night.started_s * 1000)
    held = dict.fromkeys(record.case.workload for record in kept)
    return Run(
        header=header,
        records=tuple(kept),
        facts={"before": to_json(_facts(machine, facts_of(story, machine, night)))},
        finish=Finish(at=iso(night.started_s + _LASTED_S), status=status),
        asv_rows=[[asv_name(workload), started_ms] for workload in held],
    )


def _records(
    story: Story,
    machine: StoryMachine,
    night: Night,
    works: list[tuple[Workload, Case]],
    each: Floats,
    at: str,
) -> list[CaseRecord]:
    """In the order of a run: launch after launch. A case without a number has one record."""
    now = [e for e in story.events if e.happens_to(machine) and shows(e, night)]
    abouts = []
    for work, case in works:
        own = [event for event in now if event.selects(case)]
        bumps = sum(event.kind == "version" for event in own)
        known = (status for event in own for status in _WHY if status == event.kind)
        status: Status = next(known, "ok")
        version = str(int(work.version) + bumps) if bumps else work.version
        abouts.append((case, version, status, work.nbytes(case), work.expected(case)))
    return [
        CaseRecord(
            case=case,
            version=version,
            launch=launch,
            position=position,
            status=status,
            reason=_WHY.get(status),
            started_at=at,
            seconds=float(row[position]) if status == "ok" else None,
            nbytes=nbytes,
            expected=expected,
        )
        for launch, row in enumerate(each)
        for position, (case, version, status, nbytes, expected) in enumerate(abouts)
        if status == "ok" or launch == 0
    ]


def _facts(machine: StoryMachine, values: FactsTable) -> Facts:
    pcie = machine.link.pcie
    gpu = {"name": "GPU" if pcie is None else f"GPU, PCIe Gen{pcie[0]} x{pcie[1]}"}
    facts = {**values, "gpu0": {**gpu, **values.get("gpu0", {})}}
    return replace(machine, facts=facts).all_facts()
