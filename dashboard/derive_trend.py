"""The lines of Trend: what they are called, and all that their picture shows. No streamlit."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd
from words import case, colors, group

from hostbench.report.causes import EventRow, marks
from hostbench.report.charts import PALETTE
from hostbench.report.judged_table import JudgedTable
from hostbench.report.trend import (
    MOST_DRAWN,
    facts_changed,
    levels,
    limit,
    points,
    thinned,
    worded,
)

MODEL = "hardware:"
"""Before the name of a hardware model, where a machine's could stand."""
MOST_TOLD = 5
"""Changes in words; all are in a table."""
MOST_LIKE = 12
"""Lines of one model: of the machines with the newest runs."""


class TrendLine(NamedTuple):
    """Of a series that was asked for; of a model there is one for each of its machines."""

    series: str
    """case@machine or case@model, as the address has it."""
    where: str
    """The machine, or machine/environment of asv's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesNames:
    """What series and machines are called on the page."""

    groups: Sequence[str]
    models: Mapping[str, Sequence[str]]
    machine: str
    """The machine or model that was chosen first."""
    workload: str = ""
    places: frozenset[str] = frozenset()
    """Of the series beside it."""

    def members(self) -> dict[str, list[str]]:
        """Each machine and model -> the machines whose lines are drawn for it."""
        like = {one: list(own[:MOST_LIKE]) for one, own in self.models.items()}
        return {one: [one] for one in self.groups} | like

    def parted(self, series: str) -> tuple[str, str]:
        """The case of a series, and its machine or model; that is empty where nobody knows it."""
        ends = (one for one in (*self.groups, *self.models) if series.endswith(f"@{one}"))
        where = max(ends, key=len, default="")
        return series.removesuffix(f"@{where}"), where

    def place(self, where: str) -> str:
        if where not in self.models:
            return group(where, list(self.groups))
        num = len({one.partition("/")[0] for one in self.models[where]})
        return f"{where.removeprefix(MODEL)}, {num} machines"

    def series(self, series: str) -> str:
        """As short as it tells the series of the page apart."""
        text, where = self.parted(series)
        workload = text.partition("[")[0]
        said = case(text, workload)
        said = said if workload == self.workload else f"{workload} {said}"
        return said if {self.machine, *self.places} == {where} else f"{self.place(where)}: {said}"

    def line(self, line: TrendLine) -> str:
        said, (_, where) = self.series(line.series), self.parted(line.series)
        return said if where == line.where else f"{self.place(line.where)}, {said}"

    def colors(self, every: Sequence[str]) -> dict[str, str]:
        """By what a series is called; a machine has its own wherever machines are compared."""
        places = [self.parted(one)[1] for one in every]
        if len(set(places)) == len(every) > 1 and not self.with_model(every):
            of_machine = colors(self.groups)
            return {self.series(one): of_machine[at] for one, at in zip(every, places, strict=True)}
        return dict(zip(map(self.series, every), PALETTE, strict=False))

    def with_model(self, every: Sequence[str]) -> bool:
        return any(self.parted(one)[1] in self.models for one in every)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """What the picture shows, and what is said below it."""

    every: pd.DataFrame
    """hostbench.report.trend.points of all lines, within the days."""
    points: pd.DataFrame
    """Of them those that are drawn, with words."""
    levels: pd.DataFrame
    rules: pd.DataFrame
    limits: dict[str, float]
    """By series; where all machines of a model have the same."""
    changes: pd.DataFrame
    """hostbench.report.causes.marks of all lines, with their `series`."""
    judged: dict[str, EventRow | None]
    """By line: its row of JudgedTable.series."""


def found(
    rows: Mapping[TrendLine, pd.DataFrame], names: SeriesNames, by: str, unit: str
) -> dict[TrendLine, pd.DataFrame]:
    """The points of each line that has any (hostbench.report.trend.points)."""
    every = {
        line: points(own, names.series(line.series), by, unit).assign(machine=line.where)
        for line, own in rows.items()
    }
    return {line: own for line, own in every.items() if len(own)}


def within(every: pd.DataFrame, start: float, end: float) -> pd.DataFrame:
    """Points from `start` to before `end`, in ms since the epoch."""
    return every[(every["x"] >= start) & (every["x"] < end)]


def drawing(
    lines: Mapping[TrendLine, pd.DataFrame],
    rows: Mapping[TrendLine, pd.DataFrame],
    table: JudgedTable,
    names: SeriesNames,
    *,
    by: str,
    unit: str,
    start: float,
    end: float,
) -> Drawing:
    """Of the points of each line (`found`), of the rows that they are of, and of what was judged,
    all that lies within the days. Raises NotJudgedError."""
    judged: dict[str, EventRow | None] = {}
    tops: dict[str, set[float | None]] = {}
    changes, drawn = [], []
    shown = [levels(pd.concat(lines.values()).head(0), [], None)]
    rules = [pd.DataFrame(columns=["x", "kind", "said"])]
    for line, own in lines.items():
        name, said = names.series(line.series), names.line(line)
        row, events = _judged(table, names, line, by)
        judged[said] = row
        changes.append(events.assign(series=said))
        shown.append(_levels(own, events, row).assign(series=name))
        rules += [_rules(events, said), _facts(rows[line], by, names.place(line.where))]
        tops.setdefault(name, set()).add(limit(rows[line], unit))
        few = thinned(within(own, start, end), MOST_DRAWN // len(lines))
        drawn.append(worded(few, rows[line], unit))
    level = pd.concat([own for own in shown if len(own)] or shown, ignore_index=True)
    rule = pd.concat([own for own in rules if len(own)] or rules).drop_duplicates()
    return Drawing(
        every=within(pd.concat(lines.values(), ignore_index=True), start, end),
        points=pd.concat(drawn, ignore_index=True),
        levels=level[(level["x2"] >= start) & (level["x"] < end)],
        rules=within(rule, start, end),
        limits={
            one: top for one, own in tops.items() if len(own) == 1 for top in own if top is not None
        },
        changes=pd.concat(changes, ignore_index=True),
        judged=judged,
    )


def _judged(
    table: JudgedTable, names: SeriesNames, line: TrendLine, by: str
) -> tuple[EventRow | None, pd.DataFrame]:
    """Its row of JudgedTable.series, and the changes of the series and of its machine."""
    text, _ = names.parted(line.series)
    ids = [f"{text}@{line.where}", f"machine:{line.where}"]
    mine = table.series(ids=ids[:1])
    return mine.iloc[0].to_dict() if len(mine) else None, marks(
        table.events(ids=ids), f"first_{by}"
    )


def _levels(own: pd.DataFrame, events: pd.DataFrame, row: EventRow | None) -> pd.DataFrame:
    """None where nothing is judged."""
    if not (row and row["judged"]):
        return levels(own.head(0), [], None)
    half: float | None = None if pd.isna(row["detectable"]) else float(row["detectable"])
    return levels(own, list(events["x"][events["is_step"]]), half)


def _rules(events: pd.DataFrame, said: str) -> pd.DataFrame:
    rows = [
        {
            "x": row["x"],
            "kind": row["what"],
            "said": f"{said}: {row['change']}, {row['since']}, {row['cause']}",
        }
        for row in events.to_dict("records")
    ]
    return pd.DataFrame(rows)


def _facts(rows: pd.DataFrame, by: str, place: str) -> pd.DataFrame:
    changed = facts_changed(rows, by)
    return pd.DataFrame(
        [{"x": x, "kind": "facts", "said": f"{place}: {what}"} for x, what in changed]
    )


def told(changes: pd.DataFrame, with_series: bool) -> Iterator[str]:
    """The newest of Drawing.changes, a line each."""
    newest = changes.sort_values("x", ascending=False, kind="stable").head(MOST_TOLD)
    for row in newest.to_dict("records"):
        where = f"{row['series']}, {row['what']}" if with_series else row["what"]
        what = f"{row['state']}, {row['change']}, since {row['since']}"
        yield f"{where}: {what}. Cause: {row['cause']}; {row['evidence']}"


def clicked_row(
    rows: Mapping[TrendLine, pd.DataFrame], names: SeriesNames, picked: Sequence[Mapping[str, Any]]
) -> EventRow | None:
    """The row of the tidy frame of the point that was clicked; None where there is none, or where
    something else is chosen since."""
    for point in picked:
        for line, own in rows.items():
            here = own[own["run_id"] == point["run_id"]]
            called = names.series(line.series), line.where
            if called == (point["series"], point["machine"]) and len(here):
                return {**here.iloc[-1], "machine": line.where.partition("/")[0]}
    return None
