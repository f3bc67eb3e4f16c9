"""`hostbench changes`: every step in every series, and each machine's own events."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pandas as pd

from hostbench.cli.history import open_history
from hostbench.cli.output import warn
from hostbench.cli.page import show_page
from hostbench.cli.results import check_machines
from hostbench.core.errors import (
    EXIT_FAILED,
    EXIT_OK,
    EXIT_REGRESSION,
    NothingMeasured,
    UsageError,
)
from hostbench.judge.events import Judged
from hostbench.judge.grid import Along
from hostbench.judge.machine import MIN_SERIES
from hostbench.report import changes, choice
from hostbench.report.choice import Request, Selection, choose
from hostbench.report.event_words import no_run, unjudged
from hostbench.report.judged import Explainer, judge_history
from hostbench.vcs.repo import commit_of, committed_at

SHORTEST_COMMIT = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesOptions:
    series: tuple[str, ...]
    machine: str | None
    axis: Along
    since: str | None
    all: bool
    format: str
    results: str | None


def execute(options: ChangesOptions) -> int:
    """Judge what is stored, and print what changed. Exit code 4 where a series that had numbers
    fails in its machine's newest run, else 1 where a confirmed step to slower stayed, is recent,
    and has no triage entry."""
    wanted, axis = Request.read(options.series), options.axis
    history = open_history(options.results)
    check_machines([options.machine, *wanted.machines], history.machines())
    judged = judge_history(history, axis)
    begin = None if options.since is None else _since(options.since, judged)
    asked = choose(judged, wanted, options.machine)
    if not any(one.machine and one.judged.grid.cases for one in asked):
        raise NothingMeasured(_nothing(options.series, options.machine, asked))
    asked = [one for one in asked if one.machine]
    explainer = Explainer(history, judged, Path.cwd(), axis, begin)
    for path, text in explainer.triage.warnings:
        warn(f"{path}: {text}")
    show_page(
        options.format,
        lambda: changes.page(asked, explainer, every=options.all),
        lambda: changes.table(asked, explainer),
        lambda: changes.as_json(asked, explainer),
    )
    if choice.has_failed(asked):
        return EXIT_FAILED
    if any(explainer.fails(found) for found, _ in choice.events(asked)):
        return EXIT_REGRESSION
    _check_asked(asked)
    return EXIT_OK


def _nothing(series: Sequence[str], machine: str | None, asked: Sequence[Selection]) -> str:
    grids = [one.judged.grid for one in asked]
    if series and any(grid.cases for grid in grids):
        where = f" of --machine {machine}" if machine else ""
        names = " or ".join(series)
        return f"nothing stored{where} is {names}; `hostbench changes --format json` names all"
    said = no_run(grids)
    return said if any(grid.left_out for grid in grids) else f"{said}; `hostbench run`"


def _since(text: str, judged: Sequence[Judged]) -> pd.Timestamp:
    """The date of a commit that was measured or that git knows, or a date in ISO 8601.

    Raises UsageError for anything else.
    """
    commit = commit_of(Path.cwd(), text) or text
    columns = (column for one in judged for column in one.grid.columns)
    stored = next((one.committed_at for one in columns if one.commit.startswith(commit)), None)
    known = stored if len(commit) >= SHORTEST_COMMIT else None
    if known is not None:
        return known
    try:
        date = datetime.fromisoformat(committed_at(Path.cwd(), commit) or text)
        return pd.to_datetime(date, utc=True)
    except ValueError:
        raise UsageError(
            f"--since {text!r} is no date, as in 2026-11-21 or 2026-11-21T09:00Z, and no commit "
            "that was measured or that git knows here"
        ) from None


def _check_asked(asked: Sequence[Selection]) -> None:
    """Raises NothingMeasured where nothing that was asked for could be told."""
    if not choice.series(asked) and not choice.machines(asked):
        names = ", ".join(one.judged.grid.group for one in asked)
        raise NothingMeasured(
            f"a machine's own events are told from {MIN_SERIES} series or more: {names} has fewer"
        )
    if why := unjudged(pair for one in asked for pair in one.counted()):
        raise NothingMeasured(why)
