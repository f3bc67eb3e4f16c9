"""The answers of the family `transfer`: how fast, is it asynchronous, does pinned memory pay."""

from collections.abc import Iterator

import pandas as pd

from hostbench import units
from hostbench.measure import asyncness
from hostbench.report.link import link
from hostbench.report.rows import Row, dicts, label, largest, ok, seconds, size, unseen

_DIRECTIONS = {
    "transfer.host_to_device": "host to device",
    "transfer.device_to_host": "device to host",
}


def transfer(rows: pd.DataFrame) -> Iterator[tuple[str, str]]:
    for workload, direction in _DIRECTIONS.items():
        one_way = rows[rows["workload"] == workload]
        both_modes = _sizes(one_way, True) & _sizes(one_way, False)
        one_way = largest(one_way[one_way["nbytes"].isin(both_modes)] if both_modes else one_way)
        if len(one_way):
            yield f"How fast is a copy, {direction}?", _rates(one_way)
    plain = rows[rows["workload"].isin(list(_DIRECTIONS))]
    both_modes = _sizes(plain, True) & _sizes(plain, False)
    biggest = largest(plain[plain["nbytes"].isin(both_modes)] if both_modes else plain)
    for memory in ("pageable", "pinned"):
        chosen = biggest[(biggest["memory"] == memory) & ~biggest["blocking"].astype(bool)]
        if len(chosen):
            question = f"Is non_blocking=True from {memory} memory asynchronous?"
            yield question, _asynchronous(chosen)
    yield "Does pinned memory pay?", _pinned(biggest)
    yield from link(rows)


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
        text = f"{_mode(row)} {units.format_rate(row['gb_per_s'])}"
        if base and row["seconds"] != base:
            text += f" ({units.format_factor(base / row['seconds'])})"
        parts.append(text)
    return f"{size(measured)}: " + ", ".join(parts) + label(measured)


def _mode(row: Row) -> str:
    return f"{'sync' if row['blocking'] else 'async'} {row['memory']}"


def _asynchronous(rows: pd.DataFrame) -> str:
    measured = ok(rows)
    if measured.empty:
        return unseen(rows)
    parts = []
    for row in dicts(measured):
        direction = _DIRECTIONS.get(row["workload"], row["workload"])
        parts.append(f"{direction}: {_waits(row)}")
    return f"{size(measured)}, " + "; ".join(parts) + label(measured)


def _waits(row: Row) -> str:
    """What the delay probe found; beside it the share of the time that the call leaves free."""
    finding = row["asynchronous"]
    share = asyncness(row["call_s"], row["seconds"])
    call, whole = units.format_seconds(row["call_s"]), units.format_seconds(row["seconds"])
    returns_early = share > 0.5
    if finding not in (True, False):
        words = "the delay probe could not tell; the call takes"
    elif finding:
        words = "yes, the call returns after"
        if not returns_early:
            words = "yes, the delay probe saw it return before its stream was done, yet it takes"
    else:
        words = "no, the call itself takes"
        if returns_early:
            words = "no, the delay probe saw it wait for its stream, yet it returns after"
    return f"{words} {call} of {whole} (asyncness {share:.2f})"


def _pinned(rows: pd.DataFrame) -> str:
    h2d = rows[rows["workload"] == "transfer.host_to_device"]
    pinned = ok(h2d[h2d["memory"] == "pinned"])
    if pinned.empty:
        return unseen(h2d[h2d["memory"] == "pinned"])
    base = seconds(ok(h2d), memory="pageable", blocking=True)
    if not base:
        return "cannot be said: the pageable copy has no number"
    best = float(pinned["seconds"].min())
    verb = "yes" if best < base else "no"
    return (
        f"{verb}: {size(pinned)} host to device take {units.format_seconds(best)} from pinned "
        f"memory, {units.format_seconds(base)} from pageable "
        f"({units.format_factor(base / best)}){label(pinned)}"
    )
