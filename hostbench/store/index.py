"""The table of a results folder, brought up to date: what is new, changed or gone since.

`.<results>.table/` lies beside the folder, because asv takes every `.json` below that for a result.
It can be deleted at will. Where it cannot be written, a temporary one serves this process.
"""

import atexit
import contextlib
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from hostbench import families
from hostbench.core.clock import epoch_s
from hostbench.core.errors import DataError, UsageError
from hostbench.core.files import damaged, locked, read_stored
from hostbench.core.records import Run
from hostbench.core.units import number_of
from hostbench.facts import causes
from hostbench.facts.record import to_json
from hostbench.limits import published
from hostbench.runner import places
from hostbench.store import adopt, archive, asv_points, asv_tree, frame, runs, table
from hostbench.store.asv_tree import OnFile, ignore_file
from hostbench.store.columns import STATUSES, FrameRow
from hostbench.store.runs import WholeRun
from hostbench.store.table import DAMAGE, DESCRIPTION, MAX_ROWS, FileRow, ResultTable

_OF_ASV = r"[0-9a-f]{8}-.*\.json"
"""How asv's files of a commit are named."""
Stat = tuple[int, int]
"""(size in bytes, time of the last change in ns)."""
_REFUSED = re.compile(r"[\[\]^|\\]")
"""Characters of a path that the library takes for none of a URL: it panics."""


def folder_of(results: Path) -> Path:
    """Where the table of a results folder lies."""
    whole = results.resolve()
    return whole.parent / f".{whole.name}.table"


@cache
def elsewhere(results: str) -> Path:
    """A folder that goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="hostbench-table-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def open_table(
    results: Path, rebuild: bool = False, on_file: OnFile = ignore_file
) -> tuple[ResultTable, list[str]]:
    """The table of a results folder as it is now, and warnings of what belongs to no file in it; a
    damaged table is made anew, and a folder without results gets none beside it.

    Raises UsageError where there is no such folder, or no room for a table.
    """
    if not results.is_dir():
        raise UsageError(f"there is no results folder {results}; name one with --results")
    listing, folder = Listing(results), folder_of(results)
    if not (listing.is_empty or _REFUSED.search(str(folder))):
        with contextlib.suppress(*DAMAGE, UnicodeEncodeError):  # a table's path is a URL
            return _opened(listing, folder, rebuild, on_file)
    try:
        return _opened(listing, elsewhere(str(results.resolve())), rebuild, on_file)
    except DAMAGE as error:
        raise UsageError(
            f"cannot keep the table of {results}, neither beside it nor in "
            f"{tempfile.gettempdir()}: {error}; make room there, or make one of the two writable"
        ) from error


def _opened(
    listing: "Listing", folder: Path, rebuild: bool, on_file: OnFile
) -> tuple[ResultTable, list[str]]:
    """One process at a time, where the file system can lock: others need not read the same."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (ignore := folder / ".gitignore").exists():
        ignore.write_text("# made by hostbench from the results; delete it at will\n*\n")
    url = str(folder / "points")
    with locked(folder / "lock"):
        if not rebuild:
            with contextlib.suppress(*DAMAGE):
                stored = ResultTable(url)
                if stored.description == DESCRIPTION:
                    return _refreshed(listing, stored, on_file)
        shutil.rmtree(folder / "points", ignore_errors=True)
        return _refreshed(listing, ResultTable.create(url), on_file)


def _refreshed(
    listing: "Listing", stored: ResultTable, on_file: OnFile
) -> tuple[ResultTable, list[str]]:
    update = Update(listing, stored.files, on_file)
    for rows, replaced in update.batches():
        stored.write(rows, replaced)
    if update.has_changes:
        stored.tidy()
        stored.refresh()
    return stored, update.warnings


