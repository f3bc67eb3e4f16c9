"""`hostbench triage`: what people say of events: accepted, expected, noise, investigating."""

import datetime
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hostbench.cli.changes import SHORTEST_COMMIT
from hostbench.cli.history import open_history
from hostbench.cli.output import show, warn
from hostbench.cli.page import show_page
from hostbench.cli.results import results_folder
from hostbench.core.case import as_stored
from hostbench.core.clock import today
from hostbench.core.errors import EXIT_FAILED, EXIT_OK
from hostbench.judge.events import Judged
from hostbench.report.judged import judge_history
from hostbench.report.table import Cell, Column, Table
from hostbench.store import triage
from hostbench.store.triage import Entry, EventName
from hostbench.vcs.repo import commit_of

COLUMNS = (
    Column(title="state", keys=("state", "expired")),
    *(
        Column(title=name, keys=(name,))
        for name in ("direction", "since", "effect", "until", "owner", "series", "note")
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageOptions:
    action: Literal["list", "set", "clear"]
    results: str | None
    format: str = "text"
    series: str = ""
    since: str = ""
    direction: str = "slower"
    state: str = ""
    owner: str | None = None
    note: str | None = None
    until: datetime.datetime | None = None


def execute(options: TriageOptions) -> int:
    """List, set or clear. Exit code 4 where an entry cannot be read; nothing is lost by that."""
    folder = results_folder(options.results)
    if options.action == "list":
        return _list(folder, options.format)
    history = open_history(options.results) if folder.is_dir() else None
    judged = judge_history(history, "commit") if history else []
    entry = Entry(
        series=as_stored(options.series),  # what is typed in two ways is one entry
        since=_commit(options.since, judged),
        direction=options.direction,
        state=options.state,
        owner=options.owner,
        note=options.note,
        until=options.until and options.until.date(),
    )
    events = _events(entry, judged)
    if history and not events:
        events = _events(entry, judge_history(history, "run-time"))
    if options.action == "clear":
        paths = triage.clear(folder, entry)
    else:
        effect = max((event.effect for event in events), key=abs, default=None)
        paths = triage.put(folder, replace(entry, effect=effect))
    for path in paths:
        show(f"{'deleted' if options.action == 'clear' else 'wrote'} {path}")
    if options.action == "set":
        _tell(entry, events)
    _tell_others(folder, entry, events, paths)
    return EXIT_OK


def _commit(since: str, judged: Iterable[Judged]) -> str:
    """The whole name of a commit that was measured, or that git knows: one event, one file."""
    stored = {column.commit for own in judged for column in own.grid.columns}
    named = [one for one in stored if len(since) >= SHORTEST_COMMIT and one.startswith(since)]
    return named[0] if len(named) == 1 else commit_of(Path.cwd(), since) or since


def _events(entry: Entry, judged: Iterable[Judged]) -> list[EventName]:
    """What is stored and the entry is about."""
    found = (one for own in judged for one in own.found if one.change.kind != "break")
    return [one.event for one in found if entry.is_about(one.event)]


def _tell(entry: Entry, events: Sequence[EventName]) -> None:
    """What an entry that was set is about."""
    if events:
        largest = max((event.effect for event in events), key=abs)
        num = f"{len(events)} events, the largest" if len(events) > 1 else "1 event,"
        show(f"it names {num} {largest:+.1%}; one that is clearly larger than that will fail again")
    else:
        warn(
            f"nothing stored went {entry.direction} at {entry.since} in {entry.series}: the entry "
            "counts for whatever will, of any size"
        )


def _tell_others(
    results: Path, entry: Entry, events: Sequence[EventName], paths: Sequence[Path]
) -> None:
    """Entries that are about the same events, too."""
    named = EventName(id=entry.series, commit=entry.since, direction=entry.direction, effect=0.0)
    for path, other in triage.read(results).entries.items():
        if path not in paths and any(other.is_about(event) for event in (named, *events)):
            warn(f"{path} is about it, too: {other.state}, {other.series}")


def _list(results: Path, form: str) -> int:
    found = triage.read(results)
    for path, text in found.warnings:
        warn(f"{path}: {text}")
    entries, day = list(found.entries.values()), today()
    table = Table(columns=COLUMNS, rows=tuple(_row(one, day) for one in entries))
    show_page(
        form,
        lambda: [table if entries else f"no triage entries in {results / triage.FOLDER}"],
        lambda: table,
    )
    return EXIT_FAILED if found.warnings else EXIT_OK


def _row(entry: Entry, day: datetime.date) -> tuple[Cell, ...]:
    expired = entry.is_expired(day)
    effect = "" if entry.effect is None else f"{entry.effect:+.1%}"
    return (
        Cell(entry.state + (" (expired)" if expired else ""), (entry.state, expired)),
        Cell(entry.direction, (entry.direction,)),
        Cell(entry.since if "T" in entry.since else entry.since[:12], (entry.since,)),
        Cell(effect, (entry.effect,)),
        Cell(str(entry.until or ""), (entry.until and entry.until.isoformat(),)),
        Cell(entry.owner or "", (entry.owner,)),
        Cell(entry.series, (entry.series,)),
        Cell(entry.note or "", (entry.note,)),
    )
