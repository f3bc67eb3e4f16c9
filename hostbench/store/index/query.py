"""What the index answers: the whole frame, one series, one run, an overview."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from hostbench.store.columns import COLUMNS, SIDES
from hostbench.store.index import shards
from hostbench.store.index.manifest import FOLDER, Manifest
from hostbench.store.index.table import PLACE, SCHEMA, UNIT, to_frame
from hostbench.store.runs import AboutRun

_KINDS = {"run": 0, "peer": 1, "asv": 2}
_OVERVIEW = """
select machine, family, any_value(hardware) as hardware, max(last_at) as newest,
       count(*) as series, sum(num_points) as points,
       count(*) filter (status = 'ok') as ok,
       count(*) filter (status = 'failed') as failed,
       count(*) filter (status = 'skipped') as skipped,
       exp(avg(ln(value / baseline)) filter (value > 0 and baseline > 0)) as ratio
from read_parquet(?) group by machine, family order by machine, family
"""


class Index:
    """An index that is up to date. `note`: why it was built anew, or None."""

    def __init__(self, results: Path, manifest: Manifest, note: str | None = None) -> None:
        self.results, self.manifest, self.note = results, manifest, note
        self.folder = results / FOLDER

    @property
    def warnings(self) -> list[str]:
        """What could not be read, as hostbench.store.frame.read says it."""
        parts = [part.warning for part in self.manifest.parts.values() if part.warning]
        units = [text for unit in self.manifest.units.values() for text in unit.warnings]
        return list(dict.fromkeys([*parts, *self.manifest.warnings, *units]))

    @property
    def num_rows(self) -> int:
        return sum(unit.rows for unit in self.manifest.units.values())

    def runs(self) -> list[AboutRun]:
        """Every run that can be shown, the oldest first."""
        units = [unit for unit in self.manifest.units.values() if unit.kind == "run" and unit.about]
        keys = AboutRun.__dataclass_fields__
        found = [AboutRun(**{key: unit.about[key] for key in keys}) for unit in units]
        return sorted(found, key=lambda run: (run.started_at, run.machine or ""))

    def parts_of(self, run_id: str) -> list[Path]:
        """The archives and journals of a run."""
        keys = {k for k, unit in self.manifest.units.items() if unit.about.get("run_id") == run_id}
        parts = self.manifest.parts.items()
        return [self.results / path for path, part in parts if part.key in keys]

    def frame(self) -> pd.DataFrame:
        """Every row, as frame.read gives it."""
        tables = []
        for machine in dict.fromkeys(shard.machine for shard in self.manifest.shards):
            own = [shard for shard in self.manifest.shards if shard.machine == machine]
            tables.append(shards.read(self.folder, own, self._dead(machine)))
        whole = pa.concat_tables(tables or [SCHEMA.empty_table()]).unify_dictionaries()
        return self._ordered(whole)

    def of_runs(self, run_ids: Sequence[str], machine: str | None) -> pd.DataFrame:
        """The rows of these runs of one machine."""
        where = f"run_id in ({', '.join('?' * len(run_ids))})"
        return self._ordered(self._select("*", machine or "", where, list(run_ids)))

    def machines(self) -> list[str]:
        """Every machine that has rows and a name."""
        return sorted({shard.machine for shard in self.manifest.shards if shard.machine})

    def points(self, machine: str, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all rows of one machine, text as categories, in no order."""
        own = [shard for shard in self.manifest.shards if shard.machine == machine]
        table = shards.read(self.folder, own, self._dead(machine), [*columns, UNIT])
        found: pd.DataFrame = table.select(list(columns)).to_pandas()
        return found

    def sides(self) -> pd.DataFrame:
        """One row for each run, the oldest first: SIDES."""
        names = ", ".join(f'"{name}"' for name in SIDES)
        query = f"{names}, {UNIT}, min(started_at) as at_, min({PLACE}) as place_"
        group = f"true group by {names}, {UNIT}"
        tables = [self._select(query, machine, group, []) for machine in self.machines()]
        if not tables:
            return pd.DataFrame(columns=list(SIDES))
        found: pd.DataFrame = pa.concat_tables(tables).to_pandas()
        found["rank_"] = self._ranks()[found[UNIT]]
        found = found.sort_values(["at_", "rank_", "place_"])
        return found[list(SIDES)].drop_duplicates(ignore_index=True)

    def trend(self, machine: str, case: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """The rows of one series, the oldest first: all columns as in the frame, or those named."""
        if columns is None:
            return self._ordered(self._select("*", machine, '"case" = ?', [case]))
        names = ", ".join(f'"{name}"' for name in columns if name in COLUMNS)
        table = self._select(f"{names}, started_at as at_", machine, '"case" = ?', [case])
        found: pd.DataFrame = table.sort_by("at_").drop_columns(["at_"]).to_pandas()
        return found

    def series(self) -> pd.DataFrame:
        """The summary: one row per series."""
        summaries = list(self.manifest.summaries.values())
        if not summaries:
            return pd.DataFrame()
        found: pd.DataFrame = shards.read_as_is(self.folder, summaries).to_pandas()
        return found

    def overview(self) -> pd.DataFrame:
        """One row per machine and family: the newest point, how many series, ok and failed, and
        the newest level over the level of the 20 points before, as a mean over the series."""
        names = [str(self.folder / one.name) for one in self.manifest.summaries.values()]
        if not names:
            return pd.DataFrame()
        frame: pd.DataFrame = self._table(_OVERVIEW, names).to_pandas()
        return frame

    @cached_property
    def _connection(self) -> Any:
        connection = duckdb.connect()
        connection.execute("set threads = 2; set memory_limit = '512MB'")
        connection.execute("set parquet_metadata_cache = true")
        return connection

    def _dead(self, machine: str) -> list[int]:
        return [number for number, _ in self.manifest.dead.get(machine, [])]

    def _select(self, what: str, machine: str, where: str, values: list[Any]) -> pa.Table:
        names = [
            str(self.folder / shard.name)
            for shard in self.manifest.shards
            if shard.machine == machine
        ]
        if not names:
            return SCHEMA.empty_table()
        dead = self._dead(machine)
        if dead:
            where = f"{UNIT} not in ({', '.join(map(str, dead))}) and {where}"
        query = f"select {what} from read_parquet(?) where {where}"
        return self._table(query, names, *values)

    def _table(self, query: str, *values: Any) -> pa.Table:
        return self._connection.sql(query, params=list(values)).to_arrow_table()

    def _ranks(self) -> npt.NDArray[np.int64]:
        """Number of a unit -> its place among those of one time: runs, peers, asv, each in its own
        order."""
        units = sorted(
            self.manifest.units.items(), key=lambda pair: (_KINDS[pair[1].kind], pair[0])
        )
        rank = np.zeros(self.manifest.next_number + 1, dtype=np.int64)
        rank[[unit.number for _, unit in units]] = np.arange(len(units))
        return rank

    def _ordered(self, table: pa.Table) -> pd.DataFrame:
        """As frame.tidy orders: by time; at one time by their rank."""
        rank = self._ranks()
        at = shards.times(table)
        limits = np.iinfo(np.int64)
        at = np.where(at == limits.min, limits.max, at)
        order = np.lexsort(
            (table.column(PLACE).to_numpy(), rank[table.column(UNIT).to_numpy()], at)
        )
        return to_frame(table.take(pa.array(order)))
