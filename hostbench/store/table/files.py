"""What was read: a record for each run and file of asv's, and the table of them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import hostbench
from hostbench import families
from hostbench.store.columns import STATUSES
from hostbench.store.table.lake import Lake
from hostbench.store.table.rows import READING, texts, times

FORMAT = 2
"""To be raised when the columns change, or what is in them: a table of another is made anew."""
HEAD = f"hostbench results, format {FORMAT}"
KINDS = ("run", "asv", "part")
"""In the order in which the frame holds rows of the same moment. A part of a run, an archive or a
journal, has no rows of its own."""


@dataclass(slots=True)
class Unit:
    """What is read and replaced together, as it was read."""

    key: str
    """The path of a file, relative to the results folder; `run MACHINE ID` of a run."""
    kind: str
    file: str
    """Of a run: its first part's."""
    reading: int
    """Greater for what was read later."""
    size: int = 0
    changed_ns: int = 0
    """Time of the file's last change."""
    depends: str = ""
    """What its rows depend on besides. Where one of the three differs, it is read again."""
    about: dict[str, Any] | None = None
    """A part: `run`, `run_id`. A run: `parts`, `header` (hostbench.store.runs.AboutRun), and
    `claims`: the rows of asv's files that it holds."""
    warnings: list[str] | None = None
    rows: int = 0
    machine: str | None = None
    commit: str | None = None
    run_id: str | None = None
    hardware: str | None = None
    torch: str | None = None
    driver: str | None = None
    scratch: str | None = None
    source: str | None = None
    first_at: int | None = None
    last_at: int | None = None
    """started_at of its first and of its last row, in microseconds."""
    counts: str = "[]"
    """JSON: [family, device, own, number of rows of each status, of unexpected findings]."""
    setup: str | None = None
    """Of a run, JSON: hostbench.facts.causes.setup of its first part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """A table as it was when it was opened; hostbench.store.history asks it."""

    lake: Lake
    files: pa.Table
    """A row for each Unit; of two readings of one file the later counts."""
    warnings: tuple[str, ...] = ()
    """Of files that are no unit."""


_TEXTS = ("machine", "commit", "run_id", "hardware", "torch", "driver", "scratch", "source")
_JSON = ("about", "warnings")
_INTS = (READING, "size", "changed_ns", "rows", "first_at", "last_at")
_NAMES = [one.name for one in fields(Unit)]
SCHEMA = pa.schema([(name, pa.int64() if name in _INTS else pa.string()) for name in _NAMES])


def to_table(units: Sequence[Unit]) -> pa.Table:
    columns: dict[str, Any] = {n: [getattr(unit, n) for unit in units] for n in _NAMES}
    for name in _JSON:
        columns[name] = [None if not value else json.dumps(value) for value in columns[name]]
    for name in _NAMES:
        columns[name] = columns[name] if name in _INTS else texts(columns[name])
    return pa.table(columns, schema=SCHEMA)


def read(lake: Lake) -> pa.Table:
    """A row for each unit. Raises one of DAMAGE."""
    return lake.read_files(_NAMES).cast(SCHEMA)


def units_of(table: pa.Table) -> dict[str, Unit]:
    """By key; of two readings of one file the later counts."""
    columns = {name: table.column(name).to_pylist() for name in _NAMES}
    for name in _JSON:
        columns[name] = [None if text is None else json.loads(text) for text in columns[name]]
    found: dict[str, Unit] = {}
    for unit in map(Unit, *columns.values()):
        if unit.key not in found or found[unit.key].reading < unit.reading:
            found[unit.key] = unit
    return found


def describe(table: pa.Table, units: Mapping[int, Unit]) -> None:
    """Note in each unit what its rows have in common, and count them."""
    numbers, first, inverse = np.unique(
        table.column(READING).to_numpy(), return_index=True, return_inverse=True
    )
    at = times(table)
    earliest, latest = np.full(len(numbers), _NEVER), np.full(len(numbers), -_NEVER - 1)
    np.minimum.at(earliest, inverse, np.where(at == -_NEVER - 1, _NEVER, at))
    np.maximum.at(latest, inverse, at)
    names = [name for name in _TEXTS if name in table.column_names]
    heads = table.select(names).take(pa.array(first)).to_pylist()
    counts = _counts(table, inverse)
    rows = np.bincount(inverse).tolist()
    for place, (number, head) in enumerate(zip(numbers.tolist(), heads, strict=True)):
        unit = units[number]
        unit.rows, unit.counts = rows[place], json.dumps(counts[place])
        if earliest[place] < _NEVER:
            unit.first_at, unit.last_at = int(earliest[place]), int(latest[place])
        for name, value in head.items():
            setattr(unit, name, value)


_NEVER = np.iinfo(np.int64).max


def _counts(table: pa.Table, unit: Any) -> list[list[Any]]:
    """Of each unit, whose place `unit` holds for each row."""
    family, names = _codes(table, "family")
    device, devices = _codes(table, "device")
    workload, workloads = _codes(table, "workload")
    source, sources = _codes(table, "source")
    ours = families.load()
    is_foreign = np.array([name not in ours for name in workloads])[workload]
    own = ~(is_foreign & np.array([name == "asv" for name in sources])[source])
    status, statuses = _codes(table, "status")
    flags, said = _codes(table, "flags")
    unexpected = np.array([text is not None and "unexpected:" in text for text in said])[flags]
    group = (unit * len(names) + family) * len(devices) * 2 + device * 2 + own
    groups, place = np.unique(group, return_inverse=True)
    masks = [status == statuses.index(name) if name in statuses else None for name in STATUSES]
    sums = [
        np.zeros(len(groups), int) if mask is None else np.bincount(place, mask, len(groups))
        for mask in (*masks, unexpected)
    ]
    found: list[list[Any]] = [[] for _ in range(int(unit.max()) + 1)]
    for number, *counted in zip(groups.tolist(), *map(np.ndarray.tolist, sums), strict=True):
        rest, is_own = divmod(number, 2)
        rest, of_device = divmod(rest, len(devices))
        of_unit, of_family = divmod(rest, len(names))
        about = [names[of_family], devices[of_device], bool(is_own)]
        found[of_unit].append([*about, *map(int, counted)])
    return found


def _codes(table: pa.Table, name: str) -> tuple[Any, list[str | None]]:
    """The place of each row's text in the list of texts, of which the last is None."""
    if name not in table.column_names:
        return np.zeros(len(table), np.int64), [None]
    column = table.column(name).combine_chunks()
    texts = [*column.dictionary.to_pylist(), None]
    codes = column.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), texts


def description() -> str:
    """Of a folder's table: what made its rows, a project's own workloads among it."""
    digest = hashlib.sha256()
    for path in families.files():
        digest.update(path.name.encode() + path.read_bytes())
    return f"{HEAD}, {hostbench.__version__}, workloads {digest.hexdigest()[:16]}"


@cache
def code_of(*names: str) -> bytes:
    """A digest of these files and folders of hostbench."""
    digest = hashlib.sha256()
    for name in names:
        for path in sorted([_ROOT / name, *(_ROOT / name).rglob("*")]):
            if path.suffix in (".py", ".toml"):
                digest.update(path.relative_to(_ROOT).as_posix().encode() + path.read_bytes())
    return digest.digest()


_ROOT = Path(hostbench.__file__).parent


def digest_of(value: Any) -> str:
    """A short name for a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
