"""Reading what the index does not hold yet: runs, peers' files, asv's files, each once."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from hostbench.limits import published
from hostbench.store import asv_rows, asv_tree, frame, peers
from hostbench.store.columns import Row
from hostbench.store.index.asv_columns import Columns, Known, OddError
from hostbench.store.index.manifest import Manifest, Unit, digest_of
from hostbench.store.index.run_units import Runs
from hostbench.store.index.scan import Scan, Stat
from hostbench.store.index.shards import MAX_ROWS
from hostbench.store.index.table import of_rows

NO_MACHINE = ""
"""Of shards: a journal whose machine nobody named yet."""


class Reader:
    """Compares a scan with a manifest, reads what differs, and notes it in the manifest."""

    def __init__(self, results: Path, manifest: Manifest, found: Scan) -> None:
        self.results, self.manifest, self.found = results, manifest, found
        self.warnings: list[str] = []
        self._shared = self.described = asv_tree.described(results, self.warnings.append)
        self._known = Known()
        self._abouts: dict[int, str] = {}
        self._rows: dict[str, list[pa.Table]] = {}

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """(machine, rows) of what is new, in parts small enough to be sorted in memory."""
        runs = Runs(self.results, self.manifest, self.found)
        for key, run in runs.changed():
            rows = None
            said: list[str] = []
            if run is not None:
                figures = published.load(self.results, lambda _: None)
                rows = frame.rows_of_run(self.results, run, figures, said.append)
            self._add(key, "run", runs.seen(key), rows or [], said, runs.about(run, rows))
            yield from self._full()
        published.load(self.results, self.warnings.append)
        yield from self._peers()
        claimed = runs.claimed()
        by_machine: dict[str, dict[str, Stat]] = {name: {} for name in self.found.machines}
        for path, stat in self.found.asv.items():
            by_machine.setdefault(path.partition("/")[0], {})[path] = stat
        for machine, files in by_machine.items():
            yield from self._asv(machine, files, claimed)
        for key in [k for k, unit in self.manifest.units.items() if self._gone(k, unit, runs)]:
            self.manifest.kill(key)
        yield from self._full(at_least=1)
        self.manifest.warnings = self.warnings

    def _gone(self, key: str, unit: Unit, runs: Runs) -> bool:
        if unit.kind == "run":
            return key not in runs.keys()
        return key not in (self.found.peers if unit.kind == "peer" else self.found.asv)

    def _add(
        self,
        key: str,
        kind: str,
        seen: Any,
        rows: list[Row],
        warnings: list[str],
        about: dict[str, Any],
    ) -> None:
        machine = str(rows[0].get("machine") or NO_MACHINE) if rows else NO_MACHINE
        number = self._replace(key, kind, seen, machine, len(rows), warnings, about)
        if rows:
            self._rows.setdefault(machine, []).append(of_rows(rows, number))

    def _replace(
        self,
        key: str,
        kind: str,
        seen: Any,
        machine: str,
        num_rows: int,
        warnings: list[str],
        about: dict[str, Any],
    ) -> int:
        self.manifest.kill(key)
        number = self.manifest.next_number
        self.manifest.next_number += 1
        self.manifest.units[key] = Unit(
            number=number,
            kind=kind,
            seen=seen,
            machine=machine,
            rows=num_rows,
            warnings=warnings,
            about=about,
        )
        return number

    def _full(self, at_least: int = MAX_ROWS) -> Iterator[tuple[str, pa.Table]]:
        for machine in list(self._rows):
            if sum(map(len, self._rows[machine])) >= at_least:
                tables = self._rows.pop(machine)
                whole = pa.concat_tables(tables, promote_options="permissive")
                yield machine, whole.unify_dictionaries()

    def _peers(self) -> Iterator[tuple[str, pa.Table]]:
        for path, stat in self.found.peers.items():
            unit = self.manifest.units.get(path)
            if unit is None or unit.seen != stat:
                said: list[str] = []
                rows = peers.rows_of(self.results / path, said.append)
                self._add(path, "peer", stat, rows, said, {})
        yield from self._full()

    def _asv(
        self, machine: str, files: dict[str, Stat], claimed: asv_rows.Claimed
    ) -> Iterator[tuple[str, pa.Table]]:
        entry = asv_tree.load(self.results / machine / "machine.json", self.warnings.append)
        entry = entry if isinstance(entry, dict) else {}
        hardware = asv_rows.hardware(entry)
        claims = _by_commit(machine, claimed)
        own = asv_tree.described(self.results, self.warnings.append, machine)
        self._abouts = {}
        self.described = {**self._shared, **own}
        known = Known() if own else self._known
        columns = Columns(self.results, machine, entry, self.described, known)
        for path, stat in files.items():
            unit = self.manifest.units.get(path)
            if unit is None or unit.seen != self._seen(unit.about, stat, hardware, claims):
                self._asv_file(path, stat, columns, claims, claimed)
                if columns.rows >= MAX_ROWS:
                    yield machine, columns.table()
        if columns.rows:
            self._rows.setdefault(machine, []).append(columns.table())
        yield from self._full()

    def _asv_file(
        self,
        path: str,
        stat: Stat,
        columns: Columns,
        claims: dict[str, list[Any]],
        claimed: asv_rows.Claimed,
    ) -> None:
        said: list[str] = []
        full = self.results / path
        data = asv_tree.load(full, said.append)
        about = self._about(data)
        hardware = asv_rows.hardware(columns.entry)
        seen = self._seen(about, stat, hardware, claims)
        number = self._replace(path, "asv", seen, columns.machine, 0, said, about)
        own = {tuple(row) for row in claims.get(about["commit"], [])}
        try:
            self.manifest.units[path].rows = columns.take(full, number, data, own)
        except OddError:
            damaged: dict[str, None] = {}
            found = asv_tree.points_of(full, columns.machine, data, self.described, said.append)
            shown = (
                asv_rows.shown(self.results, point, columns.entry, claimed, damaged)
                for point in found
            )
            rows = [row for row in shown if row is not None]
            said += damaged
            self.manifest.units[path].rows = len(rows)
            if rows:
                self._rows.setdefault(columns.machine, []).append(of_rows(rows, number))

    def _about(self, data: Any) -> dict[str, Any]:
        """Which commit and which benchmarks a file holds: what else its rows hang on."""
        is_dict = isinstance(data, dict)
        results = data.get("results") if is_dict else None
        names = list(results) if isinstance(results, dict) else []
        layouts = self.manifest.layouts
        if names not in layouts:
            layouts.append(names)
        commit = str(data.get("commit_hash")) if is_dict else ""
        return {"commit": commit, "layout": layouts.index(names)}

    def _seen(
        self,
        about: dict[str, Any],
        stat: Stat,
        hardware: str | None,
        claims: dict[str, list[Any]],
    ) -> list[Any]:
        layout = about["layout"]
        if layout not in self._abouts:
            wanted = {name: self._described(name) for name in self.manifest.layouts[layout]}
            self._abouts[layout] = digest_of(wanted)
        own = claims.get(about["commit"])
        return [stat, hardware, self._abouts[layout], digest_of(own) if own else None]

    def _described(self, name: str) -> Any:
        entry = self.described.get(name)
        return [entry.get("param_names"), entry.get("unit")] if isinstance(entry, dict) else None


def _by_commit(machine: str, claimed: asv_rows.Claimed) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for owner, commit, *row in claimed:
        if owner == machine:
            found.setdefault(str(commit), []).append(row)
    return {commit: sorted(rows, key=str) for commit, rows in found.items()}
