"""Events, explained, as the tables and marks of the pages Changes and Trend. No streamlit."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import pandas as pd
from words import case as in_words

from hostbench.judge.change import Judgement
from hostbench.judge.detector import FEWEST_POINTS, longest_piece
from hostbench.judge.events import Judged
from hostbench.judge.grid import Axis
from hostbench.report.event_words import HEADINGS, cells, entry_in_words, is_listed, state
from hostbench.report.judged import Told
from hostbench.store.triage import Triage

Workloads = Mapping[tuple[str, str], str]
"""(machine, case) -> workload."""
FAILS, PROVISIONAL, TAKEN_UP, OLD = STANDINGS = "fails now", "provisional", "taken up", "old"
CAUSES = {
    "code": "Likely the code",
    "environment": "Likely the environment",
    "machine-wide": "The whole machine",
    "measurement changed": "Something else is measured",
    "unknown": "Cause unknown",
}
STATE, SINCE, CHANGE, INTERVAL, LEVELS, _, SERIES = HEADINGS
DETECTS = "smallest detectable"
ALONG: dict[str, Axis] = {"commit date": "commit", "run time": "run-time"}
"""As the axes are called on the pages."""
KINDS = ("this series", "its machine")
TOLD = ("what", STATE, CHANGE, SINCE, "cause", "triage")
"""What a pointer says of a change."""
MARKS = ["what", STATE, SINCE, CHANGE, INTERVAL, "cause", "evidence", "triage", "x"]


def listed(told: Iterable[Told], every: bool) -> list[Told]:
    """What `hostbench changes` lists; with `every` the rest, too. Breaks are told by themselves."""
    steps = (one for one in told if one.found.change.kind != "break")
    return [one for one in steps if every or is_listed(one.found, one.recent)]


def standing(told: Told) -> str:
    """One of STANDINGS; empty for what asks for nothing: faster, over, or ended by a break."""
    found = told.found
    if told.fails:
        return FAILS
    if told.triage is not None and not told.lapsed:
        return TAKEN_UP
    if found.status == "provisional":
        return PROVISIONAL
    stayed = found.status == "confirmed" and found.change.effect > 0
    return OLD if stayed and not told.recent else ""


def counts(told: Iterable[Told]) -> dict[str, int]:
    """How many of each of STANDINGS."""
    found = Counter(map(standing, told))
    return {name: found[name] for name in STANDINGS}


def heading(block: Sequence[Told], workloads: Workloads) -> str:
    """`Likely the code: 10 series on box, +9.3% to +10.4%, since 3b056a7d 2026-03-02`; the workload
    where they are all of one."""
    first = min((one.found for one in block), key=lambda one: one.first.committed_at)
    effects = sorted(one.found.change.effect for one in block)
    sizes = list(dict.fromkeys(f"{effect:+.1%}" for effect in (effects[0], effects[-1])))
    ends = {one.found.first.commit for one in block}
    more = " and later" if len(ends) > 1 else ""
    return (
        f"{CAUSES[block[0].cause.label]}: {_whose(block, workloads)}, {' to '.join(sizes)}, "
        f"since {first.first.commit[:8]} {first.first.committed_at:%Y-%m-%d}{more}"
    )


def _whose(block: Sequence[Told], workloads: Workloads) -> str:
    machines = list(dict.fromkeys(one.found.grid.group for one in block))
    where = ", ".join(machines)
    if block[0].found.series is None:
        return f"machine {where}"
    names = {_workload(one, workloads) for one in block}
    of_one = f" of {names.pop()}" if len(names) == 1 else ""
    return f"{len(block)} series{of_one} on {where}"


def evidence(block: Sequence[Told]) -> list[str]:
    """The cause in words, and what somebody has said; the same for the whole block."""
    said = _triage(block[0])
    return [*block[0].cause.why, *([f"triage: {said}"] if said else [])]


def table(block: Iterable[Told], workloads: Workloads, axis: str) -> pd.DataFrame:
    """A row for each series; `trend` is where its page is, from the page Changes. The machine is a
    column where there are several."""
    rows = pd.DataFrame([_row(one, workloads, axis) for one in block])
    return rows if rows["machine"].nunique() > 1 else rows.drop(columns="machine")


def _row(told: Told, workloads: Workloads, axis: str) -> dict[str, str]:
    _, since, change, *numbers, _ = cells(told)
    return {
        STATE: _state(told),
        CHANGE: change,
        "trend": _trend(told, workloads, axis),
        SERIES: _series(told, workloads),
        SINCE: since,
        **dict(zip((INTERVAL, LEVELS, DETECTS), numbers, strict=True)),
        "machine": told.found.grid.group,
        "triage": _triage(told),
    }


def _series(told: Told, workloads: Workloads) -> str:
    """`transfer.host_to_device: cuda, 64 MiB, pinned, blocking=True`."""
    found = told.found
    if found.series is None:
        return "the machine" + (
            f" ({found.moved[0]} of {found.moved[1]} series)" if found.moved else ""
        )
    case, workload = found.grid.cases[found.series], _workload(told, workloads)
    return f"{workload}: {in_words(case, workload)}"


def _workload(told: Told, workloads: Workloads) -> str:
    """Of the event of a series."""
    found = told.found
    return workloads[found.grid.machine, found.grid.cases[found.series or 0]]


def _state(told: Told) -> str:
    return f"{state(told)}, {FAILS}" if told.fails else state(told)


def _triage(told: Told) -> str:
    if told.triage is None:
        return ""
    return entry_in_words(told.triage) + (f" ({told.lapsed})" if told.lapsed else "")


def _trend(told: Told, workloads: Workloads, axis: str) -> str:
    """Empty for a machine's own event, which no page shows alone."""
    found = told.found
    if found.series is None:
        return ""
    machine, case = found.grid.machine, found.grid.cases[found.series]
    view = {"machine": machine, "workload": _workload(told, workloads), "case": case, "axis": axis}
    return f"trend?{urlencode(view, quote_via=quote)}"


