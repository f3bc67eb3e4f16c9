"""Events, explained, as the blocks and tables of the page Changes. No streamlit."""

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

import pandas as pd
from words import case as in_words

from hostbench.judge.events import DetectedEvent
from hostbench.judge.grid import Along
from hostbench.report.choice import Selection
from hostbench.report.event_words import (
    HEADINGS,
    cells,
    entry_in_words,
    is_listed,
    no_run,
    rest,
    said_of_all,
    state,
    summary,
    unjudged,
    workload_of,
)
from hostbench.report.judged import ExplainedEvent
from hostbench.store.triage import Triage

FAILS, PROVISIONAL, IN_TRIAGE, OLD = STANDINGS = "fails now", "provisional", "in triage", "old"
FASTER = "faster"
CAUSES = {
    "code": "Likely the code",
    "environment": "Likely the environment",
    "machine-wide": "The whole machine",
    "measurement changed": "Something else is measured",
    "unknown": "Cause unknown",
}
STATE, SINCE, CHANGE, INTERVAL, LEVELS, DETECTS, SERIES = HEADINGS
ALONG: dict[str, Along] = {"commit date": "commit", "run time": "run-time"}
"""As the axes are called on the pages."""


def listed(told: Iterable[ExplainedEvent], every: bool) -> list[ExplainedEvent]:
    """What `hostbench changes` lists; with `every` the rest, too; no baseline resets."""
    steps = (one for one in told if not is_reset(one))
    return [one for one in steps if every or is_listed(one.found, one.recent)]


def is_reset(told: ExplainedEvent) -> bool:
    return told.found.change.kind == "break"


def not_listed(told: Iterable[ExplainedEvent], shown: Iterable[ExplainedEvent]) -> list[str]:
    """How many steps there are besides those that are shown, in a line."""
    kept = {id(one) for one in shown}
    left = rest(one.found for one in told if not is_reset(one) and id(one) not in kept)
    return [left] if left else []


def nothing(asked: Sequence[Selection], axis: Along) -> str:
    """Why no change is shown, in a sentence."""
    grids = [one.judged.grid for one in asked]
    if not any(grid.cases for grid in grids):
        why = no_run(grids)
    else:
        why = unjudged(pair for one in asked for pair in one.counted())
    said = why or f"no change to show: {summary(asked, axis)[0]}"
    return f"{said[0].upper()}{said[1:]}."


def standing(told: ExplainedEvent) -> str:
    """One of STANDINGS, or what else it is: nothing has to be done about that."""
    found = told.found
    if told.fails:
        return FAILS
    if told.triage is not None and not told.lapsed:
        return IN_TRIAGE
    if found.status == "provisional":
        return PROVISIONAL
    if found.status != "confirmed":
        return "ended by a baseline reset" if found.status == "ended" else found.status
    return FASTER if found.change.effect < 0 else OLD


def counts(told: Iterable[ExplainedEvent]) -> dict[str, int]:
    """How many of each of STANDINGS, and of what else there is."""
    found = Counter(map(standing, told))
    return {**{name: found[name] for name in STANDINGS}, **found}


def heading(block: Sequence[ExplainedEvent]) -> str:
    """`Likely the code: 10 series on box, +9.3% to +10.4%, since 3b056a7d 2026-03-02`; the workload
    where they are all of one."""
    first = min((one.found for one in block), key=lambda one: one.first.committed_at)
    effects = sorted(one.found.change.effect for one in block)
    sizes = list(dict.fromkeys(f"{effect:+.1%}" for effect in (effects[0], effects[-1])))
    ends = {one.found.first.commit for one in block}
    more = " and later" if len(ends) > 1 else ""
    return (
        f"{CAUSES[block[0].cause.label]}: {_whose(block)}, {' to '.join(sizes)}, "
        f"since {first.first.commit[:8]} {first.first.committed_at:%Y-%m-%d}{more}"
    )


