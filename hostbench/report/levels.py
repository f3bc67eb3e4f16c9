"""The runs before the older of two sides, series by series: what its level is made of."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from hostbench.judge.grid import of_few_launches
from hostbench.judge.two_sides import LEVEL_RUNS
from hostbench.report.side_runs import Key, SideRuns
from hostbench.store.asv_tree import environment_of
from hostbench.store.results import Results

_COLUMNS = [
    *("case", "version", "status", "unit", "seconds", "value", "run_id", "scratch", "hardware"),
    *("committed_at", "started_at", "num_samples"),
]
_BY_TIME = ["at", "started_at"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsBefore:
    older: Literal[0, 1]
    """Which side is the older one, by the dates of the commits, then of the runs."""
    seconds: tuple[float, ...]
    """Of the runs before it on the same hardware, the oldest first; bytes of a series of memory."""


def runs_before(first: SideRuns, second: SideRuns, history: Results) -> dict[Key, RunsBefore]:
    """Without the series that have none. Where the first side is the level itself, of the series
    that one of the last LEVEL_RUNS runs measured."""
    found: dict[Key, RunsBefore] = {}
    for machine, of_second in second.rows.groupby("machine"):
        own = [set(first.rows.loc[first.rows["machine"] == machine, "run_id"])]
        own.append(set(of_second["run_id"]))
        rows = history.points(str(machine), _COLUMNS)
        rows["at"] = rows["committed_at"].fillna(rows["started_at"])
        rows["started_at"] = rows["started_at"].fillna(rows["at"])
        rows = rows[rows["at"].notna()]
        ends = [_ends(rows, ids) for ids in own]
        if ends[1] is None or (ends[0] is None and not first.is_level):
            continue
        older: Literal[0, 1] = 1 if ends[0] and ends[0][1] > ends[1][1] else 0
        begin = ends[1] if first.is_level else ends[older]
        assert begin is not None
        rows = _valid(rows, own[1] if first.is_level else own[older])
        rows = rows[~rows["run_id"].isin(own[0] | own[1])].sort_values(_BY_TIME)
        at, started = begin[0]
        is_before = (rows["at"] < at) | ((rows["at"] == at) & (rows["started_at"] < started))
        rows = rows[is_before]
        recent = set(rows["run_id"].drop_duplicates().tail(LEVEL_RUNS))
        rows["recent"] = rows["run_id"].isin(recent)
        names = {run: where_of(str(machine), str(run)) for run in rows["run_id"].unique()}
        rows["where"] = rows["run_id"].astype(object).map(names)
        for key, series in rows.groupby(["where", "case", "version"], observed=True):
            if series["recent"].any() or not first.is_level:
                numbers = tuple(series["number"].tolist())
                found[tuple(map(str, key))] = RunsBefore(older=older, seconds=numbers)
    return found


def where_of(machine: str, run_id: str) -> str:
    """The machine; machine/environment of another project's."""
    environment = environment_of(run_id)
    return f"{machine}/{environment}" if environment else machine


def _ends(rows: pd.DataFrame, ids: Collection[str]) -> tuple[tuple[pd.Timestamp, ...], ...] | None:
    """(the first, the last) of these runs, each as (at, started_at)."""
    own = rows.loc[rows["run_id"].isin(ids), _BY_TIME]
    if own.empty:
        return None
    times = sorted(own.drop_duplicates().itertuples(index=False, name=None))
    return times[0], times[-1]


def _valid(rows: pd.DataFrame, ids: Collection[str]) -> pd.DataFrame:
    """The rows that may be judged, with their `number`, on the hardware of these runs."""
    hardware = rows.loc[rows["run_id"].isin(ids), "hardware"].dropna().unique()
    known = rows["hardware"].isna() | rows["hardware"].isin(hardware) if len(hardware) else True
    number = rows["seconds"].where(rows["unit"] == "seconds")
    number = number.where(rows["unit"] != "bytes", rows["value"])
    counts = rows["scratch"].isna() & (rows["status"] == "ok") & known & (number > 0)
    return rows.assign(number=number)[counts & ~of_few_launches(rows)]