def commands(block: Iterable[Told], results: Path) -> str:
    """What takes up each of these, a line each. A name with signs that no entry may hold has none:
    pasted into a terminal they could be anything."""
    where = shlex.quote(str(results.absolute()))
    lines = []
    for one in block:
        event = one.found.event
        if event.id.isprintable():
            way = " --direction faster" if event.direction == "faster" else ""
            lines.append(
                f"hostbench triage set {shlex.quote(event.id)} {shlex.quote(event.commit)} "
                f"investigating{way} --results {where}"
            )
    return "\n".join(lines)


def csv(told: Iterable[Told]) -> pd.DataFrame:
    """Every number of each event."""
    return pd.DataFrame(
        {
            "now": standing(one),
            "state": state(one),
            "machine": one.found.grid.machine,
            "series": one.found.event.id,
            "commit": one.found.first.commit,
            "committed_at": one.found.first.committed_at,
            "run_id": one.found.first.run_id,
            "started_at": one.found.first.started_at,
            "effect": one.found.change.effect,
            "low": one.found.low,
            "high": one.found.high,
            "before_s": one.found.before_s,
            "after_s": one.found.after_s,
            "detectable": one.found.detectable,
            "cause": one.cause.label,
            "evidence": "; ".join(one.cause.why),
            "triage": _triage(one),
        }
        for one in told
    )


def triage_warnings(said: Triage, today: pd.Timestamp) -> list[str]:
    """What cannot be read, as the CLI warns of it, and which entries have expired."""
    found = [f"{path}: {text}" for path, text in said.warnings]
    return found + [
        f"{path}: {entry_in_words(entry)} has expired: {entry.series} since {entry.since}"
        for path, entry in said.entries.items()
        if entry.is_expired(today.date())
    ]


def of_series(
    found: Iterable[Told], judged: Iterable[Judged], machine: str, case: str
) -> list[Told]:
    """The events of one series and of its machine, breaks too, in the order of their place."""
    groups = {own.grid.group for own in _grids(judged, machine, case)}
    return sorted(
        (
            one
            for one in found
            if one.found.grid.group in groups
            and (one.found.series is None or one.found.grid.cases[one.found.series] == case)
        ),
        key=lambda one: one.found.change.index,
    )


def _grids(judged: Iterable[Judged], machine: str, case: str) -> list[Judged]:
    return [own for own in judged if own.grid.machine == machine and case in own.grid.cases]


def marks(told: Sequence[Told], by: str) -> pd.DataFrame:
    """A row for each event: `x`, ms since the epoch, of the first point at the new level, and what
    there is to say of it. `by` is started_at or committed_at."""
    rows = [
        {
            "what": KINDS[one.found.series is None],
            **dict(
                zip((STATE, SINCE, CHANGE, INTERVAL), (_state(one), *cells(one)[1:4]), strict=True)
            ),
            "cause": one.cause.label,
            "evidence": "; ".join(one.cause.why),
            "triage": _triage(one),
            "x": float(getattr(one.found.first, by).value // 1_000_000),
        }
        for one in told
    ]
    return pd.DataFrame(rows, columns=MARKS)


def how_judged(judged: Iterable[Judged], machine: str, case: str) -> str:
    """How small a change a series could have shown, or why it was not judged."""
    said = []
    for own in _grids(judged, machine, case):
        series = own.grid.cases.index(case)
        one, grid = own.machine.own[series], own.grid
        points = longest_piece(grid.logs[series], grid.breaks[series])
        where = f" ({grid.group})" if grid.group != machine else ""
        said.append(f"{_how_judged(one, points)}{where}.")
    return " ".join(said) or (
        "Not judged: no point of it comes from a run that may be. Scratch runs are not judged, nor "
        "other units than seconds, nor runs without a dated commit."
    )


def _how_judged(one: Judgement, points: int) -> str:
    if not one.judged:
        return f"Not judged: {points} points at most between two breaks, {FEWEST_POINTS} are needed"
    if one.detectable is None:
        return (
            f"Judged up to its newest break only: fewer than {FEWEST_POINTS} points have come since"
        )
    return f"The smallest change visible here: {one.detectable:.1%}"
