"""Reading what the table does not hold yet: runs and asv's files, each once."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import lru_cache
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
from hostbench.store import adopt, archive, asv_tree, frame, runs
from hostbench.store.columns import FrameRow
from hostbench.store.runs import put_together
from hostbench.store.table import asv_points
from hostbench.store.table.files import Unit, describe, digest_of
from hostbench.store.table.lake import MAX_ROWS
from hostbench.store.table.rows import FILE, READING, numbered, of_rows, texts
from hostbench.store.table.scan import Scan, Stat, stat_of

Claims = dict[str, list[list[Any]]]
"""Commit -> [benchmark, started_at in ms] of the rows of asv's files that runs hold too."""


_Read = tuple[int, asv_points.Points, Any]
"""The reading of a file of asv's, its points, and which of them count."""
_TOGETHER = 8_192
"""Points of files that are turned into rows at once: each file's alone takes a fifth longer."""
_NO_STAT = [0, 0]
"""Of a run, which is no file."""


class Reader:
    """Compares a scan with the known units, reads what differs, and notes it in `units`."""

    def __init__(
        self, results: Path, units: dict[str, Unit], found: Scan, tell: asv_tree.Tell
    ) -> None:
        self.results, self.units, self.found, self._tell = results, units, found, tell
        self.fresh: dict[int, Unit] = {}
        """What was read, by reading."""
        self.gone: list[Unit] = []
        """What counts no more."""
        self.warnings = [
            f"{results}/{ascii(name)[1:-1]} has a name that is no UTF-8; left out: rename it"
            for name in found.odd
        ]
        """Of files that are no unit: benchmarks.json, published.toml, machine.json."""
        self._next = max([time.time_ns(), *(unit.reading + 1 for unit in units.values())])
        self._waiting: dict[str | None, list[pa.Table]] = {}
        self._num_waiting: Counter[str | None] = Counter()
        """Rows."""
        self._opened: dict[str, Run] = {}

    def tables(self) -> Iterator[pa.Table]:
        """Rows of what is new, each of one machine, small enough to be sorted in memory."""
        there = {*self._parts()}.union(*self.found.asv.values())
        for key, parts in self._runs().items():
            there.add(key)
            self._run(key, parts)
            yield from self._full()
        published.load(self.results, self.warnings.append)
        for key in [key for key in self.units if key not in there]:
            self._forget(key)
        shared = asv_tree.described(self.results, self.warnings.append)
        named = _digest_of_names(shared)
        claims = self._claims()
        for machine in self.found.machines:
            yield from self._asv(machine, shared, named, claims.get(machine, {}))
        yield from self._full(at_least=1)

    def _parts(self) -> Iterator[str]:
        """The paths of all archives and journals, each read where it is new."""
        for path, stat in self.found.archives.items():
            if self._differs(path, stat):
                self._part(path, stat, "", self._read(path))
            yield path
        archived = {(self.units[path].about or {}).get("run_id") for path in self.found.archives}
        for path, stat in self.found.journals.items():
            known = self.units.get(path)
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
            unit = self._part(path, stat, self._of_commit(commit), run)
            unit.commit = commit
            if isinstance(run, Run) and run.damaged and run.header.run_id not in archived:
                text = f"{number_of(len(run.damaged), 'damaged journal line')} left out"
                unit.warnings = [f"{self.results / path}: {text}"]
            yield path

    def _of_commit(self, commit: str | None) -> str:
        return digest_of(self.found.of_commit(commit))

    def _read(self, path: str) -> Run | DataError:
        self._tell(self.results / path)
        try:
            return archive.read(self.results / path)
        except DataError as error:
            return error

    def _part(self, path: str, stat: Stat, depends: str, run: Run | DataError) -> Unit:
        if isinstance(run, DataError):
            return self._unit(path, "part", stat, depends, warnings=[str(run)])
        key = f"run {run.header.machine} {run.root_id}" if run.records else None
        if key:
            self._opened[path] = run
        about = {"run": key, "run_id": run.header.run_id}
        return self._unit(path, "part", stat, depends, about=about)

    def _runs(self) -> dict[str, list[str]]:
        """Key of each run -> the paths of its parts."""
        found: dict[str, list[str]] = {}
        for path in (*self.found.archives, *self.found.journals):
            unit = self.units.get(path)
            key = unit and unit.about and unit.about["run"]
            if key:
                found.setdefault(key, []).append(path)
        return dict(sorted(found.items()))

    def _run(self, key: str, paths: list[str]) -> None:
        """Read a run of these parts, if it is not known as it is now."""
        own = [self.units[path] for path in paths]
        seen = [[unit.key, unit.size, unit.changed_ns, unit.depends] for unit in own]
        depends = digest_of([seen, stat_of(self.results / published.FILE)])
        if not self._differs(key, _NO_STAT, depends):
            return
        opened = [
            self._opened.pop(path) if path in self._opened else self._read(path) for path in paths
        ]
        run = next(iter(put_together(p for p in opened if isinstance(p, Run))), None)
        said: list[str] = []
        rows = None
        if run is not None:
            figures = published.load(self.results, lambda _: None)
            rows = frame.rows_of_run(self.results, run, figures, said.append)
        unit = self._unit(key, "run", _NO_STAT, depends, file=paths[0], warnings=said)
        if run is None or rows is None:
            return
        claims = [
            [part.header.machine, part.header.commit, *row]
            for part in run.parts
            for row in part.asv_rows
        ]
        unit.about = {"parts": paths, "header": asdict(runs.about(run)), "claims": claims}
        groups = {when: runs.facts_of(facts) for when, facts in run.parts[0].facts.items()}
        setup = to_json(causes.setup(groups))
        unit.setup = json.dumps(setup) if setup else None
        self._add_rows(unit, rows)

    def _claims(self) -> dict[str, Claims]:
        """By machine."""
        found: dict[str, Claims] = {}
        for unit in self.units.values():
            for machine, commit, *row in (unit.about or {}).get("claims", ()):
                found.setdefault(str(machine), {}).setdefault(str(commit), []).append(row)
        return found

    def _asv(
        self, machine: str, shared: Mapping[str, Any], named: str, claims: Claims
    ) -> Iterator[pa.Table]:
        entry = asv_tree.load(self.results / machine / "machine.json", self.warnings.append)
        hardware = asv_tree.hardware(entry) if isinstance(entry, dict) else None
        own = asv_tree.described(self.results, self.warnings.append, machine)
        described = {**shared, **own}
        named = _digest_of_names(described) if own else named
        about = digest_of([hardware, named])
        for group in _of_one_layout(self._points(machine, described, named, about, claims)):
            table = asv_points.table([points for _, points, _ in group], machine, hardware)
            table = numbered(table, [reading for reading, _, _ in group])
            wanted = np.concatenate([wanted for _, _, wanted in group])
            self._add(table if wanted.all() else table.filter(pa.array(wanted)))
            yield from self._full()

    def _points(
        self, machine: str, described: Mapping[str, Any], named: str, about: str, claims: Claims
    ) -> Iterator[_Read]:
        """Of the files of asv's that are new."""
        layouts = _layouts(named)
        for path, stat in self.found.asv[machine].items():
            unit = self.units.get(path)
            depends = _with_claims(about, claims, unit.commit if unit else None)
            if not self._differs(path, stat, depends):
                continue
            said: list[str] = []
            self._tell(self.results / path)
            data = asv_tree.load(self.results / path, said.append)
            commit = str(data.get("commit_hash")) if isinstance(data, dict) else ""
            depends = _with_claims(about, claims, commit)
            unit = self._unit(path, "asv", stat, depends, warnings=said)
            unit.commit = commit
            if data is None:
                continue
            points = asv_points.read(self.results / path, data, described, layouts, said.append)
            if points is not None:
                held = {tuple(row) for row in claims.get(commit, ())}
                yield unit.reading, points, points.is_wanted(held)

    def _differs(self, key: str, stat: Stat, depends: str = "") -> bool:
        unit = self.units.get(key)
        return unit is None or unit.depends != depends or [unit.size, unit.changed_ns] != stat

    def _unit(self, key: str, kind: str, stat: Stat, depends: str = "", **more: Any) -> Unit:
        """A new reading; the one before counts no more."""
        self._forget(key)
        unit = Unit(
            key=key,
            kind=kind,
            reading=self._next,
            size=stat[0],
            changed_ns=stat[1],
            depends=depends,
            **{"file": key, **more},
        )
        self._next += 1
        self.units[key] = self.fresh[unit.reading] = unit
        return unit

    def _forget(self, key: str) -> None:
        unit = self.units.pop(key, None)
        if unit is not None and self.fresh.pop(unit.reading, None) is None:
            self.gone.append(unit)

    def _add_rows(self, unit: Unit, rows: list[FrameRow]) -> None:
        if rows:
            self._add(numbered(of_rows(rows), [unit.reading]))

    def _add(self, table: pa.Table) -> None:
        """Rows of one machine."""
        if len(table):
            machine = (
                table.column("machine")[0].as_py() if "machine" in table.column_names else None
            )
            self._waiting.setdefault(machine, []).append(table)
            self._num_waiting[machine] += len(table)

    def _full(self, at_least: int = MAX_ROWS) -> Iterator[pa.Table]:
        for machine, num_rows in list(self._num_waiting.items()):
            if num_rows >= at_least:
                del self._num_waiting[machine]
                yield self._finished(_joined(self._waiting.pop(machine)))

    def _finished(self, table: pa.Table) -> pa.Table:
        """With the file of each row; what the rows of a reading have in common is noted."""
        describe(table, self.fresh)
        numbers, codes = np.unique(table.column(READING).to_numpy(), return_inverse=True)
        files = texts([self.fresh[number].file for number in numbers.tolist()])
        column = pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), files)
        return table.append_column(FILE, column)


def _of_one_layout(found: Iterable[_Read]) -> Iterator[list[_Read]]:
    """As they come, some together."""
    group: list[_Read] = []
    num = 0
    for one in found:
        layout = one[1].layout
        num += len(layout.is_shown)
        if group and (layout is not group[0][1].layout or num > _TOGETHER):
            yield group
            group, num = [], len(layout.is_shown)
        group.append(one)
    if group:
        yield group


def _digest_of_names(described: Mapping[str, Any]) -> str:
    """Of what the points of asv's files take from benchmarks.json."""
    names = {
        name: [about.get("param_names"), about.get("unit")]
        for name, about in described.items()
        if isinstance(about, dict)
    }
    return digest_of(names)


@lru_cache(maxsize=2)
def _layouts(named: str) -> list[asv_points.Layout]:
    """Those met in this process with this digest: a page reads a new file now and then."""
    return []


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


def _with_claims(about: str, claims: Claims, commit: str | None) -> str:
    """What the rows of a file of asv's depend on besides its content."""
    held = claims.get(commit or "")
    return digest_of([about, sorted(held, key=str)]) if held else about
