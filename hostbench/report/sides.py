"""The two sides of a comparison: the stored runs that they name, the numbers of the series that
both have, and what one of them lacks."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from hostbench.core.case import as_typed
from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.records import PROOF_FAILED
from hostbench.core.suggest import did_you_mean
from hostbench.core.units import number_of
from hostbench.judge.grid import of_few_launches
from hostbench.judge.two_sides import LEVEL_RUNS, TwoSides
from hostbench.store.asv_tree import environment_of
from hostbench.store.results import Results

Key = tuple[str, ...]
"""Where a series was measured, its case, its version."""
StoredRow = dict[Any, Any]
"""Of the tidy frame."""
Resolve = Callable[[str], str | None]
"""A branch, tag or other name of a commit -> its 40 hex digits; None where git knows it not."""

COLUMNS = {"machine": "machine", "run": "run_id"}
"""Prefix of a name -> column; without a prefix it is a commit."""
_IN_TIME = ("commit", "run_id")
"""Sides of which one is older than the other."""
LEVEL = "level"
"""A first side: the runs before the second one."""
_MIN_DIGITS = 4
"""Of an abbreviated commit, as in git."""
_FEW = 3
_OF_SIDES = [
    *("case", "version", "status", "reason", "unit", "seconds", "value", "launches", "run_id"),
    *("num_samples", "commit", "device", "interleaved_with", "torch", "driver", "hardware"),
]
_OF_LEVEL = [
    *("case", "version", "status", "unit", "seconds", "value", "run_id", "num_samples"),
    *("scratch", "hardware", "committed_at", "started_at"),
]
"""Of the frame's columns; others, each axis of each workload, are many."""


# ---- the runs that a side names -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SideRuns:
    """One side: what was asked for, and the runs that it names, as Results.sides has them."""

    text: str
    column: str
    rows: pd.DataFrame

    @property
    def is_level(self) -> bool:
        return self.text == LEVEL and self.rows.empty

    @property
    def called(self) -> str:
        """What a page calls it: `main (03845e94)`, for main moves on."""
        if self.is_level:
            return "the level of the runs before"
        commit = str(self.rows["commit"].iloc[0])
        is_name = self.column == "commit" and not commit.startswith(self.text)
        return f"{self.text} ({commit[:8]})" if is_name else self.text


def chosen(
    runs: pd.DataFrame, names: tuple[str, str], resolve: Resolve
) -> tuple[SideRuns, SideRuns]:
    """For each name the runs that may be judged; a run by its id may be scratch, too. A first name
    LEVEL stands for the runs before the second side, a commit or a run.

    Raises UsageError for a name that means nothing and for sides that are not alike, then
    NothingMeasured for one that no run has.
    """
    is_level = names[0] == LEVEL
    named = [_named(runs, text, resolve) for text in names[is_level:]]
    for side in named:
        if side.rows.empty:
            raise NothingMeasured(_no_run(runs, side, resolve))
        if (num := side.rows[side.column].nunique()) > 1:
            raise UsageError(f"{side.text!r} names {num} of {side.column}: write more of it")
    first, second = named[0], named[-1]
    if is_level:
        if second.column not in _IN_TIME:
            raise UsageError(f"{names[1]!r} has no runs before it: name a commit or a run, or two")
        return SideRuns(text=LEVEL, column=second.column, rows=runs.iloc[:0]), second
    _check_alike(first, second)
    return first, second


