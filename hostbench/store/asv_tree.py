"""Any asv results tree, read as asv wrote it: ours or another project's. Sole reader of asv's file
format (api version 2). What hostbench has measured is left out: archives have it.

A file becomes columns: a point for each combination of a benchmark's parameters. What names its
cases is the same in every file of a suite, and worked out once.
"""

import ast
import contextlib
import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from hostbench.core import files
from hostbench.core.case import Case
from hostbench.core.clock import END_S, FIRST_S
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE, damaged, load_json, read_stored
from hostbench.core.records import DAMAGE, environment_of
from hostbench.store.points import STATUSES, axes_of
from hostbench.store.table import SCHEMA, of_columns

OUR_METHOD = ".track_seconds"
"""How the benchmarks end that asv sees of hostbench's workloads."""
NO_REASON = "asv stores no reason"
MAX_LITERAL = 1024
"""Characters of a parameter that is read as a value of Python; a longer one stays text."""
_UNITS = {"time_": "seconds", "timeraw_": "seconds", "mem_": "bytes", "peakmem_": "bytes"}
_STATS = {
    "ci_low_s": "stats_ci_99_a",
    "ci_high_s": "stats_ci_99_b",
    "q25_s": "stats_q_25",
    "q75_s": "stats_q_75",
    "num_samples": "stats_repeat",
}
_NUMBERS = {"value": "result", **_STATS}
"""Column -> what asv calls it."""
_OF_CASE = ("family", "workload", "case", "unit", "device", "nbytes", "axes")
_MAX_LAYOUTS = 16
"""That are remembered: a suite changes now and then."""


# ---- the tree -----------------------------------------------------------------------------------


def load_object(path: Path, warn: Warn) -> dict[str, Any]:
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


# ---- a file -------------------------------------------------------------------------------------


class AsvLayout(NamedTuple):
    """What all files with the same benchmarks and parameters share."""

    shape: list[tuple[str, Any]]
    """(benchmark, its lists of parameters)."""
    counts: list[int]
    """Points of each benchmark."""
    columns: dict[str, pa.Array]
    """_OF_CASE: what names each point's case."""
    in_seconds: Any
    """Of each point."""
    broken: dict[str, str]
    """Benchmarks that cannot be shown -> why."""


class AsvMachine:
    """Reads the files of one machine."""

    def __init__(self, results: Path, machine: str, about: Mapping[str, Any], warn: Warn) -> None:
        """`about`: benchmark -> what asv knows of it."""
        entry = load_object(results / machine / "machine.json", warn)
        hardware = entry.get("gpu") or entry.get("cpu")
        self._machine = machine
        self._hardware = hardware = None if hardware is None else str(hardware)
        self._about = {
            name: known for name, known in about.items() if known and isinstance(known, dict)
        }
        entries = self._about.items()
        self.depends = [hardware, {n: [o.get("param_names"), o.get("unit")] for n, o in entries}]
        """What the points of its files take from other files, for JSON."""
        self._layouts: list[AsvLayout] = []

    def read(self, path: Path, raw: bytes, warn: Warn) -> tuple[pa.Table | None, dict[str, Any]]:
        """The points of a file, and what they have in common: fields of a StoredFile. Nothing, and
        a warning, for what asv did not write."""
        try:
            data = _decoded(raw)
            commit, requirements = str(data["commit_hash"]), data.get("requirements") or {}
            run_id = f"asv-{commit[:8]}-{data.get('env_name') or ''}"
            about = {
                "machine": self._machine,
                "hardware": self._hardware,
                "commit": commit,
                "run_id": run_id,
                "torch": str(requirements["torch"]) if "torch" in requirements else None,
                "source": "asv",
            }
            names = data["result_columns"]
            is_ours = environment_of(run_id) is None
            cells = {  # asv trims nulls at a row's end
                name: dict(zip(names, row, strict=False))
                for name, row in data["results"].items()
                if not (is_ours and name.endswith(OUR_METHOD))
            }
            if not cells:
                return None, about
            layout = self._layout([(name, cell.get("params")) for name, cell in cells.items()])
            columns = _columns(data, [*cells.values()], layout)
        except (*DAMAGE, IndexError, OverflowError) as error:
            warn(f"{path} is not an asv result file ({type(error).__name__}: {error}); {REPLACE}")
            return None, {}
        if layout.broken:
            (name, why), *others = layout.broken.items()
            which = f"{name} and {len(others)} others" if others else name
            warn(f"{path}: {which} cannot be shown ({why}); left out")
        first = min((at for at in columns["started_at"] if at is not None), default=None)
        texts = {**about, "flags": "", "file": f"{self._machine}/{path.name}"}
        table = of_columns(layout.columns | columns, texts)
        return table, {**about, "first_us": first, "rows": len(table)}

    def _layout(self, shape: list[tuple[str, Any]]) -> AsvLayout:
        for known in self._layouts:
            if known.shape == shape:
                return known
        cases, counts, broken = list[tuple[Any, ...]](), list[int](), dict[str, str]()
        for name, params in shape:
            added = list[tuple[Any, ...]]()
            try:
                if len(cases) + math.prod(map(len, params or ())) > files.MAX_POINTS:
                    limit = f"{files.MAX_POINTS:,} points, the most that is read of a file"
                    raise ValueError(f"its parameters make more than {limit}: give them fewer")
                added = [*_cases(name, params or (), self._about.get(name, {}))]
            except DAMAGE as error:
                broken[name] = str(error)
            cases += added
            counts.append(len(added))
        columns = dict(zip(_OF_CASE, zip(*cases, strict=True), strict=True)) if cases else {}
        layout = AsvLayout(
            shape=shape,
            counts=counts,
            columns={n: pa.array(columns.get(n, ()), SCHEMA.field(n).type) for n in _OF_CASE},
            in_seconds=np.array(columns.get("unit", ())) == "seconds",
            broken=broken,
        )
        self._layouts[:] = [layout, *self._layouts][:_MAX_LAYOUTS]
        return layout


