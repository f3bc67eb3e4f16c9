"""What the table answers: the whole frame, one series, one run, what the runs came to."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from hostbench.store.columns import SIDES
from hostbench.store.counts import ABOUT, COUNTS
from hostbench.store.peers import SOURCES
from hostbench.store.runs import AboutRun
from hostbench.store.table import lake
from hostbench.store.table.files import KINDS, Unit
from hostbench.store.table.lake import Lake, of_machine, text
from hostbench.store.table.rows import PLACE, READING, SCHEMA, SHOWN, times, to_frame

_FEW = 64
"""Up to so many readings are named in a question, so that only their files are opened."""

_SERIES = """
select workload, "case", bool_or(status = 'ok') as has_number
from t where {where} group by workload, "case"
order by min(started_at) nulls last, min(place), "case"
"""


class ResultTable:
    """The tables at one place, as they were when they were opened."""

    def __init__(self, lake: Lake, units: dict[str, Unit], warnings: Sequence[str] = ()) -> None:
        self.lake, self.units = lake, units
        self.warnings = list(
            dict.fromkeys([*(w for u in units.values() for w in u.warnings or ()), *warnings])
        )
        self._with_rows = [unit for unit in units.values() if unit.rows]
        self.num_rows = sum(unit.rows for unit in self._with_rows)
        self._readings = [unit.reading for unit in self._with_rows]
        self._is_whole = lake.num_points == self.num_rows

    def runs(self) -> list[AboutRun]:
        """Every run that can be shown, the oldest first."""
        found = [AboutRun(**about["header"]) for about in self._abouts()]
        return sorted(found, key=lambda run: (run.started_at, run.machine or ""))

    def parts_of(self, run_id: str) -> list[str]:
        """The archives and journals of a run, relative to the results folder."""
        own = [about for about in self._abouts() if about["header"]["run_id"] == run_id]
        return [path for about in own for path in about["parts"]]

    def machines(self) -> list[str]:
        """Every machine that has rows and a name."""
        return sorted({unit.machine for unit in self._with_rows if unit.machine})

    def frame(self) -> pd.DataFrame:
        """Every row, as frame.read gives it."""
        return self._ordered(self._read(SHOWN, "true"))

    def of_runs(self, run_ids: Sequence[str], machine: str | None) -> pd.DataFrame:
        """The rows of these runs of one machine."""
        wanted = [u for u in self._with_rows if u.run_id in run_ids and u.machine == machine]
        return self._of_units(machine, wanted)

    def of_peers(self, machine: str) -> pd.DataFrame:
        """Other tools' points of one machine."""
        wanted = [u for u in self._with_rows if u.source in SOURCES and u.machine == machine]
        return self._of_units(machine, wanted)

    def trend(
        self, machine: str | None, case: str, columns: Sequence[str] | None = None
    ) -> pd.DataFrame:
        """The rows of one series, the oldest first: all columns as in the frame, or those named."""
        where = f'{of_machine(machine)} and "case" = {text(case)}'
        if columns is None:
            return self._ordered(self._read(SHOWN, where))
        table = self._read([*dict.fromkeys([*columns, "started_at"])], where)
        found: pd.DataFrame = table.sort_by("started_at").select(list(columns)).to_pandas()
        return found

    def points(self, machine: str | None, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all rows of one machine, text as categories, in no order."""
        table = self._read(columns, of_machine(machine))
        found: pd.DataFrame = table.select(list(columns)).to_pandas()
        return found

    def series(self, machine: str | None) -> pd.DataFrame:
        """Workload, case, and whether it ever had a number; the first measured first."""
        own = [u for u in self._with_rows if u.machine == machine and u.source not in SOURCES]
        others = any(u.machine == machine and u.source in SOURCES for u in self._with_rows)
        where = of_machine(machine)
        if own and (others or not self._is_whole):
            where += f" and {lake.is_in([unit.reading for unit in own])}"
        table = lake.ask_sql(self.lake.points, _SERIES.format(where=where if own else "false"))
        found: pd.DataFrame = table.select(["workload", "case", "has_number"]).to_pandas()
        return found.astype({"workload": object, "case": object})

    def sides(self) -> pd.DataFrame:
        """One row for each run, the oldest first: SIDES."""
        units = [unit for unit in self._in_order() if unit.machine]
        units.sort(key=lambda unit: (unit.first_at is None, unit.first_at))
        rows = [[getattr(unit, name) for name in SIDES] for unit in units]
        return pd.DataFrame(rows, columns=list(SIDES)).drop_duplicates(ignore_index=True)

    def counts(self) -> pd.DataFrame:
        """A row for each run, family and device: hostbench.store.counts.COUNTS."""
        units = [unit for unit in self._in_order() if unit.source not in SOURCES]
        units.sort(key=lambda unit: (unit.first_at is None, unit.first_at))
        names = [name for name in COUNTS if name not in ("machine", "run_id", *ABOUT)]
        counted: list[list[Any]] = []
        places: dict[str, range] = {}
        for unit in units:  # runs of one outcome share the text, so that it is parsed once
            if unit.counts not in places:
                rows = json.loads(unit.counts)
                places[unit.counts] = range(len(counted), len(counted) + len(rows))
                counted += rows
        times = [len(places[unit.counts]) for unit in units]
        index = np.array([place for unit in units for place in places[unit.counts]], dtype=int)
        columns: dict[str, Any] = {}
        for name in ("machine", "run_id", *ABOUT):
            own = [unit.first_at if name == "started_at" else getattr(unit, name) for unit in units]
            columns[name] = np.repeat(np.array(own, dtype=object), times)
        for name, values in zip(names, zip(*counted, strict=True), strict=bool(counted)):
            columns[name] = pd.Series(values).array.take(index)
        found = pd.DataFrame(columns, columns=list(COUNTS))
        moments = pd.array(columns["started_at"], dtype="Int64")
        found["started_at"] = pd.to_datetime(moments, unit="us", utc=True)
        return found

    def _abouts(self) -> list[dict[str, Any]]:
        """Of runs that can be shown."""
        return [u.about for u in self.units.values() if u.kind == "run" and u.about]

    def _in_order(self) -> list[Unit]:
        """As the frame holds rows of one moment: runs, peers, asv."""
        return sorted(self._with_rows, key=lambda unit: (KINDS.index(unit.kind), unit.key))

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
            return self.lake.read(columns, where)
        table = self.lake.read([*dict.fromkeys([*columns, READING])], where)
        return lake.counting(table, self._readings)

    def _ordered(self, table: pa.Table) -> pd.DataFrame:
        """As frame.tidy orders: by time; at one time by kind, key and place."""
        numbers = np.array([unit.reading for unit in self._in_order()], dtype=np.int64)
        by_number = np.argsort(numbers)
        at = times(table)
        limits = np.iinfo(np.int64)
        at = np.where(at == limits.min, limits.max, at)
        readings = table.column(READING).to_numpy()
        rank = by_number[np.searchsorted(numbers[by_number], readings)]
        order = np.lexsort((table.column(PLACE).to_numpy(), rank, at))
        return to_frame(table.take(pa.array(order)))
