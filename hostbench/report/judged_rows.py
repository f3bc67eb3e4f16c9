"""What was judged as plain rows: each series, each event.

Text is `str`, or None where there is nothing to say; times are UTC; `*_s` and `level*` are seconds,
`value`, `low` and `high` of a series are in its `unit`; effects, `change`, `noise` and `detectable`
are relative: 0.05 is 5 % slower. Numbers that are not known are NaN.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.arrays import Floats
from hostbench.core.units import number_of
from hostbench.judge.causes import Cause
from hostbench.judge.changepoint.change import Change
from hostbench.judge.changepoint.detector import FEWEST_POINTS, SETTLED, longest_piece, relative
from hostbench.judge.events import DetectedEvent, Judged, changes_of
from hostbench.judge.grid import GridColumn, Stopped, group_of
from hostbench.report.event_words import workload_of

AGO = 20
"""Runs of a machine over which the recent change of a series is taken."""
SPARKS = 40
"""Values of a series' small picture, at most."""
_TIME = "datetime64[us, UTC]"
_Row = dict[Any, Any]


def series_rows(judged: Sequence[Judged], newest: pd.DataFrame, machine: str) -> pd.DataFrame:
    """A row for each series that a run of this machine came to, also those that are never judged.

    `newest`: of hostbench.judge.newest, with `ci_low_s` and `ci_high_s`. The columns:

    machine, group           `group`: the machine; machine/environment where it has several
    family, workload, case   `id`: case@group
    unit, points             of its numbers; how many there are of runs that may be judged
    value, low, high         its newest number, with its 99 % interval
    status                   of the newest run that came to it: ok, failed, skipped
    newest_run, newest_commit, newest_at   that run; when it started
    since_run, since_commit, since_committed_at   the first of the runs without a number
    judged, why              whether the detector had enough; why not, in words, else empty
    level, level_ago         now, and AGO runs of its machine ago, by its steps since then
    change                   from the one to the other: 0 where no step lies between. The three are
                             NaN where it is not judged, or a baseline reset lies between
    noise, detectable        standard deviation of the logarithm from point to point; what 20 points
                             would confirm
    changed_run, changed_commit, changed_committed_at, changed_started_at, changed_effect
                             its last confirmed step: the first point at the new level
    sparkline                up to SPARKS values in seconds, the oldest first
    """
    of_setting = {own.grid.setting: own for own in judged if own.grid.cases}
    places = {
        (setting, case): place
        for setting, own in of_setting.items()
        for place, case in enumerate(own.grid.cases)
    }
    stopped = {
        (setting, one.series): one
        for setting, own in of_setting.items()
        for one in own.grid.stopped
    }
    rows = []
    known = newest.astype(object).where(newest.notna(), None).to_dict("records")
    num = len({str(point["setting"]) for point in known})
    for point in known:
        setting, case = str(point["setting"]), str(point["case"])
        own, place = of_setting.get(setting), places.get((setting, case))
        group = group_of(machine, setting, num)
        row = {"machine": machine, "group": group, **_newest(point, f"{case}@{group}")}
        if own is None or place is None:
            rows.append(row | _unjudged(point))
        else:
            rows.append(row | _judged(own, place) | _since(stopped.get((setting, place))))
    return pd.DataFrame(rows, columns=list(_SERIES)).astype(_SERIES)


_SERIES: dict[str, str] = {
    **dict.fromkeys(("machine", "group", "family", "workload", "case", "id", "unit"), "object"),
    "points": "int64",
    **dict.fromkeys(("value", "low", "high"), "float64"),
    **dict.fromkeys(("status", "newest_run", "newest_commit"), "object"),
    "newest_at": _TIME,
    **dict.fromkeys(("since_run", "since_commit"), "object"),
    "since_committed_at": _TIME,
    "judged": "bool",
    "why": "object",
    **dict.fromkeys(("level", "level_ago", "change", "noise", "detectable"), "float64"),
    **dict.fromkeys(("changed_run", "changed_commit"), "object"),
    **dict.fromkeys(("changed_committed_at", "changed_started_at"), _TIME),
    "changed_effect": "float64",
    "sparkline": "object",
}
"""Column -> its type."""


