"""Any asv results tree, read as asv wrote it: ours or another project's. Sole reader of asv's file
format (api version 2). What hostbench has measured is left out: archives have it.

A file becomes columns: a point for each combination of a benchmark's parameters. Files of one suite
have one layout, the same benchmarks with the same parameters. What names a case is worked out once
a layout; a file then adds its lists of numbers.
"""

import ast
import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hostbench.core import files
from hostbench.core.case import Case
from hostbench.core.clock import END_S, FIRST_S
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE, damaged, load_json, read_stored
from hostbench.core.records import DAMAGE
from hostbench.store.points import STATUSES, axes_of
from hostbench.store.table import SCHEMA, TEXT, all_of, of_columns

OUR_METHOD = ".track_seconds"
"""How the benchmarks end that asv sees of hostbench's workloads."""
NO_REASON = "asv stores no reason"
MAX_LITERAL = 1024
"""Characters of a parameter that is read as a value of Python; a longer one stays text."""
_UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}
_OF_CASE = ("family", "workload", "case", "unit", "device", "axes", "nbytes")
_STATS = {
    "ci_low_s": "stats_ci_99_a",
    "ci_high_s": "stats_ci_99_b",
    "q25_s": "stats_q_25",
    "q75_s": "stats_q_75",
    "num_samples": "stats_repeat",
}
_MAX_LAYOUTS = 16
"""That are remembered: a suite changes now and then."""


# ---- the tree -----------------------------------------------------------------------------------


def run_id(commit: str, env_name: str) -> str:
    return f"asv-{commit[:8]}-{env_name}"


def environment_of(run_id: str) -> str | None:
    """asv's environment in such a run_id; None for hostbench's own, whose points continue a run's
    series, and for the id of a run."""
    name = run_id[len("asv-") + 8 + 1 :] if run_id.startswith("asv-") else ""
    return None if not name or name.startswith("hostbench-") else name


def described(folder: Path, warn: Warn) -> dict[str, Any]:
    """The benchmarks.json in there: benchmark -> what asv knows of it; empty without one."""
    path = folder / "benchmarks.json"
    return _load_object(path, warn) if path.exists() else {}


def _load_object(path: Path, warn: Warn) -> dict[str, Any]:
    """A file that describes others; empty, and a warning, where it cannot be read."""
    try:
        content = _decoded(read_stored(path, path.parents[1]))
    except (OSError, ValueError, RecursionError) as error:
        warn(damaged(path, error))
        return {}
    return content if isinstance(content, dict) else {}


def _decoded(raw: bytes) -> Any:
    """A file that holds a bare NaN, which only the standard json reads, takes twice as long."""
    if b"NaN" not in raw and b"Infinity" not in raw:
        with contextlib.suppress(msgspec.DecodeError):  # json says better what is wrong
            return msgspec.json.decode(raw)
    return load_json(raw)


# ---- what files share ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvLayout:
    """What all files of one shape share: an entry per benchmark, then arrays over all points."""

    shape: list[tuple[str, Any]]
    """(benchmark, its lists of parameters)."""
    counts: list[int]
    """Points of each benchmark."""
    benchmark_of: pa.Array
    """Each point's index in `shape`."""
    columns: Mapping[str, pa.Array]
    """What names each point's case."""
    in_seconds: Any
    damaged: Mapping[str, str]
    """Benchmarks that cannot be shown -> why."""


