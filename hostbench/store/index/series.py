"""The summary: one row per series (machine, case, metric), enough for an overview of everything.

Scratch runs and other tools' figures are left out. `recent` holds the newest values, so that a
level and its noise are known without reading the points.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from hostbench.store.index.shards import times
from hostbench.store.index.table import UNIT
from hostbench.store.peers import SOURCES

KEPT = 21
"""The newest value and the 20 before it."""
_TIME = pa.timestamp("us", tz="UTC")
_NEWEST = ("hardware", "device", "family", "workload", "unit", "version", "status", "reason")
_NEWEST_RUN = ("run_id", "commit", "torch", "driver", "gb_per_s", "flags")
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("machine", "case", "metric")),
        *((name, pa.string()) for name in _NEWEST),
        *((n, pa.float64() if n == "gb_per_s" else pa.string()) for n in _NEWEST_RUN),
        ("num_points", pa.int64()),
        ("first_at", _TIME),
        ("last_at", _TIME),
        ("recent", pa.list_(pa.float64())),
        ("recent_at", pa.list_(pa.int64())),
        ("value", pa.float64()),
        ("baseline", pa.float64()),
        ("noise", pa.float64()),
    ]
)
"""Of the newest point: hardware to flags, last_at. num_points: those with a value. value: the
newest of them (seconds, or the metric's own unit); baseline: median of the 20 before; noise: 1.4826
x their median absolute deviation over the baseline."""

NEEDED = ["machine", "case", "metric", "started_at", "seconds", "value", "scratch", "source"]
NEEDED += [*_NEWEST, *_NEWEST_RUN, UNIT]
"""Columns of the rows that a summary is made of."""

Row = dict[str, Any]
Key = tuple[str, str, str]


def of_table(table: pa.Table) -> dict[Key, Row]:
    """Each series of a sorted table: its newest point, and the values that count."""
    table = _judged(table)
    if not len(table):
        return {}
    at = times(table)
    columns = {name: _column(table, name) for name in ("machine", "case", "metric", "status")}
    value = _floats(table, "seconds")
    value = np.where(np.isnan(value), _floats(table, "value"), value)
    value[columns["status"] != "ok"] = np.nan
    found: dict[Key, Row] = {}
    keys = list(zip(columns["machine"], columns["case"], columns["metric"], strict=True))
    good, values, moments = ~np.isnan(value), value.tolist(), at.tolist()
    total = np.concatenate([[0], np.cumsum(good)]).tolist()
    counted = np.flatnonzero(good).tolist()
    for start, stop in _segments(columns):
        recent = counted[max(total[start], total[stop] - KEPT) : total[stop]]
        row = {
            "num_points": total[stop] - total[start],
            "first_at": moments[start],
            "last_at": moments[stop - 1],
            "recent": [values[place] for place in recent],
            "recent_at": [moments[place] for place in recent],
            "newest": stop - 1,
        }
        key = keys[start]
        found[key] = merged(found[key], row) if key in found else row
    places = pa.array([row.pop("newest") for row in found.values()], type=pa.int64())
    names = [name for name in (*_NEWEST, *_NEWEST_RUN) if name in table.column_names]
    last = table.select(names).take(places)
    newest = [_floats(last, name) if name == "gb_per_s" else _column(last, name) for name in names]
    for row, *more in zip(found.values(), *newest, strict=True):
        row |= zip(names, more, strict=True)
    return found


def merged(first: Row, second: Row) -> Row:
    """The row of both sets of points."""
    older, newer = sorted((first, second), key=lambda row: row["last_at"])
    recent, recent_at = (older[name] + newer[name] for name in ("recent", "recent_at"))
    if older["recent_at"] and newer["recent_at"] and older["recent_at"][-1] > newer["recent_at"][0]:
        order = sorted(range(len(recent)), key=recent_at.__getitem__)
        recent, recent_at = ([values[place] for place in order] for values in (recent, recent_at))
    return {
        **older,
        **newer,
        "num_points": older["num_points"] + newer["num_points"],
        "first_at": min(older["first_at"], newer["first_at"]),
        "recent": recent[-KEPT:],
        "recent_at": recent_at[-KEPT:],
    }


def to_table(series: dict[Key, Row]) -> pa.Table:
    """Sorted by machine, family and case."""
    rows = []
    for (machine, case, metric), row in series.items():
        rows.append({"machine": machine, "case": case, "metric": metric, **row})
    rows.sort(key=lambda row: (row["machine"] or "", row.get("family") or "", row["case"]))
    columns: dict[str, Any] = {f.name: [row.get(f.name) for row in rows] for f in SCHEMA}
    columns |= _levels(columns["recent"])
    for name in ("first_at", "last_at"):
        columns[name] = [at if at and at >= 0 else None for at in columns[name]]
    return pa.table(
        {
            field.name: pa.array(columns[field.name], type=field.type, from_pandas=True)
            for field in SCHEMA
        }
    )


def from_table(table: pa.Table) -> dict[Key, Row]:
    """The inverse of to_table."""
    for name in ("first_at", "last_at"):
        at = table.column(name).cast(pa.int64()).fill_null(np.iinfo(np.int64).min)
        table = table.set_column(table.schema.get_field_index(name), name, at)
    rows = table.drop_columns(["value", "baseline", "noise"]).to_pylist()
    return {(row.pop("machine"), row.pop("case"), row.pop("metric")): row for row in rows}


def _levels(recent: list[list[float]]) -> dict[str, Any]:
    """value, baseline and noise of each series; NaN where there is none."""
    values = np.full((len(recent), KEPT), np.nan)
    for place, row in enumerate(recent):
        values[place, KEPT - len(row) :] = row
    before = values[:, :-1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a series without a value before
        baseline = np.nanmedian(before, axis=1)
        spread = np.nanmedian(np.abs(before - baseline[:, None]), axis=1)
    noise = np.full(len(recent), np.nan)
    np.divide(1.4826 * spread, np.abs(baseline), out=noise, where=baseline != 0)
    return {"value": values[:, -1], "baseline": baseline, "noise": noise}


def _judged(table: pa.Table) -> pa.Table:
    names = table.column_names
    keep = np.ones(len(table), dtype=bool)
    if "scratch" in names:
        keep &= np.asarray(table.column("scratch").is_null())
    if "source" in names:
        keep &= ~np.isin(_column(table, "source"), SOURCES)
    return table if keep.all() else table.filter(pa.array(keep))


def _column(table: pa.Table, name: str) -> Any:
    if name not in table.column_names:
        return np.full(len(table), None, dtype=object)
    column = table.column(name).combine_chunks()
    values = np.array([*column.dictionary.to_pylist(), None], dtype=object)
    return values[column.indices.fill_null(len(values) - 1).to_numpy(zero_copy_only=False)]


def _floats(table: pa.Table, name: str) -> Any:
    if name not in table.column_names:
        return np.full(len(table), np.nan)
    return table.column(name).to_numpy().astype(float)


def _segments(columns: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """(start, stop) of the runs of rows with the same case, metric and machine."""
    num = len(columns["case"])
    changed = np.zeros(num, dtype=bool)
    changed[:1] = True
    for name in ("case", "metric", "machine"):
        changed[1:] |= columns[name][1:] != columns[name][:-1]
    starts = np.flatnonzero(changed)
    yield from zip(starts.tolist(), [*starts[1:].tolist(), num], strict=True)