def _named(runs: pd.DataFrame, text: str, resolve: Resolve) -> SideRuns:
    prefix, colon, value = text.partition(":")
    if colon and prefix not in COLUMNS:
        raise UsageError(f"cannot read {text!r}: a side is a commit, machine:NAME or run:ID")
    if colon and not value:
        raise UsageError(f"{text!r} names no {prefix}: write one after the colon")
    column = COLUMNS[prefix] if colon else "commit"
    judged = _judged(runs, column)
    values = judged[column].astype("string")
    if column == "run_id":
        matches = values.str.startswith(value)
    elif column == "machine":
        matches = values == value
    else:
        commit = resolve(text)
        matches = values.str.startswith(commit or text)
        is_stored = runs[column].astype("string").str.startswith(text).any()
        if commit is None and (len(text) < _MIN_DIGITS or not is_stored):
            raise UsageError(
                f"git knows no {text!r} here, and no stored run's commit begins so; name a branch, "
                f"a tag, a commit ({_MIN_DIGITS} digits or more), machine:NAME or run:ID"
            )
    return SideRuns(text=text, column=column, rows=judged[matches.fillna(False).astype(bool)])


def _judged(runs: pd.DataFrame, column: str) -> pd.DataFrame:
    return runs[runs["scratch"].isna()] if column != "run_id" else runs


def _no_run(runs: pd.DataFrame, side: SideRuns, resolve: Resolve) -> str:
    known = list(dict.fromkeys(_judged(runs, side.column)[side.column].dropna()))
    if side.column == "commit":
        newest = ", ".join(value[:8] for value in known[-5:]) or "none"
        commit = resolve(side.text) or side.text
        return (
            f"no run of {side.text!r} ({commit[:8]}) that may be judged is stored; `hostbench run` "
            "there measures it, and of hostbench's own commits `hostbench ab` both sides; the "
            f"newest that are: {newest}"
        )
    name = side.text.partition(":")[2]
    which = "run" if side.column == "run_id" else "run that may be judged"
    newest = f"the newest: {', '.join(known[-5:])}" if known else "none of those stored names one"
    return f"no {which} has {side.text!r}{did_you_mean(name, known)}; {newest}"


def _check_alike(first: SideRuns, second: SideRuns) -> None:
    """Not two kinds, but a commit and a run; no runs in common, unless it is one side twice."""
    kinds = {first.column, second.column}
    if len(kinds) > 1 and kinds != {*_IN_TIME}:
        raise UsageError(
            f"{first.text!r} and {second.text!r} are of two kinds: name two commits or runs, or "
            "two of one kind, as two machines"
        )
    # asv's own points of a commit have the same id on every machine
    left, right = (
        {*zip(s.rows["machine"], s.rows["run_id"], strict=True)} for s in (first, second)
    )
    if left != right and (shared := left & right):
        raise UsageError(
            f"{first.text!r} and {second.text!r} share {len(shared)} runs: name sides that share "
            "none, or single runs by run:ID"
        )


# ---- the series of both -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A series that has no number on one side, and why; or that failed in its newest run there."""

    key: Key
    side: Literal[0, 1]
    status: str
    """failed, proof failed, skipped, not measured or of another version."""
    reason: str
    other: bool
    """Whether the other side has one."""


def read(
    first: SideRuns, second: SideRuns, history: Results
) -> tuple[dict[Key, TwoSides], list[Lacking], list[str]]:
    """(the series that both sides have, what one lacks, what else there is to know). A series is a
    case, its version and its machine, unless machines are compared: of these only the commits that
    both measured are taken, where there are any. Raises UsageError for sides that are not alike."""
    stored = [_rows(side, history) for side in (first, second)]
    if first.column == "machine" and len({*map(_is_simulated, stored)}) > 1:
        raise UsageError(
            f"of {first.text!r} and {second.text!r} one is simulated, the other measured: "
            "compare like with like"
        )
    columns = first.column, second.column
    left, right = (_with_numbers(*both) for both in zip(stored, columns, strict=True))
    launches = {key: _interleaved(left[key], right[key]) for key in left if key in right}
    is_in_time = second.column in _IN_TIME
    levels: dict[Key, tuple[Literal[0, 1], list[float]]] = {}
    if is_in_time and (first.is_level or not all(launches.values())):
        levels = _levels(first, second, history)
    if first.is_level:
        left = {key: [] for key in levels}
    series = {}
    for key in (key for key in left if key in right):
        own, other, confounds = left[key], right[key], list[str]()
        if not is_in_time:
            commits = {row["commit"] for row in own} & {row["commit"] for row in other}
            own, other = (
                [r for r in rows if r["commit"] in commits] or rows for rows in (own, other)
            )
            confounds = [] if commits else ["other commits and dates"]
        older, before = levels.get(key, (0, []))
        series[key] = TwoSides(
            first=[row["number"] for row in own],
            second=[row["number"] for row in other],
            older=older,
            before=before,
            interleaved=launches.get(key),
            machine=key[0] if len(key) > 2 else "",
            in_bytes=other[0]["unit"] == "bytes",
            confounds=(*confounds, *_confounds(first.column, own, other)),
        )
    lacking = [*_lacking(0, stored[0], left, right), *_lacking(1, stored[1], right, left)]
    return series, lacking, [*_not_judged(stored)]


