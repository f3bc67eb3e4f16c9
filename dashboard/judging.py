"""What was judged, and what was said of it, as the pages see it."""

import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import stored
import streamlit as st
from charts_status import cells

from hostbench.judge.grid import Along
from hostbench.report.causes import causes, with_causes
from hostbench.report.judged_table import JudgedTable
from hostbench.report.judging import KeptSets, Progress, progress, start
from hostbench.store import triage
from hostbench.store.triage import Entry, Triage


def judged_table(folder: stored.Place, axis: Along) -> JudgedTable:
    """What was judged, as small frames. Where it is not fresh, `how_far` has it made.

    Raises UsageError when there is no such folder.
    """
    sets = _sets(str(folder), axis, stored.signature(folder))
    return JudgedTable(sets, None if isinstance(folder, str) else folder)


@st.cache_resource(max_entries=8, show_spinner=False)
def _sets(folder: str, axis: Along, signature: int) -> KeptSets:
    return KeptSets.of(stored.history(folder, signature), axis)


def how_far(folder: stored.Place, axis: Along) -> Progress:
    """How far the process is that judges what is stored: it is started where there is none. git is
    asked in the project of the results, else where the dashboard was started."""
    state = str(folder), axis, stored.signature(folder)
    process, sets = _process(*state), _sets(*state)
    ended, told = process.poll(), progress(sets)
    if ended == 0 and not sets.whole.is_dir():  # files have changed meanwhile
        _process.clear(*state)
        stored.look_again(folder)
    if ended:
        why = f"the process that judges ended with {ended}; `hostbench changes` says more"
        return Progress(said="", error=told.error or why)
    return Progress(said="starting") if told.error else told


@st.cache_resource(max_entries=8, show_spinner=False)
def _process(folder: str, axis: Along, signature: int) -> subprocess.Popen[bytes]:
    return start(folder, _sets(folder, axis, signature))


@dataclass(frozen=True, slots=True, kw_only=True)
class Caused:
    """What was judged, event by event and cause by cause; shared, so only read it."""

    events: pd.DataFrame
    """JudgedTable.events, with causes.with_causes."""
    series: pd.DataFrame
    """JudgedTable.series."""
    causes: pd.DataFrame
    cells: pd.DataFrame
    """charts_status.cells."""
    said: stored.Said
    """said_now"""


def caused(folder: stored.Place, axis: Along, table: JudgedTable) -> Caused:
    """Kept while what was judged and said is the same."""
    return _caused(said_now(folder, axis, table), table)


def said_now(folder: stored.Place, axis: Along, table: JudgedTable) -> stored.Said:
    """Changes with the stored files, with what is judged of them, with an entry of triage, and at
    midnight."""
    entries = 0 if isinstance(folder, str) else hash(tuple(_written(folder / triage.FOLDER)))
    day = str(pd.Timestamp.now("UTC").date())
    return *stored.now(folder), axis, table.name, entries, day


def _written(folder: Path) -> Iterator[tuple[str, int]]:
    """Entries of triage, and when each was written; somebody may be at it."""
    for path in sorted(folder.glob(f"*{triage.SUFFIX}")):
        with suppress(OSError):
            yield path.name, path.stat().st_mtime_ns


@st.cache_resource(max_entries=4, show_spinner=False)
def _caused(said: stored.Said, _table: JudgedTable) -> Caused:
    events, series = with_causes(_table.events()), _table.series()
    found = causes(events, series)
    return Caused(events=events, series=series, causes=found, cells=cells(series), said=said)


def triage_of(folder: stored.Place) -> Triage:
    """What people have said; there is none of a table at a URL."""
    return Triage() if isinstance(folder, str) else triage.read(folder)


def say_of(folder: stored.Place, events: pd.DataFrame, state: str, note: str) -> int:
    """Write an entry of triage for each of these events (JudgedTable.events) that is a step; how
    many. Raises UsageError for what cannot be kept."""
    assert isinstance(folder, Path)
    steps = events[events["kind"] != "break"]
    for row in steps.to_dict("records"):
        entry = Entry(
            series=row["id"],
            since=row["commit"],
            direction=row["direction"],
            state=state,
            effect=float(row["effect"]),
            note=note.strip() or None,
        )
        triage.put(folder, entry)
    return len(steps)
