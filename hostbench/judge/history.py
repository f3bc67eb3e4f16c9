"""Everything that is stored, judged: one record of plain values, the same for whoever asks, on
whatever day. No files: rows come as frames, a machine at a time, and facts are asked for."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from msgspec import Struct

from hostbench.core.arrays import Floats
from hostbench.core.units import number_of
from hostbench.judge.causes import Explainer, FactsOf
from hostbench.judge.changepoint.detector import FEWEST_POINTS, longest_piece, relative
from hostbench.judge.changepoint.levels import Integers
from hostbench.judge.events import Event, EventStatus, JudgedGrid, judge_grid
from hostbench.judge.grid import (
    ORDER,
    SIMULATED,
    Along,
    RunPoint,
    grids,
    group_of,
    marked,
    settings,
)
from hostbench.store.runs import AboutRun

AGO = 20
"""Runs of a machine over which the recent change of a series is taken."""
SPARKS = 40
"""Values of a series' small picture, at most."""
_CAME = ("ok", "failed", "skipped")
_LATER = 1 << 60
"""More microseconds than any two dates are apart."""


class Stopped(Struct, frozen=True, kw_only=True):
    """Of a series whose newest runs gave no number; a run that did not come to it says nothing."""

    status: Literal["failed", "skipped"]
    since: RunPoint
    """The first run of those."""
    num_runs: int
    is_newest: bool
    """The machine's newest run is one of them."""


class Series(Struct, frozen=True, kw_only=True):
    """What is known of a series that a run came to, also of one that is never judged."""

    id: str
    machine: str
    group: str
    case: str
    status: str
    """Of the newest run that came to it: ok, failed, skipped."""
    points: int
    """Numbers of runs that may be judged."""
    value: float | None
    """Its newest number, in its `unit`."""
    unit: str | None
    why: str
    """Why the detector could not judge it, in words; empty where it could."""
    longest: int | None = None
    """Points of its longest piece between two baseline resets; None where nothing of it may be
    judged."""
    judged: bool = False
    noise: float | None = None
    """Standard deviation of the logarithm from point to point."""
    detectable: float | None = None
    """What 20 points would confirm."""
    change: float | None = None
    """By its steps within the newest AGO runs of its machine; None where a reset lies there."""
    sparkline: tuple[float, ...] = ()
    """Up to SPARKS values in seconds, the oldest first."""
    stopped: Stopped | None = None


class JudgedGroup(Struct, frozen=True, kw_only=True):
    """The series of a machine, or of one of its environments, as a whole."""

    name: str
    machine: str
    is_simulated: bool
    has_mode: bool
    """It has enough series to tell what the machine itself does."""
    left_out: dict[str, int]
    """Why points or series were not judged -> how many."""


class History(Struct, frozen=True, kw_only=True):
    axis: Along
    events: tuple[Event, ...]
    """With their causes. The machines' own first, then what stayed before what is over, the largest
    first."""
    series: tuple[Series, ...]
    groups: tuple[JudgedGroup, ...]
    commits: dict[str, datetime]
    """When each commit that was judged was made."""


def judge_history(
    tables: Iterable[tuple[str, pd.DataFrame]],
    runs: Mapping[str, AboutRun],
    facts_of: FactsOf,
    axis: Along,
) -> History:
    """`tables`: of each machine its rows, with the columns hostbench.judge.grid.NEEDED."""
    hardware = {name: run.hardware for name, run in runs.items()}
    judged, series = list[JudgedGrid](), list[Series]()
    for machine, rows in tables:
        own = [judge_grid(grid) for grid in grids(rows, machine, axis, hardware)]
        series += _series(rows, own, machine, axis)
        judged += own
    judged.sort(key=lambda own: (own.grid.machine, own.grid.group))
    explainer = Explainer(judged, runs, facts_of)
    events = [explainer.explain(event, own) for own in judged for event in own.events]

    def order(event: Event) -> tuple[bool, int, float, str]:
        rank = get_args(EventStatus).index(event.status)  # what stayed comes first there
        return event.case != "", rank, -abs(event.effect), event.id

    return History(
        axis=axis,
        events=tuple(sorted(events, key=order)),
        series=tuple(sorted(series, key=lambda one: (one.machine, one.group, one.case))),
        groups=tuple(map(_group, judged)),
        commits={run.commit: run.committed_at for own in judged for run in own.grid.columns},
    )


def _group(own: JudgedGrid) -> JudgedGroup:
    grid = own.grid
    num = len(grid.reruns)
    reruns = {"reruns of older commits, evidence only": num} if num else {}
    return JudgedGroup(
        name=grid.group,
        machine=grid.machine,
        is_simulated=grid.setting == SIMULATED,
        has_mode=own.machine.common is not None,
        left_out={**grid.left_out, **reruns},
    )


