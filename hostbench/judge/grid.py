"""One machine's series on common columns: what is stored, put so that it can be judged.

A column is a run. On the axis `commit` runs stand by the date of their commit, and of one commit by
their own time; a run of an older commit that came after a newer one had been measured is a rerun:
its points count where that commit has none yet, and else only as evidence. On the axis `run-time`
every run stands at its own time. Pure functions of frames.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from hostbench.judge.breaks import hardware_breaks, newest_version_counts, version_breaks
from hostbench.judge.compare import MIN_LAUNCHES
from hostbench.judge.detector import log_seconds
from hostbench.judge.levels import Floats
from hostbench.judge.stopped import Stopped, stopped
from hostbench.store.asv_tree import environment_of

Axis = Literal["commit", "run-time"]
NEEDED = (
    "case commit committed_at run_id started_at version status unit seconds scratch source device "
    "num_samples"
).split()
"""Columns of the tidy frame that a grid is made of."""
SIMULATED = "simulated"
_ORDER = {"commit": ("committed_at", "started_at"), "run-time": ("started_at",)}
Hardware = Mapping[str, Mapping[str, str]]
"""run_id -> hostbench.facts.causes.identity of that run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GridColumn:
    """One run, as a place in time."""

    run_id: str
    commit: str
    committed_at: pd.Timestamp
    started_at: pd.Timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A point that stands beside its commit's own: the same code, measured again later."""

    series: int
    commit: str
    started_at: pd.Timestamp
    ratio: float
    """Difference of logarithms to the commit's first point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One machine's series."""

    machine: str
    group: str
    """The machine; machine/environment or machine/simulated where it has series of both kinds."""
    columns: tuple[GridColumn, ...]
    cases: tuple[str, ...]
    logs: Floats
    """Logarithms of seconds, series x columns; NaN where there is no valid point."""
    breaks: tuple[tuple[int, ...], ...]
    """Of each series, the columns from which on something else is measured."""
    why_broken: Mapping[tuple[int, int], str]
    """(series, column) -> `version 1 -> 2` or `gpu: A -> B`."""
    reruns: tuple[Rerun, ...]
    left_out: Mapping[str, int]
    """Why points or series are not here -> how many."""
    stopped: tuple[Stopped, ...] = ()
    """Series that have no number any more."""
    simulated: bool = False
    """Of the simulated device: no measurement of any machine."""

    def id(self, series: int) -> str:
        return f"{self.cases[series]}@{self.group}"


def grids(rows: pd.DataFrame, machine: str, axis: Axis, hardware: Hardware) -> list[Grid]:
    """The grids of one machine's rows: one, or one for each of its environments."""
    every = rows[rows["scratch"].isna()]
    rows, left_out = _judged(rows)
    if rows.empty:
        return [_empty(machine, left_out)] if left_out else []
    setting, of_every = _settings(rows), _settings(every)
    names = sorted(set(setting))
    found = []
    for place, name in enumerate(names):
        own = rows[setting == name] if len(names) > 1 else rows
        group = f"{machine}/{name}" if name and len(names) > 1 else machine
        counted = {} if place else left_out
        grid = _grid(own, machine, group, axis, hardware, counted)
        ended = stopped(every[of_every == name], grid.cases, _ORDER[axis])
        found.append(replace(grid, stopped=tuple(ended), simulated=name == SIMULATED))
    return found


def _judged(rows: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, int]]:
    """Valid numbers of runs that may be judged, and what is left out."""
    ours = rows["scratch"].isna()
    left: Counter[str] = Counter()
    left["points of scratch runs"] = int((~ours & (rows["status"] == "ok")).sum())
    rows = rows[ours]
    left["failed points"] = int((rows["status"] == "failed").sum())
    rows = rows[rows["status"] == "ok"]
    timed = (rows["unit"] == "seconds").to_numpy()
    left["series in other units than seconds"] = rows.loc[~timed, "case"].nunique()
    rows = rows[timed]
    dated = (rows["committed_at"].notna() & rows["commit"].notna()).to_numpy()
    left["points without a dated commit"] = int((~dated).sum())
    rows = rows[dated & (rows["seconds"] > 0).to_numpy()]
    launches = rows.loc[rows["source"] != "asv", "num_samples"]
    left[f"points of fewer than {MIN_LAUNCHES} launches, judged all the same"] = int(
        (launches < MIN_LAUNCHES).sum()
    )
    return rows, {why: num for why, num in left.items() if num}


def _settings(rows: pd.DataFrame) -> npt.NDArray[Any]:
    """What keeps rows of one machine apart: asv's environment of another project, or a device that
    stands in; empty for hostbench's own."""
    codes, runs = _codes(rows["run_id"])
    names = np.array([environment_of(run) or "" for run in runs], dtype=object)
    found = np.where(rows["source"].to_numpy() == "asv", names[codes], "")
    return np.where(rows["device"].to_numpy() == SIMULATED, SIMULATED, found)


