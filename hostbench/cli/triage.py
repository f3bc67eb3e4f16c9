"""`hostbench triage`: what people say of events: accepted, expected, noise, investigating."""

import datetime
import json
from argparse import Namespace
from pathlib import Path

from hostbench.cli.places import results_folder, warn
from hostbench.clock import today
from hostbench.errors import EXIT_FAILED, EXIT_OK, UsageError
from hostbench.runner.repo import commit_of
from hostbench.store import triage
from hostbench.store.triage import Entry

HEADINGS = ("state", "direction", "since", "until", "owner", "series", "note")


def execute(args: Namespace) -> int:
    """List, set or clear. Exit code 4 where an entry cannot be read; nothing is lost by that."""
    results = results_folder(args)
    if args.action == "list":
        return _list(results, args.format)
    since = commit_of(Path.cwd(), args.since) or args.since
    if args.action == "clear":
        print(f"deleted {triage.clear(results, args.series, since, args.direction)}")
    else:
        print(f"wrote {triage.put(results, _entry(args, since))}")
    return EXIT_OK


def _entry(args: Namespace, since: str) -> Entry:
    until = None
    if args.until is not None:
        try:
            until = datetime.date.fromisoformat(args.until)
        except ValueError:
            raise UsageError(f"--until {args.until!r} is no date: write it as 2027-01-31") from None
    return Entry(
        series=args.series,
        since=since,
        direction=args.direction,
        state=args.state,
        owner=args.owner,
        until=until,
        note=args.note,
    )


def _list(results: Path, form: str) -> int:
    found = triage.read(results)
    for path, text in found.warnings:
        warn(f"{path}: {text}")
    rows = [_row(entry) for entry in found.entries.values()]
    if form == "json":
        print(json.dumps([dict(zip(HEADINGS, row, strict=True)) for row in rows], indent=2))
    elif rows:
        table = [HEADINGS, *rows]
        widths = [max(len(row[place]) for row in table) for place in range(len(HEADINGS))]
        for row in table:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
    else:
        print(f"no triage entries in {results / triage.FOLDER}")
    return EXIT_FAILED if found.warnings else EXIT_OK


def _row(entry: Entry) -> tuple[str, ...]:
    expired = " (expired)" if entry.is_expired(today()) else ""
    return (
        entry.state + expired,
        entry.direction,
        entry.since if "T" in entry.since else entry.since[:12],
        str(entry.until or ""),
        entry.owner or "",
        entry.series,
        entry.note or "",
    )
