"""`hostbench triage`: what people say of events: accepted, expected, noise, investigating."""

import re
from dataclasses import asdict, replace
from pathlib import Path

from hostbench.cli.output import show, show_page, warn
from hostbench.cli.results import open_history, results_folder
from hostbench.core.case import as_stored, as_typed, did_you_mean
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, UsageError
from hostbench.core.units import number_of, one_line
from hostbench.judge.events import MACHINE
from hostbench.report.blocks import Column, Page, Table
from hostbench.report.history import history_of
from hostbench.store import triage
from hostbench.store.triage import Entry
from hostbench.vcs.repo import commit_of

MAX_NOTE = 2000
_COLUMNS = (
    Column(("state",), "state"),
    Column(("since",), "since", lambda since: since if "T" in since else since[:12]),
    Column(("series",), "series", as_typed),
    Column(("note",), "note"),
    Column(("file",), "file"),
)


def execute(
    *,
    series: str | None,
    since: str | None,
    state: str | None,
    note: str | None,
    format: str,
    results: str | None,
) -> int:
    """Write the entry that is named, or list all: exit code 4 where one cannot be read; nothing is
    lost by that."""
    folder = results_folder(results)
    if series is not None and since is not None and state is not None:
        text = one_line(note or "")[:MAX_NOTE] or None
        _write(folder, Entry(series=as_stored(series), since=since, state=state, note=text))
        return EXIT_OK
    if series is not None:
        raise UsageError("name all of SERIES SINCE STATE, or none: then every entry is listed")
    unread = list[str]()
    entries = triage.read(folder, unread.append)
    for text in unread:
        warn(text)
    rows = [asdict(entry) | {"file": path.name} for path, entry in entries.items()]
    table, nothing = Table(_COLUMNS, rows), f"no triage entries in {folder / triage.FOLDER}"
    show_page(format, Page(blocks=lambda: [table if rows else nothing], table=lambda: table))
    return EXIT_FAILED if unread else EXIT_OK


def _write(folder: Path, entry: Entry) -> None:
    """With the whole name of its commit, so that what is typed in two ways is one file; and show
    what it is about."""
    history = history_of(open_history(str(folder)))
    known = [series.id for series in history.series]
    known += sorted({f"{MACHINE}{series.group}" for series in history.series})
    if entry.series not in known:
        raise UsageError(
            f"'{as_typed(entry.series)}' is not a series that is stored"
            f"{did_you_mean(entry.series, known)}; write case@machine or machine:NAME, as "
            "`hostbench changes` prints it"
        )
    since = entry.since
    names = {name for event in history.events for name in event.near if name.startswith(since)}
    whole = names.pop() if len(names) == 1 else commit_of(Path.cwd(), since)
    entry = replace(entry, since=whole or since)
    if not re.match(triage.FIRST_BAD, entry.since):
        raise UsageError(
            f"{since!r} is not a commit that git knows here, and not stored: copy it from "
            "`hostbench changes`"
        )
    num = sum(event.is_named_by(entry) for event in history.events)
    show(f"wrote {triage.put(folder, entry)}; delete it to take it back")
    show(f"it applies to {number_of(num, 'event')}")
