"""Runs as units of the index: archives and journals, the parts of a resumed run together."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import structs

from hostbench.core.errors import DataError
from hostbench.core.records import Run
from hostbench.limits import published
from hostbench.store import adopt, archive, asv_rows, runs
from hostbench.store.columns import Row
from hostbench.store.index.manifest import Manifest, Part
from hostbench.store.index.scan import Scan, stat_of
from hostbench.store.runs import WholeRun, put_together
from hostbench.store.thin import thinned


class Runs:
    """Every run there is, by key; what is new is opened, once."""

    def __init__(self, results: Path, manifest: Manifest, found: Scan) -> None:
        self.results, self.manifest = results, manifest
        self._opened: dict[str, Run] = {}
        self._paths: dict[str, list[str]] = {}
        old, manifest.parts = manifest.parts, {}
        for path, stat in found.archives.items():
            part = old.get(path)
            if part is None or part.seen != stat:
                part = self._archive(path, stat)
            manifest.parts[path] = part
        archived = {part.run_id for part in manifest.parts.values()}
        for path, stat in found.journals.items():
            journal = self._journal(path, stat, found, archived)
            if journal is not None:
                manifest.parts[path] = journal
        for path, part in manifest.parts.items():
            if part.key is not None:
                self._paths.setdefault(part.key, []).append(path)
        self._published = stat_of(results / published.FILE)

    def keys(self) -> dict[str, list[str]]:
        return self._paths

    def seen(self, key: str) -> list[Any]:
        """All that the rows of a run hang on."""
        parts = [[path, self.manifest.parts[path].seen] for path in self._paths[key]]
        return [parts, self._published]

    def changed(self) -> Iterator[tuple[str, WholeRun | None]]:
        """Runs that the manifest does not hold as they are now, whole."""
        for key in sorted(self._paths):
            unit = self.manifest.units.get(key)
            if unit is None or unit.seen != self.seen(key):
                parts = [run for path in self._paths[key] if (run := self._open(path))]
                unique = {(run.header.machine, run.header.run_id): run for run in parts}
                yield key, next(iter(put_together(unique.values())), None)

    def about(self, run: WholeRun | None, rows: list[Row] | None) -> dict[str, Any]:
        """A run's header in short, and asv's rows that it holds; empty for one not shown."""
        if run is None or rows is None:
            return {}
        claims = [
            [part.header.machine, part.header.commit, *row]
            for part in run.parts
            for row in part.asv_rows
        ]
        return {**asdict(runs.about(run)), "claims": claims}

    def claimed(self) -> asv_rows.Claimed:
        """asv's rows that some shown run holds."""
        units = [unit for key, unit in self.manifest.units.items() if key in self._paths]
        return {tuple(row) for unit in units for row in unit.about.get("claims", ())}

    def _open(self, path: str) -> Run | None:
        """The part, opened earlier or now; one that went in between is left out."""
        opened = self._opened.pop(path, None)
        if opened is not None:
            return opened
        try:
            return archive.read(self.results / path)
        except DataError:
            return None

    def _archive(self, path: str, seen: Any) -> Part:
        try:
            run = archive.read(self.results / path)
        except DataError as error:
            return Part(seen=seen, key=None, warning=str(error))
        return self._kept(path, run, seen)

    def _journal(self, path: str, stat: Any, found: Scan, archived: set[str | None]) -> Part | None:
        full = self.results / path
        try:
            run = adopt.from_journal(self.results, full)
        except DataError as error:
            return Part(seen=stat, key=None, warning=str(error))
        except FileNotFoundError:
            return None  # it has just been archived: the archive is read the next time
        part = self._kept(path, run, [stat, found.of_commit(run.header.commit)])
        if run.damaged and run.header.run_id not in archived:
            part.warning = f"{full}: {len(run.damaged)} damaged journal line(s) left out"
        return part

    def _kept(self, path: str, run: Run, seen: Any) -> Part:
        run_id = run.header.run_id
        if not run.records:
            return Part(seen=seen, key=None, run_id=run_id)
        self._opened[path] = structs.replace(run, records=tuple(map(thinned, run.records)))
        return Part(seen=seen, key=f"run {run.header.machine} {run.root_id}", run_id=run_id)
