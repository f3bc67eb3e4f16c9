"""Everything that is stored, judged: one record of plain values, the same for whoever asks, on
whatever day. No files: rows come as frames, a machine at a time, and facts are asked for."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

import numpy as np
import pandas as pd
from msgspec import Struct

from hostbench.judge.causes import Explainer, FactsOf
from hostbench.judge.changepoint.detector import longest_piece
from hostbench.judge.events import Event, EventStatus, JudgedGrid, judge_grid
from hostbench.judge.grid import grids, why_left_out
from hostbench.store.runs import StoredFile

SPARKS = 40
"""Values of a series' small picture, at most."""


class Series(Struct, frozen=True, kw_only=True):
    """What is known of a series that has times of runs that may be judged."""

    machine: str
    group: str
    case: str
    points: int
    longest: int
    """Points of its longest piece between two baseline resets."""
    judged: bool
    """Whether that was long enough."""
    detectable: float | None
    """The smallest change that 20 points would confirm; None if too few since its newest reset."""
    sparkline: tuple[float, ...]
    """Up to SPARKS values in seconds, the oldest first."""

    @property
    def id(self) -> str:
        return f"{self.case}@{self.group}"


class History(Struct, frozen=True, kw_only=True):
    events: tuple[Event, ...]
    """With causes. The machines' own first, then what stayed before what is over, by size."""
    series: tuple[Series, ...]
    left_out: dict[str, dict[str, int]]
    """Machine -> why -> points, also of cases that failed, that are in no series."""


def judge_history(
    tables: Iterable[tuple[str, pd.DataFrame]], runs: Mapping[str, StoredFile], facts_of: FactsOf
) -> History:
    """`tables`: of each machine its rows, with the columns hostbench.judge.grid.NEEDED."""
    hardware = {name: run.identity for name, run in runs.items()}
    judged, series, left_out = list[JudgedGrid](), list[Series](), dict[str, dict[str, int]]()
    for machine, rows in tables:
        why = why_left_out(rows)[rows["status"].isin(("ok", "failed"))]
        num = Counter({str(reason): points for reason, points in why.value_counts().items()})
        for grid in grids(rows, machine, hardware):
            judged.append(judge_grid(grid))
            series += _series(judged[-1])
            num[""] -= int(judged[-1].valid.sum())
        num["of a commit or version measured again"] = num.pop("", 0)
        left_out[machine] = dict(+num)
    judged.sort(key=lambda grid: (grid.grid.machine, grid.grid.group))
    explainer = Explainer(judged, runs, facts_of)
    events = [explainer.explain(event, grid) for grid in judged for event in grid.events]

    def order(event: Event) -> tuple[bool, int, float, str]:
        rank = get_args(EventStatus).index(event.status)  # what stayed comes first there
        return event.case != "", rank, -abs(event.effect), event.id

    return History(
        events=tuple(sorted(events, key=order)),
        series=tuple(sorted(series, key=lambda row: (row.machine, row.group, row.case))),
        left_out=left_out,
    )


def _series(judged: JudgedGrid) -> Iterator[Series]:
    grid = judged.grid
    for case, logs, resets, judgement in zip(
        grid.cases, grid.logs, grid.resets, judged.machine.own, strict=True
    ):
        points = logs[np.isfinite(logs)]
        # of more than SPARKS the medians of as many neighbours each, so that a step stays one; the
        # oldest are left out where that does not come out even
        size = max(1, -(-len(points) // SPARKS))
        neighbours = points[len(points) % size :].reshape(-1, size)
        sparks = np.sort(neighbours, axis=1)[:, size // 2]
        yield Series(
            machine=grid.machine,
            group=grid.group,
            case=case,
            points=len(points),
            longest=longest_piece(logs, [*resets]),
            judged=judgement.judged,
            detectable=judgement.detectable,
            sparkline=tuple(np.exp(sparks).tolist()),
        )
