"""`hostbench changes`: every step in every series, and each machine's own events."""

from datetime import datetime
from pathlib import Path

import pandas as pd

from hostbench.cli.history import open_history
from hostbench.cli.output import show_page, warn
from hostbench.cli.results import check_machines
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_REGRESSION,
    NothingMeasured,
    UsageError,
)
from hostbench.judge.changepoint.machine import MIN_SERIES
from hostbench.judge.grid import Along
from hostbench.judge.history import History
from hostbench.report import changes
from hostbench.report.blocks import Page
from hostbench.report.history import as_of_today, entries_of, history_of, with_subjects
from hostbench.vcs.repo import commit_of, committed_at

SHORTEST_COMMIT = 7


def execute(
    *,
    series: tuple[str, ...],
    machine: str | None,
    axis: Along,
    since: str | None,
    all: bool,
    format: str,
    results: str | None,
) -> int:
    """Judge what is stored, and print what changed. Exit code 4 where a series that had numbers
    fails in its machine's newest run, else 1 where a confirmed step to slower stayed, is recent,
    and has no triage entry."""
    stored = open_history(results)
    check_machines([machine, *changes.machines_of(series)], stored.machines())
    history, triage = history_of(stored, axis), entries_of(stored)
    for path, text in triage.warnings:
        warn(f"{path}: {text}")
    begin = None if since is None else _date_of(since, history)
    chosen = changes.select(history, as_of_today(history, triage, begin), series, machine)
    if not chosen.basis:
        raise NothingMeasured(_nothing(series, machine, history))
    steps = [event for event in chosen.events if not event.is_reset]
    listed = [event for event in steps if all or changes.is_listed(event)]
    here = Path.cwd()
    page = Page(
        blocks=lambda: changes.blocks(chosen, history, with_subjects(listed, here)),
        table=lambda: changes.table(with_subjects(chosen.events, here)),
        document=lambda: changes.as_json(chosen, history, with_subjects(chosen.events, here)),
    )
    show_page(format, page)
    if chosen.has_failed:
        return EXIT_FAILED
    if any(event.fails for event in chosen.events):
        return EXIT_REGRESSION
    if not chosen.series and not any(group.has_mode for group in chosen.groups):
        names = ", ".join(group.name for group in chosen.groups)
        raise NothingMeasured(
            f"a machine's own events are told from {MIN_SERIES} series or more: {names} has fewer"
        )
    if why := changes.why_nothing(chosen):
        raise NothingMeasured(why)
    return EXIT_OK


def _nothing(series: tuple[str, ...], machine: str | None, history: History) -> str:
    """Why there is no series that was asked for."""
    own = [group for group in history.groups if machine in (None, group.machine)]
    names = {group.name for group in own}
    if series and any(one.group in names and one.longest is not None for one in history.series):
        where = f" of --machine {machine}" if machine else ""
        asked = " or ".join(series)
        return f"nothing stored{where} is {asked}; `hostbench changes --format json` names all"
    left = changes.left_out(own)
    return f"no run that may be judged is stored{f': {left}' if left else '; `hostbench run`'}"


def _date_of(text: str, history: History) -> datetime:
    """The date of a commit that was measured or that git knows, or a date in ISO 8601.

    Raises UsageError for anything else.
    """
    commit = commit_of(Path.cwd(), text) or text
    known = (at for name, at in history.commits.items() if name.startswith(commit))
    if len(commit) >= SHORTEST_COMMIT and (date := next(known, None)) is not None:
        return date
    try:
        date = datetime.fromisoformat(committed_at(Path.cwd(), commit) or text)
        return pd.to_datetime(date, utc=True)
    except ValueError:
        raise UsageError(
            f"--since {text!r} is no date, as in 2026-11-21 or 2026-11-21T09:00Z, and no commit "
            "that was measured or that git knows here"
        ) from None