class Listing:
    """The files of a results folder that points come from: path in the folder -> Stat."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.warnings: list[str] = []
        self.archives: dict[str, Stat] = {}
        self.asv: dict[str, dict[str, Stat]] = {}
        """Of each machine."""
        for machine in (entry.name for entry in self._entries("")):
            if not (results / machine).is_dir():
                continue
            self.archives |= self._stats(f"{machine}/runs", rf".*{re.escape(archive.SUFFIX)}")
            self.asv[machine] = self._stats(machine, _OF_ASV)
        archived = {Path(path).name.removesuffix(archive.SUFFIX) for path in self.archives}
        journals = self._stats(places.JOURNALS, rf".*{re.escape(places.SUFFIX)}")
        self.journals = {
            path: stat
            for path, stat in journals.items()
            if Path(path).name.removesuffix(places.SUFFIX) not in archived
        }

    @property
    def is_empty(self) -> bool:
        return not (self.archives or self.journals or any(self.asv.values()))

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        """Of a folder, in the order of the names. One that cannot be named is a warning."""
        with contextlib.suppress(OSError), os.scandir(self.results / folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.encode(errors="ignore").decode() == entry.name:
                    yield entry
                else:
                    self.warnings.append(f"{ascii(entry.path)[1:-1]} is no UTF-8: rename it")

    def _stats(self, folder: str, named: str) -> dict[str, Stat]:
        """A link to nothing or to itself is listed, too: reading it says what it is."""
        stats: dict[str, Stat] = {}
        for entry in self._entries(folder):
            if re.fullmatch(named, entry.name):
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    about = entry.stat(follow_symlinks=not _is_broken(entry))
                    stats[f"{folder}/{entry.name}"] = about.st_size, about.st_mtime_ns
        return stats


def _is_broken(entry: os.DirEntry[str]) -> bool:
    return entry.is_symlink() and not os.path.exists(entry.path)  # noqa: PTH110 - of many files


class Update:
    """What a table lacks of a folder. `batches` reads it."""

    def __init__(self, listing: Listing, known: list[FileRow], on_file: OnFile) -> None:
        self.results, self._now, self._on_file = listing.results, listing, on_file
        self._known = {row.file: row for row in known}
        self.warnings = [*listing.warnings]
        self._figures = published.load(self.results, self.warnings.append)
        self.has_changes = False
        self._rows: list[dict[str, Any]] = []
        """FileRows of the next batch."""
        self._points: list[pa.Table] = []
        self._gone: set[str] = set()
        """Files whose rows the next batch replaces."""
        self._claims: dict[str, dict[str, set[asv_points.StartedRow]]] = {}
        """Machine -> commit -> rows of asv's files that runs hold too."""

    def batches(self) -> Iterator[tuple[pa.Table, set[str]]]:
        """(rows, files whose rows they replace), each small enough to be sorted in memory."""
        listed = {*self._now.archives, *self._now.journals}.union(*self._now.asv.values())
        self._gone = {*self._known} - listed
        yield from self._read_runs()
        described = asv_tree.described(self.results, self.warnings.append)
        for machine, stats in self._now.asv.items():
            if stats:
                suite = asv_points.suite(self.results, machine, described, self.warnings.append)
                yield from self._read_asv(suite, stats)
        yield from self._batch(at_least=0)

    def _batch(self, at_least: int = MAX_ROWS) -> Iterator[tuple[pa.Table, set[str]]]:
        if sum(map(len, self._points)) < at_least or not (self._rows or self._gone):
            return
        tables = [table.of_files(self._rows), *self._points]
        rows = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
        self.has_changes = True
        yield rows, self._gone
        self._rows, self._points, self._gone = [], [], set()

    def _add(self, file: str, stat: Stat, row: dict[str, Any], points: pa.Table | None) -> None:
        """A file as it was read now: fields of its FileRow, and its points."""
        if file in self._known:
            self._gone.add(file)
        about = {"file": file, "size": stat[0], "changed_ns": stat[1], "rows": 0, "counts": "[]"}
        texts = {name: json.dumps(row[name]) if row[name] else None for name in _JSON & row.keys()}
        self._rows.append({**about, **row, **texts})
        if points is not None and len(points):
            self._points.append(table.of_file(points, file))

    def _is_stale(self, file: str, stat: Stat, depends: str) -> bool:
        row = self._known.get(file)
        if row is None or (row.size, row.changed_ns) != stat:
            return True
        base, _, workloads = row.depends.partition(" ")
        return base != depends or (self._workloads != workloads and self._uses_own(row.counts))

    # What a rate of the user's own workloads is held against, only a process that knows them can
    # tell: one that does not leaves what the other wrote.

    @cached_property
    def _workloads(self) -> str:
        """A digest of the families that are not hostbench's own; empty where there are none."""
        sources = [path.read_text(errors="replace") for path in families.files()]
        return digest_of(sources) if sources else ""

    @cached_property
    def _own_families(self) -> set[str]:
        return {name for name in families.names() if not families.is_ours(name)}

    def _uses_own(self, counts: str) -> bool:
        return any(family in self._own_families for family, *_ in json.loads(counts))

    def _depends(self, base: str, counts: str) -> str:
        return f"{base} {self._workloads}" if self._uses_own(counts) else base

    # ---- runs -----------------------------------------------------------------------------------

    def _read_runs(self) -> Iterator[tuple[pa.Table, set[str]]]:
        for file, stat in {**self._now.archives, **self._now.journals}.items():
            row = self._known.get(file)
            if self._is_stale(file, stat, self._base_of(file, row.commit if row else None)):
                self._read_run(file, stat)
                yield from self._batch()
            elif row is not None and row.claims:
                self._claim(json.loads(row.claims))

    def _base_of(self, file: str, commit: str | None) -> str:
        """What the points of a run depend on beside its file: the published figures; of a journal
        what our environment stored of its commit, too."""
        stats: list[Any] = [self._figures_stat]
        if file in self._now.journals:
            start = f"/{str(commit)[:8]}-hostbench-"
            stored = itertools.chain.from_iterable(own.items() for own in self._now.asv.values())
            stats += [stat for name, stat in stored if start in name]
        return digest_of(stats)

    @cached_property
    def _figures_stat(self) -> Stat | None:
        with contextlib.suppress(OSError):
            about = (self.results / published.FILE).stat()
            return about.st_size, about.st_mtime_ns
        return None

    def _read_run(self, file: str, stat: Stat) -> None:
        path, digest, warnings = self.results / file, "", list[str]()
        run: Run | None = None
        try:
            if file in self._now.archives:
                self._on_file(path)
                raw = read_stored(path, self.results)
                digest = digest_of(raw)
                run = archive.parse(path, raw)
            else:
                run = adopt.from_journal(self.results, path)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and file in self._now.journals:
                return  # it has just been archived: the archive is read the next time
            warnings.append(damaged(path, error))
        except DataError as error:
            warnings.append(str(error))
        commit = run.header.commit if run else None
        base = self._base_of(file, commit)
        row: dict[str, Any] = {"depends": base, "digest": digest, "commit": commit}
        row["warnings"], points = warnings, None
        if run is not None and run.records:
            if run.damaged:
                lines = number_of(len(run.damaged), "damaged journal line")
                warnings.append(f"{path}: {lines} left out")
            shown = frame.rows_of_run(self.results, WholeRun(run), self._figures, warnings.append)
            if shown is not None:
                points = table.of_rows(shown)
                row |= _about_run(WholeRun(run), shown)
                row["depends"] = self._depends(base, row["counts"])
                self._claim(row["claims"])
        self._add(file, stat, row, points)

    def _claim(self, rows: list[list[Any]]) -> None:
        for machine, commit, *started in rows:
            self._claims.setdefault(str(machine), {}).setdefault(str(commit), set()).add(
                tuple(started)
            )

    # ---- asv's files ----------------------------------------------------------------------------

    def _read_asv(
        self, suite: asv_points.AsvSuite, stats: dict[str, Stat]
    ) -> Iterator[tuple[pa.Table, set[str]]]:
        claims = self._claims.get(suite.machine, {})
        about = digest_of(suite.depends)

        def depends(commit: str | None) -> str:
            claimed = claims.get(commit or "")
            return digest_of([about, sorted(claimed)]) if claimed else about

        for file, stat in stats.items():
            known = self._known.get(file)
            if not self._is_stale(file, stat, depends(known.commit if known else None)):
                continue
            path, warnings, raw, data = self.results / file, list[str](), b"", None
            self._on_file(path)
            try:
                raw = read_stored(path, self.results)
                data = asv_tree.load(path, warnings.append, raw)
            except OSError as error:
                warnings.append(damaged(path, error))
            points, shared = None, dict[str, Any]()
            if data is not None:
                points, shared = asv_points.points(path, data, suite, claims, warnings.append)
            base = self._depends(depends(shared.get("commit")), shared.get("counts", "[]"))
            row = {"depends": base, "digest": digest_of(raw), **shared, "warnings": warnings}
            self._add(file, stat, row, points)
            yield from self._batch()


