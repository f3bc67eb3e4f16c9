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
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

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
    "case commit committed_at run_id started_at version status unit seconds scratch source device "
    "num_samples"
).split()
"""Columns of the tidy frame that a grid is made of."""
_OF_GRIDS = ["case", "commit", "committed_at", "run_id", "started_at", "version", "seconds"]
_OF_STOPPED = ["case", "commit", "committed_at", "run_id", "started_at", "status"]
SIMULATED = "simulated"
ORDER: Mapping[Along, tuple[str, ...]] = {
    "commit": ("committed_at", "started_at"),
    "run-time": ("started_at",),
}
"""What a machine's rows stand by, the column that counts most first."""
Reasons = Iterator[tuple[tuple[int, int], str]]
"""((series, first column after the reset), what changed)."""
Codes = npt.NDArray[np.int64]
HardwareOf = Mapping[str, Mapping[str, str]]
"""run_id -> hostbench.facts.causes.identity of that run."""


class RunPoint(Struct, frozen=True, kw_only=True):
    """One run, as a place in time."""

    run_id: str
    commit: str
    committed_at: datetime
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A point that stands beside its commit's own: the same code, measured again later."""

    series: int
    commit: str
    started_at: datetime
    ratio: float
    """Difference of logarithms to the commit's first point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """A series whose newest runs gave no number; a run that did not come to it says nothing."""

    series: int
    """Row of the grid."""
    status: Literal["failed", "skipped"]
    run_id: str
    """The first run of those."""
    commit: str
    committed_at: pd.Timestamp
    num_runs: int
    is_newest: bool
    """The machine's newest run is one of them."""


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
    resets: tuple[tuple[int, ...], ...] = ()
    """Of each series, the columns from which on something else is measured: baseline resets."""
    why_reset: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """(series, column) -> `version 1 -> 2` or `gpu: A -> B`."""
    reruns: tuple[Rerun, ...] = ()
    left_out: Mapping[str, int]
    """Why points or series are not here -> how many."""
    stopped: tuple[Stopped, ...] = ()
    """Series that have no number any more."""
    simulated: bool = False
    """Of the simulated device: no measurement of any machine."""

    def id(self, series: int) -> str:
        return f"{self.cases[series]}@{self.group}"


def grids(rows: pd.DataFrame, machine: str, axis: Along, hardware: HardwareOf) -> list[Grid]:
    """The grids of one machine's rows: one, or one for each of its environments."""
    counts, left_out = _judged(rows)
    if not counts.any():
        empty = Grid(machine=machine, group=machine, logs=np.empty((0, 0)), left_out=left_out)
        return [empty] if left_out else []
    setting, ours = settings(rows), rows["scratch"].isna().to_numpy()
    names = sorted(setting.categories[np.unique(setting.codes[counts])])
    every = np.unique(setting.codes)
    made = []
    for number, name in enumerate(names):
        here = setting == name
        own = rows.loc[here & counts, _OF_GRIDS]
        group = group_of(machine, str(name), len(every))
        grid = _grid(own, machine, group, axis, hardware, {} if number else left_out)
        del own
        ended = stopped(rows.loc[here & ours, _OF_STOPPED], grid.cases, ORDER[axis])
        about = {"setting": str(name), "simulated": name == SIMULATED}
        made.append(replace(grid, stopped=tuple(ended), **about))
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
    may_be = rows["scratch"].isna() & (rows["status"] == "ok")
    few = of_few_launches(rows) & may_be.to_numpy()
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


def _codes(column: pd.Series) -> tuple[Codes, list[str]]:
    """Places in the sorted values, -1 where there is none; and the values."""
    own = column.astype("category").cat.remove_unused_categories()
    names = sorted(map(str, own.cat.categories))
    return own.cat.set_categories(names).cat.codes.to_numpy().astype(np.int64), names


def _grid(
    rows: pd.DataFrame,
    machine: str,
    group: str,
    axis: Along,
    hardware: HardwareOf,
    left_out: Mapping[str, int],
) -> Grid:
    columns, number = _columns(rows, axis)
    series, cases = _codes(rows["case"])
    version, names = _codes(rows["version"])
    log = log_seconds(rows["seconds"].to_numpy(dtype=np.float64))
    points = pd.DataFrame({"series": series, "column": number, "version": version, "log": log})
    again = pd.DataFrame()
    if axis == "commit":
        points, again = _without_reruns(points, columns)
    shape = len(cases), len(columns)
    logs, versions = np.full(shape, np.nan), np.full(shape, -1)
    where = points["series"].to_numpy(), points["column"].to_numpy()
    logs[where], versions[where] = points["log"].to_numpy(), points["version"].to_numpy()
    newest_version_counts(logs, versions, [column.started_at.timestamp() for column in columns])
    known = [hardware.get(column.run_id, {}) for column in columns]
    why = dict(version_resets(versions, names)) | dict(hardware_resets(logs, known))
    resets: list[list[int]] = [[] for _ in cases]
    for row, column in sorted(why):
        resets[row].append(column)
    return Grid(
        machine=machine,
        group=group,
        columns=tuple(columns),
        cases=tuple(cases),
        logs=logs,
        resets=tuple(map(tuple, resets)),
        why_reset=why,
        reruns=tuple(
            Rerun(
                series=int(row),
                commit=columns[int(column)].commit,
                started_at=columns[int(column)].started_at,
                ratio=float(ratio),
            )
            for row, column, ratio in again.itertuples(index=False)
        ),
        left_out=left_out,
    )


