"""`hostbench triage`: what people say of events: accepted, expected, noise, investigating."""

from dataclasses import asdict, replace
from pathlib import Path

from hostbench.cli.history import open_history
from hostbench.cli.output import show, show_page, warn
from hostbench.cli.results import results_folder
from hostbench.core.case import as_stored, as_typed
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, UsageError
from hostbench.core.suggest import did_you_mean
from hostbench.core.units import format_change
from hostbench.judge.events import Event
from hostbench.judge.history import History
from hostbench.report.blocks import Column, Page, Table
from hostbench.report.history import history_of
from hostbench.store import triage
from hostbench.store.triage import Entry
from hostbench.vcs.repo import commit_of

SHORTEST_COMMIT = 7
_COLUMNS = (
    Column(("state",), "state"),
    Column(("since",), "since", lambda since: since if "T" in since else since[:12]),
    Column(("effect",), "effect", lambda effect: "" if effect is None else format_change(effect)),
    Column(("series",), "series", as_typed),
    Column(("note",), "note"),
)


def list_entries(*, format: str, results: str | None) -> int:
    """Exit code 4 where an entry cannot be read; nothing is lost by that."""
    folder = results_folder(results)
    stored = triage.read(folder)
    for path, text in stored.warnings:
        warn(f"{path}: {text}")
    rows = list(map(asdict, stored.entries.values()))
    table, nothing = Table(_COLUMNS, rows), f"no triage entries in {folder / triage.FOLDER}"
    show_page(format, Page(blocks=lambda: [table if rows else nothing], table=lambda: table))
    return EXIT_FAILED if stored.warnings else EXIT_OK


def set_entry(*, series: str, since: str, results: str | None, state: str, note: str | None) -> int:
    """Write an entry, and say what it is about."""
    folder = results_folder(results)
    history = _history(folder)
    known = [f"{own.case}@{own.group}" for own in history.series]
    known += [f"machine:{group.name}" for group in history.groups]
    entry, events = _entry(history, series, since)
    if entry.series not in known:
        raise UsageError(
            f"{series!r} is no series that is stored{did_you_mean(series, known)}; write "
            "case@machine or machine:NAME, as `hostbench changes` has it"
        )
    if not triage.is_first_bad(entry.since):
        raise UsageError(
            f"{since!r} is no commit that git knows here, and none of what is stored: copy it from "
            "`hostbench changes`"
        )
    largest = max((event.effect for event in events), default=None)
    entry = replace(entry, state=state, note=note, effect=largest)
    show(f"wrote {triage.put(folder, entry)}")
    if largest is None:
        warn(
            f"nothing stored went slower at {entry.since} in {entry.series}: the entry counts for "
            "whatever will, of any size"
        )
    else:
        num = f"{len(events)} events, the largest" if len(events) > 1 else "1 event,"
        change = format_change(largest)
        show(f"it names {num} {change}; one that is clearly larger than that will fail again")
    return EXIT_OK


def clear_entry(*, series: str, since: str, results: str | None) -> int:
    """Delete what was said of an event."""
    folder = results_folder(results)
    entry, _ = _entry(_history(folder), series, since)
    paths = triage.about(folder, entry)
    if not paths:
        named = f"{entry.series} since {entry.since}"
        raise UsageError(f"no triage entry for {named}; `hostbench triage list` lists them")
    for path in paths:
        path.unlink()
        show(f"deleted {path}")
    return EXIT_OK


def _history(folder: Path) -> History:
    if not folder.is_dir():
        return History(events=(), series=(), groups=())
    return history_of(open_history(str(folder)))


def _entry(history: History, series: str, since: str) -> tuple[Entry, list[Event]]:
    """An entry with the whole names of its series and its commit, so that what is typed in two ways
    is one file; and what it is about of what is stored."""
    names = {name for event in history.events for name in event.near if name.startswith(since)}
    is_short = len(since) >= SHORTEST_COMMIT and len(names) == 1
    commit = names.pop() if is_short else commit_of(Path.cwd(), since) or since
    entry = Entry(series=as_stored(series), since=commit, state="")
    return entry, [event for event in history.events if event.is_named_by(entry)]
