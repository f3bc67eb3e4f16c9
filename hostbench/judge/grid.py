"""One machine's series on common columns: what is stored, put so that it can be judged.

A column is a run. Runs stand by the date of their commit, and of one commit by their own time; a
run of an older commit that came after a newer one had been measured is a rerun: its points count
where that commit has none yet, and else only as evidence.

Only a workload's version and the machine itself (its CPU, its GPU, MIG) reset the baseline of a
series. Any other fact that changes is a possible cause of a step, which is found and reported like
every other. Pure functions of frames.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from hostbench.core.arrays import Floats
from hostbench.core.records import environment_of
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.judge.changepoint.detector import log_seconds
from hostbench.judge.changepoint.levels import Integers

NEEDED = (
    "case commit committed_at run_id started_at version status unit seconds scratch num_samples"
).split()
"""Columns of the tidy frame that a history is judged by."""
HardwareOf = Mapping[str, Mapping[str, str]]
"""run_id -> hostbench.facts.differences.identity of that run."""


class Reset(Struct, frozen=True):
    """What has become another one, so that points before and after are not compared."""

    text: str
    """`version 1 -> 2`, `gpu: A -> B`."""
    is_version: bool
    """Of the workload, else the machine."""


Resets = tuple[dict[int, Reset], ...]
"""Of each series the columns from which on something else is measured."""


class RunPoint(Struct, frozen=True, kw_only=True):
    """One run, as a place in time."""

    run_id: str
    commit: str
    committed_at: datetime
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The series of a machine, or of one of its settings."""

    machine: str
    group: str
    """What a series' id names after its case: the machine; machine/setting where it has several."""
    columns: tuple[RunPoint, ...]
    cases: tuple[str, ...]
    logs: Floats
    """Logarithms of seconds, series x columns; NaN where there is no valid point."""
    resets: Resets
    """Baseline resets."""
    reruns: Floats
    """Shaped as `logs`: points that stand beside their commit's own, the same code measured again
    later, as how far they are from the commit's first point; else NaN."""


def grids(rows: pd.DataFrame, machine: str, hardware: HardwareOf) -> Iterator[Grid]:
    """Of one machine's rows the grid of each of its settings that has times that may be judged."""
    setting = settings(rows)
    names = sorted(setting.unique())
    is_valid = why_left_out(rows) == ""
    for name in names:
        valid = rows[is_valid & (setting == name)]
        if len(valid):
            group = f"{machine}/{name}" if name and len(names) > 1 else machine
            yield _grid(valid, machine, group, hardware)


def why_left_out(rows: pd.DataFrame) -> "pd.Series[str]":
    """Why each row is not judged, the first reason that holds; empty where it may be."""
    reasons = {
        "scratch": rows["scratch"].notna(),
        "failed": rows["status"] != "ok",
        f"of fewer than {MIN_LAUNCHES} launches": of_few_launches(rows),
        "without a time": (rows["unit"] != "seconds") | ~(rows["seconds"] > 0),
        "without a date": rows["committed_at"].isna() | rows["commit"].isna(),
    }
    numbers = np.select([*reasons.values()], [*range(len(reasons))], len(reasons))
    return pd.Series(np.array([*reasons, ""], dtype=object)[numbers], rows.index)


