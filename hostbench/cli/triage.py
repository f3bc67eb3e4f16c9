"""`hostbench triage`: what people say of events: accepted, expected, noise, investigating."""

import datetime
import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import get_args

from hostbench.cli.places import results_folder, warn
from hostbench.clock import today
from hostbench.errors import EXIT_FAILED, EXIT_OK, UsageError
from hostbench.judge.events import Event
from hostbench.judge.grid import Axis
from hostbench.report.judged import judge_history
from hostbench.runner.repo import commit_of
from hostbench.store import triage
from hostbench.store.history import History
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
        _set(results, _entry(args, since))
    return EXIT_OK


def _set(results: Path, entry: Entry) -> None:
    """Write an entry, with the size of what it names as that is stored."""
    named = _named(results, entry)
    largest = max((event.effect for event in named), key=abs, default=None)
    print(f"wrote {triage.put(results, replace(entry, effect=largest))}")
    if largest is None:
        warn(
            f"nothing stored went {entry.direction} at {entry.since} in {entry.series}: the entry "
            "will count for whatever does, of any size"
        )
    else:
        num = f"{len(named)} events, the largest" if len(named) > 1 else "1 event,"
        print(
            f"it names {num} {largest:+.1%}; one that is clearly larger than that will fail again"
        )


def _named(results: Path, entry: Entry) -> list[Event]:
    """The stored events that an entry is about, along commits or else the time of the runs."""
    if not results.is_dir():
        return []
    history, axes = History(results), get_args(Axis)
    along = ([one for own in judge_history(history, axis) for one in own.found] for axis in axes)
    events = ([one.event for one in found if one.change.kind != "break"] for found in along)
    named = ([one for one in own if entry.is_about(one)] for own in events)
    return next(filter(None, named), [])


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
