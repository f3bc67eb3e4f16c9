"""The points of a file of asv's as columns: one for each combination of a benchmark's parameters.

Files of one suite have one layout: the same benchmarks with the same parameters. What names a case
is worked out once per layout; a file then adds its lists of numbers.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hostbench.core import files, units
from hostbench.core.asv_names import asv_name
from hostbench.core.case import Case, counts
from hostbench.core.errors import Warn
from hostbench.core.files import REPLACE
from hostbench.core.records import DAMAGE
from hostbench.families import load as load_workloads
from hostbench.measure.workload import Workload
from hostbench.store import asv_tree
from hostbench.store.columns import FrameRow, axes_of
from hostbench.store.table.rows import AXES, axes_json, text_array

NO_REASON = "asv stores no reason"
_OF_CASE = ("family", "workload", "metric", "case", "unit", "device", AXES)
_NUMBERS = {
    "ci_low_s": "stats_ci_99_a",
    "ci_high_s": "stats_ci_99_b",
    "q25_s": "stats_q_25",
    "q75_s": "stats_q_75",
    "num_samples": "stats_repeat",
}
_STATUSES = pa.array(["ok", "skipped", "failed"])
_OK, _SKIPPED, _FAILED = range(3)
_NUMBER = (int, float)
_MOST_LAYOUTS = 16
"""That are remembered: a suite changes now and then."""
_NO_TIME = np.iinfo(np.int64).min
"""What numpy takes for no time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What all files of one shape share: an entry per benchmark, then arrays over all points."""

    shape: list[tuple[str, Any]]
    """(benchmark, its lists of parameters)."""
    counts: Any
    """Combinations of each benchmark."""
    benchmark_of: Any
    """Each point's place in `shape`."""
    columns: dict[str, pa.Array]
    """What names each point's case, and its bytes a step."""
    rate_bytes: Any
    """Bytes of which gb_per_s is made; NaN where there is no rate."""
    in_seconds: Any
    is_shown: Any
    damaged: dict[str, str]
    """Benchmarks of which a point cannot be shown -> why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """One file's points. Arrays are over all points, sequences over the benchmarks."""

    layout: Layout
    commit: str
    committed_ms: int | None
    env_name: str
    torch: str | None
    numbers: dict[str, Any]
    """Frame column -> numbers; NaN where there is none. Only `value` may be infinite."""
    has_failed: Any
    versions: Sequence[str | None]
    started_ms: Sequence[int | None]

    def is_wanted(self, claimed: Collection[Any]) -> Any:
        """Which points: those that can be shown, without the benchmarks of `claimed`, (benchmark,
        started_ms)."""
        layout = self.layout
        if not claimed:
            return layout.is_shown
        names = (name for name, _ in layout.shape)
        is_own = [pair not in claimed for pair in zip(names, self.started_ms, strict=True)]
        return layout.is_shown & np.array(is_own, dtype=bool)[layout.benchmark_of]


def table(points: Points, machine: str, hardware: str | None) -> pa.Table:
    """The frame's rows of a file, those that cannot be shown too."""
    layout, of_benchmark = points.layout, points.layout.benchmark_of
    size = len(layout.is_shown)
    shared = {
        "machine": machine,
        "hardware": hardware,
        "commit": points.commit,
        "run_id": asv_tree.run_id(points.commit, points.env_name),
        "torch": points.torch,
        "source": "asv",
        "flags": "",
    }
    of_file = np.zeros(size, np.int32)
    started = [points.committed_ms if ms is None else ms for ms in points.started_ms]
    return pa.table(
        {
            **{name: _spread([value], of_file) for name, value in shared.items()},
            "committed_at": _times([points.committed_ms], of_file),
            "started_at": _times(started, of_benchmark),
            **layout.columns,
            "version": _spread(points.versions, of_benchmark),
            **_numbers(points),
        }
    )


def _numbers(points: Points) -> dict[str, Any]:
    """The columns of numbers, and what became of each point."""
    layout, value = points.layout, points.numbers["value"]
    is_missing = np.isnan(value)
    seconds = np.where(layout.in_seconds, value, np.nan)
    rate = np.full(len(value), np.nan)
    np.divide(layout.rate_bytes, seconds, out=rate, where=seconds > 0)
    is_time = layout.in_seconds & ~is_missing
    numbers = {name: np.where(is_time, own, np.nan) for name, own in points.numbers.items()}
    numbers |= {"value": value, "seconds": seconds, "gb_per_s": rate / units.GB}
    status = np.where(is_missing, np.where(points.has_failed, _FAILED, _SKIPPED), _OK)
    no_reason = pa.array(np.zeros(len(value), np.int32), mask=~is_missing)
    return {
        "status": pa.DictionaryArray.from_arrays(status.astype(np.int32), _STATUSES),
        "reason": pa.DictionaryArray.from_arrays(no_reason, pa.array([NO_REASON])),
        **{name: pa.array(own, from_pandas=True) for name, own in numbers.items()},
    }


def read(
    path: Path, data: Any, described: Mapping[str, Any], layouts: list[Layout], warn: Warn
) -> Points | None:
    """The points of a file's content; None, and a warning, for what asv did not write.

    `layouts`: those met so far with the same `described`; a new one is added.
    """
    if isinstance(data, dict) and data.get("version") == 1:
        warn(f"{path} is of asv's format before 2018; `asv update` writes it anew")
        return None
    try:
        points = _points(data, described, layouts)
    except (*DAMAGE, IndexError, OverflowError) as error:
        warn(f"{path} is no asv result file ({type(error).__name__}: {error}); {REPLACE}")
        return None
    for name, why in points.layout.damaged.items():
        warn(f"{path}: {name} cannot be shown ({why}); left out")
    return points


