"""The points of a file of asv's as columns: one for each combination of a benchmark's parameters.

Files of one suite have one layout: the same benchmarks with the same parameters. What names a case
is worked out once a layout; a file then adds its lists of numbers.
"""

import ast
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hostbench.core import files, units
from hostbench.core.asv_names import asv_name
from hostbench.core.case import Case, counts
from hostbench.core.clock import END_S, FIRST_S
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE
from hostbench.core.records import DAMAGE
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload
from hostbench.store.asv_tree import described, load, run_id
from hostbench.store.columns import STATUSES, FrameRow, axes_of
from hostbench.store.table import axes_json, text_array

Params = tuple[tuple[str, Any], ...]
"""(parameter name, value) of one combination."""
StartedRow = tuple[str, int]
"""(benchmark, when asv started it in ms)."""

NO_REASON = "asv stores no reason"
MAX_LITERAL = 1024
"""Characters of a parameter that is read as a value of Python; a longer one stays text."""
_DAMAGE = (*DAMAGE, IndexError, OverflowError)
_UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}
_OF_CASE = ("family", "workload", "metric", "case", "unit", "device", "axes")
_NUMBERS = {
    "ci_low_s": "stats_ci_99_a",
    "ci_high_s": "stats_ci_99_b",
    "q25_s": "stats_q_25",
    "q75_s": "stats_q_75",
    "num_samples": "stats_repeat",
}
_OK, _SKIPPED, _FAILED = range(3)
"""Indices in STATUSES."""
_MAX_LAYOUTS = 16
"""That are remembered: a suite changes now and then."""
_NO_TIME = np.iinfo(np.int64).min
"""What numpy takes for no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsLayout:
    """What all files of one shape share: an entry per benchmark, then arrays over all points."""

    shape: list[tuple[str, Any]]
    """(benchmark, its lists of parameters)."""
    counts: list[int]
    """Combinations of each benchmark."""
    benchmark_of: Any
    """Each point's index in `shape`."""
    columns: dict[str, pa.Array]
    """What names each point's case, and its bytes a step."""
    rate_bytes: Any
    """Bytes of which gb_per_s is made; NaN where there is no rate."""
    in_seconds: Any
    is_shown: Any
    groups: list[tuple[str | None, str | None, bool]]
    """(family, device, whether the workload is known here)."""
    group_of: Any
    damaged: dict[str, str]
    """Benchmarks of which a point cannot be shown -> why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsvSuite:
    """What the files of one machine share, apart from their layouts."""

    machine: str
    hardware: str | None
    """What machine.json calls the GPU, else the CPU."""
    described: Mapping[str, Any]
    """benchmarks.json: benchmark -> what asv knows of it."""
    layouts: list[PointsLayout] = field(default_factory=list)

    def about(self, benchmark: str) -> Mapping[str, Any]:
        about = self.described.get(benchmark)
        return about if isinstance(about, dict) else {}

    @property
    def depends(self) -> list[Any]:
        """What the points of its files take from other files, for JSON."""
        about = {name: self.about(name) for name in self.described}
        names = {n: [own.get("param_names"), own.get("unit")] for n, own in about.items() if own}
        return [self.hardware, names]


def suite(results: Path, machine: str, shared: Mapping[str, Any], warn: Warn) -> AsvSuite:
    """`shared`: what the results folder describes. A machine of another project may have a
    benchmarks.json of its own, which asv leaves alone."""
    entry = load(results / machine / "machine.json", warn)
    named = (entry.get("gpu") or entry.get("cpu")) if isinstance(entry, dict) else None
    return AsvSuite(
        machine=machine,
        hardware=None if named is None else str(named),
        described={**shared, **described(results / machine, warn)},
    )


def _layout(shape: list[tuple[str, Any]], suite: AsvSuite) -> PointsLayout:
    rows: list[FrameRow] = []
    counted: list[int] = []
    rate_bytes, groups = [], list[tuple[str | None, str | None, bool]]()
    damaged_: dict[str, str] = {}
    for name, params in shape:
        num = math.prod(len(values) for values in params or [])
        if len(rows) + num > files.MAX_POINTS:
            limit = f"{files.MAX_POINTS:,} points, the most that is read of a file"
            if not any(limit in why for why in damaged_.values()):
                damaged_[name] = f"its parameters make more than {limit}: give them fewer values"
            counted.append(0)
            continue
        counted.append(num)
        about = suite.about(name)
        kind = "".join(name.rpartition(".")[2].partition("_")[:2])
        unit = str(about.get("unit", _UNITS.get(kind, "unit")))  # as asv takes its name
        for combination in _combinations(params or [], about):
            row: FrameRow = {}
            nbytes = None
            try:
                row, nbytes = about_case(name, combination, unit)
                row["axes"] = axes_json(row)
            except DAMAGE as error:
                damaged_[name] = str(error)
            rows.append(row)
            rate_bytes.append(nbytes or np.nan)
            groups.append((row.get("family"), row.get("device"), name in _ours()))
    distinct = list(dict.fromkeys(groups))
    index_of = {group: index for index, group in enumerate(distinct)}
    held = [row.get("nbytes") for row in rows]
    return PointsLayout(
        shape=shape,
        counts=counted,
        benchmark_of=np.repeat(np.arange(len(counted), dtype=np.int32), counted),
        columns={
            **{name: text_array([row.get(name) for row in rows]) for name in _OF_CASE},
            "nbytes": pa.array(held, type=pa.int64()),
        },
        rate_bytes=np.array(rate_bytes, dtype=float),
        in_seconds=np.array([row.get("unit") == "seconds" for row in rows], dtype=bool),
        is_shown=np.array([bool(row) for row in rows], dtype=bool),
        groups=distinct,
        group_of=np.array([index_of[group] for group in groups], dtype=np.int64),
        damaged=damaged_,
    )


def _combinations(params: Any, about: Mapping[str, Any]) -> Iterator[Params]:
    """In the order of asv's lists."""
    names = about.get("param_names")
    is_good = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_good or not len(set(names)) == len(names) == len(params):  # type: ignore[arg-type]
        # benchmarks.json describes another version of the benchmark
        names = [f"param{number}" for number in range(1, len(params) + 1)]
    literals = [[_literal(text) for text in values] for values in params]
    return (tuple(zip(names, values, strict=False)) for values in itertools.product(*literals))  # type: ignore[arg-type]


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


