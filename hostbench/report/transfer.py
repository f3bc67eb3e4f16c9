"""The answers of the family `transfer`: how fast, is it asynchronous, does pinned memory pay."""

from collections.abc import Iterator

import pandas as pd

from hostbench.core import units
from hostbench.report.asynchronous import asynchronous
from hostbench.report.conversions import conversions
from hostbench.report.link import link
from hostbench.report.pinning import pays, pinning
from hostbench.report.rows import (
    Row,
    dicts,
    factor,
    label,
    largest,
    lost,
    mode,
    ok,
    seconds,
    size,
    unseen,
)
from hostbench.report.tensors import between, both_ways, many, to_device, to_host
from hostbench.report.words import DIRECTIONS, fitted


def transfer(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Question and answer, what most people ask first; a question of which the run has no case is
    left out."""
    for workload, direction in DIRECTIONS.items():
        one_way = rows[rows["workload"] == workload]
        if one_way.empty:
            continue
        both_modes = _sizes(one_way, True) & _sizes(one_way, False)
        one_way = largest(one_way[one_way["nbytes"].isin(both_modes)] if both_modes else one_way)
        yield f"How fast is a copy, {direction}?", _rates(one_way)
    plain = rows[rows["workload"].isin(list(DIRECTIONS))]
    if len(plain):
        yield from asynchronous(plain)
    yield from pays(rows)
    yield from link(rows)
    if len(plain):
        yield from _latencies(plain)
    for make in (pinning, both_ways, to_device, to_host, many, conversions, between):
        yield from make(rows)


def _sizes(rows: pd.DataFrame, blocking: bool) -> set[int]:
    """Sizes that were measured, or tried, with that way of calling."""
    return set(rows.loc[rows["blocking"].astype(bool) == blocking, "nbytes"])


def _rates(rows: pd.DataFrame) -> str:
    """Every measured combination with its factor over the sync pageable one."""
    measured = ok(rows)
    if measured.empty:
        return unseen(rows)
    base = seconds(measured, memory="pageable", blocking=True)
    parts = []
    for row in dicts(measured.sort_values("gb_per_s")):
        text = f"{mode(row)} {units.format_rate(row['gb_per_s'])}"
        notes = [factor(base, row["seconds"])] if base and row["seconds"] != base else []
        if not row["blocking"] and row["asynchronous"] is False:
            notes.append("not async: the call waits")
        parts.append(text + (f" ({', '.join(notes)})" if notes else ""))
    return f"{size(measured)}: {', '.join(parts)}{lost(rows, mode)}{label(measured)}"


def _latencies(plain: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """The line through each direction's times, from the memory that is best and from pageable."""
    for workload, direction in DIRECTIONS.items():
        rows = plain[plain["workload"] == workload]
        if rows["nbytes"].nunique() < 2:
            continue
        parts = []
        for memory, blocking in (("pinned", False), ("pageable", True)):
            series = rows[(rows["memory"] == memory) & (rows["blocking"] == blocking)]
            if len(ok(series)):
                parts.append(f"{_series(series)}: {fitted(series)}")
        question = f"What do latency and bandwidth make of a copy, {direction}?"
        yield question, "; ".join(parts) + label(rows) if parts else unseen(rows)


def _series(rows: pd.DataFrame) -> str:
    first: Row = dicts(rows)[0]
    return mode(first)
