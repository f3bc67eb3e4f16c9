"""What a history says as a whole: what changed, what stopped, what is not judged and why."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from hostbench.core.case import as_typed
from hostbench.core.units import format_seconds, format_value, number_of
from hostbench.judge.grid import Along, marked
from hostbench.report import event_words, trend_chart
from hostbench.report.causes import (
    FAILS,
    OVER,
    PROVISIONAL,
    RESET,
    EventRow,
    causes,
    headline,
    in_words,
    nothing,
    stopped,
    with_causes,
    worst_of,
)
from hostbench.report.charts import Spec
from hostbench.report.choice import Request, Selection, choose, events
from hostbench.report.choice import stopped as all_stopped
from hostbench.report.judged_table import JudgedTable
from hostbench.report.judging import judged_now
from hostbench.report.table import Cell, Column, Part, Table, listed
from hostbench.store.history import History

NUMBER = ["value", "low", "high", "unit"]
AXIS: Along = "commit"
MOST_CAUSES, MOST_CHARTS, MOST_SERIES = 20, 5, 200
_HEIGHT = 220
"""Pixels of a chart."""
_COLUMNS = tuple(
    Column(title=name, keys=(name,), right=name in ("change", "since", "series"))
    for name in ("state", "change", "what", "since", "series", "machines", "cause")
)
_SERIES = (
    Column(title="series", keys=("series",), code=True),
    *(
        Column(title=name, keys=(name,), right=True)
        for name in ("newest", "in 20 runs", "last change")
    ),
    Column(title="", keys=("why",)),
)
_NEXT = "each `hostbench run` adds a point; `hostbench ab COMMIT` compares two commits at once"
_NEXT_OF_ASV = "`asv run NEW` measures the commits that are new"


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseInDetail:
    """A cause that somebody has to look at."""

    title: str
    evidence: tuple[str, ...]
    series: str
    """That of its worst event."""
    chart: Spec | None
    """Of that series, before and after; None where only the machine as a whole moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOverview:
    """What a page says of a history."""

    headline: str
    causes: pd.DataFrame
    """Of report.causes.causes those that stayed; what fails comes first."""
    in_detail: tuple[CauseInDetail, ...]
    """Those that fail or are provisional, the first few."""
    notes: tuple[Part, ...]
    series: pd.DataFrame
    """JudgedTable.series."""

    @property
    def table(self) -> Table:
        """A row for each of the first causes."""
        return Table(columns=_COLUMNS, rows=tuple(map(_row, self._first)))

    @property
    def sparklines(self) -> list[list[float]]:
        """Beside each row."""
        return [list(row["sparkline"]) for row in self._first]

    @property
    def changed_most(self) -> pd.DataFrame:
        """The first of the series, those first whose level moved most in 20 runs."""
        order = self.series["change"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable")
        return self.series.loc[order.index].head(MOST_SERIES)

    @property
    def _first(self) -> list[EventRow]:
        return self.causes.head(MOST_CAUSES).to_dict("records")


def newest_number(row: EventRow) -> str:
    """Of a row of JudgedTable.series, its columns NUMBER, with its interval; empty where there is
    none."""
    value, low, high, unit = (row[name] for name in NUMBER)
    if bool(pd.isna(value)):
        return ""
    if unit != "seconds":
        return format_value(value, unit)
    text = format_seconds(value)
    known = bool(pd.notna(low)) and bool(pd.notna(high))
    return f"{text} ({format_seconds(low)} to {format_seconds(high)})" if known else text


def overview(history: History, root: Path) -> HistoryOverview:
    """What is not judged yet is judged first, with git asked at `root`. Raises OSError where what
    was judged cannot be kept."""
    table = JudgedTable(history, AXIS, root)
    found, series = with_causes(table.events()), table.series()
    every = causes(found, series)
    stayed = every[~every["state"].isin((OVER, RESET))].reset_index(drop=True)
    urgent = stayed[stayed["state"].isin((FAILS, PROVISIONAL))].head(MOST_CHARTS)
    newest = f"{series['newest_at'].max():%Y-%m-%d %H:%M} UTC" if len(series) else "none"
    return HistoryOverview(
        headline=headline(found, series, newest, len(stopped(series))),
        causes=stayed,
        in_detail=tuple(
            _in_detail(history, row, worst_of(found[found["key"] == row["key"]]))
            for row in urgent.to_dict("records")
        ),
        notes=tuple(_notes(history, every, stayed, series)),
        series=series,
    )


def _row(row: EventRow) -> tuple[str | Cell, ...]:
    since = f"{row['since']:%Y-%m-%d}"
    texts = {**row, "since": since}
    return tuple(str(texts[column.title]) for column in _COLUMNS)


def series_table(rows: pd.DataFrame) -> Table:
    """A row for each of these series."""
    return Table(columns=_SERIES, rows=tuple(map(_series_row, rows.to_dict("records"))))


def _series_row(row: EventRow) -> tuple[str | Cell, ...]:
    moved, at = in_words(row["changed_effect"]), row["changed_committed_at"]
    said = [str(row[name]) for name in ("status", "why") if row[name] not in ("ok", "")]
    return (
        as_typed(row["id"]),
        newest_number(row) or "-",
        in_words(row["change"]),
        f"{moved} {at:%Y-%m-%d}" if moved else "",
        "; ".join(said),
    )


def _in_detail(history: History, row: EventRow, event: EventRow) -> CauseInDetail:
    chart = None
    if event["case"]:
        stored = marked(history.trend(event["machine"], event["case"]))
        chart = trend_chart.around(stored, event, AXIS, _HEIGHT)
    return CauseInDetail(
        title=f"{row['what']}: {row['change']} {row['state']}",
        evidence=tuple(event["evidence"]),
        series=as_typed(event["id"]),
        chart=chart,
    )


def _notes(
    history: History, every: pd.DataFrame, stayed: pd.DataFrame, series: pd.DataFrame
) -> Iterator[Part]:
    """What is not listed, what stopped, what is compared with nothing, what is not judged."""
    if len(stayed) > MOST_CAUSES:
        yield f"and {len(stayed) - MOST_CAUSES} more: `hostbench dashboard` shows them"
    if over := int((every["state"] == OVER).sum()):
        causes = number_of(over, "cause")
        yield f"Not listed: {causes} of changes that were temporary, recovered or ended"
    chosen = choose(judged_now(history, AXIS), Request.read([]))
    if why := _unjudged(chosen):
        yield f"{why[:1].upper()}{why[1:]}; {_NEXT if history.runs() else _NEXT_OF_ASV}"
    elif stayed.empty:
        yield nothing(series)
    gone = [event_words.stopped_in_words(*pair) for pair in all_stopped(chosen)]
    yield from listed("Without a number since", gone)
    resets = [one for one, _ in events(chosen) if one.change.kind == "break"]
    yield from listed("Baseline resets", list(event_words.resets(resets)))
    if not why:
        yield from listed("What was judged", event_words.summary(chosen, AXIS))
    left = series.loc[~series["judged"], "why"].value_counts()
    said = [f"{number_of(num, 'series', 'series')}: {why}" for why, num in left.items()]
    yield from listed("Not judged, and why", said)


def _unjudged(chosen: Sequence[Selection]) -> str:
    """Why nothing is judged; empty where something is."""
    grids = [one.judged.grid for one in chosen]
    if not any(grid.cases for grid in grids):
        return event_words.no_run(grids)
    return event_words.unjudged(pair for one in chosen for pair in one.counted())
