"""The changes of one series and of its machine, as marks on the page Trend. No streamlit."""

from collections.abc import Iterable, Sequence

import pandas as pd
from derive_changes import CHANGE, INTERVAL, SINCE, STATE, case_of, row

from hostbench.judge.change import Judgement
from hostbench.judge.detector import FEWEST_POINTS, longest_piece
from hostbench.judge.events import Judged
from hostbench.report.judged import ExplainedEvent

KINDS = ("this series", "its machine")
TOLD = ("what", STATE, CHANGE, SINCE, "cause", "triage")
"""What a pointer says of a change."""
COLUMNS = ["what", STATE, SINCE, CHANGE, INTERVAL, "cause", "evidence", "triage", "x"]


def of_series(
    found: Iterable[ExplainedEvent], judged: Iterable[Judged], machine: str, case: str
) -> list[ExplainedEvent]:
    """The events of one series and of its machine, with resets, in the order of their place."""
    groups = {own.grid.group for own in _grids(judged, machine, case)}
    return sorted(
        (
            one
            for one in found
            if one.found.grid.group in groups and case_of(one.found) in ("", case)
        ),
        key=lambda one: one.found.change.index,
    )


def _grids(judged: Iterable[Judged], machine: str, case: str) -> list[Judged]:
    return [own for own in judged if own.grid.machine == machine and case in own.grid.cases]


def marks(told: Sequence[ExplainedEvent], by: str) -> pd.DataFrame:
    """A row for each event: `x`, ms since the epoch, of the first point at the new level, and what
    there is to say of it. `by` is started_at or committed_at."""
    rows = [
        {
            **row(one),
            "what": KINDS[one.found.series is None],
            "x": float(getattr(one.found.first, by).value // 1_000_000),
        }
        for one in told
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def how_judged(judged: Iterable[Judged], machine: str, case: str) -> str:
    """How small a change a series could have shown, or why it was not judged."""
    said = []
    for own in _grids(judged, machine, case):
        series = own.grid.cases.index(case)
        one, grid = own.machine.own[series], own.grid
        points = longest_piece(grid.logs[series], grid.resets[series])
        where = f" ({grid.group})" if grid.group != machine else ""
        said.append(f"{_how_judged(one, points)}{where}.")
    return " ".join(said) or (
        "Not judged: no point of it comes from a run that may be. Scratch runs are not judged, nor "
        "other units than seconds, nor runs without a dated commit."
    )


def _how_judged(one: Judgement, points: int) -> str:
    if not one.judged:
        return (
            f"Not judged: {points} points at most between two baseline resets, {FEWEST_POINTS} are "
            "needed"
        )
    if one.detectable is None:
        return (
            "Judged up to its newest baseline reset only: fewer than "
            f"{FEWEST_POINTS} points have come since"
        )
    return f"The smallest change visible here: {one.detectable:.1%}"
