"""`hostbench changes`: every step in every series, and each machine's own events."""

from collections.abc import Sequence
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
from hostbench.judge.events import Judged
from hostbench.judge.grid import Along
from hostbench.report import changes, choice
from hostbench.report.blocks import Page
from hostbench.report.choice import Request, Selection, choose
from hostbench.report.event_words import no_run, unjudged
from hostbench.report.judged import Explainer, judge_history
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
    wanted = Request.read(series)
    history = open_history(results)
    check_machines([machine, *wanted.machines], history.machines())
    judged = judge_history(history, axis)
    begin = None if since is None else _since(since, judged)
    chosen = choose(judged, wanted, machine)
    if not any(selection.machine and selection.judged.grid.cases for selection in chosen):
        raise NothingMeasured(_nothing(series, machine, chosen))
    chosen = [selection for selection in chosen if selection.machine]
    explainer = Explainer(history, judged, Path.cwd(), axis, begin)
    for path, text in explainer.triage.warnings:
        warn(f"{path}: {text}")
    page = Page(
        blocks=lambda: changes.blocks(chosen, explainer, every=all),
        table=lambda: changes.table(chosen, explainer),
        document=lambda: changes.as_json(chosen, explainer),
    )
    show_page(format, page)
    if choice.has_failed(chosen):
        return EXIT_FAILED
    if any(explainer.assess(event).fails for event, _ in choice.events(chosen)):
        return EXIT_REGRESSION
    if not choice.series(chosen) and not choice.machines(chosen):
        names = ", ".join(selection.judged.grid.group for selection in chosen)
        raise NothingMeasured(
            f"a machine's own events are told from {MIN_SERIES} series or more: {names} has fewer"
        )
    if why := unjudged(pair for selection in chosen for pair in selection.counted()):
        raise NothingMeasured(why)
    return EXIT_OK


def _nothing(series: Sequence[str], machine: str | None, chosen: Sequence[Selection]) -> str:
    grids = [selection.judged.grid for selection in chosen]
    if series and any(grid.cases for grid in grids):
        where = f" of --machine {machine}" if machine else ""
        names = " or ".join(series)
        return f"nothing stored{where} is {names}; `hostbench changes --format json` names all"
    why = no_run(grids)
    return why if any(grid.left_out for grid in grids) else f"{why}; `hostbench run`"


def _since(text: str, judged: Sequence[Judged]) -> datetime:
    """The date of a commit that was measured or that git knows, or a date in ISO 8601.

    Raises UsageError for anything else.
    """
    commit = commit_of(Path.cwd(), text) or text
    columns = (column for own in judged for column in own.grid.columns)
    stored = (column.committed_at for column in columns if column.commit.startswith(commit))
    if len(commit) >= SHORTEST_COMMIT and (known := next(stored, None)) is not None:
        return known
    try:
        date = datetime.fromisoformat(committed_at(Path.cwd(), commit) or text)
        return pd.to_datetime(date, utc=True)
    except ValueError:
        raise UsageError(
            f"--since {text!r} is no date, as in 2026-11-21 or 2026-11-21T09:00Z, and no commit "
            "that was measured or that git knows here"
        ) from None