def _whose(block: Sequence[ExplainedEvent]) -> str:
    machines = list(dict.fromkeys(one.found.grid.group for one in block))
    where = ", ".join(machines)
    if block[0].found.series is None:
        return f"machine {where}"
    names = {workload_of(one.found) for one in block}
    of_one = f" of {names.pop()}" if len(names) == 1 else ""
    return f"{len(block)} series{of_one} on {where}"


def evidence(block: Sequence[ExplainedEvent]) -> list[str]:
    """The cause in words, and what somebody has said; the same for the whole block."""
    return [*block[0].cause.why, *(f"triage: {said}" for said in said_of_all(block))]


def row(told: ExplainedEvent) -> dict[str, str]:
    """What is said of an event: HEADINGS as the command has them, but that STATE says whether it
    fails, and its cause."""
    return {
        **dict(zip(HEADINGS, cells(told), strict=True)),
        STATE: f"{state(told)}, {FAILS}" if told.fails else state(told),
        "cause": told.cause.label,
        "evidence": "; ".join(told.cause.why),
        "triage": said_of(told),
    }


def table(block: Iterable[ExplainedEvent], axis: str) -> pd.DataFrame:
    """A row for each series; `trend` is where its page is, from the page Changes. The machine is a
    column where there are several."""
    columns = [
        STATE,
        CHANGE,
        "trend",
        SERIES,
        SINCE,
        INTERVAL,
        LEVELS,
        DETECTS,
        "machine",
        "triage",
    ]
    rows = pd.DataFrame(
        {
            **row(one),
            SERIES: _series(one),
            "trend": _trend(one, axis),
            "machine": one.found.grid.group,
        }
        for one in block
    )[columns].rename(columns={DETECTS: "smallest detectable"})
    return rows if rows["machine"].nunique() > 1 else rows.drop(columns="machine")


def _series(told: ExplainedEvent) -> str:
    """`transfer.host_to_device: cuda, 64 MiB, pinned, blocking=True`."""
    found = told.found
    if found.series is None:
        return "the machine" + (
            f" ({found.moved[0]} of {found.moved[1]} series)" if found.moved else ""
        )
    case, workload = case_of(found), workload_of(found)
    return f"{workload}: {in_words(case, workload)}"


def case_of(found: DetectedEvent) -> str:
    """Of a series' event; empty for a machine's own."""
    return "" if found.series is None else found.grid.cases[found.series]


def said_of(told: ExplainedEvent) -> str:
    """The entry of triage, and why it counts no more."""
    if told.triage is None:
        return ""
    return entry_in_words(told.triage) + (f" ({told.lapsed})" if told.lapsed else "")


def _trend(told: ExplainedEvent, axis: str) -> str:
    """Empty for a machine's own event, which no page shows alone."""
    found = told.found
    if found.series is None:
        return ""
    view = {
        "machine": found.grid.machine,
        "workload": workload_of(found),
        "case": case_of(found),
        "axis": axis,
    }
    return f"trend?{urlencode(view, quote_via=quote)}"


def commands(block: Iterable[ExplainedEvent], results: Path | str) -> str:
    """What takes up those that nobody has, a line each. A name with signs that no entry may hold
    has none: pasted into a terminal they could be anything. At a URL there is no triage."""
    if isinstance(results, str):
        return ""
    where = shlex.quote(str(results.absolute()))
    lines = []
    for one in block:
        event = one.found.event
        if standing(one) != IN_TRIAGE and (event.id + event.commit).isprintable():
            way = " --direction faster" if event.direction == "faster" else ""
            lines.append(
                f"hostbench triage set {shlex.quote(event.id)} {shlex.quote(event.commit)} "
                f"investigating{way} --results {where}"
            )
    return "\n".join(lines)


def triage_warnings(said: Triage, today: pd.Timestamp) -> list[str]:
    """What cannot be read, as the CLI warns of it, and which entries have expired."""
    found = [f"{path}: {text}" for path, text in said.warnings]
    return found + [
        f"{path}: {entry_in_words(entry)} has expired: {entry.series} since {entry.since}"
        for path, entry in said.entries.items()
        if entry.is_expired(today.date())
    ]
