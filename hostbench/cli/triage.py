"""`hostbench triage`: what people say of events: accepted, expected, noise, investigating."""

import datetime
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from hostbench.cli.changes import SHORTEST_COMMIT
from hostbench.cli.history import open_history
from hostbench.cli.output import show, show_page, warn
from hostbench.cli.results import results_folder
from hostbench.core.case import as_stored
from hostbench.core.clock import today
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.core.units import format_change
from hostbench.judge.events import Event
from hostbench.judge.history import History
from hostbench.report.blocks import Column, Page, Table
from hostbench.report.history import history_of
from hostbench.store import triage
from hostbench.store.triage import Entry
from hostbench.vcs.repo import commit_of


def _since(since: str) -> str:
    return since if "T" in since else since[:12]


_COLUMNS = (
    Column(
        ("state", "expired"), "state", lambda state, expired: state + " (expired)" * bool(expired)
    ),
    Column(("direction",), "direction"),
    Column(("since",), "since", _since),
    Column(("effect",), "effect", lambda effect: "" if effect is None else format_change(effect)),
    *(Column((name,), name) for name in ("until", "owner", "series", "note")),
)


def list_entries(*, format: str, results: str | None) -> int:
    """Exit code 4 where an entry cannot be read; nothing is lost by that."""
    folder = results_folder(results)
    stored = triage.read(folder)
    for path, text in stored.warnings:
        warn(f"{path}: {text}")
    entries, day = list(stored.entries.values()), today()
    table = Table(_COLUMNS, [_row(entry, day) for entry in entries])
    nothing = f"no triage entries in {folder / triage.FOLDER}"
    show_page(format, Page(blocks=lambda: [table if entries else nothing], table=lambda: table))
    return EXIT_FAILED if stored.warnings else EXIT_OK


def set_entry(
    *,
    series: str,
    since: str,
    direction: str,
    results: str | None,
    state: str,
    owner: str | None,
    note: str | None,
    until: datetime.datetime | None,
) -> int:
    """Write an entry, and say what it is about."""
    entry = Entry(
        series=as_stored(series),  # what is typed in two ways is one entry
        since=since,
        direction=direction,
        state=state,
        owner=owner,
        note=note,
        until=until and until.date(),
    )
    folder = results_folder(results)
    entry, events = _with_events(folder, entry)
    largest = max((event.effect for event in events), key=abs, default=None)
    for path in triage.put(folder, replace(entry, effect=largest)):
        show(f"wrote {path}")
    if largest is None:
        warn(
            f"nothing stored went {entry.direction} at {entry.since} in {entry.series}: the entry "
            "counts for whatever will, of any size"
        )
    else:
        num = f"{len(events)} events, the largest" if len(events) > 1 else "1 event,"
        change = format_change(largest)
        show(f"it names {num} {change}; one that is clearly larger than that will fail again")
    return EXIT_OK


def clear_entry(*, series: str, since: str, direction: str, results: str | None) -> int:
    """Delete an entry."""
    entry = Entry(series=as_stored(series), since=since, direction=direction, state="")
    folder = results_folder(results)
    entry, _ = _with_events(folder, entry)
    for path in triage.clear(folder, entry):
        show(f"deleted {path}")
    return EXIT_OK


def _with_events(folder: Path, entry: Entry) -> tuple[Entry, list[Event]]:
    """The entry with the whole name of its commit, and what is stored and it is about."""
    if not folder.is_dir():
        return replace(entry, since=commit_of(Path.cwd(), entry.since) or entry.since), []
    stored = open_history(str(folder))
    history = history_of(stored)
    entry = replace(entry, since=_commit(entry.since, history.commits))
    return entry, _about(entry, history) or _about(entry, history_of(stored, "run-time"))


def _about(entry: Entry, history: History) -> list[Event]:
    return [e for e in history.events if not e.is_reset and entry.is_about(e.name)]


def _commit(since: str, measured: Iterable[str]) -> str:
    """The whole name of a commit that was measured, or that git knows: one event, one file."""
    named = [name for name in measured if len(since) >= SHORTEST_COMMIT and name.startswith(since)]
    return named[0] if len(named) == 1 else commit_of(Path.cwd(), since) or since


def _row(entry: Entry, day: datetime.date) -> dict[str, Any]:
    until = entry.until and entry.until.isoformat()
    return {**asdict(entry), "until": until, "expired": entry.is_expired(day)}