def _points(data: Any, described: Mapping[str, Any], layouts: list[Layout]) -> Points:
    results = data["results"]
    cells = list(zip_longest(*results.values()))  # asv trims nulls at the right end of a row
    columns = dict(zip(data["result_columns"], cells, strict=False))
    nothing = (None,) * len(results)
    shape = list(zip(results, columns.get("params", nothing), strict=True))
    layout = next((one for one in layouts if one.shape == shape), None)
    if layout is None:
        layout = _layout(shape, described)
        layouts[:] = [layout, *layouts][:_MOST_LAYOUTS]
    counts = layout.counts.tolist()
    numbers = {}
    for name, key in _NUMBERS.items():
        numbers[name], _ = _floats(_flat(columns.get(key, nothing), counts))
        numbers[name][~np.isfinite(numbers[name])] = np.nan
    numbers["num_samples"] = np.trunc(numbers["num_samples"])
    cells = columns.get("result", nothing)
    values = [
        cell if isinstance(cell, list) else [cell] * count
        for cell, count in zip(cells, counts, strict=True)
    ]
    numbers["value"], has_failed = _floats(_flat(values, counts))
    versions, started = columns.get("version", nothing), columns.get("started_at", nothing)
    started_ms = [*map(asv_tree.milliseconds, started)]
    committed_ms = asv_tree.milliseconds(data.get("date"))
    requirements = data.get("requirements") or {}
    return Points(
        layout=layout,
        commit=str(data["commit_hash"]),
        committed_ms=committed_ms,
        env_name=str(data.get("env_name") or ""),
        torch=str(requirements["torch"]) if "torch" in requirements else None,
        numbers=numbers,
        has_failed=has_failed,
        versions=[None if version is None else str(version) for version in versions],
        started_ms=started_ms,
    )


def _layout(shape: list[tuple[str, Any]], described: Mapping[str, Any]) -> Layout:
    rows: list[FrameRow] = []
    counts, in_seconds, rate_bytes, damaged = [], [], [], {}
    is_full = False
    for name, params in shape:
        num = asv_tree.num_cases(params)
        if len(rows) + num > files.MAX_POINTS:
            if not is_full:
                limit = f"{files.MAX_POINTS:,} points, the most that is read of a file"
                damaged[name] = f"its parameters make more than {limit}: give them fewer values"
            is_full = True
            counts.append(0)
            continue
        unit, combinations = asv_tree.cases(name, params, described)
        counts.append(num)
        in_seconds += [unit == "seconds"] * len(combinations)
        for values in combinations:
            try:
                row, nbytes = about_case(name, values, unit)
                row[AXES] = axes_json(row)
            except DAMAGE as error:
                damaged[name] = str(error)
                row, nbytes = {}, None
            rows.append(row)
            rate_bytes.append(nbytes or np.nan)
    columns = {name: text_array([row.get(name) for row in rows]) for name in _OF_CASE}
    held = [row.get("nbytes") for row in rows]
    return Layout(
        shape=shape,
        counts=np.array(counts, dtype=np.int64),
        benchmark_of=np.repeat(np.arange(len(counts), dtype=np.int32), counts),
        columns={**columns, "nbytes": pa.array(held, type=pa.int64())},
        rate_bytes=np.array(rate_bytes, dtype=float),
        in_seconds=np.array(in_seconds, dtype=bool),
        is_shown=np.array([bool(row) for row in rows], dtype=bool),
        damaged=damaged,
    )


def about_case(benchmark: str, params: asv_tree.Params, unit: str) -> tuple[FrameRow, int | None]:
    """What names a case in every file, and its bytes a step. Raises one of DAMAGE."""
    work = _ours().get(benchmark)
    case = Case.of(work.name if work else benchmark, dict(params))
    for axis, value in case.axes if work else ():
        if counts(axis) and not isinstance(value, int):
            raise ValueError(f"{axis} is {value!r:.40}, no number")
    known = work is not None and set(case.values) == set(work.axes)
    nbytes = work.nbytes(case) if work and known else None
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


def _flat(cells: Sequence[Any], counts: list[int]) -> list[Any]:
    """The lists of all benchmarks as one."""
    if set(map(type, cells)) != {list} or list(map(len, cells)) != counts:
        cells = [*map(_padded, cells, counts)]
    return list(chain.from_iterable(cells))


def _padded(cell: Any, count: int) -> list[Any]:
    """A list of `count`, null where there is nothing."""
    if not isinstance(cell, list):
        return [None] * count
    return cell if len(cell) == count else [*cell[:count], *[None] * (count - len(cell))]


def _floats(values: list[Any]) -> tuple[Any, Any]:
    """As numbers, NaN for what is none; and where there is none. Raises OverflowError for a number
    that no float holds."""
    try:
        held = pa.array(values, type=pa.float64())
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # text, True, an integer of more than 53 bits
        plain = [value if type(value) in _NUMBER else None for value in values]
        return np.array(plain, dtype=float), np.array([one is None for one in plain], dtype=bool)
    return held.to_numpy(zero_copy_only=False).copy(), held.is_null().to_numpy(zero_copy_only=False)


def _spread(values: Sequence[str | None], places: Any) -> pa.Array:
    """`values[places]`."""
    return text_array(values).take(pa.array(places))


def _times(milliseconds: Sequence[int | None], places: Any) -> pa.Array:
    held = np.array([_NO_TIME if ms is None else ms for ms in milliseconds], dtype=np.int64)
    return pa.array(held.view("M8[ms]")[places]).cast(pa.timestamp("us", tz="UTC"))