def _rows(side: SideRuns, history: Results) -> dict[Key, list[StoredRow]]:
    """The rows of each series of a side, the oldest first."""
    series: dict[Key, list[StoredRow]] = defaultdict(list)
    for machine, runs in side.rows.groupby("machine"):
        rows = history.rows(str(machine), list(runs["run_id"]))
        rows = rows[_OF_SIDES].assign(number=_number(rows), few=of_few_launches(rows))
        for row in rows.to_dict("records"):
            run_id = str(row["run_id"])
            where = where_of(str(machine), run_id)
            if side.column == "machine":
                where = environment_of(run_id) or ""
            series[*([where] if where else []), str(row["case"]), str(row["version"])].append(row)
    return series


def where_of(machine: str, run_id: str) -> str:
    """The machine; machine/environment of another project's."""
    environment = environment_of(run_id)
    return f"{machine}/{environment}" if environment else machine


def _number(rows: pd.DataFrame) -> "pd.Series[float]":
    """What is compared: seconds or bytes, of which less is better. Of any other unit, as a track_
    benchmark may have, nobody knows. NaN where there is none."""
    number = rows["seconds"].where(rows["unit"] == "seconds")
    number = number.where(rows["unit"] != "bytes", rows["value"])
    return number.where((rows["status"] == "ok") & (number > 0))


def _with_numbers(stored: Mapping[Key, list[StoredRow]], column: str) -> dict[Key, list[StoredRow]]:
    """Without the runs that have too few launches of a series, of which none is judged, unless
    they are named themselves; where there is no other the newest, which then says how many it has.
    """
    known = {key: [row for row in rows if row["number"] > 0] for key, rows in stored.items()}
    if column != "run_id":
        known = {
            key: [row for row in rows if not row["few"]] or rows[-1:] for key, rows in known.items()
        }
    return {key: rows for key, rows in known.items() if rows}


def _interleaved(
    left: list[StoredRow], right: list[StoredRow]
) -> tuple[list[float], list[float]] | None:
    """The launches of those runs of a series that were interleaved with the other side's."""
    first, second = (
        [row for row in own if row["interleaved_with"] in {row["run_id"] for row in other}]
        for own, other in ((left, right), (right, left))
    )
    if not first or not second:
        return None
    left_s, right_s = (
        [float(seconds) for row in rows for seconds in row["launches"].values()]
        for rows in (first, second)
    )
    return left_s, right_s


