"""The table of a results folder, brought up to date: what is new, changed or gone since.

`.<results>.table/` lies beside the folder, because asv takes every `.json` below that for a result.
It can be deleted at will. Where it cannot be written, a temporary one serves this process.
"""

import atexit
import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache, cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
from msgspec import DecodeError, to_builtins

from hostbench.core.clock import epoch_s
from hostbench.core.errors import DataError, UsageError, Warn
from hostbench.core.files import damaged, locked, read_stored
from hostbench.core.records import Run
from hostbench.core.units import number_of
from hostbench.facts.differences import identity
from hostbench.store import archive, asv_tree, points, runs, table
from hostbench.store.asv_tree import AsvMachine
from hostbench.store.runs import StoredFile
from hostbench.store.table import DAMAGE, DESCRIPTION, MAX_ROWS, ReadFile, ResultTable

Stat = tuple[int, int]
"""(size in bytes, time of the last change in ns)."""
_OF_ASV = r"[0-9a-f]{8}-.*\.json"
"""How asv's files of a commit are named."""
_REFUSED = re.compile(r"[\[\]^|\\]")
"""Characters of a path that the library takes for none of a URL: it panics."""
_SHARED = "machine commit run_id hardware torch driver scratch source".split()
"""Fields of a StoredFile that are those of its points."""


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


def open_table(results: Path) -> tuple[ResultTable, list[str]]:
    """The table of a results folder as it is now, and warnings of what belongs to no file in it; a
    damaged table is made anew, and a folder without results gets none beside it.

    Raises UsageError where there is no such folder, or no room for a table.
    """
    if not results.is_dir():
        raise UsageError(f"there is no results folder {results}; name one with --results")
    warnings = list[str]()
    files, folder = list_files(results, warnings.append), folder_of(results)
    update = _Update(results, files, warnings.append)
    if files and not _REFUSED.search(str(folder)):
        with contextlib.suppress(*DAMAGE, UnicodeEncodeError):  # a table's path is a URL
            return _opened(update, folder), warnings
    try:
        return _opened(update, elsewhere(str(results.resolve()))), warnings
    except DAMAGE as error:
        raise UsageError(
            f"cannot keep the table of {results}, neither beside it nor in "
            f"{tempfile.gettempdir()}: {error}; make room there, or make one of the two writable"
        ) from error


