"""The two sides of a comparison: the stored runs that they name, and of each series the numbers of
both, or why there is nothing to judge."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.samples import few_launches, median
from hostbench.core.suggest import did_you_mean
from hostbench.judge.grid import of_few_launches
from hostbench.judge.two_sides import LEVEL_RUNS, SEARCHED_RUNS, Comparison, Lacking, TwoSides
from hostbench.store import nights
from hostbench.store.asv_tree import environment_of
from hostbench.store.results import SETUP, Results

Key = tuple[str, str, str]
"""Where a series was measured, but where machines are compared; its case, its version."""
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
_OF_SIDES = [
    *("case", "version", "status", "reason", "unit", "seconds", "value", "launches", "run_id"),
    *("num_samples", "interleaved_with", "started_at", "position", "file"),
]
_OF_MACHINES = [name for name in _OF_SIDES if name != "launches"]
"""No launch of one machine is interleaved with another's, and of all runs they are many."""
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
    without: Sequence[str] = ()
    """Of a level: the runs that are left out of it."""

    @property
    def is_level(self) -> bool:
        return self.text == LEVEL and self.rows.empty

    @property
    def called(self) -> str:
        """What a page calls it: `main (03845e94)`, for main moves on."""
        if self.is_level:
            return "the level of the runs before"
        commit, scratch = self.rows[["commit", "scratch"]].astype(object).iloc[0]
        if isinstance(scratch, str):
            return f"{self.text} (scratch: {scratch})"
        is_name = self.column == "commit" and not str(commit).startswith(self.text)
        return f"{self.text} ({commit[:8]})" if is_name else self.text


def chosen(
    runs: pd.DataFrame, names: tuple[str, str], resolve: Resolve
) -> tuple[SideRuns, SideRuns]:
    """For each name the runs that may be judged; a run by its id may be scratch, too. A first name
    LEVEL stands for the runs before the second side, a commit or a run. Of two machines these are
    the runs of commits that both measured, where there are any.

    Raises UsageError for a name that means nothing and for sides that are not alike, then
    NothingMeasured for one that no run has.
    """
    if names[0] == LEVEL:
        second = _named(runs, names[1], resolve)
        if second.column not in _IN_TIME:
            raise UsageError(f"{names[1]!r} has no runs before it: name a commit or a run, or two")
        return level_before(runs), second
    first, second = (_named(runs, name, resolve) for name in names)
    if first.column != second.column and {first.column, second.column} != {*_IN_TIME}:
        raise UsageError(
            f"{first.text!r} and {second.text!r} cannot be compared: name two commits or runs, "
            "or two machines"
        )
    # asv's own points of a commit have the same id on every machine
    columns = ["machine", "run_id"]
    if num := len(first.rows[columns].merge(second.rows[columns])):
        raise UsageError(
            f"{first.text!r} and {second.text!r} share {num} runs: name sides that share none, or "
            "single runs by run:ID"
        )
    commits = {*first.rows["commit"].dropna()} & {*second.rows["commit"].dropna()}
    if first.column == "machine" and commits:
        first, second = (
            replace(side, rows=side.rows[side.rows["commit"].isin(commits)])
            for side in (first, second)
        )
    return first, second


def level_before(runs: pd.DataFrame, without: Sequence[str] = ()) -> SideRuns:
    """As a first side: the runs before the second one, but for some."""
    return SideRuns(text=LEVEL, column="run_id", rows=runs.iloc[:0], without=without)


def of_runs(runs: pd.DataFrame, machine: str, run_ids: Sequence[str]) -> SideRuns:
    """These runs of one machine."""
    rows = runs[(runs["machine"] == machine) & runs["run_id"].isin(run_ids)]
    return SideRuns(text=f"run:{run_ids[0]}", column="run_id", rows=rows)


