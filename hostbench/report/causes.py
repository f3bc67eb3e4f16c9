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
from hostbench.core.units import format_change
from hostbench.families import declared
from hostbench.judge.events import Event
from hostbench.report.event_words import entry_in_words, evidence_lines
from hostbench.store.triage import Triage

FAILS, PROVISIONAL, IN_TRIAGE, OLD = "fails now", "provisional", "in triage", "older"
FASTER, OVER, RESET = "faster", "recovered", "baseline reset"
STATES = (FAILS, PROVISIONAL, IN_TRIAGE, OLD, FASTER, OVER, RESET)
"""What has to be looked at comes first; recovered: also temporary, or ended by a baseline reset."""
SERIES, MACHINE = "this series", "its machine"
"""Whose change a mark on Trend is."""
COLUMNS = "key state change size since machines series cause what sparkline".split()
EventRow = dict[Hashable, Any]
_TIME = "datetime64[us, UTC]"


def state(event: Event) -> str:
    """One of STATES. What is over is so whatever somebody has said of it."""
    if event.is_reset:
        return RESET
    if event.fails:
        return FAILS
    if event.status not in ("confirmed", "provisional"):
        return OVER
    if event.triage is not None and not event.lapsed:
        return IN_TRIAGE
    if event.status == "provisional":
        return PROVISIONAL
    return FASTER if event.effect < 0 else OLD


def what(event: Event) -> str:
    """What did it: a fact that changed, or the commit that it began with."""
    if event.is_reset:
        return event.why or "a baseline reset"
    facts = [one.text for one in event.evidence if one.kind == "fact"]
    if facts and event.cause in ("environment", "measurement changed"):
        return facts[0]
    return f"commit {event.first.commit[:8]}"


def title(event: Event) -> str:
    """What did it; a commit with the first line of the message of the one that most likely did."""
    name = what(event)
    likely = (one.subject for one in event.evidence if one.kind == "likely commit")
    return f"{name} {next(likely, None) or ''}".strip() if name.startswith("commit ") else name


def event_rows(events: Sequence[Event]) -> pd.DataFrame:
    """A row for each event: fields of Event, `first_*` and `last_*` of its points, the `state`,
    `what` did it, that as a `title`, a `key` that names it in an address, `evidence` as lines, and
    what somebody has said (`triage_said`)."""
    rows = pd.DataFrame([_row(event) for event in events], columns=[*_COLUMNS])
    return rows.astype(_COLUMNS)


def _row(event: Event) -> dict[str, Any]:
    name = what(event)
    key = hashlib.sha1(f"{name}|{event.cause}".encode(), usedforsecurity=False).hexdigest()[:10]
    is_step = not event.is_reset
    return {
        **{field: getattr(event, field) for field in _FIELDS},
        **{field: getattr(event, field) if is_step else None for field in _OF_STEP},
        **{f"first_{field}": getattr(event.first, field) for field in _POINT},
        **{f"last_{field}": event.last and getattr(event.last, field) for field in _POINT},
        "moved": event.moved[0] if event.moved else None,
        "state": state(event),
        "what": name,
        "title": title(event),
        "key": key,
        "evidence": evidence_lines(event),
        "triage_said": None if event.triage is None else entry_in_words(event.triage),
    }


_FIELDS = "id machine group case kind status direction commit detectable why cause fails".split()
_OF_STEP = "effect low high before_s after_s".split()
_POINT = "run_id commit committed_at started_at".split()
_COLUMNS: dict[str, str] = {
    **dict.fromkeys(_FIELDS, "object"),
    **dict.fromkeys([*_OF_STEP, "detectable"], "float64"),
    **{
        f"{end}_{field}": _TIME if field.endswith("_at") else "object"
        for end in ("first", "last")
        for field in _POINT
    },
    "moved": "Int64",
    **dict.fromkeys(("state", "what", "title", "key", "evidence", "triage_said"), "object"),
    "fails": "bool",
}
"""Column -> its type."""


def causes(events: pd.DataFrame, series: pd.DataFrame) -> pd.DataFrame:
    """A row for each cause: the worst `state` of its events, `change` in words, its largest
    `size`, `since` the first of them, `machines`, how many `series` (of a machine that moved as a
    whole, those that moved with it), `cause`, `what`, and the `sparkline` of the worst event's
    series, or of its machine where that moved as a whole. What fails now comes first, then the
    largest."""
    if events.empty:
        return pd.DataFrame(columns=COLUMNS)
    ranked = _worst_first(events)
    worst = ranked.drop_duplicates("key")
    of_key = events.groupby("key")
    own = events[events["case"] != ""].groupby("key")["id"].nunique().to_dict()
    along = events.groupby(["key", "group"])["moved"].max().groupby("key").sum().to_dict()
    places = events[["key", "machine"]].drop_duplicates().groupby("key")["machine"]
    sparks = dict(zip(series["id"], series["sparkline"], strict=True))
    drawn = ranked[ranked["id"].isin(sparks.keys())].drop_duplicates("key")
    ids = dict(zip(drawn["key"], drawn["id"], strict=True))
    return pd.DataFrame(
        {
            "key": worst["key"],
            "state": worst["state"],
            "change": worst["effect"].map(in_words),
            "size": worst["effect"],
            "since": worst["key"].map(of_key["first_committed_at"].min()),
            "machines": worst["key"].map(places.agg(", ".join)),
            "series": [int(max(own.get(key, 0), along[key])) for key in worst["key"]],
            "cause": worst["cause"],
            "what": worst["title"],
            "sparkline": [
                sparks[ids[key]] if key in ids else _of_machine(series, group)
                for key, group in zip(worst["key"], worst["group"], strict=True)
            ],
        }
    ).reset_index(drop=True)


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


def in_words(effect: Any) -> str:
    """`+12.3%`; a factor where percent would be a long number."""
    if pd.isna(effect):
        return ""
    if effect == 0:
        return "none"
    return format_change(effect)


def counted(events: pd.DataFrame) -> dict[str, int]:
    """State -> causes in it; each cause by its worst state."""
    if events.empty:
        return dict.fromkeys(STATES, 0)
    ranks = events.assign(rank=events["state"].map(STATES.index)).groupby("key")["rank"].min()
    numbers = ranks.value_counts()
    return {name: int(numbers.get(place, 0)) for place, name in enumerate(STATES)}


def stopped(series: pd.DataFrame) -> pd.DataFrame:
    """Series that had numbers and whose newest runs gave none."""
    return series[series["since_run"].notna()]


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
    two = sides[0] != sides[1] and row["last_commit"] is not None
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


def triage_warnings(said: Triage, today: pd.Timestamp) -> list[str]:
    """What cannot be read, as the CLI warns of it, and which entries have expired."""
    found = [f"{path}: {text}" for path, text in said.warnings]
    return found + [
        f"{path}: {entry_in_words(entry)} has expired: {entry.series} since {entry.since}"
        for path, entry in said.entries.items()
        if entry.is_expired(today.date())
    ]


def nothing(series: pd.DataFrame) -> str:
    """Why there is no change to show, in a sentence or two."""
    said = f"No change to show: {series['judged'].sum():,} of {len(series):,} series are judged."
    others = series.loc[~series["judged"], "why"]
    return f"{said} The usual reason: {others.mode().iloc[0]}." if len(others) else said
