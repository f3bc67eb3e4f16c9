"""Histories made by hand: the runs of one machine, as rows of the tidy frame or as archives.

A history is a list of `NightlyRun` and a level: a function of the case's place and of the run that
gives how often 1 ms the case took. `rows` makes the frame that the judge reads, `write` the
archives that commands read. `tests.fakes.histories` makes whole trees of many
machines, with noise and facts; here a test says every number itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.case import Case
from hostbench.core.samples import MIN_LAUNCHES
from hostbench.judge.events import JudgedGrid, judge_grid
from hostbench.judge.grid import NEEDED, Grid, HardwareOf, grids
from hostbench.store import archive
from tests.fakes import builders

START = pd.Timestamp("2026-01-01", tz="UTC")
CASES = tuple(sorted((builders.copy_case(nbytes=1 << n) for n in range(10, 20)), key=str))
NAMES = tuple(map(str, CASES))


@dataclass(frozen=True, kw_only=True)
class NightlyRun:
    """One run: of which commit, on which day, and what is special about it."""

    commit: int
    day: float
    cases: Sequence[int] = range(len(CASES))
    """Places of those that it measured."""
    row: dict[str, Any] = field(default_factory=dict)
    """Columns of its rows, of `rows` alone."""

    @property
    def id(self) -> str:
        return str(self.row.get("run_id", f"run{self.day:06.1f}"))


LevelOf = Callable[[int, NightlyRun], Any]
"""Times 1 ms; of `write` also `failed`."""


def sha(number: int) -> str:
    return f"{number:08x}" + "0" * 32


def nightly(num: int, **special: Any) -> list[NightlyRun]:
    """A commit and a run each night."""
    return [NightlyRun(commit=n, day=n, **special) for n in range(num)]


def versions(num: int, new: int) -> list[NightlyRun]:
    """A commit and a run each night, of the second version from night `new` on."""
    row = ({"version": "1"}, {"version": "2"})
    return [NightlyRun(commit=n, day=n, row=row[n >= new]) for n in range(num)]


def flat(case: int, run: NightlyRun) -> float:
    return 1.0


def rows(
    runs: Iterable[NightlyRun], level: LevelOf, noise: float = 0.005, seed: int = 0
) -> pd.DataFrame:
    """A row for each run and case."""
    rng, made = np.random.default_rng(seed), []
    for run in runs:
        of_run = {
            "commit": sha(run.commit),
            "committed_at": START + pd.Timedelta(days=run.commit),
            "run_id": run.id,
            "started_at": START + pd.Timedelta(days=run.day, hours=3),
            "version": "1",
            "status": "ok",
            "unit": "seconds",
            "scratch": None,
            "num_samples": 10,
            **run.row,
        }
        for case in run.cases:
            seconds = 1e-3 * level(case, run) * np.exp(rng.normal(0, noise))
            made.append({"case": NAMES[case], "seconds": seconds, **of_run})
    frame = pd.DataFrame(made, columns=NEEDED)
    texts = set(NEEDED) - {"committed_at", "started_at", "seconds", "num_samples"}
    return frame.astype(dict.fromkeys(texts, "category"))


def grid(
    runs: Iterable[NightlyRun],
    level: LevelOf = flat,
    *,
    hardware: HardwareOf | None = None,
    machine: str = "box",
    **noise: Any,
) -> Grid:
    """The only grid of these runs."""
    (only,) = grids(rows(runs, level, **noise), machine, hardware or {})
    return only


def judged(runs: Iterable[NightlyRun], level: LevelOf = flat, **more: Any) -> JudgedGrid:
    return judge_grid(grid(runs, level, **more))


def write(
    results: Path,
    runs: Sequence[NightlyRun],
    level: LevelOf = flat,
    *,
    cases: Sequence[Case] = CASES,
    noise: float = 0.004,
    driver: Callable[[NightlyRun], str] = lambda run: "580.1",
    version: Callable[[NightlyRun], str] = lambda run: "1",
    **header: Any,
) -> None:
    """An archive for each run, with as many launches of a case as are judged, all alike; fields of
    the header as keywords."""
    rng = np.random.default_rng(1)
    for run in runs:
        records = []
        for place in (place for place in run.cases if place < len(cases)):
            factor, case = level(place, run), cases[place]
            if factor == "failed":
                records.append(builders.failed(case))
                continue
            seconds, own = 1e-3 * factor * float(np.exp(rng.normal(0, noise))), version(run)
            for launch in range(MIN_LAUNCHES):
                records.append(builders.record(case, launch, seconds, version=own))
        commit = sha(run.commit)
        at = START + pd.Timedelta(days=run.day, hours=21)
        fields = {
            "commit": commit,
            "committed_at": f"{START + pd.Timedelta(days=run.commit):%Y-%m-%d}T09:00:00Z",
            "started_at": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "launches": MIN_LAUNCHES,
            "facts": {**builders.FACTS, "nvml": {"driver": driver(run)}},
            "run_id": f"{at:%Y%m%dT%H%M%SZ}-{commit[:8]}-0001",
        }
        archive.write(results, builders.run(records, **{**fields, **header}))
