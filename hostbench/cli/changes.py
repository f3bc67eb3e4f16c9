"""`hostbench changes`: every step in every series, and in each machine as a whole."""

from pathlib import Path

from hostbench.cli.output import show_page, warn
from hostbench.cli.results import open_history
from hostbench.core.errors import EXIT_FAILED, EXIT_OK, EXIT_REGRESSION, NothingMeasured
from hostbench.judge.changepoint.detector import FEWEST_POINTS
from hostbench.report.changes import left_out, page, select
from hostbench.report.history import history_of


def execute(
    *, series: tuple[str, ...], machine: str | None, all: bool, format: str, results: str | None
) -> int:
    """Judge what is stored, and print what changed. Exit code 4 where a stored file is damaged,
    else 1 where a confirmed step to slower stayed, is recent, and has no triage entry, 3 where
    nothing could be judged."""
    stored = open_history(results, machine)
    judged = history_of(stored, stored.warnings.append)
    for warning in stored.warnings:  # also of triage
        warn(warning)
    chosen = select(judged, series, machine)
    if not chosen.series:
        why = left_out(chosen) or "`hostbench run` measures"
        raise NothingMeasured(f"no run that may be judged is stored: {why}")
    show_page(format, page(chosen, every=all, root=Path.cwd()))
    if stored.warnings:
        return EXIT_FAILED
    if any(event.fails for event in chosen.events):
        return EXIT_REGRESSION
    if not any(series.judged for series in chosen.series):
        longest = max(series.longest for series in chosen.series)
        raise NothingMeasured(
            f"too few points to judge any series: the longest piece has {longest}, {FEWEST_POINTS} "
            "are needed"
        )
    return EXIT_OK