def _named(runs: pd.DataFrame, text: str, resolve: Resolve) -> SideRuns:
    """Raises UsageError, NothingMeasured."""
    prefix, colon, name = text.partition(":")
    if colon and not (prefix in COLUMNS and name):
        raise UsageError(f"cannot read {text!r}: a side is a commit, machine:NAME or run:ID")
    column = COLUMNS[prefix] if colon else "commit"
    commit = None if colon else resolve(text)
    if not colon:
        name = commit or text
    may_be_judged = runs if column == "run_id" else runs[runs["scratch"].isna()]
    values = may_be_judged[column].astype("string").fillna("")
    is_named = values == name if column == "machine" else values.str.startswith(name)
    rows = may_be_judged[is_named.astype(bool)]
    is_stored = runs[column].astype("string").str.startswith(name).any()
    if not colon and commit is None and (len(text) < _MIN_DIGITS or not is_stored):
        raise UsageError(
            f"there is no commit {text!r} here, nor a stored run of one; name a branch, a tag, a "
            f"commit ({_MIN_DIGITS} digits or more), machine:NAME or run:ID"
        )
    if rows.empty:
        known = [value for value in dict.fromkeys(values) if value]
        measures = "hostbench run` there" if is_ours(runs) else f"asv run {name[:8]}^!`"
        hint = f" ({name[:8]}; `{measures} measures it)"
        raise NothingMeasured(
            f"{text!r} has no run{' that may be judged' * (column != 'run_id')}"
            f"{did_you_mean(name, known) if colon else hint}; the newest that have one: "
            f"{', '.join(value if colon else value[:8] for value in known[-5:]) or 'none'}"
        )
    if (num := rows[column].nunique()) > 1:
        raise UsageError(f"{text!r} names {num} of {column}: write more of it")
    return SideRuns(text=text, column=column, rows=rows)


def differing(first: SideRuns, second: SideRuns) -> Iterator[str]:
    """`torch 2.12 there, 2.13 here`: in what else the runs of the sides differ, a machine at a time
    unless machines are compared. A value that only one side knows says nothing."""
    facts: Sequence[str] = SETUP
    rows = second.rows
    pairs = [(own, rows[rows["machine"] == name]) for name, own in first.rows.groupby("machine")]
    if first.column == "machine":
        facts, pairs = facts[:1], [(first.rows, rows)]
        if not first.rows["commit"].isin(rows["commit"]).any():
            yield "other commits and dates"
    for sides in pairs:
        for fact in facts:
            there, here = (sorted(own[fact].dropna().unique()) for own in sides)
            if there and here and set(there).isdisjoint(here):
                yield f"{fact} {', '.join(there)} there, {', '.join(here)} here"


def is_ours(runs: pd.DataFrame) -> bool:
    """Whether hostbench has measured any of these runs; asv alone has those of another project."""
    return bool(runs["run_id"].map(environment_of, na_action="ignore").isna().any())


# ---- the series of both -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SideSeries:
    """What the runs of a side have of a series, the oldest first."""

    newest: StoredRow
    numbers: Sequence[float]
    """What may be judged, not of a run that has too few launches of it, unless these are paired."""
    launches: Sequence[float]
    """Those that were interleaved with the other side's."""
    in_bytes: bool


_NOTHING = SideSeries(newest={}, numbers=(), launches=(), in_bytes=False)


