"""Whole asv files as columns: the same rows as hostbench.store.asv_rows gives, many times faster.

Files of one suite have one layout: the same benchmarks with the same parameters. What names a case
is worked out once per layout, by asv_rows itself; a file then adds its lists of numbers. A file of
any other shape is odd, and read point by point.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hostbench.core import units
from hostbench.core.records import DAMAGE
from hostbench.store import asv_rows, asv_tree
from hostbench.store.columns import COLUMNS
from hostbench.store.table.rows import AXES, PLACE, READING, as_int, axes_json

_OF_CASE = ("family", "workload", "metric", "case", "unit", "device", AXES)
_OF_FILE = ("machine", "hardware", "commit", "run_id", "torch", "source", "flags")
_NUMBERS = {
    "value": "result",
    "ci_low_s": "stats_ci_99_a",
    "ci_high_s": "stats_ci_99_b",
    "q25_s": "stats_q_25",
    "q75_s": "stats_q_75",
    "num_samples": "stats_repeat",
}
_PLAIN = {float, int, type(None)}
_STATUSES = ("ok", "skipped", "failed")


class OddError(ValueError):
    """The file does not look as asv writes it."""


class _Texts:
    """One text column: each value has a code."""

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}

    def code(self, value: Any) -> int:
        return self.codes.setdefault(value, len(self.codes)) if isinstance(value, str) else -1

    def array(self, codes: Any) -> pa.Array:
        indices = pa.array(codes, type=pa.int32(), mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(self.codes, type=pa.string()))


@dataclass(slots=True, kw_only=True)
class _Layout:
    """What all files of one shape share: an entry per benchmark, then arrays over all points."""

    shape: list[tuple[str, Any]]
    counts: Any
    codes: dict[str, Any]
    nbytes: Any
    rate_bytes: Any
    """Bytes of which gb_per_s is made; NaN where there is no rate."""
    in_seconds: Any


@dataclass(slots=True)
class Known:
    """The layouts and the texts that were met so far, on any machine."""

    layouts: list[_Layout] = field(default_factory=list)
    texts: dict[str, _Texts] = field(default_factory=dict)

    def text(self, name: str) -> _Texts:
        if name not in self.texts:
            self.texts[name] = _Texts()
        return self.texts[name]


@dataclass(slots=True)
class Columns:
    """The columns of one machine's files, as they are added."""

    results: Path
    machine: str
    entry: Mapping[str, Any]
    described: Mapping[str, Any]
    known: Known
    rows: int = 0
    _parts: dict[str, list[Any]] = field(default_factory=dict)

    def take(self, path: Path, reading: int, data: Any, claimed: set[tuple[Any, ...]]) -> int:
        """Add a file's points but those claimed: (benchmark, started_at). Raises OddError."""
        try:
            return self._take(path, reading, data, claimed)
        except (IndexError, *DAMAGE) as error:
            raise OddError(str(error)) from error

    def _take(self, path: Path, reading: int, data: Any, claimed: set[tuple[Any, ...]]) -> int:
        columns = data["result_columns"]
        place = {name: columns.index(name) for name in ("params", "version", "started_at")}
        layout = self._layout(data, place["params"])
        first = next(asv_tree.points_of(path, self.machine, data, self.described, _odd), None)
        if first is None:
            return 0
        numbers = _numbers(data["results"].values(), columns, layout.counts)
        keep = None
        started = [asv_tree.milliseconds(_cell(c, place["started_at"])) for c in _cells(data)]
        if claimed:
            names = zip(data["results"], started, strict=True)
            keep = np.repeat([pair not in claimed for pair in names], layout.counts)
        versions = [_cell(cells, place["version"]) for cells in _cells(data)]
        code = self.known.text("version").code
        codes = {v: code(None if v is None else str(v)) for v in set(versions)}
        version = np.array([codes[v] for v in versions], dtype=np.int32)
        times = [first.committed_ms if ms is None else ms for ms in started]
        found = {
            **layout.codes,
            **self._of_file(asv_rows.row_of(first, asv_rows.hardware(self.entry)), layout),
            **self._derived(numbers, layout),
            "version": np.repeat(version, layout.counts),
            "started_at": np.repeat(_times(times), layout.counts),
            "committed_at": np.repeat(_times([first.committed_ms]), len(layout.nbytes)),
            READING: np.full(len(layout.nbytes), reading, dtype=np.int64),
            PLACE: np.arange(len(layout.nbytes), dtype=np.int32),
        }
        for name, values in found.items():
            self._parts.setdefault(name, []).append(values if keep is None else values[keep])
        added = len(self._parts[READING][-1])
        self.rows += added
        return added

    def table(self) -> pa.Table:
        """What was added since the last call."""
        arrays = {}
        for name in (*COLUMNS, AXES, READING, PLACE):
            if name in self._parts:
                values = np.concatenate(self._parts.pop(name))
                if name in self.known.texts:
                    arrays[name] = self.known.texts[name].array(values)
                elif values.dtype.kind == "M":
                    arrays[name] = pa.array(values).cast(pa.timestamp("us", tz="UTC"))
                elif name in ("nbytes",):
                    arrays[name] = pa.array(values, mask=values < 0)
                else:
                    arrays[name] = pa.array(values, from_pandas=True)
        self.rows = 0
        return pa.table(arrays)

    def _of_file(self, row: Mapping[str, Any], layout: _Layout) -> dict[str, Any]:
        num = len(layout.nbytes)
        return {
            name: np.full(num, self.known.text(name).code(row.get(name)), dtype=np.int32)
            for name in _OF_FILE
        }

    def _derived(self, numbers: dict[str, Any], layout: _Layout) -> dict[str, Any]:
        """status, reason, seconds, gb_per_s and the numbers, NaN where there is none."""
        value, failed = numbers["value"], numbers.pop("failed")
        status, reason = self.known.text("status"), self.known.text("reason")
        ok, skipped, broke = (status.code(name) for name in _STATUSES)
        missing = np.isnan(value)
        codes = np.where(missing, np.where(failed, broke, skipped), ok).astype(np.int32)
        seconds = np.where(layout.in_seconds, value, np.nan)
        has_rate = seconds > 0
        rate = np.full(len(value), np.nan)
        np.divide(layout.rate_bytes, seconds, out=rate, where=has_rate)
        lacking = ~layout.in_seconds | missing
        for name in _NUMBERS:
            if name != "value":
                numbers[name][lacking | ~np.isfinite(numbers[name])] = np.nan
        numbers["num_samples"] = np.trunc(numbers["num_samples"])
        return {
            **numbers,
            "status": codes,
            "reason": np.where(missing, reason.code(asv_rows.NO_REASON), -1).astype(np.int32),
            "seconds": seconds,
            "gb_per_s": rate / units.GB,
            "nbytes": layout.nbytes,
        }

    def _layout(self, data: Any, params: int) -> _Layout:
        shape = [(name, _cell(cells, params)) for name, cells in data["results"].items()]
        for layout in self.known.layouts:
            if layout.shape == shape:
                return layout
        found = [(name, *asv_tree.cases(name, texts, self.described)) for name, texts in shape]
        made = [
            asv_rows.about_case(name, params, unit)
            for name, unit, combinations in found
            for params in combinations
        ]
        rate_bytes = [nbytes if nbytes else np.nan for _, nbytes in made]
        bytes_or_none = [as_int(row["nbytes"]) for row, _ in made]
        counts = np.array([len(combinations) for _, _, combinations in found], dtype=np.int64)
        rows = [{**row, AXES: axes_json(row)} for row, _ in made]
        codes = {
            name: np.array(
                [self.known.text(name).code(row.get(name)) for row in rows], dtype=np.int32
            )
            for name in _OF_CASE
        }
        layout = _Layout(
            shape=shape,
            counts=counts,
            codes=codes,
            nbytes=np.array([-1 if n is None or n < 0 else n for n in bytes_or_none], np.int64),
            rate_bytes=np.array(rate_bytes, dtype=float),
            in_seconds=np.repeat([unit == "seconds" for _, unit, _ in found], counts).astype(bool),
        )
        self.known.layouts.insert(0, layout)
        return layout


