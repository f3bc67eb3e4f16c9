"""Any asv results tree, read as asv wrote it: ours or another project's. Sole reader of asv's file
format (api version 2).

A file becomes columns: a point for each combination of a benchmark's parameters. Files of one suite
have one layout, the same benchmarks with the same parameters. What names a case is worked out once
a layout; a file then adds its lists of numbers.
"""

import ast
import contextlib
import itertools
import json
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import msgspec
import numpy as np

from hostbench.core import files, units
from hostbench.core.asv_names import asv_name
from hostbench.core.case import Case, counts
from hostbench.core.clock import END_S, FIRST_S
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE, damaged, load_json, read_stored
from hostbench.core.records import DAMAGE
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload
from hostbench.store.points import STATUSES, axes_of

Columns = dict[str, Any]
"""Of the tidy frame: numbers as arrays of numpy, text as Texts."""
StartedRow = tuple[str, int]
"""(benchmark, when asv started it in ms)."""

NO_REASON = "asv stores no reason"
MAX_LITERAL = 1024
"""Characters of a parameter that is read as a value of Python; a longer one stays text."""
_UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}
_OF_CASE = ("family", "workload", "metric", "case", "unit", "device", "axes")
_NUMBERS = {
    "ci_low_s": "stats_ci_99_a",
    "ci_high_s": "stats_ci_99_b",
    "q25_s": "stats_q_25",
    "q75_s": "stats_q_75",
    "num_samples": "stats_repeat",
}
_MAX_LAYOUTS = 16
"""That are remembered: a suite changes now and then."""


class Texts(NamedTuple):
    """A column of few different texts."""

    codes: Any
    """Of each row the index of its text, -1 for none."""
    texts: tuple[str, ...]

    @staticmethod
    def of(values: Sequence[str | None]) -> "Texts":
        texts = tuple(text for text in dict.fromkeys(values) if text is not None)
        code_of = {text: code for code, text in enumerate(texts)}
        return Texts(np.array([code_of.get(v, -1) for v in values], dtype=np.int32), texts)  # type: ignore[arg-type]

    def take(self, rows: Any) -> "Texts":
        return Texts(self.codes[rows], self.texts)


# ---- the tree -----------------------------------------------------------------------------------


def run_id(commit: str, env_name: str) -> str:
    return f"asv-{commit[:8]}-{env_name}"


def environment_of(run_id: str) -> str | None:
    """asv's environment in such a run_id; None for hostbench's own, whose points continue a run's
    series, and for the id of a run."""
    name = run_id[len("asv-") + 8 + 1 :] if run_id.startswith("asv-") else ""
    return None if not name or name.startswith("hostbench-") else name


def load(path: Path, warn: Warn, raw: bytes | None = None) -> Any:
    """The JSON of a file in a machine's folder or beside those, whose bytes may be `raw`; None, and
    a warning, where it cannot be read."""
    try:
        data = _decoded(read_stored(path, path.parents[1]) if raw is None else raw)
    except (OSError, ValueError, RecursionError) as error:
        warn(damaged(path, error))
        return None
    if data is None:
        warn(f"{path} is damaged (it holds null alone); {REPLACE}")
    return data


def _decoded(raw: bytes) -> Any:
    """A file that holds a bare NaN, which only the standard json reads, takes twice as long."""
    if b"NaN" not in raw and b"Infinity" not in raw:
        with contextlib.suppress(msgspec.DecodeError):  # json says better what is wrong
            return msgspec.json.decode(raw)
    return load_json(raw)


def started(results: Path, commit: str, machine: str | None) -> Iterator[tuple[str, str, int]]:
    """(machine, benchmark, when asv started it in ms) of what our environment stored of a commit,
    on one machine or on all."""
    for path in sorted(results.glob(f"{machine or '*'}/{commit[:8]}-hostbench-*.json")):
        data = load(path, lambda _: None)
        # what is wrong with a file is said where its points are read
        with contextlib.suppress(*DAMAGE, OverflowError):
            if data["commit_hash"] == commit:
                index = data["result_columns"].index("started_at")
                for name, row in data["results"].items():
                    if len(row) > index and row[index] is not None:
                        yield path.parent.name, name, int(row[index])


def described(folder: Path, warn: Warn) -> dict[str, Any]:
    """The benchmarks.json in there: benchmark -> what asv knows of it; empty without one."""
    path = folder / "benchmarks.json"
    content = load(path, warn) if path.exists() else {}
    return content if isinstance(content, dict) else {}


