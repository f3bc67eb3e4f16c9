"""Events as causes: a row for each commit or fact that moved numbers, over all machines."""

import hashlib
import re
import shlex
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.case import as_typed
from hostbench.families import declared
from hostbench.judge.events import STATES, Event
from hostbench.judge.history import Series
from hostbench.report.changes import compared, entry_in_words, evidence_lines
from hostbench.store.triage import Triage

SERIES, MACHINE = "this series", "its machine"
"""Whose change a mark on Trend is."""
EventRow = dict[Hashable, Any]
_TIME = "datetime64[us, UTC]"
_OF_EVENT = "id machine group case status direction commit detectable cause state".split()
_POINT = "run_id commit committed_at started_at".split()
_MORE = "effect low high before_s after_s moved what title key evidence triage_said".split()
_COLUMNS = [*_OF_EVENT, *_MORE, *(f"{end}_{name}" for end in ("first", "last") for name in _POINT)]


def what(event: Event) -> str:
    """What did it: a fact that changed, or the commit that it began with."""
    if event.is_reset:
        return event.why or "a baseline reset"
    facts = [one.text for one in event.evidence if one.kind == "fact"]
    if facts and event.cause in ("environment", "measurement changed"):
        return facts[0]
    return f"commit {event.first.commit[:8]}"


def event_rows(events: Sequence[Event]) -> pd.DataFrame:
    """A row for each event: fields of Event, `first_*` and `last_*` of its points, `what` did it,
    that as a `title` with the first line of the commit's message, a `key` that names it in an
    address, `evidence` as lines, and what somebody has said (`triage_said`)."""
    rows = []
    for event in events:
        name = what(event)
        key = hashlib.sha1(f"{name}|{event.cause}".encode(), usedforsecurity=False).hexdigest()[:10]
        likely = (one.subject for one in event.evidence if one.kind == "likely commit")
        subject = next(likely, None) if name.startswith("commit ") else None
        row = {field: getattr(event, field) for field in _OF_EVENT} | compared(event)
        row |= {f"first_{field}": getattr(event.first, field) for field in _POINT}
        if event.last is not None:
            row |= {f"last_{field}": getattr(event.last, field) for field in _POINT}
        row |= {
            "moved": event.moved[0] if event.moved else np.nan,
            "what": name,
            "title": f"{name} {subject or ''}".strip(),
            "key": key,
            "evidence": evidence_lines(event),
            "triage_said": entry_in_words(event) or None,
        }
        rows.append(row)
    types = {name: _TIME for name in _COLUMNS if name.endswith("_at")}
    types |= dict.fromkeys(("effect", "low", "high", "before_s", "after_s", "moved"), "float64")
    return pd.DataFrame(rows, columns=_COLUMNS).astype({**types, "detectable": "float64"})


def series_rows(series: Sequence[Series]) -> pd.DataFrame:
    """A row for each series: fields of hostbench.judge.history.Series, its `workload`, and since
    when it has no number (`since_commit`, `since_committed_at`; missing where it has)."""
    rows = [
        {
            **{name: getattr(one, name) for name in Series.__struct_fields__},
            "workload": one.case.partition("[")[0],
            "since_commit": one.stopped and one.stopped.since.commit,
            "since_committed_at": one.stopped and one.stopped.since.committed_at,
        }
        for one in series
    ]
    more = ["workload", "since_commit", "since_committed_at"]
    types = dict.fromkeys(("value", "noise", "detectable", "change"), "float64")
    types |= {"judged": "bool", "points": "int64", "since_committed_at": _TIME}
    return pd.DataFrame(rows, columns=[*Series.__struct_fields__, *more]).astype(types)


