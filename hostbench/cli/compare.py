"""`hostbench compare A B`: what became slower or faster from A to B, and how sure that is."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shlex import quote

from hostbench.cli.history import open_history
from hostbench.cli.output import show_page
from hostbench.cli.results import check_machines
from hostbench.core.errors import EXIT_FAILED, EXIT_NOTHING_MEASURED, EXIT_OK, EXIT_REGRESSION
from hostbench.judge.two_sides import Comparison, compare
from hostbench.report.blocks import Page
from hostbench.report.comparison import as_json, blocks, table
from hostbench.report.side_runs import LEVEL, Key, chosen
from hostbench.report.sides import Sides, both
from hostbench.vcs.repo import commit_of


def execute(
    *,
    a: str,
    b: str | None = None,
    all: bool,
    format: str,
    results: str | None,
    machine: str | None = None,
    names: tuple[str, str] | None = None,
    remarks: Sequence[str] = (),
    on_judged: Callable[[Mapping[Key, Comparison], Sides], None] = lambda comparisons, sides: None,
) -> int:
    """Without `b`: `a` against the level of the runs before it. `names`: what a person calls the
    two, where that is not how they are found. `remarks` stand below the table. `on_judged` gets
    what the page shows. Exit code 4 where a series that has a number at A failed at B, 1 where one
    got slower, 3 where nothing could be decided, else 0."""
    history = open_history(results)
    runs = history.sides()
    if machine is not None:
        check_machines([machine], history.machines())
        runs = runs[runs["machine"] == machine]
    typed = (LEVEL, a) if b is None else (a, b)
    first, second = chosen(runs, typed, lambda name: commit_of(Path.cwd(), name))
    sides = both(first, second, history)
    comparisons = compare(sides.series)
    again = " ".join(map(quote, ("hostbench", "compare", a, *([b] if b else []))))
    again += f" --results {quote(results)}" if results else ""
    again += f" --machine {quote(machine)}" if machine else ""
    called = names or (first.called, second.called)
    page = Page(
        blocks=lambda: blocks(comparisons, sides, called, again, every=all, remarks=remarks),
        table=lambda: table(comparisons, sides),
        document=lambda: as_json(comparisons, sides, typed, remarks),
    )
    show_page(format, page)
    on_judged(comparisons, sides)
    if sides.broke:
        return EXIT_FAILED
    verdicts = {comparison.verdict for comparison in comparisons.values()}
    if "slower" in verdicts:
        return EXIT_REGRESSION
    return EXIT_OK if verdicts - {"undecided"} else EXIT_NOTHING_MEASURED