def about_case(benchmark: str, params: Params, unit: str) -> tuple[FrameRow, int | None]:
    """What names a case in every file, and its bytes a step. Raises one of DAMAGE."""
    work = _ours().get(benchmark)
    case = Case.of(work.name if work else benchmark, dict(params))
    for axis, value in case.axes if work else ():
        if counts(axis) and not isinstance(value, int):
            raise ValueError(f"{axis} is {value!r:.40}, no number")
    is_todays = work is not None and set(case.values) == set(work.axes)
    nbytes = work.nbytes(case) if work and is_todays else None
    return {
        "family": case.family,
        "workload": case.workload,
        "metric": unit,
        "case": str(case),
        "unit": unit,
        "nbytes": nbytes,
        **axes_of(case),
    }, nbytes


@cache
def _ours() -> dict[str, Workload]:
    return {asv_name(name): work for name, work in load_workloads().items()}


# ---- one file -----------------------------------------------------------------------------------


def points(
    path: Path, data: Any, suite: AsvSuite, claims: Mapping[str, Collection[StartedRow]], warn: Warn
) -> tuple[pa.Table | None, dict[str, Any]]:
    """The frame's rows of a file's content, without those that runs hold too (`claims`: of each
    commit), and what they have in common: fields of a FileRow. Nothing, and a warning, for what
    asv did not write."""
    if isinstance(data, dict) and data.get("version") == 1:
        warn(f"{path} is of asv's format before 2018; `asv update` writes it anew")
        return None, {}
    try:
        table, shared, layout = _points(data, suite, claims)
    except _DAMAGE as error:
        warn(f"{path} is no asv result file ({type(error).__name__}: {error}); {REPLACE}")
        return None, {}
    for name, why in layout.damaged.items():
        warn(f"{path}: {name} cannot be shown ({why}); left out")
    return table, shared