class AsvMachine:
    """Reads the files of one machine."""

    def __init__(self, results: Path, machine: str, shared: Mapping[str, Any], warn: Warn) -> None:
        """`shared`: what the results folder describes. A machine of another project may have a
        benchmarks.json of its own, which asv leaves alone."""
        entry = _load_object(results / machine / "machine.json", warn)
        hardware = entry.get("gpu") or entry.get("cpu")
        self._machine = machine
        self._hardware = None if hardware is None else str(hardware)
        about = {**shared, **described(results / machine, warn)}
        self._about = {name: own for name, own in about.items() if own and isinstance(own, dict)}
        self._layouts: list[AsvLayout] = []

    @property
    def depends(self) -> list[Any]:
        """What the points of its files take from other files, for JSON."""
        about = self._about.items()
        return [self._hardware, {n: [o.get("param_names"), o.get("unit")] for n, o in about}]

    def read(self, path: Path, raw: bytes, warn: Warn) -> tuple[pa.Table | None, dict[str, Any]]:
        """The points of a file, and what they have in common: fields of a StoredFile. Nothing, and
        a warning, for what asv did not write."""
        try:
            data = _decoded(raw)
            if data.get("version") == 1:
                raise ValueError("it is of before 2018: `asv update` writes it anew")
            about = self._about_file(data)
            if environment_of(about["run_id"]) is None:
                own = data["results"].items()
                data["results"] = {n: row for n, row in own if not n.endswith(OUR_METHOD)}
            if not data["results"]:
                return None, about
            layout, columns = self._columns(data)
        except (*DAMAGE, IndexError, OverflowError) as error:
            warn(f"{path} is no asv result file ({type(error).__name__}: {error}); {REPLACE}")
            return None, {}
        if layout.damaged:
            (name, why), *others = layout.damaged.items()
            names = f"{name} and {len(others)} others" if others else name
            warn(f"{path}: {names} cannot be shown ({why}); left out")
        first = pc.min(columns["started_at"].cast(pa.int64())).as_py()
        num = len(columns["started_at"])
        texts = {name: all_of(text, num) for name, text in about.items() if text is not None}
        table = of_columns(columns | texts, f"{self._machine}/{path.name}")
        return table, {**about, "first_us": first, "rows": num}

    def _about_file(self, data: Mapping[str, Any]) -> dict[str, Any]:
        commit = str(data["commit_hash"])
        requirements = data.get("requirements") or {}
        return {
            "machine": self._machine,
            "hardware": self._hardware,
            "commit": commit,
            "run_id": run_id(commit, str(data.get("env_name") or "")),
            "torch": str(requirements["torch"]) if "torch" in requirements else None,
            "source": "asv",
        }

    def _columns(self, data: Mapping[str, Any]) -> tuple[AsvLayout, dict[str, pa.Array]]:
        """The columns in which points of one file differ."""
        results = data["results"]
        cells = list(itertools.zip_longest(*results.values()))  # asv trims nulls at a row's end
        stored = dict(zip(data["result_columns"], cells, strict=False))
        nothing = (None,) * len(results)
        shape = list(zip(results, stored.get("params", nothing), strict=True))
        layout = next((known for known in self._layouts if known.shape == shape), None)
        if layout is None:
            layout = _layout(shape, self._about)
            self._layouts[:] = [layout, *self._layouts][:_MAX_LAYOUTS]
        of = layout.benchmark_of
        committed = _milliseconds(data.get("date"))
        began = [*map(_milliseconds, stored.get("started_at", nothing))]
        versions = [None if v is None else str(v) for v in stored.get("version", nothing)]
        columns = {
            "flags": all_of("", len(of)),
            "committed_at": _times([committed]).take(pa.array(np.zeros(len(of), np.int32))),
            "started_at": _times([committed if at is None else at for at in began]).take(of),
            "version": pa.array(versions, TEXT).take(of),
            **layout.columns,
            **_numbers(stored, layout, nothing),
        }
        return layout, columns


def _layout(shape: list[tuple[str, Any]], described: Mapping[str, Any]) -> AsvLayout:
    cases: list[dict[str, Any]] = []
    num_cases: list[int] = []
    damaged: dict[str, str] = {}
    for name, params in shape:
        about, of_benchmark = described.get(name, {}), list[dict[str, Any]]()
        kind = "".join(name.rpartition(".")[2].partition("_")[:2])
        unit = str(about.get("unit", _UNITS.get(kind, "unit")))  # as asv takes its name
        try:
            if len(cases) + math.prod(map(len, params or [])) > files.MAX_POINTS:
                limit = f"{files.MAX_POINTS:,} points, the most that is read of a file"
                raise ValueError(f"its parameters make more than {limit}: give them fewer values")
            for params_of_case in _combinations(params or [], about):
                of_benchmark.append(_about_case(name, params_of_case, unit))
            cases += of_benchmark
        except DAMAGE as error:
            damaged[name], of_benchmark = str(error), []
        num_cases.append(len(of_benchmark))
    types = {name: SCHEMA.field(name).type for name in _OF_CASE}
    return AsvLayout(
        shape=shape,
        counts=num_cases,
        benchmark_of=pa.array(np.repeat(np.arange(len(num_cases), dtype=np.int32), num_cases)),
        columns={n: pa.array([case[n] for case in cases], own) for n, own in types.items()},
        in_seconds=np.array([case["unit"] == "seconds" for case in cases], dtype=bool),
        damaged=damaged,
    )


