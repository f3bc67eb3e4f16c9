"""The series that both sides of `hostbench compare A B` have, and what one of them lacks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hostbench.core.case import as_typed
from hostbench.core.errors import UsageError
from hostbench.core.records import PROOF_FAILED
from hostbench.core.units import number_of
from hostbench.facts import record
from hostbench.judge.grid import of_few_launches
from hostbench.judge.two_sides import RunsOfLaunches, TwoSides
from hostbench.report.levels import RunsBefore, runs_before, where_of
from hostbench.report.side_runs import Key, SideRuns, check
from hostbench.store.asv_tree import environment_of
from hostbench.store.results import Results

Cells = dict[Any, Any]
"""A row of the tidy frame: column -> value."""

LackingStatus = Literal["failed", "proof failed", "skipped", "not measured", "of another version"]
_LESS_IS_BETTER = {"seconds": "seconds", "bytes": "value"}
"""Unit -> the column of its numbers. Of any other, as a track_ benchmark may have, nobody knows."""
_FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """A series that has no number on one side, and why; or that failed in its newest run there."""

    key: Key
    side: int
    """0 or 1."""
    status: LackingStatus
    reason: str
    other: bool
    """Whether the other side has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The series that both sides have."""

    series: dict[Key, TwoSides]
    confounded: dict[Key, list[str]]
    """In what else than what is compared the sides of a series differ; without those that do not.
    """
    lacking: list[Lacking]
    """Series that only one side has, and what failed."""
    remarks: list[str]
    """What else has to be known of the sides."""
    busy: str = ""
    """`load 3.8`: what else ran on the machine; empty where it was quiet."""

    @property
    def broke(self) -> bool:
        """Whether a series failed on the second side that has a number on the first."""
        return any(lack.side and lack.other and "failed" in lack.status for lack in self.lacking)


def both(first: SideRuns, second: SideRuns, history: Results) -> Sides:
    """Read the rows of two sides. A series is a case, its version and its machine, unless machines
    are compared. Of versions and machines only the commits that both sides measured are taken,
    where there are any. Raises UsageError for sides that are not alike."""
    check(first, second)
    (left, ends), (right, right_ends) = (_rows(side, history) for side in (first, second))
    if first.column == "machine" and _is_simulated(left) != _is_simulated(right):
        raise UsageError(
            f"of {first.text!r} and {second.text!r} one is simulated, the other measured: "
            "compare like with like"
        )
    interleaved = {key: _interleaved(left[key], right[key]) for key in left if key in right}
    in_time = second.column in ("commit", "run_id")
    needed = in_time and (first.is_level or not all(interleaved.values()))
    before = runs_before(first, second, history) if needed else {}
    if first.is_level:
        left = {key: [] for key in before}
    series, confounded = dict[Key, TwoSides](), dict[Key, list[str]]()
    for key in [key for key in left if key in right]:
        alike, known = True, before.get(key, RunsBefore(older=0, seconds=()))
        if not in_time:
            left[key], right[key], alike = _same_commits(left[key], right[key])
        differs = [] if alike else ["other commits and dates"]
        differs += _confounds(first.column, left[key], right[key])
        if differs:
            confounded[key] = differs
        series[key] = TwoSides(
            first=_runs(left[key]),
            second=_runs(right[key]),
            before=known.seconds,
            older=known.older,
            interleaved=interleaved.get(key),
            machine=key[0] if len(key) > 2 else "",
            in_bytes=right[key][0]["unit"] == "bytes",
            is_confounded=bool(differs),
        )
    return Sides(
        series=series,
        confounded=confounded,
        lacking=[*_lacking(0, ends, right, left), *_lacking(1, right_ends, left, right)],
        remarks=[*_not_judged({**ends, **right_ends})],
        busy=_busy(history, first, second),
    )


def _busy(history: Results, *sides: SideRuns) -> str:
    """Of the newest run of each side, the second's last."""
    newest = {tuple(side.rows.iloc[-1][["machine", "run_id"]]) for side in sides if len(side.rows)}
    busy = ""
    for run in (run for run in history.runs() if (run.machine, run.run_id) in newest):
        facts = history.facts(run)
        busy = record.busy(facts.get("before", {}), facts.get("during", {})) or busy
    return busy


_READ = [
    *("case", "version", "status", "reason", "unit", "seconds", "value", "launches"),
    *("machine", "run_id", "commit", "device", "interleaved_with", "torch", "driver", "hardware"),
]
"""Of the frame's columns; others, each axis of each workload, are many."""


