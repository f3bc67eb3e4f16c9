"""Why a number moved: one label and the evidence for it, the weightiest first.

Code and environment both change all the time, so that a step by itself says little. What decides
is what else moved, or did not: the same series on other machines, the other series of this machine,
and the same commit measured again. Pure functions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from hostbench.facts.record import Difference
from hostbench.judge.change import Options
from hostbench.judge.events import Found, Judged

Facts = tuple[Difference, ...] | None
"""Possible causes, the likeliest first; None where a side has no facts."""
Label = Literal["code", "environment", "machine-wide", "measurement changed", "unknown"]

FEWEST_SERIES = 6
"""Other series that must have points before their standing still says anything."""
MANY, FEW = 0.5, 0.1
"""Share of the machine's other series that move along when the environment does, and at most when
it is plainly one thing that was touched."""
HALF = 0.5
"""Of the step: what a point measured again must show of it to have moved as well."""
EACH_SIDE = 8
"""Points that a series on another machine needs on both sides to have passed a commit."""
SHORTEST = Options().temporary_points[0]
"""Points that it needs within a temporary event to have passed that."""
SHOWN_COMMITS = 3

_STRONG, _UNCHANGED, _PLAIN, _SLIGHT = 4, 3, 2, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A commit that landed; `subject` is None where git was not at hand."""

    commit: str
    subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What else moved where a series or a machine did, and what did not."""

    machine: bool = False
    """Of a series: its machine has an event of its own there."""
    others: tuple[int, int] = (0, 0)
    """Other series of the machine that moved the same way, of those with points."""
    elsewhere: tuple[str, ...] = ()
    """Machines on which the same series moved the same way at these commits."""
    same_facts: tuple[str, ...] = ()
    """Machines on which it did where a fact that differs here changed to the same: no evidence for
    the code."""
    passed: tuple[str, ...] = ()
    """Machines whose same series passed these commits, and could have shown such a step."""
    again: tuple[int, int] = (0, 0)
    """Points of older commits measured again since: how many moved like the step, how many did not.
    """
    is_over: bool = False
    """The old level came back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """What differs between the last certain point at the old level and the first at the new."""

    commits: tuple[Commit, ...]
    """That landed, the newest first; empty where the code is the same."""
    facts: Facts
    measuring: tuple[str, ...] = ()
    """hostbench's own parameters: `launches 10 -> 20`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    label: Label
    why: tuple[str, ...]
    """The evidence in words, the weightiest first."""


def cause(found: Found, seen: Seen, differ: Differences) -> Cause:
    """The label of one change."""
    if found.change.kind == "break":
        is_version = found.why.startswith("version ")
        return Cause(
            label="measurement changed" if is_version else "environment",
            why=(found.why or "a break was declared here",),
        )
    if not differ.commits:
        same = "the same commit on both sides"
        return Cause(label=_of_environment(differ), why=(same, *_told(differ)))
    label, evidence = _weighed(found, seen, differ)
    return Cause(label=label, why=(*evidence, *_told(differ)))


def _of_environment(differ: Differences) -> Label:
    return "measurement changed" if differ.measuring and not differ.facts else "environment"


def _weighed(found: Found, seen: Seen, differ: Differences) -> tuple[Label, list[str]]:
    """Commits landed: was it them, or the environment?"""
    is_machine, explained = found.series is None, bool(differ.facts or differ.measuring)
    series = "series of this machine" if is_machine else "other series of this machine"
    for_code = list(_for_code(seen, series))
    for_environment = list(_for_environment(seen, series))
    if differ.facts is not None and not explained:
        weight = 0 if is_machine or seen.machine else _UNCHANGED
        for_code.append((weight, "no fact that counts differs"))
    evidence = [text for _, text in sorted([*for_code, *for_environment], reverse=True)]
    code, environment = (sum(weight for weight, _ in one) for one in (for_code, for_environment))
    if is_machine and not explained:
        return ("code" if seen.elsewhere else "machine-wide"), evidence
    if seen.machine:
        return ("code" if code > environment else "machine-wide"), evidence
    too_little = differ.facts is None and max(code, environment) < _PLAIN
    if code == environment or too_little:
        return ("machine-wide" if is_machine else "unknown"), evidence
    return ("code" if code > environment else _of_environment(differ)), evidence


def _for_code(seen: Seen, series: str) -> Iterator[tuple[int, str]]:
    if seen.elsewhere:
        yield _STRONG, f"it moved at these commits on {', '.join(seen.elsewhere)} too"
    moved, stayed = seen.again
    if stayed > moved:
        yield _STRONG, f"{stayed} older points measured again since then have not moved"
    moved, of = seen.others
    if of >= FEWEST_SERIES and moved < MANY * of:
        weight = _PLAIN if moved <= FEW * of else _SLIGHT
        yield weight, f"{of - moved} of {of} {series} did not move"


def _for_environment(seen: Seen, series: str) -> Iterator[tuple[int, str]]:
    if seen.machine:
        yield _PLAIN, "the machine has an event of its own there; this goes beyond it"
    moved, stayed = seen.again
    if moved > stayed:
        yield _STRONG, f"{moved} older points measured again since then have moved as well"
    if seen.same_facts:
        where = ", ".join(seen.same_facts)
        yield _SLIGHT, f"it moved at these commits on {where} too, where the same fact changed"
    if seen.passed and not seen.elsewhere:
        yield _PLAIN, f"{', '.join(seen.passed)} passed these commits without it"
        if seen.is_over and not seen.same_facts:
            yield _UNCHANGED, "it has gone again, and was seen on this machine alone"
    moved, of = seen.others
    if moved and moved >= MANY * of:
        yield _PLAIN, f"{moved} of {of} {series} moved with it"


def _told(differ: Differences) -> list[str]:
    """Commits and facts in words."""
    told = [in_words(one) for one in differ.facts or ()]
    told += [f"measured otherwise: {text}" for text in differ.measuring]
    if differ.facts is None:
        told.append("no facts are stored for both sides")
    elif not told and not differ.commits:
        told.append("no fact that counts differs")
    return told + _landed(differ.commits)


def _landed(commits: Sequence[Commit]) -> list[str]:
    if not commits:
        return []
    names = [f"{one.commit[:8]} {one.subject or ''}".strip() for one in commits[:SHOWN_COMMITS]]
    more = f" and {len(commits) - SHOWN_COMMITS} more" if len(commits) > SHOWN_COMMITS else ""
    return [f"landed: {'; '.join(names)}{more}"]


def in_words(one: Difference) -> str:
    """`driver: 580.1 -> 590.2`; the group where it is a GPU's."""
    name = f"{one.group}.{one.name}" if one.group.startswith("gpu") else one.name
    sides = ("not set" if side is None else str(side) for side in (one.before, one.after))
    return f"{name}: {' -> '.join(sides)}"