def _columns(rows: pd.DataFrame, axis: Along) -> tuple[list[RunPoint], Codes]:
    """The runs in order, and the number of each row's."""
    run, names = _codes(rows["run_id"])
    started = rows["started_at"].fillna(rows["committed_at"])
    about = {"run": run, "committed_at": rows["committed_at"].array, "started_at": started.array}
    runs = pd.DataFrame(about).groupby("run").min()
    _, of_run = np.unique(run, return_index=True)
    runs["commit"] = rows["commit"].iloc[of_run].astype(object).to_numpy()
    runs["first"] = runs.groupby("commit")["started_at"].transform("min")
    by = ["committed_at", "first", "commit", "started_at"]
    runs = runs.sort_values(by if axis == "commit" else by[3:])
    number = np.empty(len(runs), dtype=np.int64)
    number[runs.index] = np.arange(len(runs))
    dates = (map(pd.Timestamp.to_pydatetime, runs[name]) for name in ("committed_at", "started_at"))
    about_runs = zip([names[i] for i in runs.index], map(str, runs["commit"]), *dates, strict=True)
    points = [
        RunPoint(run_id=run_id, commit=commit, committed_at=committed, started_at=at)
        for run_id, commit, committed, at in about_runs
    ]
    return points, number[run]


def _without_reruns(
    points: pd.DataFrame, columns: Sequence[RunPoint]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(points, points of an older commit, measured after a newer one, that had a point already):
    of these the series, the column, and the difference of logarithms to the commit's first."""
    started = sorted(range(len(columns)), key=lambda i: columns[i].started_at)
    dates = pd.Series([columns[i].committed_at for i in started])
    late, when = np.empty(len(columns), dtype=bool), np.empty(len(columns), dtype=np.int64)
    late[started], when[started] = dates < dates.cummax(), np.arange(len(columns))
    nothing = points.head(0)[["series", "column", "log"]]
    if not late.any():
        return points, nothing
    _, commit = np.unique([column.commit for column in columns], return_inverse=True)
    at = points["column"].to_numpy()
    timed = points.assign(commit=commit[at], when=when[at]).sort_values("when")
    is_again = timed.duplicated(["series", "commit"]) & late[timed["column"]]
    own, again = timed[~is_again], timed[is_again]
    first = own.drop_duplicates(["series", "commit"]).set_index(["series", "commit"])["log"]
    before = first.reindex(pd.MultiIndex.from_frame(again[["series", "commit"]])).to_numpy()
    again = again.assign(log=again["log"] - before)
    return own, again[["series", "column", "log"]]


def stopped(rows: pd.DataFrame, cases: Sequence[str], order: Sequence[str]) -> Iterator[Stopped]:
    """Of one machine's rows of any status, with the runs ordered by these columns."""
    order = list(order)
    rows = rows[rows["commit"].notna() & rows["committed_at"].notna()]
    rows = rows.assign(started_at=rows["started_at"].fillna(rows["committed_at"]))
    came = rows[rows["status"].isin(("ok", "failed", "skipped"))]
    at = came[order[0]]
    late = came[at == at.groupby(came["case"], observed=True).transform("max")]
    last = late.sort_values(order, kind="stable").drop_duplicates("case", keep="last")
    ended = last.loc[(last["status"] != "ok") & last["case"].isin(cases), "case"]
    newest = rows.loc[rows[order[0]] == rows[order[0]].max()].sort_values(order, kind="stable")
    number = {case: row for row, case in enumerate(cases)}
    own_rows = came[came["case"].isin(ended)].sort_values(order, kind="stable")
    for case, own in own_rows.groupby("case", observed=True):
        status = own["status"].iloc[-1]
        without = own[own["status"].eq(status)[::-1].cummin()[::-1]]
        first = without.iloc[0]
        yield Stopped(
            series=number[str(case)],
            status=status,
            run_id=str(first["run_id"]),
            commit=str(first["commit"]),
            committed_at=first["committed_at"],
            num_runs=without["run_id"].nunique(),
            is_newest=without["run_id"].iloc[-1] == newest["run_id"].iloc[-1],
        )


def newest_version_counts(logs: Floats, version: Codes, started: Sequence[float]) -> None:
    """Where versions of a workload interleave (newer benchmarks run on older commits), an older one
    ends where a newer one begins: its later points are taken out, in place. `started`: when each
    column ran; the newer version is what ran last."""
    times = np.array(started)
    for i in np.flatnonzero([len(set(row[row >= 0])) > 1 for row in version]):
        row = version[i]
        last = {one: times[row == one].max() for one in set(row[row >= 0].tolist())}
        end = len(row)
        for one in sorted(last, key=lambda one: -last[one]):
            own = np.flatnonzero(row == one)
            gone = own[own >= end]
            logs[i, gone], row[gone] = np.nan, -1
            end = min(end, int(own[0]))


def version_resets(version: Codes, names: Sequence[str]) -> Reasons:
    for i in np.flatnonzero([len(set(row[row >= 0])) > 1 for row in version]):
        known = np.flatnonzero(version[i] >= 0)
        row = version[i, known]
        for at in np.flatnonzero(np.diff(row)):
            old, new = short_version(names[row[at]]), short_version(names[row[at + 1]])
            yield (int(i), int(known[at + 1])), f"version {old} -> {new}"


def short_version(version: str) -> str:
    """asv's own versions are hashes of the code."""
    return version[:8] if len(version) > 16 else version


def hardware_resets(logs: Floats, known: Sequence[Mapping[str, str]]) -> Reasons:
    """Where a part of the machine is known to be another one than before: in every series, at its
    first point from there on. `known`: of each column, facts.causes.identity; empty where untold.
    """
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
        for i in np.flatnonzero(both):
            yield (int(i), number + int(np.argmax(valid[i, number:]))), "; ".join(changed)