def _levels(
    first: SideRuns, second: SideRuns, history: Results
) -> dict[Key, tuple[Literal[0, 1], list[float]]]:
    """Of each series which side is the older one, by the dates of the commits, then of the runs,
    and the numbers of the runs before it on the same hardware, the oldest first. Where the first
    side is the level itself, of the series that one of the last LEVEL_RUNS runs measured."""
    levels = {}
    for machine, of_second in second.rows.groupby("machine"):
        ids = [*first.rows.loc[first.rows["machine"] == machine, "run_id"]], [*of_second["run_id"]]
        rows = history.points(str(machine), _OF_LEVEL)
        rows["at"] = rows["committed_at"].fillna(rows["started_at"])
        rows["started_at"] = rows["started_at"].fillna(rows["at"])
        rows["order"] = rows.groupby(["at", "started_at"]).ngroup()
        rows = rows[rows["at"].notna()]
        orders = [rows.loc[rows["run_id"].isin(own), "order"] for own in ids]
        if orders[1].empty or (orders[0].empty and not first.is_level):
            continue
        is_turned = not first.is_level and orders[0].max() > orders[1].max()
        older: Literal[0, 1] = 1 if is_turned else 0
        end = 1 if first.is_level else older
        hardware = rows.loc[rows["run_id"].isin(ids[end]), "hardware"].dropna().unique()
        is_alike = rows["hardware"].isna() | rows["hardware"].isin(hardware) | (not len(hardware))
        is_before = ~rows["run_id"].isin([*ids[0], *ids[1]]) & (rows["order"] < orders[end].min())
        rows["number"] = _number(rows)
        counts = rows["number"].notna() & rows["scratch"].isna() & ~of_few_launches(rows)
        rows = rows[counts & is_alike & is_before].sort_values("order", kind="stable")
        recent = set(rows["run_id"].drop_duplicates().tail(LEVEL_RUNS))
        names = {run: where_of(str(machine), str(run)) for run in rows["run_id"].unique()}
        rows["where"] = rows["run_id"].astype(object).map(names)
        for key, own in rows.groupby(["where", "case", "version"], observed=True):
            if not first.is_level or own["run_id"].isin(recent).any():
                levels[tuple(map(str, key))] = older, own["number"].tolist()
    return levels


def _is_simulated(side: Mapping[Key, list[StoredRow]]) -> bool:
    return any(row["device"] == "simulated" for rows in side.values() for row in rows)


def _confounds(
    compared: str, first: Sequence[StoredRow], second: Sequence[StoredRow]
) -> Iterator[str]:
    """`torch 2.12 there, 2.13 here`: of one series, each thing that counts as well. A value that
    only one side knows says nothing. `compared`: the column that the sides are named by."""
    for fact in ("torch",) if compared == "machine" else ("torch", "hardware", "driver"):
        there, here = (
            {row[fact] for row in rows if isinstance(row[fact], str) and row[fact]}
            for rows in (first, second)
        )
        if there and here and not there & here:
            yield f"{fact} {', '.join(sorted(there))} there, {', '.join(sorted(here))} here"


def _lacking(
    side: Literal[0, 1],
    stored: Mapping[Key, list[StoredRow]],
    own: Mapping[Key, list[StoredRow]],
    other: Mapping[Key, list[StoredRow]],
) -> Iterator[Lacking]:
    """What failed in its newest run, and what the other side alone has a number of."""
    failed = [key for key, rows in stored.items() if rows[-1]["status"] == "failed"]
    versions = {key[:-1]: key[-1] for key in own}
    for key in dict.fromkeys([*failed, *(key for key in other if key not in own)]):
        status, reason = "not measured", ""
        if key not in stored and key[:-1] in versions:
            if not side:  # of two sides once
                continue
            status = "of another version"
            reason = f"version {key[-1]} there, {versions[key[:-1]]} here"
        elif key in stored and stored[key][-1]["status"] in ("failed", "skipped"):
            status, reason = stored[key][-1]["status"], str(stored[key][-1]["reason"])
        if reason.startswith(f"{PROOF_FAILED}: "):
            status, reason = "proof failed", reason.removeprefix(f"{PROOF_FAILED}: ")
        yield Lacking(key=key, side=side, status=status, reason=reason, other=key in other)


def _not_judged(stored: Sequence[Mapping[Key, list[StoredRow]]]) -> Iterator[str]:
    odd = {
        as_typed(key[-2])
        for side in stored
        for key, rows in side.items()
        if rows[-1]["status"] == "ok" and rows[-1]["unit"] not in ("seconds", "bytes")
    }
    if odd:
        num = number_of(len(odd), "case", "cases")
        yield f"{num} with no time and no bytes are not judged: {', '.join(sorted(odd)[:_FEW])}"
