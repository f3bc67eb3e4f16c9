"""Results as the commands and pages read them: a folder through its table, or a table at a URL."""

import functools
import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa

from hostbench.core.errors import UsageError
from hostbench.core.files import is_url
from hostbench.facts.record import Facts
from hostbench.store import runs, table
from hostbench.store.asv_tree import OnFile, environment_of, ignore_file
from hostbench.store.columns import COUNTS, RUN_COUNTS, SIDES, STATUSES
from hostbench.store.runs import AboutRun, WholeRun
from hostbench.store.table import delta, remote
from hostbench.store.table.delta import DAMAGE, of_machine, text
from hostbench.store.table.files import KINDS, digest_of
from hostbench.store.table.rows import PLACE, READING, SCHEMA, SHOWN, times, to_frame

T = TypeVar("T")
P = ParamSpec("P")

_FEW = 64
"""Up to so many readings are named in a question, so that only their files are opened."""

_STATE = ["key", "size", "changed_ns", "depends", "run_id"]
_NUMBERS = (*STATUSES, "unexpected")

_SERIES = """
select workload, "case", bool_or(status = 'ok') as has_number
from t where {where} group by workload, "case"
order by min(started_at) nulls last, min(place), "case"
"""


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

    def __init__(self, results: Path | str, on_file: OnFile = ignore_file) -> None:
        self.results: Path | None = None
        """The folder; None of a table at a URL: there are no files of asv's, and no triage."""
        self._url = str(results)
        if is_url(results):
            self._take(remote.open_remote(self._url))
        else:
            self.results = Path(results)
            self._take(table.open_table(self.results, on_file=on_file))

    def _take(self, opened: table.ResultTable) -> None:
        self._tables = opened.tables
        self.__dict__.pop("_abouts", None)
        own = opened.files.column("warnings").drop_null().to_pylist()
        said = [text for unit in own for text in json.loads(unit)]
        self.warnings = list(dict.fromkeys([*said, *opened.warnings]))
        """What could not be read; each names its file."""
        self._files = _by_time(opened.files)
        self._with_rows = self._files[self._files["rows"] > 0]
        self._is_whole = opened.tables.num_points == self._with_rows["rows"].sum()

    def _open_again(self, error: Exception) -> None:
        if self.results is None:
            why = remote.short(error)
            raise UsageError(f"cannot read the table at {self._url}: {why}") from error
        self._take(table.open_table(self.results, rebuild=True))

    @property
    def beside(self) -> Path:
        """Where what is derived from the table may be kept: its folder; of a table at a URL one
        that goes with this process."""
        return Path(self._tables.url) if self.results else table.elsewhere(self._url)

    def state(self, machine: str) -> str:
        """A text that changes with what counts of a machine: which files, read by which code; of a
        table at a URL, which readings."""
        about = _STATE if self.results else [*_STATE, READING]
        own = self._of_machine(machine)[about].sort_values("key")
        return digest_of([self._tables.description, own.fillna("").to_numpy().tolist()])

    def run_ids(self, machine: str) -> set[str]:
        """Of the runs of a machine that have rows."""
        return set(self._of_machine(machine)["run_id"].dropna())

    def runs(self) -> list[AboutRun]:
        """Every run that can be shown, the oldest first."""
        every = itertools.chain.from_iterable(self._abouts.values())
        found = [AboutRun(**about["header"]) for about in every]
        return sorted(found, key=lambda run: (run.started_at, run.machine or "", run.run_id))

    def machines(self) -> list[str]:
        """Every machine that has rows and a name."""
        return sorted(self._with_rows["machine"].dropna().unique())

    @_question
    def frame(self) -> pd.DataFrame:
        """The tidy frame of everything (hostbench.store.frame), the oldest first."""
        return self._ordered(self._read(SHOWN, "true"))

    @_question
    def of_runs(self, run_ids: Sequence[str], machine: str | None) -> pd.DataFrame:
        """The rows of these runs of one machine."""
        files = self._of_machine(machine)
        readings = files[READING][files["run_id"].isin(run_ids)].tolist()
        if not readings:
            return to_frame(SCHEMA.empty_table())
        where = of_machine(machine)
        if len(readings) <= _FEW:
            where += f" and {delta.is_in(readings)}"
        return self._ordered(delta.counting(self._read(SHOWN, where), readings))

    def rows_of(self, run: AboutRun) -> pd.DataFrame:
        """The rows of one run."""
        return self.of_runs([run.run_id], run.machine)

    @_question
    def trend(self, machine: str | None, case: str) -> pd.DataFrame:
        """The rows of one series, the oldest first."""
        where = f'{of_machine(machine)} and "case" = {text(case)}'
        return self._ordered(self._read(SHOWN, where))

    @_question
    def points(self, machine: str | None, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all rows of one machine, text as categories, in no order, but always in
        the same."""
        kept = None
        if not self._is_whole:
            readings = self._tables.read_column(READING, machine)
            kept = np.isin(readings.to_numpy(), self._with_rows[READING])
        found = {}
        for name in columns:  # one after the other: each is in memory twice for a moment
            column = self._tables.read_column(name, machine)
            found[name] = (column if kept is None else column.filter(pa.array(kept))).to_pandas()
            del column
            pa.default_memory_pool().release_unused()
        return pd.DataFrame(found, copy=False)

    @_question
    def series(self, machine: str | None) -> pd.DataFrame:
        """A row for each series of a machine, the first measured first: `workload`, `case`, and
        whether it ever had a number (`has_number`)."""
        files = self._of_machine(machine)
        where = of_machine(machine) if len(files) else "false"
        if len(files) and not self._is_whole:
            where += f" and {delta.is_in(files[READING].tolist())}"
        found = delta.ask_sql(self._tables.points, _SERIES.format(where=where))
        names = ["workload", "case", "has_number"]
        rows: pd.DataFrame = found.select(names).to_pandas()
        return rows.astype({"workload": object, "case": object})

    def sides(self) -> pd.DataFrame:
        """One row for each run, the oldest first: the columns SIDES, and `environment`, asv's, of
        another project's runs."""
        named = self._with_rows[self._with_rows["machine"].notna()]
        found = named[list(SIDES)].drop_duplicates(ignore_index=True)
        return found.assign(environment=found["run_id"].map(environment_of, na_action="ignore"))

    def runs_counted(self) -> pd.DataFrame:
        """A row for each run, the oldest first: the columns RUN_COUNTS."""
        files = self._with_rows
        counted = _counted(files)
        simulated = counted["device"].where(counted["device"] == "simulated")
        of_text = counted.assign(device=simulated).groupby("counts", as_index=False)
        summed = of_text.agg({"device": "first"} | dict.fromkeys(_NUMBERS, "sum"))
        found = files.merge(summed, on="counts", how="left")[list(RUN_COUNTS)]
        runs = found.groupby(["machine", "run_id"], sort=False, dropna=False)
        if runs.ngroups < len(found):
            how = dict.fromkeys(RUN_COUNTS, "first") | dict.fromkeys(_NUMBERS, "sum")
            found = runs.agg(how).reset_index(drop=True)
        return found

    def counts(self, machine: str | None) -> pd.DataFrame:
        """A row for each run of a machine, family and device, the oldest run first: the columns
        COUNTS."""
        files = self._of_machine(machine)
        return files.merge(_counted(files), on="counts")[list(COUNTS)]

    def facts(self, run: AboutRun) -> dict[str, Facts]:
        """When (`before`, `during`, ...) -> facts of the run's first part. No archive is opened."""
        own = self._of_machine(run.machine)
        texts = own["facts"][own["run_id"] == run.run_id].dropna()
        stored = json.loads(texts.iloc[0]) if len(texts) else {}
        return {when: runs.facts_of(facts) for when, facts in stored.items()}

    def archives(self, run: AboutRun) -> list[Path]:
        """The files of a run, its first part first: archives, and the journal of a part that goes
        on; none of a table at a URL."""
        if self.results is None:
            return []
        return [self.results / path for path in self._parts(run)]

    def _parts(self, run: AboutRun) -> list[str]:
        same = self._abouts.get(run.run_id, ())
        own = [about for about in same if about["header"]["machine"] == run.machine]
        return [path for about in own for path in about["parts"]]

    def setups(self, machine: str | None) -> list[tuple[pd.Timestamp, Facts]]:
        """When each run of a machine began and how the machine was set up in it, the oldest first,
        where that is stored. Runs of the same setup share the one."""
        own = self._of_machine(machine)
        own = own[own["setup"].notna() & own["started_at"].notna()]
        found = {text: runs.facts_of(json.loads(text)) for text in own["setup"].unique()}
        return [(at, found[text]) for at, text in zip(own["started_at"], own["setup"], strict=True)]

    @_question
    def whole(self, run: AboutRun) -> WholeRun:
        """The run itself, with its records and facts. Raises UsageError for one that has gone."""
        paths = self._parts(run)
        if self.results is None:
            parts = remote.parts(self._url, paths)
            found = next(iter(runs.put_together(parts)), None)
        else:
            found = runs.of_files(self.results, [self.results / path for path in paths])
        if found is None:
            raise UsageError(f"run {run.run_id} has gone from {self._url} meanwhile; try again")
        return found

    @functools.cached_property
    def _abouts(self) -> dict[str, list[dict[str, Any]]]:
        """Of runs that can be shown, by their id, which runs of several machines may share."""
        of_runs = self._files[self._files["kind"] == "run"]
        found: dict[str, list[dict[str, Any]]] = {}
        for about in map(json.loads, of_runs["about"].dropna()):
            found.setdefault(about["header"]["run_id"], []).append(about)
        return found

    def _of_machine(self, machine: str | None) -> pd.DataFrame:
        named = self._with_rows["machine"]
        return self._with_rows[named.isna() if machine is None else named == machine]

    def _read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Rows that count."""
        if self._is_whole:
            return self._tables.read(columns, where)
        rows = self._tables.read([*dict.fromkeys([*columns, READING])], where)
        return delta.counting(rows, self._with_rows[READING])

    def _ordered(self, rows: pa.Table) -> pd.DataFrame:
        """By time; at one time by kind, key and place."""
        known = self._with_rows.sort_values(READING)
        at = times(rows)
        limits = np.iinfo(np.int64)
        at = np.where(at == limits.min, limits.max, at)
        readings = rows.column(READING).to_numpy()
        rank = known["rank"].to_numpy()[np.searchsorted(known[READING], readings)]
        order = np.lexsort((rows.column(PLACE).to_numpy(), rank, at))
        return to_frame(rows.take(pa.array(order)))


def _by_time(files: pa.Table) -> pd.DataFrame:
    """A row for each Source, the oldest first, those without a time last. `rank`: its place among
    those of one moment, runs before asv."""
    times = files.column("first_at").cast(pa.timestamp("us", tz="UTC"))
    known = files.append_column("started_at", times).to_pandas()
    if not known["key"].is_unique:
        known = known.sort_values(READING).drop_duplicates("key", keep="last")
    kinds = pd.Categorical(known["kind"], KINDS).codes
    rank = np.lexsort((known["key"], kinds)).argsort()
    order = np.lexsort((rank, known["first_at"]))
    ordered: pd.DataFrame = known.assign(rank=rank).take(order).reset_index(drop=True)
    return ordered


def _counted(files: pd.DataFrame) -> pd.DataFrame:
    """What each text of the column `counts` says, a row for each family and device. Runs of one
    outcome share the text."""
    names = ["counts", "family", "device", "own", *_NUMBERS]
    rows = [[text, *row] for text in files["counts"].unique() for row in json.loads(text)]
    return pd.DataFrame(rows, columns=names)
