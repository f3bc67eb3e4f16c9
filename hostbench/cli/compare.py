"""`hostbench compare A B`: what became slower or faster from A to B, and how sure that is."""

from pathlib import Path

from hostbench.cli.output import show_page, warn
from hostbench.cli.results import open_history
from hostbench.core.errors import EXIT_FAILED
from hostbench.report.comparison import compared, page
from hostbench.report.sides import LEVEL, chosen
from hostbench.vcs.repo import commit_of


def execute(
    *,
    a: str,
    b: str | None = None,
    all: bool,
    format: str,
    results: str | None,
    machine: str | None = None,
) -> int:
    """Without `b`: `a` against the level of the runs before it."""
    history = open_history(results, machine)
    runs = history.sides()
    if machine is not None:
        runs = runs[runs["machine"] == machine]
    names = (LEVEL, a) if b is None else (a, b)
    both = compared(history, *chosen(runs, names, lambda name: commit_of(Path.cwd(), name)))
    for warning in history.warnings:  # also of nights
        warn(warning)
    show_page(format, page(both, every=all))
    return EXIT_FAILED if history.warnings else both.exit_code