def _points(
    data: Any, suite: AsvSuite, claims: Mapping[str, Collection[StartedRow]]
) -> tuple[pa.Table, dict[str, Any], PointsLayout]:
    results = data["results"]
    cells = list(itertools.zip_longest(*results.values()))  # asv trims nulls at a row's end
    columns = dict(zip(data["result_columns"], cells, strict=False))
    nothing = (None,) * len(results)
    shape = list(zip(results, columns.get("params", nothing), strict=True))
    layout = next((own for own in suite.layouts if own.shape == shape), None)
    if layout is None:
        layout = _layout(shape, suite)
        suite.layouts[:] = [layout, *suite.layouts][:_MAX_LAYOUTS]
    commit, committed_ms = str(data["commit_hash"]), _milliseconds(data.get("date"))
    requirements = data.get("requirements") or {}
    started_ms = [*map(_milliseconds, columns.get("started_at", nothing))]
    versions = [None if v is None else str(v) for v in columns.get("version", nothing)]
    shared: dict[str, Any] = {
        "machine": suite.machine,
        "hardware": suite.hardware,
        "commit": commit,
        "run_id": run_id(commit, str(data.get("env_name") or "")),
        "torch": str(requirements["torch"]) if "torch" in requirements else None,
        "source": "asv",
    }
    of_file, of_benchmark = np.zeros(len(layout.is_shown), np.int32), layout.benchmark_of
    of_all = pa.array(of_file)
    began = _times([committed_ms if ms is None else ms for ms in started_ms], of_benchmark)
    status, numbers = _numbers(columns, layout, nothing)
    table = pa.table(
        {
            **{
                name: pa.DictionaryArray.from_arrays(of_all, pa.array([text]))
                for name, text in {**shared, "flags": ""}.items()
                if text is not None
            },
            "committed_at": _times([committed_ms], of_file),
            "started_at": began,
            **layout.columns,
            "version": text_array(versions).take(pa.array(of_benchmark)),
            **numbers,
        }
    )
    pairs = zip((name for name, _ in shape), started_ms, strict=True)
    claimed = claims.get(commit, ())
    is_own = np.array([pair not in claimed for pair in pairs], dtype=bool)
    is_shown = layout.is_shown & is_own[of_benchmark]
    tally = np.zeros((len(layout.groups), len(STATUSES) + 1), np.int64)
    np.add.at(tally, (layout.group_of[is_shown], status[is_shown]), 1)
    counted = zip(layout.groups, tally.tolist(), strict=True)
    first = began.filter(pa.array(is_shown)).drop_null().cast(pa.int64())
    shared |= {
        "counts": [(*group, *nums) for group, nums in counted if any(nums)],
        "rows": int(is_shown.sum()),
        "first_us": min(first.to_pylist(), default=None),
    }
    return table if is_shown.all() else table.filter(pa.array(is_shown)), shared, layout


def _numbers(
    columns: Mapping[str, Sequence[Any]], layout: PointsLayout, nothing: Sequence[None]
) -> tuple[Any, dict[str, Any]]:
    """What became of each point, and the frame's columns of it."""
    cells = columns.get("result", nothing)
    pairs = zip(cells, layout.counts, strict=True)
    values = [cell if isinstance(cell, list) else [cell] * count for cell, count in pairs]
    value, has_failed = _floats(_flat(values, layout.counts))
    is_missing = np.isnan(value)
    is_time = layout.in_seconds & ~is_missing
    numbers = {}
    for name, key in _NUMBERS.items():
        numbers[name], _ = _floats(_flat(columns.get(key, nothing), layout.counts))
        numbers[name][~np.isfinite(numbers[name]) | ~is_time] = np.nan
    numbers["num_samples"] = np.trunc(numbers["num_samples"])
    seconds = np.where(layout.in_seconds, value, np.nan)
    rate = np.full(len(value), np.nan)
    np.divide(layout.rate_bytes, seconds, out=rate, where=seconds > 0)
    numbers |= {"value": value, "seconds": seconds, "gb_per_s": rate / units.GB}
    status = np.where(is_missing, np.where(has_failed, _FAILED, _SKIPPED), _OK)
    no_reason = pa.array(np.zeros(len(value), np.int32), mask=~is_missing)
    return status, {
        "status": pa.DictionaryArray.from_arrays(status.astype(np.int32), pa.array(STATUSES)),
        "reason": pa.DictionaryArray.from_arrays(no_reason, pa.array([NO_REASON])),
        **{name: pa.array(own, from_pandas=True) for name, own in numbers.items()},
    }


def _milliseconds(value: Any) -> int | None:
    """A time since the epoch that can be kept; None for anything else."""
    is_time = type(value) in (int, float) and FIRST_S * 1000 <= value < END_S * 1000
    return int(value) if is_time else None


def _flat(cells: Sequence[Any], counts: list[int]) -> list[Any]:
    """The lists of all benchmarks as one, each as long as it has combinations."""
    if set(map(type, cells)) != {list} or [*map(len, cells)] != counts:
        lists = [cell if isinstance(cell, list) else [] for cell in cells]
        pairs = zip(lists, counts, strict=True)
        cells = [[*own[:count], *[None] * (count - len(own))] for own, count in pairs]
    return list(itertools.chain.from_iterable(cells))


def _floats(values: list[Any]) -> tuple[Any, Any]:
    """As numbers, NaN for what is none; and where there is none. Raises OverflowError for a number
    that no float holds."""
    try:
        array = pa.array(values, type=pa.float64())
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # text, True, an integer of more than 53 bits
        plain = [value if type(value) in (int, float) else None for value in values]
        return np.array(plain, dtype=float), np.array([v is None for v in plain], dtype=bool)
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    return array.to_numpy(zero_copy_only=False).copy(), is_null


def _times(milliseconds: Sequence[int | None], indices: Any) -> pa.Array:
    held = np.array([_NO_TIME if ms is None else ms for ms in milliseconds], dtype=np.int64)
    return pa.array(held.view("M8[ms]")[indices]).cast(pa.timestamp("us", tz="UTC"))