def causes(events: pd.DataFrame, series: pd.DataFrame) -> pd.DataFrame:
    """A row for each cause, the `key` of its events: the worst `state` of its events, the largest
    `size`, `since` the first of them, `machines`, how many `series` (of a machine that moved as a
    whole, those that moved with it), `cause`, `what`, and the `sparkline` of the worst event's
    series, or of its machine where that moved as a whole. What fails now comes first, then the
    largest."""
    sparks = dict(zip(series["id"], series["sparkline"], strict=True))
    rows = []
    for key, own in _worst_first(events).groupby("key", sort=False):
        worst = own.iloc[0]
        along = own.groupby("group")["moved"].max().sum()
        drawn = next((sparks[id] for id in own["id"] if id in sparks), None)
        rows.append(
            {
                "key": key,
                "state": worst["state"],
                "size": worst["effect"],
                "since": own["first_committed_at"].min(),
                "machines": ", ".join(dict.fromkeys(own["machine"])),
                "series": int(max(own.loc[own["case"] != "", "id"].nunique(), along)),
                "cause": worst["cause"],
                "what": worst["title"],
                "sparkline": _of_machine(series, worst["group"]) if drawn is None else drawn,
            }
        )
    columns = "key state size since machines series cause what sparkline".split()
    return pd.DataFrame(rows, columns=columns)


def _of_machine(series: pd.DataFrame, group: str) -> list[float]:
    """What a machine did as a whole: the median of its longest sparklines, each over its mean."""
    own = series.loc[series["group"] == group, "sparkline"]
    own = own[own.map(len) == max(own.map(len), default=0)]
    shares = [np.divide(one, np.mean(one)) for one in own if len(one)]
    return [float(one) for one in np.median(shares, axis=0)] if shares else []


def worst_of(own: pd.DataFrame) -> EventRow:
    """Of the events of a cause the one that its row is called after."""
    return _worst_first(own).to_dict("records")[0]


def _worst_first(events: pd.DataFrame) -> pd.DataFrame:
    """By state, then those that moved most."""
    rank, size = events["state"].map(STATES.index), events["effect"].abs().fillna(0.0)
    order = pd.DataFrame({"rank": rank, "by": -size}).sort_values(["rank", "by"], kind="stable")
    return events.loc[order.index]


def counted(events: pd.DataFrame) -> dict[str, int]:
    """State -> causes in it; each cause by its worst state."""
    worst = _worst_first(events).drop_duplicates("key")["state"].value_counts()
    return {name: int(worst.get(name, 0)) for name in STATES}


def commands(row: EventRow, results: Path | str) -> str:
    """What a person may type about an event, a line each: asv's own commands of another project's
    benchmark. A name with signs that no entry of triage may hold has none: pasted into a terminal
    they could be anything. A table at a URL is only compared."""
    id, commit, case = (str(row[name]) for name in ("id", "commit", "case"))
    if not (id + commit + str(row["machine"])).isprintable():
        return ""
    where = results if isinstance(results, str) else str(results.absolute())
    at = f" --results {shlex.quote(where)}"
    sides = [str(row[f"{side}_commit"])[:12] for side in ("last", "first")]
    workload = case.partition("[")[0]
    is_local, ours = isinstance(results, Path), declared(workload) is not None
    two = sides[0] != sides[1] and isinstance(row["last_commit"], str)
    name = f"^{re.escape(workload)}$"
    lines = []
    if case and is_local and ours:
        lines.append(f"hostbench run --case {shlex.quote(as_typed(case))}")
    elif case and is_local and two:
        lines.append(f"asv continuous {' '.join(sides)} --bench {shlex.quote(name)}")
        lines.append(f"asv find {'..'.join(sides)} {shlex.quote(name)}")
    if two:
        one = f" --machine {shlex.quote(str(row['machine']))}"
        lines.append(f"hostbench compare {' '.join(sides)}{one}{at}")
    if is_local:
        typed = shlex.quote(as_typed(id))
        lines += [f"hostbench bisect {typed}{at}"] if case and ours else []
        way = " --direction faster" if row["direction"] == "faster" else ""
        about = f"{typed} {shlex.quote(commit)} investigating{way}"
        lines.append(f"hostbench triage set {about}{at}")
    return "\n".join(lines)


def triage_warnings(triage: Triage, today: pd.Timestamp) -> list[str]:
    """What cannot be read, as the CLI warns of it, and which entries have expired."""
    return [f"{path}: {text}" for path, text in triage.warnings] + [
        f"{path}: the entry has expired: {entry.state} of {entry.series} since {entry.since}"
        for path, entry in triage.entries.items()
        if entry.is_expired(today.date())
    ]