def _series(
    rows: pd.DataFrame, judged: Sequence[JudgedGrid], machine: str, axis: Along
) -> Iterator[Series]:
    kind = settings(rows)
    newest = _newest(rows, kind, axis)
    num = newest["setting"].nunique()
    by_setting = {own.grid.setting: own for own in judged if own.grid.cases}
    for setting, points in newest.groupby("setting", sort=False):
        own, stopped = by_setting.get(str(setting)), dict[str, Stopped]()
        if own is not None:
            ended = points["scratch"].isna() & (points["status"] != "ok")
            cases = set(points.loc[ended, "case"]) & own.row_of.keys()
            here = (kind == setting) & rows["scratch"].isna()
            stopped = dict(_stopped(rows[here], cases, list(ORDER[axis])) if cases else ())
        group = group_of(machine, str(setting), num)
        for point in points.to_dict("records"):
            case, is_ok = str(point["case"]), point["status"] == "ok"
            is_timed = point["unit"] == "seconds"
            value = point["seconds" if is_timed else "value"] if is_ok else None
            row = None if own is None else own.row_of.get(case)
            yield Series(
                id=f"{case}@{group}",
                machine=machine,
                group=group,
                case=case,
                status=point["status"],
                points=int(point["points"]),
                value=None if value is None or np.isnan(value) else float(value),
                unit=point["unit"] if isinstance(point["unit"], str) else None,
                stopped=stopped.get(case),
                **({"why": _why_never(point)} if own is None or row is None else _judged(own, row)),
            )


def _newest(rows: pd.DataFrame, setting: pd.Categorical, axis: Along) -> pd.DataFrame:
    """A row for each series that a run came to: its newest point, runs that may be judged before
    scratch ones; its `setting`, and how many numbers of runs that may be judged it has
    (`points`)."""
    came, case = rows["status"].isin(_CAME).to_numpy(), rows["case"].cat
    num = len(setting.categories) * len(case.categories)
    series = setting.codes.astype(np.int32) * len(case.categories) + case.codes.to_numpy()
    scratch = rows["scratch"].notna().to_numpy()
    at = _times(rows[ORDER[axis][0]])
    at[scratch] -= _LATER
    last = np.full(num, np.iinfo(np.int64).min)
    np.maximum.at(last, series[came], at[came])
    counts = came & ~scratch & (rows["status"] == "ok").to_numpy()
    points = np.bincount(series[counts], minlength=num)
    is_last = came & (at == last[series])
    newest = rows[is_last].assign(setting=setting[is_last], series=series[is_last])
    newest["at"] = _times(newest["started_at"].fillna(newest["committed_at"]))
    newest = newest.sort_values("at", kind="stable").drop_duplicates("series", keep="last")
    newest = newest.sort_values("series")
    return marked(newest.assign(points=points[newest["series"]]))


def _times(dates: pd.Series) -> Integers:
    """In microseconds; what has no date comes first."""
    at = dates.to_numpy(dtype="datetime64[us]").view(np.int64)
    return np.where(dates.isna(), -_LATER, at)


def _stopped(
    rows: pd.DataFrame, cases: Iterable[str], order: list[str]
) -> Iterator[tuple[str, Stopped]]:
    """Of rows of one setting, of any status, the cases whose newest runs gave no number."""
    rows = rows[rows["commit"].notna() & rows["committed_at"].notna()]
    rows = rows.assign(started_at=rows["started_at"].fillna(rows["committed_at"]))
    newest = rows[rows[order[0]] == rows[order[0]].max()].sort_values(order, kind="stable")
    came = rows[rows["status"].isin(_CAME) & rows["case"].isin(cases)]
    for case, own in came.sort_values(order, kind="stable").groupby("case", observed=True):
        status = own["status"].iloc[-1]
        without = own[own["status"].eq(status)[::-1].cummin()[::-1]]
        first = without.iloc[0]
        yield (
            str(case),
            Stopped(
                status=status,
                since=RunPoint(
                    run_id=first["run_id"],
                    commit=first["commit"],
                    committed_at=first["committed_at"].to_pydatetime(),
                    started_at=first["started_at"].to_pydatetime(),
                ),
                num_runs=without["run_id"].nunique(),
                is_newest=without["run_id"].iloc[-1] == newest["run_id"].iloc[-1],
            ),
        )


def _why_never(point: Mapping[Any, Any]) -> str:
    """Why nothing of a series may be judged."""
    if isinstance(point["scratch"], str):
        return f"scratch: {point['scratch']}"
    if not point["points"]:
        return f"it never had a number: {point['status']}"
    if point["unit"] != "seconds":
        unit = "no unit" if point["unit"] in (None, "unit") else point["unit"]
        return f"it is in {unit}: only times are judged"
    return "no point of it comes from a run that may be judged"


def _judged(own: JudgedGrid, row: int) -> dict[str, Any]:
    """What the detector says of one series."""
    logs, judgement, why, change = own.grid.logs[row], own.machine.own[row], "", None
    longest = longest_piece(logs, own.resets[row])
    if not judgement.judged:
        why = (
            f"{number_of(longest, 'point')} at most between two baseline resets, "
            f"{FEWEST_POINTS} are needed"
        )
    elif judgement.detectable is None:
        why = f"fewer than {FEWEST_POINTS} points have come since its newest baseline reset"
    else:
        late = [one for one in own.changes_of(row) if one.index >= len(logs) - AGO]
        if all(one.kind != "break" for one in late):
            change = relative(sum(one.height for one in late if one.kind == "step"))
    return {
        "longest": longest,
        "judged": judgement.judged,
        "why": why,
        "noise": judgement.noise,
        "detectable": judgement.detectable,
        "change": change,
        "sparkline": _sparkline(logs),
    }


def _sparkline(logs: Floats) -> tuple[float, ...]:
    """The points in seconds; of more than SPARKS the medians of as many neighbours each, so that a
    step stays one."""
    points = logs[np.isfinite(logs)]
    size = -(-len(points) // SPARKS)
    if size > 1:
        filled = np.concatenate([points, np.repeat(points[-1], -len(points) % size)])
        points = np.median(filled.reshape(-1, size), axis=1)
    return tuple(float(f"{one:.4g}") for one in np.exp(points))
