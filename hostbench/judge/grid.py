"""One machine's series on common columns: what is stored, put so that it can be judged.

A column is a run. On the axis `commit` runs stand by the date of their commit, and of one commit by
their own time; a run of an older commit that came after a newer one had been measured is a rerun:
its points count where that commit has none yet, and else only as evidence. On the axis `run-time`
every run stands at its own time.

Only a workload's version and the machine itself (its CPU, its GPU, MIG) reset the baseline of a
series. Any other fact that changes is a possible cause of a step, which is found and reported like
every other. Pure functions of frames.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from msgspec import Struct

from hostbench.core.arrays import Floats
from hostbench.core.samples import MIN_LAUNCHES, few_launches
from hostbench.judge.changepoint.detector import log_seconds
from hostbench.judge.changepoint.levels import Bools
from hostbench.store.asv_tree import environment_of

Along = Literal["commit", "run-time"]
NEEDED = (
    "case commit committed_at run_id started_at version status unit seconds value scratch source "
    "device num_samples"
).split()
"""Columns of the tidy frame that a history is judged by."""
SIMULATED = "simulated"
ORDER: Mapping[Along, tuple[str, ...]] = {
    "commit": ("committed_at", "started_at"),
    "run-time": ("started_at",),
}
"""What a machine's rows stand by, the column that counts most first."""
HardwareOf = Mapping[str, Mapping[str, str]]
"""run_id -> hostbench.facts.causes.identity of that run."""
Codes = npt.NDArray[np.int64]
_GRID_COLUMNS = ["case", "commit", "committed_at", "run_id", "started_at", "version", "seconds"]


class RunPoint(Struct, frozen=True, kw_only=True):
    """One run, as a place in time."""

    run_id: str
    commit: str
    committed_at: datetime
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """One machine's series."""

    machine: str
    group: str
    """The machine; machine/environment or machine/simulated where it has series of both kinds."""
    setting: str = ""
    """The environment, or `simulated`; empty of hostbench's own series, and where there is none."""
    columns: tuple[RunPoint, ...] = ()
    cases: tuple[str, ...] = ()
    logs: Floats
    """Logarithms of seconds, series x columns; NaN where there is no valid point."""
    why_reset: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """(series, column from which on something else is measured) -> `version 1 -> 2` or
    `gpu: A -> B`: baseline resets."""
    reruns: pd.DataFrame
    """Points that stand beside their commit's own, the same code measured again later: `series`,
    `column`, and `log`, how far they are from the commit's first point."""
    left_out: Mapping[str, int]
    """Why points or series are not here -> how many."""

    @property
    def resets(self) -> list[list[int]]:
        """Of each series the columns of its baseline resets."""
        columns: list[list[int]] = [[] for _ in self.cases]
        for series, column in sorted(self.why_reset):
            columns[series].append(column)
        return columns


def grids(rows: pd.DataFrame, machine: str, axis: Along, hardware: HardwareOf) -> list[Grid]:
    """The grids of one machine's rows: one, or one for each of its environments."""
    counts, left_out = _judged(rows)
    setting = settings(rows)
    num = len(np.unique(setting.codes))
    names = sorted(setting.categories[np.unique(setting.codes[counts])])
    if not names:
        nothing: dict[str, Any] = {"logs": np.empty((0, 0)), "reruns": pd.DataFrame()}
        empty = Grid(machine=machine, group=machine, left_out=left_out, **nothing)
        return [empty] if left_out else []
    made = list[Grid]()
    for name in names:
        own = rows.loc[counts & (setting == name), _GRID_COLUMNS]
        made.append(
            Grid(
                machine=machine,
                group=group_of(machine, name, num),
                setting=name,
                left_out={} if made else left_out,
                **_points(own, axis, hardware),
            )
        )
    return made


