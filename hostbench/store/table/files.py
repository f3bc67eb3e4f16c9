"""What was read: a record for each run and file of asv's, and the table of them."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import hostbench
from hostbench import families
from hostbench.store.columns import STATUSES
from hostbench.store.table.delta import DeltaTables
from hostbench.store.table.rows import READING, texts

FORMAT = 5
"""To be raised when the columns change, or what is in them: a table of another is made anew."""
HEAD = f"hostbench results, format {FORMAT}"
KINDS = ("run", "asv", "part")
"""In the order in which the frame holds rows of the same moment. A part of a run, an archive or a
journal, has no rows of its own."""


@dataclass(slots=True)
class Source:
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
    facts: str | None = None
    """Of a run, JSON: when -> the facts of its first part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """A table as it was when it was opened; hostbench.store.history asks it."""

    tables: DeltaTables
    files: pa.Table
    """A row for each Source; of two readings of one file the later counts."""
    warnings: tuple[str, ...] = ()
    """Of files that are no source."""


_TEXTS = ("machine", "commit", "run_id", "hardware", "torch", "driver", "scratch", "source")
_JSON = ("about", "warnings")
_INTS = (READING, "size", "changed_ns", "rows", "first_at", "last_at")
_NAMES = [one.name for one in fields(Source)]
SCHEMA = pa.schema([(name, pa.int64() if name in _INTS else pa.string()) for name in _NAMES])


def to_table(sources: Sequence[Source]) -> pa.Table:
    columns: dict[str, Any] = {n: [getattr(source, n) for source in sources] for n in _NAMES}
    for name in _JSON:
        columns[name] = [None if not value else json.dumps(value) for value in columns[name]]
    for name in _NAMES:
        columns[name] = columns[name] if name in _INTS else texts(columns[name])
    return pa.table(columns, schema=SCHEMA)


def read(tables: DeltaTables) -> pa.Table:
    """A row for each source. Raises one of DAMAGE."""
    return tables.read_files(_NAMES).cast(SCHEMA)


def sources_of(table: pa.Table) -> dict[str, Source]:
    """By key; of two readings of one file the later counts."""
    columns = {name: table.column(name).to_pylist() for name in _NAMES}
    for name in _JSON:
        columns[name] = [None if text is None else json.loads(text) for text in columns[name]]
    found: dict[str, Source] = {}
    for source in map(Source, *columns.values()):
        if source.key not in found or found[source.key].reading < source.reading:
            found[source.key] = source
    return found


def describe(table: pa.Table, sources: Mapping[int, Source]) -> None:
    """Note in each source what its rows have in common, and count them."""
    names = ("family", "device", "workload", "status", "flags", "started_at", *_TEXTS, READING)
    columns = {name: _column(table, name) for name in names}
    rows: Any = pd.DataFrame({name: column.to_pandas() for name, column in columns.items()})
    rows["own"] = (rows["source"] != "asv") | rows["workload"].isin([*families.load()])
    rows["unexpected"] = rows["flags"].str.contains("unexpected:").fillna(False).astype(bool)
    for status in STATUSES:
        rows[status] = rows["status"] == status
    by = [READING, "family", "device", "own"]
    sums = rows.groupby(by, observed=True, dropna=False)[[*STATUSES, "unexpected"]].sum()
    counts: dict[int, list[list[Any]]] = {}
    for (reading, family, device, own), *counted in sums.itertuples(name=None):
        group = [None if pd.isna(name) else name for name in (family, device)]
        counts.setdefault(reading, []).append([*group, bool(own), *map(int, counted)])
    heads = rows.drop_duplicates(READING).sort_values(READING)[[*_TEXTS]].astype(object)
    of_unit = rows.groupby(READING)
    times = of_unit["started_at"].agg(["min", "max"]).itertuples(index=False)
    known = zip(of_unit.size().items(), times, heads.to_dict("records"), strict=True)
    for (reading, num), (first, last), head in known:
        source = sources[reading]
        source.rows, source.counts = int(num), json.dumps(counts[reading])
        if not pd.isna(first):
            source.first_at, source.last_at = first.value // 1000, last.value // 1000
        for name, value in head.items():
            setattr(source, name, None if pd.isna(value) else value)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Nothing, where no row has it."""
    if name in table.column_names:
        return table.column(name)
    return pa.chunked_array([pa.nulls(len(table), pa.string())])


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