def _opened(update: "_Update", folder: Path) -> ResultTable:
    """One process at a time, where the file system can lock: others need not read the same."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (ignore := folder / ".gitignore").exists():
        ignore.write_text("# made by hostbench from the results; delete it at will\n*\n")
    url = str(folder / "points")
    with locked(folder / "lock"):
        with contextlib.suppress(*DAMAGE, DecodeError):
            stored = ResultTable(url)
            if stored.description == DESCRIPTION:
                return update.into(stored)
        shutil.rmtree(folder / "points", ignore_errors=True)
        return update.into(ResultTable.create(url))


def list_files(results: Path, warn: Warn) -> dict[str, Stat]:
    """Path in the folder -> Stat of each file that points come from. A name that is no UTF-8 is a
    warning."""
    machines = [name for name, _ in _entries(results, "", ".*", warn) if (results / name).is_dir()]
    archives = [f"{machine}/runs" for machine in machines]
    pattern = rf".*{re.escape(archive.SUFFIX)}"
    listed = [_entries(results, folder, pattern, warn) for folder in archives]
    listed += [_entries(results, machine, _OF_ASV, warn) for machine in machines]
    return dict(chain(*listed))


def _entries(results: Path, folder: str, pattern: str, warn: Warn) -> Iterator[tuple[str, Stat]]:
    """Of a folder, by name. A link to nothing or to itself is one, too: reading it says what it
    is."""
    with contextlib.suppress(OSError), os.scandir(results / folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.encode(errors="ignore").decode() != entry.name:
                warn(f"{ascii(entry.path)[1:-1]} is not UTF-8: rename it")
            elif re.fullmatch(pattern, entry.name):
                with contextlib.suppress(FileNotFoundError):  # gone meanwhile
                    about = entry.stat(follow_symlinks=False)
                    yield f"{folder}/{entry.name}".strip("/"), (about.st_size, about.st_mtime_ns)


class _Update:
    """What a table lacks of a folder."""

    def __init__(self, results: Path, files: dict[str, Stat], warn: Warn) -> None:
        self._results, self._files, self._warn = results, files, warn

    def into(self, stored: ResultTable) -> ResultTable:
        """Bring a table up to date, a transaction for what is small enough to sort in memory."""
        version, known = stored.version, {row.file: row for row in stored.files}
        replaced, read, num = known.keys() - self._files.keys(), list[ReadFile](), 0
        for file, (size, changed_ns) in self._files.items():
            depends = self._machines[file.partition("/")[0]][1] if _is_of_asv(file) else ""
            row = known.get(file)
            if row and (row.size, row.changed_ns, row.depends) == (size, changed_ns, depends):
                continue
            if row:
                replaced.add(file)
            about = {"size": size, "changed_ns": changed_ns, "depends": depends}
            read.append(self._read(file, about))
            known[file] = read[-1][0]
            num += known[file].rows
            if num >= MAX_ROWS:
                stored.write(table.with_files(read), replaced)
                replaced, read, num = set(), [], 0
        if read or replaced:
            stored.write(table.with_files(read), replaced)
        if stored.version != version:
            stored.tidy()
            stored.refresh()
            stored.files = [known[file] for file in self._files]
        return stored

    @cached_property
    def _machines(self) -> dict[str, tuple[AsvMachine, str]]:
        """Of each machine what reads its files of asv's, and a digest of what describes them."""
        names = dict.fromkeys(f.partition("/")[0] for f in self._files if _is_of_asv(f))
        path = self._results / "benchmarks.json"
        about = asv_tree.load_object(path, self._warn) if path.exists() else {}
        readers = {name: AsvMachine(self._results, name, about, self._warn) for name in names}
        return {name: (reader, digest_of(reader.depends)) for name, reader in readers.items()}

    def _read(self, file: str, about: dict[str, Any]) -> ReadFile:
        """Of a file, of whose row some is known."""
        path, warnings = self._results / file, list[str]()
        points, facts = None, None
        try:
            raw = read_stored(path, self._results)
            about |= {"digest": digest_of(raw)}
            if _is_of_asv(file):
                points, more = self._machines[path.parent.name][0].read(path, raw, warnings.append)
            else:
                points, more, facts = self._of_run(file, archive.read(path, raw), warnings.append)
            about |= more
        except OSError as error:
            warnings.append(damaged(path, error))
        except DataError as error:
            warnings.append(str(error))
        # the folder's own name may be no text
        lines = [line.encode(errors="backslashreplace").decode() for line in warnings]
        return StoredFile(file=file, warnings=lines, **about), facts, points

    def _of_run(
        self, file: str, run: Run, warn: Warn
    ) -> tuple[pa.Table | None, dict[str, Any], str | None]:
        """Points, fields of a StoredFile, facts as JSON."""
        if run.records and run.damaged:
            lines = number_of(len(run.damaged), "damaged journal line")
            warn(f"{self._results / file}: {lines} left out")
        rows = run.records and points.rows_of_run(self._results, run, warn)
        if not rows:
            return None, {"commit": run.header.commit}, None
        facts = runs.facts_by_when(run.facts)
        about = {
            **{name: rows[0].get(name) for name in _SHARED},
            "started_at": run.header.started_at,
            "first_us": int(epoch_s(run.header.started_at) * 1e6),
            "rows": len(rows),
            "identity": identity(facts.get("before", {})),
        }
        as_json = json.dumps(to_builtins(facts))
        return table.of_run(rows, file), about, as_json


def _is_of_asv(file: str) -> bool:
    return not file.endswith(archive.SUFFIX)


def digest_of(value: Any) -> str:
    """A short name for bytes, or for what JSON can hold."""
    raw = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(raw).hexdigest()[:16]