def read(
    first: SideRuns, second: SideRuns, history: Results
) -> tuple[dict[Key, TwoSides], dict[Key, Comparison]]:
    """(the series that both sides have, those of which there is nothing to judge). A series is a
    case, its version and its machine, unless machines are compared."""
    stored = _series_of(first, second, history), _series_of(second, first, history)
    left, right = ({key: own for key, own in side.items() if own.numbers} for side in stored)
    is_in_time, failing = second.column in _IN_TIME, set[Key]()
    levels = dict[Key, dict[str, Any]]()
    if is_in_time and (first.is_level or not all(own.launches for own in left.values())):
        levels, failing = _levels(first, second, history)
    have = levels if first.is_level else left, right
    versions = [{key[:2]: key[2] for key in side} for side in have]
    series, lacking = dict[Key, TwoSides](), dict[Key, Comparison]()
    for key in dict.fromkeys([*have[0], *stored[0], *stored[1]]):
        newest = [side.get(key, _NOTHING).newest for side in stored]
        was_failed, failed = (row.get("status") == "failed" for row in newest)
        own, other, level = left.get(key, _NOTHING), right.get(key, _NOTHING), levels.get(key, {})
        if key in have[0] and key in have[1] and not failed:
            launches = own.launches, other.launches
            series[key] = TwoSides(
                first=own.numbers,
                second=other.numbers,
                interleaved=launches if all(launches) else None,
                machine=key[0],
                in_bytes=other.in_bytes,
                **level,
            )
        elif why := _why_lacking(key, newest, (key in have[0], key in have[1]), versions):
            begins = max(level.get("resets", ()), default=0)
            before_s = own.numbers or level.get("before", [])[begins:]
            after_s = [] if failed else other.numbers
            if failed and (key in failing if first.is_level else was_failed):
                before_s, why = [], (why[0], f"failed before, too: {why[1]}")
            lacking[key] = Comparison(
                verdict=why[0],
                why=why[1],
                before=median(before_s) if before_s else None,
                after=median(after_s) if after_s else None,
                num=(len(before_s), len(after_s)),
                unit="run",
                in_bytes=own.in_bytes or other.in_bytes,
            )
    return series, lacking


def _series_of(side: SideRuns, other: SideRuns, history: Results) -> dict[Key, SideSeries]:
    """Of each series of a side."""
    series = dict[Key, SideSeries]()
    for name, runs in side.rows.groupby("machine"):
        machine, ids = str(name), list(runs["run_id"])
        rows = history.rows(machine, ids, _OF_SIDES if side.column in _IN_TIME else _OF_MACHINES)
        is_paired = rows["interleaved_with"].isin(other.rows["run_id"]).to_numpy()
        rows["few"] = of_few_launches(rows) & ~is_paired
        numbers, in_bytes = _number(rows).mask(rows["few"]).to_numpy(), rows["unit"] == "bytes"
        called = "" if side.column == "machine" else machine
        wheres = {own: where_of(called, own).removeprefix("/") for own in ids}
        by = [rows["run_id"].map(wheres), rows["case"].map(str), rows["version"].map(str)]
        indices: Mapping[Any, Any] = rows.groupby(by).indices
        launches: Any = rows.get("launches")
        newest = rows.iloc[[own[-1] for own in indices.values()]].to_dict("records")
        for (key, own), row in zip(indices.items(), newest, strict=True):
            valid = own[numbers[own] > 0]  # arrays, no rows: a machine has many
            paired = (launches[index].values() for index in valid[is_paired[valid]])
            series[key] = SideSeries(
                newest=row,
                numbers=numbers[valid].tolist(),
                launches=[float(seconds) for cell in paired for seconds in cell],
                in_bytes=bool(in_bytes.to_numpy()[valid].any()),
            )
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


def _levels(
    first: SideRuns, second: SideRuns, history: Results
) -> tuple[dict[Key, dict[str, Any]], set[Key]]:
    """(of each series what TwoSides has of its time: which side is the `older` one, the numbers of
    the runs `before` it, the oldest first, and its `resets`, where a night has confirmed that it
    moved; those that failed the last time before). Where the first side is the level itself, of the
    series that one of the last LEVEL_RUNS runs measured."""
    levels, failing = dict[Key, dict[str, Any]](), set[Key]()
    for name, of_second in second.rows.groupby("machine"):
        machine = str(name)
        ids = [*first.rows.loc[first.rows["machine"] == machine, "run_id"]], [*of_second["run_id"]]
        warn = history.warnings.append
        known = nights.of_machine(history.folder, machine, warn) if history.folder else []
        left_out = *first.without, *(run for night in known for run in night.disturbed_runs)
        confirmed: dict[tuple[str, ...], list[str]] = defaultdict(list)
        for night in known:
            for change in night.confirmed():
                confirmed[change.case, change.version].append(night.run_id)
        points = history.points(machine, _OF_LEVEL)
        points["number"] = _number(points).mask(of_few_launches(points))
        runs, is_turned = _runs_before(points, *ids, left_out, first.is_level)
        is_known = points["number"].notna() | (points["status"] == "failed")
        points = points.loc[is_known, ["run_id", "case", "version", "number"]]
        run = points["run_id"].cat
        where, names = pd.factorize(np.array([where_of(machine, own) for own in run.categories]))
        points["where"] = where[run.codes]
        points["order"] = runs.index.get_indexer(run.categories)[run.codes]
        points = points[points["order"] >= 0].sort_values("order", kind="stable")
        numbers, order = points["number"].to_numpy(), points["order"].to_numpy()
        series: Mapping[Any, Any] = points.groupby(
            ["where", "case", "version"], observed=True
        ).indices
        for (index, case, version), own in series.items():
            key = str(names[index]), str(case), str(version)
            if np.isnan(numbers[own[-1]]):
                failing.add(key)
            last = own[~np.isnan(numbers[own])][-SEARCHED_RUNS:]  # arrays, no frame: many series
            if len(last) and (not first.is_level or order[last[-1]] >= len(runs) - LEVEL_RUNS):
                blamed = confirmed.get((case, version), ())
                moved = runs.index[order[last]].isin(blamed) if blamed else ()
                levels[key] = {
                    "older": int(is_turned),
                    "before": numbers[last].tolist(),
                    "resets": np.flatnonzero(moved).tolist(),
                }
    return levels, failing