def _combinations(params: Any, about: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Parameters by name, in the order of asv's lists."""
    names = about.get("param_names")
    is_good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_good or not len(set(names)) == len(names) == len(params):  # type: ignore[arg-type]
        # benchmarks.json describes another version of the benchmark
        names = [f"param{number}" for number in range(1, len(params) + 1)]
    literals = [[_literal(text) for text in values] for values in params]
    return (dict(zip(names, values, strict=False)) for values in itertools.product(*literals))  # type: ignore[arg-type]


@lru_cache(maxsize=4096)
def _literal_of(text: str) -> Any:
    value = ast.literal_eval(text)
    return value if isinstance(value, str | int | float | bool | None) else text


def _literal(text: Any) -> Any:
    """asv stores the repr of each parameter. What is no plain value stays text."""
    if not isinstance(text, str) or len(text) > MAX_LITERAL:
        return str(text)
    try:
        return _literal_of(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text


def _about_case(benchmark: str, params: Mapping[str, Any], unit: str) -> dict[str, Any]:
    """What names a case in every file. Raises one of DAMAGE."""
    case = Case.of(benchmark, params)
    axes = axes_of(case)
    str(case).encode()  # no table holds half a character
    return {
        "family": case.family,
        "workload": case.workload,
        "case": str(case),
        "unit": unit,
        "nbytes": axes.pop("nbytes", None),
        "device": axes.pop("device", None),
        "axes": json.dumps(axes),
    }


# ---- the numbers of a file ----------------------------------------------------------------------


def _numbers(
    stored: Mapping[str, Sequence[Any]], layout: AsvLayout, nothing: Sequence[None]
) -> dict[str, pa.Array]:
    """The columns of numbers, and what they say of each point's status."""
    pairs = zip(stored.get("result", nothing), layout.counts, strict=True)
    # a benchmark without parameters may have a bare number
    values = [cell if isinstance(cell, list) else [cell] * count for cell, count in pairs]
    flat = _flat(values, layout.counts)
    value = _floats(flat)
    is_missing = np.isnan(value)
    seconds = np.where(layout.in_seconds, value, np.nan)
    columns = {"value": value, "seconds": seconds}
    for name, key in _STATS.items():
        column = _floats(_flat(stored.get(key, nothing), layout.counts))
        column[~np.isfinite(column) | np.isnan(seconds)] = np.nan
        columns[name] = np.trunc(column) if name == "num_samples" else column
    is_skipped = np.array([type(cell) is float for cell in flat], dtype=bool)  # NaN
    status = np.where(is_missing, np.where(is_skipped, 1, 2), 0).astype(np.int32)
    no_reason = pa.array(np.zeros(len(value), np.int32), mask=~is_missing)
    return {
        **{name: pa.array(column, from_pandas=True) for name, column in columns.items()},
        "status": pa.DictionaryArray.from_arrays(pa.array(status), STATUSES),
        "reason": pa.DictionaryArray.from_arrays(no_reason, [NO_REASON]),
    }


def _milliseconds(value: Any) -> int | None:
    """A time since the epoch that can be kept; None for anything else."""
    is_time = type(value) in (int, float) and FIRST_S * 1000 <= value < END_S * 1000
    return int(value) if is_time else None


def _times(milliseconds: Sequence[int | None]) -> pa.Array:
    return pa.array(milliseconds, pa.timestamp("ms")).cast(pa.timestamp("us", tz="UTC"))


def _flat(cells: Sequence[Any], lengths: list[int]) -> list[Any]:
    """The lists of all benchmarks as one, each as long as it has combinations."""
    if set(map(type, cells)) != {list} or [*map(len, cells)] != lengths:
        lists = [cell if isinstance(cell, list) else [] for cell in cells]
        pairs = zip(lists, lengths, strict=True)
        cells = [[*own[:count], *[None] * (count - len(own))] for own, count in pairs]
    return list(itertools.chain.from_iterable(cells))


def _floats(values: list[Any]) -> Any:
    """As numbers, NaN for what is none. Raises OverflowError for one that no float holds."""
    if not set(map(type, values)) <= {float, int, NoneType}:  # text, True, a list
        values = [value if type(value) in (int, float) else None for value in values]
    return np.array(values, dtype=float)
