"""What `hostbench compare A B` names: the runs of two sides, and the series that both have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from hostbench.errors import NothingMeasured, UsageError
from hostbench.judge.asv_rule import Mark, Point, mark
from hostbench.judge.compare import Side
from hostbench.report.rows import Row, dicts, launches_of
from hostbench.store.asv_rows import environment_of

COLUMNS = {"machine": "machine", "torch": "torch", "driver": "driver", "run": "run_id"}
"""Prefix of a name -> column; without a prefix it is a commit."""

Resolve = Callable[[str], str | None]
"""A branch, tag or other name of a commit -> its 40 hex digits; None where git knows it not."""

Key = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One side: what was asked for, and the runs that it names, as History.sides has them."""

    text: str
    column: str
    rows: pd.DataFrame


def chosen(runs: pd.DataFrame, text: str, resolve: Resolve) -> Chosen:
    """Runs that may be judged; a run by its id may be scratch, too.

    Raises UsageError for a name that cannot be read, NothingMeasured where no run has it.
    """
    prefix, colon, value = text.partition(":")
    if colon and prefix not in COLUMNS:
        known = ", ".join(f"{name}:" for name in COLUMNS)
        raise UsageError(f"cannot read {text!r}: a side is a commit, or begins with {known}")
    column = COLUMNS[prefix] if colon else "commit"
    judged = runs[runs["scratch"].isna()] if column != "run_id" else runs
    values = judged[column].astype("string")
    if colon:
        matches = values.str.startswith(value) if column == "run_id" else values == value
    else:
        matches = values.str.startswith(resolve(text) or text)
    rows = judged[matches.fillna(False).astype(bool)]
    if rows.empty or (not value and colon):
        seen = ", ".join(list(dict.fromkeys(values.dropna()))[-5:]) or "nothing"
        raise NothingMeasured(f"no run that may be judged has {text!r}; the newest: {seen}")
    named = rows[column].nunique()
    if named > 1:
        raise UsageError(f"{text!r} names {named} of {column}: write more of it")
    return Chosen(text=text, column=column, rows=rows)


Read = Callable[[Sequence[str], str], pd.DataFrame]
"""The rows of these runs of a machine: History.of_runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The series that both sides have."""

    series: dict[Key, tuple[Side, Side]]
    """Launches of the first and of the second, run by run."""
    in_turns: dict[Key, tuple[Side, Side]]
    """The same of the runs alone whose launches took turns; without a series that has none."""
    asv: dict[Key, Mark]
    """What asv compare says of each; empty unless both sides are commits."""
    notes: list[str]
    """Why some series are left out."""


def both(first: Chosen, second: Chosen, read: Read) -> Sides:
    """Read the rows of two sides. A series is a case, its version and its machine, unless machines
    are compared. Raises UsageError for a simulated machine against a measured one."""
    by = ["case", "version"] if "machine" in (first.column, second.column) else None
    keys = by or ["machine", "case", "version"]
    left, right = (_rows(side, read, keys) for side in (first, second))
    if by and _is_simulated(left) != _is_simulated(right):
        raise UsageError(
            f"of {first.text!r} and {second.text!r} one is simulated, the other measured: "
            "compare like with like"
        )
    shared = [key for key in left if key in right]
    notes = []
    for side, other, here in ((first, right, left), (second, left, right)):
        missing = sum(key not in other for key in here)
        if missing:
            notes.append(f"{missing} series of {side.text} have no number on the other side")
    commits = first.column == second.column == "commit"
    turns = {key: _in_turns(left[key], right[key]) for key in shared}
    return Sides(
        in_turns={key: turn for key, turn in turns.items() if turn is not None},
        series={key: (_runs(left[key]), _runs(right[key])) for key in shared},
        asv={key: mark(_newest(left[key]), _newest(right[key])) for key in shared if commits},
        notes=notes,
    )


def _rows(side: Chosen, read: Read, keys: list[str]) -> dict[Key, list[Row]]:
    found: dict[Key, list[Row]] = {}
    for machine, own in side.rows.groupby("machine"):
        rows = read(list(own["run_id"]), str(machine))
        rows = rows[(rows["status"] == "ok") & (rows["seconds"] > 0)]
        names = rows["run_id"].map(lambda run_id: environment_of(run_id) or "")
        if names.nunique() > 1:  # another project's environments are series of their own
            rows = rows.assign(machine=rows["machine"] + ("/" + names).where(names != "", ""))
        for row in dicts(rows):
            found.setdefault(tuple(str(row[name]) for name in keys), []).append(row)
    return found


def _in_turns(left: list[Row], right: list[Row]) -> tuple[Side, Side] | None:
    """Of the runs of one series those alone whose launches took turns with the other side's."""
    first, second = (
        [row for row in own if row["interleaved_with"] in {one["run_id"] for one in other}]
        for own, other in ((left, right), (right, left))
    )
    return (_runs(first), _runs(second)) if first and second else None


def _is_simulated(side: dict[Key, list[Row]]) -> bool:
    return any(row["device"] == "simulated" for rows in side.values() for row in rows)


def _runs(rows: list[Row]) -> Side:
    """The launches of each run; of a run that kept none its one number."""
    return [list(map(float, launches_of(row).values())) or [row["seconds"]] for row in rows]


def _newest(rows: list[Row]) -> Point:
    """What asv's file holds: the last run of a commit."""
    row = rows[-1]
    num = row["num_samples"]
    return Point(
        seconds=row["seconds"],
        low=row["ci_low_s"],
        high=row["ci_high_s"],
        samples=tuple(map(float, launches_of(row).values())),
        repeat=None if pd.isna(num) else int(num),
    )