def _newest(point: _Row, id: str) -> _Row:
    """What a series said last."""
    case, is_ok = str(point["case"]), point["status"] == "ok"
    timed = is_ok and point["unit"] == "seconds"
    return {
        "family": case.partition(".")[0],
        "workload": case.partition("[")[0],
        "case": case,
        "id": id,
        "unit": point["unit"],
        "points": int(point["points"]),
        "value": _number(point["seconds"] if timed else point["value"] if is_ok else None),
        "low": _number(point["ci_low_s"]) if timed else None,
        "high": _number(point["ci_high_s"]) if timed else None,
        "status": point["status"],
        "newest_run": point["run_id"],
        "newest_at": point["started_at"],
        "newest_commit": point["commit"],
    }


def _number(value: Any) -> float | None:
    return None if value is None or np.isnan(value) else float(value)


def _unjudged(point: _Row) -> _Row:
    if isinstance(point["scratch"], str):
        why = f"scratch: {point['scratch']}"
    elif not point["points"]:
        why = f"it never had a number: {point['status']}"
    elif point["unit"] != "seconds":
        unit = "no unit" if point["unit"] in (None, "unit") else point["unit"]
        why = f"it is in {unit}: only times are judged"
    else:
        why = "no point of it comes from a run that may be judged"
    return {"judged": False, "why": why, "sparkline": []}


def _judged(own: Judged, place: int) -> _Row:
    """What the detector says of one series."""
    grid, judgement = own.grid, own.machine.own[place]
    logs, why = grid.logs[place], ""
    changes = changes_of(own, place)
    if not judgement.judged:
        num = longest_piece(logs, grid.resets[place])
        why = (
            f"{number_of(num, 'point')} at most between two baseline resets, "
            f"{FEWEST_POINTS} are needed"
        )
    elif judgement.detectable is None:
        why = f"fewer than {FEWEST_POINTS} points have come since its newest baseline reset"
    return {
        "judged": judgement.judged,
        "why": why,
        **_levels(changes, logs, judgement.detectable),
        "noise": judgement.noise,
        "detectable": judgement.detectable,
        **_last_change(changes, grid.columns),
        "sparkline": sparkline(logs),
    }


def _since(ended: Stopped | None) -> _Row:
    """Of a series that has no number any more, the first run without one."""
    if ended is None:
        return {}
    return {
        "since_run": ended.run_id,
        "since_commit": ended.commit,
        "since_committed_at": ended.committed_at,
    }


def _levels(changes: Sequence[Change], logs: Floats, detectable: float | None) -> _Row:
    """Now and AGO runs of the machine ago: what its steps since then make of the level now."""
    if detectable is None:
        return {}
    ends = [_end(one) for one in changes if one.state == "confirmed"]
    points = logs[max(ends, default=0) :]
    points = points[np.isfinite(points)][-SETTLED:]
    steps = [one for one in changes if one.index >= len(logs) - AGO]
    if not len(points) or any(one.kind == "break" for one in steps):
        return {}
    level = float(np.exp(np.median(points)))
    change = relative(sum(one.height for one in steps if one.kind == "step"))
    return {"level": level, "level_ago": level / (1 + change), "change": change}


def _end(change: Change) -> int:
    return change.index if change.until is None else change.until


def _last_change(changes: Sequence[Change], columns: Sequence[GridColumn]) -> _Row:
    """The newest confirmed step."""
    steps = [c for c in changes if c.kind == "step" and c.state == "confirmed"]
    if not steps:
        return {}
    first = columns[steps[-1].index]
    return {
        "changed_commit": first.commit,
        "changed_run": first.run_id,
        "changed_committed_at": first.committed_at,
        "changed_started_at": first.started_at,
        "changed_effect": steps[-1].effect,
    }


