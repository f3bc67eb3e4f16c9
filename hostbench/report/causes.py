"""Events as causes: a row for each commit or fact that moved numbers, over all machines."""

import hashlib
import re
import shlex
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hostbench.core.case import as_typed
from hostbench.core.units import format_change
from hostbench.families import declared
from hostbench.report.event_words import entry_in_words
from hostbench.store.triage import Triage

FAILS, PROVISIONAL, IN_TRIAGE, OLD = "fails now", "provisional", "in triage", "older"
FASTER, OVER, RESET = "faster", "recovered", "baseline reset"
STATES = (FAILS, PROVISIONAL, IN_TRIAGE, OLD, FASTER, OVER, RESET)
"""What has to be looked at comes first; recovered: also temporary, or ended by a baseline reset."""
SERIES, MACHINE = "this series", "its machine"
"""Whose change a mark on Trend is."""
COLUMNS = "key state change size since machines series cause what sparkline".split()
_LANDED = ("most likely ", "less likely ")
_NO_FACT = (*_LANDED, "measured otherwise: ")
_OF_CAUSE = "kind fails triage lapsed status effect why evidence cause first_commit".split()

EventRow = dict[Hashable, Any]


def state(row: EventRow) -> str:
    """Of one event of report.judging.with_triage: one of STATES."""
    if row["kind"] == "break":
        return RESET
    if row["fails"]:
        return FAILS
    if row["triage"] is not None and not row["lapsed"]:
        return IN_TRIAGE
    if row["status"] == "provisional":
        return PROVISIONAL
    if row["status"] != "confirmed":
        return OVER
    return FASTER if row["effect"] < 0 else OLD


def what(row: EventRow) -> str:
    """What did it: a fact that changed, or the commit that it began with."""
    if row["kind"] == "break":
        return str(row["why"]) or "a baseline reset"
    facts = [line for line in row["evidence"] if " -> " in line and not line.startswith(_NO_FACT)]
    if facts and row["cause"] in ("environment", "measurement changed"):
        return str(facts[0])
    return f"commit {str(row['first_commit'])[:8]}"


def subject(row: EventRow) -> str:
    """The first line of the commit that most likely did it, where git knew it."""
    landed = next((one for one in row["evidence"] if one.startswith(_LANDED)), "")
    first = landed[len(_LANDED[0]) :].partition(";")[0].partition(" and ")[0]
    return first.partition(" ")[2].strip()


def with_causes(events: pd.DataFrame) -> pd.DataFrame:
    """The events with their `state`, `what` did it, and a `key` that names that in an address."""
    each = zip(*(events[name].tolist() for name in _OF_CAUSE), strict=True)
    rows: list[EventRow] = [dict(zip(_OF_CAUSE, row, strict=True)) for row in each]
    names = [what(row) for row in rows]
    found = events.assign(state=[state(row) for row in rows], what=names)
    return found.assign(
        key=[
            hashlib.sha1(f"{name}|{row['cause']}".encode(), usedforsecurity=False).hexdigest()[:10]
            for name, row in zip(names, rows, strict=True)
        ]
    )


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
            "what": [_titled(row) for row in worst[["what", "evidence"]].to_dict("records")],
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


def _titled(row: EventRow) -> str:
    """What did it; a commit with the first line of its message."""
    is_commit = str(row["what"]).startswith("commit ")
    return f"{row['what']} {subject(row) if is_commit else ''}".strip()


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
