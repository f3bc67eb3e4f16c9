"""Results as the commands and pages read them: a folder through its table, or a table at a URL."""

import ctypes
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from msgspec import DecodeError

from hostbench.core.errors import UsageError, Warn
from hostbench.core.files import is_url
from hostbench.core.records import Run
from hostbench.facts.differences import Difference, possible
from hostbench.facts.record import Facts
from hostbench.store import archive, index, nights, points, runs, table, triage
from hostbench.store.limits import with_limits
from hostbench.store.points import STATUSES
from hostbench.store.runs import StoredFile
from hostbench.store.table import ResultTable

MAX_POINTS = 10_000_000
"""Of a table; of one with more the newest are shown."""
SETUP = ("torch", "driver", "hardware")
"""What a run was measured with, as far as every point says it; the likeliest cause first."""
ABOUT = ("commit", "started_at", *SETUP, "scratch", "source")
"""What is the same in all rows of a run on a machine."""
TREND = (
    *("machine", "hardware", "device", "commit", "committed_at", "run_id", "started_at", "torch"),
    *("driver", "version", "status", "reason", "seconds", "ci_low_s", "ci_high_s", "num_samples"),
    *("gb_per_s", "value", "unit", "source", "scratch", "flags"),
)
"""The columns of a series."""
_AT_ONCE = 7
"""Columns of all points of a machine that are read together."""
_OF_A_SERIES = (
    "bool_or(status = 'ok') as has_number",
    "min(started_at) as first",
    "first_value(position order by started_at, position) as position",
)


class Results:
    """What is stored, as it was when it was opened.

    Raises UsageError where there is no such folder, no such table.
    """

    def __init__(self, where: Path | str) -> None:
        self.folder: Path | None = None if is_url(where) else Path(where)
        """None of a table at a URL: there are no files of asv's, and no triage."""
        self._url, warnings = str(where), list[str]()
        if self.folder is None:
            self._table = open_url(self._url)
        else:
            self._table, warnings = index.open_table(self.folder)
        # of one moment runs come before asv, what has no time last
        rows = sorted(
            self._table.files,
            key=lambda r: (r.first_us is None, r.first_us or 0, r.source == "asv", r.file),
        )
        self.warnings = list(dict.fromkeys([*(w for row in rows for w in row.warnings), *warnings]))
        """What could not be read; each names its file."""
        self._files = [row for row in rows if row.rows]
        """The oldest first."""
        self._shown_since = "true"
        if (num := sum(row.rows for row in self._files)) > MAX_POINTS:
            counts = np.cumsum([row.rows for row in reversed(self._files)])
            shown = self._files[len(self._files) - int((counts <= MAX_POINTS).sum()) :]
            self.warnings.append(
                f"{self._url} has {num:,} points, more than the {MAX_POINTS:,} that are read: "
                f"{len(self._files) - len(shown):,} files are left out, the oldest"
            )
            self._files = shown
            oldest = min((row.first_us for row in shown if row.first_us is not None), default=0)
            self._shown_since = f"started_at >= to_timestamp_micros({oldest})"
        ordered = sorted(self._files, key=lambda row: (row.source == "asv", row.file))
        self._ranks = {row.file: rank for rank, row in enumerate(ordered)}

    @property
    def beside(self) -> Path:
        """Where what is derived from the table may be saved: its folder; of a table at a URL one
        that goes with this process."""
        return Path(self._table.url).parent if self.folder else index.elsewhere(self._url)

    def state(self) -> str:
        """A text that changes with what is stored."""
        about = [
            (row.file, row.depends, row.digest, row.size, row.changed_ns) for row in self._files
        ]
        return index.digest_of([table.DESCRIPTION, about])

    # ---- runs -----------------------------------------------------------------------------------

    def machines(self) -> list[str]:
        """Every machine that has points and a name."""
        return sorted({row.machine for row in self._files})

    def runs(self) -> list[StoredFile]:
        """Every run that can be shown, the oldest first."""
        every = (row for row in self._files if row.started_at)
        return sorted(every, key=lambda run: (run.started_at, run.machine, run.run_id))

    def run(self, row: StoredFile) -> Run:
        """The run itself, with its records. Raises DataError."""
        if self.folder is not None:
            return archive.read(self.folder / row.file)
        where = table.is_in("file", [row.file])
        content = self._table.of_files("content", where)
        return archive.read(Path(row.file), content[row.file])

    def facts(self, run: StoredFile) -> dict[str, Facts]:
        """When (`before`, `during`, ...) -> facts of a run. No archive is opened."""
        return runs.facts_by_when(json.loads(self._facts.get(run.file, "{}")))

    def differences(self, run: StoredFile) -> list[Difference]:
        """What differs from the machine's run before and may be a cause, the likeliest first."""
        mine = [other for other in self.runs() if other.machine == run.machine]
        before = mine[max(0, mine.index(run) - 1)]
        return possible(self.facts(before), self.facts(run))

    @cached_property
    def _facts(self) -> dict[str, str]:
        return self._table.of_files("facts")

    def sides(self) -> pd.DataFrame:
        """What is the same in all points of a run (ABOUT), to choose what is compared; the oldest
        first."""
        names = ("file", "machine", "run_id", *ABOUT)
        about = {name: [getattr(row, name) for row in self._files] for name in names}
        at = pd.array([row.first_us for row in self._files], dtype="Int64")
        times = pd.to_datetime(at, unit="us", utc=True).astype("datetime64[us, UTC]")
        return pd.DataFrame(about, dtype=object).assign(started_at=times)

    @cached_property
    def counts(self) -> pd.DataFrame:
        """How many points of each status a run has, a row for each run, family and device, the
        oldest run first, with what is the same in the whole run (ABOUT)."""
        by = ("file", "family", "device")
        counts = [f"count(*) filter (where status = '{s}') as \"{s}\"" for s in STATUSES]
        counted = self._table.points(by, "true", *counts)
        rows = counted.to_pandas().astype(dict.fromkeys(by, object))
        rows = rows.sort_values(["family", "device"], kind="stable")
        return self.sides().merge(rows, on="file").drop(columns="file")

    # ---- points ---------------------------------------------------------------------------------

    def frame(self) -> pd.DataFrame:
        """The tidy frame of everything (hostbench.store.points), the oldest first."""
        return self._shown("true")

    def rows(self, machine: str, run_ids: Sequence[str]) -> pd.DataFrame:
        """The tidy frame of these runs of one machine."""
        files = [row.file for row in self._of_machine(machine) if row.run_id in run_ids]
        return self._shown(f"machine = {table.text(machine)} and {table.is_in('file', files)}")

    def run_rows(self, machine: str, run_id: str) -> pd.DataFrame:
        """The tidy frame of one run, with what its rates are held against."""
        facts = (self.facts(r) for r in self._of_machine(machine) if r.run_id == run_id)
        return with_limits(self.rows(machine, [run_id]), next(facts, {}))

    def trend(self, machine: str, case: str) -> pd.DataFrame:
        """The columns TREND of one series, the oldest first."""
        where = f'machine = {table.text(machine)} and "case" = {table.text(case)}'
        return self._shown(where, (*TREND, "position", "file"))

    def points(self, machine: str, columns: Sequence[str]) -> pd.DataFrame:
        """These columns of all points of one machine, text as categories, in no order, but always
        in the same."""
        where, read = f"machine = {table.text(machine)} and {self._shown_since}", dict[str, Any]()
        for start in range(0, len(columns), _AT_ONCE):  # they are in memory twice for a moment
            some = columns[start : start + _AT_ONCE]
            rows = self._table.points(some, where)
            read |= {name: rows.column(name).to_pandas() for name in some}
            del rows
            give_back_memory()
        return pd.DataFrame(read, copy=False)

    def series(self, machine: str) -> pd.DataFrame:
        """A row for each series of a machine, the first measured first: `workload`, `case`, and
        whether it ever had a number (`has_number`)."""
        where = f"machine = {table.text(machine)}" if self._of_machine(machine) else "false"
        by = ("workload", "case")
        every = self._table.points(by, where, *_OF_A_SERIES)
        rows = every.to_pandas().astype({"workload": object, "case": object})
        ordered: pd.DataFrame = rows.sort_values(["first", "position", "case"], ignore_index=True)
        return ordered[["workload", "case", "has_number"]]

    def _of_machine(self, machine: str) -> list[StoredFile]:
        return [row for row in self._files if row.machine == machine]

    def _shown(self, where: str, columns: Sequence[str] = table.SHOWN) -> pd.DataFrame:
        """Points by time, what has none last; of one moment those of runs first."""
        rows = self._table.points(columns, where)
        if not len(rows):
            return table.to_frame(table.SCHEMA.empty_table().select(columns))
        files = rows["file"].combine_chunks()
        ranks = [self._ranks.get(file, -1) for file in files.dictionary.to_pylist()]
        rank = np.array(ranks, np.int64)[files.indices]
        at = rows["started_at"].cast(pa.int64()).fill_null(np.iinfo(np.int64).max)
        order = np.lexsort((rows["position"], rank, at))
        return table.to_frame(rows.take(pa.array(order[rank[order] >= 0])))


