"""Results as the commands and pages read them: a folder through its table, or a table at a URL."""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError
from msgspec import DecodeError, structs

from hostbench.core.errors import UsageError
from hostbench.core.files import is_url
from hostbench.facts.record import Facts
from hostbench.store import adopt, archive, index, nights, runs, triage
from hostbench.store.asv_tree import OnFile, environment_of, ignore_file
from hostbench.store.columns import ABOUT, COUNTS, RUN_COUNTS, SIDES, STATUSES
from hostbench.store.runs import AboutRun, WholeRun
from hostbench.store.table import (
    DAMAGE,
    DESCRIPTION,
    FORMAT,
    SCHEMA,
    SHOWN,
    FileRow,
    ResultTable,
    is_in,
    of_machine,
    text,
    times,
    to_frame,
)

T = TypeVar("T")

MAX_FILES, MAX_POINTS = 200_000, 10_000_000
"""Of a table at a URL; of one with more points the newest are shown."""
_AT_ONCE = 5
"""Columns of all points of a machine that are read together."""
_FEW = 64
"""Up to so many files are named in a question, so that only theirs are opened."""
_NUMBERS = (*STATUSES, "unexpected")
_SERIES = """
select {{}}, bool_or(status = 'ok') as has_number, min(started_at) as first,
first_value(place order by started_at, place) as place
from t where kind = 'point' and {where} group by workload, "case"
"""


