"""`hostbench compare A B`: what became slower or faster from A to B, and how sure that is."""

from pathlib import Path
from shlex import quote

from hostbench.cli.history import open_history
from hostbench.cli.output import show_page
from hostbench.cli.results import check_machines
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.report.comparison import Compared, compared, page
from hostbench.report.sides import LEVEL
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
    both = of_stored((LEVEL, a) if b is None else (a, b), results, machine)
    again = " ".join(map(quote, ("hostbench", "compare", a, *([b] if b else []))))
    again += f" --results {quote(results)}" if results else ""
    again += f" --machine {quote(machine)}" if machine else ""
    show_page(format, page(both, again, every=all))
    return exit_code(both)


def of_stored(sides: tuple[str, str], results: str | None, machine: str | None = None) -> Compared:
    """Raises as report.comparison.compared."""
    history = open_history(results)
    check_machines([machine], history.machines())
    machines = None if machine is None else [machine]
    return compared(history, sides, lambda name: commit_of(Path.cwd(), name), machines)


def exit_code(both: Compared) -> int:
    """4 where a series that has a number at A failed at B, 1 where one got slower, 3 where nothing
    could be decided, else 0."""
    if both.broke:
        return EXIT_FAILED
    verdicts = {comparison.verdict for comparison in both.comparisons.values()}
    if "slower" in verdicts:
        return EXIT_REGRESSION
    return EXIT_OK if verdicts - {"undecided"} else EXIT_NOTHING_MEASURED