def give_back_memory() -> None:
    """What is free goes back to the system: a server would keep it, and wants it seldom."""
    pa.default_memory_pool().release_unused()
    with suppress(AttributeError):  # another C library than glibc
        ctypes.CDLL(None).malloc_trim(0)


def frame_of_run(results: Path, run: Run, warn: Warn) -> pd.DataFrame:
    """The tidy frame of one run that was read already, with what its rates are held against; empty,
    and a warning, where it is odd."""
    rows = points.rows_of_run(results, run, warn) or []
    return with_limits(table.to_frame(table.of_run(rows, "")), runs.facts_by_when(run.facts))


def open_url(url: str, *, create: bool = False) -> ResultTable:
    """The table at a URL as it is now, or an empty one. Raises UsageError where there is none that
    can be read."""
    try:
        opened = ResultTable(url)
        if opened.description != table.DESCRIPTION:
            raise UsageError(
                f"the table at {url} is of another version ({opened.description:.80}, this "
                f"hostbench has format {table.FORMAT}): publish to another URL"
            )
        opened.files  # noqa: B018 - read now, where an error has a name
        return opened
    except table.TableNotFoundError as error:
        if create and "Unknown scheme" not in str(error):
            return ResultTable.create(url)
        why = f"there is no table at {url} ({table.reason(error)})"
        raise UsageError(f"{why}; `hostbench publish URL` makes one") from error
    except (*table.DAMAGE, DecodeError, TypeError) as error:
        raise table.unreadable(url, error) from error


def version(url: str) -> int:
    """Another number where something was published. Raises UsageError as `open_url`."""
    return open_url(url).version


def damage(results: Results) -> list[str]:
    """A line for each damaged file of a folder with its remedy, so that a night says it: what the
    commands warn of as they read, and what only some of them read."""
    lines, folder = list(results.warnings), results.folder
    if folder is not None:
        for machine in sorted(folder.glob(f"*/{nights.FOLDER}")):
            nights.of_machine(folder, machine.parent.name, lines.append)
        triage.read(folder, lines.append)
    return lines
