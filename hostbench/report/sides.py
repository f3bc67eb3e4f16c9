"""The two sides of a comparison: the stored runs that they name, and of each series the numbers of
both, or why there is nothing to judge."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from hostbench.core.case import did_you_mean
from hostbench.core.errors import NothingMeasured, UsageError
from hostbench.core.records import environment_of
from hostbench.core.samples import few_launches, median
from hostbench.core.units import number_of
from hostbench.judge.grid import of_few_launches
from hostbench.judge.two_sides import LEVEL_RUNS, SEARCHED_RUNS, Comparison, Lacking, TwoSides
from hostbench.store import nights
from hostbench.store.results import SETUP, Results

Key = tuple[str, str, str]
"""Where a series was measured, but where machines are compared; its case, its version."""
Resolve = Callable[[str], str | None]
"""A branch, tag or other name of a commit -> its 40 hex digits; None where git knows it not."""

COLUMNS = {"": "commit", "machine": "machine", "run": "run_id"}
"""Prefix of a name -> column."""
LEVEL = "level"
"""A first side: the runs before the second one."""
_COLUMNS = [
    *("run_id", "case", "version", "status", "reason", "unit", "seconds", "value", "num_samples"),
    *("scratch", "hardware", "committed_at", "started_at", "interleaved_with"),
]
"""Of the points of a machine; others, each axis of each workload, are many."""
_FIRST, _SECOND, _BEFORE = range(3)
"""What a run is for: a side, or the level of the older one, as a run before it."""


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
    the newest LEVEL_RUNS, of commits that both measured, where there are any.

    Raises UsageError for a name that means nothing and for sides that are not alike, then
    NothingMeasured for one that no run has.
    """
    second = _named(runs, names[1], resolve)
    if names[0] == LEVEL:
        if second.column == "machine":
            raise UsageError(f"{names[1]!r} has no runs before it: name a commit or a run, or two")
        return level_before(runs), second
    first = _named(runs, names[0], resolve)
    if (first.column == "machine") != (second.column == "machine"):
        raise UsageError(
            f"{first.text!r} and {second.text!r} cannot be compared: name two commits or runs, "
            "or two machines"
        )
    # asv's own points of a commit have the same id on every machine
    columns = ["machine", "run_id"]
    if num := len(first.rows[columns].merge(second.rows[columns])):
        raise UsageError(
            f"{first.text!r} and {second.text!r} share {number_of(num, 'run')}: name sides that "
            "share none, or single runs by run:ID"
        )
    commits = {*first.rows["commit"].dropna()} & {*second.rows["commit"].dropna()}
    if first.column == "machine":
        at = commits or runs["commit"]
        first, second = (
            replace(side, rows=side.rows[side.rows["commit"].isin(at)].tail(LEVEL_RUNS))
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
    prefix, _, name = text.rpartition(":")
    if prefix not in COLUMNS or not name:
        raise UsageError(f"cannot read {text!r}: a side is a commit, machine:NAME or run:ID")
    column, commit = COLUMNS[prefix], None if prefix else resolve(name)
    name = commit or name
    values = runs[column].astype("string").fillna("")
    is_named = (values == name if column == "machine" else values.str.startswith(name)).astype(bool)
    if column == "commit" and commit is None and not is_named.any():
        raise UsageError(
            f"there is no commit {text!r} here, nor a stored run of one; name a branch, a tag, a "
            "commit, machine:NAME or run:ID"
        )
    may_be_judged = runs["scratch"].isna() | (column == "run_id")
    rows = runs[is_named & may_be_judged]
    if rows.empty:
        known = [value for value in dict.fromkeys(values[may_be_judged]) if value]
        newest = ", ".join(f"{prefix}:{value}" if prefix else value[:8] for value in known[-5:])
        missing = "is not stored" if column == "run_id" else "has no run that may be judged"
        remedy = "measure it, or name another" if column != "run_id" else "name another"
        raise NothingMeasured(
            f"{text!r} {missing}{did_you_mean(name, known) if prefix else ''}: "
            f"{remedy}{f', as {newest}' if newest else ''}"
        )
    if (num := rows[column].nunique()) > 1:
        raise UsageError(f"{text!r} names {num} of {column}: write more of it")
    return SideRuns(text=text, column=column, rows=rows)


def differing(first: SideRuns, second: SideRuns) -> Iterator[str]:
    """`torch 2.12 there, 2.13 here`: in what else the runs of the sides differ. A value that only
    one side knows says nothing."""
    is_of_machines = first.column == "machine"
    if is_of_machines and not first.rows["commit"].isin(second.rows["commit"]).any():
        yield "other commits and dates"
    for fact in SETUP[:1] if is_of_machines else SETUP:
        there, here = (sorted(side.rows[fact].dropna().unique()) for side in (first, second))
        if there and here and set(there).isdisjoint(here):
            yield f"{fact} {', '.join(there)} there, {', '.join(here)} here"


def is_ours(runs: pd.DataFrame) -> bool:
    """Whether hostbench has measured any of these runs; asv alone has those of another project."""
    return bool(runs["run_id"].map(environment_of, na_action="ignore").isna().any())


# ---- the series of both -------------------------------------------------------------------------


class Series(NamedTuple):
    """What the runs of a side, or those before the older one, have of a series."""

    status: str = ""
    """In the newest of them; empty where none has it."""
    why: str = ""
    """Why that one has no number."""
    numbers: Sequence[float] = ()
    """What may be judged, the oldest first."""
    launches: Sequence[float] = ()
    """Those that were interleaved with the other side's."""
    resets: Sequence[int] = ()
    """Indexes into the numbers where a night has confirmed that the series moved."""
    in_bytes: bool = False


def read(
    first: SideRuns, second: SideRuns, history: Results
) -> tuple[dict[Key, TwoSides], dict[Key, Comparison]]:
    """(the series that both sides have, those of which there is nothing to judge). A series is a
    case, its version and its machine, unless machines are compared."""
    table, lacking = dict[Key, TwoSides](), dict[Key, Comparison]()
    machines = list(dict.fromkeys([*first.rows["machine"], *second.rows["machine"]]))
    for group in [machines] if first.column == "machine" else [[name] for name in machines]:
        stored = defaultdict[Key, list[Series]](lambda: [Series()] * 3)
        for machine in group:
            older = _add(stored, machine, first, second, history)
        level = _BEFORE if first.is_level else _FIRST
        versions = [
            {key[:2]: key[2] for key, roles in stored.items() if roles[role].numbers}
            for role in (level, _SECOND)
        ]
        for key, roles in stored.items():
            one, other, before = roles
            launches, fails = (one.launches, other.launches), other.status == "failed"
            if roles[level].numbers and other.numbers and not fails:
                table[key] = TwoSides(
                    first=one.numbers,
                    second=other.numbers,
                    before=before.numbers,
                    resets=before.resets,
                    older=older,
                    interleaved=launches if all(launches) else None,
                    machine=key[0],
                    in_bytes=other.in_bytes,
                )
            elif lack := _lacking(key, one, other, bool(roles[level].numbers), versions):
                verdict, why = lack
                numbers = one.numbers or before.numbers[max(before.resets, default=0) :]
                if fails and roles[level].status == "failed":
                    numbers, why = [], f"failed before, too: {why}"
                after = [] if fails else other.numbers
                lacking[key] = Comparison(
                    verdict=verdict,
                    why=why,
                    before=median(numbers) if numbers else None,
                    after=median(after) if after else None,
                    num=(len(numbers), len(after)),
                    unit="run",
                    in_bytes=one.in_bytes or other.in_bytes,
                )
    return table, lacking


def _lacking(
    key: Key,
    first: Series,
    second: Series,
    has_first: bool,
    versions: Sequence[Mapping[tuple[str, str], str]],
) -> tuple[Lacking, str] | None:
    """What there is to say of a series in place of a verdict; None where neither side has a number,
    or another version's row says it. `versions`: on each side, of the cases that have a number."""
    was = f"{first.status} before: {first.why}" if first.status and not has_first else ""
    if second.status == "failed":
        return "failed", second.why
    if second.numbers:
        return None if key[:2] in versions[0] else ("new", was)
    if second.status == "skipped":
        return "skipped", second.why
    if not second.status and has_first and key[:2] in versions[1]:
        return "other version", f"{key[2]} there, {versions[1][key[:2]]} here"
    if not second.status and (has_first or first.status == "failed"):
        return "not measured", was
    last = second if second.status else first
    return ("not judged", last.why) if last.status == "ok" else None


def _add(
    stored: dict[Key, list[Series]],
    machine: str,
    first: SideRuns,
    second: SideRuns,
    history: Results,
) -> Literal[0, 1]:
    """Add what a machine has of each series, by what its runs are for. Returns which side is the
    older one."""
    is_in_time, known = first.column != "machine", list[nights.Night]()
    if is_in_time and history.folder:
        known = nights.of_machine(history.folder, machine, history.warnings.append)
    changes = {(night.run_id, c.case, c.version) for night in known for c in night.confirmed()}
    disturbed = [run for night in known for run in night.disturbed_runs]

    sides = [side.rows.loc[side.rows["machine"] == machine, "run_id"] for side in (first, second)]
    points, launches = _points(history, machine, pd.concat(sides))
    runs, older = _runs(points, sides, first.is_level, [*first.without, *disturbed])

    run = points["run_id"].cat
    points["order"] = runs.index.get_indexer(run.categories)[run.codes]
    points = points.sort_values("order", kind="stable", ignore_index=True)
    order, numbers = points["order"].to_numpy(), points["number"].to_numpy()
    role, names = runs["role"].to_numpy()[order], runs.index.to_numpy()[order]
    is_number, in_bytes = ~np.isnan(numbers), (points["unit"] == "bytes").to_numpy()
    # the level itself is that of what one of its newest runs has measured
    newest = np.flatnonzero(runs["role"] == _BEFORE)[-LEVEL_RUNS:]
    is_recent = order >= newest.min(initial=len(runs)) if first.is_level else order >= 0
    machine_name = machine if is_in_time else ""
    # another project's series have an environment, too
    wheres = ["/".join(filter(None, (machine_name, environment_of(n)))) for n in runs.index]
    by = [pd.Categorical(wheres)[order], "case", "version"]
    indices: Mapping[Any, Any] = points.groupby(by, observed=True).indices
    for key, index in indices.items():
        own, has_number = role[index], is_number[index]  # arrays, no frames: series are many
        for number in range(_BEFORE + is_in_time):
            rows = index[own == number]
            if not len(rows):
                continue
            valid = index[(own == number) & has_number]
            if number == _BEFORE:
                valid = valid[-SEARCHED_RUNS:] if is_recent[valid].any() else valid[:0]
            status, why = ("ok", "") if rows[-1] in valid[-1:] else _why(points.iloc[rows[-1]])
            of = [(name, *key[1:]) for name in names[valid]] if launches or changes else []
            stored[key][number] = Series(
                status=status,
                why=why,
                numbers=numbers[valid].tolist(),
                launches=[seconds for name in of for seconds in launches.get(name, ())],
                resets=[n for n, name in enumerate(of) if n and name in changes],
                in_bytes=bool(in_bytes[valid].any()),
            )
    return older


def _points(
    history: Results, machine: str, of_sides: "pd.Series[str]"
) -> tuple[pd.DataFrame, dict[tuple[str, str, str], list[float]]]:
    """(the points of a machine with their `number`, NaN where there is none, and whether they have
    too `few` launches; the launches of runs that were interleaved, by run, case and version).

    What is compared is seconds or bytes, of which less is better. Of any other unit, as a track_
    benchmark may have, nobody knows.
    """
    points, launches = history.points(machine, _COLUMNS), dict[tuple[str, str, str], list[float]]()
    is_paired = points["run_id"].isin(of_sides) & points["interleaved_with"].isin(of_sides)
    points["few"] = of_few_launches(points) & ~is_paired
    number = points["seconds"].where(points["unit"] == "seconds")
    number = number.where(points["unit"] != "bytes", points["value"])
    is_valid = (points["status"] == "ok") & (number > 0) & ~points["few"]
    points["number"] = number.where(is_valid)
    if run_ids := [*points.loc[is_paired, "run_id"].unique()]:
        rows = history.rows(machine, run_ids)[["run_id", "case", "version", "launches"]]
        for *key, seconds in rows.itertuples(index=False):
            launches[tuple(key)] = [*map(float, (seconds or {}).values())]
    return points, launches


def _runs(
    points: pd.DataFrame, sides: Sequence["pd.Series[str]"], is_level: bool, without: Sequence[str]
) -> tuple[pd.DataFrame, Literal[0, 1]]:
    """(the runs of a machine by the dates of their commits, then their own, with what each is for,
    its `role`; which side is the older one)."""
    by_run = points.groupby("run_id", observed=True)
    started_at = by_run["started_at"].min()
    runs = points.drop_duplicates("run_id").set_index("run_id")
    runs["at"] = runs["committed_at"].fillna(started_at)
    runs["started_at"] = started_at.fillna(runs["at"])
    runs["num"] = by_run["number"].count()
    runs = runs.sort_values(["at", "started_at", "run_id"])
    first, second = (np.flatnonzero(runs.index.isin(ids)) for ids in sides)
    is_turned = not is_level and first.max(initial=-1) > second.max(initial=-1)
    older = second if is_level or is_turned else first
    is_before = runs["scratch"].isna() & (runs["num"] > 0) & ~runs.index.isin(without)
    is_before &= runs["hardware"].isna() | runs["hardware"].isin(runs["hardware"].iloc[older])
    is_before.iloc[older[0] if len(older) else 0 :] = False
    runs["role"] = np.where(is_before, _BEFORE, -1)
    runs.iloc[first, -1], runs.iloc[second, -1] = _FIRST, _SECOND
    return runs, 1 if is_turned else 0


def _why(row: "pd.Series[Any]") -> tuple[str, str]:
    """The status of a row that has no number, and why it has none."""
    if row["status"] == "ok":
        return "ok", few_launches(row["num_samples"]) if row["few"] else "neither a time nor bytes"
    return row["status"], row["reason"] if isinstance(row["reason"], str) else ""