def sparkline(logs: Floats) -> list[float]:
    """The points in seconds; of more than SPARKS the medians of as many neighbours each, so that a
    step stays one."""
    points = logs[np.isfinite(logs)]
    if len(points) > SPARKS:
        points = np.array([np.median(part) for part in np.array_split(points, SPARKS)])
    return [float(f"{one:.4g}") for one in np.exp(points)]


def event_rows(pairs: Iterable[tuple[DetectedEvent, Cause]]) -> pd.DataFrame:
    """A row for each event, in the order given. The columns:

    id, machine, group       `machine:GROUP` for the machine's own, else case@group
    family, workload, case   empty for the machine's own
    kind, status, direction  step, temporary, break; as `hostbench changes` says it
    commit                   what it is called by in triage: a run where only that differs
    effect, low, high        with its 99 % interval; NaN for a break, like the levels
    before_s, after_s        medians of up to 20 points, as measured; NaN for the machine's own
    detectable, slack        points by which its index may be off
    last_*, first_*          the last point at the old level, the first at the new one: run, commit,
                             committed_at, started_at
    around_last_*, around_first_*   the points that it lies between for sure
    until_*                  of a temporary one, the first point back at the old level
    near                     list: commits and runs that it may have begun with as well
    moved, moved_of          of the machine's own: how many of how many series went along
    why                      of a break: what changed
    index, from_end          its index among the runs of its group, from the first and the last
    cause, evidence          a label (hostbench.judge.causes), and a list of lines
    """
    found = pd.DataFrame([_event(*pair) for pair in pairs], columns=list(_EVENT))
    return found.astype(_EVENT)


_EVENT: dict[str, str] = {
    **dict.fromkeys(("id", "machine", "group", "family", "workload", "case"), "object"),
    **dict.fromkeys(("kind", "status", "direction", "commit"), "object"),
    **dict.fromkeys(("effect", "low", "high", "before_s", "after_s", "detectable"), "float64"),
    "slack": "int64",
    **{
        f"{end}_{name}": _TIME if name.endswith("_at") else "object"
        for end in ("last", "first", "around_last", "around_first", "until")
        for name in ("run", "commit", "committed_at", "started_at")
    },
    "near": "object",
    **dict.fromkeys(("moved", "moved_of"), "Int64"),
    "why": "object",
    **dict.fromkeys(("index", "from_end"), "int64"),
    "cause": "object",
    "evidence": "object",
}
"""Column -> its type."""


def _event(one: DetectedEvent, cause: Cause) -> _Row:
    grid, columns = one.grid, one.grid.columns
    around, until = one.around(), one.change.until
    moved, moved_of = one.moved or (None, None)
    is_step = one.change.kind != "break"
    return {
        "id": one.event.id,
        "machine": grid.machine,
        "group": grid.group,
        "family": workload_of(one).partition(".")[0],
        "workload": workload_of(one),
        "case": "" if one.series is None else grid.cases[one.series],
        "kind": one.change.kind,
        "status": one.status,
        "direction": one.event.direction,
        "commit": one.event.commit,
        "effect": one.change.effect if is_step else None,
        "low": one.low if is_step else None,
        "high": one.high if is_step else None,
        "before_s": one.before_s if is_step else None,
        "after_s": one.after_s if is_step else None,
        "detectable": one.detectable,
        "slack": one.slack,
        **_column("last", one.last if one.place else None),
        **_column("first", one.first),
        **_column("around_last", around[0]),
        **_column("around_first", around[-1]),
        **_column("until", None if until is None else columns[until]),
        "near": sorted(one.event.near),
        "moved": moved,
        "moved_of": moved_of,
        "why": one.why,
        "index": one.change.index,
        "from_end": len(columns) - one.change.index,
        "cause": cause.label,
        "evidence": list(cause.why),
    }


def _column(end: str, column: GridColumn | None) -> _Row:
    return {
        f"{end}_run": None if column is None else column.run_id,
        f"{end}_commit": None if column is None else column.commit,
        f"{end}_committed_at": None if column is None else column.committed_at,
        f"{end}_started_at": None if column is None else column.started_at,
    }