def _rows(side: SideRuns, history: Results) -> tuple[dict[Key, list[Cells]], dict[Key, Cells]]:
    """(the rows with a number of each series, its newest row of any kind)."""
    with_number: dict[Key, list[Cells]] = {}
    newest: dict[Key, Cells] = {}
    for machine, own in side.rows.groupby("machine"):
        stored = history.rows(str(machine), list(own["run_id"]))  # the oldest first
        for row in stored[_READ].assign(few=of_few_launches(stored)).to_dict("records"):
            where = _where(side.column, str(machine), str(row["run_id"]))
            key = (*where, str(row["case"]), str(row["version"]))
            newest[key] = row
            column = _LESS_IS_BETTER.get(str(row["unit"]))
            if row["status"] == "ok" and column is not None and row[column] > 0:
                with_number.setdefault(key, []).append({**row, "number": row[column]})
    if side.column != "run_id":
        with_number = {key: _with_enough(rows) for key, rows in with_number.items()}
    return with_number, newest


def _where(column: str, machine: str, run_id: str) -> tuple[str, ...]:
    """The beginning of a series' key: its machine, and another project's environment there. Without
    what is compared."""
    environment = environment_of(run_id)
    if column == "machine":
        return (environment,) if environment else ()
    return (machine if column == "environment" else where_of(machine, run_id),)


def _with_enough(rows: list[Cells]) -> list[Cells]:
    """Without the runs that have too few launches of this series, of which none is judged; where
    there is no other the newest, which then says how many it has."""
    return [row for row in rows if not row["few"]] or rows[-1:]


def _not_judged(newest: Mapping[Key, Cells]) -> Iterator[str]:
    odd = {
        as_typed(key[-2])
        for key, row in newest.items()
        if row["status"] == "ok" and row["unit"] not in _LESS_IS_BETTER
    }
    if odd:
        num = number_of(len(odd), "case", "cases")
        yield f"{num} with no time and no bytes are not judged: {', '.join(sorted(odd)[:_FEW])}"


def _lacking(
    side: int, newest: dict[Key, Cells], other: dict[Key, list[Cells]], own: dict[Key, list[Cells]]
) -> Iterator[Lacking]:
    """What failed in its newest run, and what the other side alone has a number of."""
    failed = [key for key, row in newest.items() if row["status"] == "failed"]
    versions = {key[:-1]: key[-1] for key in own}
    for key in dict.fromkeys([*failed, *(key for key in other if key not in own)]):
        row = newest.get(key, {})
        if not row and key[:-1] in versions:
            if side:  # of two sides once
                yield Lacking(
                    key=key,
                    side=1,
                    status="of another version",
                    reason=f"version {key[-1]} there, {versions[key[:-1]]} here",
                    other=True,
                )
            continue
        status: LackingStatus = "not measured"
        reason = ""
        if row.get("status") in ("failed", "skipped"):
            status, reason = row["status"], str(row["reason"])
        if reason.startswith(f"{PROOF_FAILED}: "):
            status, reason = "proof failed", reason.removeprefix(f"{PROOF_FAILED}: ")
        yield Lacking(key=key, side=side, status=status, reason=reason, other=key in other)


def _same_commits(left: list[Cells], right: list[Cells]) -> tuple[list[Cells], list[Cells], bool]:
    """The rows of the commits that both have; where they share none all rows, and False."""
    commits = {row["commit"] for row in left} & {row["commit"] for row in right}
    if not commits:
        return left, right, False
    first, second = ([row for row in rows if row["commit"] in commits] for rows in (left, right))
    return first, second, True


def _interleaved(
    left: list[Cells], right: list[Cells]
) -> tuple[RunsOfLaunches, RunsOfLaunches] | None:
    """Of the runs of one series those whose launches were interleaved with the other side's."""
    first, second = (
        [row for row in own if row["interleaved_with"] in {one["run_id"] for one in other}]
        for own, other in ((left, right), (right, left))
    )
    return (_runs(first), _runs(second)) if first and second else None


def _is_simulated(side: dict[Key, list[Cells]]) -> bool:
    return any(row["device"] == "simulated" for rows in side.values() for row in rows)


def _runs(rows: list[Cells]) -> RunsOfLaunches:
    """The launches of each run; of a run that kept none, as asv's, its one number."""
    kept = (row["launches"] if isinstance(row["launches"], dict) else {} for row in rows)
    return [
        [*map(float, launches.values())] or [row["number"]]
        for row, launches in zip(rows, kept, strict=True)
    ]


def _confounds(compared: str, first: Sequence[Cells], second: Sequence[Cells]) -> Iterator[str]:
    """`torch 2.12 there, 2.13 here`: of one series, each thing that counts as well. A value that
    only one side knows says nothing. `compared`: the column that the sides are named by."""
    facts = {"torch"} if compared == "machine" else {"torch", "driver", "hardware"}
    for fact in sorted(facts - {compared}, reverse=True):
        there, here = (
            {row[fact] for row in rows if isinstance(row[fact], str) and row[fact]}
            for rows in (first, second)
        )
        if there and here and not there & here:
            yield f"{fact} {', '.join(sorted(there))} there, {', '.join(sorted(here))} here"
