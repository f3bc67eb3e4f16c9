"""What `hostbench compare A B` names: the runs of two sides, and the series that both have."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A series that has no number on one side, `place` 0 or 1, and why."""

    key: Key
    place: int
    status: Literal["failed", "skipped", "not measured", "of another version"]
    reason: str
    other: bool
    """Whether the other side has one."""


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
    confounded: set[Key]
    """Series of versions or machines that no commit has on both sides: commits and dates differ,
    too."""
    lacking: list[Lacking]
    """Series that only one side has, and what failed."""

    @property
    def broke(self) -> bool:
        """Whether a series failed on the second side that has a number on the first."""
        return any(one.place and one.other and one.status == "failed" for one in self.lacking)


def both(first: Chosen, second: Chosen, read: Read) -> Sides:
    """Read the rows of two sides. A series is a case, its version and its machine, unless machines
    are compared. Of versions and machines only the commits that both sides measured are taken,
    where there are any. Raises UsageError for a simulated machine against a measured one."""
    by = ["case", "version"] if "machine" in (first.column, second.column) else None
    keys = by or ["machine", "case", "version"]
    (left, no_left), (right, no_right) = (_rows(side, read, keys) for side in (first, second))
    if by and _is_simulated(left) != _is_simulated(right):
        raise UsageError(
            f"of {first.text!r} and {second.text!r} one is simulated, the other measured: "
            "compare like with like"
        )
    shared = [key for key in left if key in right]
    confounded = set()
    if not {"commit", "run_id"} & {first.column, second.column}:
        for key in shared:
            left[key], right[key], alike = _same_commits(left[key], right[key])
            confounded |= set() if alike else {key}
    commits = first.column == second.column == "commit"
    turns = {key: _in_turns(left[key], right[key]) for key in shared}
    return Sides(
        in_turns={key: turn for key, turn in turns.items() if turn is not None},
        series={key: (_runs(left[key]), _runs(right[key])) for key in shared},
        asv={key: mark(_newest(left[key]), _newest(right[key])) for key in shared if commits},
        confounded=confounded,
        lacking=[*_lacking(0, no_left, right, left), *_lacking(1, no_right, left, right)],
    )


def _rows(side: Chosen, read: Read, keys: list[str]) -> tuple[dict[Key, list[Row]], dict[Key, Row]]:
    """(rows with a number, of each series without one its newest row)."""
    found: dict[Key, list[Row]] = {}
    without: dict[Key, Row] = {}
    for machine, own in side.rows.groupby("machine"):
        rows = read(list(own["run_id"]), str(machine))
        names = rows["run_id"].map(lambda run_id: environment_of(run_id) or "")
        if names.nunique() > 1:  # another project's environments are series of their own
            rows = rows.assign(machine=rows["machine"] + ("/" + names).where(names != "", ""))
        for row in dicts(rows):
            key = tuple(str(row[name]) for name in keys)
            if row["status"] == "ok" and row["seconds"] > 0:
                found.setdefault(key, []).append(row)
            else:
                without[key] = row
    return found, {key: row for key, row in without.items() if key not in found}


def _lacking(
    place: int, without: dict[Key, Row], other: dict[Key, list[Row]], own: dict[Key, list[Row]]
) -> Iterator[Lacking]:
    """What failed, and what the other side has a number of."""
    failed = [key for key, row in without.items() if row["status"] == "failed"]
    versions = {key[:-1]: key[-1] for key in own}
    for key in dict.fromkeys([*failed, *(key for key in other if key not in own)]):
        row = without.get(key, {})
        if not row and key[:-1] in versions:
            if place:  # told once
                yield Lacking(
                    key=key,
                    place=1,
                    status="of another version",
                    reason=f"version {key[-1]} there, {versions[key[:-1]]} here",
                    other=True,
                )
            continue
        told = row.get("status") in ("failed", "skipped")
        yield Lacking(
            key=key,
            place=place,
            status=row["status"] if told else "not measured",
            reason=str(row["reason"]) if told else "",
            other=key in other,
        )


def _same_commits(left: list[Row], right: list[Row]) -> tuple[list[Row], list[Row], bool]:
    """The rows of the commits that both have; where they share none all rows, and False."""
    commits = {row["commit"] for row in left} & {row["commit"] for row in right}
    if not commits:
        return left, right, False
    first, second = ([row for row in rows if row["commit"] in commits] for rows in (left, right))
    return first, second, True


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