def _cases(
    benchmark: str, params: Sequence[Sequence[Any]], about: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """_OF_CASE of each case of a benchmark, in the order of asv's lists. Raises one of DAMAGE."""
    kind = "".join(benchmark.rpartition(".")[2].partition("_")[:2])
    unit = str(about.get("unit", _UNITS.get(kind, "unit")))  # as asv takes its name
    known = about.get("param_names")
    names = [name for name in known if isinstance(name, str)] if isinstance(known, list) else []
    if not len({*names}) == len(names) == len(params):  # it describes another version
        names = [f"param{number}" for number in range(1, len(params) + 1)]
    for values in itertools.product(*([_literal(text) for text in texts] for texts in params)):
        case = Case(benchmark, dict(zip(names, values, strict=True)))
        axes = axes_of(case)
        str(case).encode()  # no table holds half a character
        device, nbytes = axes.pop("device", None), axes.pop("nbytes", None)
        yield case.family, case.workload, str(case), unit, device, nbytes, json.dumps(axes)


def _literal(text: Any) -> Any:
    """asv stores the repr of each parameter. What is no plain value stays text."""
    if not isinstance(text, str) or len(text) > MAX_LITERAL:
        return str(text)
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    return value if isinstance(value, str | int | float | bool | None) else text


# ---- its numbers --------------------------------------------------------------------------------


def _columns(
    data: Mapping[str, Any], cells: Sequence[Mapping[str, Any]], layout: AsvLayout
) -> dict[str, Any]:
    """The columns in which files of one layout differ, from what asv has of each benchmark: NaN for
    what was skipped, null for what failed. Raises OverflowError for a number that no float holds.
    """
    committed = _microseconds(data.get("date"))
    versions, began, lists = list[Any](), list[Any](), {key: list[Any]() for key in _NUMBERS}
    for benchmark, num in zip(cells, layout.counts, strict=True):
        at, version = _microseconds(benchmark.get("started_at")), benchmark.get("version")
        began += [committed if at is None else at] * num
        versions += [None if version is None else str(version)] * num
        for column, key in _NUMBERS.items():
            cell = benchmark.get(key)
            # a benchmark without parameters may have a bare number
            values = cell if isinstance(cell, list) else [cell]
            lists[column] += values if len(values) == num else [*values, *[None] * num][:num]
    numbers = dict[str, Any]()
    for name, values in lists.items():
        if not set(map(type, values)) <= {float, int, NoneType}:  # text, True, a list
            values = [value if type(value) in (int, float) else None for value in values]
        numbers[name] = np.array(values, dtype=float)  # NaN for None
    value = numbers["value"]
    numbers["seconds"] = np.where(layout.in_seconds, value, np.nan)
    for name in _STATS:
        numbers[name][~np.isfinite(numbers[name]) | np.isnan(numbers["seconds"])] = np.nan
    numbers["num_samples"] = np.trunc(numbers["num_samples"])
    is_missing = np.isnan(value)
    is_skipped = np.array([type(cell) is float for cell in lists["value"]], dtype=bool)  # NaN
    status = np.where(is_missing, np.where(is_skipped, 1, 2), 0).astype(np.int32)
    no_reason = pa.array(np.zeros(len(value), np.int32), mask=~is_missing)
    return {
        "version": versions,
        "started_at": began,
        "committed_at": [committed] * len(began),
        **{name: pa.array(values, from_pandas=True) for name, values in numbers.items()},
        "status": pa.DictionaryArray.from_arrays(pa.array(status), STATUSES),
        "reason": pa.DictionaryArray.from_arrays(no_reason, [NO_REASON]),
    }


def _microseconds(milliseconds: Any) -> int | None:
    """A time since the epoch that can be kept, from what asv has; None for anything else."""
    is_number = type(milliseconds) in (int, float)
    is_time = is_number and FIRST_S * 1000 <= milliseconds < END_S * 1000
    return int(milliseconds) * 1000 if is_time else None
