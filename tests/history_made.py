"""Histories made by hand: the rows of one machine, as History.points gives them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from hostbench.judge.events import Judged, judge_grid
from hostbench.judge.grid import NEEDED, Axis, Grid, Hardware, grids

START = pd.Timestamp("2026-01-01", tz="UTC")
CASES = tuple(sorted(f"transfer.host_to_device[device=cpu,nbytes={1 << n}]" for n in range(10, 20)))


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run: of which commit, on which day, and what is special about it."""

    commit: int
    day: float
    cases: Sequence[int] = range(len(CASES))
    row: dict[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return str(self.row.get("run_id", f"run{self.day:06.1f}"))


def sha(number: int) -> str:
    return f"{number:08x}" + "0" * 32


def nightly(num: int, **special: Any) -> list[Run]:
    """A commit and a run each night."""
    return [Run(commit=n, day=n, **special) for n in range(num)]


Level = Callable[[int, Run], float]


def rows(runs: Iterable[Run], level: Level, noise: float = 0.005, seed: int = 0) -> pd.DataFrame:
    """A row for each run and case; `level(case, run)` times 1 ms, with noise."""
    rng = np.random.default_rng(seed)
    found = [
        {
            "case": CASES[case],
            "commit": sha(run.commit),
            "committed_at": START + pd.Timedelta(days=run.commit),
            "run_id": run.id,
            "started_at": START + pd.Timedelta(days=run.day, hours=3),
            "version": "1",
            "status": "ok",
            "unit": "seconds",
            "seconds": 1e-3 * level(case, run) * np.exp(rng.normal(0, noise)),
            "scratch": None,
            "source": "archive",
            "device": "cpu",
            "num_samples": 10,
            **run.row,
        }
        for run in runs
        for case in run.cases
    ]
    frame = pd.DataFrame(found, columns=NEEDED)
    texts = set(NEEDED) - {"committed_at", "started_at", "seconds", "num_samples"}
    return frame.astype(dict.fromkeys(texts, "category"))


def flat(case: int, run: Run) -> float:
    return 1.0


def grid(
    runs: Iterable[Run],
    level: Level = flat,
    *,
    axis: Axis = "commit",
    hardware: Hardware | None = None,
    machine: str = "box",
    **noise: Any,
) -> Grid:
    """The one grid of these runs."""
    (found,) = grids(rows(runs, level, **noise), machine, axis, hardware or {})
    return found


def judged(runs: Iterable[Run], level: Level = flat, **more: Any) -> Judged:
    return judge_grid(grid(runs, level, **more))