def _odd(warning: str) -> None:
    raise OddError(warning)


def _cells(data: Any) -> Any:
    return data["results"].values()


def _cell(cells: list[Any], place: int) -> Any:
    return cells[place] if place < len(cells) else None


def _numbers(results: Any, columns: list[str], counts: Any) -> dict[str, Any]:
    """The columns of numbers, flat over all benchmarks, and where the result was null."""
    lists: list[tuple[int, list[Any]]] = [
        (columns.index(name) if name in columns else 1 << 30, []) for name in _NUMBERS.values()
    ]
    for cells, count in zip(results, counts.tolist(), strict=True):
        num_cells = len(cells)
        for place, values in lists:
            cell = cells[place] if place < num_cells else None
            if cell is None:
                values.extend(itertools.repeat(None, count))
            elif type(cell) is list and len(cell) == count:
                values += cell
            else:
                raise OddError(f"{cell!r:.40} is no list of {count}")
    found = {}
    for name, (_, values) in zip(_NUMBERS, lists, strict=True):
        if not set(map(type, values)) <= _PLAIN:
            raise OddError(f"{name} holds no plain numbers")
        found[name] = np.array(values, dtype=float)
    result = lists[0][1]
    nulls = [value is None for value in result] if None in result else np.zeros(len(result), bool)
    return {**found, "failed": np.array(nulls, dtype=bool)}


def _times(milliseconds: list[int | None]) -> Any:
    return np.array([np.datetime64("NaT") if ms is None else ms for ms in milliseconds], "M8[ms]")