def _codes(column: pd.Series) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Places in the sorted values, -1 where there is none; and the values."""
    codes, found = pd.factorize(column)
    names = [str(value) for value in found]
    order = sorted(range(len(names)), key=names.__getitem__)
    ranks = np.full(len(names) + 1, -1)
    ranks[order] = np.arange(len(names))
    return ranks[codes], [names[place] for place in order]


def _grid(
    rows: pd.DataFrame,
    machine: str,
    group: str,
    axis: Axis,
    hardware: Hardware,
    left_out: Mapping[str, int],
) -> Grid:
    series, cases = _codes(rows["case"])
    runs, columns = _columns(rows, axis)
    versions, names = _codes(rows["version"])
    points = pd.DataFrame({"series": series, "run": runs, "version": versions})
    points["log"] = log_seconds(rows["seconds"].to_numpy(dtype=np.float64))
    again = _again(points, columns) if axis == "commit" else np.zeros(len(points), dtype=bool)
    reruns = tuple(_reruns(points, again, columns))
    points = points[~again]
    shape = len(cases), len(columns)
    logs, version = np.full(shape, np.nan), np.full(shape, -1)
    where = points["series"].to_numpy(), points["run"].to_numpy()
    logs[where], version[where] = points["log"].to_numpy(), points["version"].to_numpy()
    newest_version_counts(logs, version, [column.started_at.value for column in columns])
    known = [hardware.get(column.run_id, {}) for column in columns]
    why = dict(version_breaks(version, names)) | dict(hardware_breaks(logs, known))
    breaks: list[list[int]] = [[] for _ in cases]
    for i, column in sorted(why):
        breaks[i].append(column)
    return Grid(
        machine=machine,
        group=group,
        columns=tuple(columns),
        cases=tuple(cases),
        logs=logs,
        breaks=tuple(map(tuple, breaks)),
        why_broken=why,
        reruns=reruns,
        left_out=left_out,
    )


def _columns(rows: pd.DataFrame, axis: Axis) -> tuple[npt.NDArray[np.int64], list[GridColumn]]:
    """The column of each row, and the columns in order."""
    codes, runs = _codes(rows["run_id"])
    by_run = pd.DataFrame(
        {
            "run": codes,
            "commit": rows["commit"].astype(object).to_numpy(),
            "committed_at": rows["committed_at"].array,
            "started_at": rows["started_at"].fillna(rows["committed_at"]).array,
        }
    )
    by_run = by_run.groupby("run").agg(
        {"commit": "first", "committed_at": "min", "started_at": "min"}
    )
    first = by_run.groupby("commit")["started_at"].transform("min")
    by = ["committed_at", "first", "commit", "started_at"]
    ordered = by_run.assign(first=first).sort_values(by if axis == "commit" else by[3:])
    place = np.empty(len(runs), dtype=np.int64)
    place[ordered.index.to_numpy()] = np.arange(len(runs))
    columns = [
        GridColumn(
            run_id=runs[int(number)],
            commit=str(commit),
            committed_at=committed,
            started_at=started,
        )
        for number, commit, committed, started in zip(
            ordered.index,
            ordered["commit"],
            ordered["committed_at"],
            ordered["started_at"],
            strict=True,
        )
    ]
    return place[codes], columns


def _again(points: pd.DataFrame, columns: Sequence[GridColumn]) -> npt.NDArray[np.bool_]:
    """Points of an older commit, measured after a newer one, that had a point already."""
    order = sorted(range(len(columns)), key=lambda i: columns[i].started_at)
    late, newest = np.zeros(len(columns), dtype=bool), pd.Timestamp(0, tz="UTC")
    when = np.empty(len(columns), dtype=np.int64)
    for place, i in enumerate(order):
        late[i], when[i] = columns[i].committed_at < newest, place
        newest = max(newest, columns[i].committed_at)
    _, commit = np.unique([column.commit for column in columns], return_inverse=True)
    run = points["run"].to_numpy()
    seen = pd.DataFrame(
        {"series": points["series"].to_numpy(), "commit": commit[run], "when": when[run]}
    )
    again = seen.sort_values("when").duplicated(["series", "commit"]).sort_index().to_numpy()
    found: npt.NDArray[np.bool_] = again & late[run]
    return found


def _reruns(
    points: pd.DataFrame, again: npt.NDArray[np.bool_], columns: Sequence[GridColumn]
) -> Iterator[Rerun]:
    if not again.any():
        return
    commits = np.array([column.commit for column in columns], dtype=object)
    firsts: dict[tuple[int, str], float] = {}
    kept = points[~again]
    for series, run, log in zip(kept["series"], kept["run"], kept["log"], strict=True):
        firsts.setdefault((series, commits[run]), log)
    for series, run, log in points.loc[again, ["series", "run", "log"]].itertuples(index=False):
        yield Rerun(
            series=int(series),
            commit=commits[int(run)],
            started_at=columns[int(run)].started_at,
            ratio=float(log - firsts[series, commits[int(run)]]),
        )


def _empty(machine: str, left_out: Mapping[str, int]) -> Grid:
    return Grid(
        machine=machine,
        group=machine,
        columns=(),
        cases=(),
        logs=np.empty((0, 0)),
        breaks=(),
        why_broken={},
        reruns=(),
        left_out=left_out,
    )