def look(
    found: Found,
    own: Judged,
    judged: Sequence[Judged],
    facts: Callable[[Found], Facts] = lambda _: None,
) -> Seen:
    """What else moved, and what did not, among everything judged on the same axis; `facts` are
    those that differ across an event."""
    beside = [one for one in own.found if one is not found and _together(one, found)]
    alike = {one.series for one in beside if one.change.effect * found.change.effect > 0}
    others = (len(alike - {None, found.series}), _with_points(found, own))
    if found.series is None:
        others = found.moved or (0, 0)
    moved, passed = _other_machines(found, own, judged)
    here, groups = facts(found) if moved else None, [one.grid.group for one in moved]
    rolled_out = {one.grid.group for one in moved if _share(here, facts(one))}
    return Seen(
        machine=found.series is not None and any(one.series is None for one in beside),
        others=others,
        elsewhere=tuple(group for group in groups if group not in rolled_out),
        same_facts=tuple(group for group in groups if group in rolled_out),
        passed=passed,
        again=_again(found),
        is_over=found.status in ("temporary", "recovered"),
    )


def _together(one: Found, other: Found) -> bool:
    """Whether two events of one grid can have begun at the same place."""
    (start, end), (first, last) = one.bounds, other.bounds
    return start < last and first < end and one.change.kind != "break"


