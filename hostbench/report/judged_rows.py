"""What was judged of each series as plain rows.

Text is `str`, or None where there is nothing to say; times are UTC; `*_s` and `level*` are seconds,
`value`, `low` and `high` of a series are in its `unit`; effects, `change`, `noise` and `detectable`
are relative: 0.05 is 5 % slower. Numbers that are not known are NaN.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.arrays import Floats
from hostbench.core.units import number_of
from hostbench.judge.changepoint.change import Change
from hostbench.judge.changepoint.detector import FEWEST_POINTS, SETTLED, longest_piece, relative
from hostbench.judge.events import Judged, changes_of
from hostbench.judge.grid import RunPoint, Stopped, group_of

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


def _last_change(changes: Sequence[Change], columns: Sequence[RunPoint]) -> _Row:
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
    if (num := len(points)) > SPARKS:
        size, longer = num // SPARKS, num % SPARKS
        end = longer * (size + 1)  # so many parts have one more
        parts = points[:end].reshape(longer, size + 1), points[end:].reshape(-1, size)
        points = np.concatenate([np.median(part, axis=1) for part in parts if len(part)])
    return [float(f"{one:.4g}") for one in np.exp(points)]
