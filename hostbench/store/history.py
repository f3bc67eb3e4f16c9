"""Results as the commands and pages read them: a folder through its table, or a table at a URL.

Without deltalake and pyarrow, or where a folder cannot be written, every file is read instead:
the answers are the same.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pandas as pd

from hostbench.core.errors import UsageError
from hostbench.facts.record import Facts
from hostbench.store import frame, peers, runs
from hostbench.store.columns import NUMBERS, SIDES, TIMES
from hostbench.store.counts import count, series_of
from hostbench.store.frame import Tree
from hostbench.store.runs import AboutRun, WholeRun

if TYPE_CHECKING:
    from hostbench.store.table import ResultTable

T = TypeVar("T")


def is_url(results: Path | str) -> bool:
    """Whether that names a table (`s3://`, `gs://`, `az://`, `file://`), not a folder of files."""
    return isinstance(results, str) and "://" in results


class History:
    """What is stored. Raises UsageError where there is no such folder, no such table."""

    def __init__(self, results: Path | str) -> None:
        self.results: Path | None = None
        """The folder; None of a table at a URL: there are no files of asv's, and no triage."""
        self._url = ""
        self._table: ResultTable | None
        self._tree: Tree | None = None
        if is_url(results):
            self._url = str(results)
            self._table = _open_remote(self._url)
            return
        self.results = Path(results)
        if not self.results.is_dir():
            raise UsageError(f"there is no results folder {results}; name one with --results")
        self._table = _open(self.results)
        if self._table is None:
            self._whole()

    @property
    def warnings(self) -> list[str]:
        """What could not be read; each names its file."""
        found = self._table.warnings if self._table else self._whole().warnings
        return list(dict.fromkeys(found))

    def runs(self) -> list[AboutRun]:
        """Every run that can be shown, the oldest first."""
        if self._table:
            return self._table.runs()
        return [runs.about(run) for run in self._whole().runs]

    def frame(self) -> pd.DataFrame:
        """The tidy frame of everything."""
        return self._ask(lambda table: table.frame(), lambda tree: tree.frame)

    def rows_of(self, run: AboutRun) -> pd.DataFrame:
        """The rows of one run."""
        return self.of_runs([run.run_id], run.machine)

    def of_runs(self, run_ids: Sequence[str], machine: str | None) -> pd.DataFrame:
        """The rows of these runs of one machine."""
        return self._ask(
            lambda table: table.of_runs(run_ids, machine),
            lambda tree: tree.frame[
                tree.frame["run_id"].isin(run_ids)
                & ((tree.frame["machine"] == machine) | (machine is None))
            ],
        )

    def machines(self) -> list[str]:
        """Every machine that has rows and a name."""
        return self._ask(
            lambda table: table.machines(),
            lambda tree: sorted({str(name) for name in tree.frame["machine"].dropna()}),
        )

    def points(self, machine: str, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all rows of one machine, text as categories, in no order."""
        return self._ask(
            lambda table: table.points(machine, columns),
            lambda tree: _as_categories(
                tree.frame.loc[tree.frame["machine"] == machine, list(columns)]
            ),
        )

    def sides(self) -> pd.DataFrame:
        """One row for each run, the oldest first: the columns SIDES."""
        return self._ask(lambda table: table.sides(), lambda tree: _sides(tree.frame))

    def counts(self) -> pd.DataFrame:
        """A row for each run, family and device: the columns hostbench.store.counts.COUNTS."""
        return self._ask(lambda table: table.counts(), lambda tree: count(tree.frame))

    def series(self, machine: str | None) -> pd.DataFrame:
        """A row for each series of a machine, the first measured first: `workload`, `case`, and
        whether it ever had a number."""
        return self._ask(
            lambda table: table.series(machine),
            lambda tree: series_of(_of_machine(tree, machine)),
        )

    def facts(self, run: AboutRun) -> dict[str, Facts]:
        """When (`before`, `during`, ...) -> facts of the run's first part."""
        stored = self.whole(run).parts[0].facts
        return {when: runs.facts_of(facts) for when, facts in stored.items()}

    def whole(self, run: AboutRun) -> WholeRun:
        """The run itself, with its records and facts. Raises UsageError for one that has gone."""
        if self.results is None:
            found = self._ask(lambda table: _from_remote(self._url, table, run), _never)
        elif self._table:
            paths = self._table.parts_of(run.run_id)
            found = runs.of_files(self.results, [self.results / path for path in paths])
        else:
            found = next((w for w in self._whole().runs if w.run_id == run.run_id), None)
        if found is None:
            where = self.results or self._url
            raise UsageError(f"run {run.run_id} has gone from {where} meanwhile; try again")
        return found

    def trend(self, machine: str | None, case: str) -> pd.DataFrame:
        """The rows of one series, the oldest first."""

        def of_tree(tree: Tree) -> pd.DataFrame:
            rows = _of_machine(tree, machine)
            return rows[rows["case"] == case]

        return self._ask(lambda table: table.trend(machine, case), of_tree)

    def of_peers(self, machine: str) -> pd.DataFrame:
        """Other tools' points of one machine."""

        def of_tree(tree: Tree) -> pd.DataFrame:
            rows = _of_machine(tree, machine)
            return rows[rows["source"].isin(peers.SOURCES)]

        return self._ask(lambda table: table.of_peers(machine), of_tree)

    def _ask(self, asked: "Callable[[ResultTable], T]", read: "Callable[[Tree], T]") -> T:
        """Ask the table; a folder's that is damaged is made anew, once; else read the files."""
        for again in (False, True):
            if self._table is None:
                break
            try:
                return asked(self._table)
            except Exception as error:
                if not _is_damage(error):
                    raise
                if self.results is None:
                    why = str(error).partition("\n")[0][:300]
                    raise UsageError(f"cannot read the table at {self._url}: {why}") from error
                self._table = None if again else _open(self.results, rebuild=True)
        return read(self._whole())

    def _whole(self) -> Tree:
        if self._tree is None:
            assert self.results is not None
            self._tree = frame.read(self.results)
        return self._tree


def _of_machine(tree: Tree, machine: str | None) -> pd.DataFrame:
    """The rows of a machine; None: of runs whose machine nobody has named yet."""
    rows = tree.frame
    return rows[rows["machine"].isna() if machine is None else rows["machine"] == machine]


def _as_categories(rows: pd.DataFrame) -> pd.DataFrame:
    texts = [name for name in rows if name not in (*NUMBERS, *TIMES)]
    return rows.astype(dict.fromkeys(texts, "category"))


def _sides(rows: pd.DataFrame) -> pd.DataFrame:
    """The frame is in the order of time."""
    found = rows.loc[rows["machine"].notna(), list(SIDES)]
    return found.drop_duplicates(ignore_index=True)


def _is_damage(error: Exception) -> bool:
    """Whether the table was to blame."""
    from hostbench.store import table

    return isinstance(error, table.DAMAGE)


def _never(_: Tree) -> WholeRun | None:
    """A table at a URL has no files to read instead."""
    return None


def _from_remote(url: str, table: "ResultTable", run: AboutRun) -> WholeRun | None:
    from hostbench.store.table import remote

    parts = [*remote.parts(url, table.parts_of(run.run_id))]
    return next(iter(runs.put_together(parts)), None)


def _open_remote(url: str) -> "ResultTable":
    try:
        from hostbench.store.table import remote
    except ImportError as error:
        raise UsageError(
            f"{url} is a table, which needs deltalake; pip install 'hostbench[dashboard]'"
        ) from error
    return remote.open_remote(url)


def _open(results: Path, rebuild: bool = False) -> "ResultTable | None":
    try:
        from hostbench.store import table
    except ImportError:  # the extra `dashboard` is not installed
        return None
    try:
        return table.open_table(results, rebuild)
    except (UsageError, *table.DAMAGE):  # not writable, or no room
        return None