def _with_points(found: Found, own: Judged) -> int:
    valid, index = np.isfinite(own.grid.logs), found.change.index
    both = valid[:, :index].any(axis=1) & valid[:, index:].any(axis=1)
    return int(both.sum()) - (found.series is not None)


def _other_machines(
    found: Found, own: Judged, judged: Sequence[Judged]
) -> tuple[list[Found], tuple[str, ...]]:
    """(where the same moved at the same commits, groups that passed them)."""
    moved, passed = [], []
    for other in judged:
        series = _row_of(found, other)
        if other is own or other.grid.machine == own.grid.machine or series == -1:
            continue
        events = [one for one in other.found if one.series in (series, None)]
        same = [one for one in events if one.series == series and _is_same(one, found)]
        if same:
            moved.append(same[0])
        elif not any(_overlap(one, found) for one in events) and _could_show(found, other, series):
            passed.append(other.grid.group)
    return moved, tuple(passed)


def _share(here: Facts, there: Facts) -> bool:
    """Whether a fact changed to the same across both."""
    values = [{(one.name, one.after) for one in facts or ()} for facts in (here, there)]
    return not values[0].isdisjoint(values[1])


def _is_same(one: Found, other: Found) -> bool:
    """Whether two steps, or two temporary events, of one series on two machines are one: in the
    same direction, at commits as near as both places are sure."""
    alike = one.change.kind == other.change.kind
    return alike and one.change.effect * other.change.effect > 0 and _overlap(one, other)


def _overlap(one: Found, other: Found) -> bool:
    """A temporary event lasts until it is over."""
    (start, end), (first, last) = _stretch(one), _stretch(other)
    return start < last and first < end


def _stretch(one: Found) -> tuple[pd.Timestamp, pd.Timestamp]:
    start, end = one.span
    over = one.change.until
    return start, end if over is None else one.grid.columns[over].committed_at


def _row_of(found: Found, other: Judged) -> int | None:
    """The same series in another grid; None for the machine itself, -1 where there is none."""
    if found.series is None:
        return None
    case = found.grid.cases[found.series]
    return other.grid.cases.index(case) if case in other.grid.cases else -1


def _could_show(found: Found, other: Judged, series: int | None) -> bool:
    judgement = other.machine.common if series is None else other.machine.own[series]
    if judgement is None or judgement.detectable is None:
        return False
    logs = other.grid.logs if series is None else other.grid.logs[[series]]
    start, end = _stretch(found)
    valid = np.flatnonzero(np.isfinite(logs).any(axis=0))
    dates = [other.grid.columns[i].committed_at for i in valid]
    each_side = sum(date <= start for date in dates), sum(date >= end for date in dates)
    within = sum(start < date < end for date in dates)
    is_measured = found.change.until is None or within >= SHORTEST
    enough = is_measured and min(each_side) >= EACH_SIDE
    return enough and judgement.detectable <= abs(found.change.effect)


def _again(found: Found) -> tuple[int, int]:
    """Of points of commits from before the step, measured again after it: moved, stayed."""
    if found.series is None:
        own = list(found.grid.reruns)
    else:
        own = [one for one in found.grid.reruns if one.series == found.series]
    around = found.around()
    newest = around[0].committed_at
    old = {column.commit for column in found.grid.columns if column.committed_at <= newest}
    since = max(column.started_at for column in around)
    ratios = [one.ratio for one in own if one.commit in old and one.started_at >= since]
    moved = sum(ratio / found.change.height >= HALF for ratio in ratios)
    return moved, len(ratios) - moved
