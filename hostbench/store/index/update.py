"""Bringing the index up to date: only what is new or changed is read, what went is forgotten."""

import contextlib
import fcntl
import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

from hostbench.store.index import manifest as contents
from hostbench.store.index import series, shards
from hostbench.store.index.manifest import FOLDER, Manifest, Shard
from hostbench.store.index.reading import Reader
from hostbench.store.index.scan import Scan, scan

_READERS_NEED_S = 3600.0
"""How long a reader may go on with the files of an older table of contents."""
_DEAD_SHARE = 0.25
_FOLDED_AT_ONCE = 4


def refresh(results: Path, rebuild: bool = False) -> tuple[Manifest, str | None]:
    """The index of a results folder as it is now, and why it was built anew, if it was.

    Raises UsageError or OSError where it cannot be written.
    """
    folder = results / FOLDER
    with _lock(folder), _without_collection():
        known = "it was asked for" if rebuild else contents.load(folder)
        note = known if isinstance(known, str) else None
        old = Manifest(fingerprint=contents.fingerprint()) if isinstance(known, str) else known
        found = scan(results)
        if _update(results, folder, old, found) or note:
            contents.save(folder, old)
            shards.remove(folder, old.files(), _READERS_NEED_S, time.time())
    return old, note


def _update(results: Path, folder: Path, manifest: Manifest, found: Scan) -> bool:
    """Whether anything changed."""
    before = {key: (unit.number, unit.machine) for key, unit in manifest.units.items()}
    about = (dict(manifest.parts), list(manifest.warnings))
    reader = Reader(results, manifest, found)
    fresh: dict[series.Key, series.Row] = {}
    for machine, table in reader.tables():
        ordered = shards.sort(table)
        for key, row in series.of_table(ordered).items():
            fresh[key] = series.merged(fresh[key], row) if key in fresh else row
        manifest.shards.append(shards.write(folder, machine, ordered))
    after = {key: (unit.number, unit.machine) for key, unit in manifest.units.items()}
    if before == after and about == (manifest.parts, manifest.warnings):
        return False
    gone = {unit[1] for key, unit in before.items() if after.get(key) != unit}
    for machine in gone | {key[0] or "" for key in fresh}:
        _fold(folder, manifest, machine)
    for machine in gone | {key[0] or "" for key in fresh}:
        own = {key: row for key, row in fresh.items() if (key[0] or "") == machine}
        _summarise(folder, manifest, machine, own, anew=machine in gone)
    return True


def _summarise(
    folder: Path,
    manifest: Manifest,
    machine: str,
    fresh: dict[series.Key, series.Row],
    anew: bool,
) -> None:
    """One machine's summary with what is fresh; made anew where it lost rows."""
    old = manifest.summaries.pop(machine, None)
    rows: dict[series.Key, series.Row] = {}
    if anew:
        fresh = _of_machine(folder, manifest, machine)
    elif old:
        rows = series.from_table(shards.read_as_is(folder, [old]))
    for key, row in fresh.items():
        rows[key] = series.merged(rows[key], row) if key in rows else row
    if rows:
        table = series.to_table(rows)
        manifest.summaries[machine] = shards.write(folder, machine, table, series.SCHEMA)


def _of_machine(folder: Path, manifest: Manifest, machine: str) -> dict[series.Key, series.Row]:
    found: dict[series.Key, series.Row] = {}
    dead = [number for number, _ in manifest.dead.get(machine, [])]
    for shard in manifest.shards:
        if shard.machine == machine:
            table = shards.read(folder, [shard], dead, series.NEEDED)
            for key, row in series.of_table(table).items():
                found[key] = series.merged(found[key], row) if key in found else row
    return found


def _fold(folder: Path, manifest: Manifest, machine: str) -> None:
    """Few shards a machine: small ones become one, so that there are about log(rows) of them."""
    own = sorted(
        (shard for shard in manifest.shards if shard.machine == machine), key=lambda one: one.rows
    )
    if not own:
        return
    dead = manifest.dead.get(machine, [])
    num_dead, num_rows = sum(rows for _, rows in dead), sum(shard.rows for shard in own)
    if num_dead > _DEAD_SHARE * num_rows:
        chosen = own
        manifest.dead.pop(machine, None)
    else:
        chosen = _small(own)
        if len(chosen) < _FOLDED_AT_ONCE:
            return
    manifest.shards = [shard for shard in manifest.shards if shard not in chosen]
    manifest.shards += _rewritten(folder, machine, chosen, [number for number, _ in dead])


def _rewritten(folder: Path, machine: str, old: list[Shard], dead: list[int]) -> Iterator[Shard]:
    waiting: list[Shard] = []
    for place, shard in enumerate(old):
        waiting.append(shard)
        following = old[place + 1].rows if place + 1 < len(old) else shards.MAX_ROWS
        if sum(one.rows for one in waiting) + following > shards.MAX_ROWS:
            table = shards.read(folder, waiting, dead)
            if len(table):
                yield shards.write(folder, machine, shards.sort(table))
            waiting = []


def _small(own: list[Shard]) -> list[Shard]:
    """The smallest shards, as long as the next is at most as large as all before it together."""
    chosen, total = own[:1], own[0].rows
    for shard in own[1:]:
        if shard.rows > total or total + shard.rows > shards.MAX_ROWS:
            break
        chosen.append(shard)
        total += shard.rows
    return chosen


@contextlib.contextmanager
def _without_collection() -> Iterator[None]:
    """Parsed files are trees without cycles: looking for any takes as long as the parsing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One writer at a time where the file system can lock; else the last one wins, whole."""
    folder.mkdir(parents=True, exist_ok=True)
    ignore = folder / ".gitignore"
    if not ignore.exists():
        ignore.write_text("# made by hostbench from the results; delete it at will\n*\n")
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