def _runs_before(
    points: pd.DataFrame,
    first: Sequence[str],
    second: Sequence[str],
    left_out: Sequence[str],
    is_level: bool,
) -> tuple[pd.DataFrame, bool]:
    """(the runs with a number before the older of two sides, by the dates of the commits, then of
    the runs, on the same hardware, the oldest first; whether that is the second side, as where the
    first one is a level)."""
    by_run = points.groupby("run_id", observed=True)
    runs = points.drop_duplicates("run_id").set_index("run_id")
    runs["at"] = runs["committed_at"].fillna(by_run["started_at"].min())
    runs["started_at"] = by_run["started_at"].min().fillna(runs["at"])
    runs["has_number"] = by_run["number"].count() > 0
    runs = runs[runs["at"].notna()].sort_values(["at", "started_at"], kind="stable")
    runs["order"] = runs.groupby(["at", "started_at"]).ngroup()
    sides = [runs[runs.index.isin(own)] for own in (first, second)]
    if sides[1].empty or (sides[0].empty and not is_level):
        return runs[:0], False
    is_turned = not is_level and sides[0]["order"].max() > sides[1]["order"].max()
    older = sides[1] if is_level or is_turned else sides[0]
    hardware = older["hardware"].dropna()
    is_alike = runs["hardware"].isna() | runs["hardware"].isin(hardware) | hardware.empty
    is_before = runs["order"] < older["order"].min()
    is_before &= ~runs.index.isin([*first, *second, *left_out])
    return runs[is_before & is_alike & runs["scratch"].isna() & runs["has_number"]], is_turned


def _why_lacking(
    key: Key,
    newest: Sequence[StoredRow],
    has_number: tuple[bool, bool],
    versions: Sequence[Mapping[tuple[str, str], str]],
) -> tuple[Lacking, str] | None:
    """What there is to say of a series in place of a verdict; None where neither side has a number,
    or another version's row says it. `newest`: its newest row on each side, empty where there is
    none; `versions`: of the cases that have a number."""
    first, second = newest
    was = f"{first['status']} before: {_why(first)}" if first and not has_number[0] else ""
    if second and second["status"] == "failed":
        return "failed", _why(second)
    if has_number[1]:
        return None if key[:2] in versions[0] else ("new", was)
    if second and second["status"] == "skipped":
        return "skipped", _why(second)
    if has_number[0] and not second and (here := versions[1].get(key[:2])):
        return "other version", f"{key[2]} there, {here} here"
    if not second and (has_number[0] or was.startswith("failed")):
        return "not measured", was
    last = second or first
    return ("not judged", _why(last)) if last and last["status"] == "ok" else None


def _why(row: StoredRow) -> str:
    """Why a row has no number."""
    if row["status"] == "ok":
        return few_launches(row["num_samples"]) if row["few"] else "neither a time nor bytes"
    return row["reason"] if isinstance(row["reason"], str) else ""
