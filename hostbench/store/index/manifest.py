"""The index's table of contents: which files were read, into which units and shards.

A unit is what is read and thrown away together: an asv file, a run with all its parts, a peer's
file. Its rows lie in shards under its number. A number is never given twice, so rows of a unit that
is dead are left out until their shard is written again.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import hostbench
from hostbench.core.records import DAMAGE

FORMAT = 1
FOLDER = ".index"
FILE = "contents"
"""Without `.json`: asv takes every `.json` below the results folder for a result."""


@dataclass(slots=True)
class Unit:
    """One unit as it was read."""

    number: int
    kind: str
    """`run`, `peer` or `asv`: the order in which the frame holds rows of the same moment."""
    seen: Any
    """All that its rows depend on; another value means: read it again."""
    machine: str
    rows: int
    warnings: list[str] = field(default_factory=list)
    about: dict[str, Any] = field(default_factory=dict)
    """A run: its header in short. An asv file: its commit and the place of its layout."""


@dataclass(slots=True, kw_only=True)
class Shard:
    """A Parquet file of rows of one machine, sorted by case and time."""

    name: str
    machine: str
    rows: int
    size: int


@dataclass(slots=True, kw_only=True)
class Part:
    """What an archive or a journal says of itself, so that it is not opened again."""

    seen: Any
    key: str | None
    """The run that it is a part of; None for one that is damaged or holds nothing."""
    run_id: str | None = None
    warning: str | None = None


@dataclass(slots=True, kw_only=True)
class Manifest:
    """The whole table of contents."""

    fingerprint: str
    next_number: int = 0
    units: dict[str, Unit] = field(default_factory=dict)
    """By path, or by run."""
    parts: dict[str, Part] = field(default_factory=dict)
    shards: list[Shard] = field(default_factory=list)
    dead: dict[str, list[list[int]]] = field(default_factory=dict)
    """Machine -> [number of the unit, its rows] of rows that a shard holds and nobody shows."""
    layouts: list[list[str]] = field(default_factory=list)
    """Which benchmarks a file holds."""
    warnings: list[str] = field(default_factory=list)
    """Of files that are no unit: benchmarks.json, published.toml."""
    summaries: dict[str, Shard] = field(default_factory=dict)
    """Machine -> its table of one row per series."""

    def files(self) -> list[Shard]:
        return [*self.shards, *self.summaries.values()]

    def kill(self, key: str) -> None:
        """Forget a unit; its rows stay in their shard, unseen."""
        unit = self.units.pop(key, None)
        if unit is not None and unit.rows:
            self.dead.setdefault(unit.machine, []).append([unit.number, unit.rows])


def save(folder: Path, manifest: Manifest) -> None:
    """From now on the index is this one."""
    data = {"format": FORMAT, **_fields(manifest)}
    values = attrgetter(*Unit.__dataclass_fields__)
    data["units"] = {key: values(unit) for key, unit in manifest.units.items()}
    temporary = folder / f"{FILE}.{os.getpid()}.tmp"
    temporary.write_text(json.dumps(data, default=_fields))
    temporary.replace(folder / FILE)  # not flushed to disk: what a crash loses is read again


def _fields(one: Any) -> dict[str, Any]:
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def load(folder: Path) -> Manifest | str:
    """The manifest, or in words why there is none that can be used."""
    path = folder / FILE
    if not path.exists():
        return "there was none"
    try:
        data = json.loads(path.read_bytes())
        if data.pop("format") != FORMAT:
            return "its format was another one"
        if data["fingerprint"] != fingerprint():
            return "another version of hostbench wrote it"
        data["units"] = {key: Unit(*unit) for key, unit in data["units"].items()}
        data["parts"] = {key: Part(**part) for key, part in data["parts"].items()}
        data["shards"] = [Shard(**shard) for shard in data["shards"]]
        data["summaries"] = {key: Shard(**one) for key, one in data["summaries"].items()}
        manifest = Manifest(**data)
        for shard in manifest.files():
            if (folder / shard.name).stat().st_size != shard.size:
                return f"{shard.name} was damaged"
    except (OSError, *DAMAGE) as error:
        return f"it was damaged ({type(error).__name__})"
    return manifest


@cache
def fingerprint() -> str:
    """Of the code that makes rows: when it changes, every row may."""
    root = Path(hostbench.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        first = path.relative_to(root).parts[0]
        if path.suffix in (".py", ".toml") and first not in _NO_ROWS:
            digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


_NO_ROWS = ("cli", "device", "gpu_check", "judge", "report", "runner", "_benchmarks", "_dashboard")


def digest_of(value: Any) -> str:
    """A short name for a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
