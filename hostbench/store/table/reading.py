"""Reading what the table does not hold yet: runs and asv's files, each once."""

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hostbench.core.errors import DataError
from hostbench.core.records import Run
from hostbench.core.units import number_of
from hostbench.facts import causes
from hostbench.facts.record import to_json
from hostbench.limits import published
from hostbench.runner import journal
from hostbench.store import adopt, archive, asv_tree, frame, runs
from hostbench.store.runs import put_together
from hostbench.store.table import asv_points
from hostbench.store.table.delta import MAX_ROWS
from hostbench.store.table.files import Source, describe, digest_of
from hostbench.store.table.rows import FILE, READING, numbered, of_rows, texts

Stat = list[int]
"""[size in bytes, time of the last change in ns]: a list, as JSON gives it back."""
Claims = dict[str, list[list[Any]]]
"""Commit -> [benchmark, started_at in ms] of the rows of asv's files that runs hold too."""
_NO_STAT = [0, 0]
"""Of a run, which is no file."""


class Reader:
    """Compares a results folder with the known sources, reads what differs, and notes it in
    `sources`."""

    def __init__(self, results: Path, sources: dict[str, Source], on_file: asv_tree.OnFile) -> None:
        self.results, self.sources, self._on_file = results, sources, on_file
        self.fresh: dict[int, Source] = {}
        """What was read, by reading."""
        self.gone: list[Source] = []
        """What counts no more."""
        self.warnings: list[str] = []
        """Of files that are no source: benchmarks.json, published.toml, machine.json."""
        self._machines = sorted(self._names(results))
        self._archives: dict[str, Stat] = {}
        for machine in self._machines:
            self._archives |= self._stats(f"{machine}/runs", archive.SUFFIX)
        self._asv = {machine: self._stats(machine, ".json") for machine in self._machines}
        found = ((path, stat_of(path)) for path in journal.find(results))
        self._journals = {p.relative_to(results).as_posix(): stat for p, stat in found if stat}
        self._next = max([time.time_ns(), *(source.reading + 1 for source in sources.values())])
        self._waiting: dict[str | None, list[pa.Table]] = {}
        self._num_waiting: Counter[str | None] = Counter()
        """Rows."""
        self._opened: dict[str, Run] = {}

    def tables(self) -> Iterator[pa.Table]:
        """Rows of what is new, each of one machine, small enough to be sorted in memory."""
        there = {*self._parts()}.union(*self._asv.values())
        for key, parts in self._runs().items():
            there.add(key)
            self._run(key, parts)
            yield from self._full()
        published.load(self.results, self.warnings.append)
        for key in [key for key in self.sources if key not in there]:
            self._forget(key)
        shared = asv_tree.described(self.results, self.warnings.append)
        claims = self._claims()
        for machine in self._machines:
            if self._asv[machine]:
                yield from self._files_of_asv(machine, shared, claims.get(machine, {}))
        yield from self._full(at_least=1)

    def _names(self, folder: Path, suffix: str = "") -> Iterator[str]:
        """Of the folders in there, or with `suffix` of files; one that cannot be named is a
        warning."""
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if not (entry.name.endswith(suffix) if suffix else entry.is_dir()):
                    continue
                if entry.name.encode(errors="ignore").decode() == entry.name:
                    yield entry.name
                else:
                    name = ascii(f"{folder}/{entry.name}")[1:-1]
                    self.warnings.append(f"{name} has a name that is no UTF-8: rename it")

    def _stats(self, folder: str, suffix: str) -> dict[str, Stat]:
        """Path in the results folder -> what stands for its content, in the order of the names."""
        names = sorted(self._names(self.results / folder, suffix))
        found = ((f"{folder}/{name}", stat_of(self.results / folder / name)) for name in names)
        return {path: stat for path, stat in found if stat}

    def _parts(self) -> Iterator[str]:
        """The paths of all archives and journals, each read where it is new."""
        for path, stat in self._archives.items():
            if self._differs(path, stat):
                self._part(path, stat, "", self._read(path))
            yield path
        archived = {(self.sources[path].about or {}).get("run_id") for path in self._archives}
        for path, stat in self._journals.items():
            known = self.sources.get(path)
            if not self._differs(path, stat, self._of_commit(known.commit if known else None)):
                yield path
                continue
            try:
                run: Run | DataError = adopt.from_journal(self.results, self.results / path)
            except DataError as error:
                run = error
            except FileNotFoundError:
                continue  # it has just been archived: the archive is read the next time
            commit = run.header.commit if isinstance(run, Run) else None
            source = self._part(path, stat, self._of_commit(commit), run)
            source.commit = commit
            if isinstance(run, Run) and run.damaged and run.header.run_id not in archived:
                text = f"{number_of(len(run.damaged), 'damaged journal line')} left out"
                source.warnings = [f"{self.results / path}: {text}"]
            yield path

    def _of_commit(self, commit: str | None) -> str:
        """What our environment stored of a commit, on any machine: a journal's rows hang on it."""
        start = f"{str(commit)[:8]}-hostbench-"
        return digest_of(
            [
                [path, stat]
                for stored in self._asv.values()
                for path, stat in stored.items()
                if path.partition("/")[2].startswith(start)
            ]
        )

    def _read(self, path: str) -> Run | DataError:
        self._on_file(self.results / path)
        try:
            return archive.read(self.results / path)
        except DataError as error:
            return error

    def _part(self, path: str, stat: Stat, depends: str, run: Run | DataError) -> Source:
        if isinstance(run, DataError):
            return self._read_anew(path, "part", stat, depends, warnings=[str(run)])
        key = f"run {run.header.machine} {run.root_id}" if run.records else None
        if key:
            self._opened[path] = run
        about = {"run": key, "run_id": run.header.run_id}
        return self._read_anew(path, "part", stat, depends, about=about)

    def _runs(self) -> dict[str, list[str]]:
        """Key of each run -> the paths of its parts."""
        found: dict[str, list[str]] = {}
        for path in (*self._archives, *self._journals):
            source = self.sources.get(path)
            key = source and source.about and source.about["run"]
            if key:
                found.setdefault(key, []).append(path)
        return dict(sorted(found.items()))

    def _run(self, key: str, paths: list[str]) -> None:
        """Read a run of these parts, if it is not known as it is now."""
        own = [self.sources[path] for path in paths]
        seen = [[source.key, source.size, source.changed_ns, source.depends] for source in own]
        depends = digest_of([seen, stat_of(self.results / published.FILE)])
        if not self._differs(key, _NO_STAT, depends):
            return
        opened = [
            self._opened.pop(path) if path in self._opened else self._read(path) for path in paths
        ]
        run = next(iter(put_together(p for p in opened if isinstance(p, Run))), None)
        warnings: list[str] = []
        rows = None
        if run is not None:
            figures = published.load(self.results, lambda _: None)
            rows = frame.rows_of_run(self.results, run, figures, warnings.append)
        source = self._read_anew(key, "run", _NO_STAT, depends, file=paths[0], warnings=warnings)
        if run is None or rows is None:
            return
        claims = [
            [part.header.machine, part.header.commit, *row]
            for part in run.parts
            for row in part.asv_rows
        ]
        source.about = {"parts": paths, "header": asdict(runs.about(run)), "claims": claims}
        groups = {when: runs.facts_of(facts) for when, facts in run.parts[0].facts.items()}
        setup = to_json(causes.setup(groups))
        source.setup = json.dumps(setup) if setup else None
        source.facts = json.dumps({when: to_json(facts) for when, facts in groups.items()})
        if rows:
            self._add(numbered(of_rows(rows), source.reading))

    def _claims(self) -> dict[str, Claims]:
        """By machine."""
        found: dict[str, Claims] = {}
        for source in self.sources.values():
            for machine, commit, *row in (source.about or {}).get("claims", ()):
                found.setdefault(str(machine), {}).setdefault(str(commit), []).append(row)
        return found

    def _files_of_asv(
        self, machine: str, shared: Mapping[str, Any], claims: Claims
    ) -> Iterator[pa.Table]:
        """Rows of what is new; those that a run holds too are left out."""
        for name in asv_tree.NO_RESULTS:
            self._asv[machine].pop(f"{machine}/{name}", None)
        entry = asv_tree.load(self.results / machine / "machine.json", self.warnings.append)
        hardware = asv_tree.hardware(entry) if isinstance(entry, dict) else None
        own = asv_tree.described(self.results, self.warnings.append, machine)
        described = {**shared, **own}
        about = digest_of([hardware, _names_in(described)])
        layouts: list[asv_points.Layout] = []
        for path, stat in self._asv[machine].items():
            source = self.sources.get(path)
            depends = _with_claims(about, claims, source.commit if source else None)
            if not self._differs(path, stat, depends):
                continue
            warnings: list[str] = []
            self._on_file(self.results / path)
            data = asv_tree.load(self.results / path, warnings.append)
            commit = str(data.get("commit_hash")) if isinstance(data, dict) else ""
            depends = _with_claims(about, claims, commit)
            source = self._read_anew(path, "asv", stat, depends, commit=commit, warnings=warnings)
            if data is None:
                continue
            points = asv_points.read(self.results / path, data, described, layouts, warnings.append)
            if points is not None:
                wanted = points.is_wanted({tuple(row) for row in claims.get(commit, ())})
                rows = numbered(asv_points.table(points, machine, hardware), source.reading)
                self._add(rows if wanted.all() else rows.filter(pa.array(wanted)))
                yield from self._full()

    def _differs(self, key: str, stat: Stat, depends: str = "") -> bool:
        source = self.sources.get(key)
        return (
            source is None or source.depends != depends or [source.size, source.changed_ns] != stat
        )

    def _read_anew(self, key: str, kind: str, stat: Stat, depends: str = "", **more: Any) -> Source:
        """A new reading; the one before counts no more."""
        self._forget(key)
        size, changed_ns = stat
        known = {"file": key, "reading": self._next, "size": size, "changed_ns": changed_ns}
        source = Source(key=key, kind=kind, depends=depends, **{**known, **more})
        self._next += 1
        self.sources[key] = self.fresh[source.reading] = source
        return source

    def _forget(self, key: str) -> None:
        source = self.sources.pop(key, None)
        if source is not None and self.fresh.pop(source.reading, None) is None:
            self.gone.append(source)

    def _add(self, table: pa.Table) -> None:
        """Rows of one machine."""
        if len(table):
            is_named = "machine" in table.column_names
            machine = table.column("machine")[0].as_py() if is_named else None
            self._waiting.setdefault(machine, []).append(table)
            self._num_waiting[machine] += len(table)

    def _full(self, at_least: int = MAX_ROWS) -> Iterator[pa.Table]:
        """With the file of each row; what the rows of a reading have in common is noted."""
        for machine, num_rows in list(self._num_waiting.items()):
            if num_rows >= at_least:
                del self._num_waiting[machine]
                tables = self._waiting.pop(machine)
                table = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
                describe(table, self.fresh)
                numbers, codes = np.unique(table.column(READING).to_numpy(), return_inverse=True)
                files = texts([self.fresh[number].file for number in numbers.tolist()])
                column = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), files)
                yield table.append_column(FILE, column)


def stat_of(path: Path) -> Stat | None:
    """None for what is not there (any more)."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return [stat.st_size, stat.st_mtime_ns]


def _names_in(described: Mapping[str, Any]) -> dict[str, Any]:
    """What the points of asv's files take from benchmarks.json."""
    return {
        name: [about.get("param_names"), about.get("unit")]
        for name, about in described.items()
        if isinstance(about, dict)
    }


def _with_claims(about: str, claims: Claims, commit: str | None) -> str:
    """What the rows of a file of asv's depend on besides its content."""
    held = claims.get(commit or "")
    return digest_of([about, sorted(held, key=str)]) if held else about