_JSON = {"warnings", "about", "claims", "facts", "setup"}
_SHARED = "machine commit run_id hardware torch driver scratch source".split()


def _about_run(run: WholeRun, rows: list[FrameRow]) -> dict[str, Any]:
    """Fields of a FileRow."""
    header, groups = run.header, {w: runs.facts_of(own) for w, own in run.run.facts.items()}
    return {
        **{name: rows[0].get(name) for name in _SHARED},
        "first_us": int(epoch_s(header.started_at) * 1e6),
        "rows": len(rows),
        "counts": _counts(rows),
        "about": asdict(runs.about(run)),
        "claims": [[header.machine, header.commit, *row] for row in run.run.asv_rows],
        "facts": {when: to_json(own) for when, own in groups.items()},
        "setup": to_json(causes.setup(groups)) or None,
    }


def _counts(rows: list[FrameRow]) -> str:
    """FileRow.counts of a run."""
    counted: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        nums = counted.setdefault((row["family"], row.get("device"), True), [0] * 5)
        nums[STATUSES.index(row["status"])] += 1
        nums[-1] += "unexpected:" in (row.get("flags") or "")
    return json.dumps([[*group, *nums] for group, nums in counted.items()])


def digest_of(value: Any) -> str:
    """A short name for bytes, or for what JSON can hold."""
    raw = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(raw).hexdigest()[:16]