def _judged(rows: pd.DataFrame) -> tuple[Bools, dict[str, int]]:
    """Valid numbers of runs that may be judged, and what is left out."""
    ours = rows["scratch"].isna().to_numpy()
    ok = (rows["status"] == "ok").to_numpy()
    left = {
        "points of scratch runs": int((~ours & ok).sum()),
        "failed points": int((ours & (rows["status"] == "failed").to_numpy()).sum()),
    }
    counts = ours & ok
    timed = (rows["unit"] == "seconds").to_numpy()
    left["series in other units than seconds"] = rows.loc[counts & ~timed, "case"].nunique()
    counts &= timed
    dated = (rows["committed_at"].notna() & rows["commit"].notna()).to_numpy()
    left["points without a dated commit"] = int((counts & ~dated).sum())
    counts &= dated & (rows["seconds"] > 0).to_numpy()
    few = of_few_launches(rows)
    left[f"points of fewer than {MIN_LAUNCHES} launches"] = int((counts & few).sum())
    return counts & ~few, {why: num for why, num in left.items() if num}


def marked(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows whose `scratch` says of points with few launches, too, why they are not judged."""
    few = of_few_launches(rows) & (rows["scratch"].isna() & (rows["status"] == "ok")).to_numpy()
    if not few.any():
        return rows
    scratch = rows["scratch"].astype(object)
    scratch[few] = [*map(few_launches, rows.loc[few, "num_samples"])]
    return rows.assign(scratch=scratch)


def of_few_launches(rows: pd.DataFrame) -> Bools:
    """Points of hostbench's own cases that are never judged, whatever run they come from: they
    have too few launches. Of other projects' benchmarks the samples are no launches."""
    ours = rows["run_id"].map(environment_of, na_action="ignore").isna()
    return np.asarray((rows["num_samples"] < MIN_LAUNCHES) & ours)


def settings(rows: pd.DataFrame) -> pd.Categorical:
    """What keeps rows of one machine apart: asv's environment of another project, or a device that
    stands in; empty for hostbench's own."""
    names = rows["run_id"].map(environment_of, na_action="ignore").astype(object)
    names = names.where((rows["source"] == "asv") & names.notna(), "")
    names = names.mask(rows["device"] == SIMULATED, SIMULATED)
    others = sorted({*names.unique()} - {"", SIMULATED})
    return pd.Categorical(names, categories=["", SIMULATED, *others])


def group_of(machine: str, setting: str, num_settings: int) -> str:
    """What a series' id names after its case: the machine, or machine/setting where it has runs of
    several settings."""
    return f"{machine}/{setting}" if setting and num_settings > 1 else machine


def _points(rows: pd.DataFrame, axis: Along, hardware: HardwareOf) -> dict[str, Any]:
    """The fields of a grid that these rows, the valid ones of one setting, come to."""
    runs, column = _runs(rows, axis)
    case = rows["case"].cat.remove_unused_categories()
    cases = sorted(case.cat.categories)
    points = pd.DataFrame(
        {
            "series": case.cat.set_categories(cases).cat.codes.to_numpy(),
            "column": column,
            "version": rows["version"].cat.codes.to_numpy(),
            "log": log_seconds(rows["seconds"].to_numpy(dtype=np.float64)),
        }
    )
    reruns = points.head(0)
    if axis == "commit":
        points, reruns = _without_reruns(points, runs)
    logs, versions = np.full((len(cases), len(runs)), np.nan), np.full((len(cases), len(runs)), -1)
    where = points["series"].to_numpy(), points["column"].to_numpy()
    logs[where], versions[where] = points["log"].to_numpy(), points["version"].to_numpy()
    times, names = runs["started_at"].to_numpy(), list(rows["version"].cat.categories)
    why = dict(_version_resets(logs, versions, times, names))
    known = [hardware.get(run_id, {}) for run_id in runs.index]
    dates = [list(map(pd.Timestamp.to_pydatetime, runs[name])) for name in ORDER["commit"]]
    about = zip(runs.index, runs["commit"], *dates, strict=True)
    return {
        "columns": tuple(
            RunPoint(run_id=run_id, commit=commit, committed_at=committed_at, started_at=started_at)
            for run_id, commit, committed_at, started_at in about
        ),
        "cases": tuple(cases),
        "logs": logs,
        "why_reset": why | dict(_hardware_resets(logs, known)),
        "reruns": reruns[["series", "column", "log"]],
    }


def _runs(rows: pd.DataFrame, axis: Along) -> tuple[pd.DataFrame, Codes]:
    """The runs in order, by run_id: `commit`, `committed_at`, `started_at`; and which of them each
    row is of."""
    run = rows["run_id"].cat.codes.to_numpy()
    started = rows["started_at"].fillna(rows["committed_at"])
    about = {"committed_at": rows["committed_at"].array, "started_at": started.array}
    runs = pd.DataFrame(about).groupby(run).min()
    first = rows.iloc[np.unique(run, return_index=True)[1]]
    runs["run_id"], runs["commit"] = first["run_id"].to_list(), first["commit"].to_list()
    runs["first"] = runs.groupby("commit")["started_at"].transform("min")
    by = ["committed_at", "first", "commit", "started_at"] if axis == "commit" else ["started_at"]
    runs = runs.sort_values([*by, "run_id"])
    number = np.empty(run.max() + 1, dtype=np.int64)
    number[runs.index] = np.arange(len(runs))
    return runs.set_index("run_id"), number[run]


def _without_reruns(points: pd.DataFrame, runs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(points, points of an older commit, measured after a newer one, that had a point already),
    these with `log` counted from the commit's first."""
    by_time = runs["started_at"].to_numpy().argsort(kind="stable")
    dates = runs["committed_at"].iloc[by_time]
    late, when = np.empty(len(runs), dtype=bool), np.empty(len(runs), dtype=np.int64)
    late[by_time], when[by_time] = dates < dates.cummax(), np.arange(len(runs))
    if not late.any():
        return points, points.head(0)
    column, commit = points["column"].to_numpy(), pd.factorize(runs["commit"])[0]
    timed = points.assign(commit=commit[column], when=when[column]).sort_values("when")
    is_again = timed.duplicated(["series", "commit"]) & late[timed["column"]]
    own, again = timed[~is_again], timed[is_again]
    first = own.drop_duplicates(["series", "commit"]).set_index(["series", "commit"])["log"]
    before = first.reindex(pd.MultiIndex.from_frame(again[["series", "commit"]])).to_numpy()
    return own, again.assign(log=again["log"] - before)


def _version_resets(
    logs: Floats, version: Codes, started: npt.NDArray[np.datetime64], names: Sequence[str]
) -> Iterator[tuple[tuple[int, int], str]]:
    """Where the workload's version is another than before. Where versions interleave (newer
    benchmarks run on older commits) the one that ran last is the newer, and an older one ends where
    it begins: its later points are taken out of `logs`."""
    for series in np.flatnonzero([len(set(row[row >= 0])) > 1 for row in version]):
        row, end = version[series], version.shape[1]
        columns_of = [np.flatnonzero(row == name) for name in np.unique(row[row >= 0])]
        for own in sorted(columns_of, key=lambda own: started[own].max(), reverse=True):
            gone = own[own >= end]
            logs[series, gone], row[gone] = np.nan, -1
            end = min(end, int(own[0]))
        known = np.flatnonzero(row >= 0)
        for at in np.flatnonzero(np.diff(row[known])):
            old, new = (short_version(names[row[known[place]]]) for place in (at, at + 1))
            yield (int(series), int(known[at + 1])), f"version {old} -> {new}"


def short_version(version: str) -> str:
    """asv's own versions are hashes of the code."""
    return version[:8] if len(version) > 16 else version


def _hardware_resets(
    logs: Floats, known: Sequence[Mapping[str, str]]
) -> Iterator[tuple[tuple[int, int], str]]:
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
        if not changed:
            continue
        both = valid[:, :number].any(axis=1) & valid[:, number:].any(axis=1)
        for series in np.flatnonzero(both):
            first = number + int(np.argmax(valid[series, number:]))
            yield (int(series), first), "; ".join(changed)
