"""Is it asynchronous? What the delay probe found at every size, and the share of the time that the
call leaves free at the largest."""

from collections.abc import Iterator
from itertools import groupby

import pandas as pd

from hostbench.core import units
from hostbench.measure.measure import asyncness
from hostbench.report.rows import Row, dicts, label, ok, unseen
from hostbench.report.words import DIRECTIONS, direction_of, span

_WORDS = {True: "yes", False: "no", None: "it cannot be told"}
_MIXED = "not always"


def asynchronous(plain: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Question and answer per kind of memory, from the plain copies that need not wait."""
    for memory in ("pageable", "pinned", "registered"):
        chosen = plain[(plain["memory"] == memory) & ~plain["blocking"].astype(bool)]
        if len(chosen):
            yield f"Is non_blocking=True from {memory} memory asynchronous?", _answer(chosen)


def _answer(rows: pd.DataFrame) -> str:
    measured = ok(rows)
    if measured.empty:
        return unseen(rows)
    found: dict[str, dict[int, bool | None]] = {}
    for row in dicts(measured.sort_values("nbytes")):
        sizes = found.setdefault(direction_of(row), {})
        sizes[int(row["nbytes"])] = _finding(row)
    every = {one for sizes in found.values() for one in sizes.values()}
    told = every - {None}
    verdict = _MIXED if len(told) > 1 else _WORDS[next(iter(told), None)]
    said = {direction: _by_size(sizes) for direction, sizes in found.items()}
    both = [f"{' and '.join(ways)} {text}" for text, ways in _turned(said).items()]
    unknown = rows[~rows["workload"].isin(list(measured["workload"]))]
    lead = verdict + "".join(f", {text}" for text in _unknown(unknown))
    lead = f"{' and '.join(found)} {lead}" if len(unknown) else lead
    figures = f"{_figures(measured)}{_without(rows.drop(unknown.index))}{label(measured)}"
    if verdict != _MIXED and all(len(sizes) == 1 for sizes in found.values()):
        return f"{lead}: {figures}"
    return f"{lead}: {'; '.join(both)}. {figures}"


def _unknown(rows: pd.DataFrame) -> Iterator[str]:
    """The directions that were asked for and have no valid number, each with the reason."""
    for workload, direction in DIRECTIONS.items():
        one_way = rows[rows["workload"] == workload]
        if len(one_way):
            yield f"{direction} not known ({unseen(one_way)})"


def _finding(row: Row) -> bool | None:
    """None where the probe could not tell; odd values tell nothing either."""
    finding = row["asynchronous"]
    return finding if isinstance(finding, bool) else None


def _turned(said: dict[str, str]) -> dict[str, list[str]]:
    """Directions of which the same is said, together."""
    turned: dict[str, list[str]] = {}
    for direction, text in said.items():
        turned.setdefault(text, []).append(direction)
    return turned


def _by_size(found: dict[int, bool | None]) -> str:
    """`at every size from 1 KiB to 1 GiB`, or the stretches of sizes that differ."""
    runs = [
        (finding, [size for size, _ in group])
        for finding, group in groupby(found.items(), key=lambda item: item[1])
    ]
    if len(found) > 1 and len(runs) == 1:
        finding, sizes = runs[0]
        words = {True: "at every size", False: "at no size", None: "not to be told at any size"}
        return f"{words[finding]} {span(sizes)}"
    words = {True: "async", False: "not async", None: "not to be told"}
    return ", ".join(f"{words[finding]} {span(sizes)}" for finding, sizes in runs)


def _figures(measured: pd.DataFrame) -> str:
    """The largest size of each direction: how long the call takes of the whole."""
    parts = []
    for workload, direction in DIRECTIONS.items():
        one_way = measured[measured["workload"] == workload]
        if len(one_way):
            row = dicts(one_way.nlargest(1, "nbytes"))[0]
            size = units.format_bytes(int(row["nbytes"]))
            parts.append(f"{size} {direction}: {_waits(row)}")
    return "; ".join(parts)


def _waits(row: Row) -> str:
    """How long the call takes; where that contradicts the delay probe, both are said."""
    if not row["call_s"] >= 0 or not row["seconds"] > 0:
        return "the call's own time is not stored"
    share = asyncness(row["call_s"], row["seconds"])
    call, whole = units.format_seconds(row["call_s"]), units.format_seconds(row["seconds"])
    finding, returns_early = _finding(row), share > 0.5
    words = "the call returns after" if returns_early else "the call itself takes"
    if finding is True and not returns_early:
        words = "the delay probe saw it return before its stream was done, yet it takes"
    if finding is False and returns_early:
        words = "the delay probe saw it wait for its stream, yet it returns after"
    return f"{words} {call} of {whole} (asyncness {share:.2f})"


def _without(rows: pd.DataFrame) -> str:
    failed = dicts(rows[rows["status"] == "failed"])
    named = (
        f"; {units.format_bytes(int(row['nbytes']))} {direction_of(row)}: failed, {row['reason']}"
        for row in failed
    )
    return "".join(named)