class Results:
    """What is stored, as it was when it was opened.

    Raises UsageError where there is no such folder, no such table.
    """

    def __init__(self, where: Path | str, on_file: OnFile = ignore_file) -> None:
        self.folder: Path | None = None if is_url(where) else Path(where)
        """None of a table at a URL: there are no files of asv's, and no triage."""
        self._url = str(where)
        if self.folder is None:
            self._take(*open_url(self._url))
        else:
            self._take(*index.open_table(self.folder, on_file=on_file))

    def _take(self, table: ResultTable, warnings: Sequence[str]) -> None:
        self._table = table
        self.__dict__.pop("_facts", None)
        rows = table.files
        own = [text for row in rows for text in row.warnings]
        self.warnings = list(dict.fromkeys([*own, *warnings]))
        """What could not be read; each names its file."""
        self._rows = sorted(rows, key=_when)
        self._files = _frame(self._rows)
        self._of_run = {(row.machine, row.run_id): row for row in self._rows if row.run}
        self._limit()

    def _limit(self) -> None:
        """Leave out the oldest files of more points than fit into memory."""
        self._shown_since = "true"
        from_end = self._files["rows"][::-1].cumsum()[::-1]
        if len(from_end) and from_end.iloc[0] > MAX_POINTS:
            is_read = from_end <= MAX_POINTS
            self.warnings.append(
                f"{self._url} has {from_end.iloc[0]:,} points, more than the {MAX_POINTS:,} that "
                f"are read: {(~is_read).sum():,} files are left out, the oldest"
            )
            self._files = self._files[is_read].reset_index(drop=True)
            oldest = self._files["first_us"].min()
            self._shown_since = f"started_at >= to_timestamp_micros({oldest:.0f})"

    def _ask(self, ask: Callable[[ResultTable], T]) -> T:
        """A folder's table that turns out to be damaged, or to have gone, is made anew, once."""
        try:
            return ask(self._table)
        except DAMAGE as error:
            if self.folder is None:
                raise _unreadable(self._url, error) from error
            self._take(*index.open_table(self.folder, rebuild=True))
        return ask(self._table)

    @property
    def beside(self) -> Path:
        """Where what is derived from the table may be saved: its folder; of a table at a URL one
        that goes with this process."""
        return Path(self._table.url).parent if self.folder else index.elsewhere(self._url)

    def state(self, machine: str | None = None) -> str:
        """A text that changes with what is stored of a machine, or of all."""
        files = self._files if machine is None else self._of_machine(machine)
        named = files[["file", "depends", "digest", "size", "changed_ns"]]
        return index.digest_of([DESCRIPTION, named.fillna("").to_numpy().tolist()])

    # ---- runs -----------------------------------------------------------------------------------

    def machines(self) -> list[str]:
        """Every machine that has points and a name."""
        return sorted(self._files["machine"].dropna().unique())

    def runs(self) -> list[AboutRun]:
        """Every run that can be shown, the oldest first."""
        every = [row.run for row in self._of_run.values() if row.run]
        return sorted(every, key=lambda run: (run.started_at, run.machine or "", run.run_id))

    def run(self, about: AboutRun) -> WholeRun:
        """The run itself, with its records. Raises UsageError for one that has gone, DataError."""
        row = self._of_run[about.machine, about.run_id]
        path = Path(self.folder or "", row.file)
        try:
            if self.folder is None:
                where = is_in("file", [row.file])
                content = self._ask(lambda table: table.of_files("content", where))
                return WholeRun(archive.parse(path, content[row.file]))
            if row.source == "journal":
                return WholeRun(adopt.from_journal(self.folder, path))
            return WholeRun(archive.read(path))
        except (KeyError, FileNotFoundError) as error:
            gone = f"run {about.run_id} has gone from {self._url} meanwhile; try again"
            raise UsageError(gone) from error

    def archives(self, run: AboutRun) -> list[Path]:
        """The file of a run: an archive, or the journal of one that goes on; none of a table at a
        URL."""
        row = self._of_run[run.machine, run.run_id]
        return [self.folder / row.file] if self.folder else []

    def facts(self, run: AboutRun) -> dict[str, Facts]:
        """When (`before`, `during`, ...) -> facts of a run. No archive is opened."""
        row = self._of_run[run.machine, run.run_id]
        stored = json.loads(self._facts.get(row.file, "{}"))
        return {when: runs.facts_of(facts) for when, facts in stored.items()}

    @cached_property
    def _facts(self) -> dict[str, str]:
        return self._ask(lambda table: table.of_files("facts"))

    def setups(self, machine: str | None) -> list[tuple[pd.Timestamp, Facts]]:
        """When each run of a machine began and how the machine was set up in it, the oldest first,
        where that is stored. Runs of the same setup share the one."""
        own = self._of_machine(machine)
        own = own[own["setup"].astype(bool) & own["started_at"].notna()]
        texts = own["setup"].map(json.dumps)
        facts = {text: runs.facts_of(json.loads(text)) for text in texts.unique()}
        return [(at, facts[text]) for at, text in zip(own["started_at"], texts, strict=True)]

    def sides(self) -> pd.DataFrame:
        """One row for each run, the oldest first: the columns SIDES, and `environment`, asv's, of
        another project's runs."""
        named = self._files[self._files["machine"].notna()]
        sides = named[list(SIDES)].drop_duplicates(ignore_index=True)
        return sides.assign(environment=sides["run_id"].map(environment_of, na_action="ignore"))

    def counts(self, machine: str | None) -> pd.DataFrame:
        """A row for each run of a machine, family and device, the oldest run first: the columns
        COUNTS."""
        return _counted(self._of_machine(machine))

    def runs_counted(self) -> pd.DataFrame:
        """A row for each run, the oldest first: the columns RUN_COUNTS."""
        rows = _counted(self._files)
        rows["device"] = rows["device"].where(rows["device"] == "simulated", None)
        how = dict.fromkeys(RUN_COUNTS, "first") | dict.fromkeys(_NUMBERS, "sum")
        of_runs = rows.groupby(["machine", "run_id"], sort=False, dropna=False)
        return of_runs.agg(how).reset_index(drop=True)

    # ---- points ---------------------------------------------------------------------------------

    def frame(self) -> pd.DataFrame:
        """The tidy frame of everything (hostbench.store.frame), the oldest first."""
        return self._shown("true", self._files)

    def rows(self, machine: str | None, run_ids: Sequence[str]) -> pd.DataFrame:
        """The tidy frame of these runs of one machine."""
        files = self._of_machine(machine)
        files = files[files["run_id"].isin(run_ids)]
        where = of_machine(machine)
        if len(files) <= _FEW:
            where += f" and {is_in('file', files['file'])}"
        return self._shown(where, files)

    def trend(self, machine: str | None, case: str) -> pd.DataFrame:
        """The tidy frame of one series, the oldest first."""
        where = f'{of_machine(machine)} and "case" = {text(case)}'
        return self._shown(where, self._of_machine(machine))

    def points(self, machine: str | None, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all points of one machine, text as categories, in no order, but always
        in the same."""
        where, read = f"{of_machine(machine)} and {self._shown_since}", dict[str, Any]()
        for start in range(0, len(columns), _AT_ONCE):  # they are in memory twice for a moment
            some = columns[start : start + _AT_ONCE]
            rows = self._ask(lambda table, some=some: table.points(some, where))  # type: ignore[misc]
            read |= {name: rows.column(name).to_pandas() for name in some}
            del rows
            pa.default_memory_pool().release_unused()
        return pd.DataFrame(read, copy=False)

    def series(self, machine: str | None) -> pd.DataFrame:
        """A row for each series of a machine, the first measured first: `workload`, `case`, and
        whether it ever had a number (`has_number`)."""
        where = of_machine(machine) if len(self._of_machine(machine)) else "false"
        query = _SERIES.format(where=where)
        every = self._ask(lambda table: table.ask(query, ["workload", "case"]))
        rows = every.to_pandas().astype({"workload": object, "case": object})
        ordered: pd.DataFrame = rows.sort_values(["first", "place", "case"], ignore_index=True)
        return ordered[["workload", "case", "has_number"]]

    def _of_machine(self, machine: str | None) -> pd.DataFrame:
        named = self._files["machine"]
        return self._files[named.isna() if machine is None else named == machine]

    def _shown(self, where: str, files: pd.DataFrame) -> pd.DataFrame:
        """The points of these files, by time; at one time as the files are ordered."""
        if files.empty:
            return to_frame(SCHEMA.empty_table())
        rows = self._ask(lambda table: table.points(SHOWN, where))
        column = rows.column("file").unify_dictionaries().combine_chunks()
        order_of = {file: order for order, file in zip(files["order"], files["file"], strict=True)}
        ranks = np.array([order_of.get(name, -1) for name in column.dictionary.to_pylist()])
        ranks = ranks[column.indices.to_numpy()] if len(column) else np.empty(0, np.int64)
        limits = np.iinfo(np.int64)
        at = times(rows)
        at = np.where(at == limits.min, limits.max, at)
        order = np.lexsort((rows.column("place").to_numpy(), ranks, at))
        return to_frame(rows.take(pa.array(order[ranks[order] >= 0])))


def open_url(url: str) -> tuple[ResultTable, list[str]]:
    """The table at a URL as it is now. Raises UsageError where there is none that can be read."""
    try:
        table = ResultTable(url)
        if table.description != DESCRIPTION:
            raise UsageError(
                f"the table at {url} is of another version ({table.description:.80}, this "
                f"hostbench has format {FORMAT}): publish to another URL"
            )
        if (num := table.num_rows("file")) > MAX_FILES:
            limit = f"more than the {MAX_FILES:,} that are read"
            raise UsageError(f"the table at {url} has {num:,} files, {limit}: publish fewer there")
        table.files  # noqa: B018 - read now, where an error has a name
        return table, []
    except TableNotFoundError as error:
        if "Unknown scheme" in str(error):
            scheme = url.partition("://")[0]
            raise UsageError(
                f"no table can be at {url}: nothing here knows {scheme}://; begin with s3://, "
                "gs://, az:// or file://"
            ) from error
        why = f"there is no table at {url}; `hostbench publish URL` makes one"
        raise UsageError(why) from error
    except (*DAMAGE, DecodeError, TypeError) as error:
        raise _unreadable(url, error) from error


def version(url: str) -> int:
    """Another number where something was published. Raises UsageError as `open_url`."""
    return open_url(url)[0].version


def _unreadable(url: str, error: Exception) -> UsageError:
    return UsageError(f"cannot read the table at {url}: {first_line(error)}")


def first_line(error: Exception) -> str:
    """What a library says, as far as one line of ours has room for it."""
    return str(error).partition("\n")[0][:300]


def damage(results: Results) -> list[str]:
    """A line for each damaged file of a folder with its remedy, so that a night says it: what the
    commands warn of as they read, and what only some of them read."""
    lines, folder = list(results.warnings), results.folder
    if folder is not None:
        for machine in sorted(folder.glob(f"*/{nights.FOLDER}")):
            nights.of_machine(folder, machine.parent.name, lines.append)
        lines += [f"{path}: {text}" for path, text in triage.read(folder).warnings]
    return lines


def _when(row: FileRow) -> tuple[Any, ...]:
    """The oldest first, those without a time last; of one moment runs before asv."""
    return row.first_us is None, row.first_us or 0, row.source == "asv", row.file


def _frame(rows: list[FileRow]) -> pd.DataFrame:
    """The FileRows that have points. `order`: of those of one moment."""
    shown = [structs.astuple(row) for row in rows if row.rows]
    names = FileRow.__struct_fields__
    files = pd.DataFrame(
        dict(zip(names, zip(*shown, strict=True), strict=True)) if shown else {}, columns=names
    )
    ranks = np.lexsort((files["file"], files["source"] == "asv")).argsort()
    at = pd.to_datetime(files["first_us"].astype("Int64"), unit="us", utc=True)
    return files.assign(started_at=at.astype("datetime64[us, UTC]"), order=ranks)


def _counted(files: pd.DataFrame) -> pd.DataFrame:
    """What the column `counts` says: COUNTS."""
    names = ["index", "family", "device", "own", *_NUMBERS]
    counts = ([i, *row] for i, rows in files["counts"].items() for row in rows)
    rows = pd.DataFrame(counts, columns=names)
    return rows.join(files[["machine", "run_id", *ABOUT]], on="index")[list(COUNTS)]
