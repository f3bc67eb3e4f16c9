"""Everything that is stored, judged: one record of plain values, the same for whoever asks, on
whatever day. No files: rows come as frames, a machine at a time, and facts are asked for."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from msgspec import Struct

from hostbench.core.arrays import Floats
from hostbench.core.units import number_of
from hostbench.judge.causes import Explainer, FactsOf
from hostbench.judge.changepoint.detector import FEWEST_POINTS, longest_piece, relative
from hostbench.judge.events import (
    MOVED_SHARE,
    Event,
    EventStatus,
    JudgedGrid,
    judge_grid,
    ways,
)
from hostbench.judge.grid import (
    ORDER,
    SIMULATED,
    Along,
    RunPoint,
    grids,
    group_names,
    marked,
    point_of,
    settings,
)
from hostbench.store.runs import AboutRun

AGO = 20
"""Runs of a machine over which the recent change of a series is taken."""
SPARKS = 40
"""Values of a series' small picture, at most."""
_CAME = ("ok", "failed", "skipped")


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
    why: str = ""
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
        series += _series(rows, own, machine, ORDER[axis])
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
        series=tuple(sorted(series, key=lambda own: (own.machine, own.group, own.case))),
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
        left_out={**grid.left_out, **reruns},
    )


def _series(
    rows: pd.DataFrame, judged: Sequence[JudgedGrid], machine: str, order: list[str]
) -> Iterator[Series]:
    """Every series that a run came to."""
    setting, known = settings(rows), dict[tuple[str, str], dict[str, Any]]()
    newest = _newest(rows.assign(setting=setting), order)
    for own in judged:
        name, cases = own.grid.setting, own.grid.cases
        is_over = (newest["setting"] == name) & (newest["status"] != "ok")
        over, stopped = set(newest.loc[is_over, "case"]).intersection(cases), dict[str, Stopped]()
        if over:
            here = (setting == name) & rows["scratch"].isna()
            stopped = dict(_stopped(rows[here], over, order))
        for case, about in zip(cases, _judged(own), strict=True):
            known[name, case] = {**about, "stopped": stopped.get(case)}
    groups = group_names(machine, setting)
    for point in newest.to_dict("records"):
        group, case = groups[point["setting"]], str(point["case"])
        value = point["seconds" if point["unit"] == "seconds" else "value"]
        has_value = point["status"] == "ok" and not pd.isna(value)
        yield Series(
            id=f"{case}@{group}",
            machine=machine,
            group=group,
            case=case,
            status=point["status"],
            points=point["points"],
            value=float(value) if has_value else None,
            unit=point["unit"] if isinstance(point["unit"], str) else None,
            **known.get((point["setting"], case)) or {"why": _why_never(point)},
        )


def _newest(rows: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """A row for each series that a run came to: its newest point, runs that may be judged before
    scratch ones; and how many numbers of runs that may be judged it has (`points`)."""
    runs = rows.drop_duplicates("run_id").sort_values(order, na_position="first")
    ranks = pd.Series(range(len(runs)), index=runs["run_id"].cat.codes)
    ours = rows["scratch"].isna()
    rank = rows["run_id"].cat.codes.map(ranks) + len(runs) * ours
    came = rows["status"].isin(_CAME)
    about = pd.DataFrame({"rank": rank, "points": ours & (rows["status"] == "ok")})[came]
    series = about.groupby([rows["setting"][came], rows["case"][came]], observed=True)
    newest = rows.loc[series["rank"].idxmax()]
    return marked(newest.assign(points=series["points"].sum().to_numpy()))


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


def _judged(own: JudgedGrid) -> Iterator[dict[str, Any]]:
    """What the detector says of each series of a grid."""
    grid = own.grid
    since = len(grid.columns) - AGO
    late = [e for e in own.of_case[""] if e.kind == "step" and e.index >= since]
    joined = [ways(grid.logs, e.index) / e.height >= MOVED_SHARE for e in late]
    for row, (case, resets) in enumerate(zip(grid.cases, grid.resets, strict=True)):
        judgement, logs, why, change = own.machine.own[row], grid.logs[row], "", None
        longest = longest_piece(logs, resets)
        if not judgement.judged:
            why = (
                f"{number_of(longest, 'point')} at most between two baseline resets, "
                f"{FEWEST_POINTS} are needed"
            )
        elif judgement.detectable is None:
            why = f"fewer than {FEWEST_POINTS} points have come since its newest baseline reset"
        else:
            recent = [e for e in own.of_case.get(case, ()) if e.index >= since]
            steps = [e.height for e in recent if e.kind == "step"]
            steps += [e.height for e, series in zip(late, joined, strict=True) if series[row]]
            change = None if any(e.is_reset for e in recent) else relative(sum(steps))
        yield {
            "longest": longest,
            "judged": judgement.judged,
            "why": why,
            "noise": judgement.noise,
            "detectable": judgement.detectable,
            "change": change,
            "sparkline": _sparkline(logs),
        }


def _stopped(
    rows: pd.DataFrame, cases: Collection[str], order: list[str]
) -> Iterator[tuple[str, Stopped]]:
    """Of rows of one setting, of any status, the cases whose newest runs gave no number."""
    rows = rows[rows["commit"].notna() & rows["committed_at"].notna()]
    rows = rows.assign(started_at=rows["started_at"].fillna(rows["committed_at"]))
    newest = rows[rows[order[0]] == rows[order[0]].max()].sort_values(order, kind="stable")
    came = rows[rows["status"].isin(_CAME) & rows["case"].isin(cases)]
    for case, own in came.sort_values(order, kind="stable").groupby("case", observed=True):
        status = own["status"].iloc[-1]
        without = own[own["status"].eq(status)[::-1].cummin()[::-1]]
        stopped = Stopped(
            status=status,
            since=point_of(without.iloc[0]),
            num_runs=without["run_id"].nunique(),
            is_newest=without["run_id"].iloc[-1] == newest["run_id"].iloc[-1],
        )
        yield str(case), stopped


def _sparkline(logs: Floats) -> tuple[float, ...]:
    """The points in seconds; of more than SPARKS the medians of as many neighbours each, so that a
    step stays one."""
    points = logs[np.isfinite(logs)]
    size = -(-len(points) // SPARKS)
    if size > 1:
        filled = np.concatenate([points, np.repeat(points[-1], -len(points) % size)])
        points = np.median(filled.reshape(-1, size), axis=1)
    return tuple(np.exp(points).tolist())
