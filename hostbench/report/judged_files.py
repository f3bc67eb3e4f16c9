"""A machine, judged, as one file: what its grids hold and what the detector said of them.

Nothing in such a file is run: it is read as plain values of known types.
"""

import numpy as np
import pandas as pd
from msgspec import MsgspecError, Struct, msgpack

from hostbench.judge.change import Judgement
from hostbench.judge.events import Judged, events_of
from hostbench.judge.grid import Grid, GridColumn, Rerun, Stopped
from hostbench.judge.machine import JudgedMachine

DAMAGE = (OSError, MsgspecError, ValueError, IndexError)
"""What reading such a file raises that is damaged, or has gone."""


class _KeptGrid(Struct, array_like=True, frozen=True):
    """Times are microseconds since the epoch."""

    machine: str
    group: str
    setting: str
    columns: list[tuple[str, str, int, int]]
    cases: list[str]
    logs: bytes
    resets: list[tuple[int, ...]]
    why_reset: list[tuple[int, int, str]]
    reruns: list[tuple[int, str, int, float]]
    left_out: dict[str, int]
    stopped: list[tuple[int, str, str, str, int, int, bool]]
    simulated: bool
    own: list[Judgement]
    common: Judgement | None


def to_bytes(judged: list[Judged]) -> bytes:
    return msgpack.encode([_kept(one) for one in judged])


def from_bytes(data: bytes) -> list[Judged]:
    """Raises one of DAMAGE."""
    return [_judged(one) for one in msgpack.decode(data, type=list[_KeptGrid])]


def _kept(judged: Judged) -> _KeptGrid:
    grid = judged.grid
    return _KeptGrid(
        machine=grid.machine,
        group=grid.group,
        setting=grid.setting,
        columns=[
            (one.run_id, one.commit, _us(one.committed_at), _us(one.started_at))
            for one in grid.columns
        ],
        cases=list(grid.cases),
        logs=grid.logs.tobytes(),
        resets=list(grid.resets),
        why_reset=[(*place, why) for place, why in grid.why_reset.items()],
        reruns=[(one.series, one.commit, _us(one.started_at), one.ratio) for one in grid.reruns],
        left_out=dict(grid.left_out),
        stopped=[
            (
                *(one.series, one.status, one.run_id, one.commit, _us(one.committed_at)),
                *(one.num_runs, bool(one.is_newest)),
            )
            for one in grid.stopped
        ],
        simulated=grid.simulated,
        own=list(judged.machine.own),
        common=judged.machine.common,
    )


def _judged(kept: _KeptGrid) -> Judged:
    logs = np.frombuffer(kept.logs).reshape(len(kept.cases), len(kept.columns))
    if len(kept.own) != len(kept.cases):
        raise ValueError("a series without a judgement")
    grid = Grid(
        machine=kept.machine,
        group=kept.group,
        setting=kept.setting,
        columns=tuple(
            GridColumn(run_id=run, commit=commit, committed_at=_time(at), started_at=_time(began))
            for run, commit, at, began in kept.columns
        ),
        cases=tuple(kept.cases),
        logs=logs,
        resets=tuple(kept.resets),
        why_reset={(series, column): why for series, column, why in kept.why_reset},
        reruns=tuple(
            Rerun(series=series, commit=commit, started_at=_time(at), ratio=ratio)
            for series, commit, at, ratio in kept.reruns
        ),
        left_out=kept.left_out,
        stopped=tuple(
            Stopped(
                series=series,
                status="failed" if status == "failed" else "skipped",
                run_id=run,
                commit=commit,
                committed_at=_time(at),
                num_runs=num,
                is_newest=is_newest,
            )
            for series, status, run, commit, at, num, is_newest in kept.stopped
        ),
        simulated=kept.simulated,
    )
    return events_of(grid, JudgedMachine(own=tuple(kept.own), common=kept.common))


def _us(at: pd.Timestamp) -> int:
    return int(at.value // 1000)


def _time(us: int) -> pd.Timestamp:
    return pd.Timestamp(us * 1000, tz="UTC").as_unit("us")