# ---- what files share ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsLayout:
    """What all files of one shape share: an entry per benchmark, then arrays over all points."""

    shape: list[tuple[str, Any]]
    """(benchmark, its lists of parameters)."""
    counts: list[int]
    """Combinations of each benchmark."""
    benchmark_of: Any
    """Each point's index in `shape`."""
    columns: Columns
    """What names each point's case, and its bytes a step."""
    rate_bytes: Any
    """Bytes of which gb_per_s is made; NaN where there is no rate."""
    in_seconds: Any
    is_shown: Any
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

    def layout(self, shape: list[tuple[str, Any]]) -> PointsLayout:
        layout = next((known for known in self.layouts if known.shape == shape), None)
        if layout is None:
            layout = _layout(shape, self)
            self.layouts[:] = [layout, *self.layouts][:_MAX_LAYOUTS]
        return layout


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
    cases: list[dict[str, Any]] = []
    num_cases: list[int] = []
    damaged_: dict[str, str] = {}
    for name, params in shape:
        num = math.prod(len(values) for values in params or [])
        if len(cases) + num > files.MAX_POINTS:
            limit = f"{files.MAX_POINTS:,} points, the most that is read of a file"
            if not any(limit in why for why in damaged_.values()):
                damaged_[name] = f"its parameters make more than {limit}: give them fewer values"
            num_cases.append(0)
            continue
        num_cases.append(num)
        about = suite.about(name)
        kind = "".join(name.rpartition(".")[2].partition("_")[:2])
        unit = str(about.get("unit", _UNITS.get(kind, "unit")))  # as asv takes its name
        for params_of_case in _combinations(params or [], about):
            try:
                cases.append(_about_case(name, params_of_case, unit))
            except DAMAGE as error:
                damaged_[name] = str(error)
                cases.append({})
    rate_bytes = [case.get("rate_bytes") or np.nan for case in cases]
    return PointsLayout(
        shape=shape,
        counts=num_cases,
        benchmark_of=np.repeat(np.arange(len(num_cases), dtype=np.int32), num_cases),
        columns={
            **{name: Texts.of([case.get(name) for case in cases]) for name in _OF_CASE},
            "nbytes": np.array([case.get("nbytes") for case in cases], dtype=object),
        },
        rate_bytes=np.array(rate_bytes, dtype=float),
        in_seconds=np.array([case.get("unit") == "seconds" for case in cases], dtype=bool),
        is_shown=np.array([bool(case) for case in cases], dtype=bool),
        damaged=damaged_,
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
    """What names a case in every file, and its bytes a step. Raises one of DAMAGE."""
    work = _ours().get(benchmark)
    case = Case.of(work.name if work else benchmark, params)
    for axis, value in case.axes if work else ():
        if counts(axis) and not isinstance(value, int):
            raise ValueError(f"{axis} is {value!r:.40}, no number")
    is_todays = work is not None and set(case.values) == set(work.axes)
    nbytes = work.option("moves", case) if work and is_todays else None
    axes = axes_of(case)
    str(case).encode()  # no table holds half a character
    return {
        "family": case.family,
        "workload": case.workload,
        "metric": unit,
        "case": str(case),
        "unit": unit,
        "nbytes": axes.get("nbytes", nbytes),
        "device": axes.get("device"),
        "axes": json.dumps({name: axes[name] for name in axes if name not in ("nbytes", "device")}),
        "rate_bytes": nbytes,
    }


@cache
def _ours() -> dict[str, Workload]:
    return {asv_name(name): work for name, work in load_workloads().items()}


# ---- one file -----------------------------------------------------------------------------------


def points(
    path: Path, data: Any, suite: AsvSuite, claims: Mapping[str, Collection[StartedRow]], warn: Warn
) -> tuple[Columns | None, dict[str, Any]]:
    """The points of a file's content, without those that runs hold too (`claims`: of each commit),
    and what they have in common: fields of a FileRow. Nothing, and a warning, for what asv did not
    write."""
    if isinstance(data, dict) and data.get("version") == 1:
        warn(f"{path} is of asv's format before 2018; `asv update` writes it anew")
        return None, {}
    try:
        results = data["results"]
        cells = list(itertools.zip_longest(*results.values()))  # asv trims nulls at a row's end
        columns = dict(zip(data["result_columns"], cells, strict=False))
        nothing = (None,) * len(results)
        layout = suite.layout(list(zip(results, columns.get("params", nothing), strict=True)))
        shared = _about_file(data, suite)
        table = _columns(columns, layout, nothing, shared, _milliseconds(data.get("date")))
        pairs = zip(results, map(_milliseconds, columns.get("started_at", nothing)), strict=True)
        claimed = claims.get(shared["commit"], ())
        is_new = np.array([pair not in claimed for pair in pairs], dtype=bool)
    except (*DAMAGE, IndexError, OverflowError) as error:
        warn(f"{path} is no asv result file ({type(error).__name__}: {error}); {REPLACE}")
        return None, {}
    for name, why in layout.damaged.items():
        warn(f"{path}: {name} cannot be shown ({why}); left out")
    is_shown = layout.is_shown & is_new[layout.benchmark_of]
    if not is_shown.all():
        table = {
            name: column.take(is_shown) if isinstance(column, Texts) else column[is_shown]
            for name, column in table.items()
        }
    began = table["started_at"]
    began = began[~np.isnat(began)].astype("M8[us]").astype(np.int64)
    shared["first_us"] = int(began.min()) if len(began) else None
    return table, {**shared, "rows": int(is_shown.sum())}


def _about_file(data: Mapping[str, Any], suite: AsvSuite) -> dict[str, Any]:
    commit = str(data["commit_hash"])
    requirements = data.get("requirements") or {}
    return {
        "machine": suite.machine,
        "hardware": suite.hardware,
        "commit": commit,
        "run_id": run_id(commit, str(data.get("env_name") or "")),
        "torch": str(requirements["torch"]) if "torch" in requirements else None,
        "source": "asv",
    }


def _columns(
    columns: Mapping[str, Sequence[Any]],
    layout: PointsLayout,
    nothing: Sequence[None],
    shared: Mapping[str, str | None],
    committed_ms: int | None,
) -> Columns:
    """All points of a file, also those that are not shown."""

    def numbers(name: str) -> Any:
        return _floats(_flat(columns.get(name, nothing), layout.counts))

    pairs = zip(columns.get("result", nothing), layout.counts, strict=True)
    # a benchmark without parameters may have a bare number
    values = [cell if isinstance(cell, list) else [cell] * count for cell, count in pairs]
    flat = _flat(values, layout.counts)
    value = _floats(flat)
    is_missing = np.isnan(value)
    is_time = layout.in_seconds & ~is_missing
    stats = {name: numbers(key) for name, key in _NUMBERS.items()}
    for column in stats.values():
        column[~np.isfinite(column) | ~is_time] = np.nan
    stats["num_samples"] = np.trunc(stats["num_samples"])
    seconds = np.where(layout.in_seconds, value, np.nan)
    rate = np.full(len(value), np.nan)
    np.divide(layout.rate_bytes, seconds, out=rate, where=seconds > 0)
    is_skipped = np.array([type(cell) is float for cell in flat], dtype=bool)  # NaN
    status = np.where(is_missing, np.where(is_skipped, 1, 2), 0)  # indices in STATUSES
    versions = [None if v is None else str(v) for v in columns.get("version", nothing)]
    started = [_milliseconds(at) for at in columns.get("started_at", nothing)]
    began = _times([committed_ms if at is None else at for at in started])
    no_code = np.zeros(len(value), np.int32)
    texts = {name: text for name, text in {**shared, "flags": ""}.items() if text is not None}
    return {
        **{name: Texts(no_code, (text,)) for name, text in texts.items()},
        "committed_at": _times([committed_ms])[no_code],
        "started_at": began[layout.benchmark_of],
        **layout.columns,
        "version": Texts.of(versions).take(layout.benchmark_of),
        "status": Texts(status.astype(np.int32), STATUSES),
        "reason": Texts(is_missing.astype(np.int32) - 1, (NO_REASON,)),
        "value": value,
        "seconds": seconds,
        "gb_per_s": rate / units.GB,
        **stats,
    }


def _milliseconds(value: Any) -> int | None:
    """A time since the epoch that can be kept; None for anything else."""
    is_time = type(value) in (int, float) and FIRST_S * 1000 <= value < END_S * 1000
    return int(value) if is_time else None


def _times(milliseconds: Sequence[int | None]) -> Any:
    return np.array(["NaT" if at is None else at for at in milliseconds], dtype="M8[ms]")


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
