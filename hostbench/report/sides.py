"""What `hostbench compare A B` names: rows of the tidy frame on two sides, and their series."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hostbench.errors import NothingMeasured, UsageError
from hostbench.judge.compare import Side
from hostbench.report.rows import dicts

COLUMNS = {"machine": "machine", "torch": "torch", "driver": "driver", "run": "run_id"}
"""Prefix of a name -> column; without a prefix it is a commit."""

Resolve = Callable[[str], str | None]
"""A branch, tag or other name of a commit -> its 40 hex digits; None where git knows it not."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One side: what was asked for, and the rows that it names."""

    text: str
    column: str
    rows: pd.DataFrame


def chosen(frame: pd.DataFrame, text: str, resolve: Resolve) -> Chosen:
    """Rows of hostbench's own runs that may be judged; a run by its id may be scratch, too.

    Raises UsageError for a name that cannot be read, NothingMeasured where no row has it.
    """
    prefix, colon, value = text.partition(":")
    if colon and prefix not in COLUMNS:
        known = ", ".join(f"{name}:" for name in COLUMNS)
        raise UsageError(f"cannot read {text!r}: a side is a commit, or begins with {known}")
    column = COLUMNS[prefix] if colon else "commit"
    judged = frame[frame["scratch"].isna()] if column != "run_id" else frame
    values = judged[column].astype("string")
    if colon:
        matches = values.str.startswith(value) if column == "run_id" else values == value
    else:
        matches = values.str.startswith(resolve(text) or text)
    rows = judged[matches.fillna(False).astype(bool) & (judged["status"] == "ok")]
    if rows.empty or (not value and colon):
        seen = ", ".join(list(dict.fromkeys(values.dropna()))[-5:]) or "nothing"
        raise NothingMeasured(f"no run that may be judged has {text!r}; the newest: {seen}")
    named = rows[column].nunique()
    if named > 1:
        raise UsageError(f"{text!r} names {named} of {column}: write more of it")
    return Chosen(text=text, column=column, rows=rows)


def series(first: Chosen, second: Chosen) -> tuple[dict[Key, tuple[Side, Side]], list[str]]:
    """(series -> launches of both sides, why some are left out). A series is a case, its version
    and its machine, unless machines are compared. Raises UsageError for a simulated machine against
    a measured one."""
    by = ["case", "version"] if "machine" in (first.column, second.column) else None
    if by and _is_simulated(first) != _is_simulated(second):
        raise UsageError(
            f"of {first.text!r} and {second.text!r} one is simulated, the other measured: "
            "compare like with like"
        )
    keys = by or ["machine", "case", "version"]
    left, right = _launches(first.rows, keys), _launches(second.rows, keys)
    both = {key: (left[key], right[key]) for key in left if key in right}
    notes = []
    for side, other, here in ((first, right, left), (second, left, right)):
        missing = sum(key not in other for key in here)
        if missing:
            notes.append(f"{missing} series of {side.text} have no number on the other side")
    return both, notes


def _is_simulated(side: Chosen) -> bool:
    return bool((side.rows["device"] == "simulated").any())


def _launches(rows: pd.DataFrame, keys: list[str]) -> dict[Key, Side]:
    found: dict[Key, list[list[float]]] = {}
    for row in dicts(rows):
        launches = row["launches"]
        if isinstance(launches, dict) and launches:
            key = tuple(str(row[name]) for name in keys)
            found.setdefault(key, []).append(_numbers(launches))
    return dict(found)


def _numbers(launches: dict[Any, Any]) -> list[float]:
    return [float(value) for value in launches.values()]