def marked(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose `scratch` says of points with few launches, too, why they are not judged."""
    few = of_few_launches(rows) & rows["scratch"].isna() & (rows["status"] == "ok")
    scratch = rows["scratch"].astype(object)
    scratch[few] = [*map(few_launches, rows.loc[few, "num_samples"])]
    return rows.assign(scratch=scratch)


def of_few_launches(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Points of hostbench's own cases that are never judged, whatever run they come from: they
    have too few launches. Of other projects' benchmarks the samples are no launches."""
    few = rows["num_samples"] < MIN_LAUNCHES
    runs = rows.loc[few, "run_id"].unique()
    return few & rows["run_id"].isin([run_id for run_id in runs if environment_of(run_id) is None])


def settings(rows: pd.DataFrame) -> pd.Series:
    """What keeps rows of a machine apart: another project's asv environment; empty for our own."""
    names = {run_id: environment_of(run_id) or "" for run_id in rows["run_id"].unique()}
    return rows["run_id"].map(names).astype("category")


def _grid(rows: pd.DataFrame, machine: str, group: str, hardware: HardwareOf) -> Grid:
    """Of rows that are the valid ones of one setting."""
    runs, column = _runs(rows)
    cases = sorted(rows["case"].cat.remove_unused_categories().cat.categories)
    where = rows["case"].cat.set_categories(cases).cat.codes.to_numpy(), column
    logs = np.full((len(cases), len(runs)), np.nan)
    logs[where] = log_seconds(rows["seconds"].to_numpy(dtype=np.float64))
    reruns = _taken_out(logs, runs)
    version = rows["version"].cat
    versions = np.full(logs.shape, -1)
    versions[where] = version.codes.to_numpy()
    versions[np.isnan(logs)] = -1
    resets: Resets = tuple({} for _ in cases)
    for series, at, reset in (
        *_version_resets(logs, versions, runs["started_at"].to_numpy(), [*version.categories]),
        *_hardware_resets(logs, [hardware.get(run_id, {}) for run_id in runs["run_id"]]),
    ):
        resets[series][at] = reset
    return Grid(
        machine=machine,
        group=group,
        columns=tuple(map(_point, runs.itertuples())),
        cases=tuple(cases),
        logs=logs,
        resets=resets,
        reruns=reruns,
    )


def _point(run: Any) -> RunPoint:
    return RunPoint(
        run_id=run.run_id,
        commit=run.commit,
        committed_at=run.committed_at.to_pydatetime(),
        started_at=run.started_at.to_pydatetime(),
    )


def _runs(rows: pd.DataFrame) -> tuple[pd.DataFrame, Integers]:
    """The runs in order: `run_id`, `commit`, `committed_at`, `started_at`; and which of them each
    row is of."""
    run, about = rows["run_id"].cat.codes, ["run_id", "commit", "committed_at"]
    runs = rows[about].assign(run=run).drop_duplicates("run").set_index("run")
    runs = runs.astype({"run_id": object, "commit": object})
    runs["started_at"] = rows["started_at"].fillna(rows["committed_at"]).groupby(run).min()
    runs["first"] = runs.groupby("commit")["started_at"].transform("min")
    runs = runs.sort_values(["committed_at", "first", "commit", "started_at", "run_id"])
    number = np.empty(len(rows["run_id"].cat.categories), dtype=np.int64)
    number[runs.index] = np.arange(len(runs))
    return runs, number[run]


def _taken_out(logs: Floats, runs: pd.DataFrame) -> Floats:
    """The reruns, as Grid has them, which are taken out of `logs`: points of runs of an older
    commit, measured after a newer one, where that commit had a point already."""
    by_time = runs["started_at"].rank(method="first").to_numpy().argsort()
    dates, commits = runs["committed_at"].to_numpy()[by_time], runs["commit"].to_numpy()[by_time]
    late = dates < np.maximum.accumulate(dates)
    if not late.any():
        return np.broadcast_to(np.nan, logs.shape)
    reruns = np.full(logs.shape, np.nan)
    first: dict[str, Floats] = {}
    for column, commit, is_late in zip(by_time, commits, late, strict=True):
        points = logs[:, column].copy()
        before = first.setdefault(commit, np.full_like(points, np.nan))
        if is_late:
            reruns[:, column] = points - before
            logs[np.isfinite(before), column] = np.nan
        first[commit] = np.where(np.isnan(before), points, before)
    return reruns


def _version_resets(
    logs: Floats, version: Integers, started: npt.NDArray[np.datetime64], names: Sequence[str]
) -> Iterator[tuple[int, int, Reset]]:
    """(series, column, what) where the workload's version is another than before. Where versions
    interleave (newer benchmarks run on older commits) the one that ran last is the newer, and an
    older one ends where it begins: its later points are taken out of `logs`."""
    newest = version.max(axis=1, keepdims=True)
    for series in np.flatnonzero(((version >= 0) & (version != newest)).any(axis=1)).tolist():
        row, end = version[series], version.shape[1]
        columns_of = [np.flatnonzero(row == name) for name in np.unique(row[row >= 0])]
        for columns in sorted(columns_of, key=lambda columns: started[columns].max(), reverse=True):
            gone = columns[columns >= end]
            logs[series, gone], row[gone] = np.nan, -1
            end = min(end, int(columns[0]))
        known = np.flatnonzero(row >= 0)
        for at in np.flatnonzero(np.diff(row[known])):
            old, new = (short_version(names[row[column]]) for column in known[at : at + 2])
            yield series, int(known[at + 1]), Reset(f"version {old} -> {new}", is_version=True)


def short_version(version: str) -> str:
    """asv's own versions are hashes of the code."""
    return version[:8] if len(version) > 16 else version


def _hardware_resets(
    logs: Floats, known: Sequence[Mapping[str, str]]
) -> Iterator[tuple[int, int, Reset]]:
    """Where a part of the machine is known to be another one than before: in every series, at its
    first point from there on. `known`: of each column; empty where nobody knows."""
    valid, last = ~np.isnan(logs), dict[str, str]()
    for number, parts in enumerate(known):
        changed = [
            f"{name}: {last[name]} -> {value}"
            for name, value in parts.items()
            if last.get(name, value) != value
        ]
        last |= parts
        if changed:
            both = valid[:, :number].any(axis=1) & valid[:, number:].any(axis=1)
            for series in np.flatnonzero(both).tolist():
                first = number + int(np.argmax(valid[series, number:]))
                yield series, first, Reset("; ".join(changed), is_version=False)
