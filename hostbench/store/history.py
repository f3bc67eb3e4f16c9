"""Results as the commands and pages read them: a folder through its table, or a table at a URL."""

import functools
import json
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from hostbench.core.errors import UsageError
from hostbench.facts.record import Facts
from hostbench.store import runs, table
from hostbench.store.columns import ABOUT, COUNTS, SIDES
from hostbench.store.peers import SOURCES
from hostbench.store.runs import AboutRun, WholeRun
from hostbench.store.table import lake, remote
from hostbench.store.table.files import KINDS, Unit
from hostbench.store.table.lake import DAMAGE, of_machine, text
from hostbench.store.table.rows import PLACE, READING, SCHEMA, SHOWN, times, to_frame

T = TypeVar("T")
P = ParamSpec("P")

_FEW = 64
"""Up to so many readings are named in a question, so that only their files are opened."""

_SERIES = """
select workload, "case", bool_or(status = 'ok') as has_number
from t where {where} group by workload, "case"
order by min(started_at) nulls last, min(place), "case"
"""


def is_url(results: Path | str) -> bool:
    """Whether that names a table (`s3://`, `gs://`, `az://`, `file://`), not a folder of files."""
    return isinstance(results, str) and "://" in results


def _question(
    ask: "Callable[Concatenate[History, P], T]",
) -> "Callable[Concatenate[History, P], T]":
    """A folder's table that turns out to be damaged, or to have gone, is made anew, once."""

    @functools.wraps(ask)
    def asked(self: "History", /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return ask(self, *args, **kwargs)
        except DAMAGE as error:
            self._open_again(error)
        return ask(self, *args, **kwargs)

    return asked


class History:
    """What is stored, as it was when it was opened.

    Raises UsageError where there is no such folder, no such table.
    """

    def __init__(self, results: Path | str) -> None:
        self.results: Path | None = None
        """The folder; None of a table at a URL: there are no files of asv's, and no triage."""
        self._url = str(results)
        if is_url(results):
            self._take(remote.open_remote(self._url))
        else:
            self.results = Path(results)
            self._take(table.open_table(self.results))

    def _take(self, opened: table.ResultTable) -> None:
        self._lake, self._units = opened.lake, opened.units
        own = (text for unit in opened.units.values() for text in unit.warnings or ())
        self.warnings = list(dict.fromkeys([*own, *opened.warnings]))
        """What could not be read; each names its file."""
        self._with_rows = [unit for unit in opened.units.values() if unit.rows]
        self._readings = [unit.reading for unit in self._with_rows]
        self._is_whole = opened.lake.num_points == sum(unit.rows for unit in self._with_rows)

    def _open_again(self, error: Exception) -> None:
        if self.results is None:
            why = remote.short(error)
            raise UsageError(f"cannot read the table at {self._url}: {why}") from error
        self._take(table.open_table(self.results, rebuild=True))

    def runs(self) -> list[AboutRun]:
        """Every run that can be shown, the oldest first."""
        found = [AboutRun(**about["header"]) for about in self._abouts()]
        return sorted(found, key=lambda run: (run.started_at, run.machine or "", run.run_id))

    def machines(self) -> list[str]:
        """Every machine that has rows and a name."""
        return sorted({unit.machine for unit in self._with_rows if unit.machine})

    @_question
    def frame(self) -> pd.DataFrame:
        """The tidy frame of everything (hostbench.store.frame), the oldest first."""
        return self._ordered(self._read(SHOWN, "true"))

    @_question
    def of_runs(self, run_ids: Sequence[str], machine: str | None) -> pd.DataFrame:
        """The rows of these runs of one machine."""
        wanted = [u for u in self._with_rows if u.run_id in run_ids and u.machine == machine]
        return self._of_units(machine, wanted)

    def rows_of(self, run: AboutRun) -> pd.DataFrame:
        """The rows of one run."""
        return self.of_runs([run.run_id], run.machine)

    @_question
    def of_peers(self, machine: str) -> pd.DataFrame:
        """Other tools' points of one machine."""
        wanted = [u for u in self._with_rows if u.source in SOURCES and u.machine == machine]
        return self._of_units(machine, wanted)

    @_question
    def trend(
        self, machine: str | None, case: str, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """The rows of one series, the oldest first: all columns as in the frame, or those named."""
        where = f'{of_machine(machine)} and "case" = {text(case)}'
        if columns is None:
            return self._ordered(self._read(SHOWN, where))
        rows = self._read([*dict.fromkeys([*columns, "started_at"])], where)
        found: pd.DataFrame = rows.sort_by("started_at").select(list(columns)).to_pandas()
        return found

    @_question
    def points(self, machine: str | None, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all rows of one machine, text as categories, in no order."""
        rows = self._read(columns, of_machine(machine))
        found: pd.DataFrame = rows.select(list(columns)).to_pandas()
        return found

    @_question
    def series(self, machine: str | None) -> pd.DataFrame:
        """A row for each series of a machine, the first measured first: `workload`, `case`, and
        whether it ever had a number (`has_number`)."""
        own = [u for u in self._with_rows if u.machine == machine and u.source not in SOURCES]
        others = any(u.machine == machine and u.source in SOURCES for u in self._with_rows)
        where = of_machine(machine)
        if own and (others or not self._is_whole):
            where += f" and {lake.is_in([unit.reading for unit in own])}"
        found = lake.ask_sql(self._lake.points, _SERIES.format(where=where if own else "false"))
        names = ["workload", "case", "has_number"]
        rows: pd.DataFrame = found.select(names).to_pandas()
        return rows.astype({"workload": object, "case": object})

    def sides(self) -> pd.DataFrame:
        """One row for each run, the oldest first: the columns SIDES."""
        units = [unit for unit in self._by_time() if unit.machine]
        rows = [[getattr(unit, name) for name in SIDES] for unit in units]
        return pd.DataFrame(rows, columns=list(SIDES)).drop_duplicates(ignore_index=True)

    def counts(self) -> pd.DataFrame:
        """A row for each run, family and device, the oldest run first: the columns COUNTS."""
        units = [unit for unit in self._by_time() if unit.source not in SOURCES]
        counted: list[list[Any]] = []
        places: dict[str, range] = {}
        for unit in units:  # runs of one outcome share the text, so that it is parsed once
            if unit.counts not in places:
                rows = json.loads(unit.counts)
                places[unit.counts] = range(len(counted), len(counted) + len(rows))
                counted += rows
        own = ["machine", "run_id", *ABOUT]
        fields = attrgetter(*("first_at" if name == "started_at" else name for name in own))
        about = pd.DataFrame(map(fields, units), columns=own)
        moments = about["started_at"].astype("Int64")
        about["started_at"] = pd.to_datetime(moments, unit="us", utc=True)
        rest = pd.DataFrame(counted, columns=[name for name in COUNTS if name not in own])
        of_run = np.repeat(np.arange(len(units)), [len(places[unit.counts]) for unit in units])
        of_rest = np.array([row for unit in units for row in places[unit.counts]], dtype=int)
        parts = about.take(of_run), rest.take(of_rest)
        found = pd.concat([part.reset_index(drop=True) for part in parts], axis="columns")
        return found[list(COUNTS)]

    def facts(self, run: AboutRun) -> dict[str, Facts]:
        """When (`before`, `during`, ...) -> facts of the run's first part."""
        stored = self.whole(run).parts[0].facts
        return {when: runs.facts_of(facts) for when, facts in stored.items()}

    @_question
    def whole(self, run: AboutRun) -> WholeRun:
        """The run itself, with its records and facts. Raises UsageError for one that has gone."""
        own = [about for about in self._abouts() if about["header"]["run_id"] == run.run_id]
        paths = [path for about in own for path in about["parts"]]
        if self.results is None:
            parts = remote.parts(self._url, paths)
            found = next(iter(runs.put_together(parts)), None)
        else:
            found = runs.of_files(self.results, [self.results / path for path in paths])
        if found is None:
            raise UsageError(f"run {run.run_id} has gone from {self._url} meanwhile; try again")
        return found

    def _abouts(self) -> list[dict[str, Any]]:
        """Of runs that can be shown."""
        return [u.about for u in self._units.values() if u.kind == "run" and u.about]

    def _in_order(self) -> list[Unit]:
        """As the frame holds rows of one moment: runs, peers, asv."""
        return sorted(self._with_rows, key=lambda unit: (KINDS.index(unit.kind), unit.key))

    def _by_time(self) -> list[Unit]:
        """The oldest first, those without a time last."""
        return sorted(self._in_order(), key=lambda unit: (unit.first_at is None, unit.first_at))

    def _of_units(self, machine: str | None, units: Sequence[Unit]) -> pd.DataFrame:
        if not units:
            return to_frame(SCHEMA.empty_table())
        readings = [unit.reading for unit in units]
        where = of_machine(machine)
        if len(readings) <= _FEW:
            where += f" and {lake.is_in(readings)}"
        return self._ordered(lake.counting(self._read(SHOWN, where), readings))

    def _read(self, columns: Sequence[str], where: str) -> pa.Table:
        if self._is_whole:
            return self._lake.read(columns, where)
        rows = self._lake.read([*dict.fromkeys([*columns, READING])], where)
        return lake.counting(rows, self._readings)

    def _ordered(self, rows: pa.Table) -> pd.DataFrame:
        """By time; at one time by kind, key and place."""
        numbers = np.array([unit.reading for unit in self._in_order()], dtype=np.int64)
        by_number = np.argsort(numbers)
        at = times(rows)
        limits = np.iinfo(np.int64)
        at = np.where(at == limits.min, limits.max, at)
        readings = rows.column(READING).to_numpy()
        rank = by_number[np.searchsorted(numbers[by_number], readings)]
        order = np.lexsort((rows.column(PLACE).to_numpy(), rank, at))
        return to_frame(rows.take(pa.array(order)))
